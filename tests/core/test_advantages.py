import inspect

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import corpo_rl
from corpo_rl.core.advantages import ESTIMATORS, FLOORED_ESTIMATORS, THRESHOLD_ESTIMATORS, estimate_advantages
from corpo_rl.errors import DataError, UsageError

FLOOR = 0.5


def advantages(name, rewards, groups, **settings):
    return estimate_advantages(name, rewards, groups, min_correct=FLOOR, **settings)


def ragged_batch(*, seed, n):
    """Graded rewards in groups of 1 to about 12, rows shuffled."""
    rng = np.random.default_rng(seed)
    return rng.choice([-1.0, -0.4, 0.0, 0.3, 0.5, 0.9, 1.0], size=n), rng.integers(0, n // 4, size=n)


# a: rows 0, 2       rewards 0.0, 0.5          mean 0.25, std sqrt(2 * 0.25^2) = 0.353553
# b: rows 1, 3, 5    rewards 0.5, 1.0, 0.75    mean 0.75, std sqrt((0.25^2 + 0.25^2) / 2) = 0.25
# c: row 4           reward 1.0
# d: rows 6, 7       rewards -0.5, -0.5        equal
REWARDS = [0.0, 0.5, 0.5, 1.0, 1.0, 0.75, -0.5, -0.5]
GROUPS = ["a", "b", "a", "b", "c", "b", "d", "d"]
BY_HAND = {
    # a: -+0.25 / (0.353553 + 1e-4); b: -0.25, 0.25, 0 over (0.25 + 1e-4); c alone: 0; d equal: 0
    "grpo": [-0.25 / 0.353653, -0.25 / 0.2501, 0.25 / 0.353653, 0.25 / 0.2501, 0, 0, 0, 0],
    "dr_grpo": [-0.25, -0.25, 0.25, 0.25, 0, 0, 0, 0],
    # a: 0 - 0.5, 0.5 - 0; b: 0.5 - 0.875, 1 - 0.625, 0.75 - 0.75; c has no others: 0
    "rloo": [-0.5, -0.375, 0.5, 0.375, 0, 0, 0, 0],
    "static": [-0.5, 0, 0, 0.5, 0.5, 0.25, -1, -1],
    # baselines: a max(0.5, 0.25) = 0.5; b max(0.5, 0.75) = 0.75; c max(0.5, 1) = 1; d max(0.5, -0.5) = 0.5
    "corpo": [-0.5, -0.25, 0, 0.25, 0, 0, -1, -1],
    # baselines: a max(0.5, 0.5), max(0.5, 0) = 0.5, 0.5; b 0.875, 0.625, 0.75; c the floor 0.5; d 0.5
    "loo_corpo": [-0.5, -0.375, 0, 0.375, 0.5, 0, -1, -1],
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_worked_by_hand(name):
    np.testing.assert_allclose(advantages(name, REWARDS, GROUPS), BY_HAND[name], atol=1e-6)


def loop_advantages(name, rewards, groups, floor):
    """Each estimator spelt out one rollout at a time."""
    result = []
    for i in range(len(rewards)):
        if np.isnan(rewards[i]):
            result.append(0.0)
            continue
        others = [
            rewards[j] for j in range(len(rewards)) if groups[j] == groups[i] and j != i and not np.isnan(rewards[j])
        ]
        group = [rewards[i], *others]
        mean = sum(group) / len(group)
        if name == "grpo":
            spread = max(group) - min(group)
            std = (sum((r - mean) ** 2 for r in group) / max(len(group) - 1, 1)) ** 0.5
            result.append(0.0 if spread == 0 else (rewards[i] - mean) / (std + 1e-4))
        elif name == "dr_grpo":
            result.append(rewards[i] - mean)
        elif name == "rloo":
            result.append(rewards[i] - sum(others) / len(others) if others else 0.0)
        elif name == "static":
            result.append(rewards[i] - floor)
        elif name == "corpo":
            result.append(rewards[i] - max(floor, mean))
        else:
            result.append(rewards[i] - (max(floor, sum(others) / len(others)) if others else floor))
    return result


@pytest.mark.parametrize("unscorable_share", [0.0, 0.3])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_equals_a_plain_loop(name, unscorable_share):
    rewards, groups = ragged_batch(seed=0, n=400)
    rewards[np.random.default_rng(1).random(400) < unscorable_share] = np.nan
    if unscorable_share:
        n_known = np.bincount(groups[~np.isnan(rewards)], minlength=groups.max() + 1)[groups]
        assert {0, 1} <= set(n_known), "the batch must hold a group with no scorable rollout and one with one"
    actual = advantages(name, rewards, groups, unscorable="exclude")
    np.testing.assert_allclose(actual, loop_advantages(name, rewards, groups, FLOOR), atol=1e-12)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_excluding_unscorable_rollouts_is_dropping_them(name):
    rewards, groups = ragged_batch(seed=2, n=200)
    rewards[::3] = np.nan
    known = ~np.isnan(rewards)
    actual = advantages(name, rewards, groups, unscorable="exclude")
    np.testing.assert_array_equal(actual[~known], 0.0)
    np.testing.assert_allclose(actual[known], advantages(name, rewards[known], groups[known]), atol=1e-12)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_nothing_scorable_moves_nothing(name):
    np.testing.assert_array_equal(advantages(name, [None, None, None], ["a", "a", "b"], unscorable="exclude"), 0.0)
    assert advantages(name, [], []).shape == (0,)


@pytest.mark.parametrize("name", THRESHOLD_ESTIMATORS)
def test_failed_rollout_is_never_pushed_up(name):
    rewards, groups = ragged_batch(seed=0, n=400)
    failed = rewards < FLOOR
    for plain in ("grpo", "dr_grpo", "rloo"):
        lifted = failed & (advantages(plain, rewards, groups) > 0)
        assert lifted.any(), f"the batch must hold a case {plain} gets wrong"
    assert (advantages(name, rewards, groups)[failed] < 0).all()


@pytest.mark.parametrize(("floored", "plain"), [("corpo", "dr_grpo"), ("loo_corpo", "rloo")])
def test_low_floor_is_the_plain_baseline(floored, plain):
    rewards, groups = ragged_batch(seed=1, n=400)
    several = np.bincount(groups)[groups] > 1  # a group of one has the floor for its loo_corpo baseline
    actual = estimate_advantages(floored, rewards, groups, min_correct=-1.0)
    np.testing.assert_allclose(actual[several], advantages(plain, rewards, groups)[several], atol=1e-12)


def test_high_floor_is_static():
    rewards, groups = ragged_batch(seed=1, n=400)
    for name in FLOORED_ESTIMATORS:
        actual = estimate_advantages(name, rewards, groups, min_correct=1.0)
        np.testing.assert_allclose(actual, rewards - 1.0, atol=1e-12)


def test_zero_one_rewards_with_floor_zero_are_dr_grpo():
    rng = np.random.default_rng(3)
    rewards, groups = rng.integers(0, 2, size=300), rng.integers(0, 60, size=300)
    actual = corpo_rl.corpo_advantages(rewards, groups, min_correct=0.0)
    np.testing.assert_allclose(actual, corpo_rl.dr_grpo_advantages(rewards, groups), atol=1e-12)
    assert (actual > 0).any()


def test_signed_rewards_with_floor_one_only_punish():
    # max(1, mean of -1s and 1s) = 1 in every group: -1 - 1 = -2 and 1 - 1 = 0
    rng = np.random.default_rng(4)
    rewards, groups = rng.choice([-1.0, 1.0], size=300), rng.integers(0, 60, size=300)
    for name in FLOORED_ESTIMATORS:
        actual = estimate_advantages(name, rewards, groups, min_correct=1.0)
        np.testing.assert_array_equal(actual, np.where(rewards < 0, -2.0, 0.0))


@pytest.mark.parametrize("value", [0.1, 0.2, 0.7, 1 / 3])
@pytest.mark.parametrize("size", [3, 6, 7, 49])
def test_rounding_makes_no_advantage(value, size):
    rewards, groups = [value] * size, ["a"] * size
    np.testing.assert_array_equal(corpo_rl.grpo_advantages(rewards, groups), 0.0)
    np.testing.assert_array_equal(corpo_rl.dr_grpo_advantages(rewards, groups), 0.0)
    np.testing.assert_array_equal(corpo_rl.rloo_advantages(rewards, groups), 0.0)
    np.testing.assert_array_equal(corpo_rl.corpo_advantages(rewards, groups, min_correct=0.0), 0.0)
    # three tenths reached in two ways differ in the last bit
    np.testing.assert_array_equal(corpo_rl.grpo_advantages([0.3, 0.1 + 0.2, 0.3], groups[:3]), 0.0)


rewards_and_groups = st.integers(1, 30).flatmap(
    lambda n: st.tuples(
        st.lists(st.floats(-100, 100, width=32), min_size=n, max_size=n).map(np.array),
        st.lists(st.integers(0, 6), min_size=n, max_size=n).map(np.array),
        st.permutations(range(n)).map(np.array),
    )
)


@pytest.mark.parametrize("name", ESTIMATORS)
@settings(deadline=None)  # a busy machine is not a failure
@given(batch=rewards_and_groups)
def test_row_order_and_group_names_do_not_matter(name, batch):
    rewards, groups, order = batch
    expected = advantages(name, rewards, groups)
    np.testing.assert_allclose(advantages(name, rewards[order], groups[order]), expected[order], atol=1e-7)
    names = [f"prompt {group * 7919 % 101}" for group in groups]
    np.testing.assert_allclose(advantages(name, rewards, names), expected, atol=1e-7)
    np.testing.assert_allclose(advantages(name, rewards, groups * 10**9 - 5), expected, atol=1e-7)


@pytest.mark.parametrize("name", THRESHOLD_ESTIMATORS)
@settings(deadline=None)  # a busy machine is not a failure
@given(batch=rewards_and_groups, floor=st.floats(-100, 100, width=32), scale=st.floats(1e-3, 1e3))
def test_guarantee_survives_any_positive_scale(name, batch, floor, scale):
    rewards, groups, _ = batch
    actual = estimate_advantages(name, rewards, groups, min_correct=floor) / scale
    assert (actual[rewards < floor] < 0).all()
    assert (actual <= (rewards - floor) / scale + 1e-12).all()


@settings(deadline=None)  # a busy machine is not a failure
@given(rewards=st.lists(st.floats(-10, -0.01), min_size=2, max_size=12).map(np.array))
def test_centring_breaks_the_guarantee_in_every_graded_failed_group(rewards):
    assume(np.ptp(rewards) > 1e-6)
    groups = np.zeros(len(rewards), dtype=int)
    actual = corpo_rl.corpo_advantages(rewards, groups, min_correct=0.0)
    assert (actual < 0).all()
    centred = actual - actual.mean()
    assert (centred > 0).any()
    np.testing.assert_allclose(centred, corpo_rl.dr_grpo_advantages(rewards, groups), atol=1e-9)


def test_centring_gives_grpo_back():
    # mean -0.85 under the floor 0: A = R, whose mean is -0.85; -1 + 0.85 = -0.15, -0.8 + 0.85 = 0.05, ...
    actual = corpo_rl.corpo_advantages([-1.0, -0.8, -0.9, -0.7], [0, 0, 0, 0], min_correct=0.0)
    np.testing.assert_allclose(actual - actual.mean(), [-0.15, 0.05, -0.05, 0.15], atol=1e-12)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_public_function_is_the_named_estimator(name):
    function = getattr(corpo_rl, f"{name}_advantages")
    settings = {"min_correct": FLOOR} if name in THRESHOLD_ESTIMATORS else {}
    assert list(inspect.signature(function).parameters)[2:] == [*settings, "unscorable"]
    rewards, groups = ragged_batch(seed=5, n=100)
    before = rewards.copy(), groups.copy()
    actual = function(rewards, groups, **settings)
    assert actual.dtype == np.float64
    np.testing.assert_array_equal(actual, advantages(name, rewards, groups))
    np.testing.assert_array_equal(rewards, before[0])
    np.testing.assert_array_equal(groups, before[1])
    assert not np.shares_memory(actual, rewards)


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize(
    ("rewards", "group_ids", "message"),
    [
        ([[1.0]], ["a"], r"rewards: expected shape \[N\], got \[1, 1\]"),
        ([1.0, np.nan], ["a", "a"], "rewards: 1 of 2 values .* row 1 is nan; pass unscorable='exclude'"),
        ([1.0, np.inf], ["a", "a"], "rewards: 1 of 2 values .* row 1 is inf"),
        ([1.0, 2.0], ["a"], r"group_ids: expected shape \[2\]"),
        ([1.0, 2.0], [0.5, 0.5], "group_ids: expected all integers or all strings, got float"),
    ],
)
def test_bad_input_names_argument_and_value(name, rewards, group_ids, message):
    with pytest.raises(DataError, match=message):
        advantages(name, rewards, group_ids)


def test_unknown_names_and_missing_thresholds_are_refused():
    with pytest.raises(UsageError, match=r"estimator: expected one of grpo, dr_grpo, .*, loo_corpo, got 'ppo'"):
        estimate_advantages("ppo", [1.0], ["a"])
    for name in THRESHOLD_ESTIMATORS:
        with pytest.raises(UsageError, match=f"min_correct: {name} needs the least reward that counts as correct"):
            estimate_advantages(name, [1.0], ["a"])
        with pytest.raises(DataError, match="min_correct: expected one finite number, got nan"):
            estimate_advantages(name, [1.0], ["a"], min_correct=float("nan"))
