"""What a study is: its runs, in which order, at which learning rates, and where the record of each one lies."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpo_rl.errors import DataError, UsageError

PARTS = ("pilot", "main", "failing", "timing")
"""Parts of a study, in the order in which they are run."""

MINI, HEDGE = "mini", "hedge"
"""Where runs start: the embedded policy, or the same one after it was taught to hedge and to know nothing."""

REFERENCE = "grpo"
"""Method that all others are compared with, and whose update the others' are brought to."""

FREE = ("grpo", "dr_grpo", "rloo", "value")
"""Methods that train the same whatever the threshold: one run is judged by every one."""

FLOORED = ("static", "corpo", "loo_corpo")
"""Methods with the threshold in their advantages: a run of its own for every one."""

INERT, SATURATED = -1.0, 1.0
"""Thresholds at both ends of the verifier's rewards: at the first nothing fails, over the second nothing can be."""

UNTRAINED = "none"
"""In the place of a method: the base itself is judged."""


@dataclass(frozen=True)
class Sizes:
    """How large every run is. All runs of a study have these in common."""

    steps: int
    """Optimizer steps."""
    prompts: int
    """Prompts of a step."""
    group_size: int
    """Completions of a prompt while training."""
    learning_rate: float
    """Constant rate of AdamW that is matched from, see `matched_rates`."""
    early: int
    """The first so many steps are the early ones."""
    late: int
    """The last so many steps are the late ones, as many before them the middle ones."""
    bin: int
    """Steps whose counts are added up in the results; divides the three above."""
    samples: int
    """Completions of an item in the evaluation: the k of pass@k, at most 35."""
    items: int
    """Items of a split in the evaluation, the first ones; 0 for all."""
    hedge_steps: int
    """Supervised steps that teach the hedging base to hedge."""
    timing_steps: int
    """Steps of a training that is timed; the first two do not count."""
    timing_rounds: int
    """Rounds of timed trainings, every method in each."""

    def __post_init__(self) -> None:
        for name in ("steps", "early", "late"):
            if getattr(self, name) % self.bin or getattr(self, name) < 1:
                raise UsageError(f"{name}: expected a multiple of bin={self.bin}, got {getattr(self, name)}")
        if self.early + 2 * self.late > self.steps:
            raise UsageError(f"late: expected early + 2 x late within {self.steps} steps, got {self.late}")
        if not 1 <= self.samples <= 35:
            raise UsageError(f"samples: expected 1 to 35, got {self.samples}")


@dataclass(frozen=True)
class Run:
    """One training, and what came of it."""

    part: str
    """One of `PARTS`, or "base"."""
    base: str
    """`MINI` or `HEDGE`."""
    reward: str
    """A name in `tasks.verifier.REWARDS`."""
    method: str
    """An estimator, "value", or `UNTRAINED`."""
    threshold: float | None
    """`min_correct` while training; None for a method that trains without."""
    seed: int

    @property
    def name(self) -> str:
        """Name of the run and of its file."""
        threshold = "" if self.threshold is None else f"@{self.threshold:g}"
        return f"{self.part}-{self.base}-{self.reward}-{self.method}{threshold}-s{self.seed}"


@dataclass(frozen=True)
class Job:
    """A run with all that decides its numbers."""

    run: Run
    sizes: Sizes
    learning_rate: float
    judged: tuple[float, ...]
    """Thresholds that rollouts and answers are judged by."""


@dataclass(frozen=True)
class Plan:
    """Everything that is to be run."""

    sizes: Sizes
    thresholds: Mapping[str, tuple[float, ...]]
    """Thresholds of each reward, its natural one first."""
    methods: tuple[str, ...]
    """Out of `FREE` and `FLOORED`, the reference among them."""
    seeds: tuple[int, ...]
    """Seeds of the main part."""
    pilot_seeds: tuple[int, ...]
    """Others, for the learning rates."""
    few_seeds: tuple[int, ...]
    """Seeds of the part that should fail."""

    def __post_init__(self) -> None:
        unknown = [name for name in self.methods if name not in FREE + FLOORED]
        if unknown or REFERENCE not in self.methods:
            raise UsageError(f"methods: expected {REFERENCE} and others of {', '.join(FREE + FLOORED)}, got {unknown}")
        shared = set(self.pilot_seeds) & {*self.seeds, *self.few_seeds}
        if shared:
            raise UsageError(f"pilot seeds: expected none of the study's seeds, got {sorted(shared)}")

    def conditions(self, reward: str) -> list[tuple[str, float | None]]:
        """Methods under a reward, each with the thresholds it is trained under."""
        found: list[tuple[str, float | None]] = []
        for method in self.methods:
            found += [(method, None)] if method in FREE else [(method, one) for one in self.thresholds[reward]]
        return found

    def runs(self, part: str) -> list[Run]:
        """Runs of a part. In the main one seed after seed, so that a study that was stopped can be read."""
        return list(
            {"pilot": self._pilot, "main": self._main, "failing": self._failing, "timing": self._timing}[part]()
        )

    def judged(self, run: Run) -> tuple[float, ...]:
        """Thresholds that a run is judged by: those of its reward, and its own."""
        own = () if run.threshold is None else (run.threshold,)
        return tuple(dict.fromkeys((*self.thresholds[run.reward], *own)))

    def _pilot(self) -> Iterator[Run]:
        for seed in self.pilot_seeds:
            for reward in self.thresholds:
                for method, threshold in self.conditions(reward):
                    yield Run("pilot", MINI, reward, method, threshold, seed)

    def _main(self) -> Iterator[Run]:
        for reward in self.thresholds:
            yield Run("base", MINI, reward, UNTRAINED, None, 0)
        for seed in self.seeds:
            for reward in self.thresholds:
                for method, threshold in self.conditions(reward):
                    yield Run("main", MINI, reward, method, threshold, seed)

    def _failing(self) -> Iterator[Run]:
        floors = [method for method in self.methods if method in ("static", "corpo")]
        for reward, thresholds in self.thresholds.items():
            yield Run("base", HEDGE, reward, UNTRAINED, None, 0)
            for seed in self.few_seeds:
                for method in self.methods:
                    if method in ("grpo", "dr_grpo", "static", "corpo"):
                        threshold = thresholds[0] if method in FLOORED else None
                        yield Run("failing", HEDGE, reward, method, threshold, seed)
                for method in floors:
                    yield Run("failing", MINI, reward, method, SATURATED, seed)
            # under the seeds and the rate of the pilot, whose dr_grpo an inert floor has to repeat
            for seed in self.pilot_seeds:
                for method in floors:
                    yield Run("failing", MINI, reward, method, INERT, seed)

    def _timing(self) -> Iterator[Run]:
        first = next(iter(self.thresholds))
        yield Run("timing", MINI, first, "+".join(self.timed_methods()), self.thresholds[first][0], 0)

    def timed_methods(self) -> tuple[str, ...]:
        """Methods whose steps are timed against each other."""
        return tuple(name for name in ("grpo", "dr_grpo", "corpo", "value") if name in self.methods)

    def job(self, run: Run, rates: Mapping[str, float]) -> Job:
        """The run with its settings. `rates` are those of `matched_rates`; what is not among them has the plain one."""
        matched = run.part == "main" or (run.part == "failing" and run.base == HEDGE)
        key = condition_name(run.reward, run.method, run.threshold)
        rate = rates[key] if matched else self.sizes.learning_rate
        return Job(run, self.sizes, rate, self.judged(run))


def condition_name(reward: str, method: str, threshold: float | None) -> str:
    """Name of a condition, e.g. "min_margin/corpo@0.2"."""
    return f"{reward}/{method}" + ("" if threshold is None else f"@{threshold:g}")


def matched_rates(pilot: Sequence[Mapping[str, Any]], sizes: Sizes) -> dict[str, float]:
    """Learning rates under which every method moves the policy as far in a step as the reference does.

        rate = base rate * |update of the reference| / |update of the method|,  to three digits

    where an update's size is the Euclidean norm of the change of all weights in one step, averaged over the steps and
    seeds of the pilot. It is the update and not the gradient that is matched: AdamW divides a gradient by its own
    running size, so that twice the gradient moves the weights as far as once. What is left to differ is how steadily
    a method's gradients point one way, and what clipping takes. The size of an update is all but proportional to the
    rate; how well they met in the study itself is in its results.

    Args:
        pilot: Records of the pilot's runs.
        sizes: Of the study.

    Returns:
        Rate of each condition, by `condition_name`.

    Raises:
        DataError: The pilot holds no run of the reference.
    """
    norms: dict[str, list[float]] = {}
    rewards: dict[str, str] = {}
    for record in pilot:
        run = record["run"]
        key = condition_name(run["reward"], run["method"], run["threshold"])
        norms.setdefault(key, []).extend(record["series"]["update"])
        rewards[key] = run["reward"]
    sizes_of = {key: sum(values) / len(values) for key, values in norms.items()}
    rates = {}
    for key, size in sizes_of.items():
        reference = sizes_of.get(condition_name(rewards[key], REFERENCE, None))
        if reference is None:
            raise DataError(f"pilot: expected runs of {REFERENCE} under {rewards[key]}, found none")
        rates[key] = float(f"{sizes.learning_rate * reference / size:.3g}")
    return rates


def record_path(out: Path, run: Run) -> Path:
    """File of a run's record."""
    return out / "records" / f"{run.name}.json"
