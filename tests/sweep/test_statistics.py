import numpy as np
import pytest

from corpo_rl.core.intervals import crossed_bootstrap_interval
from corpo_rl.errors import DataError
from corpo_rl.sweep.statistics import (
    _for_few,
    best_trial,
    intervals,
    means,
    resampled_means,
    selection_half,
    tied_with_best,
)


def test_a_problem_is_in_one_half_only_and_halves_are_even():
    rng = np.random.default_rng(0)
    problem_I = rng.integers(40, size=200)
    half_I = selection_half(problem_I)
    assert not set(problem_I[half_I]) & set(problem_I[~half_I])
    assert abs(half_I.sum() - 100) <= np.bincount(problem_I).max()
    assert (half_I == selection_half(problem_I)).all(), "the same halves whenever they are asked for"
    assert not (half_I == (np.arange(200) < 100)).all(), "not the first half: items may be sorted"


def test_of_one_problem_no_half_can_be_kept():
    with pytest.raises(DataError, match="at least 2 problems"):
        selection_half([3, 3, 3])


def test_one_item_a_problem_is_the_crossed_bootstrap_draw_for_draw():
    values_TSI = np.random.default_rng(1).random((3, 2, 15))
    values_TSI[1, 0, 4] = np.nan
    found = intervals(values_TSI, np.arange(15), level=0.9)
    for one, values_SI in zip(found, values_TSI, strict=True):
        expected = crossed_bootstrap_interval(values_SI, rng=np.random.default_rng(0), level=0.9)
        np.testing.assert_allclose(
            (one.value, one.low, one.high), (expected.value, expected.low, expected.high), atol=1e-12
        )


def test_items_of_a_problem_are_drawn_together():
    # each problem's items cancel out, so that whole problems always average 0
    values_TSI = np.tile([1.0, -1.0], 10)[None, None, :]
    together = resampled_means(values_TSI, np.repeat(np.arange(10), 2), rng=np.random.default_rng(0))
    apart = resampled_means(values_TSI, np.arange(20), rng=np.random.default_rng(0))
    assert np.abs(together).max() == 0
    assert np.abs(apart).max() > 0.3


def test_means_leave_out_what_is_undefined():
    values_TSI = np.array([[[1.0, np.nan]], [[np.nan, np.nan]], [[0.0, 1.0]]])
    np.testing.assert_array_equal(means(values_TSI), [1.0, np.nan, 0.5])
    assert best_trial([np.nan, 0.2, 0.7, 0.7]) == 2


def test_one_problem_gives_no_bounds():
    (found,) = intervals(np.ones((1, 2, 3)), [5, 5, 5], level=0.95)
    assert found.value == 1.0
    assert np.isnan([found.low, found.high]).all()


def test_shapes_are_checked():
    with pytest.raises(DataError, match=r"expected shape \[T, S, I\] .* got \[2, 3\] and \[3\]"):
        resampled_means(np.ones((2, 3)), np.arange(3), rng=np.random.default_rng(0))


@pytest.mark.parametrize(
    ("normal", "n", "student"),
    # two-sided 95 % and 99 % points of a table of Student's t, for 9 and 29 degrees of freedom
    [(1.959964, 10, 2.262157), (2.575829, 30, 2.756386)],
)
def test_few_problems_widen_the_bound_as_students_t_does(normal, n, student):
    assert _for_few(normal, n=n) == pytest.approx(student * np.sqrt(n / (n - 1)), rel=2e-3)


def tied_by_loop(values_TSI, problem_I, *, level, minimize, n_resamples):
    """The definition of `tied_with_best`, pair by pair and draw by draw."""
    signed = -values_TSI if minimize else values_TSI
    draws = resampled_means(signed, problem_I, rng=np.random.default_rng(0), n_resamples=n_resamples)
    mean_T = [float(np.nanmean(one)) for one in signed]
    pairs = [(i, j) for i in range(len(mean_T)) for j in range(len(mean_T)) if i != j]
    spread = {(i, j): np.std(draws[:, i] - draws[:, j], ddof=1) for i, j in pairs}
    worst = [max(((draw[i] - draw[j]) - (mean_T[i] - mean_T[j])) / spread[i, j] for i, j in pairs) for draw in draws]
    critical = _for_few(np.quantile(worst, level), n=len(set(problem_I)))
    best = int(np.argmax(mean_T))
    return [j == best or mean_T[best] - mean_T[j] <= critical * spread[best, j] for j in range(len(mean_T))]


@pytest.mark.parametrize("minimize", [False, True])
def test_ties_as_by_a_plain_loop(minimize):
    rng = np.random.default_rng(3)
    values_TSI = (rng.random((4, 2, 25)) < np.array([0.75, 0.7, 0.45, 0.1])[:, None, None]).astype(float)
    settings = {"minimize": minimize, "level": 0.95, "n_resamples": 300}
    expected = tied_by_loop(values_TSI, np.arange(25), **settings)
    assert tied_with_best(values_TSI, np.arange(25), **settings) == expected
    assert True in expected
    assert False in expected


def test_equal_trials_tie_and_a_constant_gap_does_not():
    values_SI = np.random.default_rng(0).random((2, 10))
    values_TSI = np.stack([values_SI, values_SI, values_SI - 0.01])
    assert tied_with_best(values_TSI, np.arange(10), minimize=False, level=0.95) == [True, True, False]


def test_an_undefined_trial_ties_with_nobody():
    values_TSI = np.stack([np.ones((1, 6)), np.full((1, 6), np.nan)])
    assert tied_with_best(values_TSI, np.arange(6), minimize=False, level=0.95) == [True, False]
    assert tied_with_best(values_TSI[1:], np.arange(6), minimize=False, level=0.95) == [False]


def test_of_equal_settings_none_is_told_apart_too_often():
    """12 settings that differ by luck alone: comparing each with the best as if that had been named before errs."""
    rng = np.random.default_rng(5)
    wrong = naive_wrong = 0
    for _ in range(60):
        values_TSI = rng.normal(size=(12, 1, 40))
        wrong += not all(tied_with_best(values_TSI, np.arange(40), minimize=False, level=0.9, n_resamples=300))
        mean_T = means(values_TSI)
        best = best_trial(mean_T)
        low = [
            intervals((values_TSI[best] - values_TSI[j])[None], np.arange(40), level=0.9, n_resamples=300)[0].low
            for j in range(12)
            if j != best
        ]
        naive_wrong += max(low) > 0
    assert wrong <= 12, f"{wrong} of 60, at 90 % about 6 were expected"
    assert naive_wrong > 30, f"{naive_wrong} of 60: else the bound over all pairs earns nothing"
