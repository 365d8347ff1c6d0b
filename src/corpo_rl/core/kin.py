"""Kin of CoRPO: other published cures for a baseline that is itself a failure, one equation each.

The shared rules are those of `core/advantages.py`. `core/methods.py` names them, and puts a floor, a gate or a scale on
them. Where a source was only read about, the docstring says so.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corpo_rl.core.advantages import STD_EPSILON, settled
from corpo_rl.core.composition import compose_advantages
from corpo_rl.core.groups import Unscorable, finite_number, finite_vector, index_groups, reward_vector, vector
from corpo_rl.core.rounding import ROUNDING
from corpo_rl.errors import DataError, UsageError


def qae_advantages(
    rewards: ArrayLike, group_ids: ArrayLike, *, quantile: float, unscorable: Unscorable = "refuse"
) -> NDArray[np.float64]:
    """Advantage of each rollout over a quantile of its group's rewards.

        A_i = R_i - Q_K of R_j over the j in g(i), K = quantile, linear between neighbours

    With two rewards, and up to the interpolation: where at most 1 - K of the group succeed, successes get A > 0 and
    failures 0; where more do, failures get A < 0 and successes 0. With graded rewards a failed rollout may well be over
    the quantile of failed peers, and gets A > 0. A group of one gets 0.

    Args:
        rewards: Reward of each rollout, in task units. Shape [N], finite.
        group_ids: Prompt each rollout answers, integers or strings. Shape [N].
        quantile: K, from 0 to 1.
        unscorable: Whether a reward of NaN is refused or its rollout excluded.

    Returns:
        Advantages in task units, row i for rollout i. Shape [N], float64.

    Raises:
        UsageError: The quantile is not within 0 and 1.
        DataError: A shape is wrong, a reward is not finite, or the group ids are neither integers nor strings.

    Source:
        Wu et al., https://arxiv.org/abs/2509.22611, of which the abstract was read. Whether they divide by a standard
        deviation is not known to us: this does not.

    Example:
        >>> qae_advantages([0.0, 0.0, 1.0, -1.0, 0.0], [1, 1, 1, 2, 2], quantile=0.5)
        array([ 0. ,  0. ,  1. , -0.5,  0.5])
    """
    return compose_advantages(rewards, group_ids, baseline="quantile", quantile=quantile, unscorable=unscorable)


def opo_advantages(
    rewards: ArrayLike, group_ids: ArrayLike, *, lengths: ArrayLike, unscorable: Unscorable = "refuse"
) -> NDArray[np.float64]:
    """Advantage of each rollout over the length-weighted mean of its group.

        A_i = R_i - (sum of l_j R_j) / (sum of l_j) over the j in g(i), l_j tokens of completion j

    The baseline that minimises the gradient's variance where the squared gradient norm grows with the length. A failed
    rollout gets A > 0 whenever that mean is lower still. A group of one gets 0.

    Args:
        rewards: Reward of each rollout, in task units. Shape [N], finite.
        group_ids: Prompt each rollout answers, integers or strings. Shape [N].
        lengths: Tokens of each completion, above 0. Shape [N].
        unscorable: Whether a reward of NaN is refused or its rollout excluded.

    Returns:
        Advantages in task units, row i for rollout i. Shape [N], float64.

    Raises:
        DataError: A shape is wrong, a reward or length is not finite, a length is not above 0, or the group ids are
            neither integers nor strings.

    Source:
        Hao et al., https://arxiv.org/abs/2505.23585; verl's "opo" estimator.

    Example:
        >>> opo_advantages([0.0, 1.0], ["a", "a"], lengths=[30, 10])
        array([-0.25,  0.75])
    """
    return compose_advantages(rewards, group_ids, baseline="length_weighted", lengths=lengths, unscorable=unscorable)


def ema_advantages(
    rewards: ArrayLike, group_ids: ArrayLike, *, previous: ArrayLike, unscorable: Unscorable = "refuse"
) -> NDArray[np.float64]:
    """Advantage of each rollout over a moving average of its prompt's earlier rewards.

        A_i = R_i - B(g(i))          B before this call; afterwards see `ema_update`

    At a prompt's first visit there is no B: the mean of the other rollouts stands in, as in RLOO. Either way the
    baseline does not depend on the rollout itself, so the expected on-policy update is the true policy gradient. A
    failed rollout gets A > 0 whenever its prompt did worse before. A group of one at its first visit gets 0.

    Args:
        rewards: Reward of each rollout, in task units. Shape [N], finite.
        group_ids: Prompt each rollout answers, integers or strings. Shape [N].
        previous: B of each rollout's prompt, in task units; NaN for a first visit. Shape [N].
        unscorable: Whether a reward of NaN is refused or its rollout excluded.

    Returns:
        Advantages in task units, row i for rollout i. Shape [N], float64.

    Raises:
        DataError: A shape is wrong, a reward is not finite, or the group ids are neither integers nor strings.

    Source:
        Williams' reinforcement comparison, from memory; kept for each prompt as https://arxiv.org/abs/2509.13232 does,
        whose own tracker is another.

    Example:
        >>> ema_advantages([0.0, 1.0, 0.5, 1.0], [1, 1, 2, 2], previous=[0.2, 0.2, float("nan"), float("nan")])
        array([-0.2,  0.8, -0.5,  0.5])
    """
    return compose_advantages(
        rewards,
        group_ids,
        baseline="given",
        given=history_baseline(rewards, group_ids, previous=previous, unscorable=unscorable),
        unscorable=unscorable,
    )


def history_baseline(
    rewards: ArrayLike, group_ids: ArrayLike, *, previous: ArrayLike, unscorable: Unscorable = "refuse"
) -> NDArray[np.float64]:
    """`previous`, and where it is NaN the mean of the other rollouts of the group; NaN where there are none.

    Shapes [N] throughout; raises as `ema_advantages`.
    """
    rewards_N = reward_vector(rewards, unscorable=unscorable)
    groups = index_groups(group_ids, n=len(rewards_N))
    previous_N = vector("previous", previous)
    if previous_N.shape != rewards_N.shape or np.isinf(previous_N).any():
        raise DataError(f"previous: expected {len(rewards_N)} finite numbers or NaN, one for each reward")
    return np.where(np.isnan(previous_N), groups.mean_of_others(rewards_N), previous_N)


def ema_update(previous: float, mean: float, *, decay: float) -> float:
    """The moving average after a visit: decay x previous + (1 - decay) x mean; the mean itself at the first visit.

    Args:
        previous: B before, in task units; NaN for a first visit.
        mean: Mean scorable reward of the prompt's group; NaN, where nothing could be scored, changes nothing.
        decay: Share of the old that stays, from 0 to 1.

    Raises:
        UsageError: The decay is not within 0 and 1.

    Example:
        >>> ema_update(0.2, 1.0, decay=0.75), ema_update(float("nan"), 1.0, decay=0.75)
        (0.4, 1.0)
    """
    if not 0 <= decay <= 1:
        raise UsageError(f"decay: expected a share from 0 to 1, got {decay}")
    if np.isnan(mean):
        return previous
    return mean if np.isnan(previous) else decay * previous + (1 - decay) * mean


def ngrpo_advantages(
    rewards: ArrayLike, group_ids: ArrayLike, *, max_reward: float, unscorable: Unscorable = "refuse"
) -> NDArray[np.float64]:
    """GRPO's advantage with one virtual rollout of the best reward in every group.

        A_i = (R_i - m) / (s + 1e-4), m and s over the R_j of g(i) and one R_max, s over their number - 1

    A group that fails alike gets A < 0 instead of 0. A failed rollout can still be over m and get A > 0. A group in
    which all reach R_max gets 0. The method's asymmetric clipping of the ratio belongs to the loss and is not here.

    Args:
        rewards: Reward of each rollout, in task units, none over `max_reward`. Shape [N], finite.
        group_ids: Prompt each rollout answers, integers or strings. Shape [N].
        max_reward: The best reward there is, in task units.
        unscorable: Whether a reward of NaN is refused or its rollout excluded.

    Returns:
        Advantages without a unit, row i for rollout i. Shape [N], float64.

    Raises:
        DataError: A shape is wrong, a reward is not finite or over `max_reward`, or the group ids are neither integers
            nor strings.

    Source:
        Nan et al., https://arxiv.org/abs/2509.18851; over n - 1 and + 1e-4 as `grpo_advantages`.

    Example:
        >>> ngrpo_advantages([-1.0, -1.0, 1.0], [1, 1, 2], max_reward=1.0).round(3)
        array([-0.577, -0.577,  0.   ])
    """
    rewards_N = reward_vector(rewards, unscorable=unscorable)
    best = finite_number("max_reward", max_reward)
    groups = index_groups(group_ids, n=len(rewards_N))
    with np.errstate(invalid="ignore"):
        over_N = rewards_N > best
    if over_N.any():
        row = int(np.argmax(over_N))
        raise DataError(f"rewards: expected none over max_reward = {best:g}, row {row} is {rewards_N[row]:g}")

    # the virtual rollout is a row of its own at the end of each group
    n_groups = len(groups.size_G)
    with_best = np.concatenate([rewards_N, np.full(n_groups, best)])
    extended = index_groups(np.concatenate([groups.index_N, np.arange(n_groups)]), n=len(with_best))
    mean_G, std_G = extended.mean(with_best), extended.std(with_best)
    divisor_G = np.where(extended.all_equal(with_best) | np.isnan(std_G), np.inf, std_G + STD_EPSILON)
    advantages = (with_best - extended.per_rollout(mean_G)) / extended.per_rollout(divisor_G)
    return settled(advantages[: len(rewards_N)], rewards_N)


def odrpo_advantages(
    rewards: ArrayLike, group_ids: ArrayLike, *, levels: ArrayLike | None = None, unscorable: Unscorable = "refuse"
) -> NDArray[np.float64]:
    """Sum over the reward levels of GRPO's advantage for reaching the level.

        A_i = sum over k of (1[R_i >= c_k] - p_k) / (s_k + 1e-4)

    p_k and s_k (over n - 1) are the mean and std of 1[R_j >= c_k] over the j in g(i); a level that all or none of a
    group reach adds nothing. The low levels can lift a failed rollout: no sign guarantee. A group of one gets 0.

    Args:
        rewards: Reward of each rollout, in task units. Shape [N], finite.
        group_ids: Prompt each rollout answers, integers or strings. Shape [N].
        levels: c_k, in task units, each reached by rewards of at least it. Shape [K], finite. Left out: the distinct
            rewards of the call.
        unscorable: Whether a reward of NaN is refused or its rollout excluded.

    Returns:
        Advantages without a unit, row i for rollout i. Shape [N], float64.

    Raises:
        DataError: A shape is wrong, a reward or level is not finite, or the group ids are neither integers nor strings.

    Source:
        Patel et al., https://arxiv.org/abs/2605.12667, of which the abstract was read: the equal weights of the levels
        and GRPO's form for each are ours.

    Example:
        >>> odrpo_advantages([0.0, 0.0, 0.5, 1.0], [1, 1, 1, 1]).round(2)
        array([-1.37, -1.37,  0.37,  2.37])
    """
    rewards_N = reward_vector(rewards, unscorable=unscorable)
    groups = index_groups(group_ids, n=len(rewards_N))
    known_N = ~np.isnan(rewards_N)
    levels_K = np.unique(rewards_N[known_N] if levels is None else finite_vector("levels", levels))

    advantages_N = np.zeros(len(rewards_N))
    for level in levels_K:
        reached_N = np.where(known_N, (rewards_N >= level).astype(np.float64), np.nan)
        std_G = np.where(groups.all_equal(reached_N), np.inf, groups.std(reached_N) + STD_EPSILON)
        advantages_N += (reached_N - groups.per_rollout(groups.mean(reached_N))) / groups.per_rollout(std_G)
    return settled(advantages_N, rewards_N)


def max_gap_advantages(
    rewards: ArrayLike, group_ids: ArrayLike, *, unscorable: Unscorable = "refuse"
) -> NDArray[np.float64]:
    """The best rollout of each group gets its lead over the second best, the others nothing.

        A_i = R_i - second largest R_j, if R_i is the largest of g(i) and alone so, else 0

    An unbiased gradient of the expected best of the group. The best of a group that fails is reinforced: gate it to
    keep failures from that. A group of one has no second best and gets 0.

    Args:
        rewards: Reward of each rollout, in task units. Shape [N], finite.
        group_ids: Prompt each rollout answers, integers or strings. Shape [N].
        unscorable: Whether a reward of NaN is refused or its rollout excluded.

    Returns:
        Advantages in task units, row i for rollout i. Shape [N], float64, none under 0.

    Raises:
        DataError: A shape is wrong, a reward is not finite, or the group ids are neither integers nor strings.

    Source:
        Tang et al., https://arxiv.org/abs/2503.19595; verl's "grpo_passk" estimator without the division by a std.

    Example:
        >>> max_gap_advantages([-1.0, -0.4, -0.6, 1.0, 1.0], [1, 1, 1, 2, 2]).round(3)
        array([0. , 0.2, 0. , 0. , 0. ])
    """
    rewards_N = reward_vector(rewards, unscorable=unscorable)
    groups = index_groups(group_ids, n=len(rewards_N))
    lowest_N = np.where(np.isnan(rewards_N), -np.inf, rewards_N)
    order = np.lexsort((lowest_N, groups.index_N))
    last_G = np.cumsum(groups.size_G) - 1
    advantages_N = np.zeros(len(rewards_N))
    paired_G = groups.count(rewards_N) > 1
    first, second = order[last_G[paired_G]], order[last_G[paired_G] - 1]
    gap = rewards_N[first] - rewards_N[second]
    equal = gap <= ROUNDING * np.maximum(np.abs(rewards_N[first]), np.abs(rewards_N[second]))
    advantages_N[first] = np.where(equal, 0.0, gap)
    return settled(advantages_N, rewards_N)


def reweighted_advantages(
    rewards: ArrayLike,
    group_ids: ArrayLike,
    *,
    min_correct: float,
    correct_weight: float,
    failed_weight: float,
    unscorable: Unscorable = "refuse",
) -> NDArray[np.float64]:
    """One advantage for every correct rollout and one for every failed one.

        A_i = correct_weight if R_i >= R_min_correct else -failed_weight

    Negative-biased re-weighting takes `correct_weight` under `failed_weight`: W-REINFORCE 0.1 and 1. PSR, positive
    samples only, is 1 and 0; NSR, negative samples only, 0 and 1. Grades play no part beyond the threshold, peers none.

    Args:
        rewards: Reward of each rollout, in task units. Shape [N], finite.
        group_ids: Prompt each rollout answers, integers or strings: checked, else unused. Shape [N].
        min_correct: Least reward that counts as correct, in task units.
        correct_weight: At least 0.
        failed_weight: At least 0.
        unscorable: Whether a reward of NaN is refused or its rollout excluded.

    Returns:
        Advantages without a unit, row i for rollout i. Shape [N], float64.

    Raises:
        UsageError: A weight is not finite or under 0.
        DataError: A shape is wrong, a reward or `min_correct` is not finite, or the group ids are neither integers nor
            strings.

    Source:
        Zhu et al., https://arxiv.org/abs/2506.01347, for rewards of two values; the threshold is ours.

    Example:
        >>> rewards, groups = [-1.0, 0.2, 1.0], ["a", "a", "b"]
        >>> reweighted_advantages(rewards, groups, min_correct=0.2, correct_weight=0.1, failed_weight=1.0)
        array([-1. ,  0.1,  0.1])
    """
    rewards_N = reward_vector(rewards, unscorable=unscorable)
    threshold = finite_number("min_correct", min_correct)
    index_groups(group_ids, n=len(rewards_N))
    for name, weight in (("correct_weight", correct_weight), ("failed_weight", failed_weight)):
        if not np.isfinite(weight) or weight < 0:
            raise UsageError(f"{name}: expected a finite number of at least 0, got {weight}")
    return settled(np.where(rewards_N >= threshold, correct_weight, -float(failed_weight)), rewards_N)


def gated(
    advantages_N: NDArray[np.float64], rewards_N: NDArray[np.float64], *, min_correct: float
) -> NDArray[np.float64]:
    """Advantages in which no failed rollout is above 0.

        A_i = min(A_i, 0) if R_i < R_min_correct else A_i

    Gives any estimator CoRPO's guarantee, at most 0 where a floor gives less than 0. It is no baseline: it takes signal
    away and the expected update is no longer the one of the estimator.

    Args:
        advantages_N: Shape [N].
        rewards_N: In task units, NaN where unscorable. Shape [N].
        min_correct: Least reward that counts as correct, in task units.

    Returns:
        Shape [N].

    Source:
        Ours.

    Example:
        >>> gated(np.array([0.3, 0.3, -0.6]), np.array([-0.4, 0.6, -1.0]), min_correct=0.2)
        array([ 0. ,  0.3, -0.6])
    """
    with np.errstate(invalid="ignore"):
        return np.where(rewards_N < min_correct, np.minimum(advantages_N, 0.0), advantages_N)
