"""The general estimator: baseline, floor, scale and gate, refusing combinations that void the floor's guarantee."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corpo_rl.core.advantages import STD_EPSILON, settled
from corpo_rl.core.groups import Groups, Unscorable, finite_number, finite_vector, index_groups, reward_vector, vector
from corpo_rl.core.rounding import ROUNDING, under
from corpo_rl.errors import DataError, EstimatorError, UsageError

Baseline = Literal["mean", "leave_one_out", "static", "quantile", "length_weighted", "given"]
Scale = Literal["none", "group_std", "batch_std", "fixed", "phase"]

BASELINES: tuple[Baseline, ...] = ("mean", "leave_one_out", "static", "quantile", "length_weighted", "given")
SCALES: tuple[Scale, ...] = ("none", "group_std", "batch_std", "fixed", "phase")


def compose_advantages(
    rewards: ArrayLike,
    group_ids: ArrayLike,
    *,
    baseline: Baseline,
    min_correct: float | None = None,
    scale: Scale = "none",
    recentre: bool = False,
    quantile: float | None = None,
    lengths: ArrayLike | None = None,
    given: ArrayLike | None = None,
    divisor: float | None = None,
    unscorable: Unscorable = "refuse",
) -> NDArray[np.float64]:
    """Advantages of a baseline, floor and scale put together by hand.

        A_i = (R_i - max(R_min_correct, b_i)) / scale, then less the mean of all A_j if `recentre`

    Every named estimator with a baseline is one such composition: `grpo` is the mean scaled by the group std, `corpo`
    the mean with a floor, and so on. A floor scores every failed rollout below zero; what would void that is refused.

    Args:
        rewards: Reward of each rollout, in task units. Shape [N], finite.
        group_ids: Prompt each rollout answers, integers or strings. Shape [N].
        baseline: "mean" of the group; "leave_one_out", the mean of the others in the group; "static", which is
            `min_correct` itself; "quantile" of the group, by linear interpolation; "length_weighted", the mean weighted
            by `lengths`; or "given", the baseline in `given`. A rollout alone in its group has the floor for a
            leave-one-out baseline, or without a floor none: it gets 0. So does a rollout whose given baseline is NaN.
        min_correct: The floor, in task units: no baseline is under it. None for no floor.
        scale: "none"; "group_std", over n - 1 and + 1e-4, which gives 0 where a group's rewards are equal;
            "batch_std", the same over all scorable rollouts of the call, without effect where their rewards are equal;
            "fixed", `divisor`; or "phase", the root mean square of the advantages over the groups that the floor binds,
            and over the others: one number for each of the two, so that neither phase drowns the other.
        recentre: Whether the mean advantage of the call is subtracted, as batch whitening does. Without a floor that
            mean is 0 already, and a floor refuses it: the setting is here to be asked for, and to say why not.
        quantile: Which quantile, from 0 to 1, of "quantile".
        lengths: Tokens of each completion, above 0, for "length_weighted". Shape [N].
        given: Baseline of each rollout, in task units, for "given"; NaN for none. Shape [N].
        divisor: Above 0, for "fixed".
        unscorable: Whether a reward of NaN is refused or its rollout excluded.

    Returns:
        Advantages, row i for rollout i. Shape [N], float64.

    Raises:
        EstimatorError: `min_correct` is given together with `scale="group_std"` or with `recentre`.
        UsageError: A name is unknown, or a baseline or scale came without what it needs.
        DataError: A shape is wrong, a reward, length or `min_correct` is not finite, or the group ids are neither
            integers nor strings.

    Source:
        The form and the refusals are ours; each preset names its own source.

    Example:
        >>> rewards, groups = [-1.0, 1.0, 2.0], ["a", "a", "b"]
        >>> compose_advantages(rewards, groups, baseline="mean", min_correct=0.5, scale="batch_std").round(2)
        array([-0.98,  0.33,  0.  ])
        >>> compose_advantages(rewards, groups, baseline="quantile", quantile=0.5)
        array([-1.,  1.,  0.])
    """
    _refuse_composition(baseline=baseline, min_correct=min_correct, scale=scale, recentre=recentre)
    rewards_N = reward_vector(rewards, unscorable=unscorable)
    floor = -np.inf if min_correct is None else finite_number("min_correct", min_correct)
    groups = index_groups(group_ids, n=len(rewards_N))

    if baseline == "mean":
        baseline_N = groups.per_rollout(groups.mean(rewards_N))
    elif baseline == "leave_one_out":
        baseline_N = groups.mean_of_others(rewards_N)
    elif baseline == "static":
        baseline_N = np.full(len(rewards_N), floor)
    elif baseline == "quantile":
        baseline_N = groups.per_rollout(_quantile_G(rewards_N, groups, _share("quantile", quantile)))
    elif baseline == "length_weighted":
        baseline_N = _length_weighted_N(rewards_N, groups, lengths)
    else:
        baseline_N = _given_N(given, n=len(rewards_N))
    # where there is no baseline: the floor, or without one the reward itself
    baseline_N = np.where(np.isnan(baseline_N), rewards_N if min_correct is None else floor, baseline_N)
    advantages_N = rewards_N - np.maximum(floor, baseline_N)

    if scale == "group_std":
        std_G = np.where(groups.all_equal(rewards_N), np.inf, groups.std(rewards_N) + STD_EPSILON)
        advantages_N = advantages_N / groups.per_rollout(std_G)
    else:
        advantages_N = scale_advantages(
            advantages_N, rewards_N, groups, scale=scale, min_correct=min_correct, divisor=divisor
        )
    if recentre and not np.isnan(rewards_N).all():
        advantages_N = advantages_N - np.nanmean(advantages_N)
    return settled(advantages_N, rewards_N)


def scale_advantages(
    advantages_N: NDArray[np.float64],
    rewards_N: NDArray[np.float64],
    groups: Groups,
    *,
    scale: str,
    min_correct: float | None,
    divisor: float | None = None,
) -> NDArray[np.float64]:
    """Advantages divided by something above 0, so that every sign stays as it was.

        batch_std: std of the call's rewards over n - 1, + 1e-4.  fixed: `divisor`.
        phase: sqrt(mean of A_j^2 over the rollouts of the same phase), the phases being the groups whose mean reward is
            under `min_correct` and the others. A phase in which every advantage is 0 is left as it is.

    Args:
        advantages_N: Advantages in task units. Shape [N]; NaN rewards are left out of every scale.
        rewards_N: Rewards in task units, NaN where unscorable. Shape [N].
        groups: Groups of the rollouts.
        scale: "none", "batch_std", "fixed" or "phase".
        min_correct: Least reward that counts as correct; needed by "phase".
        divisor: Needed by "fixed".

    Returns:
        Shape [N].

    Raises:
        UsageError: The scale came without what it needs.
    """
    if scale == "none":
        return advantages_N
    if scale == "batch_std":
        scaled: NDArray[np.float64] = advantages_N / _batch_std(rewards_N)
        return scaled
    if scale == "fixed":
        if divisor is None or not np.isfinite(divisor) or divisor <= 0:
            raise UsageError(f"divisor: the fixed scale needs a finite number above 0, got {divisor}")
        return advantages_N / divisor
    if min_correct is None:
        raise UsageError("min_correct: the phase scale needs the least reward that counts as correct, got none")
    seeking_N = groups.per_rollout(under(groups.mean(rewards_N), min_correct))
    scale_N = np.ones(len(rewards_N))
    for phase_N in (seeking_N, ~seeking_N):
        scored = advantages_N[phase_N & ~np.isnan(rewards_N)]
        size = float(np.sqrt(np.mean(scored**2))) if len(scored) else 0.0
        scale_N[phase_N] = size or 1.0
    return advantages_N / scale_N


def _refuse_composition(*, baseline: str, min_correct: float | None, scale: str, recentre: bool) -> None:
    for name, value, known in (("baseline", baseline, BASELINES), ("scale", scale, SCALES)):
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


def _share(name: str, value: float | None) -> float:
    if value is None or not 0 <= value <= 1:
        raise UsageError(f"{name}: expected a share from 0 to 1, got {value}")
    return float(value)


def _quantile_G(rewards_N: NDArray[np.float64], groups: Groups, share: float) -> NDArray[np.float64]:  # noqa: N802
    """Quantile of each group's scorable rewards, linear between neighbours as `numpy.quantile`. Shape [G]."""
    known_N = ~np.isnan(rewards_N)
    order = np.lexsort((rewards_N[known_N], groups.index_N[known_N]))
    sorted_M = rewards_N[known_N][order]
    count_G = np.bincount(groups.index_N[known_N], minlength=len(groups.size_G))
    start_G = np.cumsum(count_G) - count_G
    place_G = share * np.maximum(count_G - 1, 0)
    low_G = np.floor(place_G).astype(np.intp)
    high_G = np.ceil(place_G).astype(np.intp)
    quantile_G = np.full(len(count_G), np.nan)
    some_G = count_G > 0
    low, high = sorted_M[(start_G + low_G)[some_G]], sorted_M[(start_G + high_G)[some_G]]
    quantile_G[some_G] = low + (place_G - low_G)[some_G] * (high - low)
    return quantile_G


def _length_weighted_N(  # noqa: N802
    rewards_N: NDArray[np.float64], groups: Groups, lengths: ArrayLike | None
) -> NDArray[np.float64]:
    if lengths is None:
        raise UsageError("lengths: the length-weighted baseline needs the tokens of each completion, got none")
    lengths_N = finite_vector("lengths", lengths)
    if len(lengths_N) != len(rewards_N):
        raise DataError(f"lengths: expected shape [{len(rewards_N)}], as rewards, got [{len(lengths_N)}]")
    if (lengths_N <= 0).any():
        row = int(np.argmax(lengths_N <= 0))
        raise DataError(f"lengths: expected numbers above 0, row {row} is {lengths_N[row]}")
    weights_N = np.where(np.isnan(rewards_N), np.nan, lengths_N)
    # deviations from the plain mean are weighted, so that a group of equal rewards has exactly them for a baseline
    mean_G = groups.mean(rewards_N)
    shift_G = groups.mean(weights_N * (rewards_N - groups.per_rollout(mean_G))) / groups.mean(weights_N)
    return groups.per_rollout(mean_G + shift_G)


def _given_N(given: ArrayLike | None, *, n: int) -> NDArray[np.float64]:  # noqa: N802
    if given is None:
        raise UsageError("given: baseline='given' needs the baseline of each rollout, got none")
    given_N = vector("given", given)
    if given_N.shape != (n,) or np.isinf(given_N).any():
        raise DataError(f"given: expected {n} finite numbers or NaN, one for each reward, got {len(given_N)}")
    return given_N


def _batch_std(rewards_N: NDArray[np.float64]) -> float:
    scored = rewards_N[~np.isnan(rewards_N)]
    if scored.size == 0 or np.ptp(scored) <= ROUNDING * np.abs(scored).max():
        return 1.0  # nothing to scale by
    return float(scored.std(ddof=1)) + STD_EPSILON
