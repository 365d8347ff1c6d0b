"""Percentile bootstrap over two crossed factors: training seeds and evaluation items."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corpo_rl.errors import DataError
from corpo_rl.records import Interval


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
