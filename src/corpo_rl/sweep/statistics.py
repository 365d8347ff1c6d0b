"""What may be said of a best trial: halves of the items, draws of seeds and problems, and which trials tie with it."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corpo_rl.errors import DataError
from corpo_rl.records import Interval

N_RESAMPLES = 2000
"""Draws of a bootstrap; as in `core.intervals`."""

HALVES_SEED = 0
"""Deals the problems out; the same for every sweep, so that two sweeps of one task choose by the same items."""


def selection_half(problem: ArrayLike) -> NDArray[np.bool_]:
    """Which items trials are chosen by; the others are kept for the report.

    Problems are dealt out in random order, each to the half that has fewer items, so that no problem is in both.

    Args:
        problem: Problem of each item, any whole numbers. Shape [I].

    Returns:
        True for an item to choose by. Shape [I].

    Raises:
        DataError: There are fewer than two problems, of which a half could be kept.

    Example:
        >>> bool(selection_half([7, 7, 8, 8]).sum() == 2)
        True
    """
    problem_I = np.asarray(problem)
    problems_P, index_I, size_P = np.unique(problem_I, return_inverse=True, return_counts=True)
    if len(problems_P) < 2:
        raise DataError(f"expected items of at least 2 problems, to choose by some and report others, got {problem_I}")
    chosen_P = np.zeros(len(problems_P), dtype=bool)
    filled = {True: 0, False: 0}
    for place in np.random.default_rng(HALVES_SEED).permutation(len(problems_P)):
        chosen = filled[True] <= filled[False]
        chosen_P[place] = chosen
        filled[chosen] += int(size_P[place])
    halves_I: NDArray[np.bool_] = chosen_P[index_I]
    return halves_I


def means(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean of each trial over its defined values; NaN for a trial without one. Shape [T, S, I] to [T]."""
    defined_TSI = np.isfinite(values)
    count_T = defined_TSI.sum(axis=(1, 2))
    total_T = np.where(defined_TSI, values, 0.0).sum(axis=(1, 2))
    mean_T: NDArray[np.float64] = np.full(len(values), np.nan)
    np.divide(total_T, count_T, out=mean_T, where=count_T > 0)
    return mean_T


def resampled_means(
    values: ArrayLike, problem: ArrayLike, *, rng: np.random.Generator, n_resamples: int = N_RESAMPLES
) -> NDArray[np.float64]:
    """The mean of each trial in each draw of seeds and problems: the same draw for all, so that they can be compared.

    Seeds and problems are drawn independently, with replacement; all items of a problem come together. With one item a
    problem this is `core.intervals.crossed_bootstrap_interval`, draw for draw.

    Args:
        values: Figure of each trial, under each seed, at each item; NaN where undefined. Shape [T, S, I].
        problem: Problem of each item. Shape [I].
        rng: Source of the draws.
        n_resamples: Number of draws.

    Returns:
        Means over the defined values, NaN in a draw without one. Shape [R, T].

    Raises:
        DataError: The shapes do not fit.

    Source:
        Owen, "The pigeonhole bootstrap", https://arxiv.org/abs/0712.1111.
    """
    values_TSI: NDArray[np.float64] = np.asarray(values, dtype=np.float64)
    problem_I = np.asarray(problem)
    if values_TSI.ndim != 3 or 0 in values_TSI.shape or problem_I.shape != values_TSI.shape[2:]:
        raise DataError(
            f"values: expected shape [T, S, I] with a problem for each item, got {list(values_TSI.shape)} and "
            f"{list(problem_I.shape)}"
        )
    n_trials, n_seeds, _ = values_TSI.shape
    problems_P, index_I = np.unique(problem_I, return_inverse=True)
    n_problems = len(problems_P)
    weight_RS = rng.multinomial(n_seeds, np.full(n_seeds, 1 / n_seeds), size=n_resamples).astype(np.float64)
    weight_RP = rng.multinomial(n_problems, np.full(n_problems, 1 / n_problems), size=n_resamples)
    weight_RI = weight_RP[:, index_I].astype(np.float64)

    mean_RT = np.full((n_resamples, n_trials), np.nan)
    for trial, values_SI in enumerate(values_TSI):
        defined_SI = np.isfinite(values_SI)
        total_R = ((weight_RS @ np.where(defined_SI, values_SI, 0.0)) * weight_RI).sum(axis=1)
        count_R = ((weight_RS @ defined_SI.astype(np.float64)) * weight_RI).sum(axis=1)
        np.divide(total_R, count_R, out=mean_RT[:, trial], where=count_R > 0)
    return mean_RT


def intervals(
    values: ArrayLike, problem: ArrayLike, *, level: float, seed: int = 0, n_resamples: int = N_RESAMPLES
) -> list[Interval]:
    """Mean of each trial with its interval over seeds and problems.

    An interval takes one figure at a time: of the best of many trials it says where its mean lies, not how much of that
    mean is luck of having been picked. The bounds are NaN for a single problem.

    Args:
        values: As in `resampled_means`. Shape [T, S, I].
        problem: Problem of each item. Shape [I].
        level: Coverage aimed at, in (0, 1).
        seed: Seed of the draws.
        n_resamples: Number of draws.

    Raises:
        DataError: The shapes do not fit.
    """
    values_TSI: NDArray[np.float64] = np.asarray(values, dtype=np.float64)
    mean_RT = resampled_means(values_TSI, problem, rng=np.random.default_rng(seed), n_resamples=n_resamples)
    alone = len(np.unique(np.asarray(problem))) < 2
    found = []
    for mean, mean_R in zip(means(values_TSI), mean_RT.T, strict=True):
        defined_R = mean_R[np.isfinite(mean_R)]
        if alone or len(defined_R) == 0:
            found.append(Interval(float(mean), np.nan, np.nan))
            continue
        low, high = np.quantile(defined_R, [(1 - level) / 2, (1 + level) / 2])
        found.append(Interval(float(mean), float(low), float(high)))
    return found


def tied_with_best(
    values: ArrayLike,
    problem: ArrayLike,
    *,
    minimize: bool,
    level: float,
    seed: int = 0,
    n_resamples: int = N_RESAMPLES,
) -> list[bool]:
    """Which trials cannot be told from the best one, by differences on the same seeds and problems.

    With d_ij the difference of two trials, s_ij its standard error and * a draw:

        c = quantile of max over all i, j of (d*_ij - d_ij) / s_ij;   j ties with the best b when d_bj <= c s_bj

    with c widened for few problems, as Student's t is.
    The maximum runs over every ordered pair and not only over those with the best, since which trial is the best was
    read off the same figures; the chance that any trial is wrongly told from the best is about 1 - `level`.

    Args:
        values: As in `resampled_means`. Shape [T, S, I].
        problem: Problem of each item. Shape [I].
        minimize: Whether the least value is the best.
        level: Coverage aimed at, in (0, 1).
        seed: Seed of the draws.
        n_resamples: Number of draws.

    Returns:
        True for each trial that ties, the best itself among them; False where the mean is undefined. Length T.

    Raises:
        DataError: The shapes do not fit.

    Source:
        Hsu, "Multiple Comparisons: Theory and Methods", 1996, chapter 4 (comparisons with the best), with the critical
        value of all pairwise differences, by bootstrap: Romano and Wolf, "Exact and approximate stepdown methods for
        multiple hypothesis testing", JASA 100(469), 2005.

    Example:
        Two trials alike and one far off, one seed, 20 problems:

        >>> rng = np.random.default_rng(0)
        >>> alike, poor = rng.random((2, 1, 20)), rng.random((1, 1, 20)) - 5
        >>> tied_with_best(np.concatenate([alike, poor]), np.arange(20), minimize=False, level=0.95)
        [True, True, False]
    """
    sign = -1.0 if minimize else 1.0
    values_TSI: NDArray[np.float64] = sign * np.asarray(values, dtype=np.float64)
    mean_RT = resampled_means(values_TSI, problem, rng=np.random.default_rng(seed), n_resamples=n_resamples)
    mean_T = means(values_TSI)
    known_T = np.isfinite(mean_T)
    if not known_T.any():
        return [False] * len(mean_T)
    # draws in which some trial is undefined would compare trials over different draws
    mean_RT = mean_RT[np.isfinite(mean_RT[:, known_T]).all(axis=1)]
    best = best_trial(mean_T)
    worst_R = np.full(len(mean_RT), -np.inf)
    spread_of_best_T = np.zeros(len(mean_T))
    for one in np.flatnonzero(known_T):
        difference_RT = mean_RT[:, [one]] - mean_RT
        spread_T = np.where(known_T, _spread(difference_RT), 0.0)
        told_T = spread_T > 0
        if told_T.any():
            centred_RT = difference_RT[:, told_T] - (mean_T[one] - mean_T[told_T])
            worst_R = np.maximum(worst_R, (centred_RT / spread_T[told_T]).max(axis=1))
        if one == best:
            spread_of_best_T = spread_T
    critical = float(np.quantile(worst_R, level)) if len(worst_R) and np.isfinite(worst_R).all() else 0.0
    critical = _for_few(critical, n=len(np.unique(np.asarray(problem))))
    with np.errstate(invalid="ignore"):
        return [bool(tied) for tied in known_T & (mean_T[best] - mean_T <= critical * spread_of_best_T)]


def best_trial(mean: Sequence[float] | NDArray[np.float64]) -> int:
    """Place of the greatest mean, the first of equals; undefined ones do not count."""
    return int(np.nanargmax(np.asarray(mean, dtype=np.float64)))


def _for_few(critical: float, *, n: int) -> float:
    """The critical value widened for an error estimated from n problems: of Student's t rather than the normal.

    t(p; n - 1) from z(p) by its expansion, Abramowitz and Stegun 26.7.5, and the n / (n - 1) of a bootstrap's variance.
    """
    if n < 2:
        return critical
    z, df = critical, n - 1
    wider = z + (z**3 + z) / (4 * df) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * df**2)
    return float(wider * np.sqrt(n / df))


def _spread(difference_RT: NDArray[np.float64]) -> NDArray[np.float64]:
    """Standard error of each difference, 0 where only rounding moves it."""
    if len(difference_RT) < 2:
        return np.zeros(difference_RT.shape[1])
    with np.errstate(invalid="ignore"):
        spread_T: NDArray[np.float64] = difference_RT.std(axis=0, ddof=1)
    return np.where(np.isfinite(spread_T) & (spread_T > 1e-12), spread_T, 0.0)
