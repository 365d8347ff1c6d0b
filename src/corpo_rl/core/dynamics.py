"""What an estimator does to a batch: failures it reinforces, the balance of pushes up and down, where the floor binds.

Rewards of NaN are rollouts nobody could score: neither failed nor correct, and left out of every figure. A figure that
is undefined is NaN. Advantages within rounding of 0 (1e-9 of the largest) count as 0.
"""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corpo_rl.core.groups import finite_number, finite_vector, index_groups, reward_vector, same_length
from corpo_rl.core.rounding import ROUNDING, SMALLEST, under

FloorState = Literal["active", "inert", "saturated", "unknown"]


GROUP_CLASSES: tuple[str, ...] = (
    "all_failed_equal",
    "all_failed_graded",
    "mixed",
    "all_correct_graded",
    "all_correct_equal",
)
"""Classes of groups. "equal": one and the same reward up to rounding, as in a group of one; "graded": some better than
others. In an all_failed_graded group a group-mean baseline reinforces failures."""


def n_reinforced_failures(rewards: ArrayLike, advantages: ArrayLike, *, min_correct: float) -> int:
    """Failed rollouts (reward < min_correct) with an advantage above 0.

    Args:
        rewards: Reward of each rollout, in task units; NaN where unscorable. Shape [N].
        advantages: Advantage of each rollout. Shape [N], finite.
        min_correct: Least reward that counts as correct, in task units.

    Raises:
        DataError: A shape is wrong or a value is not finite, NaN rewards aside.

    Example:
        >>> n_reinforced_failures([-1.0, -0.8, -0.9, -0.7], [-0.15, 0.05, -0.05, 0.15], min_correct=0.0)
        2
    """
    failed_N, sign_N = _failed_and_signs(rewards, advantages, min_correct=min_correct)
    return int(np.count_nonzero(failed_N & (sign_N > 0)))


def reinforced_failure_share(rewards: ArrayLike, advantages: ArrayLike, *, min_correct: float) -> float:
    """Share of the failed rollouts with an advantage above 0, in [0, 1]; NaN when none failed.

    Args:
        rewards: Reward of each rollout, in task units; NaN where unscorable. Shape [N].
        advantages: Advantage of each rollout. Shape [N], finite.
        min_correct: Least reward that counts as correct, in task units.

    Raises:
        DataError: A shape is wrong or a value is not finite, NaN rewards aside.

    Source:
        Garg and Venkatesh, https://arxiv.org/abs/2511.04439v1, report it for one batch under GRPO.

    Example:
        >>> reinforced_failure_share([-1.0, -0.8, -0.9, -0.7], [-0.15, 0.05, -0.05, 0.15], min_correct=0.0)
        0.5
    """
    failed_N, sign_N = _failed_and_signs(rewards, advantages, min_correct=min_correct)
    n_failed = np.count_nonzero(failed_N)
    return float(np.count_nonzero(failed_N & (sign_N > 0)) / n_failed) if n_failed else float("nan")


def r_count(advantages: ArrayLike) -> float:
    """Rollouts pushed up for each one pushed down: #{A > 0} / #{A < 0}; NaN when none is pushed down.

    Args:
        advantages: Advantage of each rollout. Shape [N], finite.

    Raises:
        DataError: The shape is wrong or a value is not finite.

    Source:
        Garg and Venkatesh, https://arxiv.org/abs/2511.04439v1, r_count.

    Example:
        >>> r_count([0.5, -0.25, -0.25, 0.0])
        0.5
    """
    sign_N = _signs(finite_vector("advantages", advantages))
    n_down = np.count_nonzero(sign_N < 0)
    return float(np.count_nonzero(sign_N > 0) / n_down) if n_down else float("nan")


def r_loss(advantages: ArrayLike, summed_log_probs: ArrayLike) -> float:
    """Loss of the rollouts pushed up over the loss of those pushed down.

        r_loss = sum of L_i over A_i > 0  /  sum of L_i over A_i < 0,       L_i = -A_i * sum_t log pi(token t of i)

    Log-probabilities are at most 0, so the numerator is at least 0, the denominator at most 0, and the ratio never
    above 0: read its size. It is NaN when the denominator is 0.

    Args:
        advantages: Advantage of each rollout. Shape [N], finite.
        summed_log_probs: Log-probability of each completion, summed over its tokens, in nats. Shape [N], finite.

    Raises:
        DataError: A shape is wrong or a value is not finite.

    Source:
        Garg and Venkatesh, https://arxiv.org/abs/2511.04439v1, r_loss, with the paper's loss of a rollout.

    Example:
        >>> r_loss([0.5, -0.25, -0.25], [-2.0, -6.0, -2.0])
        -0.5
    """
    advantages_N = finite_vector("advantages", advantages)
    log_probs_N = finite_vector("summed_log_probs", summed_log_probs)
    same_length("summed_log_probs", log_probs_N, n=len(advantages_N), as_in="advantages")

    loss_N, sign_N = -advantages_N * log_probs_N, _signs(advantages_N)
    down = loss_N[sign_N < 0].sum()
    return float(loss_N[sign_N > 0].sum() / down) if down else float("nan")


def floored_group_share(rewards: ArrayLike, group_ids: ArrayLike, *, min_correct: float) -> float:
    """Share of the groups with mean < min_correct: those in the correctness-seeking phase, where the floor binds.

    Args:
        rewards: Reward of each rollout, in task units; NaN where unscorable. Shape [N].
        group_ids: Prompt each rollout answers, integers or strings. Shape [N].
        min_correct: Least reward that counts as correct, in task units. A mean within rounding of it is not under it.

    Returns:
        Share in [0, 1] of the groups with at least one scorable rollout; NaN when there is none. The others are in the
        preference-seeking phase.

    Raises:
        DataError: A shape is wrong, a value is not finite (NaN rewards aside), or the ids are neither integers nor
            strings.

    Example:
        >>> floored_group_share([0.0, 0.4, 1.0], ["a", "a", "b"], min_correct=0.5)
        0.5
    """
    rewards_N = reward_vector(rewards, unscorable="exclude")
    floor = finite_number("min_correct", min_correct)
    mean_G = index_groups(group_ids, n=len(rewards_N)).mean(rewards_N)

    n_scorable = np.count_nonzero(~np.isnan(mean_G))
    return float(np.count_nonzero(under(mean_G, floor)) / n_scorable) if n_scorable else float("nan")


def group_class_counts(rewards: ArrayLike, group_ids: ArrayLike, *, min_correct: float) -> dict[str, int]:
    """Number of groups in each class.

    Args:
        rewards: Reward of each rollout, in task units; NaN where unscorable. Shape [N].
        group_ids: Prompt each rollout answers, integers or strings. Shape [N].
        min_correct: Least reward that counts as correct, in task units.

    Returns:
        A count for each of `GROUP_CLASSES`, then "unscorable": groups without one scorable rollout, in no class.

    Raises:
        DataError: A shape is wrong, a value is not finite (NaN rewards aside), or the ids are neither integers nor
            strings.

    Example:
        >>> counts = group_class_counts([0.0, 0.4, 1.0, 0.4, 0.4], ["a", "a", "b", "b", "c"], min_correct=0.5)
        >>> {name: count for name, count in counts.items() if count}
        {'all_failed_equal': 1, 'all_failed_graded': 1, 'mixed': 1}
    """
    rewards_N = reward_vector(rewards, unscorable="exclude")
    floor = finite_number("min_correct", min_correct)
    groups = index_groups(group_ids, n=len(rewards_N))

    equal_G = groups.all_equal(rewards_N)
    failing_G, passing_G = groups.any(rewards_N < floor), groups.any(rewards_N >= floor)
    return {
        "all_failed_equal": _count(failing_G & ~passing_G & equal_G),
        "all_failed_graded": _count(failing_G & ~passing_G & ~equal_G),
        "mixed": _count(failing_G & passing_G),
        "all_correct_graded": _count(passing_G & ~failing_G & ~equal_G),
        "all_correct_equal": _count(passing_G & ~failing_G & equal_G),
        "unscorable": _count(~failing_G & ~passing_G),
    }


def floor_state(rewards: ArrayLike, group_ids: ArrayLike, *, min_correct: float) -> FloorState:
    """Whether a floor at `min_correct` separates anything in these rollouts.

        inert: `min_correct` is at or under every group mean, as it is when at or under every reward. CoRPO is then
            the plain group-mean baseline.
        saturated: Not inert, and no reward exceeds `min_correct`. Nothing can have an advantage above 0: only
            punishment is left.
        active: Neither.
        unknown: No rollout could be scored.

    Args:
        rewards: Reward of each rollout, in task units; NaN where unscorable. Shape [N].
        group_ids: Prompt each rollout answers, integers or strings. Shape [N].
        min_correct: Least reward that counts as correct, in task units.

    Raises:
        DataError: A shape is wrong, a value is not finite (NaN rewards aside), or the ids are neither integers nor
            strings.

    Example:
        >>> [floor_state([0.0, 0.4, 1.0], [0, 0, 1], min_correct=floor) for floor in (0.0, 0.5, 1.0)]
        ['inert', 'active', 'saturated']
    """
    rewards_N = reward_vector(rewards, unscorable="exclude")
    floored_share = floored_group_share(rewards_N, group_ids, min_correct=min_correct)
    if np.isnan(floored_share):
        return "unknown"
    if floored_share == 0:
        return "inert"
    return "active" if (rewards_N > min_correct).any() else "saturated"


def _failed_and_signs(
    rewards: ArrayLike, advantages: ArrayLike, *, min_correct: float
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    rewards_N = reward_vector(rewards, unscorable="exclude")
    advantages_N = finite_vector("advantages", advantages)
    same_length("advantages", advantages_N, n=len(rewards_N), as_in="rewards")
    failed_N: NDArray[np.bool_] = rewards_N < finite_number("min_correct", min_correct)  # False for NaN
    return failed_N, _signs(advantages_N)


def _signs(advantages_N: NDArray[np.float64]) -> NDArray[np.float64]:
    """-1, 0 or 1 for each advantage, 0 within rounding."""
    tolerance = max(ROUNDING * np.abs(advantages_N).max(initial=0.0), SMALLEST)
    return np.where(np.abs(advantages_N) <= tolerance, 0.0, np.sign(advantages_N))


def _count(flag_G: NDArray[np.bool_]) -> int:
    return int(np.count_nonzero(flag_G))
