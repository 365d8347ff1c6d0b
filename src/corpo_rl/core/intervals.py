"""Percentile-bootstrap intervals that resample items (or clusters), never the samples inside one."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corpo_rl.core.groups import finite_vector, same_length, vector
from corpo_rl.errors import UsageError
from corpo_rl.records import Interval

_CELLS = 4_000_000
"""Values drawn at a time: bounds the memory of a bootstrap at about 64 MB, whatever the number of items."""


class PairedDifference(NamedTuple):
    """Mean difference over the items where both sides are known, and how many those are."""

    interval: Interval
    n_items: int
    """Items with both values."""
    n_left_out: int
    """Items with a NaN on either side, left out."""


def bootstrap_interval(
    values: ArrayLike, *, rng: np.random.Generator, level: float = 0.95, n_resamples: int = 2000
) -> Interval:
    """Mean over items with its bootstrap interval.

    The bounds are NaN for fewer than two items, which tell nothing about their spread, and equal to the mean when all
    items are equal: the bootstrap knows only the items it has seen.

    Args:
        values: Figure of each item. Shape [I], finite: drop undefined items first, and count them.
        rng: Source of the resampling.
        level: Coverage aimed at, in (0, 1).
        n_resamples: Number of resamples, at least 1.

    Raises:
        DataError: The values are not a row of finite numbers.
        UsageError: `level` or `n_resamples` is out of range.

    Source:
        Efron, "Bootstrap methods: another look at the jackknife", Annals of Statistics 7(1), 1979; percentile interval.

    Example:
        >>> bootstrap_interval([0.0, 1.0, 1.0, 0.0], rng=np.random.default_rng(0))
        Interval(value=0.5, low=0.0, high=1.0)
    """
    values_I = finite_vector("values", values)
    return _interval(values_I[:, None], _mean, rng=rng, level=level, n_resamples=n_resamples)


def bootstrap_ratio_interval(
    numerator: ArrayLike,
    denominator: ArrayLike,
    *,
    rng: np.random.Generator,
    level: float = 0.95,
    n_resamples: int = 2000,
) -> Interval:
    """Sum over sum with its bootstrap interval: a share pooled over items or clusters.

    For a share of rollouts, give each group's count as one item: the rollouts of a group are not independent.

    Args:
        numerator: Count or sum of each item. Shape [I], finite.
        denominator: Count or sum of each item it is a part of. Shape [I], finite.
        rng: Source of the resampling.
        level: Coverage aimed at, in (0, 1).
        n_resamples: Number of resamples, at least 1; those whose denominators add up to 0 are left out.

    Returns:
        The ratio and its interval; NaN when the denominators add up to 0.

    Raises:
        DataError: A shape is wrong or a value is not finite.
        UsageError: `level` or `n_resamples` is out of range.

    Example:
        >>> bootstrap_ratio_interval([1, 0, 2], [2, 2, 4], rng=np.random.default_rng(0)).value
        0.375
    """
    numerator_I, denominator_I = finite_vector("numerator", numerator), finite_vector("denominator", denominator)
    same_length("denominator", denominator_I, n=len(numerator_I), as_in="numerator")
    columns_IC = np.stack([numerator_I, denominator_I], axis=1)
    return _interval(columns_IC, _ratio, rng=rng, level=level, n_resamples=n_resamples)


def paired_difference_interval(
    a: ArrayLike, b: ArrayLike, *, rng: np.random.Generator, level: float = 0.95, n_resamples: int = 2000
) -> PairedDifference:
    """Mean of a - b over the same items with its bootstrap interval; items are resampled for both sides together.

    Args:
        a: Figure of each item under the one, NaN where undefined. Shape [I].
        b: Figure of the same items under the other, in the same order. Shape [I].
        rng: Source of the resampling.
        level: Coverage aimed at, in (0, 1).
        n_resamples: Number of resamples, at least 1.

    Raises:
        DataError: A shape is wrong or a value is infinite.
        UsageError: `level` or `n_resamples` is out of range.

    Example:
        >>> result = paired_difference_interval([1.0, 0.5, 1.0], [0.5, 0.5, np.nan], rng=np.random.default_rng(0))
        >>> result.interval.value, result.n_items, result.n_left_out
        (0.25, 2, 1)
    """
    a_I, b_I = vector("a", a), vector("b", b)
    same_length("b", b_I, n=len(a_I), as_in="a")
    known_I = ~(np.isnan(a_I) | np.isnan(b_I))
    difference_I = finite_vector("a", a_I[known_I]) - finite_vector("b", b_I[known_I])
    return PairedDifference(
        interval=_interval(difference_I[:, None], _mean, rng=rng, level=level, n_resamples=n_resamples),
        n_items=len(difference_I),
        n_left_out=len(a_I) - len(difference_I),
    )


_Statistic = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""From columns averaged over items, shape [..., C], to the estimate, shape [...]."""


def _mean(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    return columns[..., 0]


def _ratio(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    numerator, denominator = columns[..., 0], columns[..., 1]
    return np.divide(numerator, denominator, out=np.full_like(numerator, np.nan), where=denominator != 0)


def _interval(
    columns_IC: NDArray[np.float64],
    statistic: _Statistic,
    *,
    rng: np.random.Generator,
    level: float,
    n_resamples: int,
) -> Interval:
    if not 0 < level < 1:
        raise UsageError(f"level: expected a number between 0 and 1, got {level!r}")
    if n_resamples < 1:
        raise UsageError(f"n_resamples: expected at least 1, got {n_resamples!r}")
    n_items = len(columns_IC)
    if n_items == 0:
        return Interval(np.nan, np.nan, np.nan)
    value = float(statistic(columns_IC.mean(axis=0)[None])[0])
    if n_items == 1 or np.isnan(value):
        return Interval(value, np.nan, np.nan)

    estimates = []
    for n_drawn in _portions(n_resamples, size=max(1, _CELLS // n_items)):
        item_BI = rng.integers(n_items, size=(n_drawn, n_items))
        estimates.append(statistic(columns_IC[item_BI].mean(axis=1)))
    low, high = np.nanquantile(np.concatenate(estimates), [(1 - level) / 2, (1 + level) / 2])
    return Interval(value, float(low), float(high))


def _portions(total: int, *, size: int) -> list[int]:
    full, rest = divmod(total, size)
    return [size] * full + ([rest] if rest else [])
