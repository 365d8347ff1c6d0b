"""One trial: an experiment of one method under every seed, then what it is worth. A kill at any moment costs little.

OUT/start/ holds the policy that all trials start from, its evaluation, and the pairs. OUT/trials/0003/ is the folder of
an experiment, as `compare` makes them; in it outcome.json says what the trial is worth, or why it failed, and once it
is there nothing is trained again. judged/ in it holds policies that were judged anew, where they trained under another
threshold than all are judged by.
"""

import os
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpo_rl.errors import DataError, UsageError
from corpo_rl.evaluation import ItemTable, measure_values, table_from_json
from corpo_rl.experiment.folder import locked, read_json, read_rows, write_json
from corpo_rl.experiment.inputs import fitting_items, load_base, load_task, with_own_files
from corpo_rl.experiment.runner import RunError, prepare, run_all
from corpo_rl.experiment.settings import Settings, settings_from_json
from corpo_rl.experiment.worker import BASE, job_name
from corpo_rl.sweep.plan import START, Plan
from corpo_rl.sweep.space import Value
from corpo_rl.sweep.statistics import selection_half

OUTCOME = "outcome.json"

_LETTING_GO = 60.0
"""Seconds that a process left behind by a kill, elsewhere on a cluster, is given to let go of its folder."""

Stopped = Callable[[], bool]
"""Whether the sweep is being ended."""


class StoppedError(Exception):
    """The sweep is being ended, and a trial with it."""


@dataclass(frozen=True)
class Outcome:
    """What became of a trial."""

    value: float | None
    """The objective over all seeds, on the half of the items that chooses; None when the trial failed."""
    reason: str | None
    """Why it failed; None when it did not."""


@dataclass(frozen=True)
class Work:
    """One thing to be run: what a process here, or a node of a cluster, is given."""

    kind: str
    """"start", "trial", or "confirm"."""
    number: int = 0
    """Number of the trial, or of the one that is confirmed."""
    params: Mapping[str, Value] = field(default_factory=dict)
    """Its value of each searched dimension."""
    seeds: tuple[int, ...] = ()
    """Fresh seeds to confirm under."""

    def folder(self, out: Path) -> Path:
        """Where it is run."""
        if self.kind == "start":
            return out / START
        return confirm_folder(out, self.number) if self.kind == "confirm" else trial_folder(out, self.number)


def run_work(
    out: Path, plan: Plan, work: Work, *, seed_jobs: int, keep_policies: bool, stopped: Stopped = lambda: False
) -> Outcome:
    """Run it, going on from whatever of it is there; only trials have a value.

    Args:
        out: Folder of the sweep.
        plan: Its plan.
        work: What to run.
        seed_jobs: Seeds side by side; changes no number.
        keep_policies: Leave the trained weights of trials; those of a confirmation always stay.
        stopped: Asked while it runs.

    Raises:
        RunError: A run failed for a reason that lies outside the values, such as a full disk.
        UsageError: The objective is not among the figures of the evaluation.
        StoppedError: `stopped` said so.
    """
    if work.kind == "start":
        run_start(out, plan, stopped=stopped)
        return Outcome(None, None)
    if work.kind == "confirm":
        reason = train_and_judge(
            out,
            plan,
            work.folder(out),
            params=work.params,
            seeds=work.seeds,
            seed_jobs=seed_jobs,
            stopped=stopped,
        )
        write_json(work.folder(out) / OUTCOME, {"seeds": list(work.seeds), "reason": reason})
        return Outcome(None, reason)
    return run_trial(
        out,
        plan,
        number=work.number,
        params=work.params,
        seed_jobs=seed_jobs,
        keep_policies=keep_policies,
        stopped=stopped,
    )


def confirm_folder(out: Path, number: int) -> Path:
    """Folder in which a chosen trial's setting is trained again under fresh seeds."""
    return out / "confirm" / f"{number:04d}"


def trial_folder(out: Path, number: int) -> Path:
    """Folder of a trial."""
    return out / "trials" / f"{number:04d}"


def run_start(out: Path, plan: Plan, *, stopped: Stopped) -> None:
    """Make and judge the policy that all trials start from, and say which items belong to one problem.

    Raises:
        RunError: Its process failed.
        DataError: The split has too few problems to keep half of them.
    """
    settings = settings_from_json(read_json(out / START / "experiment.json")["settings"])
    _wait_for(out / START)
    _run_all(out / START, settings, methods=("corpo",), seeds=(), jobs=1, stopped=stopped)
    if not (out / "problems.json").exists():
        write_json(out / "problems.json", _problems(out / START, settings))
    if plan.split not in read_json(out / "problems.json"):
        raise UsageError(f"--split: the task has no items in {plan.split}")
    selection_half(problems(out, plan.split))


def _problems(folder: Path, settings: Settings) -> dict[str, list[int]]:
    """For each split the problem of each item that is evaluated, counted from 0."""
    task = load_task(settings, folder)
    items = read_json(folder / BASE / "items.json")
    found = {}
    fitting = None
    for split in _tables(folder / BASE):
        if items[split]["too_long"]:
            fitting = fitting or fitting_items(task, load_base(settings, folder / BASE), settings)
            used: Sequence[Any] = fitting.by_split[split]
        else:
            used = list(task.items(split))[: settings.eval_items or None]
        texts = [getattr(item, "problem", place) for place, item in enumerate(used)]
        places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        found[split] = [places[text] for text in texts]
    return found


def problems(out: Path, split: str) -> NDArray[np.int64]:
    """Problem of each item of a split. Shape [I]."""
    return np.array(read_json(out / "problems.json")[split], dtype=np.int64)


def run_trial(
    out: Path,
    plan: Plan,
    *,
    number: int,
    params: Mapping[str, Value],
    seed_jobs: int,
    keep_policies: bool,
    stopped: Stopped,
) -> Outcome:
    """Train and judge one trial; as `run_work`."""
    folder = trial_folder(out, number)
    if (folder / OUTCOME).exists():
        told = read_json(folder / OUTCOME)
        outcome = Outcome(told["value"], told["reason"])
    else:
        started = time.monotonic()
        outcome = _outcome(out, plan, folder, params=params, seed_jobs=seed_jobs, stopped=stopped)
        seconds = round(time.monotonic() - started, 1)
        write_json(folder / OUTCOME, {**asdict(outcome), "seconds_of_last_process": seconds})
    if not keep_policies:
        for weights in (*folder.glob("runs/*/policy"), *folder.glob("runs/*/checkpoint-*"), folder / BASE / "policy"):
            shutil.rmtree(weights, ignore_errors=True)
    return outcome


def _outcome(
    out: Path, plan: Plan, folder: Path, *, params: Mapping[str, Value], seed_jobs: int, stopped: Stopped
) -> Outcome:
    reason = train_and_judge(out, plan, folder, params=params, seeds=plan.seeds, seed_jobs=seed_jobs, stopped=stopped)
    if reason is not None:
        return Outcome(None, reason)
    method = plan.trial(params, out)[0]
    values_SI = objective_values(plan, run_tables(folder, plan, method=method, seeds=plan.seeds, split=plan.split))
    chosen_SI = values_SI[:, selection_half(problems(out, plan.split))]
    defined_S = np.isfinite(chosen_SI).any(axis=1)
    if not defined_S.all():
        seed = plan.seeds[int(np.argmin(defined_S))]
        return Outcome(None, f"{plan.objective} is undefined under seed {seed}: no completion it could be read from")
    return Outcome(float(chosen_SI[np.isfinite(chosen_SI)].mean()), None)


def train_and_judge(
    out: Path,
    plan: Plan,
    folder: Path,
    *,
    params: Mapping[str, Value],
    seeds: Sequence[int],
    seed_jobs: int,
    stopped: Stopped,
) -> str | None:
    """Finish the runs of one setting under some seeds; returns why they failed, None when they did not.

    Raises:
        RunError: A run failed for a reason that lies outside the trial's values.
        StoppedError: `stopped` said so.
    """
    method, settings = plan.trial(params, out)
    settings = _prepared(folder, settings)
    _share_start(out, folder, same=settings.min_correct == plan.judged_by, warm=bool(settings.warmup_steps))
    names = {seed: job_name(method, seed) for seed in seeds}
    reason = _try_twice(folder, settings, method=method, seeds=seeds, jobs=seed_jobs, stopped=stopped)
    if reason is not None:
        return reason
    for seed, name in names.items():
        step = diverged_at(folder / "runs" / name)
        if step is not None:
            return f"seed {seed}: diverged, loss or gradient is not a number from step {step} on"
    if settings.min_correct != plan.judged_by:
        for name in names.values():
            judged = replace(
                settings, policy=str(folder / "runs" / name / "policy"), min_correct=plan.judged_by, warmup_steps=0
            )
            prepared = _prepared(folder / "judged" / name, with_own_files(judged, folder))
            _run_all(folder / "judged" / name, prepared, methods=(method,), seeds=(), jobs=1, stopped=stopped)
    return None


def _wait_for(folder: Path) -> None:
    with locked(folder, wait_seconds=_LETTING_GO):
        pass


def _prepared(folder: Path, settings: Settings) -> Settings:
    """As `prepare`, also where a kill came while the folder was being made."""
    with locked(folder, wait_seconds=_LETTING_GO):
        if not (folder / "experiment.json").exists():
            for path in folder.iterdir():
                if path.name != ".lock":
                    path.unlink()
        return prepare(folder, settings)


def _try_twice(
    folder: Path, settings: Settings, *, method: str, seeds: Sequence[int], jobs: int, stopped: Stopped
) -> str | None:
    """Run; what a signal ended is tried once more, since it may have been meant for another process."""
    for attempt in (1, 2):
        try:
            _run_all(folder, settings, methods=(method,), seeds=seeds, jobs=jobs, stopped=stopped)
            return None
        except RunError as error:
            # what a worker tells by itself (a full disk, a broken task) is no fault of the trial's values
            told = any(folder.glob("runs/*/error.json")) or "no space left" in str(error)
            if told or not any(folder.glob("runs/*/worker.log")):
                raise
            signalled = "killed by signal" in str(error)
            if not signalled or attempt == 2:
                return _why(folder, error)
    raise AssertionError("unreachable")


def _run_all(
    folder: Path, settings: Settings, *, methods: Sequence[str], seeds: Sequence[int], jobs: int, stopped: Stopped
) -> None:
    def progress(*_: object) -> None:
        if stopped():
            raise StoppedError

    progress()
    run_all(folder, settings, methods=methods, seeds=seeds, jobs=jobs, progress=progress)


def _why(folder: Path, error: RunError) -> str:
    """What a run died of: the last line of its process, where that names an error."""
    name = str(error).partition(": ")[0]
    log = folder / "runs" / name / "worker.log"
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    named = re.match(r"[\w.]*(Error|Exception|Exit)\b", last)
    return f"{name}: {last[:200]}" if named else str(error)


def diverged_at(run: Path) -> int | None:
    """First step of a run from which on its loss or gradient norm is no number to the very end; None for none."""
    at = None
    for row in read_rows(run / "metrics.jsonl"):
        undefined = row.get("loss") is None or ("grad_norm" in row and row["grad_norm"] is None)
        at = (row["step"] if at is None else at) if undefined else None
    return at


def _share_start(out: Path, folder: Path, *, same: bool, warm: bool) -> None:
    """Give a trial the start's policy, and its evaluation where it is judged by the same threshold: by hard links."""
    if (folder / BASE).exists():
        return
    source, part = out / START / BASE, folder / f".{BASE}.part"
    shutil.rmtree(part, ignore_errors=True)
    if same:
        shutil.copytree(source, part, copy_function=_link, ignore=shutil.ignore_patterns(".lock"))
    elif warm:
        shutil.copytree(source / "policy", part / "policy", copy_function=_link)
    else:
        return
    os.replace(part, folder / BASE)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another disk, or a file system without links
        shutil.copyfile(source, target)


def _tables(folder: Path) -> dict[str, ItemTable]:
    files = (folder / "evaluation").glob("*.json")
    return {path.stem: table_from_json(read_json(path)) for path in sorted(files)}


def run_tables(folder: Path, plan: Plan, *, method: str, seeds: Sequence[int], split: str) -> list[ItemTable]:
    """What each seed's policy did on a split, judged by the threshold that all are judged by.

    Raises:
        DataError: A file is missing or broken.
    """
    settings = settings_from_json(read_json(folder / "experiment.json")["settings"])
    same = settings.min_correct == plan.judged_by
    names = [job_name(method, seed) for seed in seeds]
    places = [folder / "runs" / name if same else folder / "judged" / name / BASE for name in names]
    return [table_from_json(read_json(place / "evaluation" / f"{split}.json")) for place in places]


def start_table(out: Path, split: str) -> ItemTable:
    """What the policy that all trials start from did on a split."""
    return table_from_json(read_json(out / START / BASE / "evaluation" / f"{split}.json"))


def objective_values(plan: Plan, tables: Sequence[ItemTable]) -> NDArray[np.float64]:
    """The objective of each seed at each item, NaN where undefined. Shape [S, I].

    Raises:
        UsageError: The evaluation has no such figure.
        DataError: The tables are over different items.
    """
    if len({len(table.n_samples) for table in tables}) != 1:
        raise DataError("evaluations: expected all seeds over the same items")
    found = measure_values(tables, ks=plan.ks)
    if plan.objective not in found:
        raise UsageError(f"--objective: {plan.objective!r} is not among the figures: {', '.join(found)}")
    return found[plan.objective]
