"""Which estimator reproduces the advantages that a run logged, and to what precision."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from corpo_rl.audit.blocks import Block
from corpo_rl.core.advantages import FLOORED_ESTIMATORS, STD_EPSILON, THRESHOLD_ESTIMATORS, estimate_advantages

PRECISION = 1e-4
"""A logged advantage is reproduced when it differs by at most this, times its size where that is over 1."""

NEARLY_ALL = 0.99
"""Share of the advantages an estimator has to reproduce to be named: a log may lack some rows of some groups."""

VERL_EPSILON = 1e-6
POPULATION_EPSILON = 1e-8

SAME_SIGNS = {
    "grpo": "grpo",
    "grpo, epsilon 1e-6": "grpo",
    "grpo, population std": "grpo",
    "grpo, batch std": "dr_grpo",
}
"""Variants, and the estimator of ours with the same sign for every rollout."""

NAMES = (*SAME_SIGNS, "dr_grpo", "rloo", "static", "corpo", "loo_corpo", "reward")
"""Candidates, in the order in which the first of equally good ones is named."""


@dataclass(frozen=True)
class Match:
    """How near one candidate comes."""

    max_error: float
    """Largest |logged - recomputed|."""
    share: float
    """Share of the advantages reproduced within `PRECISION`."""


@dataclass(frozen=True)
class Reproduced:
    """The search's outcome."""

    name: str | None
    """Candidate that reproduces the log; None when none does."""
    also: tuple[str, ...]
    """Others that do: in this log they cannot be told apart."""
    n_compared: int
    candidates: Mapping[str, Match] = field(default_factory=dict)
    inferred_floor: float | None = None
    """Value that every baseline over its group's mean was raised to; None when there is no such value."""
    floor: float | None = None
    """Threshold of the candidates that have one: the inferred floor, or else the one asked about."""

    @property
    def signs_of(self) -> str | None:
        """Estimator of ours whose signs are the log's; None when none reproduces it or it is the bare reward."""
        return None if self.name in (None, "reward") else SAME_SIGNS.get(str(self.name), self.name)


def reproduce(
    blocks: Callable[[], Iterable[Block]], step_G: NDArray[np.int64] | None, min_correct: float | None
) -> Reproduced:
    """Compare the logged advantages with every candidate's.

    Args:
        blocks: The log's blocks, from the start each time it is called.
        step_G: Training step of each group, which a standard deviation over a batch is taken over; None for one batch.
            Shape [G].
        min_correct: Threshold of the candidates that have one, unless the advantages themselves tell another; without
            any these candidates are left out.
    """
    scale_S = _batch_scales(blocks(), step_G)
    inferred = _inferred_floor(blocks())
    floor = min_correct if inferred is None else inferred
    errors = {name: _Error() for name in NAMES if floor is not None or name not in THRESHOLD_ESTIMATORS}
    n_compared = 0
    for block in blocks():
        assert block.advantages_N is not None, "asked only of logs with advantages"
        known_N = np.isfinite(block.advantages_N) & np.isfinite(block.rewards_N)
        n_compared += int(np.count_nonzero(known_N))
        for name, error in errors.items():
            error.add(block.advantages_N[known_N], _candidate(name, block, step_G, scale_S, floor)[known_N])

    candidates = {name: Match(error.largest, error.n_near / n_compared) for name, error in errors.items() if n_compared}
    good = [name for name, match in candidates.items() if match.share >= NEARLY_ALL]
    # the bare reward is also what other estimators give when every mean is 0: named only when nothing else fits
    good.sort(key=lambda name: (name == "reward", -round(candidates[name].share, 4), NAMES.index(name)))
    return Reproduced(
        name=good[0] if good else None,
        also=tuple(good[1:]),
        n_compared=n_compared,
        candidates=candidates,
        inferred_floor=inferred,
        floor=floor,
    )


@dataclass
class _Error:
    largest: float = 0.0
    n_near: int = 0

    def add(self, logged_N: NDArray[np.float64], recomputed_N: NDArray[np.float64]) -> None:
        error_N = np.abs(logged_N - recomputed_N)
        self.largest = max(self.largest, float(error_N.max(initial=0.0)))
        self.n_near += int(np.count_nonzero(error_N <= PRECISION * np.maximum(1.0, np.abs(recomputed_N))))


def _candidate(
    name: str,
    block: Block,
    step_G: NDArray[np.int64] | None,
    scale_S: Mapping[int, float],
    min_correct: float | None,
) -> NDArray[np.float64]:
    rewards_N, group_N = block.rewards_N, block.group_N
    if name == "reward":
        return rewards_N
    if name == "grpo, batch std":
        centred_N = estimate_advantages("dr_grpo", rewards_N, group_N, unscorable="exclude")
        return centred_N * _of_steps(block, step_G, scale_S)
    if name in ("grpo, epsilon 1e-6", "grpo, population std"):
        return _std_variant(name, block)
    return estimate_advantages(name, rewards_N, group_N, min_correct=min_correct, unscorable="exclude")


def _std_variant(name: str, block: Block) -> NDArray[np.float64]:
    groups = block.groups
    centred_N = estimate_advantages("dr_grpo", block.rewards_N, block.group_N, unscorable="exclude")
    std_G = groups.std(block.rewards_N)
    epsilon = VERL_EPSILON
    if name == "grpo, population std":
        n_G = groups.count(block.rewards_N)
        std_G, epsilon = std_G * np.sqrt(np.maximum(n_G - 1, 0) / np.maximum(n_G, 1)), POPULATION_EPSILON
    divisor_G = np.where(groups.all_equal(block.rewards_N) | np.isnan(std_G), np.inf, std_G + epsilon)
    divided_N: NDArray[np.float64] = centred_N / divisor_G[block.group_N]
    return divided_N


def _steps(block: Block, step_G: NDArray[np.int64] | None) -> NDArray[np.int64]:
    if step_G is None:
        return np.zeros(block.n_groups, dtype=np.int64)
    return step_G[block.first_group : block.first_group + block.n_groups]


def _of_steps(block: Block, step_G: NDArray[np.int64] | None, scale_S: Mapping[int, float]) -> NDArray[np.float64]:
    scale_G = np.array([scale_S[int(step)] for step in _steps(block, step_G)])
    return scale_G[block.group_N]


def _batch_scales(blocks: Iterable[Block], step_G: NDArray[np.int64] | None) -> dict[int, float]:
    """1 / (std over all rewards of a step, over n - 1, + 1e-4), as TRL's scale_rewards="batch" has it."""
    sums: dict[int, NDArray[np.float64]] = {}
    for block in blocks:
        steps_G = _steps(block, step_G)
        known_N = np.isfinite(block.rewards_N)
        step_K, place_G = np.unique(steps_G, return_inverse=True)
        place_N, values_N = place_G[block.group_N][known_N], block.rewards_N[known_N]
        k = len(step_K)
        moments_3K = np.stack(
            [
                np.bincount(place_N, minlength=k).astype(np.float64),
                np.bincount(place_N, weights=values_N, minlength=k),
                np.bincount(place_N, weights=values_N**2, minlength=k),
            ]
        )
        for place, step in enumerate(step_K.tolist()):
            sums[step] = sums.get(step, 0.0) + moments_3K[:, place]
    scales = {}
    for step, (count, total, squares) in sums.items():
        variance = (squares - total**2 / count) / (count - 1) if count > 1 else 0.0
        scales[step] = 1 / (float(np.sqrt(max(variance, 0.0))) + STD_EPSILON)
    return scales


def _inferred_floor(blocks: Iterable[Block]) -> float | None:
    """The one baseline, over the group's mean, that the groups with such a baseline share; None when they differ."""
    found: list[NDArray[np.float64]] = []
    for block in blocks:
        assert block.advantages_N is not None, "asked only of logs with advantages"
        groups = block.groups
        baseline_N = block.rewards_N - block.advantages_N
        mean_G = groups.mean(block.rewards_N)
        low_G = np.fmin.reduceat(baseline_N, block.start_G)
        high_G = np.fmax.reduceat(baseline_N, block.start_G)
        with np.errstate(invalid="ignore"):
            one_value_G = (groups.size_G > 1) & (high_G - low_G <= PRECISION * np.maximum(1.0, np.abs(high_G)))
            raised_G = one_value_G & (low_G > mean_G + PRECISION * np.maximum(1.0, np.abs(mean_G)))
        found.append(low_G[raised_G])
    floors = np.concatenate(found) if found else np.zeros(0)
    if len(floors) < 2:
        return None
    middle = float(np.median(floors))
    share = float(np.mean(np.abs(floors - middle) <= PRECISION * max(1.0, abs(middle))))
    return round(middle, 6) if share >= NEARLY_ALL else None


def is_floored(name: str | None) -> bool:
    """Whether the candidate has a floor."""
    return name in FLOORED_ESTIMATORS
