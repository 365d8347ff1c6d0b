"""Step-level CoRPO by hand, by plain loop, in its limits, by what it guarantees and what it does not."""

import itertools

import numpy as np
import pytest

from corpo_rl.core.advantages import corpo_advantages, dr_grpo_advantages
from corpo_rl.core.dynamics import n_reinforced_failures
from corpo_rl.core.steps import (
    NO_STEP,
    outcome_step_advantages,
    rewards_to_go,
    spread_over_tokens,
    step_corpo_advantages,
    step_margins,
)
from corpo_rl.errors import DataError, UsageError

THRESHOLDS = [0.25, 0.5, 0.0, 0.75, 0.5, 0.5]


def ragged_batch(*, seed, n=200, most=6, missing=0.0):
    """Step rewards, rollout of each step, group and outcome of each rollout: rows of different rollouts interleaved."""
    rng = np.random.default_rng(seed)
    rollouts = rng.permutation(np.repeat(np.arange(n), rng.integers(0, most + 1, size=n)))
    rewards = rng.integers(-4, 5, size=len(rollouts)) / 4
    rewards[rng.random(len(rewards)) < missing] = np.nan
    return rewards, rollouts, rng.integers(0, n // 5, size=n), rng.normal(size=n)


def by_rollout(rewards, rollouts, n):
    """Steps of each rollout, in order, as (row, reward)."""
    steps = [[] for _ in range(n)]
    for row, (reward, rollout) in enumerate(zip(rewards, rollouts, strict=True)):
        steps[rollout].append((row, reward))
    return steps


def test_worked_by_hand():
    # group a: rollouts 0 and 1; group b: rollout 2; rollout 3, of a, has no step. Thresholds 0.5, 0.25.
    # step 0 of a: mean (0 + 0.5) / 2 = 0.25, under 0.5     -> baseline 0.5:  0 - 0.5 = -0.5 and 0.5 - 0.5 = 0
    # step 1 of a: mean (1 + 0.5) / 2 = 0.75, over 0.25     -> baseline 0.75: 1 - 0.75 = 0.25 and 0.5 - 0.75 = -0.25
    # step 2 of a: rollout 1 alone, 0.125 under 0.5         -> baseline 0.5:  0.125 - 0.5 = -0.375
    # step 0 of b: alone, 1.0 over 0.5                      -> 0
    rewards, rollouts = [0, 0.5, 1, 0.5, 1, 0.125], [0, 1, 0, 1, 2, 1]
    groups = ["a", "a", "b", "a"]
    own = step_corpo_advantages(rewards, rollouts, groups, min_correct=[0.5, 0.25, 0.5])
    np.testing.assert_allclose(own, [-0.5, 0, 0.25, -0.25, 0, -0.375], atol=1e-12)

    # outcome 1, -2, 3, 9 of weight 0.5. Failed are row 0 (0 < 0.5) and row 5 (0.125 < 0.5):
    #   row 0: -0.5 + min(0.5, 0) = -0.5; row 5: -0.375 + min(-1, 0) = -1.375
    # others: row 1: 0 - 1 = -1; row 2: 0.25 + 0.5; row 3: -0.25 - 1; row 4: 0 + 1.5
    both = step_corpo_advantages(
        rewards, rollouts, groups, min_correct=[0.5, 0.25, 0.5], outcome_advantages=[1, -2, 3, 9], outcome_weight=0.5
    )
    np.testing.assert_allclose(both, [-0.5, -1, 0.75, -1.25, 1.5, -1.375], atol=1e-12)


def loop_advantages(rewards, rollouts, groups, thresholds, outcome, weight):
    """The equation for each step, its peers looked up one by one."""
    steps = by_rollout(rewards, rollouts, len(groups))
    found = np.zeros(len(rewards))
    for i, own in enumerate(steps):
        for s, (row, reward) in enumerate(own):
            peers = [steps[j][s][1] for j in range(len(groups)) if groups[j] == groups[i] and len(steps[j]) > s]
            peers = [peer for peer in peers if not np.isnan(peer)]
            if np.isnan(reward):
                found[row] = weight * outcome[i]
                continue
            found[row] = reward - max(thresholds[s], sum(peers) / len(peers))
            added = weight * outcome[i]
            found[row] += min(added, 0) if reward < thresholds[s] else added
    return found


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("weight", [0.0, 0.7])
def test_plain_loop(missing, weight):
    rewards, rollouts, groups, outcome = ragged_batch(seed=1, missing=missing)
    found = step_corpo_advantages(
        rewards, rollouts, groups, min_correct=THRESHOLDS, outcome_advantages=outcome, outcome_weight=weight,
        unscorable="exclude",
    )  # fmt: skip
    np.testing.assert_allclose(found, loop_advantages(rewards, rollouts, groups, THRESHOLDS, outcome, weight))


def test_with_one_step_each_it_is_corpo():
    rewards, _, groups, _ = ragged_batch(seed=2)
    rewards = np.resize(rewards, len(groups))
    found = step_corpo_advantages(rewards, np.arange(len(groups)), groups, min_correct=0.25)
    np.testing.assert_array_equal(found, corpo_advantages(rewards, groups, min_correct=0.25))


def test_each_step_number_is_a_corpo_of_its_own():
    rewards, rollouts, groups, _ = ragged_batch(seed=3)
    found = step_corpo_advantages(rewards, rollouts, groups, min_correct=THRESHOLDS)
    steps = by_rollout(rewards, rollouts, len(groups))
    for s, threshold in enumerate(THRESHOLDS):
        rows, those = zip(*[(own[s], i) for i, own in enumerate(steps) if len(own) > s], strict=True)
        expected = corpo_advantages([reward for _, reward in rows], groups[list(those)], min_correct=threshold)
        np.testing.assert_allclose(found[[row for row, _ in rows]], expected, atol=1e-12)


def test_under_a_low_threshold_it_is_the_group_mean_of_each_step():
    rewards, rollouts, groups, _ = ragged_batch(seed=4)
    found = step_corpo_advantages(rewards, rollouts, groups, min_correct=-2.0)
    steps = by_rollout(rewards, rollouts, len(groups))
    number = np.array([[row for row, _ in steps[i]].index(m) for m, i in enumerate(rollouts)])
    expected = dr_grpo_advantages(rewards, groups[rollouts] * 10 + number)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_an_outcome_without_step_rewards_is_the_outcome_alone():
    _, rollouts, groups, outcome = ragged_batch(seed=5)
    unknown = np.full(len(rollouts), np.nan)
    found = step_corpo_advantages(
        unknown, rollouts, groups, min_correct=0.5, outcome_advantages=outcome, unscorable="exclude"
    )
    np.testing.assert_array_equal(found, outcome_step_advantages(outcome, rollouts))
    np.testing.assert_array_equal(found, outcome[rollouts])


@pytest.mark.parametrize("weight", [0.0, 0.3, 100.0])
def test_a_failed_step_is_never_pushed_up_whatever_its_peers_and_its_outcome(weight):
    rewards, rollouts, groups, outcome = ragged_batch(seed=6, missing=0.1)
    settings = {"min_correct": THRESHOLDS, "unscorable": "exclude"}
    own = step_corpo_advantages(rewards, rollouts, groups, **settings)
    both = step_corpo_advantages(
        rewards, rollouts, groups, outcome_advantages=outcome, outcome_weight=weight, **settings
    )
    margins = step_margins(rewards, rollouts, min_correct=THRESHOLDS)
    failed = margins < 0
    assert (own[failed] < 0).all()
    assert (both[failed] <= own[failed]).all()

    # what the two simpler rules do with the same steps
    ungated = own + max(weight, 0.3) * outcome[rollouts]
    group_mean = step_corpo_advantages(rewards, rollouts, groups, min_correct=-2.0, unscorable="exclude")
    for simpler in (ungated, group_mean, outcome_step_advantages(outcome, rollouts)):
        assert n_reinforced_failures(margins, simpler, min_correct=0.0) > 0, "the batch must hold a case they get wrong"
    assert n_reinforced_failures(margins, both, min_correct=0.0) == 0


def test_counterexample_a_failed_step_of_a_rollout_that_ended_well():
    # two rollouts; the first failed its first step (0) and still ended best: outcome +1 and -1
    rewards, rollouts = [0, 1, 1, 1], [0, 0, 1, 1]
    settings = {"min_correct": 0.5, "outcome_advantages": [1, -1]}
    own = step_corpo_advantages(rewards, rollouts, ["a", "a"], min_correct=0.5)
    np.testing.assert_allclose(own, [-0.5, 0, 0.5, 0])
    assert own[0] + 1 > 0, "the plain sum would push the failed step up"
    gated = step_corpo_advantages(rewards, rollouts, ["a", "a"], **settings)
    np.testing.assert_allclose(gated, [-0.5, 1, -0.5, -1])


def test_counterexample_a_failed_rollout_may_be_pushed_up_as_a_whole():
    # rollout 0 gets two of three steps right and ends wrong; its peers get none. Not guaranteed, and not meant to be.
    rewards, rollouts = [1, 1, 0] + [0] * 9, np.repeat([0, 1, 2, 3], 3)
    outcomes = np.array([0.4, 0, 0, 0])
    outcome = corpo_advantages(outcomes, ["a"] * 4, min_correct=0.5)
    found = step_corpo_advantages(rewards, rollouts, ["a"] * 4, min_correct=0.5, outcome_advantages=outcome)
    assert outcome[0] < 0
    np.testing.assert_allclose(found[:3], [0.4, 0.4, -0.6])
    assert found[:3].mean() > 0


def test_counterexample_with_rewards_to_go_a_step_that_fails_by_itself_may_be_pushed_up():
    # rollout 0 errs first (0) and then does well (1 + 1 = 2 to go); rollout 1 does nothing right
    rewards, rollouts = [0, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]
    to_go = rewards_to_go(rewards, rollouts)
    np.testing.assert_allclose(to_go, [2, 2, 1, 0, 0, 0])
    found = step_corpo_advantages(to_go, rollouts, ["a", "a"], min_correct=0.5)
    assert found[0] > 0 > step_corpo_advantages(rewards, rollouts, ["a", "a"], min_correct=0.5)[0]
    assert (found[to_go < 0.5] < 0).all()


def test_a_missing_reward_is_left_out_and_not_read_as_zero():
    # the mean of step 0 is that of 1 and 0.5, 0.75; with the unknown one as 0 it would be 0.5
    found = step_corpo_advantages([1, 0.5, None], [0, 1, 2], ["a"] * 3, min_correct=0.25, unscorable="exclude")
    np.testing.assert_allclose(found, [0.25, -0.25, 0])


def test_a_missing_reward_keeps_its_number():
    # the second step of rollout 0 is compared with the second of rollout 1, although the first is unknown
    rewards, rollouts = [np.nan, 1.0, 0.0, 0.5], [0, 0, 1, 1]
    found = step_corpo_advantages(rewards, rollouts, ["a", "a"], min_correct=0.25, unscorable="exclude")
    np.testing.assert_allclose(found, [0, 0.25, -0.25, -0.25])


@pytest.mark.parametrize("discount", [0.0, 0.5, 1.0])
def test_rewards_to_go_by_plain_loop(discount):
    rewards, rollouts, groups, _ = ragged_batch(seed=7, missing=0.1)
    expected = np.zeros(len(rewards))
    for own in by_rollout(rewards, rollouts, len(groups)):
        for place, (row, _) in enumerate(own):
            later = [(reward, discount**power) for power, (_, reward) in enumerate(own[place:])]
            expected[row] = sum(reward * factor for reward, factor in later if factor)
    np.testing.assert_allclose(rewards_to_go(rewards, rollouts, discount=discount), expected, atol=1e-12)


def test_spread_over_tokens_by_plain_loop():
    rng = np.random.default_rng(8)
    advantages, step_of_token, outside = rng.normal(size=7), rng.integers(-1, 7, size=(5, 9)), rng.normal(size=5)
    found = spread_over_tokens(advantages, step_of_token, outside=outside)
    for row, token in itertools.product(range(5), range(9)):
        step = step_of_token[row, token]
        assert found[row, token] == (outside[row] if step == NO_STEP else advantages[step])
    assert (spread_over_tokens(advantages, step_of_token)[step_of_token == NO_STEP] == 0).all()


def test_no_steps_at_all():
    assert step_corpo_advantages([], [], ["a", "b"], min_correct=0.5, outcome_advantages=[1, 2]).shape == (0,)
    assert rewards_to_go([], []).shape == (0,)
    assert step_margins([], [], min_correct=[]).shape == (0,)
    np.testing.assert_array_equal(spread_over_tokens([], [[NO_STEP]], outside=[0.5]), [[0.5]])


def test_arguments_are_not_written_into():
    rewards, rollouts, groups, outcome = ragged_batch(seed=9, missing=0.1)
    before = [array.copy() for array in (rewards, rollouts, groups, outcome)]
    step_corpo_advantages(rewards, rollouts, groups, min_correct=0.5, outcome_advantages=outcome, unscorable="exclude")
    for discount in (0.0, 1.0):
        rewards_to_go(rewards, rollouts, discount=discount)[:] = 7
    for kept, given in zip(before, (rewards, rollouts, groups, outcome), strict=True):
        np.testing.assert_array_equal(given, kept)


@pytest.mark.parametrize(
    ("rewards", "rollouts", "groups", "settings", "error", "message"),
    [
        ([[1.0]], [0], ["a"], {}, DataError, r"rewards: expected shape \[N\], got \[1, 1\]"),
        ([np.nan], [0], ["a"], {}, DataError, "rewards: 1 of 1 values .* pass unscorable='exclude'"),
        ([np.inf], [0], ["a"], {"unscorable": "exclude"}, DataError, "rewards: 1 of 1 values are not finite or NaN"),
        ([1.0, 0.0], [0], ["a"], {}, DataError, r"rollouts: expected shape \[2\], as step_rewards, got \[1\]"),
        ([1.0], [0.0], ["a"], {}, DataError, "rollouts: expected integers, got float64"),
        ([1.0], [[0]], ["a"], {}, DataError, r"rollouts: expected shape \[N\], got \[1, 1\]"),
        ([1.0, 1.0], [0, 1], ["a"], {}, DataError, "rollouts: expected 0 to 0, row 1 is 1"),
        ([1.0], [-1], ["a"], {}, DataError, "rollouts: expected 0 to 0, row 0 is -1"),
        ([1.0], [0], [1.5], {}, DataError, "group_ids: expected all integers or all strings, got float"),
        ([1.0], [0], "a", {}, DataError, r"group_ids: expected shape \[0\], as rewards, got \[\]"),
        ([1.0, 1.0], [0, 0], ["a"], {"min_correct": [0.5]}, DataError, "one for each of 2 steps, .* got 1"),
        ([1.0], [0], ["a"], {"min_correct": np.nan}, DataError, "min_correct: expected one finite number, got nan"),
        ([1.0], [0], ["a"], {"min_correct": [np.nan]}, DataError, "min_correct: 1 of 1 values are not finite"),
        ([1.0], [0], ["a"], {"outcome_advantages": [1, 2]}, DataError, r"outcome_advantages: expected shape \[1\]"),
        ([1.0], [0], ["a"], {"outcome_advantages": [np.nan]}, DataError, "outcome_advantages: 1 of 1 values"),
        ([1.0], [0], ["a"], {"outcome_weight": -0.5}, UsageError, "outcome_weight: expected 0 or more, got -0.5"),
        ([1.0], [0], ["a"], {"unscorable": "drop"}, UsageError, "unscorable: expected 'refuse' or 'exclude'"),
    ],
)
def test_bad_input_names_argument_and_value(rewards, rollouts, groups, settings, error, message):
    with pytest.raises(error, match=message):
        step_corpo_advantages(rewards, rollouts, groups, **({"min_correct": 0.5} | settings))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: rewards_to_go([1.0], [0], discount=1.5), UsageError, "discount: expected 0 to 1, got 1.5"),
        (lambda: rewards_to_go([1.0], [0, 0]), DataError, r"rollouts: expected shape \[1\], as step_rewards"),
        (lambda: rewards_to_go([1.0], [-1]), DataError, "rollouts: expected 0 or more, row 0 is -1"),
        (lambda: step_margins([1.0], [0, 0], min_correct=1), DataError, r"rollouts: expected shape \[1\]"),
        (lambda: outcome_step_advantages([1.0], [1]), DataError, "rollouts: expected 0 to 0, row 0 is 1"),
        (lambda: spread_over_tokens([1.0], [0]), DataError, r"step_of_token_BT: expected integers of shape \[B, T\]"),
        (lambda: spread_over_tokens([1.0], [[0.5]]), DataError, "step_of_token_BT: expected integers .* got float64"),
        (lambda: spread_over_tokens([1.0], [[0, 1]]), DataError, "expected -1 to 0, row 0, token 1 is 1"),
        (lambda: spread_over_tokens([1.0], [[-2]]), DataError, "expected -1 to 0, row 0, token 0 is -2"),
        (lambda: spread_over_tokens([np.inf], [[0]]), DataError, "step_advantages: 1 of 1 values are not finite"),
        (lambda: spread_over_tokens([1.0], [[0]], outside=[1, 2]), DataError, r"outside: expected shape \[1\]"),
        (lambda: spread_over_tokens([1.0], [[0]], outside=np.nan), DataError, "outside: expected one finite number"),
    ],
)  # fmt: skip
def test_bad_input_to_the_others(call, error, message):
    with pytest.raises(error, match=message):
        call()
