"""The trials of a sweep, one after another or side by side: drawn, run, kept; a killed search goes on."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from corpo_rl.errors import CorpoError, DataError
from corpo_rl.experiment.folder import read_json
from corpo_rl.sweep.engines import Engine
from corpo_rl.sweep.space import Value
from corpo_rl.sweep.study import FAILED, FINISHED, RUNNING, Study, Trial
from corpo_rl.sweep.trial import Outcome, Work, trial_folder

_HOPELESS = 3
"""Trials that may fail before one succeeds: more have a common cause."""

_TICK = 0.3
"""Seconds between two looks at the running trials."""


@dataclass(frozen=True)
class Status:
    """How far a search is, for whoever watches."""

    trials: Sequence[Trial]
    """All trials so far."""
    n_trials: int
    """Trials in all."""
    stages: Mapping[int, str]
    """What each running trial is doing."""


class HopelessError(CorpoError):
    """The first trials all failed."""

    exit_code = 1


def search(
    out: Path, study: Study, *, n_trials: int, engine: Engine, tell: Callable[[Status], None] = lambda _: None
) -> list[Trial]:
    """Finish trials 0 to `n_trials` - 1; what is finished already is left as it is.

    One trial at a time (an engine with one slot) is the same search whenever it is interrupted: a trial that was
    running is run again with the same values, from its checkpoints. With more, which trials are finished when the next
    is drawn depends on how fast they are.

    A trial with the values of an earlier one takes over its outcome: training it again would give the same numbers.

    Args:
        out: Folder of the sweep.
        study: Its trials.
        n_trials: Trials in all; a grid ends by itself.
        engine: Where they run.
        tell: Told how far the search is.

    Returns:
        All trials, finished or failed.

    Raises:
        HopelessError: The first trials all failed.
        CorpoError: A trial could not be run, for a reason outside its values.
    """
    running: set[int] = set()
    waiting = [trial for trial in study.trials() if trial.state == RUNNING]
    exhausted = False
    while True:
        while len(running) < engine.slots:
            trial = waiting.pop(0) if waiting else None
            if trial is None and not exhausted and len(study.trials()) < n_trials:
                trial = study.add()
                exhausted = trial is None
            if trial is None:
                break
            if not _take_over(study, trial):
                engine.submit(Work("trial", trial.number, trial.params))
                running.add(trial.number)
        tell(Status(study.trials(), n_trials, {number: stage(trial_folder(out, number)) for number in running}))
        if not running:
            return study.trials()
        for work, outcome in engine.finished(wait_seconds=_TICK):
            number = work.number
            running.remove(number)
            if outcome.value is not None:
                study.finish(number, outcome.value)
            else:
                study.fail(number, outcome.reason or "no reason given")
                _check_hope(study.trials())


def run_one(out: Path, work: Work, *, engine: Engine, tell: Callable[[str], None]) -> Outcome:
    """Run something by itself, and say what it is doing.

    Raises:
        CorpoError: It could not be run.
    """
    engine.submit(work)
    while True:
        tell(stage(work.folder(out)))
        for _, outcome in engine.finished(wait_seconds=_TICK):
            return outcome


def _take_over(study: Study, trial: Trial) -> bool:
    """Whether an earlier trial had the same values: then its outcome is this one's."""
    twin = next(
        (
            other
            for other in study.trials()[: trial.number]
            if other.state != RUNNING and other.same_as is None and same_values(other.params, trial.params)
        ),
        None,
    )
    if twin is None:
        return False
    if twin.value is not None:
        study.finish(trial.number, twin.value, same_as=twin.number)
    else:
        study.fail(trial.number, twin.reason or "no reason given", same_as=twin.number)
    return True


def same_values(one: Mapping[str, Value], other: Mapping[str, Value]) -> bool:
    """Whether two trials have the same value in each dimension."""
    return dict(one) == dict(other)


def _check_hope(trials: Sequence[Trial]) -> None:
    failed = [trial for trial in trials if trial.state == FAILED and trial.same_as is None]
    if len(failed) >= _HOPELESS and not any(trial.state == FINISHED for trial in trials):
        raise HopelessError(
            f"the first {len(failed)} trials all failed, the last one: {failed[-1].reason}; change what they have in "
            "common, or run the same command again to try the next"
        )


def stage(folder: Path) -> str:
    """What a running trial is doing, from the files of its jobs: the job that is least far."""
    found = []
    for status in (*folder.glob("base/status.json"), *folder.glob("runs/*/status.json")):
        try:
            told = read_json(status)
        except DataError:  # being replaced
            continue
        if told["stage"] != "finished":
            found.append(f"{told['stage']} {told['done']}/{told['total']}")
    return min(found, default="starting")
