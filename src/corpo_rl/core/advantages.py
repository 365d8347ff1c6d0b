"""Advantage estimators: rewards and groups in, one advantage for each rollout out.

Each function is its equation; `core/composition.py` has the general form. All of them share these rules:

- A group may have any size, and its rows may come in any order, but all its rows must be in the one call.
- A reward of NaN is a rollout nobody could score. By default it is refused; with `unscorable="exclude"` the rollout is
  left out of every baseline and scale and its advantage is 0.0, so that it does not move the policy.
- A group of one is defined by each estimator; see its docstring.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corpo_rl.core.groups import Unscorable, finite_number, index_groups, reward_vector
from corpo_rl.errors import UsageError

ESTIMATORS: tuple[str, ...] = ("grpo", "dr_grpo", "rloo", "static", "corpo", "loo_corpo")
"""Names `estimate_advantages` knows."""

FLOORED_ESTIMATORS: tuple[str, ...] = ("corpo", "loo_corpo")
"""Estimators whose baseline never falls under `min_correct`."""

THRESHOLD_ESTIMATORS: tuple[str, ...] = ("static", *FLOORED_ESTIMATORS)
"""Estimators that need `min_correct`; each of them scores every failed rollout below zero."""

STD_EPSILON = 1e-4
"""Added to a standard deviation before dividing by it, as TRL does."""


def grpo_advantages(
    rewards: ArrayLike, group_ids: ArrayLike, *, unscorable: Unscorable = "refuse"
) -> NDArray[np.float64]:
    """Advantage of each rollout in standard deviations from the mean of its group.

        A_i = (R_i - mean of R_j over the j in g(i)) / (std of the same R_j, over n - 1, + 1e-4)

    This is TRL's default. Dividing by the std makes a failed rollout's advantage depend on how equal its peers are, and
    even the sign of the expected update can differ from the true policy gradient's.

    A group whose rewards are equal up to rounding (max - min <= 1e-9 of the largest) gets exactly 0, and so does a
    group of one, which has no standard deviation.

    Args:
        rewards: Reward of each rollout, in task units. Shape [N], finite.
        group_ids: Prompt each rollout answers, integers or strings. Shape [N].
        unscorable: Whether a reward of NaN is refused or its rollout excluded.

    Returns:
        Advantages without a unit, row i for rollout i. Shape [N], float64.

    Raises:
        DataError: A shape is wrong, a reward is not finite, or the group ids are neither integers nor strings.

    Source:
        Shao et al., https://arxiv.org/abs/2402.03300; epsilon and n - 1 as in TRL's GRPOTrainer.

    Example:
        >>> grpo_advantages([0.0, 1.0, 0.3, 0.3], [7, 7, 8, 8]).round(3)
        array([-0.707,  0.707,  0.   ,  0.   ])
    """
    rewards_N = reward_vector(rewards, unscorable=unscorable)
    groups = index_groups(group_ids, n=len(rewards_N))

    mean_G, std_G, equal_G = groups.mean(rewards_N), groups.std(rewards_N), groups.all_equal(rewards_N)
    divisor_G = np.where(equal_G, np.inf, std_G + STD_EPSILON)
    return settled((rewards_N - groups.per_rollout(mean_G)) / groups.per_rollout(divisor_G), rewards_N)


def dr_grpo_advantages(
    rewards: ArrayLike, group_ids: ArrayLike, *, unscorable: Unscorable = "refuse"
) -> NDArray[np.float64]:
    """Advantage of each rollout over the mean of its group, not divided by anything.

        A_i = R_i - mean of R_j over the j in g(i)

    On-policy its expected update is 1 - 1/n of the true policy gradient, n being the size of the group: the same
    direction. A failed rollout gets A > 0 whenever its peers did worse. A group of one gets 0.

    Args:
        rewards: Reward of each rollout, in task units. Shape [N], finite.
        group_ids: Prompt each rollout answers, integers or strings. Shape [N].
        unscorable: Whether a reward of NaN is refused or its rollout excluded.

    Returns:
        Advantages in task units, row i for rollout i. Shape [N], float64.

    Raises:
        DataError: A shape is wrong, a reward is not finite, or the group ids are neither integers nor strings.

    Source:
        Liu et al., https://arxiv.org/abs/2503.20783.

    Example:
        >>> dr_grpo_advantages([-1.0, -0.5, 1.0], ["a", "a", "b"])
        array([-0.25,  0.25,  0.  ])
    """
    rewards_N = reward_vector(rewards, unscorable=unscorable)
    groups = index_groups(group_ids, n=len(rewards_N))

    return settled(rewards_N - groups.per_rollout(groups.mean(rewards_N)), rewards_N)


def rloo_advantages(
    rewards: ArrayLike, group_ids: ArrayLike, *, unscorable: Unscorable = "refuse"
) -> NDArray[np.float64]:
    """Advantage of each rollout over the mean of the other rollouts of its group.

        A_i = R_i - mean of R_j over the j in g(i) other than i

    On-policy its expected update is the true policy gradient. A rollout alone in its group has no baseline and gets 0.

    Args:
        rewards: Reward of each rollout, in task units. Shape [N], finite.
        group_ids: Prompt each rollout answers, integers or strings. Shape [N].
        unscorable: Whether a reward of NaN is refused or its rollout excluded.

    Returns:
        Advantages in task units, row i for rollout i. Shape [N], float64.

    Raises:
        DataError: A shape is wrong, a reward is not finite, or the group ids are neither integers nor strings.

    Source:
        Ahmadian et al., https://arxiv.org/abs/2402.14740.

    Example:
        >>> rloo_advantages([0.0, 0.5, 1.0, 0.5], ["a", "a", "a", "b"])
        array([-0.75,  0.  ,  0.75,  0.  ])
    """
    rewards_N = reward_vector(rewards, unscorable=unscorable)
    groups = index_groups(group_ids, n=len(rewards_N))

    baseline_N = groups.mean_of_others(rewards_N)
    return settled(np.where(np.isnan(baseline_N), 0.0, rewards_N - baseline_N), rewards_N)


def static_advantages(
    rewards: ArrayLike, group_ids: ArrayLike, *, min_correct: float, unscorable: Unscorable = "refuse"
) -> NDArray[np.float64]:
    """Advantage of each rollout over the least reward that counts as correct.

        A_i = R_i - R_min_correct

    A failed rollout (R_i < R_min_correct) therefore scores below zero. On-policy the expected update is the true policy
    gradient. Peers play no part: the group ids are checked and otherwise unused, and a group of one is nothing special.

    Args:
        rewards: Reward of each rollout, in task units. Shape [N], finite.
        group_ids: Prompt each rollout answers, integers or strings. Shape [N].
        min_correct: Least reward that counts as correct, in task units.
        unscorable: Whether a reward of NaN is refused or its rollout excluded.

    Returns:
        Advantages in task units, row i for rollout i. Shape [N], float64.

    Raises:
        DataError: A shape is wrong, a reward or `min_correct` is not finite, or the group ids are neither integers nor
            strings.

    Source:
        Garg and Venkatesh, https://arxiv.org/abs/2511.04439v1, b_static.

    Example:
        >>> static_advantages([0.25, 0.75, 1.0], ["a", "a", "b"], min_correct=0.75)
        array([-0.5 ,  0.  ,  0.25])
    """
    rewards_N = reward_vector(rewards, unscorable=unscorable)
    threshold = finite_number("min_correct", min_correct)
    index_groups(group_ids, n=len(rewards_N))

    return settled(rewards_N - threshold, rewards_N)


def corpo_advantages(
    rewards: ArrayLike, group_ids: ArrayLike, *, min_correct: float, unscorable: Unscorable = "refuse"
) -> NDArray[np.float64]:
    """Advantage of each rollout over the CoRPO baseline of its group.

    For rollout i, sampled for the prompt of group g(i):

        A_i = R_i - max(R_min_correct, mean of R_j over the j in g(i))

    A failed rollout (R_i < R_min_correct) therefore always scores below zero, however poor its peers. Once the group
    mean passes the floor this is the plain group-mean baseline, and a merely passing rollout scores below zero too.
    Nothing is scaled or clipped. A group of one gets R - max(R_min_correct, R), which is 0 if correct.

    The guarantee is about advantages. A failed answer may still become likelier in an update, when probability moves
    away from a worse one.

    Args:
        rewards: Reward of each rollout, in task units. Shape [N], finite.
        group_ids: Prompt each rollout answers, integers or strings. Shape [N].
        min_correct: Least reward that counts as correct, in task units.
        unscorable: Whether a reward of NaN is refused or its rollout excluded.

    Returns:
        Advantages in task units, row i for rollout i. Shape [N], float64.

    Raises:
        DataError: A shape is wrong, a reward or `min_correct` is not finite, or the group ids are neither integers nor
            strings.

    Source:
        Garg and Venkatesh, https://arxiv.org/abs/2511.04439v1, b_corpo.

    Example:
        >>> corpo_advantages([0.25, 0.75, 1.0], ["a", "a", "b"], min_correct=0.75)
        array([-0.5,  0. ,  0. ])
    """
    rewards_N = reward_vector(rewards, unscorable=unscorable)
    floor = finite_number("min_correct", min_correct)
    groups = index_groups(group_ids, n=len(rewards_N))

    baseline_G = np.maximum(floor, groups.mean(rewards_N))
    return settled(groups.per_rollout(-baseline_G) + rewards_N, rewards_N)  # in this order NumPy adds in place


def loo_corpo_advantages(
    rewards: ArrayLike, group_ids: ArrayLike, *, min_correct: float, unscorable: Unscorable = "refuse"
) -> NDArray[np.float64]:
    """Advantage of each rollout over the floor or the mean of the other rollouts of its group. Ours.

        A_i = R_i - max(R_min_correct, mean of R_j over the j in g(i) other than i)

    CoRPO's guarantee holds: a failed rollout always scores below zero. And since the baseline of a rollout does not
    depend on that rollout, the expected on-policy update is the true policy gradient, which CoRPO's is not. A rollout
    alone in its group has the floor for a baseline: R - R_min_correct.

    Args:
        rewards: Reward of each rollout, in task units. Shape [N], finite.
        group_ids: Prompt each rollout answers, integers or strings. Shape [N].
        min_correct: Least reward that counts as correct, in task units.
        unscorable: Whether a reward of NaN is refused or its rollout excluded.

    Returns:
        Advantages in task units, row i for rollout i. Shape [N], float64.

    Raises:
        DataError: A shape is wrong, a reward or `min_correct` is not finite, or the group ids are neither integers nor
            strings.

    Source:
        Ours: the baseline of Ahmadian et al., https://arxiv.org/abs/2402.14740, under the floor of
        https://arxiv.org/abs/2511.04439v1.

    Example:
        >>> loo_corpo_advantages([0.25, 0.75, 1.0], ["a", "a", "b"], min_correct=0.5)
        array([-0.5 ,  0.25,  0.5 ])
    """
    rewards_N = reward_vector(rewards, unscorable=unscorable)
    floor = finite_number("min_correct", min_correct)
    groups = index_groups(group_ids, n=len(rewards_N))

    baseline_N = np.fmax(floor, groups.mean_of_others(rewards_N))  # fmax: the floor where there are no others
    return settled(rewards_N - baseline_N, rewards_N)


def estimate_advantages(
    estimator: str,
    rewards: ArrayLike,
    group_ids: ArrayLike,
    *,
    min_correct: float | None = None,
    unscorable: Unscorable = "refuse",
) -> NDArray[np.float64]:
    """Advantages under the estimator of that name: `estimate_advantages("corpo", ...)` is `corpo_advantages(...)`.

    Args:
        estimator: One of `ESTIMATORS`.
        rewards: Reward of each rollout, in task units. Shape [N], finite.
        group_ids: Prompt each rollout answers, integers or strings. Shape [N].
        min_correct: Least reward that counts as correct, in task units. Needed by `THRESHOLD_ESTIMATORS`; the others
            do not look at it.
        unscorable: Whether a reward of NaN is refused or its rollout excluded.

    Returns:
        Advantages, row i for rollout i. Shape [N], float64.

    Raises:
        UsageError: The name is unknown, or the estimator needs a `min_correct` and got none.
        DataError: As the estimator itself.

    Example:
        >>> estimate_advantages("static", [0.25, 1.0], ["a", "a"], min_correct=0.75)
        array([-0.5 ,  0.25])
    """
    if estimator not in ESTIMATORS:
        raise UsageError(f"estimator: expected one of {', '.join(ESTIMATORS)}, got {estimator!r}")
    if estimator == "grpo":
        return grpo_advantages(rewards, group_ids, unscorable=unscorable)
    if estimator == "dr_grpo":
        return dr_grpo_advantages(rewards, group_ids, unscorable=unscorable)
    if estimator == "rloo":
        return rloo_advantages(rewards, group_ids, unscorable=unscorable)
    if min_correct is None:
        raise UsageError(f"min_correct: {estimator} needs the least reward that counts as correct, got none")
    if estimator == "static":
        return static_advantages(rewards, group_ids, min_correct=min_correct, unscorable=unscorable)
    if estimator == "corpo":
        return corpo_advantages(rewards, group_ids, min_correct=min_correct, unscorable=unscorable)
    return loo_corpo_advantages(rewards, group_ids, min_correct=min_correct, unscorable=unscorable)


def settled(advantages_N: NDArray[np.float64], rewards_N: NDArray[np.float64]) -> NDArray[np.float64]:
    """Advantages with that of every unscorable rollout set to 0."""
    unscorable_N = np.isnan(rewards_N)
    return np.where(unscorable_N, 0.0, advantages_N) if unscorable_N.any() else advantages_N
