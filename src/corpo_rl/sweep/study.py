"""The trials of a sweep as Optuna keeps them: each one's values, state and worth, in one SQLite file.

The file survives a kill at any moment: a trial is written with all its values in one transaction, and SQLite rolls an
unfinished one back. (Optuna's journal file does not: a line that a kill cut short is in the way of the next.) What a
trial's values are follows from the sampler's seed, the trial's number and the trials finished before it, never from
the process that draws them: each draw is made by a new sampler, seeded for that trial.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from corpo_rl.errors import DataError, MissingExtraError
from corpo_rl.sweep.plan import Plan
from corpo_rl.sweep.space import Dimension, Value, grid

if TYPE_CHECKING:
    import optuna

STORAGE = "study.db"
STUDY = "sweep"

RUNNING, FINISHED, FAILED = "running", "finished", "failed"
STATES = (RUNNING, FINISHED, FAILED)

SAME_AS, REASON = "same_as", "reason"
"""Names of the notes that are kept with a trial."""

LEAST_FOR_IMPORTANCE = 20
"""Finished trials from which importances are given: PED-ANOVA compares the best tenth with all, and of fewer that is
one trial."""


@dataclass(frozen=True)
class Trial:
    """One trial."""

    number: int
    """From 0, in the order in which they were drawn."""
    state: str
    """One of `STATES`."""
    params: Mapping[str, Value]
    """Value of each dimension that is searched."""
    value: float | None
    """The objective; None unless finished."""
    same_as: int | None
    """An earlier trial with the same values, whose outcome this one takes over; None for one of its own."""
    reason: str | None
    """Why it failed; None unless failed."""


class Study:
    """The study in a sweep's folder, made if it is not there. One process at a time may hold it."""

    def __init__(self, out: Path, plan: Plan) -> None:
        optuna = _optuna()
        self._plan = plan
        try:
            self._storage = optuna.storages.RDBStorage(f"sqlite:///{(out / STORAGE).resolve()}")
            self._study = optuna.create_study(
                storage=self._storage, study_name=STUDY, direction=plan.direction, load_if_exists=True
            )
            self._study_id = self._storage.get_study_id_from_name(STUDY)
        except Exception as error:  # SQLAlchemy's kinds, and Optuna's
            reason = " ".join(str(error).split())[:200]
            raise DataError(f"{out / STORAGE}: expected the study of this sweep, found {reason}") from error

    def trials(self) -> list[Trial]:
        """All trials, by number."""
        return [_trial(frozen) for frozen in self._study.get_trials(deepcopy=False)]

    def add(self) -> Trial | None:
        """Draw the next trial and keep it as running; None when a grid has no more."""
        optuna = _optuna()
        number = len(self._study.get_trials(deepcopy=False))
        params = self._draw(number)
        if params is None:
            return None
        self._study.add_trial(
            optuna.create_trial(
                state=optuna.trial.TrialState.RUNNING, params=params, distributions=_distributions(self._plan.searched)
            )
        )
        return self.trials()[number]

    def finish(self, number: int, value: float, *, same_as: int | None = None) -> None:
        """Keep what a running trial is worth."""
        self._note(number, SAME_AS, same_as)
        self._study.tell(number, value)

    def fail(self, number: int, reason: str, *, same_as: int | None = None) -> None:
        """Keep that a running trial failed: it has no value, not a low one."""
        self._note(number, SAME_AS, same_as)
        self._note(number, REASON, reason)
        self._study.tell(number, state=_optuna().trial.TrialState.FAIL)

    def importances(self) -> dict[str, float] | None:
        """Share of each searched dimension in what makes a trial one of the best; None where that cannot be said.

        Source:
            PED-ANOVA, https://arxiv.org/abs/2304.10255, as Optuna implements it, with its defaults.
        """
        finished = [trial for trial in self.trials() if trial.state == FINISHED]
        if len(self._plan.searched) < 2 or len(finished) < LEAST_FOR_IMPORTANCE:
            return None
        if len({trial.value for trial in finished}) < 2:
            return None
        from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

        found = get_param_importances(self._study, evaluator=PedAnovaImportanceEvaluator())
        named = {dimension.name: float(found[dimension.name]) for dimension in self._plan.searched}
        return named if all(np.isfinite(value) for value in named.values()) else None

    def close(self) -> None:
        """Let go of the file."""
        self._storage.remove_session()
        self._storage.engine.dispose()

    def _note(self, number: int, name: str, value: object) -> None:
        if value is not None:
            trial_id = self._storage.get_trial_id_from_study_id_trial_number(self._study_id, number)
            self._storage.set_trial_user_attr(trial_id, name, value)

    def _draw(self, number: int) -> dict[str, Value] | None:
        if self._plan.sampler == "grid":
            return next(islice(grid(self._plan.searched), number, None), None)
        optuna = _optuna()
        # drawn in memory: in the file a kill could leave a trial with some of its values
        scratch = optuna.create_study(direction=self._plan.direction, sampler=self._sampler(number))
        scratch.add_trials(self._study.get_trials(deepcopy=False))
        return dict(scratch.ask(_distributions(self._plan.searched)).params)

    def _sampler(self, number: int) -> "optuna.samplers.BaseSampler":
        samplers = _optuna().samplers
        seed = int(np.random.SeedSequence([self._plan.sampler_seed, number]).generate_state(1)[0])
        kind = samplers.RandomSampler if self._plan.sampler == "random" else samplers.TPESampler
        sampler: optuna.samplers.BaseSampler = kind(seed=seed)
        return sampler


def _distributions(dimensions: Sequence[Dimension]) -> dict[str, Any]:
    optuna = _optuna()
    return {
        dimension.name: optuna.distributions.CategoricalDistribution(dimension.choices)
        if dimension.choices
        else optuna.distributions.FloatDistribution(dimension.low, dimension.high, log=dimension.log)
        for dimension in dimensions
    }


def _trial(frozen: "optuna.trial.FrozenTrial") -> Trial:
    name = frozen.state.name
    state = {"COMPLETE": FINISHED, "FAIL": FAILED}.get(name, RUNNING)
    return Trial(
        number=frozen.number,
        state=state,
        params=dict(frozen.params),
        value=float(frozen.value) if state == FINISHED and frozen.value is not None else None,
        same_as=frozen.user_attrs.get(SAME_AS),
        reason=frozen.user_attrs.get(REASON) if state == FAILED else None,
    )


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise MissingExtraError("corpo-rl sweep", "sweep") from None
    optuna.logging.set_verbosity(logging.WARNING)
    return optuna
