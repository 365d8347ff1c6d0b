from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpo_rl.core.advantages import ESTIMATORS, estimate_advantages
from corpo_rl.core.flaw import exact_flaw, level_distribution
from corpo_rl.errors import DataError, UsageError

LEVELS, POLICY = [-1, -0.4, 0.5, 1], [0.80, 0.15, 0.03, 0.02]


def every_group(levels, policy, *, group_size, min_correct, estimator):
    """The same figures from every possible group, one after the other, through the estimators themselves."""
    n = len(levels)
    up, down, advantage = np.zeros(n), np.zeros(n), np.zeros(n)
    floored = negative_only = 0.0
    for group in product(range(n), repeat=group_size):
        weight = np.prod([policy[arm] for arm in group])
        rewards = np.array([levels[arm] for arm in group], dtype=float)
        found = estimate_advantages(estimator, rewards, np.zeros(group_size, int), min_correct=min_correct)
        found = np.where(np.abs(found) < 1e-9, 0.0, found)
        for arm, value in zip(group, found, strict=True):
            up[arm] += weight * (value > 0)
            down[arm] += weight * (value < 0)
            advantage[arm] += weight * value
        floored += weight * (rewards.mean() < min_correct - 1e-12)
        negative_only += weight * ((found <= 0).all() and (found < 0).any())
    policy = np.array(policy)
    failed = np.array(levels) < min_correct
    with np.errstate(invalid="ignore", divide="ignore"):
        share = up[failed].sum() / (group_size * policy[failed].sum())
        return share, up.sum() / down.sum(), floored, negative_only, advantage / (group_size * policy)


def close(found, expected):
    return found == pytest.approx(expected, abs=1e-12, rel=1e-12, nan_ok=True)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("group_size", [2, 3, 5])
@pytest.mark.parametrize("min_correct", [-0.4, 0.0, 0.5])
def test_equals_the_enumeration_of_every_group(estimator, group_size, min_correct):
    settings = {"group_size": group_size, "min_correct": min_correct, "estimator": estimator}
    found = exact_flaw(LEVELS, POLICY, **settings)
    share, r_count, floored, negative_only, advantage = every_group(LEVELS, POLICY, **settings)
    assert close(found.reinforced_failure_share, share)
    assert close(found.r_count, r_count)
    assert close(found.floored_group_share, floored)
    assert close(found.negative_only_share, negative_only)
    assert found.advantage_K == pytest.approx(advantage, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(-10, 10), min_size=2, max_size=4, unique=True),
    st.lists(st.integers(1, 9), min_size=4, max_size=4),
    st.integers(2, 4),
    st.integers(-11, 11),
    st.sampled_from(ESTIMATORS),
)
def test_equals_the_enumeration_for_any_levels(tenths, weights, group_size, floor, estimator):
    levels = [tenth / 10 for tenth in tenths]
    policy = [weight / sum(weights[: len(levels)]) for weight in weights[: len(levels)]]
    settings = {"group_size": group_size, "min_correct": floor / 10, "estimator": estimator}
    found = exact_flaw(levels, policy, **settings)
    share, r_count, floored, negative_only, advantage = every_group(levels, policy, **settings)
    assert close(found.reinforced_failure_share, share)
    if np.isfinite(r_count):
        assert close(found.r_count, r_count)
    assert close(found.floored_group_share, floored)
    assert close(found.negative_only_share, negative_only)
    assert found.advantage_K == pytest.approx(advantage, abs=1e-12)


def test_the_fourier_transform_agrees_with_adding_up_one_by_one(monkeypatch):
    levels, policy = np.arange(5) / 4, [0.4, 0.2, 0.2, 0.1, 0.1]
    settings = {"group_size": 9, "min_correct": 0.6, "estimator": "grpo"}
    one_by_one = exact_flaw(levels, policy, **settings).advantage_K
    monkeypatch.setattr("corpo_rl.core.flaw._MOST_COMPOSITIONS", 0)
    assert exact_flaw(levels, policy, **settings).advantage_K == pytest.approx(one_by_one, abs=1e-11)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_simulation_agrees(estimator):
    rng = np.random.default_rng(0)
    levels, policy, group_size = np.arange(11) / 10, np.array([5, 4, 4, 3, 3, 2, 2, 1, 1, 1, 1]) / 27, 16
    rewards = rng.choice(levels, p=policy, size=200_000)
    groups = np.arange(len(rewards)) // group_size
    advantages = estimate_advantages(estimator, rewards, groups, min_correct=0.6)
    failed = rewards < 0.6 - 1e-9
    found = exact_flaw(levels, policy, group_size=group_size, min_correct=0.6, estimator=estimator)
    share = (advantages[failed] > 1e-9).mean()
    # a group's rollouts are not independent: the spread is that of groups, less than this
    assert abs(share - found.reinforced_failure_share) < 5 * np.sqrt(0.25 / (failed.sum() / 4))
    assert (advantages > 1e-9).sum() / (advantages < -1e-9).sum() == pytest.approx(found.r_count, rel=0.05)
    by_level = [advantages[rewards == level].mean() for level in levels]
    assert found.advantage_K == pytest.approx(by_level, abs=0.03)


def test_what_the_method_notes_say_of_one_policy():
    """Groups of 4, min_correct 0: the expected push on the less bad failure is positive for every estimator, though
    CoRPO gives it no positive advantage."""
    push = {
        name: exact_flaw(LEVELS, POLICY, group_size=4, min_correct=0.0, estimator=name).gradient_K[1]
        for name in ESTIMATORS
    }
    assert push["grpo"] == pytest.approx(0.1555, abs=5e-5)
    assert push["dr_grpo"] == pytest.approx(0.0478, abs=5e-5)
    assert push["corpo"] == pytest.approx(0.0637, abs=5e-5)
    assert push["static"] == pytest.approx(0.0638, abs=5e-5)
    shares = {
        name: exact_flaw(LEVELS, POLICY, group_size=4, min_correct=0.0, estimator=name).reinforced_failure_share
        for name in ("grpo", "corpo")
    }
    assert shares["grpo"] == pytest.approx(0.144, abs=5e-4)
    assert shares["corpo"] == 0


def test_expected_gradients():
    """Static, leave-one-out and leave-one-out CoRPO are unbiased; without std GRPO is 1 - 1/G of the true gradient."""
    levels, policy = np.array(LEVELS), np.array([0.3, 0.2, 0.2, 0.3])
    true = policy * (levels - policy @ levels)
    for group_size in (2, 4, 8):
        gradient = {
            name: exact_flaw(LEVELS, policy, group_size=group_size, min_correct=0.3, estimator=name).gradient_K
            for name in ESTIMATORS
        }
        for name in ("static", "rloo", "loo_corpo"):
            assert gradient[name] == pytest.approx(true, abs=1e-12), name
        assert gradient["dr_grpo"] == pytest.approx((1 - 1 / group_size) * true, abs=1e-12)
        ratio = gradient["corpo"] / true
        assert ratio.max() - ratio.min() > 1e-4, "the max depends on the sample: CoRPO is biased in direction"


def test_large_groups():
    levels, policy = np.arange(11), np.full(11, 1 / 11)
    for name in ESTIMATORS:
        found = exact_flaw(levels, policy, group_size=64, min_correct=6, estimator=name)
        assert found.advantage_K == pytest.approx(sorted(found.advantage_K))
        assert abs(found.gradient_K.sum()) < 1e-9
    too_many = exact_flaw(
        np.arange(1001) / 1000, np.full(1001, 1 / 1001), group_size=16, min_correct=0.5, estimator="grpo"
    )
    assert np.isnan(too_many.advantage_K).all()
    assert 0 < too_many.reinforced_failure_share < 1


def test_levels_that_never_come_are_undefined_and_change_nothing():
    found = exact_flaw([0, 0.5, 1], [0.5, 0.0, 0.5], group_size=3, min_correct=0.7, estimator="corpo")
    without = exact_flaw([0, 1], [0.5, 0.5], group_size=3, min_correct=0.7, estimator="corpo")
    assert np.isnan(found.advantage_K[1])
    assert found.gradient_K[[0, 2]] == pytest.approx(without.gradient_K)
    assert found.r_count == pytest.approx(without.r_count)
    all_right = exact_flaw([1.0, 2.0], [0.5, 0.5], group_size=3, min_correct=0.7, estimator="grpo")
    assert np.isnan(all_right.reinforced_failure_share)


def test_the_distribution_of_a_log():
    levels, policy = level_distribution([0.2, 0.2, np.nan, 0.8])
    assert levels.tolist() == [0.2, 0.8]
    assert policy == pytest.approx([2 / 3, 1 / 3])
    with pytest.raises(DataError, match="expected at least one that is a number"):
        level_distribution([np.nan])


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"estimator": "ppo"}, UsageError, "estimator: expected one of"),
        ({"group_size": 1}, UsageError, "group_size: expected at least 2, got 1"),
        ({"levels": [0, 0]}, DataError, "expected at least one, all different"),
        ({"probabilities": [0.5, 0.4]}, DataError, "a sum of 0.9"),
        ({"probabilities": [1.5, -0.5]}, DataError, "at least 0"),
        ({"probabilities": [1.0]}, DataError, "expected shape"),
        (
            {"levels": [0.123456789, 0.5, 1.0], "probabilities": [0.5, 0.4, 0.1]},
            UsageError,
            "round the levels to fewer decimals",
        ),
    ],
)
def test_what_cannot_be(change, error, message):
    arguments = {
        "levels": [0, 1],
        "probabilities": [0.5, 0.5],
        "group_size": 4,
        "min_correct": 0.5,
        "estimator": "corpo",
    }
    arguments |= change
    with pytest.raises(error, match=message):
        exact_flaw(
            arguments["levels"],
            arguments["probabilities"],
            **{name: arguments[name] for name in ("group_size", "min_correct", "estimator")},
        )
