"""How the flaw and its cures change as a policy learns, and where CoRPO hands over from correctness to preference.

A policy is followed along one line: the rewards of its failures keep their proportions, those of its successes too, and
the share of successes goes from 0 to 1. The line is ours; a real policy also becomes better within each class.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corpo_rl.core.flaw import ExactFlaw, exact_flaw
from corpo_rl.core.groups import finite_number, finite_vector, same_length
from corpo_rl.errors import DataError, UsageError


@dataclass(frozen=True)
class Handover:
    """Where on the line of success rates the floor stops to bind; None where it never does or always does."""

    by_mean: float | None
    """Success rate at which the expected reward is `min_correct`: with very large groups, every group is under the
    floor before it and none after."""
    by_group: float | None
    """Success rate at which half of the groups of this size are under the floor."""


def at_success_rate(
    levels: ArrayLike, probabilities: ArrayLike, *, min_correct: float, success_rate: float
) -> NDArray[np.float64]:
    """The distribution with another share of successes, the proportions within failures and successes kept.

        p'_k = p_k (1 - q) / (sum of p_j over failures)  for a failing level,  p_k q / (sum over successes)  else

    Args:
        levels: Reward levels. Shape [K], in task units.
        probabilities: How often the policy reaches each. Shape [K].
        min_correct: Least reward that counts as correct.
        success_rate: q, from 0 to 1.

    Returns:
        Shape [K], summing to 1.

    Raises:
        DataError: Shapes differ, or the distribution has no failure or no success to keep the proportions of.
        UsageError: The rate is not within 0 and 1.

    Source:
        Ours.

    Example:
        >>> at_success_rate([-1, 0, 1], [0.6, 0.2, 0.2], min_correct=0.5, success_rate=0.6)
        array([0.3, 0.1, 0.6])
    """
    levels_K, p_K = finite_vector("levels", levels), finite_vector("probabilities", probabilities)
    same_length("probabilities", p_K, n=len(levels_K), as_in="levels")
    threshold = finite_number("min_correct", min_correct)
    if not 0 <= success_rate <= 1:
        raise UsageError(f"success_rate: expected a share from 0 to 1, got {success_rate}")
    right_K = levels_K >= threshold
    failed, correct = float(p_K[~right_K].sum()), float(p_K[right_K].sum())
    if failed <= 0 or correct <= 0:
        what = "success" if correct <= 0 else "failure"
        raise DataError(
            f"probabilities: expected both failures and successes of min_correct {threshold:g}, found no {what}; their "
            "proportions are not known then"
        )
    return np.where(right_K, p_K * success_rate / correct, p_K * (1 - success_rate) / failed)


def handover(levels: ArrayLike, probabilities: ArrayLike, *, group_size: int, min_correct: float) -> Handover:
    """The success rates at which CoRPO goes over from seeking correctness to seeking preference.

        by_mean: q = (R_min_correct - m_F) / (m_C - m_F), m_F and m_C the mean rewards of failures and successes
        by_group: the q at which P(mean of a group < R_min_correct) = 1/2, by bisection of the exact probability

    Both are on the line of `at_success_rate`. Where the worst success is the threshold itself and the only one (binary
    rewards with min_correct = 1), m_C = R_min_correct: by_mean is 1, and CoRPO never goes over.

    Args:
        levels: Reward levels. Shape [K], in task units.
        probabilities: How often the policy reaches each; only their proportions count. Shape [K].
        group_size: Rollouts of a group.
        min_correct: Least reward that counts as correct.

    Raises:
        DataError, UsageError: As `at_success_rate` and `exact_flaw`.

    Source:
        Ours.

    Example:
        Failures average -0.6, successes 0.8: (0.2 + 0.6) / (0.8 + 0.6)

        >>> found = handover([-1, -0.2, 0.6, 1], [0.4, 0.4, 0.1, 0.1], group_size=8, min_correct=0.2)
        >>> round(found.by_mean, 4), round(found.by_group, 4)
        (0.5714, 0.5485)
    """
    at_success_rate(levels, probabilities, min_correct=min_correct, success_rate=0.5)
    levels_K, p_K = finite_vector("levels", levels), finite_vector("probabilities", probabilities)
    right_K = levels_K >= min_correct
    mean_failed = float(levels_K[~right_K] @ p_K[~right_K] / p_K[~right_K].sum())
    mean_correct = float(levels_K[right_K] @ p_K[right_K] / p_K[right_K].sum())
    by_mean = min((min_correct - mean_failed) / (mean_correct - mean_failed), 1.0)

    def floored(rate: float) -> float:
        shares_K = at_success_rate(levels, probabilities, min_correct=min_correct, success_rate=rate)
        found = exact_flaw(levels, shares_K, group_size=group_size, min_correct=min_correct, estimator="corpo")
        return found.floored_group_share

    low, high = 0.0, 1.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if floored(middle) > 0.5 else (low, middle)
    return Handover(by_mean, (low + high) / 2)


def success_curve(
    levels: ArrayLike,
    probabilities: ArrayLike,
    *,
    group_size: int,
    min_correct: float,
    estimator: str,
    success_rates: ArrayLike,
) -> list[ExactFlaw]:
    """`exact_flaw` at each success rate, along the line of `at_success_rate`.

    Args:
        levels: Reward levels. Shape [K], in task units.
        probabilities: How often the policy reaches each; only their proportions count. Shape [K].
        group_size: Rollouts of a group.
        min_correct: Least reward that counts as correct.
        estimator: One of `ESTIMATORS`.
        success_rates: Each from 0 to 1. Shape [S].

    Returns:
        One for each rate.

    Raises:
        DataError, UsageError: As `at_success_rate` and `exact_flaw`.

    Source:
        Ours.

    Example:
        The fault is largest while most rollouts fail.

        >>> curve = success_curve([-1, -0.4, 0.5, 1], [0.8, 0.15, 0.03, 0.02], group_size=8, min_correct=0.0,
        ...                       estimator="dr_grpo", success_rates=[0.0, 0.5, 0.9])
        >>> [round(found.reinforced_failure_share, 3) for found in curve]
        [0.158, 0.029, 0.0]
    """
    rates_S = finite_vector("success_rates", success_rates)
    return [
        exact_flaw(
            levels,
            at_success_rate(levels, probabilities, min_correct=min_correct, success_rate=float(rate)),
            group_size=group_size,
            min_correct=min_correct,
            estimator=estimator,
        )
        for rate in rates_S
    ]
