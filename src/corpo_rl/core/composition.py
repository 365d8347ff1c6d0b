"""The general estimator: a baseline, a floor and a scale, refusing combinations that void the floor's guarantee."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corpo_rl.core.advantages import STD_EPSILON, settled
from corpo_rl.core.groups import Unscorable, finite_number, index_groups, reward_vector
from corpo_rl.core.rounding import ROUNDING
from corpo_rl.errors import EstimatorError, UsageError

Baseline = Literal["mean", "leave_one_out", "static"]
Scale = Literal["none", "group_std", "batch_std"]


def compose_advantages(
    rewards: ArrayLike,
    group_ids: ArrayLike,
    *,
    baseline: Baseline,
    min_correct: float | None = None,
    scale: Scale = "none",
    recentre: bool = False,
    unscorable: Unscorable = "refuse",
) -> NDArray[np.float64]:
    """Advantages of a baseline, floor and scale put together by hand.

        A_i = (R_i - max(R_min_correct, b_i)) / scale, then less the mean of all A_j if `recentre`

    Every named estimator is one such composition: `grpo` is the mean scaled by the group std, `corpo` the mean with a
    floor, and so on. A floor scores every failed rollout below zero; what would void that is refused.

    Args:
        rewards: Reward of each rollout, in task units. Shape [N], finite.
        group_ids: Prompt each rollout answers, integers or strings. Shape [N].
        baseline: "mean" of the group; "leave_one_out", the mean of the others in the group; or "static", which is
            `min_correct` itself. A rollout alone in its group has the floor for a leave-one-out baseline, or without a
            floor none: it gets 0.
        min_correct: The floor, in task units: no baseline is under it. None for no floor.
        scale: "none"; "group_std", over n - 1 and + 1e-4, which gives 0 where a group's rewards are equal; or
            "batch_std", the same over all scorable rollouts of the call, without effect where their rewards are equal.
        recentre: Whether the mean advantage of the call is subtracted, as batch whitening does. Without a floor that
            mean is 0 already, and a floor refuses it: the setting is here to be asked for, and to say why not.
        unscorable: Whether a reward of NaN is refused or its rollout excluded.

    Returns:
        Advantages, row i for rollout i. Shape [N], float64.

    Raises:
        EstimatorError: `min_correct` is given together with `scale="group_std"` or with `recentre`.
        UsageError: A name is unknown, or `baseline="static"` came without `min_correct`.
        DataError: A shape is wrong, a reward or `min_correct` is not finite, or the group ids are neither integers nor
            strings.

    Example:
        A floor whose advantages keep their sign and lose their unit:

        >>> rewards, groups = [-1.0, 1.0, 1.0], [0, 0, 0]
        >>> compose_advantages(rewards, groups, baseline="mean", min_correct=0.5, scale="batch_std").round(2)
        array([-1.3 ,  0.43,  0.43])
    """
    _refuse_composition(baseline=baseline, min_correct=min_correct, scale=scale, recentre=recentre)
    rewards_N = reward_vector(rewards, unscorable=unscorable)
    floor = -np.inf if min_correct is None else finite_number("min_correct", min_correct)
    groups = index_groups(group_ids, n=len(rewards_N))

    if baseline == "mean":
        baseline_N = groups.per_rollout(groups.mean(rewards_N))
    elif baseline == "leave_one_out":
        others_N = groups.mean_of_others(rewards_N)
        baseline_N = np.where(np.isnan(others_N), rewards_N if min_correct is None else floor, others_N)
    else:
        baseline_N = np.full(len(rewards_N), floor)
    advantages_N = rewards_N - np.maximum(floor, baseline_N)

    if scale == "group_std":
        std_G = np.where(groups.all_equal(rewards_N), np.inf, groups.std(rewards_N) + STD_EPSILON)
        advantages_N = advantages_N / groups.per_rollout(std_G)
    elif scale == "batch_std":
        advantages_N = advantages_N / _batch_std(rewards_N)
    if recentre and not np.isnan(rewards_N).all():
        advantages_N = advantages_N - np.nanmean(advantages_N)
    return settled(advantages_N, rewards_N)


def _refuse_composition(*, baseline: str, min_correct: float | None, scale: str, recentre: bool) -> None:
    for name, value, known in (
        ("baseline", baseline, ("mean", "leave_one_out", "static")),
        ("scale", scale, ("none", "group_std", "batch_std")),
    ):
        if value not in known:
            raise UsageError(f"{name}: expected one of {', '.join(known)}, got {value!r}")
    if min_correct is None:
        if baseline == "static":
            raise UsageError("min_correct: the static baseline is min_correct itself, got none")
        return
    if scale == "group_std":
        raise EstimatorError(
            "scale: group_std cannot follow a floor (min_correct): where all of a group fail alike the std is 0, and "
            "an advantage of -1 becomes -1 / 1e-4 = -10,000; use scale='none' or 'batch_std'"
        )
    if recentre:
        raise EstimatorError(
            "recentre: subtracting a mean after a floor (min_correct) voids it: the group (-1, -.8, -.9, -.7) under a "
            "floor of 0 gets (-.15, .05, -.05, .15), two failed rollouts pushed up; use recentre=False"
        )


def _batch_std(rewards_N: NDArray[np.float64]) -> float:
    scored = rewards_N[~np.isnan(rewards_N)]
    if scored.size == 0 or np.ptp(scored) <= ROUNDING * np.abs(scored).max():
        return 1.0  # nothing to scale by
    return float(scored.std(ddof=1)) + STD_EPSILON
