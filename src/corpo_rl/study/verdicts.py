"""What may be said of a claim, by a rule that was fixed before anything was run."""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corpo_rl.core.intervals import crossed_bootstrap_interval
from corpo_rl.errors import DataError, UsageError
from corpo_rl.records import Interval

Verdict = Literal["supported", "not supported", "undecided"]
Overall = Literal["supported", "not supported", "mixed", "undecided"]

N_RESAMPLES = 4000


@dataclass(frozen=True)
class Rule:
    """What an interval has to be for a claim about one number.

    above: supported when the whole interval is over `null`, not supported when all of it is under it.
    below: the other way round.
    within: supported when the whole interval lies at most `margin` from `null`, not supported when all of it lies
        farther away, on one side.

    An "above" or "below" with a margin is not supported, too, when the whole interval lies at most `margin` from `null`
    and yet holds it: whatever there is, is too little to matter. In every other case it is undecided.
    """

    kind: Literal["above", "below", "within"]
    null: float
    margin: float | None = None

    def __post_init__(self) -> None:
        if self.kind == "within" and self.margin is None:
            raise UsageError("margin: expected a number for a claim of equality")
        if self.margin is not None and not self.margin >= 0:
            raise UsageError(f"margin: expected 0 or more, got {self.margin}")

    def verdict(self, interval: Interval) -> Verdict:
        """The verdict; undecided where the interval is not known."""
        low, high = interval.low, interval.high
        if math.isnan(low) or math.isnan(high):
            return "undecided"
        if self.kind == "below":
            low, high, null = -high, -low, -self.null
        else:
            null = self.null
        margin = self.margin
        inside = margin is not None and null - margin <= low and high <= null + margin
        if self.kind == "within":
            assert margin is not None
            outside = high < null - margin or low > null + margin
            return "supported" if inside else "not supported" if outside else "undecided"
        if low > null:
            return "supported"
        return "not supported" if high < null or inside else "undecided"


def overall(verdicts: list[Verdict]) -> Overall:
    """One word for the verdicts of all cells.

    Supported when it is so in more than half of the cells and refused in none, not supported the other way round; mixed
    when there are cells of both kinds.

    Example:
        >>> overall(["supported", "supported", "undecided"]), overall(["supported", "undecided"])
        ('supported', 'undecided')
    """
    n_for, n_against = verdicts.count("supported"), verdicts.count("not supported")
    if n_for and n_against:
        return "mixed"
    if 2 * n_for > len(verdicts):
        return "supported"
    return "not supported" if 2 * n_against > len(verdicts) else "undecided"


def seed_interval(values: ArrayLike, *, level: float = 0.95, n_resamples: int = N_RESAMPLES) -> Interval:
    """Mean over seeds (and items) with an interval that is honest about few seeds.

    The percentile interval of `core.intervals.crossed_bootstrap_interval`, which resamples seeds and, where there are
    several, items, with each end moved away from the mean by the factor

        t / z * sqrt(S / (S - 1)),      t and z the quantiles of Student with S - 1 degrees and of the normal

    A bootstrap of S values knows a spread that is too small by the root, and reads it as if it were known exactly; for
    ten seeds the factor is 1.22 at 95 %. It is put on the whole width, the part that comes from items too, and so errs
    to the wide side.

    Args:
        values: Figure of each seed, shape [S], or of each seed at each item, shape [S, I]. A seed of which nothing is
            known (NaN) is left out: whoever calls counts them.
        level: Coverage aimed at.
        n_resamples: Draws of the bootstrap; their generator always begins from 0.

    Returns:
        Mean and interval; bounds NaN for fewer than two seeds, all NaN for none.

    Raises:
        DataError: The shape is none of the two.
    """
    values_SI: NDArray[np.float64] = np.asarray(values, dtype=np.float64)
    if values_SI.ndim not in (1, 2):
        raise DataError(f"values: expected shape [S] or [S, I], got {list(values_SI.shape)}")
    values_SI = values_SI[:, None] if values_SI.ndim == 1 else values_SI
    values_SI = values_SI[np.isfinite(values_SI).any(axis=1)]
    n_seeds = len(values_SI)
    if n_seeds == 0:
        return Interval(math.nan, math.nan, math.nan)
    found = crossed_bootstrap_interval(values_SI, rng=np.random.default_rng(0), level=level, n_resamples=n_resamples)
    if n_seeds == 1:
        return Interval(found.value, math.nan, math.nan)
    wider = student_quantile((1 + level) / 2, n_seeds - 1) / NormalDist().inv_cdf((1 + level) / 2)
    wider *= math.sqrt(n_seeds / (n_seeds - 1))
    return Interval(
        found.value,
        found.value - wider * (found.value - found.low),
        found.value + wider * (found.high - found.value),
    )


def student_quantile(p: float, degrees: int) -> float:
    """Quantile of Student's t for a whole number of degrees of freedom; 1/2 < p < 1.

    By bisection of the distribution's closed form.

    Source:
        Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4.

    Example:
        >>> round(student_quantile(0.975, 9), 3)
        2.262
    """
    if not 0.5 < p < 1 or degrees < 1:
        raise UsageError(f"expected p in (1/2, 1) and at least one degree of freedom, got {p} and {degrees}")
    low, high = 0.0, 1.0
    while _student_within(high, degrees) < 2 * p - 1:
        low, high = high, 2 * high
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _student_within(middle, degrees) < 2 * p - 1 else (low, middle)
    return (low + high) / 2


def _student_within(t: float, degrees: int) -> float:
    """Chance that Student's t lies within -t and t."""
    angle = math.atan(t / math.sqrt(degrees))
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = degrees % 2
    term = cosine if odd else 1.0
    found = term if degrees > 1 else 0.0
    for number in range(2 + odd, degrees - 1, 2):
        term *= (number - 1) / number * cosine**2
        found += term
    return 2 / math.pi * (angle + sine * found) if odd else sine * found
