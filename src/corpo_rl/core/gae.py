"""Generalised advantage estimation: PPO's baseline, a learned value of every token, in the place of a group's mean."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corpo_rl.core.groups import finite_number
from corpo_rl.errors import DataError, UsageError


class Gae(NamedTuple):
    """Advantages of tokens, and what their values should have been. Both are 0.0 outside the mask."""

    advantages_BT: NDArray[np.float64]  # noqa: N815
    """A_t, in task units. Shape [B, T]."""
    returns_BT: NDArray[np.float64]  # noqa: N815
    """A_t + V_t, the target of a critic that is trained on squared error. In task units. Shape [B, T]."""


def gae_advantages(
    rewards_BT: ArrayLike, values_BT: ArrayLike, mask_BT: ArrayLike, *, discount: float, trace: float
) -> Gae:
    """Advantage of each token over the value of the state before it.

    For the tokens t = 1 to T of one completion, with V_{T+1} = 0:

        delta_t = r_t + discount * V_{t+1} - V_t
        A_t     = sum over l >= 0 of (discount * trace)^l * delta_{t+l}

    With trace 1 this is the discounted reward to go minus V_t: no bias from a wrong critic, all the variance of the
    reward. With trace 0 it is delta_t alone: as biased as the critic. Nothing is whitened, scaled or clipped.

    Completions differ in length, and tokens that the policy did not write (a tool's output) may lie between its own:
    what the mask leaves out is skipped, as if the tokens around it were neighbours. Every completion ends in a terminal
    state, one cut off at a length limit too.

    Args:
        rewards_BT: Reward received for each token, in task units; a reward for the whole completion stands at its last
            token. Shape [B, T], finite, and 0 outside the mask.
        values_BT: Critic's value of the state before each token, in task units. Shape [B, T], finite inside the mask;
            outside it anything.
        mask_BT: 1 or True for the tokens of the policy, 0 or False for the others. Shape [B, T].
        discount: The paper's gamma, 0 to 1, both included.
        trace: The paper's lambda, 0 to 1, both included.

    Returns:
        Advantages and returns of each token.

    Raises:
        DataError: A shape is wrong, the mask holds something else than 0 and 1, a reward or a value inside the mask is
            not finite, or a reward lies outside the mask, where it would be lost.
        UsageError: `discount` or `trace` is not within 0 to 1.

    Source:
        Schulman et al., https://arxiv.org/abs/1506.02438, section 3.

    Example:
        >>> found = gae_advantages([[0.0, 1.0, 0.0]], [[0.5, 0.75, 9.0]], [[1, 1, 0]], discount=1.0, trace=0.5)
        >>> found.advantages_BT
        array([[0.375, 0.25 , 0.   ]])
        >>> found.returns_BT
        array([[0.875, 1.   , 0.   ]])
    """
    for name, value in (("discount", discount), ("trace", trace)):
        if not 0.0 <= finite_number(name, value) <= 1.0:
            raise UsageError(f"{name}: expected 0 to 1, got {value}")
    mask_BT = _mask(mask_BT)
    rewards_BT = _tokens("rewards_BT", rewards_BT, mask_BT)
    values_BT = _tokens("values_BT", values_BT, mask_BT)
    lost_BT = (rewards_BT != 0.0) & ~mask_BT
    if lost_BT.any():
        row, token = np.argwhere(lost_BT)[0]
        raise DataError(
            f"rewards_BT: expected 0 outside the mask, row {row}, token {token} is {rewards_BT[row, token]}; put the "
            "reward of a completion at its last token inside the mask"
        )

    advantages_BT = np.zeros(mask_BT.shape)
    advantage_B, next_value_B = np.zeros(len(mask_BT)), np.zeros(len(mask_BT))
    for token in reversed(range(mask_BT.shape[1])):
        inside_B, value_B = mask_BT[:, token], np.where(mask_BT[:, token], values_BT[:, token], 0.0)
        delta_B = rewards_BT[:, token] + discount * next_value_B - value_B
        advantage_B = np.where(inside_B, delta_B + discount * trace * advantage_B, advantage_B)
        next_value_B = np.where(inside_B, value_B, next_value_B)
        advantages_BT[:, token] = np.where(inside_B, advantage_B, 0.0)
    return Gae(advantages_BT, np.where(mask_BT, advantages_BT + np.where(mask_BT, values_BT, 0.0), 0.0))


def _mask(mask_BT: ArrayLike) -> NDArray[np.bool_]:
    array = _matrix("mask_BT", mask_BT)
    if not np.isin(array, (0.0, 1.0)).all():
        row, token = np.argwhere(~np.isin(array, (0.0, 1.0)))[0]
        raise DataError(f"mask_BT: expected 0 and 1, row {row}, token {token} is {array[row, token]}")
    return array.astype(np.bool_)


def _tokens(name: str, values_BT: ArrayLike, mask_BT: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Values of the tokens as float64, checked against the mask. Shape [B, T]."""
    array = _matrix(name, values_BT)
    if array.shape != mask_BT.shape:
        raise DataError(f"{name}: expected shape {list(mask_BT.shape)}, as mask_BT, got {list(array.shape)}")
    bad_BT = ~np.isfinite(array) & mask_BT
    if bad_BT.any():
        row, token = np.argwhere(bad_BT)[0]
        raise DataError(
            f"{name}: {np.count_nonzero(bad_BT)} of {np.count_nonzero(mask_BT)} values inside the mask are not finite, "
            f"the first: row {row}, token {token} is {array[row, token]}"
        )
    return array


def _matrix(name: str, values_BT: ArrayLike) -> NDArray[np.float64]:
    try:
        array = np.asarray(values_BT)
    except (TypeError, ValueError, RuntimeError) as error:  # a ragged list, or a tensor that is not plain CPU memory
        raise DataError(f"{name}: expected shape [B, T], got {type(values_BT).__name__} ({error})") from error
    if array.ndim != 2:
        raise DataError(f"{name}: expected shape [B, T], got {list(array.shape)}")
    if array.dtype.kind not in "biuf":
        raise DataError(f"{name}: expected numbers, got {array.dtype.name}")
    return array.astype(np.float64, copy=False)
