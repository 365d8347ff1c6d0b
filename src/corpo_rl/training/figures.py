"""The figures a training run logs about each generated batch, and how it reads rewards that TRL rounded to float32."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corpo_rl.core.advantages import STD_EPSILON, estimate_advantages
from corpo_rl.core.dynamics import floored_group_share, group_class_counts, r_count, reinforced_failure_share
from corpo_rl.core.groups import index_groups
from corpo_rl.core.methods import Method, method_advantages, parse_method
from corpo_rl.core.rounding import FLOAT32_ROUNDING, as_decimals

WITHOUT_BASELINE = ("w_reinforce", "nsr", "psr")
"""Methods whose advantages are constants, however small."""


def total_rewards(rewards_per_func: ArrayLike, weights: ArrayLike) -> NDArray[np.float64]:
    """Weighted sum over the reward functions as TRL takes it: None adds 0, a row of only None is NaN.

    Args:
        rewards_per_func: Rewards as TRL holds them, NaN for None. Shape [N, F].
        weights: Weight of each function. Shape [F].

    Returns:
        Total of each rollout, in task units. Shape [N].

    Example:
        >>> total_rewards([[0.5, np.nan], [np.nan, np.nan], [0.5, 1.0]], [1.0, 0.2])
        array([0.5, nan, 0.7])
    """
    rewards_NF = as_decimals(np.asarray(rewards_per_func, dtype=np.float64))
    weights_F = as_decimals(np.asarray(weights, dtype=np.float64))
    total_N = as_decimals(np.where(np.isnan(rewards_NF), 0.0, rewards_NF) @ weights_F)
    return np.where(np.isnan(rewards_NF).all(axis=1), np.nan, total_N)


def batch_advantages(
    method: Method | str,
    rewards_N: NDArray[np.float64],
    group_N: NDArray[np.intp],
    *,
    min_correct: float,
    length_N: NDArray[np.int64] | None = None,
    history_N: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Advantages of a batch whose rewards went through float32; 0 where a rollout is at its baseline up to that.

    A rollout at its group's mean must not get a sign from the rounding of rewards such as 1/12.

    Args:
        method: A name as `corpo_rl.core.methods` reads it, or parsed.
        rewards_N: Total reward of each rollout, in task units; NaN where unscorable, which gets 0. Shape [N].
        group_N: Group of each rollout, 0 to G-1. Shape [N].
        min_correct: Least reward that counts as correct, in task units.
        length_N: Tokens of each completion, for the methods that need them. Shape [N].
        history_N: Moving average of each prompt's rewards, NaN for none, for those that need it. Shape [N].

    Returns:
        Advantage of each rollout. Shape [N], finite.
    """
    method = parse_method(method) if isinstance(method, str) else method
    advantages_N = method_advantages(
        method,
        rewards_N,
        group_N,
        min_correct=min_correct,
        lengths=length_N,
        history=history_N,
        unscorable="exclude",
    )
    if method.base in WITHOUT_BASELINE:  # nothing is subtracted, so nothing can be a rest of rounding
        return advantages_N
    return np.where(np.abs(advantages_N) <= _rounding(rewards_N, group_N), 0.0, advantages_N)


def logged_advantages(
    advantages_N: NDArray[np.float64], rewards_N: NDArray[np.float64], group_N: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Advantages as TRL logged them, 0 where a rollout is at its group's mean and they hold nothing but rounding.

    TRL centres in float32 and may then divide by a standard deviation + 1e-4, of the group or the batch: what is left
    of a rollout at the mean is rounding divided by that, and 1e-4 large in a group of equal rewards.

    Args:
        advantages_N: Logged advantages. Shape [N], finite.
        rewards_N: Total reward of each rollout, in task units; NaN where unscorable. Shape [N].
        group_N: Group of each rollout, 0 to G-1. Shape [N].

    Returns:
        Shape [N].
    """
    groups = index_groups(group_N, n=len(rewards_N))
    std_G = np.nan_to_num(groups.std(rewards_N))
    known_N = rewards_N[np.isfinite(rewards_N)]
    batch_std = float(known_N.std(ddof=1)) if len(known_N) > 1 else 0.0
    rounding_N = _rounding(rewards_N, group_N)
    tolerance_N = rounding_N / np.minimum(1.0, np.minimum(std_G, batch_std) + STD_EPSILON)[groups.index_N]

    centred_N = estimate_advantages("dr_grpo", rewards_N, group_N, unscorable="exclude")
    nothing_N = (np.abs(centred_N) <= rounding_N) & (np.abs(advantages_N) <= tolerance_N)
    return np.where(nothing_N, 0.0, advantages_N)


def batch_figures(
    rewards_N: NDArray[np.float64],
    group_N: NDArray[np.intp],
    advantages_N: NDArray[np.float64],
    *,
    min_correct: float,
    grpo_N: NDArray[np.float64] | None = None,
) -> dict[str, float]:
    """What the advantages of one generated batch did, by the names under which it is logged.

    Args:
        rewards_N: Total reward of each rollout, in task units; NaN where unscorable. Shape [N].
        group_N: Group of each rollout, 0 to G-1, every group with a rollout. Shape [N].
        advantages_N: Advantages trained on, finite. Shape [N].
        min_correct: Least reward that counts as correct, in task units.
        grpo_N: GRPO's advantages, where they are known already. Shape [N].

    Returns:
        Figures as `CorpoTrainer` describes them, NaN where undefined.
    """
    if grpo_N is None:
        grpo_N = batch_advantages("grpo", rewards_N, group_N, min_correct=min_correct)
    scorable_N = np.isfinite(rewards_N)
    counts = group_class_counts(rewards_N, group_N, min_correct=min_correct)
    n_groups = sum(counts.values())
    return {
        "reinforced_failure_share": reinforced_failure_share(rewards_N, advantages_N, min_correct=min_correct),
        "reinforced_failure_share_grpo": reinforced_failure_share(rewards_N, grpo_N, min_correct=min_correct),
        "r_count": r_count(advantages_N),
        "floored_group_share": floored_group_share(rewards_N, group_N, min_correct=min_correct),
        "correct_share": _mean(rewards_N[scorable_N] >= min_correct),
        "exceeding_share": _mean(rewards_N[scorable_N] > min_correct),
        "unscorable": float((~scorable_N).sum()),
        "advantage_mean": float(advantages_N.mean()),
        "advantage_abs_mean": float(np.abs(advantages_N).mean()),
        **{f"groups/{name}": count / n_groups for name, count in counts.items()},
    }


def _rounding(rewards_N: NDArray[np.float64], group_N: NDArray[np.intp]) -> NDArray[np.float64]:
    """Differences of rewards that are rounding to float32, for each rollout's group. Shape [N]."""
    largest_G = np.zeros(int(group_N.max(initial=-1)) + 1)
    np.maximum.at(largest_G, group_N, np.abs(np.nan_to_num(rewards_N)))
    return FLOAT32_ROUNDING * largest_G[group_N]


def _mean(flags_N: NDArray[np.bool_]) -> float:
    return float(flags_N.mean()) if len(flags_N) else float("nan")
