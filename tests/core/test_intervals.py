import numpy as np
import pytest

from corpo_rl.core import intervals
from corpo_rl.core.intervals import bootstrap_interval, bootstrap_ratio_interval, paired_difference_interval
from corpo_rl.errors import DataError, UsageError
from corpo_rl.records import Interval


def rng(seed=0):
    return np.random.default_rng(seed)


def test_mean_interval_is_near_the_normal_one():
    # 400 items: mean +- 1.96 std / sqrt(400), to within the bootstrap's own noise
    values = rng().normal(size=400)
    actual = bootstrap_interval(values, rng=rng(1), n_resamples=4000)
    half = 1.96 * values.std() / 20
    assert actual.value == pytest.approx(values.mean())
    np.testing.assert_allclose([actual.low, actual.high], [values.mean() - half, values.mean() + half], atol=0.012)
    wider = bootstrap_interval(values, rng=rng(1), n_resamples=4000, level=0.99)
    assert wider.low < actual.low < actual.high < wider.high


def test_covers_the_truth_about_as_often_as_it_says():
    draws = [bootstrap_interval(rng(seed).random(60), rng=rng(seed), n_resamples=400) for seed in range(300)]
    covered = np.mean([interval.low <= 0.5 <= interval.high for interval in draws])
    assert 0.90 <= covered <= 0.98  # 0.95 aimed at, standard error sqrt(.95 * .05 / 300) = 0.013


def test_same_generator_same_interval():
    values = rng().random(50)
    assert bootstrap_interval(values, rng=rng(3)) == bootstrap_interval(values, rng=rng(3))
    assert bootstrap_interval(values, rng=rng(3)) != bootstrap_interval(values, rng=rng(4))


def test_what_items_cannot_tell_is_nan():
    empty, single = bootstrap_interval([], rng=rng()), bootstrap_interval([0.7], rng=rng())
    assert np.isnan([empty.value, empty.low, empty.high]).all()
    assert single.value == 0.7
    assert np.isnan([single.low, single.high]).all()
    assert bootstrap_interval([0.7] * 9, rng=rng()) == Interval(
        pytest.approx(0.7), pytest.approx(0.7), pytest.approx(0.7)
    )


def test_many_items_are_drawn_in_portions(monkeypatch):
    values = rng().random(50)
    whole = bootstrap_interval(values, rng=rng(5), n_resamples=101)
    monkeypatch.setattr(intervals, "_CELLS", 50 * 10)  # ten resamples at a time, one in the last portion
    assert bootstrap_interval(values, rng=rng(5), n_resamples=101) == whole


def test_ratio_is_pooled():
    # 1/1 and 1/9: pooled 2/10, not the mean of shares 0.56
    assert bootstrap_ratio_interval([1, 1], [1, 9], rng=rng()).value == pytest.approx(0.2)
    # resampled, the two items give 1/1, 2/10 or 1/9
    actual = bootstrap_ratio_interval([1, 1], [1, 9], rng=rng(), level=0.9)
    np.testing.assert_allclose([actual.low, actual.high], [1 / 9, 1.0])
    # a ratio of 0 is a ratio: the first item twice gives 0/4
    assert bootstrap_ratio_interval([0, 1], [2, 2], rng=rng()) == Interval(0.25, 0.0, 0.5)


def test_ratio_with_an_empty_denominator():
    nothing = bootstrap_ratio_interval([0, 0], [0, 0], rng=rng())
    assert np.isnan([nothing.value, nothing.low, nothing.high]).all()
    # a quarter of the resamples of (0/0, 1/2) draw the first item twice: those have no ratio
    some = bootstrap_ratio_interval([0, 1], [0, 2], rng=rng())
    assert (some.value, some.low, some.high) == (0.5, 0.5, 0.5)


def test_ratio_resamples_numerator_and_denominator_together():
    counts = rng().integers(1, 9, size=40)
    assert bootstrap_ratio_interval(counts / 4, counts, rng=rng()) == Interval(0.25, 0.25, 0.25)


def test_difference_is_paired():
    # b is a less 0.1 at every item: the spread between items cancels
    a = rng().normal(size=100)
    actual = paired_difference_interval(a, a - 0.1, rng=rng())
    np.testing.assert_allclose([actual.interval.low, actual.interval.high], 0.1)
    assert (actual.n_items, actual.n_left_out) == (100, 0)


def test_difference_leaves_out_items_known_on_one_side_only():
    # known on both sides: 1 - 0 and 3 - 1 -> mean 1.5
    nan = float("nan")
    actual = paired_difference_interval([1.0, nan, 3.0, 5.0], [0.0, 9.0, 1.0, nan], rng=rng())
    assert (actual.interval.value, actual.n_items, actual.n_left_out) == (1.5, 2, 2)
    assert np.isnan(paired_difference_interval([nan], [1.0], rng=rng()).interval.value)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: bootstrap_interval([1.0, np.nan], rng=rng()), DataError, "values: 1 of 2 values are not finite"),
        (lambda: bootstrap_interval([[1.0]], rng=rng()), DataError, r"values: expected shape \[N\], got \[1, 1\]"),
        (
            lambda: bootstrap_interval([1.0], rng=rng(), level=1.0),
            UsageError,
            "level: expected a number between 0 and 1",
        ),
        (
            lambda: bootstrap_interval([1.0], rng=rng(), n_resamples=0),
            UsageError,
            "n_resamples: expected at least 1, got 0",
        ),
        (
            lambda: bootstrap_ratio_interval([1], [1, 2], rng=rng()),
            DataError,
            r"denominator: expected shape \[1\], as numerator",
        ),
        (lambda: paired_difference_interval([1.0], [1.0, 2.0], rng=rng()), DataError, r"b: expected shape \[1\]"),
        (lambda: paired_difference_interval([np.inf], [1.0], rng=rng()), DataError, "a: 1 of 1 values are not finite"),
    ],
)
def test_bad_input_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
