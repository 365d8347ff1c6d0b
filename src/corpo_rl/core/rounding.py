"""What counts as rounding, and how to read numbers that have been through float32."""

import numpy as np
from numpy.typing import NDArray

ROUNDING = 1e-9
"""Differences up to this share of the values compared are taken for rounding. 6 rewards of 0.1 have a standard
deviation of 1e-17 in floating point; without a tolerance, dividing by it makes an advantage of 1 out of nothing."""

SMALLEST = 1e-12
"""Differences up to this are taken for rounding whatever the values compared."""

FLOAT32_ROUNDING = 2.0**-22
"""Of values that went through float32, differences up to this share of the group's largest reward are rounding: two
units in the last place."""


def under(values: NDArray[np.float64], threshold: float) -> NDArray[np.bool_]:
    """Whether each value is under the threshold by more than rounding; False for NaN. For means, which are rounded."""
    tolerance = np.maximum(ROUNDING * np.maximum(np.abs(values), abs(threshold)), SMALLEST)
    under: NDArray[np.bool_] = values < threshold - tolerance
    return under


def as_decimals(values: NDArray[np.float64] | np.float64) -> NDArray[np.float64]:
    """Values rounded to float32, each read as the decimal of up to 6 places that rounds to it, if any; NaN stays NaN.

    0.7 arrives as 0.699999988 and would fail a `min_correct` of 0.7; the mean of 0.1, 0.2 and 0.3 would not be 0.2.

    Example:
        >>> as_decimals(np.float64(np.float32(0.7))).item(), as_decimals(np.float64(1 / 3)).item()
        (0.7, 0.3333333333333333)
    """
    decimals = np.round(values, 6)
    return np.where(decimals.astype(np.float32) == values.astype(np.float32), decimals, values)


def threshold_as_read(threshold: float) -> float:
    """The threshold read like values rounded to float32, so that a value of exactly it reaches it, 5/6 too.

    Example:
        >>> threshold_as_read(0.7), threshold_as_read(5 / 6), threshold_as_read(1e300)
        (0.7, 0.8333333134651184, 1e+300)
    """
    with np.errstate(over="ignore"):
        rounded = np.float64(np.float32(threshold))
    return float(as_decimals(rounded)) if np.isfinite(rounded) else threshold
