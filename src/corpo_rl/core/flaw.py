"""What each estimator does to failures, exactly: from the policy's distribution over reward levels and the group size.

No simulation: the rewards of the others in a group add up to a distribution that is computed level by level, in whole
steps of the levels' common grid, so that a rollout at its baseline is told from one above it without rounding.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import comb, gcd, lcm

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corpo_rl.core.advantages import ESTIMATORS, FLOORED_ESTIMATORS, STD_EPSILON
from corpo_rl.core.groups import finite_vector, same_length
from corpo_rl.errors import DataError, UsageError

_MOST_SUMS = 2_000_000
"""Most different sums of a group that are looked at."""
_MOST_CELLS = 12_000_000
"""Most pairs of a sum and a sum of squares: the standard deviation needs both."""
_MOST_COMPOSITIONS = 20_000
"""Up to so many different groups their sums are added up one by one, beyond by a Fourier transform."""
_NOISE = 1e-16
"""What a Fourier transform leaves of a probability of 0."""


@dataclass(frozen=True)
class ExactFlaw:
    """Expected figures of one estimator. Shares of rollouts are ratios of expected counts; NaN where undefined."""

    reinforced_failure_share: float
    """Of the failed rollouts, those with an advantage above 0."""
    r_count: float
    """Rollouts with an advantage above 0 over those with one below 0."""
    floored_group_share: float
    """Groups whose mean is under `min_correct`: the correctness-seeking phase."""
    negative_only_share: float
    """Groups in which no rollout has an advantage above 0 and at least one has one below 0."""
    advantage_K: NDArray[np.float64]  # noqa: N815
    """Expected advantage of a rollout at each level; NaN for levels that never come, and for grpo where the levels are
    too many for its standard deviation. Shape [K]."""
    gradient_K: NDArray[np.float64]  # noqa: N815
    """Expected policy gradient of a softmax policy with one arm a level: p_k (a_k - sum over j of p_j a_j), the mean
    over the group of A times the gradient of log p. Shape [K]."""


def exact_flaw(
    levels: ArrayLike, probabilities: ArrayLike, *, group_size: int, min_correct: float, estimator: str
) -> ExactFlaw:
    """The expected figures of an estimator for groups drawn from a distribution over reward levels.

    With S the sum of the other G - 1 rewards of a group, a rollout of reward r is

        above the group's mean      when (G - 1) r > S
        above CoRPO's baseline      when r > min_correct and (G - 1) r > S

    and so on; P(S) is the distribution of one reward, convolved G - 1 times with itself.

    Args:
        levels: Reward levels, different from each other. Shape [K], in task units, decimal numbers such as 0.4.
        probabilities: How often the policy reaches each. Shape [K], at least 0, summing to 1.
        group_size: Rollouts of a group, G, at least 2.
        min_correct: Least reward that counts as correct.
        estimator: One of `ESTIMATORS`.

    Raises:
        DataError: Shapes differ, levels repeat, or probabilities are no distribution.
        UsageError: An unknown estimator, a group of fewer than 2, or levels whose common grid is too fine.

    Source:
        The estimators: see `corpo_rl.core.advantages`. Exact enumeration over multinomials: elementary.

    Example:
        Four levels, two of them failing; with groups of 4 GRPO reinforces a failure in seven.

        >>> found = exact_flaw([-1, -0.4, 0.5, 1], [0.80, 0.15, 0.03, 0.02], group_size=4, min_correct=0.0,
        ...                    estimator="dr_grpo")
        >>> round(found.reinforced_failure_share, 3)
        0.144
    """
    if estimator not in ESTIMATORS:
        raise UsageError(f"estimator: expected one of {', '.join(ESTIMATORS)}, got {estimator!r}")
    if group_size < 2:
        raise UsageError(f"group_size: expected at least 2, got {group_size}")
    levels_K, p_K = _distribution(levels, probabilities)
    grid = _grid(levels_K, group_size=group_size)
    floor = Fraction(repr(float(min_correct)))
    others_S = _power(_spread(grid.place_K, p_K), group_size - 1)
    everyone_S = np.convolve(others_S, _spread(grid.place_K, p_K))

    above_K, below_K = _signs(estimator, grid, others_S, floor=floor, group_size=group_size)
    failed_K = np.array([level < floor for level in grid.level_K])
    p_failed = float(p_K[failed_K].sum())
    up, down = float(p_K @ above_K), float(p_K @ below_K)
    advantage_K = _expected_advantages(estimator, grid, others_S, p_K, min_correct=min_correct, group_size=group_size)
    advantage_K = np.where(p_K > 0, advantage_K, np.nan)
    known_K = np.where(p_K > 0, advantage_K, 0.0)
    return ExactFlaw(
        reinforced_failure_share=float(p_K[failed_K] @ above_K[failed_K]) / p_failed if p_failed else np.nan,
        r_count=up / down if down else np.nan,
        floored_group_share=float(everyone_S[: _first_at_or_over(grid, floor, n=group_size)].sum()),
        negative_only_share=_negative_only(estimator, grid, p_K, floor=floor, group_size=group_size),
        advantage_K=advantage_K,
        gradient_K=p_K * (known_K - p_K @ known_K),
    )


@dataclass(frozen=True)
class _Grid:
    """The levels as whole steps above the lowest."""

    level_K: list[Fraction]  # noqa: N815
    place_K: NDArray[np.intp]  # noqa: N815
    lowest: Fraction
    step: Fraction


def _distribution(levels: ArrayLike, probabilities: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    levels_K, p_K = finite_vector("levels", levels), finite_vector("probabilities", probabilities)
    same_length("probabilities", p_K, n=len(levels_K), as_in="levels")
    if len(levels_K) == 0 or len(np.unique(levels_K)) != len(levels_K):
        raise DataError("levels: expected at least one, all different")
    if (p_K < 0).any() or abs(p_K.sum() - 1) > 1e-9:
        raise DataError(f"probabilities: expected numbers of at least 0 that sum to 1, got a sum of {p_K.sum():.6g}")
    return levels_K, p_K


def _grid(levels_K: NDArray[np.float64], *, group_size: int) -> _Grid:
    exact = [Fraction(repr(float(level))) for level in levels_K]
    lowest = min(exact)
    denominator = lcm(*(level.denominator for level in exact))
    steps = [int((level - lowest) * denominator) for level in exact]
    common = gcd(*steps) or 1
    places = [step // common for step in steps]
    if (group_size - 1) * max(places) > _MOST_SUMS:
        raise UsageError(
            f"levels: their common grid has {max(places) + 1:,} steps, too many to add up {group_size} of them exactly;"
            " round the levels to fewer decimals"
        )
    return _Grid(exact, np.array(places, dtype=np.intp), lowest, Fraction(common, denominator))


def _spread(place_K: NDArray[np.intp], p_K: NDArray[np.float64]) -> NDArray[np.float64]:
    """The distribution of one reward over the steps of the grid."""
    spread = np.zeros(int(place_K.max()) + 1)
    spread[place_K] = p_K
    return spread


def _power(one_S: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """The distribution of the sum of n rewards, by repeated squaring."""
    total, square = np.ones(1), one_S
    while n:
        if n & 1:
            total = np.convolve(total, square)
        n >>= 1
        if n:
            square = np.convolve(square, square)
    return total


def _signs(
    estimator: str, grid: _Grid, others_S: NDArray[np.float64], *, floor: Fraction, group_size: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Probability that a rollout of each level has an advantage above, and below, 0. Shape [K] each."""
    less_S = np.concatenate([[0.0], np.cumsum(others_S)])  # P(S < s)
    above, below = [], []
    for level, place in zip(grid.level_K, grid.place_K.tolist(), strict=True):
        # against the mean of its group and against that of the others a rollout has the same sign
        own = (group_size - 1) * place
        p_under, p_over = less_S[min(own, len(others_S))], 1.0 - less_S[min(own + 1, len(others_S))]
        if estimator == "static":
            p_under, p_over = float(level > floor), float(level < floor)
        elif estimator in FLOORED_ESTIMATORS:
            p_under, p_over = (p_under if level > floor else 0.0), (1.0 if level < floor else p_over)
        above.append(p_under)
        below.append(p_over)
    return np.clip(above, 0.0, 1.0), np.clip(below, 0.0, 1.0)


def _first_at_or_over(grid: _Grid, floor: Fraction, *, n: int) -> int:
    """The least sum of n places whose mean reward is at or over the floor."""
    exact = n * (floor - grid.lowest) / grid.step
    return max(0, -(-exact.numerator // exact.denominator))


def _negative_only(estimator: str, grid: _Grid, p_K: NDArray[np.float64], *, floor: Fraction, group_size: int) -> float:
    """With a floor: nobody is over it, and somebody is under it. Without one, who is not above is the group's equal."""
    if estimator != "static" and estimator not in FLOORED_ESTIMATORS:
        return 0.0
    at_most = float(p_K[[level <= floor for level in grid.level_K]].sum())
    at = float(p_K[[level == floor for level in grid.level_K]].sum())
    return at_most**group_size - at**group_size


def _expected_advantages(
    estimator: str,
    grid: _Grid,
    others_S: NDArray[np.float64],
    p_K: NDArray[np.float64],
    *,
    min_correct: float,
    group_size: int,
) -> NDArray[np.float64]:
    """Expected advantage at each level. Shape [K]."""
    level_K = np.array([float(level) for level in grid.level_K])
    if estimator == "static":
        return level_K - min_correct
    sum_S = (group_size - 1) * float(grid.lowest) + float(grid.step) * np.arange(len(others_S))
    if estimator == "grpo":
        return _over_std(grid, p_K, level_K, group_size=group_size)
    expected = []
    for level in level_K:
        whole = estimator in ("dr_grpo", "corpo")
        baseline_S = (level + sum_S) / group_size if whole else sum_S / (group_size - 1)
        if estimator in FLOORED_ESTIMATORS:
            baseline_S = np.maximum(baseline_S, min_correct)
        expected.append(level - others_S @ baseline_S)
    return np.array(expected)


def _over_std(
    grid: _Grid, p_K: NDArray[np.float64], level_K: NDArray[np.float64], *, group_size: int
) -> NDArray[np.float64]:
    """GRPO's: sums and sums of squares of the others together. NaN where there are too many."""
    place_K = grid.place_K
    # a place and its square are even or odd together, so that half their difference is whole
    half_K = place_K * (place_K - 1) // 2
    if comb(group_size + len(place_K) - 2, len(place_K) - 1) <= _MOST_COMPOSITIONS:
        sums, halves, weight = _one_by_one(place_K, half_K, p_K, n=group_size - 1)
    else:
        shape = ((group_size - 1) * int(place_K.max()) + 1, (group_size - 1) * int(half_K.max()) + 1)
        if shape[0] * shape[1] > _MOST_CELLS:
            return np.full(len(level_K), np.nan)
        one = np.zeros(shape)
        one[place_K, half_K] = p_K
        others = np.fft.irfft2(np.fft.rfft2(one) ** (group_size - 1), s=shape)
        sums, halves = np.nonzero(others > _NOISE)
        weight = others[sums, halves]
    expected = []
    for place, half in zip(place_K.tolist(), half_K.tolist(), strict=True):
        total = sums + place
        squares = 2 * (halves + half) + total
        # n * sum of squares - square of sum, in whole numbers: 0 exactly where all are equal
        spread = np.sqrt(np.maximum(group_size * squares - total**2, 0) / (group_size * (group_size - 1)))
        centred = np.where(spread > 0, place - total / group_size, 0.0)
        expected.append(weight @ (centred / (spread + STD_EPSILON / float(grid.step))))
    return np.array(expected)


def _one_by_one(
    place_K: NDArray[np.intp], half_K: NDArray[np.intp], p_K: NDArray[np.float64], *, n: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Sums of n rewards, adding one at a time: exact to the last digits, for few different sums."""
    base = n * int(half_K.max()) + 1
    step_K = place_K.astype(np.int64) * base + half_K
    code: NDArray[np.int64] = np.zeros(1, dtype=np.int64)
    weight: NDArray[np.float64] = np.ones(1)
    for _ in range(n):
        code, index = np.unique(code[:, None] + step_K, return_inverse=True)
        weight = np.asarray(np.bincount(index.ravel(), weights=(weight[:, None] * p_K).ravel()), dtype=np.float64)
    return code // base, code % base, weight


def level_distribution(rewards: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The levels of a log's rewards and how often each came, for `exact_flaw`.

    Args:
        rewards: Shape [N]; NaN where unscorable, which is left out.

    Raises:
        DataError: No reward is left.

    Example:
        >>> level_distribution([0.0, 1.0, 0.0, float("nan")])
        (array([0., 1.]), array([0.66666667, 0.33333333]))
    """
    values: NDArray[np.float64] = np.asarray(rewards, dtype=np.float64)
    values = values[~np.isnan(values)]
    if len(values) == 0:
        raise DataError("rewards: expected at least one that is a number, found none")
    levels_K, count_K = np.unique(values, return_counts=True)
    return levels_K, count_K / count_K.sum()
