import numpy as np
import pytest

from corpo_rl.core.bootstrap import crossed_bootstrap_interval
from corpo_rl.errors import DataError


def test_value_is_the_mean_of_the_defined_values():
    interval = crossed_bootstrap_interval([[1.0, np.nan, 0.0], [1.0, 1.0, 0.0]], rng=np.random.default_rng(0))
    assert interval.value == pytest.approx(3 / 5)
    assert interval.low < interval.value < interval.high


def test_one_seed_matches_the_normal_interval_of_a_mean():
    rng = np.random.default_rng(1)
    values = rng.normal(2.0, 3.0, size=(1, 400))
    interval = crossed_bootstrap_interval(values, rng=rng, n_resamples=4000)
    half = 1.96 * values.std(ddof=1) / 20
    assert interval.low == pytest.approx(values.mean() - half, abs=0.1 * half)
    assert interval.high == pytest.approx(values.mean() + half, abs=0.1 * half)


def test_seeds_that_disagree_widen_the_interval():
    items = np.random.default_rng(2).normal(size=200)
    alike = np.stack([items, items, items, items])
    apart = alike + np.array([[-2.0], [-1.0], [1.0], [2.0]])
    narrow = crossed_bootstrap_interval(alike, rng=np.random.default_rng(0))
    wide = crossed_bootstrap_interval(apart, rng=np.random.default_rng(0))
    assert wide.high - wide.low > 3 * (narrow.high - narrow.low)


def test_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(3)
    hits = 0
    for _ in range(200):
        draws = rng.binomial(1, 0.3, size=(1, 100)).astype(float)
        interval = crossed_bootstrap_interval(draws, rng=rng, n_resamples=500)
        hits += interval.low <= 0.3 <= interval.high
    assert 180 <= hits <= 198, "95 % of 200 is 190"


def test_nothing_defined_is_nan():
    interval = crossed_bootstrap_interval([[np.nan, np.nan]], rng=np.random.default_rng(0))
    assert np.isnan([interval.value, interval.low, interval.high]).all()


@pytest.mark.parametrize(
    ("values", "level", "message"),
    [([1.0, 2.0], 0.95, r"expected shape \[S, I\]"), ([[]], 0.95, r"got \[1, 0\]"), ([[1.0]], 1.0, "level")],
)
def test_bad_input_is_named(values, level, message):
    with pytest.raises(DataError, match=message):
        crossed_bootstrap_interval(values, rng=np.random.default_rng(0), level=level)
