"""The theory page: its figures are computed again, and every test it names exists."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest

from corpo_rl import corpo_advantages, dr_grpo_advantages
from corpo_rl.core.flaw import exact_flaw
from corpo_rl.core.handover import handover
from corpo_rl.core.methods import method_advantages

ROOT = Path(__file__).parent.parent
PAGE = " ".join((ROOT / "docs" / "theory.md").read_text().split())

LEVELS = np.array([-1.0, -0.4, 0.5, 1.0])
P, Q = np.array([0.80, 0.15, 0.03, 0.02]), np.array([0.38, 0.34, 0.17, 0.11])


def gradient(policy, estimator, group_size=4):
    return exact_flaw(LEVELS, policy, group_size=group_size, min_correct=0.0, estimator=estimator).gradient_K


def true_gradient(policy):
    return policy * (LEVELS - policy @ LEVELS)


def written(value):
    """As the page writes a push: four places, no zero before the point."""
    return f"{value:+.4f}".replace("0.", ".", 1).lstrip("+")


def test_every_test_the_page_names_exists():
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE)
    assert len(named) > 15
    for file, name in named:
        tree = ast.parse((ROOT / file).read_text())
        found = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert not name or name in found, f"{file}::{name}"


def test_the_figures_of_the_page():
    # 5: the ratio of CoRPO's update to the true one, arm by arm, smallest and largest
    for group_size in (2, 4, 6):
        ratio = gradient(Q, "corpo", group_size) / true_gradient(Q)
        assert f"{ratio.min():.2f}-{ratio.max():.2f} at `G` = {group_size}" in PAGE
    # 6: the push on the less bad failure under policy P
    true = true_gradient(P)[1]
    pushes = [written(value) for value in (true, gradient(P, "dr_grpo")[1], gradient(P, "corpo")[1])]
    assert (
        "the true gradient {}, the group mean {}, CoRPO {}, static {}, GRPO with its divisor {}".format(
            *pushes, written(gradient(P, "static")[1]), written(gradient(P, "grpo")[1])
        )
        in PAGE
    )
    flaw = exact_flaw(LEVELS, P, group_size=4, min_correct=0.0, estimator="grpo")
    assert f"GRPO gives {100 * flaw.reinforced_failure_share:.1f} % of the failed rollouts" in PAGE
    # 7
    assert f"pushes that arm {gradient(P, 'grpo')[1] / true:.1f} times as hard as the true gradient" in PAGE
    assert (
        f"the true push on it is {written(true_gradient(Q)[1])}, that of the group mean "
        f"{written(gradient(Q, 'dr_grpo')[1])}, and GRPO's +{written(gradient(Q, 'grpo')[1])}"
    ) in PAGE
    # 9
    found = handover(LEVELS, P, group_size=4, min_correct=0.0)
    assert f"For policy P it is {100 * found.by_group:.1f} %, and `q*` {100 * found.by_mean:.1f} %" in PAGE


def test_recentring_gives_back_the_group_mean():
    rewards = np.array([-1.0, -0.8, -0.9, -0.7])
    floored = corpo_advantages(rewards, [0] * 4, min_correct=0.0)
    np.testing.assert_allclose(floored - floored.mean(), [-0.15, 0.05, -0.05, 0.15], atol=1e-12)
    np.testing.assert_allclose(floored - floored.mean(), dr_grpo_advantages(rewards, [0] * 4), atol=1e-12)
    assert floored.mean() == pytest.approx(-(0.0 - rewards.mean()))


def test_a_passing_rollout_is_pushed_down_in_a_better_group():
    assert corpo_advantages([0.2, -1.0], [0, 0], min_correct=0.2)[0] == 0.0
    assert corpo_advantages([0.2, 1.0], [0, 0], min_correct=0.2)[0] == pytest.approx(-0.4)


def test_two_rewards():
    rng = np.random.default_rng(0)
    signs, groups = rng.choice([-1.0, 1.0], size=400), np.arange(400) // 5
    top = corpo_advantages(signs, groups, min_correct=1.0)
    np.testing.assert_allclose(top, 2 * method_advantages("nsr", signs, groups, min_correct=1.0))
    middle = corpo_advantages(signs, groups, min_correct=0.0)
    few = np.repeat(signs.reshape(-1, 5).mean(axis=1) < 0, 5)
    assert few.any()
    assert not few.all()
    np.testing.assert_allclose(middle[few], signs[few])
    np.testing.assert_allclose(middle[~few], dr_grpo_advantages(signs, groups)[~few])
    zeros = (signs + 1) / 2
    np.testing.assert_allclose(
        corpo_advantages(zeros, groups, min_correct=0.0), dr_grpo_advantages(zeros, groups), atol=1e-12
    )
