"""A forecast from first steps, on runs whose later steps are known by construction."""

import numpy as np
import pytest

from corpo_rl.core.forecast import forecast
from corpo_rl.core.handover import at_success_rate, success_curve
from corpo_rl.errors import DataError, UsageError

LEVELS, SHARES = np.array([-1.0, -0.6, -0.2, 0.4, 1.0]), np.array([0.4, 0.25, 0.15, 0.1, 0.1])
SIZE, GROUPS = 8, 2000


def run(*rates, seed=0, spread=0.0):
    """Rewards of one step after another, each with its success rate; `spread` makes half of the prompts harder."""
    rng = np.random.default_rng(seed)
    rewards = []
    for rate in rates:
        for sign in (-1, 1):
            moved = at_success_rate(LEVELS, SHARES, min_correct=0.4, success_rate=rate + sign * spread)
            rewards.append(rng.choice(LEVELS, p=moved, size=GROUPS // 2 * SIZE))
    rewards = np.concatenate(rewards)
    return rewards, np.arange(len(rewards)) // SIZE, np.arange(len(rewards)) // (GROUPS * SIZE)


def test_a_run_of_equal_prompts_is_foretold():
    rewards, groups, steps = run(0.2, 0.35, 0.6, 0.8)
    found = forecast(rewards, groups, steps, first_steps=1, min_correct=0.4)
    assert [one.step for one in found] == [1, 2, 3]
    for one in found:
        assert one.reinforced_foretold == pytest.approx(one.reinforced_seen, abs=0.02)
        assert one.floored_foretold == pytest.approx(one.floored_seen, abs=0.03)
    assert found[0].reinforced_foretold > found[1].reinforced_foretold + 0.03 > found[2].reinforced_foretold + 0.03


def test_the_forecast_is_the_curve_at_the_rate_seen():
    rewards, groups, steps = run(0.2, 0.5)
    (one,) = forecast(rewards, groups, steps, first_steps=1, min_correct=0.4)
    early = rewards[steps == 0]
    levels, counts = np.unique(early, return_counts=True)
    settings = {"group_size": SIZE, "min_correct": 0.4, "estimator": "dr_grpo"}
    (exact,) = success_curve(
        levels, counts / len(early), success_rates=[(rewards[steps == 1] >= 0.4).mean()], **settings
    )
    assert one.reinforced_foretold == pytest.approx(exact.reinforced_failure_share, abs=1e-12)


def test_where_prompts_differ_it_is_off_and_in_which_way():
    rewards, groups, steps = run(0.5, 0.5, spread=0.45)
    (one,) = forecast(rewards, groups, steps, first_steps=1, min_correct=0.4)
    assert one.reinforced_seen > one.reinforced_foretold + 0.05
    assert one.floored_seen == pytest.approx(0.5, abs=0.05)  # the hard half is under the floor, the easy half is not


def test_unscorable_rollouts_and_steps_without_a_failure_are_left_out():
    rewards, groups, steps = run(0.2, 0.5, 0.5)
    rewards[steps == 1] = 1.0
    rewards[np.flatnonzero(steps == 2)[::7]] = np.nan
    (one,) = forecast(rewards, groups, steps, first_steps=1, min_correct=0.4)
    assert one.step == 2
    assert one.success_rate == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"first_steps": 0}, UsageError, "first_steps: expected at least 1, got 0"),
        ({"first_steps": 2}, DataError, "steps: expected more than the first 2, found 2"),
        ({"min_correct": 5.0}, DataError, "expected both failures and successes of min_correct 5, found no success"),
    ],
)
def test_what_cannot_be(changes, error, message):
    rewards, groups, steps = run(0.2, 0.5)
    with pytest.raises(error, match=message):
        forecast(rewards, groups, steps, **{"first_steps": 1, "min_correct": 0.4, **changes})
