import numpy as np
import pytest

from corpo_rl.core import intervals
from corpo_rl.core.intervals import (
    ClusterFigure,
    bootstrap_interval,
    bootstrap_ratio_interval,
    cluster_bootstrap_intervals,
    crossed_bootstrap_interval,
    difference_figure,
    ratio_of_sums,
)
from corpo_rl.errors import CorpoError, DataError, UsageError
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


def test_ratio_by_counts_is_the_ratio_item_by_item(monkeypatch):
    size = rng().choice([4.0, 8.0], size=600)
    up = rng(1).binomial(size.astype(int), rng(2).beta(1, 3, size=600)).astype(float)
    monkeypatch.setattr(intervals, "_ALIKE", 0)
    by_counts = bootstrap_ratio_interval(up, size, rng=rng(3), n_resamples=20_000)
    monkeypatch.setattr(intervals, "_ALIKE", 1e9)
    by_item = bootstrap_ratio_interval(up, size, rng=rng(4), n_resamples=20_000)

    assert by_counts.value == by_item.value == pytest.approx(up.sum() / size.sum())
    # A 2.5 % quantile of 20,000 normal draws has standard error sqrt(.025 * .975 / 20000) / .058 = 0.019 of their
    # standard deviation, which is a quarter of the interval's width: 4 errors of a difference are 0.027 of the width.
    tolerance = 0.027 * (by_item.high - by_item.low)
    np.testing.assert_allclose([by_counts.low, by_counts.high], [by_item.low, by_item.high], rtol=0, atol=tolerance)


@pytest.mark.parametrize("alike", [0, 1e9])
def test_ratio_does_not_know_the_order_of_its_items(monkeypatch, alike):
    monkeypatch.setattr(intervals, "_ALIKE", alike)
    parts, wholes = rng().random(300).round(2), rng(1).random(300).round(1) + 1
    order = rng(2).permutation(300)
    actual = bootstrap_ratio_interval(parts[order], wholes[order], rng=rng(3))
    assert actual == bootstrap_ratio_interval(parts, wholes, rng=rng(3))
    assert actual.low < actual.value < actual.high


@pytest.mark.parametrize("alike", [0, 1e9])
def test_ratio_is_drawn_in_portions(monkeypatch, alike):
    monkeypatch.setattr(intervals, "_ALIKE", alike)
    up = rng().integers(0, 5, size=50)
    whole = bootstrap_ratio_interval(up, np.full(50, 4), rng=rng(5), n_resamples=101)
    monkeypatch.setattr(intervals, "_CELLS", 5 * 10)  # ten resamples at a time of the five different items
    assert bootstrap_ratio_interval(up, np.full(50, 4), rng=rng(5), n_resamples=101) == whole


def test_ratio_covers_the_truth_about_as_often_as_it_says():
    draws = [
        bootstrap_ratio_interval(rng(seed).binomial(8, 0.3, size=60), np.full(60, 8), rng=rng(seed), n_resamples=400)
        for seed in range(300)
    ]
    covered = np.mean([interval.low <= 0.3 <= interval.high for interval in draws])
    assert 0.90 <= covered <= 0.98  # as for the mean


def test_crossed_value_is_the_mean_of_the_defined_values():
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


def test_crossed_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(3)
    hits = 0
    for _ in range(200):
        draws = rng.binomial(1, 0.3, size=(1, 100)).astype(float)
        interval = crossed_bootstrap_interval(draws, rng=rng, n_resamples=500)
        hits += interval.low <= 0.3 <= interval.high
    assert 180 <= hits <= 198, "95 % of 200 is 190"


def test_crossed_nothing_defined_is_nan():
    interval = crossed_bootstrap_interval([[np.nan, np.nan]], rng=np.random.default_rng(0))
    assert np.isnan([interval.value, interval.low, interval.high]).all()


@pytest.mark.parametrize(
    ("values", "level", "message"),
    [([1.0, 2.0], 0.95, r"expected shape \[S, I\]"), ([[]], 0.95, r"got \[1, 0\]"), ([[1.0]], 1.0, "level")],
)
def test_crossed_bad_input_is_named(values, level, message):
    with pytest.raises(CorpoError, match=message):
        crossed_bootstrap_interval(values, rng=rng(), level=level)


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
    ],
)
def test_bad_input_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def clustered(seed=0, n_clusters=9):
    """Observations of each cluster: some clusters have many, one has none."""
    generator = rng(seed)
    return [generator.random(size) for size in (*generator.integers(1, 6, size=n_clusters - 1), 0)]


def sums_of(clusters):
    return ClusterFigure(np.array([[values.sum(), len(values)] for values in clusters]), ratio_of_sums)


def test_clusters_are_drawn_whole_as_in_a_plain_loop():
    clusters = clustered()
    (actual,) = cluster_bootstrap_intervals([sums_of(clusters)], rng=rng(5), n_resamples=300)
    means = []
    for drawn in rng(5).integers(len(clusters), size=(300, len(clusters))):
        observations = np.concatenate([clusters[place] for place in drawn])
        if len(observations):
            means.append(observations.mean())
    low, high = np.quantile(means, [0.025, 0.975])
    assert actual.value == pytest.approx(np.concatenate(clusters).mean())
    assert (actual.low, actual.high) == (pytest.approx(low), pytest.approx(high))


def test_any_statistic_of_sums_and_portions_change_nothing(monkeypatch):
    clusters = clustered(1)
    variance = ClusterFigure(
        np.array([[values.sum(), (values**2).sum(), len(values)] for values in clusters]),
        lambda sums: sums[..., 1] / sums[..., 2] - (sums[..., 0] / sums[..., 2]) ** 2,
    )
    assert variance.value() == pytest.approx(np.concatenate(clusters).var())
    whole = cluster_bootstrap_intervals([variance, sums_of(clusters)], rng=rng(2), n_resamples=100)
    monkeypatch.setattr(intervals, "_CELLS", 40)  # four resamples at a time
    parts = cluster_bootstrap_intervals([variance, sums_of(clusters)], rng=rng(2), n_resamples=100)
    assert [interval.value for interval in parts] == [interval.value for interval in whole]
    np.testing.assert_allclose([(i.low, i.high) for i in parts], [(i.low, i.high) for i in whole])


def test_differences_are_paired_by_cluster():
    # each cluster has its own level, the second figure lies 0.1 under it: wide intervals, and a sure difference
    level = np.linspace(0, 1, 12)
    one = ClusterFigure(np.stack([level, np.ones(12)], axis=1), ratio_of_sums)
    other = ClusterFigure(np.stack([level - 0.1, np.ones(12)], axis=1), ratio_of_sums)
    found = cluster_bootstrap_intervals([one, other, difference_figure(one, other)], rng=rng())
    assert found[0].high - found[0].low > 0.3
    np.testing.assert_allclose([found[2].value, found[2].low, found[2].high], 0.1)


def test_what_clusters_cannot_tell_is_nan():
    empty = ClusterFigure(np.zeros((3, 2)), ratio_of_sums)
    single = ClusterFigure(np.array([[0.0, 0.0], [1.0, 2.0], [0.0, 0.0]]), ratio_of_sums)
    none, one = cluster_bootstrap_intervals([empty, single], rng=rng())
    assert np.isnan([none.value, none.low, none.high]).all()
    assert one.value == 0.5
    assert np.isnan([one.low, one.high]).all()
    (nothing,) = cluster_bootstrap_intervals([ClusterFigure(np.zeros((0, 2)), ratio_of_sums)], rng=rng())
    assert np.isnan(nothing.value)
    assert cluster_bootstrap_intervals([], rng=rng()) == []


@pytest.mark.parametrize(
    ("columns", "settings", "kind", "message"),
    [
        ([np.zeros((2, 2)), np.zeros((3, 2))], {}, DataError, "expected all over the same clusters, got 2 and 3"),
        ([np.full((2, 2), np.nan)], {}, DataError, "expected finite sums, got NaN or infinity"),
        ([np.zeros((2, 2))], {"level": 95}, UsageError, "level: expected a number between 0 and 1, got 95"),
        ([np.zeros((2, 2))], {"n_resamples": 0}, UsageError, "n_resamples: expected at least 1, got 0"),
    ],
)
def test_bad_clusters_are_refused(columns, settings, kind, message):
    figures = [ClusterFigure(one, ratio_of_sums) for one in columns]
    with pytest.raises(kind, match=message):
        cluster_bootstrap_intervals(figures, rng=rng(), **settings)
