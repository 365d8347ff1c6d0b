"""Percentile-bootstrap intervals that resample items (or clusters) and training seeds, never the samples inside one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
        return _interval(columns_IC, ratio_of_sums, rng=rng, level=level, n_resamples=n_resamples)
    return _interval(different_KC, ratio_of_sums, rng=rng, level=level, n_resamples=n_resamples, count_K=count_K)


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


Statistic = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""From columns added up or averaged over items, shape [..., C], to the estimate, shape [...]."""


@dataclass(frozen=True)
class ClusterFigure:
    """A figure that depends on nothing but sums over clusters, such as a share, or an AUROC of counts."""

    columns_PC: NDArray[np.float64]  # noqa: N815
    """Sums of each cluster, finite; a row of zeros for a cluster that has nothing to do with the figure. [P, C]."""
    statistic: Statistic
    """From sums over clusters, shape [..., C], to the figure, shape [...]; NaN where undefined."""

    def value(self) -> float:
        """The figure over all clusters."""
        return float(self.statistic(self.columns_PC.sum(axis=0)[None])[0])


def ratio_of_sums(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """The statistic of a mean or share: first column over second; NaN where that is 0. Shape [..., 2] to [...]."""
    numerator, denominator = columns[..., 0], columns[..., 1]
    return np.divide(numerator, denominator, out=np.full_like(numerator, np.nan), where=denominator != 0)


def difference_figure(one: ClusterFigure, other: ClusterFigure) -> ClusterFigure:
    """The first figure minus the second, over the same clusters: its interval is that of a paired difference."""
    n_columns = one.columns_PC.shape[1]
    return ClusterFigure(
        np.concatenate([one.columns_PC, other.columns_PC], axis=1),
        lambda sums: one.statistic(sums[..., :n_columns]) - other.statistic(sums[..., n_columns:]),
    )


def cluster_bootstrap_intervals(
    figures: Sequence[ClusterFigure], *, rng: np.random.Generator, level: float = 0.95, n_resamples: int = 2000
) -> list[Interval]:
    """Figures with bootstrap intervals that draw whole clusters: what belongs to one stays together.

    All figures see the same draws of clusters, and figures over as many clusters see the same ones in every call with
    an equally seeded `rng`. The bounds are NaN for a figure that fewer than two clusters have to do with.

    Args:
        figures: All over the same P clusters, e.g. the pairs of each problem.
        rng: Source of the resampling.
        level: Coverage aimed at, in (0, 1).
        n_resamples: Number of resamples, at least 1; a figure leaves out those in which it is undefined.

    Raises:
        DataError: The figures are not over the same number of clusters, or a sum is not finite.
        UsageError: `level` or `n_resamples` is out of range.

    Source:
        Cameron, Gelbach and Miller, "Bootstrap-based improvements for inference with clustered errors", Review of
        Economics and Statistics 90(3), 2008: the pairs cluster bootstrap; percentile interval.

    Example:
        Four answers of two problems, right in 3 cases; each problem is one draw.

        >>> right_and_all = ClusterFigure(np.array([[2.0, 2.0], [1.0, 2.0]]), ratio_of_sums)
        >>> cluster_bootstrap_intervals([right_and_all], rng=np.random.default_rng(0))
        [Interval(value=0.75, low=0.5, high=1.0)]
    """
    _check_settings(level, n_resamples)
    sizes = {len(figure.columns_PC) for figure in figures}
    if len(sizes) > 1:
        raise DataError(f"figures: expected all over the same clusters, got {' and '.join(map(str, sorted(sizes)))}")
    if not all(np.isfinite(figure.columns_PC).all() for figure in figures):
        raise DataError("figures: expected finite sums, got NaN or infinity; leave undefined ones out and count them")
    n_clusters = sizes.pop() if sizes else 0
    if n_clusters == 0:
        return [Interval(np.nan, np.nan, np.nan) for _ in figures]
    columns_PC = np.concatenate([figure.columns_PC for figure in figures], axis=1)
    ends = np.cumsum([figure.columns_PC.shape[1] for figure in figures])[:-1]
    estimates: list[list[NDArray[np.float64]]] = [[] for _ in figures]
    for n_drawn in _portions(n_resamples, size=max(1, _CELLS // n_clusters)):
        cluster_RP = rng.integers(n_clusters, size=(n_drawn, n_clusters)) + n_clusters * np.arange(n_drawn)[:, None]
        times_RP = np.bincount(cluster_RP.ravel(), minlength=n_drawn * n_clusters).reshape(n_drawn, n_clusters)
        for place, sums_RC in enumerate(np.split(times_RP.astype(np.float64) @ columns_PC, ends, axis=1)):
            estimates[place].append(figures[place].statistic(sums_RC))
    return [
        _around(figure, np.concatenate(drawn), level=level) for figure, drawn in zip(figures, estimates, strict=True)
    ]


def _around(figure: ClusterFigure, estimate_R: NDArray[np.float64], *, level: float) -> Interval:
    value = figure.value()
    defined_R = estimate_R[~np.isnan(estimate_R)]
    if np.isnan(value) or len(defined_R) == 0 or figure.columns_PC.any(axis=1).sum() < 2:
        return Interval(value, np.nan, np.nan)
    low, high = np.quantile(defined_R, [(1 - level) / 2, (1 + level) / 2])
    return Interval(value, float(low), float(high))


def _mean(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    return columns[..., 0]


def _interval(
    columns_KC: NDArray[np.float64],
    statistic: Statistic,
    *,
    rng: np.random.Generator,
    level: float,
    n_resamples: int,
    count_K: NDArray[np.intp] | None = None,
) -> Interval:
    """The estimate and its interval over items, given one by one or as different ones with the number of each."""
    _check_settings(level, n_resamples)
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


def _check_settings(level: float, n_resamples: int) -> None:
    if not 0 < level < 1:
        raise UsageError(f"level: expected a number between 0 and 1, got {level!r}")
    if n_resamples < 1:
        raise UsageError(f"n_resamples: expected at least 1, got {n_resamples!r}")


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
