"""How far scores can be trusted, from counts of right and wrong answers at each score level.

Everything here is a function of counts, so that a bootstrap over problems only has to add counts up.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def auroc(right: ArrayLike, wrong: ArrayLike) -> NDArray[np.float64]:
    """Probability that a right answer has a higher score than a wrong one, ties counting half.

        AUROC = sum over levels i of  r_i (w below i + w_i / 2)  /  (sum r  sum w)

    Args:
        right: Right answers at each score level, lowest level first. Shape [..., L].
        wrong: Wrong answers. Shape [..., L].

    Returns:
        In [0, 1], 0.5 for scores that tell nothing; NaN without right or without wrong answers. Shape [...].

    Source:
        Hanley and McNeil, Radiology 143, 1982 (the area is the Mann-Whitney statistic).

    Example:
        >>> float(auroc([0, 1, 3], [2, 1, 1]))
        0.8125
    """
    right_L, wrong_L = np.asarray(right, dtype=np.float64), np.asarray(wrong, dtype=np.float64)
    below_L = np.cumsum(wrong_L, axis=-1) - wrong_L
    above = (right_L * (below_L + wrong_L / 2)).sum(axis=-1)
    return _ratio(above, right_L.sum(axis=-1) * wrong_L.sum(axis=-1))


def expected_calibration_error(right: ArrayLike, wrong: ArrayLike, probabilities: ArrayLike) -> NDArray[np.float64]:
    """Mean distance between what a score claims and how often it is right, each score level being a bin.

        ECE = sum over levels i of  n_i / n  | r_i / n_i - p_i |,        n_i = r_i + w_i

    Args:
        right: Right answers at each level. Shape [..., L].
        wrong: Wrong answers. Shape [..., L].
        probabilities: What each level claims, e.g. score / 10. Shape [L].

    Returns:
        In [0, 1], 0 for perfect calibration; NaN without answers. Shape [...].

    Source:
        Naeini et al., AAAI 2015; with bins of one level each, since the levels are few.

    Example:
        >>> float(expected_calibration_error([0, 3], [2, 1], [0.0, 1.0]))
        0.16666666666666666
    """
    right_L, wrong_L = np.asarray(right, dtype=np.float64), np.asarray(wrong, dtype=np.float64)
    n_L = right_L + wrong_L
    gaps = np.abs(right_L - n_L * np.asarray(probabilities, dtype=np.float64)).sum(axis=-1)
    return _ratio(gaps, n_L.sum(axis=-1))


def brier_score(right: ArrayLike, wrong: ArrayLike, probabilities: ArrayLike) -> NDArray[np.float64]:
    """Mean squared distance between the claimed probability and the label.

        Brier = sum over levels i of  r_i (1 - p_i)^2 + w_i p_i^2   /   n

    Args:
        right: Right answers at each level. Shape [..., L].
        wrong: Wrong answers. Shape [..., L].
        probabilities: What each level claims. Shape [L].

    Returns:
        In [0, 1], 0 best; 0.25 for 0.5 everywhere; NaN without answers. Shape [...].

    Source:
        Brier, Monthly Weather Review 78(1), 1950.

    Example:
        >>> float(brier_score([0, 3], [2, 1], [0.0, 1.0]))
        0.16666666666666666
    """
    right_L, wrong_L = np.asarray(right, dtype=np.float64), np.asarray(wrong, dtype=np.float64)
    p_L = np.asarray(probabilities, dtype=np.float64)
    total = (right_L * (1 - p_L) ** 2 + wrong_L * p_L**2).sum(axis=-1)
    return _ratio(total, (right_L + wrong_L).sum(axis=-1))


def _ratio(top: NDArray[np.float64], bottom: NDArray[np.float64]) -> NDArray[np.float64]:
    top, bottom = np.asarray(top), np.asarray(bottom)
    ratio: NDArray[np.float64] = np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom != 0)
    return ratio
