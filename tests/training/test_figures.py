"""What training logs about a batch: rewards and advantages that went through float32."""

import numpy as np
import pytest
import torch

from corpo_rl.training.figures import batch_advantages, batch_figures, logged_advantages, total_rewards


def trl_advantages(rewards, *, group_size, scale):
    """TRL's lines, in float32: centre, and divide by the std of the group or the batch + 1e-4."""
    grouped = torch.tensor(rewards, dtype=torch.float32).view(-1, group_size)
    advantages = grouped - torch.nanmean(grouped, dim=1, keepdim=True)
    if scale == "group":
        advantages = advantages / (grouped.std(dim=1, keepdim=True) + 1e-4)
    elif scale == "batch":
        advantages = advantages / (grouped.std() + 1e-4)
    return advantages.view(-1).double().numpy()


def test_a_rollout_at_the_mean_of_float32_twelfths_gets_no_sign():
    """1/12, 2/12 and 3/12 in float32 have a mean that is not their 2/12, by a unit in the last place."""
    twelfths_N = np.float32(np.array([1, 2, 3, 3, 2, 1]) / 12).astype(np.float64)
    assert twelfths_N[:3].mean() != twelfths_N[1], "the case must hold the noise it is about"
    advantages_N = batch_advantages("corpo", twelfths_N, np.array([0, 0, 0, 1, 1, 1]), min_correct=0.0)
    np.testing.assert_array_equal(np.sign(advantages_N), [-1, 0, 1, 1, 0, -1])


@pytest.mark.parametrize("scale", ["none", "group", "batch"])
def test_what_trl_leaves_of_a_rollout_at_the_mean_is_rounding(scale):
    # Of 1/12 ... 11/12 the middle one is at the mean, of eleven equal rewards all are.
    rewards = np.concatenate([np.arange(1, 12) / 12, np.full(11, 0.1), np.full(11, 0.7)])
    at_mean = np.concatenate([np.arange(1, 12) == 6, np.ones(22, dtype=bool)])
    logged = trl_advantages(rewards, group_size=11, scale=scale)
    assert (logged[at_mean] != 0).any(), "the case must hold the noise it is about"
    cleaned = logged_advantages(logged, rewards, np.arange(33) // 11)
    np.testing.assert_array_equal(cleaned, np.where(at_mean, 0.0, logged))
    assert (cleaned[~at_mean] != 0).all()


def test_an_advantage_at_the_mean_that_is_no_rounding_stays():
    # A floor of 0.5 over means of 0.2: the rollout at the mean has -0.3.
    rewards, group_N = np.array([0.1, 0.2, 0.3]), np.zeros(3, dtype=int)
    logged = np.array([-0.4, -0.3, -0.2])
    np.testing.assert_array_equal(logged_advantages(logged, rewards, group_N), logged)


def test_total_of_float32_components_is_the_decimal():
    # 0.5 * 0.2 + 2 * 0.3 = 0.7, which a float32 sum misses; None adds nothing, unless there is nothing else.
    rewards = np.float32([[0.2, 0.3], [np.nan, 0.3], [np.nan, np.nan]])
    np.testing.assert_array_equal(total_rewards(rewards, np.float32([0.5, 2.0])), [0.7, 0.6, np.nan])


def test_figures_by_hand():
    # Two groups of three, min_correct 0.5. Group 0: 0.0, 0.3, None, all failed, mean 0.15; group 1: 0.2, 0.5, 0.8.
    rewards = np.array([0.0, 0.3, np.nan, 0.2, 0.5, 0.8])
    group_N = np.array([0, 0, 0, 1, 1, 1])
    figures = batch_figures(rewards, group_N, np.array([-0.15, 0.15, 0.0, -0.3, 0.0, 0.3]), min_correct=0.5)
    assert figures == pytest.approx(
        {
            "reinforced_failure_share": 1 / 3,  # of 0.0, 0.3 and 0.2 the middle one
            "reinforced_failure_share_grpo": 1 / 3,
            "r_count": 1.0,
            "floored_group_share": 0.5,
            "correct_share": 2 / 5,
            "exceeding_share": 1 / 5,
            "unscorable": 1.0,
            "advantage_mean": 0.0,
            "advantage_abs_mean": 0.9 / 6,
            "groups/all_failed_equal": 0.0,
            "groups/all_failed_graded": 0.5,
            "groups/mixed": 0.5,
            "groups/all_correct_graded": 0.0,
            "groups/all_correct_equal": 0.0,
            "groups/unscorable": 0.0,
        }
    )
