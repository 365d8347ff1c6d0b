"""What the first steps of a run foretell of the rest, and how far the run then went another way."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from corpo_rl.core.advantages import dr_grpo_advantages
from corpo_rl.core.dynamics import floored_group_share, reinforced_failure_share
from corpo_rl.core.flaw import level_distribution
from corpo_rl.core.groups import finite_number, finite_vector, index_groups, reward_vector, same_length
from corpo_rl.core.handover import at_success_rate, success_curve
from corpo_rl.errors import DataError, UsageError


class Foretold(NamedTuple):
    """One step of a run after the first ones, as foretold and as seen. NaN where a figure is undefined."""

    step: int
    success_rate: float
    """Share of its scorable rollouts that are correct: the one thing the forecast is told of this step."""
    reinforced_foretold: float
    reinforced_seen: float
    """Share of the failed rollouts that are over their group's mean: what dr_grpo (and GRPO) would reinforce."""
    floored_foretold: float
    floored_seen: float
    """Share of the groups whose mean is under `min_correct`."""


def forecast(
    rewards: ArrayLike, group_ids: ArrayLike, steps: ArrayLike, *, first_steps: int, min_correct: float
) -> list[Foretold]:
    """Follow a run from the distribution of its first steps along the line of success rates.

    The rewards of the first steps give the proportions among failures and among successes. At each later step they are
    put together with that step's success rate, for groups of the run's usual size, and `exact_flaw` says what to
    expect. It takes every prompt to be equally hard. Where prompts differ, failures gather in the groups of hard
    prompts, where about half of them are over their group's mean: more are reinforced than it says, and groups lie
    further from the threshold.

    Args:
        rewards: Reward of each rollout, in task units; NaN where unscorable. Shape [N].
        group_ids: Group of each rollout. Shape [N].
        steps: Training step of each rollout. Shape [N].
        first_steps: How many of the run's first steps are looked at.
        min_correct: Least reward that counts as correct.

    Returns:
        One for each later step that has both failures and successes, in order.

    Raises:
        DataError: The first steps have no failure or no success, or there is no later step.
        UsageError: `first_steps` is under 1, or the rewards have too many levels for exact sums.

    Source:
        Ours.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> found = forecast(rng.choice([-1.0, 0.0, 1.0], size=8000), np.arange(8000) // 8, np.arange(8000) // 2000,
        ...                  first_steps=1, min_correct=0.5)
        >>> [one.step for one in found], abs(found[0].reinforced_foretold - found[0].reinforced_seen) < 0.02
        ([1, 2, 3], True)
    """
    rewards_N = reward_vector(rewards, unscorable="exclude")
    groups = index_groups(group_ids, n=len(rewards_N))
    steps_N = finite_vector("steps", steps)
    same_length("steps", steps_N, n=len(rewards_N), as_in="rewards")
    threshold = finite_number("min_correct", min_correct)
    if first_steps < 1:
        raise UsageError(f"first_steps: expected at least 1, got {first_steps}")
    in_order = np.unique(steps_N)
    if len(in_order) <= first_steps:
        raise DataError(f"steps: expected more than the first {first_steps}, found {len(in_order)}")
    early_N = steps_N <= in_order[first_steps - 1]
    levels_K, p_K = level_distribution(rewards_N[early_N])
    at_success_rate(levels_K, p_K, min_correct=threshold, success_rate=0.5)  # refuses one without both classes
    size = int(np.bincount(groups.size_G).argmax())

    found = []
    for step in in_order[first_steps:]:
        now = steps_N == step
        rewards_M, group_M = rewards_N[now], groups.index_N[now]
        known_M = rewards_M[~np.isnan(rewards_M)]
        rate = float((known_M >= threshold).mean()) if len(known_M) else np.nan
        if not 0 < rate < 1:
            continue
        (exact,) = success_curve(
            levels_K, p_K, group_size=size, min_correct=threshold, estimator="dr_grpo", success_rates=[rate]
        )
        advantages_M = dr_grpo_advantages(rewards_M, group_M, unscorable="exclude")
        found.append(
            Foretold(
                int(step),
                rate,
                exact.reinforced_failure_share,
                reinforced_failure_share(rewards_M, advantages_M, min_correct=threshold),
                exact.floored_group_share,
                floored_group_share(rewards_M, group_M, min_correct=threshold),
            )
        )
    return found
