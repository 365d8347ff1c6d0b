"""Several rewards added up, one of which means correctness: a floor on that one, the others free below it.

With a plain weighted sum a well-formed or a short failure is pushed up wherever its peers are longer or worse formed. A
threshold on the total does not help: no value of it tells a correct answer with a poor form from a failure with a good
one. So the floor stands on the one component that means correctness, in that component's own units.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corpo_rl.core.groups import Unscorable, finite_number, finite_vector, index_groups, vector
from corpo_rl.core.rounding import ROUNDING, SMALLEST
from corpo_rl.errors import DataError, UsageError


class MissingComponents(NamedTuple):
    """How many rewards of a batch nobody could give. C components."""

    n_unscorable: int
    """Rollouts without the component that means correctness: they get advantage 0."""
    n_missing_C: NDArray[np.intp]  # noqa: N815
    """Missing rewards of each component among the other rollouts; 0 for correctness. Shape [C]."""


class PlainLifts(NamedTuple):
    """What a plain weighted sum would do to the failures of a batch. C components."""

    n_failed: int
    """Rollouts whose correctness is known and under its threshold."""
    n_lifted: int
    """Those of them whose weighted sum is over their group's mean: a positive advantage under a group-mean baseline."""
    n_lifted_by_C: NDArray[np.intp]  # noqa: N815
    """Lifted failures that would not be lifted without this component; one may count for several, or for none.
    Shape [C]."""


def component_advantages(
    rewards: ArrayLike,
    group_ids: ArrayLike,
    *,
    weights: ArrayLike,
    correctness: int,
    min_correct: float,
    unscorable: Unscorable = "refuse",
) -> NDArray[np.float64]:
    """Advantage of each rollout under a floor on the component that means correctness. Ours.

    With k the component of correctness, tau its threshold, and a rollout correct when r_ik >= tau:

        A_i = w_k (r_ik - max(tau, mean of r_jk over the j in g(i))) + (F_i if i is correct, else min(F_i, 0))
        F_i = sum over the other c of w_c (r_ic - mean of r_jc over the j in g(i) that are correct, or failed, like i)

    The first term is CoRPO on correctness alone. The others are compared among equals, correct with correct and failed
    with failed, and can cost a failure something but never give it anything. It follows that, whatever the others say:

    - a failed rollout has A_i < 0, and never more than CoRPO on correctness alone gives it;
    - the advantages of the correct rollouts of a group add up to what CoRPO on correctness alone gives them, which is 0
      or more: no other component turns a group against its correct answers;
    - two correct rollouts of a group are as far apart as their weighted sums, in the same order;
    - with equal other components this is w_k times CoRPO; where all of a group is correct, the weighted sum less its
      group mean (Dr. GRPO). It is the largest rule of all that stay under CoRPO on failures and under the first term
      + F_i everywhere, so nothing more is taken away than that needs.

    What it does not keep: failures with the same correctness and an F_i above 0 are not told apart. A correct rollout
    whose other components are far under those of the correct ones can score below zero, and below a failure. The
    expected update is no gradient of the expected weighted sum: on-policy the other components move correct rollouts
    along the gradient of E[sum of w_c r_c | correct], what form is worth given that the answer is correct, while the
    negative part for failures, like CoRPO's floor, is the gradient of nothing.

    A rollout without the component of correctness is unscorable. Another component that is missing says nothing: the
    rollout is left out of that component's means and gets neither more nor less for it.

    Args:
        rewards: Reward of each rollout by each component, before weighting. Shape [N, C], finite.
        group_ids: Prompt each rollout answers, integers or strings. Shape [N].
        weights: Weight of each component, finite, that of correctness above 0. Shape [C].
        correctness: Index of the component that means correctness, 0 to C-1.
        min_correct: Least reward of that component that counts as correct, in its own units, before weighting.
        unscorable: "exclude" gives rollouts without correctness an advantage of 0 and leaves them out of every mean,
            and allows other components to be missing; "refuse" refuses any NaN. `missing_components` counts them.

    Returns:
        Advantages in units of the weighted sum, row i for rollout i. Shape [N], float64.

    Raises:
        DataError: A shape is wrong, a reward, weight or `min_correct` is not finite, or the group ids are neither
            integers nor strings.
        UsageError: `correctness` is no component, or its weight is not above 0.

    Source:
        Ours; the first term is b_corpo of Garg and Venkatesh, https://arxiv.org/abs/2511.04439v1.

    Example:
        >>> rewards = [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]  # correctness, format
        >>> component_advantages(rewards, ["a"] * 4, weights=[1.0, 0.4], correctness=0, min_correct=0.75)
        array([-0.95, -0.75,  0.05,  0.45])
    """
    rewards_NC = _rewards(rewards, unscorable=unscorable)
    weights_C = _weights(weights, rewards_NC, correctness=correctness)
    threshold = finite_number("min_correct", min_correct)
    groups = index_groups(group_ids, n=len(rewards_NC))

    correctness_N = rewards_NC[:, correctness]
    baseline_G = np.maximum(threshold, groups.mean(correctness_N))
    # the difference is weighted and not the rewards, whose products may round to no difference
    floored_N = weights_C[correctness] * (correctness_N - groups.per_rollout(baseline_G))

    correct_N = correctness_N >= threshold
    failed_N = correctness_N < threshold
    free_N = np.zeros(len(rewards_NC))
    for component in range(len(weights_C)):
        if component == correctness:
            continue
        for alike_N in (correct_N, failed_N):
            reward_N = np.where(alike_N, rewards_NC[:, component], np.nan)
            over_N = reward_N - groups.per_rollout(groups.mean(reward_N))
            free_N += weights_C[component] * np.where(np.isnan(over_N), 0.0, over_N)
    advantages_N = floored_N + np.where(correct_N, free_N, np.minimum(free_N, 0.0))
    return np.where(np.isnan(correctness_N), 0.0, advantages_N)


def plain_lifts(
    rewards: ArrayLike,
    group_ids: ArrayLike,
    *,
    weights: ArrayLike,
    correctness: int,
    min_correct: float,
    unscorable: Unscorable = "refuse",
    rounding: float = ROUNDING,
) -> PlainLifts:
    """Which components lift failures over their group's mean under a plain weighted sum.

    A failure is lifted when T_i - mean of T_j > 0, T being the weighted sum, and component c does it when the same
    difference without c is 0 or less: the definitions of `corpo-rl audit`. GRPO and Dr. GRPO give exactly the lifted
    failures a positive advantage.

    As in TRL a component that is missing adds 0 to the sum, and a rollout is left out of the means only where all
    are missing.

    Args:
        rewards: As for `component_advantages`. Shape [N, C].
        group_ids: Prompt each rollout answers. Shape [N].
        weights: Weight of each component. Shape [C].
        correctness: Index of the component that means correctness.
        min_correct: Least reward of that component that counts as correct.
        unscorable: Whether a NaN is refused.
        rounding: Differences up to this share of the largest weighted reward of a group are rounding; more than 1e-9
            for rewards that went through float32.

    Raises:
        DataError: As for `component_advantages`.
        UsageError: As for `component_advantages`.

    Example:
        >>> rewards = [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]  # correctness, format
        >>> plain_lifts(rewards, ["a"] * 4, weights=[1.0, 0.5], correctness=0, min_correct=1)
        PlainLifts(n_failed=3, n_lifted=1, n_lifted_by_C=array([0, 1]))
    """
    rewards_NC = _rewards(rewards, unscorable=unscorable)
    weights_C = _weights(weights, rewards_NC, correctness=correctness)
    threshold = finite_number("min_correct", min_correct)
    groups = index_groups(group_ids, n=len(rewards_NC))

    parts_NC = np.where(np.isnan(rewards_NC), 0.0, rewards_NC) * weights_C
    parts_NC[np.isnan(rewards_NC).all(axis=1)] = np.nan
    centred_NC = np.stack([part_N - groups.per_rollout(groups.mean(part_N)) for part_N in parts_NC.T], axis=1)
    total_N = centred_NC.sum(axis=1)

    largest_G = np.zeros(len(groups.size_G))
    np.maximum.at(largest_G, groups.index_N, np.abs(np.nan_to_num(parts_NC)).max(axis=1))
    rounding_N = groups.per_rollout(np.maximum(rounding * largest_G, SMALLEST))
    failed_N = rewards_NC[:, correctness] < threshold
    lifted_N = failed_N & (total_N > rounding_N)
    decisive_NC = lifted_N[:, None] & (total_N[:, None] - centred_NC <= rounding_N[:, None])
    return PlainLifts(int(failed_N.sum()), int(lifted_N.sum()), decisive_NC.sum(axis=0))


def missing_components(rewards: ArrayLike, *, correctness: int) -> MissingComponents:
    """Count what `component_advantages(..., unscorable="exclude")` leaves out.

    Args:
        rewards: Reward of each rollout by each component, NaN or None where missing. Shape [N, C].
        correctness: Index of the component that means correctness.

    Raises:
        DataError: The shape is not [N, C], or a reward is infinite or no number.
        UsageError: `correctness` is no component.

    Example:
        >>> missing_components([[1.0, None], [None, 0.5], [0.0, 1.0]], correctness=0)
        MissingComponents(n_unscorable=1, n_missing_C=array([0, 1]))
    """
    rewards_NC = _rewards(rewards, unscorable="exclude")
    _check_index(correctness, rewards_NC.shape[1])
    unscorable_N = np.isnan(rewards_NC[:, correctness])
    return MissingComponents(int(unscorable_N.sum()), np.isnan(rewards_NC[~unscorable_N]).sum(axis=0))


def _rewards(rewards: ArrayLike, *, unscorable: Unscorable) -> NDArray[np.float64]:
    """Rewards as float64, checked. Shape [N, C], C at least 1."""
    if unscorable not in ("refuse", "exclude"):
        raise UsageError(f"unscorable: expected 'refuse' or 'exclude', got {unscorable!r}")
    try:
        array = np.asarray(rewards)
    except ValueError as error:
        raise DataError(f"rewards: expected shape [N, C], got rows of different lengths ({error})") from error
    if array.ndim != 2 or array.shape[1] == 0:
        raise DataError(f"rewards: expected shape [N, C], a column for each component, got {list(array.shape)}")
    rewards_NC = np.stack([vector(f"rewards[:, {place}]", column_N) for place, column_N in enumerate(array.T)], axis=1)
    bad_NC = np.isinf(rewards_NC) if unscorable == "exclude" else ~np.isfinite(rewards_NC)
    if bad_NC.any():
        row, place = (int(index) for index in np.argwhere(bad_NC)[0])
        expected, cure = (
            ("finite or NaN", "")
            if unscorable == "exclude"
            else ("finite", "; pass unscorable='exclude' to allow missing rewards")
        )
        raise DataError(
            f"rewards: {np.count_nonzero(bad_NC)} of {bad_NC.size} values are not {expected}, the first: row {row}, "
            f"component {place} is {rewards_NC[row, place]}{cure}"
        )
    return rewards_NC


def _weights(weights: ArrayLike, rewards_NC: NDArray[np.float64], *, correctness: int) -> NDArray[np.float64]:
    """Weights as float64, checked. Shape [C]."""
    n_components = rewards_NC.shape[1]
    _check_index(correctness, n_components)
    weights_C = finite_vector("weights", weights)
    if len(weights_C) != n_components:
        raise DataError(f"weights: expected shape [{n_components}], one for each component, got [{len(weights_C)}]")
    if weights_C[correctness] <= 0:
        raise UsageError(
            f"weights: expected a weight above 0 for component {correctness}, which means correctness, got "
            f"{weights_C[correctness]:g}"
        )
    return weights_C


def _check_index(correctness: int, n_components: int) -> None:
    whole = isinstance(correctness, int | np.integer) and not isinstance(correctness, bool)
    if not whole or not 0 <= correctness < n_components:
        raise UsageError(
            f"correctness: expected the index of a component, 0 to {n_components - 1}, got {correctness!r}"
        )
