from itertools import combinations
from math import comb

import numpy as np
import pytest

from corpo_rl.core.passk import mean_pass_at_k, pass_at_k
from corpo_rl.errors import DataError, UsageError


def test_worked_by_hand():
    # 4 samples, 1 correct: of the 6 pairs, the 3 with the correct one succeed. 2 correct: 5 of 6. 4 correct: all.
    np.testing.assert_allclose(pass_at_k([0, 1, 2, 4], 4, k=2), [0, 3 / 6, 5 / 6, 1])
    np.testing.assert_allclose(pass_at_k([1, 3], [2, 12], k=1), [1 / 2, 3 / 12])


@pytest.mark.parametrize("n", [1, 3, 6])
def test_equals_counting_every_subset(n):
    for c in range(n + 1):
        samples = [True] * c + [False] * (n - c)
        for k in range(1, n + 1):
            subsets = list(combinations(samples, k))
            assert pass_at_k(c, n, k=k) == pytest.approx(sum(map(any, subsets)) / len(subsets), abs=1e-12)


def test_large_counts_do_not_overflow():
    exact = 1 - comb(10_000 - 3, 2_000) / comb(10_000, 2_000)
    assert pass_at_k(3, 10_000, k=2_000) == pytest.approx(exact, abs=1e-12)


def test_unbiased():
    # over n ~ Binomial(16, p), the expectation is 1 - (1 - p)^k
    p, n, k = 0.1, 16, 8
    probability = np.array([comb(n, c) * p**c * (1 - p) ** (n - c) for c in range(n + 1)])
    assert probability @ pass_at_k(np.arange(n + 1), n, k=k) == pytest.approx(1 - (1 - p) ** k)


def test_undefined_where_samples_are_too_few():
    np.testing.assert_array_equal(np.isnan(pass_at_k([0, 1, 1], [0, 1, 2], k=2)), [True, True, False])


def test_one_item_gives_one_number():
    assert isinstance(pass_at_k(1, 4, k=2), float)
    assert pass_at_k([], [], k=2).shape == (0,)


def test_mean_leaves_undefined_items_out_and_counts_them():
    # pass@2 of 0, 1, 4 of 4: 0, 0.5, 1; the item with a single sample has none
    result = mean_pass_at_k([0, 1, 4, 1], [4, 4, 4, 1], k=2, rng=np.random.default_rng(0))
    assert (result.interval.value, result.n_items, result.n_left_out) == (0.5, 3, 1)
    assert 0 <= result.interval.low < 0.5 < result.interval.high <= 1

    nothing = mean_pass_at_k([1], [1], k=2, rng=np.random.default_rng(0))
    assert np.isnan([nothing.interval.value, nothing.interval.low, nothing.interval.high]).all()
    assert (nothing.n_items, nothing.n_left_out) == (0, 1)


@pytest.mark.parametrize(
    ("n_correct", "n_samples", "k", "message"),
    [
        ([1, 2], [4], 2, r"n_samples: expected one number or shape \[2\], got \[1\]"),
        ([5], [4], 2, "n_correct: expected at most n_samples for every item"),
        ([-1], [4], 2, "n_correct: expected counts of at least 0, got -1"),
        ([1.0], [4], 2, r"n_correct: expected integers of shape \[I\], got float64 of shape \[1\]"),
        ([[1]], [4], 2, r"n_correct: expected integers of shape \[I\], got int64 of shape \[1, 1\]"),
        ([1], [4], 0, "k: expected an integer of at least 1, got 0"),
        ([1], [4], 1.5, "k: expected an integer of at least 1, got 1.5"),
    ],
)
def test_bad_input_is_refused(n_correct, n_samples, k, message):
    with pytest.raises(DataError, match=message):
        pass_at_k(n_correct, n_samples, k=k)


def test_bad_interval_settings_are_refused():
    with pytest.raises(UsageError, match="level: expected a number between 0 and 1, got 95"):
        mean_pass_at_k([1], [4], k=2, rng=np.random.default_rng(0), level=95)
