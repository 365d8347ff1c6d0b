"""Where the floor stops to bind, against brute force; and the line along which a policy is followed."""

import itertools

import numpy as np
import pytest

from corpo_rl.core.advantages import dr_grpo_advantages
from corpo_rl.core.flaw import exact_flaw
from corpo_rl.core.handover import at_success_rate, handover, success_curve
from corpo_rl.errors import DataError, UsageError

LEVELS, SHARES = [-1.0, -0.2, 0.6, 1.0], [0.4, 0.4, 0.1, 0.1]


def floored_by_enumeration(shares, size, min_correct):
    total = 0.0
    for arms in itertools.product(range(len(LEVELS)), repeat=size):
        mean = sum(round(10 * LEVELS[arm]) for arm in arms) / (10 * size)
        total += np.prod([shares[arm] for arm in arms]) * (mean < min_correct - 1e-12)
    return total


def test_proportions_are_kept():
    moved = at_success_rate(LEVELS, [0.6, 0.2, 0.05, 0.15], min_correct=0.2, success_rate=0.6)
    np.testing.assert_allclose(moved, [0.3, 0.1, 0.15, 0.45])
    np.testing.assert_allclose(at_success_rate(LEVELS, SHARES, min_correct=0.2, success_rate=0.2), SHARES)


def test_the_mean_hands_over_where_it_is_the_threshold():
    # failures average -.6, successes .8: (.2 + .6) / (.8 + .6) = 4/7
    found = handover(LEVELS, SHARES, group_size=4, min_correct=0.2)
    assert found.by_mean == pytest.approx(4 / 7)
    moved = at_success_rate(LEVELS, SHARES, min_correct=0.2, success_rate=found.by_mean)
    assert np.dot(LEVELS, moved) == pytest.approx(0.2)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_half_of_the_groups_are_floored_where_it_says(size):
    rate = handover(LEVELS, SHARES, group_size=size, min_correct=0.2).by_group
    before, after = (
        floored_by_enumeration(at_success_rate(LEVELS, SHARES, min_correct=0.2, success_rate=q), size, 0.2)
        for q in (rate - 1e-6, rate + 1e-6)
    )
    assert before > 0.5 > after
    assert before - after < 1e-4


def test_large_groups_hand_over_at_the_mean():
    gaps = [
        abs(found.by_group - found.by_mean)
        for found in (handover(LEVELS, SHARES, group_size=size, min_correct=0.2) for size in (4, 16, 64))
    ]
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 0.005


def test_binary_rewards_at_their_maximum_never_hand_over():
    found = handover([0.0, 1.0], [0.5, 0.5], group_size=4, min_correct=1.0)
    assert found.by_mean == 1.0
    # a group is not under the floor only where all four succeed: q^4 = 1/2
    assert found.by_group == pytest.approx(0.5**0.25, abs=1e-6)


def test_a_curve_is_the_exact_figures_along_the_line():
    rates = [0.1, 0.4, 0.8]
    curve = success_curve(LEVELS, SHARES, group_size=4, min_correct=0.2, estimator="corpo", success_rates=rates)
    for rate, found in zip(rates, curve, strict=True):
        shares = at_success_rate(LEVELS, SHARES, min_correct=0.2, success_rate=rate)
        same = exact_flaw(LEVELS, shares, group_size=4, min_correct=0.2, estimator="corpo")
        assert found.floored_group_share == same.floored_group_share
        assert found.floored_group_share == pytest.approx(floored_by_enumeration(shares, 4, 0.2), abs=1e-12)
    assert [found.reinforced_failure_share for found in curve] == [0.0, 0.0, 0.0]


def test_a_simulation_of_the_line_agrees():
    rate, size, n_groups = 0.35, 8, 40_000
    shares = at_success_rate(LEVELS, SHARES, min_correct=0.2, success_rate=rate)
    (found,) = success_curve(
        LEVELS, SHARES, group_size=size, min_correct=0.2, estimator="dr_grpo", success_rates=[rate]
    )
    rewards = np.random.default_rng(0).choice(LEVELS, p=shares, size=n_groups * size)
    advantages = dr_grpo_advantages(rewards, np.arange(n_groups * size) // size)
    failed = rewards < 0.2
    assert (advantages[failed] > 1e-12).mean() == pytest.approx(found.reinforced_failure_share, abs=0.01)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"min_correct": 2.0}, DataError, "expected both failures and successes of min_correct 2, found no success"),
        ({"min_correct": -2.0}, DataError, "found no failure; their proportions are not known then"),
        ({"success_rate": 1.5}, UsageError, r"success_rate: expected a share from 0 to 1, got 1\.5"),
    ],
)
def test_what_cannot_be(settings, error, message):
    with pytest.raises(error, match=message):
        at_success_rate(LEVELS, SHARES, **{"min_correct": 0.2, "success_rate": 0.5, **settings})
