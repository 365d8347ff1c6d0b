"""Expected updates by exact enumeration: every group of G samples a softmax policy can draw, with its probability."""

import itertools

import numpy as np
import pytest

from corpo_rl import estimate_advantages
from corpo_rl.core.advantages import ESTIMATORS

REWARDS = np.array([-1.0, -0.4, 0.5, 1.0])
FAILED = REWARDS < 0.0
FLOOR = 0.0
POOR_POLICY = np.array([0.80, 0.15, 0.03, 0.02])
FAIR_POLICY = np.array([0.38, 0.34, 0.17, 0.11])
POLICIES = [POOR_POLICY, FAIR_POLICY, np.full(4, 0.25)]


class Enumeration:
    """All groups of one size under one policy, as one batch of rollouts."""

    def __init__(self, policy, group_size, estimator, floor=FLOOR):
        self.policy = policy
        self.arms = np.array(list(itertools.product(range(len(policy)), repeat=group_size)))
        self.probability = policy[self.arms].prod(axis=1)
        groups = np.repeat(np.arange(len(self.arms)), group_size)
        advantages = estimate_advantages(estimator, REWARDS[self.arms].ravel(), groups, min_correct=floor)
        self.advantages = advantages.reshape(self.arms.shape)

    def update(self):
        """Expected (1/G) sum of A_i * d log pi(a_i) / d logit, for each arm; for a softmax that is [a_i = k] - p_k."""
        score = np.eye(len(self.policy))[self.arms] - self.policy
        return np.einsum("g,gi,gik->k", self.probability, self.advantages, score) / self.arms.shape[1]

    def reinforced_failure_share(self):
        """Expected number of failed rollouts with A > 0 over expected number of failed rollouts."""
        failed = FAILED[self.arms]
        lifted = failed & (self.advantages > 1e-12)
        return (self.probability @ lifted.sum(axis=1)) / (self.probability @ failed.sum(axis=1))

    def share_that_rise(self, arm):
        """Probability that the update lifts an arm's logit, among the groups that hold the arm."""
        rise = (self.advantages * ((self.arms == arm) - self.policy[arm])).sum(axis=1)
        holding = (self.arms == arm).any(axis=1)
        return self.probability[holding & (rise > 1e-12)].sum() / self.probability[holding].sum()


def true_gradient(policy):
    """d E[R] / d logit_k = p_k (R_k - E[R])."""
    return policy * (REWARDS - policy @ REWARDS)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("group_size", [2, 3, 5])
def test_which_estimators_are_the_policy_gradient(policy, group_size):
    true = true_gradient(policy)
    for estimator in ("static", "rloo", "loo_corpo"):
        np.testing.assert_allclose(Enumeration(policy, group_size, estimator).update(), true, atol=1e-12)
    shrunk = Enumeration(policy, group_size, "dr_grpo").update()
    np.testing.assert_allclose(shrunk, (1 - 1 / group_size) * true, atol=1e-12)


@pytest.mark.parametrize("floor", [-0.4, 0.0, 0.2, 0.5, 1.0])
def test_leave_one_out_is_unbiased_under_any_floor(floor):
    update = Enumeration(FAIR_POLICY, 4, "loo_corpo", floor).update()
    np.testing.assert_allclose(update, true_gradient(FAIR_POLICY), atol=1e-12)


def test_corpo_is_biased_in_direction():
    # ratio of corpo's update to the true one, arm by arm: not one number, so not the same direction
    ratio = Enumeration(FAIR_POLICY, 2, "corpo").update() / true_gradient(FAIR_POLICY)
    np.testing.assert_allclose(ratio, [0.878, 0.477, 0.876, 0.806], atol=5e-4)
    ratio = Enumeration(FAIR_POLICY, 4, "corpo").update() / true_gradient(FAIR_POLICY)
    assert 0.8 < ratio.min() < ratio.max() < 0.97
    # almost every group of the poor policy is under the floor, and a floor that always binds is a constant
    ratio = Enumeration(POOR_POLICY, 4, "corpo").update() / true_gradient(POOR_POLICY)
    np.testing.assert_allclose(ratio, 1.0, atol=5e-3)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("estimator", ["static", "corpo", "loo_corpo"])
def test_no_failure_is_reinforced(policy, estimator):
    drawn = Enumeration(policy, 4, estimator)
    assert (drawn.advantages[FAILED[drawn.arms]] < 0).all()
    assert drawn.reinforced_failure_share() == 0
    assert Enumeration(policy, 4, "dr_grpo").reinforced_failure_share() > 0.05


def test_share_of_failures_the_group_mean_reinforces():
    for estimator in ("grpo", "dr_grpo", "rloo"):
        assert Enumeration(POOR_POLICY, 4, estimator).reinforced_failure_share() == pytest.approx(0.144, abs=5e-4)


def test_what_the_guarantee_does_not_give():
    # The less bad failing arm gains under every estimator: probability leaves the worst arm, and lands there too.
    pushes = {name: Enumeration(POOR_POLICY, 4, name).update()[1] for name in ESTIMATORS}
    exact = 0.06375  # the true gradient: p_1 (R_1 - E[R]) = .15 * .425
    expected = {"grpo": 0.1555, "dr_grpo": 0.0478, "corpo": 0.0637}
    expected |= {"static": exact, "rloo": exact, "loo_corpo": exact}
    assert pushes == pytest.approx(expected, abs=5e-5)
    assert true_gradient(POOR_POLICY)[1] == pytest.approx(0.15 * 0.425)
    assert Enumeration(POOR_POLICY, 4, "corpo").share_that_rise(1) == pytest.approx(0.64, abs=5e-3)
    assert Enumeration(POOR_POLICY, 4, "dr_grpo").share_that_rise(1) == pytest.approx(0.92, abs=5e-3)


def test_dividing_by_the_group_std_flips_an_expected_sign():
    assert true_gradient(FAIR_POLICY)[1] < 0
    assert Enumeration(FAIR_POLICY, 4, "dr_grpo").update()[1] < 0
    assert Enumeration(FAIR_POLICY, 4, "grpo").update()[1] > 0.01
