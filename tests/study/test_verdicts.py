import math
from statistics import NormalDist

import numpy as np
import pytest

from corpo_rl.core.intervals import crossed_bootstrap_interval
from corpo_rl.errors import DataError, UsageError
from corpo_rl.records import Interval
from corpo_rl.study.verdicts import Rule, overall, seed_interval, student_quantile

YES, NO, OPEN = "supported", "not supported", "undecided"


def between(low, high):
    return Interval((low + high) / 2, low, high)


@pytest.mark.parametrize(
    ("low", "high", "above", "below", "within"),
    [
        # null 1, margin 0.5: alike is from 0.5 to 1.5
        (1.1, 3.0, YES, NO, OPEN),
        (1.1, 1.4, YES, NO, YES),  # small, but surely there
        (1.6, 3.0, YES, NO, NO),
        (0.2, 3.0, OPEN, OPEN, OPEN),
        (0.6, 1.4, NO, NO, YES),  # whatever there is, is too little to matter
        (0.5, 1.5, NO, NO, YES),  # the margin belongs to it
        (0.6, 1.6, OPEN, OPEN, OPEN),
        (0.2, 0.9, NO, YES, OPEN),
        (-3.0, 0.4, NO, YES, NO),
        (1.0, 1.2, NO, NO, YES),  # an end at the null does not exclude it
    ],
)
def test_rule(low, high, above, below, within):
    interval = between(low, high)
    assert Rule("above", 1.0, 0.5).verdict(interval) == above
    assert Rule("below", 1.0, 0.5).verdict(interval) == below
    assert Rule("within", 1.0, 0.5).verdict(interval) == within


def test_without_a_margin_nothing_is_too_small():
    assert Rule("above", 1.0).verdict(between(0.99, 1.01)) == OPEN
    assert Rule("above", 1.0).verdict(between(1.001, 1.01)) == YES
    assert Rule("below", 1.0).verdict(between(1.001, 1.01)) == NO


def test_what_is_not_known_is_undecided():
    for kind in ("above", "below", "within"):
        assert Rule(kind, 0.0, 1.0).verdict(Interval(0.1, math.nan, math.nan)) == OPEN


@pytest.mark.parametrize(("kind", "margin"), [("within", None), ("above", -0.1)])
def test_a_rule_without_its_margin_is_refused(kind, margin):
    with pytest.raises(UsageError, match="margin: expected"):
        Rule(kind, 0.0, margin)


@pytest.mark.parametrize(
    ("verdicts", "word"),
    [
        ([YES, YES, YES], YES),
        ([YES, YES, OPEN], YES),
        ([YES, OPEN], OPEN),  # half is not more than half
        ([YES, YES, NO], "mixed"),
        ([NO, NO, OPEN], NO),
        ([OPEN, OPEN, NO], OPEN),
        ([OPEN], OPEN),
    ],
)
def test_one_word_for_all_cells(verdicts, word):
    assert overall(verdicts) == word


@pytest.mark.parametrize(
    ("p", "degrees", "value"),
    [  # as printed in the tables of Student's t
        (0.975, 1, 12.706), (0.975, 2, 4.303), (0.975, 3, 3.182), (0.975, 4, 2.776), (0.975, 9, 2.262),
        (0.975, 10, 2.228), (0.975, 30, 2.042), (0.995, 2, 9.925), (0.995, 9, 3.250), (0.95, 5, 2.015),
    ],
)  # fmt: skip
def test_student_as_in_the_tables(p, degrees, value):
    assert student_quantile(p, degrees) == pytest.approx(value, abs=6e-4)


def test_student_for_many_degrees_is_the_normal():
    assert student_quantile(0.975, 100_000) == pytest.approx(NormalDist().inv_cdf(0.975), abs=1e-4)
    with pytest.raises(UsageError, match="at least one degree"):
        student_quantile(0.975, 0)


def test_interval_is_that_of_the_bootstrap_moved_away_by_the_factor():
    values_SI = np.random.default_rng(1).normal(0.5, 0.2, size=(10, 7))
    plain = crossed_bootstrap_interval(values_SI, rng=np.random.default_rng(0), level=0.95, n_resamples=4000)
    found = seed_interval(values_SI)
    factor = 2.2622 / 1.9600 * math.sqrt(10 / 9)  # t of 9 degrees / z, and the root: 1.2166
    assert found.value == plain.value == pytest.approx(values_SI.mean())
    assert found.value - found.low == pytest.approx(factor * (plain.value - plain.low), rel=1e-4)
    assert found.high - found.value == pytest.approx(factor * (plain.high - plain.value), rel=1e-4)


def test_intervals_of_ten_seeds_cover_as_often_as_they_say():
    rng = np.random.default_rng(7)
    n, plain, ours = 500, 0, 0
    for _ in range(n):
        values_S = rng.normal(size=10)
        found = seed_interval(values_S, n_resamples=400)
        narrow = crossed_bootstrap_interval(values_S[:, None], rng=np.random.default_rng(0), n_resamples=400)
        ours += found.low <= 0 <= found.high
        plain += narrow.low <= 0 <= narrow.high
    # the standard error of a share of 500 at 0.95 is 0.010
    assert ours / n == pytest.approx(0.95, abs=0.03)
    assert plain / n < 0.92, "the plain bootstrap of ten is too narrow, or there is nothing to mend"


def test_few_seeds_and_undefined_ones():
    assert seed_interval([0.5, 0.5, 0.5]) == Interval(0.5, 0.5, 0.5)
    assert seed_interval([math.nan, 0.5, 0.5]) == Interval(0.5, 0.5, 0.5)
    one = seed_interval([0.25])
    assert one.value == 0.25
    assert math.isnan(one.low)
    assert math.isnan(seed_interval([math.nan]).value)
    assert math.isnan(seed_interval([]).value)
    with pytest.raises(DataError, match=r"expected shape \[S\] or \[S, I\], got \[1, 1, 1\]"):
        seed_interval([[[1.0]]])
