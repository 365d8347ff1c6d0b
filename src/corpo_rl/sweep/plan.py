"""What one sweep is: everything that decides its trials, kept in its folder so that a killed one can go on."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from corpo_rl.errors import UsageError
from corpo_rl.experiment.folder import read_json, write_json
from corpo_rl.experiment.inputs import load_task, with_own_files
from corpo_rl.experiment.runner import prepare
from corpo_rl.experiment.settings import Settings, first_difference, settings_from_json
from corpo_rl.records import EVALUATION_SPLITS
from corpo_rl.sweep.space import HOLDS, Dimension, Value, check_space, dimension_from_json, grid, trial_settings

SCHEMA = "corpo-rl.sweep-plan/1"
FILE = "sweep.json"
START = "start"
"""Folder of the experiment that holds the policy all trials start from, the pairs, and its evaluation."""

SAMPLERS = ("tpe", "random", "grid")

DIRECTIONS: Mapping[str, str] = {
    "mean_reward": "maximize",
    "score_accuracy": "maximize",
    "brier": "minimize",
    "hedge_rate": "minimize",
    "parse_failure_rate": "minimize",
}
"""Which way is better, for the figures every evaluation may have; pass@k is maximized."""


@dataclass(frozen=True)
class Plan:
    """Everything that decides what the trials of a sweep are and what they are worth."""

    settings: Settings
    """What all trials share; group size and prompts are those that the rollouts of a step are counted from."""
    dimensions: tuple[Dimension, ...]
    """What trials differ in, in the order of `space.NAMES`; a dimension of one value is fixed."""
    seeds: tuple[int, ...]
    """Training seeds of every trial; its value is their mean."""
    objective: str
    """Figure of the evaluation that trials are chosen by."""
    direction: str
    """"maximize" or "minimize"."""
    split: str
    """Evaluation split whose items are halved: one half chooses, the other is reported."""
    sampler: str
    """One of `SAMPLERS`."""
    sampler_seed: int
    """With the trial's number and what the trials before it were worth, it decides the trial's values."""
    hold: str
    """One of `space.HOLDS`."""
    judged_by: float
    """Least reward that counts as correct when trials are judged, the same for all, in task units."""

    def __post_init__(self) -> None:
        if self.sampler not in SAMPLERS:
            raise UsageError(f"--sampler: expected one of {', '.join(SAMPLERS)}, got {self.sampler!r}")
        if self.hold not in HOLDS:
            raise UsageError(f"--hold: expected one of {', '.join(HOLDS)}, got {self.hold!r}")
        if self.split not in EVALUATION_SPLITS:
            raise UsageError(f"--split: expected one of {', '.join(EVALUATION_SPLITS)}, got {self.split!r}")
        if self.sampler_seed < 0:
            raise UsageError(f"--sampler-seed: expected at least 0, got {self.sampler_seed}")

    @property
    def minimize(self) -> bool:
        """Whether the least value is the best."""
        return self.direction == "minimize"

    @property
    def ks(self) -> tuple[int, ...]:
        """The k of each pass@k that is evaluated."""
        return tuple(sorted({1, self.settings.k}))

    @property
    def searched(self) -> tuple[Dimension, ...]:
        """Dimensions of more than one value."""
        return tuple(dimension for dimension in self.dimensions if len(dimension.choices) != 1)

    @property
    def fixed(self) -> dict[str, Value]:
        """Dimensions of one value."""
        return {dimension.name: dimension.choices[0] for dimension in self.dimensions if len(dimension.choices) == 1}

    def trial(self, params: Mapping[str, Value], out: Path) -> tuple[str, Settings]:
        """Method and settings of a trial with these values of what is searched."""
        method, settings = trial_settings(self.settings, {**self.fixed, **params}, hold=self.hold)
        min_correct = settings.min_correct if settings.min_correct is not None else self.judged_by
        return method, replace(with_own_files(settings, out / START), min_correct=min_correct)

    def to_json(self) -> dict[str, Any]:
        """As plain values for a file."""
        return {**asdict(self), "dimensions": [dimension.to_json() for dimension in self.dimensions]}


def plan_from_json(data: Mapping[str, Any]) -> Plan:
    """The plan that `Plan.to_json` wrote."""
    return Plan(
        **{
            **{name: value for name, value in data.items() if name != "schema"},
            "settings": settings_from_json(data["settings"]),
            "dimensions": tuple(dimension_from_json(dimension) for dimension in data["dimensions"]),
            "seeds": tuple(data["seeds"]),
        }
    )


def direction_of(objective: str, given: str | None, *, k: int) -> str:
    """Which way an objective is better: known, or given for a figure of the task's own.

    Raises:
        UsageError: It is neither, the given one contradicts what is known, or no such pass@k is evaluated.
    """
    if objective.startswith("pass@"):
        if objective not in {"pass@1", f"pass@{k}"}:
            raise UsageError(f"--objective: pass@1 and pass@{k} are evaluated, got {objective!r}; see --k")
        known: str | None = "maximize"
    else:
        known = DIRECTIONS.get(objective)
    if known is None and given is None:
        raise UsageError(
            f"--objective: {objective!r} is not among pass@1, pass@{k}, {', '.join(DIRECTIONS)}; for a measure of your "
            "task's own add --direction maximize or minimize"
        )
    if known is not None and given not in (None, known):
        raise UsageError(f"--direction: {objective} is better the {'lower' if known == 'minimize' else 'higher'} it is")
    return known or str(given)


def prepare_sweep(
    out: Path,
    settings: Settings,
    dimensions: Sequence[Dimension],
    *,
    judged_by: float | None,
    seeds: Sequence[int],
    objective: str,
    direction: str | None,
    split: str,
    sampler: str,
    sampler_seed: int,
    hold: str,
) -> Plan:
    """Make a sweep's folder, or find it already there with the same plan.

    Args:
        out: Folder of the sweep.
        settings: What all trials share, with `pairs` or `data` as the path of the task's file.
        dimensions: What trials differ in.
        judged_by: Least reward that counts as correct when trials are judged; None for the one that trials train with
            where they all have the same, else for the task's own.
        seeds: Training seeds of every trial.
        objective: Figure that trials are chosen by.
        direction: "maximize" or "minimize"; None for a figure that is known.
        split: Evaluation split whose items are halved.
        sampler: One of `SAMPLERS`.
        sampler_seed: Seed of the sampler.
        hold: One of `space.HOLDS`.

    Returns:
        The plan as stored.

    Raises:
        UsageError: A value is out of range, or the folder holds something else.
        DataError: The pairs file, or the user's task, is broken.
    """
    direction = direction_of(objective, direction, k=settings.k)
    check_space(settings, dimensions, hold=hold)
    if sampler == "grid":
        list(grid(dimensions))
    thresholds = [dimension for dimension in dimensions if dimension.name == "min_correct"]
    if judged_by is None and thresholds and len(thresholds[0].choices) == 1:
        judged_by = float(thresholds[0].choices[0])
    if out.exists() and not (out / FILE).exists():
        if any(path.name not in (".lock", START) for path in out.iterdir()):
            raise UsageError(f"{out}: expected a new or empty folder, or one of this sweep; give another --out")
        shutil.rmtree(out / START, ignore_errors=True)  # a kill came before the plan was written
    prepared = prepare(out / START, replace(settings, min_correct=judged_by))
    plan = Plan(
        settings=replace(prepared, min_correct=None),
        dimensions=tuple(dimensions),
        seeds=tuple(seeds),
        objective=objective,
        direction=direction,
        split=split,
        sampler=sampler,
        sampler_seed=sampler_seed,
        hold=hold,
        judged_by=load_task(prepared, out / START).min_correct,
    )
    if (out / FILE).exists():
        difference = _difference(read_json(out / FILE), plan)
        if difference:
            raise UsageError(f"{out}: holds another sweep ({difference}); give another --out, or --force to replace it")
    else:
        write_json(out / FILE, {"schema": SCHEMA, **plan.to_json()})
    return plan


def _difference(stored: Mapping[str, Any], plan: Plan) -> str | None:
    """One line on the first thing in which a stored plan differs, None when they are the same."""
    if stored.get("schema") != SCHEMA:
        return f"schema is {stored.get('schema')!r} there and {SCHEMA!r} here"
    difference = first_difference(stored["settings"], plan.settings)
    if difference:
        return difference
    mine = {**plan.to_json(), "seeds": list(plan.seeds)}
    for name, value in mine.items():
        if name != "settings" and stored.get(name) != value:
            shown_there, shown_here = _shown(name, stored.get(name)), _shown(name, value)
            return f"{name} is {shown_there} there and {shown_here} here"
    return None


def _shown(name: str, value: Any) -> str:
    if name != "dimensions" or not isinstance(value, list):
        return repr(value)
    return "; ".join(
        f"{one['name']} {','.join(map(str, one['choices'])) if 'choices' in one else f'''{one['low']}:{one['high']}'''}"
        for one in value
    )
