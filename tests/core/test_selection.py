import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpo_rl.core.advantages import corpo_advantages, dr_grpo_advantages
from corpo_rl.core.dynamics import GROUP_CLASSES, group_class_counts
from corpo_rl.core.selection import NEED_MIN_CORRECT, RULES, group_classes, select_groups
from corpo_rl.errors import DataError, UsageError

# One group of each class, 0.5 and above being correct, and one that nobody could score.
GROUPS = {
    "all_failed_equal": [0.1, 0.1, 0.1],
    "all_failed_graded": [0.1, 0.2, 0.1],
    "mixed": [0.1, 0.5, 0.2],
    "all_correct_graded": [0.5, 1.0, 0.7],
    "all_correct_equal": [0.7, 0.7, 0.7],
    "unscorable": [np.nan, np.nan, np.nan],
}
EXPECTED = {
    "all": set(GROUPS),
    "varying": {"all_failed_graded", "mixed", "all_correct_graded"},
    "mixed": {"mixed"},
    "keep_failed": {"all_failed_equal", "all_failed_graded", "mixed", "all_correct_graded"},
}


def one_of_each(*, seed=0):
    """Rewards and group names, a row of one group beside rows of others."""
    rows = [(reward, name) for name, rewards in GROUPS.items() for reward in rewards]
    order = np.random.default_rng(seed).permutation(len(rows))
    return [rows[place][0] for place in order], [rows[place][1] for place in order]


@pytest.mark.parametrize("rule", RULES)
def test_each_class_by_hand(rule):
    rewards, groups = one_of_each()
    selection = select_groups(rewards, groups, rule=rule, min_correct=0.5)
    assert {name for name, kept in zip(groups, selection.kept_N, strict=True) if kept} == EXPECTED[rule]
    for name, kept in zip(groups, selection.kept_N, strict=True):
        assert kept == (name in EXPECTED[rule]), "a group is kept whole or not at all"
    assert selection.kept == {name: int(name in EXPECTED[rule]) for name in GROUPS}
    assert selection.dropped == {name: int(name not in EXPECTED[rule]) for name in GROUPS}
    assert (selection.n_kept, selection.n_dropped) == (len(EXPECTED[rule]), 6 - len(EXPECTED[rule]))
    np.testing.assert_array_equal(selection.kept_G[selection.index_N], selection.kept_N)


def by_loop(rewards, groups, *, rule, min_correct):
    """A plain loop over each group's rewards."""
    kept = {}
    for group in set(groups):
        own = [reward for reward, name in zip(rewards, groups, strict=True) if name == group and not np.isnan(reward)]
        n_correct = sum(reward >= min_correct for reward in own)
        differ = bool(own) and max(own) > min(own)
        kept[group] = {
            "all": True,
            "varying": differ,
            "mixed": 0 < n_correct < len(own),
            "keep_failed": differ or (bool(own) and n_correct == 0),
        }[rule]
    return [kept[group] for group in groups]


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0, float("nan")]), st.integers(0, 6)), max_size=40),
    st.sampled_from(RULES),
)
def test_plain_loop(rows, rule):
    rewards, groups = [reward for reward, _ in rows], [group for _, group in rows]
    actual = select_groups(rewards, groups, rule=rule, min_correct=0.5)
    assert actual.kept_N.tolist() == by_loop(rewards, groups, rule=rule, min_correct=0.5)


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0, float("nan")]), st.integers(0, 6)), max_size=40))
def test_classes_are_those_of_the_dynamics(rows):
    rewards, groups = [reward for reward, _ in rows], [group for _, group in rows]
    selection = select_groups(rewards, groups, rule="varying", min_correct=0.5)
    both = {name: selection.kept[name] + selection.dropped[name] for name in selection.kept}
    assert both == group_class_counts(rewards, groups, min_correct=0.5)
    named = group_classes(rewards, groups, min_correct=0.5)
    assert {name: len({g for g, c in zip(groups, named, strict=True) if c == name}) for name in both} == both


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from([0.0, 1.0]), st.integers(0, 6)), max_size=40))
def test_with_right_or_wrong_rewards_varying_is_mixed(rows):
    rewards, groups = [reward for reward, _ in rows], [group for _, group in rows]
    varying, mixed = (select_groups(rewards, groups, rule=rule, min_correct=1.0) for rule in ("varying", "mixed"))
    np.testing.assert_array_equal(varying.kept_N, mixed.kept_N)


def test_what_keep_failed_drops_is_what_corpo_gives_no_advantage():
    rng = np.random.default_rng(7)
    groups = rng.integers(0, 60, size=300)
    rewards = rng.choice([0.0, 0.3, 0.6, 1.0], size=300) * (rng.random(60) < 0.7)[groups]
    rewards[np.isin(groups, [3, 5])] = 1.0
    selection = select_groups(rewards, groups, rule="keep_failed", min_correct=0.5)
    advantages = corpo_advantages(rewards, groups, min_correct=0.5)
    assert selection.n_dropped >= 2
    assert (advantages[~selection.kept_N] == 0).all()
    signal = {group for group in set(groups.tolist()) if (advantages[groups == group] != 0).any()}
    assert set(groups[selection.kept_N].tolist()) == signal

    dapo = select_groups(rewards, groups, rule="mixed", min_correct=0.5)
    lost = selection.kept_N & ~dapo.kept_N
    assert (advantages[lost & (rewards < 0.5)] < 0).all()
    assert (lost & (rewards < 0.5)).any()


def test_what_varying_drops_has_no_group_mean_advantage():
    rng = np.random.default_rng(8)
    groups = rng.integers(0, 60, size=300)
    rewards = rng.choice([0.1, 0.3], size=300) * (rng.random(60) < 0.5)[groups]
    selection = select_groups(rewards, groups, rule="varying")
    centred = dr_grpo_advantages(rewards, groups)
    for group in set(groups.tolist()):
        assert selection.kept_N[groups == group].all() == bool((centred[groups == group] != 0).any())
    assert 0 < selection.n_dropped < 60


def test_rounding_is_no_variance():
    rewards, groups = [0.1 + 0.2, 0.3, 1 / 3 + 1 / 3, float(np.float32(2 / 3))], ["a", "a", "b", "b"]
    assert select_groups(rewards, groups, rule="varying").kept_N.tolist() == [False, False, True, True]
    loose = select_groups(rewards, groups, rule="varying", tolerance=2.0**-22)
    assert loose.kept_N.tolist() == [False] * 4


def test_without_a_threshold_classes_are_unknown():
    selection = select_groups([0.0, 1.0], [0, 0], rule="varying")
    assert (selection.kept, selection.dropped) == (None, None)
    assert selection.n_kept == 1


def test_a_reward_of_the_threshold_is_correct():
    assert select_groups([0.5, 0.4], [0, 0], rule="mixed", min_correct=0.5).n_kept == 1
    assert select_groups([0.4, 0.3], [0, 0], rule="mixed", min_correct=0.5).n_kept == 0
    assert select_groups([0.5, 0.5], [0, 0], rule="keep_failed", min_correct=0.5).n_kept == 0


def test_an_empty_batch():
    selection = select_groups([], [], rule="mixed", min_correct=0.5)
    assert (selection.n_kept, selection.n_dropped) == (0, 0)
    assert selection.kept == dict.fromkeys((*GROUP_CLASSES, "unscorable"), 0)


@pytest.mark.parametrize("rule", NEED_MIN_CORRECT)
def test_rules_that_need_a_threshold_say_so(rule):
    with pytest.raises(UsageError, match=f"min_correct: the rule '{rule}' asks which rollouts are correct"):
        select_groups([0.0, 1.0], [0, 0], rule=rule)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        ({"rule": "dapo"}, UsageError, "rule: expected one of all, varying, mixed, keep_failed, got 'dapo'"),
        (
            {"rewards": [np.inf, 0.0]},
            DataError,
            "rewards: 1 of 2 values are not finite or NaN, .*row 0 is inf",
        ),
        ({"group_ids": [0]}, DataError, r"group_ids: expected shape \[2\], as rewards, got \[1\]"),
        ({"min_correct": np.nan}, DataError, "min_correct: expected one finite number, got nan"),
    ],
)
def test_bad_input_names_argument_and_value(call, kind, message):
    given_values = {"rewards": [0.0, 1.0], "group_ids": [0, 0], "rule": "mixed", "min_correct": 0.5} | call
    with pytest.raises(kind, match=message):
        select_groups(given_values.pop("rewards"), given_values.pop("group_ids"), **given_values)
