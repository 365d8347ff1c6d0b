import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpo_rl import corpo_advantages, dr_grpo_advantages, grpo_advantages
from corpo_rl.core.dynamics import (
    GROUP_CLASSES,
    floor_state,
    floored_group_share,
    group_class_counts,
    n_reinforced_failures,
    r_count,
    r_loss,
    reinforced_failure_share,
)
from corpo_rl.errors import DataError

nan = float("nan")


def test_reinforced_failures_worked_by_hand():
    # failed (under 0.5): rows 0, 1, 2; of those row 1 has A > 0. Row 3 is correct at exactly 0.5, row 4 is unscorable.
    rewards, advantages = [0.0, 0.4, -1.0, 0.5, nan], [-1.0, 0.5, 0.0, 1.0, 0.0]
    assert n_reinforced_failures(rewards, advantages, min_correct=0.5) == 1
    assert reinforced_failure_share(rewards, advantages, min_correct=0.5) == pytest.approx(1 / 3)


def test_no_failure_has_no_share():
    assert np.isnan(reinforced_failure_share([0.5, nan], [1.0, 0.0], min_correct=0.5))
    assert n_reinforced_failures([0.5, nan], [1.0, 0.0], min_correct=0.5) == 0
    assert np.isnan(reinforced_failure_share([], [], min_correct=0.5))


def test_rounding_is_not_an_advantage():
    # mean of 0.1, 0.2, 0.3 is 0.2 up to rounding; so 0.2's advantage is 0, whatever its last bits are
    for leftover in (2.8e-17, -2.8e-17):
        assert reinforced_failure_share([0.1, 0.2, 0.3], [-0.1, leftover, 0.1], min_correct=0.5) == pytest.approx(1 / 3)
        assert r_count([-0.1, leftover, 0.1]) == 1.0
        assert n_reinforced_failures([0.3, 0.3], [leftover, -leftover], min_correct=0.5) == 0


def test_a_failing_group_under_two_baselines():
    rewards, groups = [-1.0, -0.8, -0.9, -0.7], [0, 0, 0, 0]
    # mean -0.85: -0.8 and -0.7 are over it
    assert reinforced_failure_share(rewards, grpo_advantages(rewards, groups), min_correct=0.0) == 0.5
    floored = corpo_advantages(rewards, groups, min_correct=0.0)
    assert reinforced_failure_share(rewards, floored, min_correct=0.0) == 0.0
    assert r_count(floored) == 0.0


def test_r_count_worked_by_hand():
    assert r_count([2.0, 1.0, -0.5, 0.0, -0.1, 3.0]) == 1.5  # three up, two down
    assert np.isnan(r_count([1.0, 0.0]))
    assert np.isnan(r_count([]))


def test_r_loss_worked_by_hand():
    # losses -A * log-prob: -(1)(-4) = 4, -(0.5)(-2) = 1 up; -(-0.25)(-8) = -2 down; the zero counts for neither
    assert r_loss([1.0, 0.5, -0.25, 0.0], [-4.0, -2.0, -8.0, -100.0]) == (4 + 1) / -2
    assert np.isnan(r_loss([1.0], [-4.0]))
    assert np.isnan(r_loss([1.0, -1.0], [-4.0, 0.0]))  # a completion of probability 1 has no loss


def test_floored_share_worked_by_hand():
    # means: a 0.2 under, b 0.5 at the floor, c 1.0 over, d unscorable; the NaN in a is left out
    rewards, groups = [0.1, 0.3, nan, 0.4, 0.6, 1.0, nan], ["a", "a", "a", "b", "b", "c", "d"]
    assert floored_group_share(rewards, groups, min_correct=0.5) == pytest.approx(1 / 3)
    assert np.isnan(floored_group_share([nan], ["a"], min_correct=0.5))


def test_a_mean_at_the_floor_up_to_rounding_is_not_floored():
    assert (0.1 + 0.7) / 2 < 0.4
    assert floored_group_share([0.1, 0.7], [0, 0], min_correct=0.4) == 0.0


def test_group_classes_worked_by_hand():
    batch = {
        "all_failed_equal": [[0.1] * 6, [-1.0]],
        "all_failed_graded": [[0.1, 0.2], [0.4, 0.4, nan, 0.3]],
        "mixed": [[0.1, 0.5]],
        "all_correct_graded": [[0.5, 0.6], [1.0, 0.5, 0.5]],
        "all_correct_equal": [[0.5, 0.5], [0.9, nan], [0.6, 0.6], [1.0]],
        "unscorable": [[nan, nan]],
    }
    rows = [group for groups in batch.values() for group in groups]
    rewards = [reward for group in rows for reward in group]
    ids = [f"g{number}" for number, group in enumerate(rows) for _ in group]
    counts = group_class_counts(rewards, ids, min_correct=0.5)
    assert counts == {name: len(groups) for name, groups in batch.items()}
    assert tuple(counts) == (*GROUP_CLASSES, "unscorable")


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([-1.0, 0.2, 0.5, 0.9, nan]), st.integers(0, 5)), max_size=30),
    st.sampled_from([-2.0, -1.0, 0.3, 0.5, 2.0]),
)
def test_every_group_has_one_class(rows, floor):
    rewards, groups = [reward for reward, _ in rows], [group for _, group in rows]
    counts = group_class_counts(rewards, groups, min_correct=floor)
    assert sum(counts.values()) == len(set(groups))
    state = floor_state(rewards, groups, min_correct=floor)
    assert (state == "unknown") == (counts["unscorable"] == len(set(groups)))
    if state == "inert":
        floored = corpo_advantages(rewards, groups, min_correct=floor, unscorable="exclude")
        plain = dr_grpo_advantages(rewards, groups, unscorable="exclude")
        np.testing.assert_allclose(floored, plain, atol=1e-12)
    if state == "saturated":
        assert (corpo_advantages(rewards, groups, min_correct=floor, unscorable="exclude") <= 0).all()


@pytest.mark.parametrize(
    ("floor", "state"),
    [
        (-0.5, "inert"),  # under every reward
        (0.0, "inert"),  # at the least reward
        (0.2, "inert"),  # over a reward, but at the least group mean (0 + 0.4) / 2 = 0.2
        (0.3, "active"),
        (0.9, "active"),  # one reward exceeds it
        (1.0, "saturated"),  # reached, never exceeded
        (2.0, "saturated"),
    ],
)
def test_floor_state(floor, state):
    assert floor_state([0.0, 0.4, 1.0, nan], ["a", "a", "b", "b"], min_correct=floor) == state


def test_floor_state_of_nothing_is_unknown():
    assert floor_state([nan], ["a"], min_correct=0.5) == "unknown"
    assert floor_state([], [], min_correct=0.5) == "unknown"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: reinforced_failure_share([1.0], [1.0, 2.0], min_correct=0.5),
            r"advantages: expected shape \[1\], as rewards, got \[2\]",
        ),
        (lambda: reinforced_failure_share([1.0], [nan], min_correct=0.5), "advantages: 1 of 1 values are not finite"),
        (lambda: reinforced_failure_share([1.0], [1.0], min_correct=nan), "min_correct: expected one finite number"),
        (lambda: reinforced_failure_share([np.inf], [1.0], min_correct=0.5), "rewards: 1 of 1 values are not finite"),
        (lambda: r_count([nan]), "advantages: 1 of 1 values are not finite"),
        (lambda: r_loss([1.0], [1.0, 2.0]), r"summed_log_probs: expected shape \[1\], as advantages"),
        (lambda: group_class_counts([1.0], [1, 2], min_correct=0.5), r"group_ids: expected shape \[1\]"),
        (lambda: floor_state([1.0], ["a"], min_correct=nan), "min_correct: expected one finite number"),
        (lambda: floored_group_share([1.0], ["a"], min_correct="x"), "min_correct: expected one finite number"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(DataError, match=message):
        call()
