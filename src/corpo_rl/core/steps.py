"""CoRPO for rollouts that are rewarded step by step: a floor under every step, and what an outcome adds to it.

A batch is flat. There are N rollouts with one group id each, and M steps, row by row: the reward of the step, and the
rollout it belongs to. The rows of a rollout stand in the order of its steps, which are numbered from 0; rows of several
rollouts may be interleaved, rollouts may differ in their number of steps, and some may have none.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corpo_rl.core.groups import (
    Unscorable,
    finite_number,
    finite_vector,
    index_groups,
    reward_vector,
    same_length,
    vector,
)
from corpo_rl.errors import DataError, UsageError

NO_STEP = -1
"""In `step_of_token_BT`: this token belongs to no step."""


def step_corpo_advantages(
    step_rewards: ArrayLike,
    rollouts: ArrayLike,
    group_ids: ArrayLike,
    *,
    min_correct: float | ArrayLike,
    outcome_advantages: ArrayLike | None = None,
    outcome_weight: float = 1.0,
    unscorable: Unscorable = "refuse",
) -> NDArray[np.float64]:
    """Advantage of each step over the CoRPO baseline of its group at the same step. Ours.

    For step s of rollout i in group g(i), with threshold tau_s, a step failed when r_is < tau_s:

        D_is = r_is - max(tau_s, mean of r_js over the j in g(i) that have a step s)
        A_is = D_is                       without an outcome
        A_is = D_is + w A_i               with one, for a correct step
        A_is = D_is + min(w A_i, 0)       with one, for a failed step

    Whatever its peers and its outcome: a failed step scores below zero, and never more than D_is. The last line is what
    keeps this; with plain D_is + w A_i a failed step in a rollout that ended well is pushed up.

    Steps are credited with r_is alone. To credit them with what follows as well, give `rewards_to_go` of the rewards
    and thresholds for those; then it is a step whose reward to go fails that never scores above zero, and one that
    fails by its own reward can.

    What it does not keep: a failed rollout can have steps above zero, its correct ones, and so can the mean over its
    steps. A correct step at its baseline or under it scores zero or less, as in CoRPO, and a correct step of a failed
    rollout can score below zero for its outcome. Step s of one rollout is compared with step s of the others even where
    they do different things there. The only rollout of its group with a step s gets r - max(tau_s, r), 0 if correct.

    Args:
        step_rewards: Reward of each step, in task units. Shape [M], finite.
        rollouts: Rollout of each step, 0 to N-1. Shape [M].
        group_ids: Prompt each rollout answers, integers or strings. Shape [N].
        min_correct: Least reward with which a step counts as correct, in task units: one number, or one for each step
            number, at least as many as the longest rollout has steps. Shape [] or [S].
        outcome_advantages: Advantage A_i of each rollout, from any estimator. Shape [N], finite. None for no outcome.
        outcome_weight: w, 0 or more.
        unscorable: Whether a step reward of NaN is refused or its step excluded: it is left out of the mean, and gets
            w A_i, or 0.0 without an outcome.

    Returns:
        Advantages in task units, row m for step m. Shape [M], float64.

    Raises:
        DataError: A shape is wrong, a value is not finite, a rollout is not 0 to N-1, or there are fewer thresholds
            than steps.
        UsageError: `outcome_weight` is under 0, or `unscorable` is neither "refuse" nor "exclude".

    Source:
        Ours: b_corpo of Garg and Venkatesh, https://arxiv.org/abs/2511.04439v1, for every step number apart.

    Example:
        Two rollouts of one prompt, with two steps and one. Nothing but the first step of the second rollout is correct.

        >>> step_corpo_advantages([0.0, 0.25, 1.0], [0, 0, 1], ["a", "a"], min_correct=0.75)
        array([-0.75, -0.5 ,  0.25])
        >>> step_corpo_advantages([0.0, 0.25, 1.0], [0, 0, 1], ["a", "a"], min_correct=0.75, outcome_advantages=[1, -1])
        array([-0.75, -0.5 , -0.75])
    """
    rewards_M = reward_vector(step_rewards, unscorable=unscorable)
    rollout_M, group_N = _placed(rollouts, group_ids, n_steps=len(rewards_M))
    step_M = step_numbers(rollout_M)
    threshold_M = _thresholds(min_correct, step_M)
    if finite_number("outcome_weight", outcome_weight) < 0:
        raise UsageError(f"outcome_weight: expected 0 or more, got {outcome_weight}")

    cells = index_groups(group_N[rollout_M] * (step_M.max(initial=0) + 1) + step_M, n=len(rewards_M))
    baseline_M = np.maximum(threshold_M, cells.per_rollout(cells.mean(rewards_M)))
    own_M = np.where(np.isnan(rewards_M), 0.0, rewards_M - baseline_M)
    if outcome_advantages is None:
        return own_M
    outcome_M = outcome_weight * outcome_step_advantages(outcome_advantages, rollout_M, n=len(group_N))
    return own_M + np.where(rewards_M < threshold_M, np.minimum(outcome_M, 0.0), outcome_M)


def outcome_step_advantages(
    outcome_advantages: ArrayLike, rollouts: ArrayLike, *, n: int | None = None
) -> NDArray[np.float64]:
    """The advantage of its rollout for each step: credit by outcome alone, as without step rewards.

        A_is = A_i

    A failed step of a rollout that ended well is pushed up, and a correct step of one that ended badly is pushed down.

    Args:
        outcome_advantages: Advantage of each rollout, from any estimator. Shape [N], finite.
        rollouts: Rollout of each step, 0 to N-1. Shape [M].
        n: The N to hold the advantages to; by default however many there are.

    Returns:
        Shape [M], float64.

    Raises:
        DataError: A shape is wrong, an advantage is not finite, or a rollout is not 0 to N-1.

    Example:
        >>> outcome_step_advantages([0.5, -1.0], [0, 0, 1])
        array([ 0.5,  0.5, -1. ])
    """
    advantages_N = finite_vector("outcome_advantages", outcome_advantages)
    if n is not None:
        same_length("outcome_advantages", advantages_N, n=n, as_in="group_ids")
    rollout_M = _rollouts(rollouts, n=len(advantages_N))
    return advantages_N[rollout_M]


def rewards_to_go(step_rewards: ArrayLike, rollouts: ArrayLike, *, discount: float = 1.0) -> NDArray[np.float64]:
    """Reward of each step and of those that follow it in its rollout.

        R_is = sum over t >= s of discount^(t - s) r_it

    A reward of NaN is unknown, and so is every sum it is in.

    Args:
        step_rewards: Reward of each step, in task units, NaN where unknown. Shape [M].
        rollouts: Rollout of each step, an integer of 0 or more. Shape [M].
        discount: 0 to 1, both included. 0 leaves the rewards as they are.

    Returns:
        Shape [M], float64.

    Raises:
        DataError: A shape is wrong, a reward is infinite, or a rollout is not an integer of 0 or more.
        UsageError: `discount` is not within 0 to 1.

    Source:
        The usual return; Schulman et al., https://arxiv.org/abs/1506.02438, section 2.

    Example:
        >>> rewards_to_go([1.0, 5.0, 2.0, float("nan"), 4.0], [0, 1, 0, 2, 0], discount=0.5)
        array([ 3.,  5.,  4., nan,  4.])
    """
    rewards_M = reward_vector(step_rewards, unscorable="exclude")
    rollout_M = _rollouts(rollouts)
    same_length("rollouts", rollout_M.astype(np.float64), n=len(rewards_M), as_in="step_rewards")
    if not 0.0 <= finite_number("discount", discount) <= 1.0:
        raise UsageError(f"discount: expected 0 to 1, got {discount}")
    if discount == 0.0:
        return rewards_M.copy()

    step_M = step_numbers(rollout_M)
    order_M = np.argsort(step_M, kind="stable")
    ends_S = np.cumsum(np.bincount(step_M))
    later_N = np.zeros(int(rollout_M.max(initial=-1)) + 1)
    to_go_M = np.zeros(len(rewards_M))
    for rows in reversed(np.split(order_M, ends_S[:-1])):  # each rollout has one row at most among those of one number
        later_N[rollout_M[rows]] = to_go_M[rows] = rewards_M[rows] + discount * later_N[rollout_M[rows]]
    return to_go_M


def spread_over_tokens(
    step_advantages: ArrayLike, step_of_token_BT: ArrayLike, *, outside: float | ArrayLike = 0.0
) -> NDArray[np.float64]:
    """The advantage of its step for each token.

        A_t = A of the step that token t belongs to, or `outside` if it belongs to none

    Every token of a step gets all of it: a long step moves the policy more than a short one, as a long rollout does.

    Args:
        step_advantages: Advantage of each step. Shape [M], finite.
        step_of_token_BT: Step of each token, 0 to M-1, or `NO_STEP` for a token of no step, such as padding or what a
            tool wrote. Shape [B, T].
        outside: For tokens of no step: one number, or one for each row, such as the advantage of the rollout. Shape []
            or [B]. By default they do not move the policy.

    Returns:
        Shape [B, T], float64.

    Raises:
        DataError: A shape is wrong, a value is not finite, or a token's step is neither `NO_STEP` nor 0 to M-1.

    Example:
        >>> spread_over_tokens([0.5, -1.0], [[0, 0, NO_STEP], [1, NO_STEP, NO_STEP]], outside=[0.0, 0.25])
        array([[ 0.5 ,  0.5 ,  0.  ],
               [-1.  ,  0.25,  0.25]])
    """
    advantages_M = finite_vector("step_advantages", step_advantages)
    step_BT = np.asarray(step_of_token_BT)
    if step_BT.ndim != 2 or (step_BT.dtype.kind not in "iu" and step_BT.size):
        raise DataError(
            f"step_of_token_BT: expected integers of shape [B, T], got {step_BT.dtype.name} of {list(step_BT.shape)}"
        )
    bad_BT = (step_BT < NO_STEP) | (step_BT >= len(advantages_M))
    if bad_BT.any():
        row, token = np.argwhere(bad_BT)[0]
        raise DataError(
            f"step_of_token_BT: expected {NO_STEP} to {len(advantages_M) - 1}, row {row}, token {token} is "
            f"{step_BT[row, token]}"
        )
    if np.ndim(outside) == 0:
        outside_B1 = np.full((len(step_BT), 1), finite_number("outside", float(np.asarray(outside))))
    else:
        outside_B = finite_vector("outside", outside)
        same_length("outside", outside_B, n=len(step_BT), as_in="step_of_token_BT")
        outside_B1 = outside_B[:, np.newaxis]

    none_BT = step_BT == NO_STEP
    known_BT = np.append(advantages_M, 0.0)[np.where(none_BT, len(advantages_M), step_BT).astype(np.intp)]
    return np.where(none_BT, outside_B1, known_BT)


def step_margins(
    step_rewards: ArrayLike, rollouts: ArrayLike, *, min_correct: float | ArrayLike
) -> NDArray[np.float64]:
    """Reward of each step less the threshold of its number: 0 or more for a correct step, NaN where unscorable.

    With these as rewards and a `min_correct` of 0, the figures of `core.dynamics` speak of steps.

    Args:
        step_rewards: Reward of each step, in task units, NaN where unscorable. Shape [M].
        rollouts: Rollout of each step, an integer of 0 or more. Shape [M].
        min_correct: As for `step_corpo_advantages`.

    Returns:
        Shape [M], float64.

    Raises:
        DataError: A shape is wrong, a reward or a threshold is not finite, or there are fewer thresholds than steps.

    Example:
        >>> step_margins([1.0, 0.5, 0.25], [0, 0, 1], min_correct=[0.5, 0.75])
        array([ 0.5 , -0.25, -0.25])
    """
    rewards_M = reward_vector(step_rewards, unscorable="exclude")
    rollout_M = _rollouts(rollouts)
    same_length("rollouts", rollout_M.astype(np.float64), n=len(rewards_M), as_in="step_rewards")
    return rewards_M - _thresholds(min_correct, step_numbers(rollout_M))


def step_numbers(rollouts: ArrayLike) -> NDArray[np.intp]:
    """Number of each step in its rollout, from 0: its place among the rows of that rollout.

    Args:
        rollouts: Rollout of each step, an integer of 0 or more. Shape [M].

    Returns:
        Shape [M].

    Raises:
        DataError: `rollouts` is not a row of integers of 0 or more.

    Example:
        >>> step_numbers([3, 0, 3, 0, 3])
        array([0, 0, 1, 1, 2])
    """
    rollout_M = _rollouts(rollouts)
    order_M = np.argsort(rollout_M, kind="stable")
    count_N = np.bincount(rollout_M)
    start_N = np.cumsum(count_N) - count_N
    number_M = np.empty(len(rollout_M), dtype=np.intp)
    number_M[order_M] = np.arange(len(rollout_M)) - start_N[rollout_M[order_M]]
    return number_M


def _placed(rollouts: ArrayLike, group_ids: ArrayLike, *, n_steps: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rollout of each step, and group of each rollout, numbered from 0. Shapes [M] and [N]."""
    ids = list(group_ids) if isinstance(group_ids, list | tuple) else np.asarray(group_ids)
    n = len(ids) if np.ndim(ids) else 0
    groups = index_groups(group_ids, n=n)
    rollout_M = _rollouts(rollouts, n=n)
    same_length("rollouts", rollout_M.astype(np.float64), n=n_steps, as_in="step_rewards")
    return rollout_M, groups.index_N


def _rollouts(rollouts: ArrayLike, *, n: int | None = None) -> NDArray[np.intp]:
    rollout_M = np.asarray(rollouts)
    if rollout_M.size == 0 and rollout_M.ndim == 1:
        return np.zeros(0, dtype=np.intp)
    if rollout_M.dtype.kind not in "iu" or rollout_M.ndim != 1:
        vector("rollouts", rollouts)
        raise DataError(f"rollouts: expected integers, got {rollout_M.dtype.name}")
    bad_M = (rollout_M < 0) | (rollout_M >= (np.iinfo(np.intp).max if n is None else n))
    if bad_M.any():
        row = int(np.argmax(bad_M))
        raise DataError(
            f"rollouts: expected {'0 or more' if n is None else f'0 to {n - 1}'}, row {row} is {rollout_M[row]}"
        )
    return rollout_M.astype(np.intp, copy=False)


def _thresholds(min_correct: float | ArrayLike, step_M: NDArray[np.intp]) -> NDArray[np.float64]:
    """Threshold of each step. Shape [M]."""
    if np.ndim(min_correct) == 0:
        return np.full(len(step_M), finite_number("min_correct", float(np.asarray(min_correct))))
    threshold_S = finite_vector("min_correct", min_correct)
    most = int(step_M.max(initial=-1)) + 1
    if len(threshold_S) < most:
        raise DataError(
            f"min_correct: expected one number, or one for each of {most} steps, as the longest rollout has, got "
            f"{len(threshold_S)}"
        )
    return threshold_S[step_M]
