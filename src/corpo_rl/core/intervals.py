"""Percentile-bootstrap intervals that resample items (or clusters) and training seeds, never the samples inside one."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corpo_rl.core.groups import finite_vector, same_length
from corpo_rl.errors import DataError, UsageError
from corpo_rl.records import Interval

_CELLS = 500_000
"""Values drawn at a time: bounds the memory of a bootstrap at about 12 MB, whatever the number of items."""

_ALIKE = 20
"""With so many items to each different one, or more, it is faster to draw how often each of the different ones comes
up than to draw items: groups of one size differ in few ways."""


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

    For a share of rollouts, give each group's count as one item: the rollouts of a group are not independent. The order
    of the items does not matter, to the last digit.

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
    # Two floats side by side are one complex number, and those sort by the first, then the second.
    different_K, count_K = np.unique(columns_IC.view(np.complex128)[:, 0], return_counts=True)
    different_KC = different_K[:, None].view(np.float64)
    if len(columns_IC) < _ALIKE * len(different_K):
        columns_IC = np.repeat(different_KC, count_K, axis=0)
        return _interval(columns_IC, _ratio, rng=rng, level=level, n_resamples=n_resamples)
    return _interval(different_KC, _ratio, rng=rng, level=level, n_resamples=n_resamples, count_K=count_K)


def bootstrap_figure_interval(
    columns: ArrayLike,
    figure: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    *,
    rng: np.random.Generator,
    level: float = 0.95,
    n_resamples: int = 2000,
) -> Interval:
    """Any figure of summed columns with its bootstrap interval over clusters, such as the items of one problem.

    Args:
        columns: Counts and sums of each cluster. Shape [I, C], finite.
        figure: From columns averaged over clusters, shape [..., C], to the figure, shape [...]. It has to be a ratio
            or the like, for which the number of clusters does not matter; NaN where undefined.
        rng: Source of the resampling: the same state resamples the same clusters, whatever the figure.
        level: Coverage aimed at, in (0, 1).
        n_resamples: Number of resamples; those in which the figure is undefined are left out.

    Raises:
        DataError: `columns` is not a table of finite numbers.
        UsageError: `level` or `n_resamples` is out of range.

    Example:
        >>> counts = [[1, 2], [0, 2], [2, 4]]
        >>> share = lambda columns: columns[..., 0] / columns[..., 1]
        >>> bootstrap_figure_interval(counts, share, rng=np.random.default_rng(0)).value
        0.375
    """
    columns_IC = np.asarray(columns, dtype=np.float64)
    if columns_IC.ndim != 2 or not np.isfinite(columns_IC).all():
        raise DataError(f"columns: expected finite numbers of shape [I, C], got shape {list(columns_IC.shape)}")
    everyone_I = np.ones(len(columns_IC), dtype=np.intp)
    return _interval(columns_IC, figure, rng=rng, level=level, n_resamples=n_resamples, count_K=everyone_I)


def crossed_bootstrap_interval(
    values: ArrayLike, *, rng: np.random.Generator, level: float = 0.95, n_resamples: int = 2000
) -> Interval:
    """Mean over seeds and items, with an interval that covers the draw of both.

    Seeds and items are resampled independently, with replacement, and every resampled seed is read at every resampled
    item, since all seeds answer the same items. With one seed the interval covers the items only. With a handful of
    seeds it is too narrow in the seeds, as any bootstrap of so few is.

    Args:
        values: Figure of each seed at each item, NaN where undefined. Shape [S, I].
        rng: Source of the resampling.
        level: Coverage aimed at, in (0, 1).
        n_resamples: Number of resamples.

    Returns:
        The mean of the defined values and the `level` interval; three NaNs when no value is defined.

    Raises:
        DataError: `values` is not [S, I] with S and I at least 1, or `level` is not in (0, 1).

    Source:
        Owen, "The pigeonhole bootstrap", https://arxiv.org/abs/0712.1111.

    Example:
        >>> crossed_bootstrap_interval([[0.0, 1.0, 1.0, 0.0]], rng=np.random.default_rng(0))
        Interval(value=0.5, low=0.0, high=1.0)
    """
    values_SI: NDArray[np.float64] = np.asarray(values, dtype=np.float64)
    if values_SI.ndim != 2 or 0 in values_SI.shape:
        raise DataError(f"values: expected shape [S, I], at least [1, 1], got {list(values_SI.shape)}")
    if not 0 < level < 1:
        raise DataError(f"level: expected a number between 0 and 1, got {level}")
    defined_SI = np.isfinite(values_SI)
    if not defined_SI.any():
        return Interval(np.nan, np.nan, np.nan)

    n_seeds, n_items = values_SI.shape
    weight_RS = rng.multinomial(n_seeds, np.full(n_seeds, 1 / n_seeds), size=n_resamples).astype(np.float64)
    weight_RI = rng.multinomial(n_items, np.full(n_items, 1 / n_items), size=n_resamples).astype(np.float64)
    total_R = ((weight_RS @ np.where(defined_SI, values_SI, 0.0)) * weight_RI).sum(axis=1)
    count_R = ((weight_RS @ defined_SI.astype(np.float64)) * weight_RI).sum(axis=1)
    mean_R = total_R[count_R > 0] / count_R[count_R > 0]
    low, high = np.quantile(mean_R, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(values_SI[defined_SI].mean()), float(low), float(high))


_Statistic = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""From columns averaged over items, shape [..., C], to the estimate, shape [...]."""


def _mean(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    return columns[..., 0]


def _ratio(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    numerator, denominator = columns[..., 0], columns[..., 1]
    return np.divide(numerator, denominator, out=np.full_like(numerator, np.nan), where=denominator != 0)


def _interval(
    columns_KC: NDArray[np.float64],
    statistic: _Statistic,
    *,
    rng: np.random.Generator,
    level: float,
    n_resamples: int,
    count_K: NDArray[np.intp] | None = None,
) -> Interval:
    """The estimate and its interval over items, given one by one or as different ones with the number of each."""
    if not 0 < level < 1:
        raise UsageError(f"level: expected a number between 0 and 1, got {level!r}")
    if n_resamples < 1:
        raise UsageError(f"n_resamples: expected at least 1, got {n_resamples!r}")
    n_items = len(columns_KC) if count_K is None else int(count_K.sum())
    if n_items == 0:
        return Interval(np.nan, np.nan, np.nan)
    mean_C = columns_KC.mean(axis=0) if count_K is None else count_K @ columns_KC / n_items
    value = float(statistic(mean_C[None])[0])
    if n_items == 1 or np.isnan(value):
        return Interval(value, np.nan, np.nan)

    estimates = []
    for n_drawn in _portions(n_resamples, size=max(1, _CELLS // len(columns_KC))):
        if count_K is None:
            item_RI = rng.integers(n_items, size=(n_drawn, n_items))
            estimates.append(statistic(_sums(columns_KC, item_RI) / n_items))
        else:  # how often each of the different items comes up among n_items draws
            count_RK = rng.multinomial(n_items, count_K / n_items, size=n_drawn)
            estimates.append(statistic(count_RK @ columns_KC / n_items))
    low, high = np.nanquantile(np.concatenate(estimates), [(1 - level) / 2, (1 + level) / 2])
    return Interval(value, float(low), float(high))


def _sums(columns_IC: NDArray[np.float64], item_RI: NDArray[np.int64]) -> NDArray[np.float64]:
    """Sum of the items drawn, for each resample. Shape [R, C]."""
    if columns_IC.shape[1] != 2:
        summed: NDArray[np.float64] = columns_IC[item_RI].sum(axis=1)
        return summed
    pairs_I = np.ascontiguousarray(columns_IC).view(np.complex128)[:, 0]  # two floats fetched as one: 4 times as fast
    sums_RC: NDArray[np.float64] = pairs_I.take(item_RI).sum(axis=1)[:, None].view(np.float64)
    return sums_RC


def _portions(total: int, *, size: int) -> list[int]:
    full, rest = divmod(total, size)
    return [size] * full + ([rest] if rest else [])
