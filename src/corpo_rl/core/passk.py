"""pass@k: how likely at least one of k samples is correct, estimated from n samples."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corpo_rl.core.intervals import bootstrap_interval
from corpo_rl.errors import DataError
from corpo_rl.records import Interval


class MeanPassAtK(NamedTuple):
    """Mean pass@k over the items where it is defined, and how many those are."""

    interval: Interval
    n_items: int
    """Items with at least k samples."""
    n_left_out: int
    """Items with fewer than k samples, left out."""


def pass_at_k(n_correct: ArrayLike, n_samples: ArrayLike, k: int) -> NDArray[np.float64]:
    """Unbiased estimate, for each item, that at least one of k samples is correct.

        pass@k = 1 - C(n - c, k) / C(n, k) = 1 - product over j < k of (n - c - j) / (n - j)

    The product is what is computed: the binomials would overflow.

    Args:
        n_correct: Correct samples of each item, c. Shape [I], or one number.
        n_samples: Samples drawn for each item, n. Shape [I], or one number for all items.
        k: Samples allowed, at least 1.

    Returns:
        Probability for each item, in [0, 1]; NaN where n < k. Shape [I], or one number for one item.

    Raises:
        DataError: The shapes differ, a count is not an integer or is negative, c > n somewhere, or k < 1.

    Source:
        Chen et al., https://arxiv.org/abs/2107.03374, equation 1.

    Example:
        >>> pass_at_k([0, 1, 2, 4], 4, k=2)
        array([0.        , 0.5       , 0.83333333, 1.        ])
    """
    correct, samples = _counts("n_correct", n_correct), _counts("n_samples", n_samples)
    if samples.ndim and correct.shape != samples.shape:
        raise DataError(f"n_samples: expected one number or shape {list(correct.shape)}, got {list(samples.shape)}")
    if (correct > samples).any():
        raise DataError("n_correct: expected at most n_samples for every item, got more correct samples than samples")
    if not isinstance(k, int | np.integer) or k < 1:
        raise DataError(f"k: expected an integer of at least 1, got {k!r}")

    wrong, samples = np.broadcast_arrays(samples - correct, samples)
    none_correct = np.ones(wrong.shape)
    for j in range(k):
        none_correct *= np.maximum(wrong - j, 0) / np.maximum(samples - j, 1)
    estimate: NDArray[np.float64] = np.where(samples >= k, 1 - none_correct, np.nan)[()]
    return estimate


def mean_pass_at_k(
    n_correct: ArrayLike,
    n_samples: ArrayLike,
    k: int,
    *,
    rng: np.random.Generator,
    level: float = 0.95,
    n_resamples: int = 2000,
) -> MeanPassAtK:
    """Mean pass@k over items, with a bootstrap interval over items; those with fewer than k samples are counted out.

    Args:
        n_correct: Correct samples of each item. Shape [I].
        n_samples: Samples drawn for each item. Shape [I], or one number for all items.
        k: Samples allowed, at least 1.
        rng: Source of the resampling.
        level: Coverage aimed at, in (0, 1).
        n_resamples: Number of resamples.

    Raises:
        DataError: As `pass_at_k`, or the settings of the interval are out of range.

    Example:
        >>> result = mean_pass_at_k([0, 1, 4, 1], [4, 4, 4, 1], k=2, rng=np.random.default_rng(0))
        >>> result.interval.value, result.n_items, result.n_left_out
        (0.5, 3, 1)
    """
    estimate_I = np.atleast_1d(pass_at_k(n_correct, n_samples, k))
    defined_I = ~np.isnan(estimate_I)
    return MeanPassAtK(
        interval=bootstrap_interval(estimate_I[defined_I], rng=rng, level=level, n_resamples=n_resamples),
        n_items=int(defined_I.sum()),
        n_left_out=int((~defined_I).sum()),
    )


def _counts(name: str, values: ArrayLike) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.ndim > 1 or array.dtype.kind not in "biu":
        raise DataError(f"{name}: expected integers of shape [I], got {array.dtype.name} of shape {list(array.shape)}")
    if (array < 0).any():
        raise DataError(f"{name}: expected counts of at least 0, got {array.min()}")
    return array.astype(np.int64)
