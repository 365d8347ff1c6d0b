"""A log's rollouts in blocks of whole groups, each small enough to stay in the processor's cache.

Every figure of the audit is a sum over groups, so blocks bound the memory and none of them sees half a group.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpo_rl.core.rounding import FLOAT32_ROUNDING, ROUNDING, SMALLEST, as_decimals
from corpo_rl.errors import DataError
from corpo_rl.records import RolloutLog

BLOCK_ROLLOUTS = 1 << 15
"""Rollouts of a block; one more group is added whole. A column of it takes 256 KB."""


@dataclass(frozen=True)
class Block:
    """Whole groups, the rows of each together. N rollouts in G groups."""

    rewards_N: NDArray[np.float64]  # noqa: N815
    """NaN where unscorable."""
    group_N: NDArray[np.intp]  # noqa: N815
    """0 to G-1, never falling."""
    start_G: NDArray[np.intp]  # noqa: N815
    """First row of each group."""
    first_group: int
    """Number of group 0 of this block among all groups."""
    rows_N: slice | NDArray[np.intp]  # noqa: N815
    """Where the rows stand in the log."""
    advantages_N: NDArray[np.float64] | None  # noqa: N815
    lengths_N: NDArray[np.float64] | None  # noqa: N815
    labels_N: NDArray[np.float64] | None  # noqa: N815
    rounding_N: NDArray[np.float64]  # noqa: N815
    """Differences of rewards up to this are rounding: a share of the largest reward of the group."""

    @property
    def n_groups(self) -> int:
        """G."""
        return len(self.start_G)

    def of_groups(self, values_N: NDArray[np.float64], how: np.ufunc) -> NDArray[np.float64]:
        """`np.add`, `np.maximum`, ... over the rows of each group. Shape [G]."""
        reduced: NDArray[np.float64] = how.reduceat(values_N, self.start_G)
        return reduced

    def codes(self, code_N: NDArray[np.intp], n_codes: int) -> NDArray[np.intp]:
        """How often each code in 0 to n_codes - 1 occurs in each group. Shape [G, n_codes]."""
        counted = np.bincount(self.group_N * n_codes + code_N, minlength=self.n_groups * n_codes)
        return counted.reshape(self.n_groups, n_codes)

    def sums(self, code_N: NDArray[np.intp], values_N: NDArray[np.float64], n_codes: int) -> NDArray[np.float64]:
        """Sum of the values under each code in each group. Shape [G, n_codes]."""
        summed = weighted_counts(self.group_N * n_codes + code_N, values_N, self.n_groups * n_codes)
        return summed.reshape(self.n_groups, n_codes)


def weighted_counts(index_N: NDArray[np.intp], weights_N: NDArray[Any], n: int) -> NDArray[np.float64]:
    """Sum of the weights at each index. Shape [n]."""
    summed: NDArray[np.float64] = np.bincount(index_N, weights=weights_N, minlength=n).astype(np.float64, copy=False)
    return summed


def blocks(log: RolloutLog, *, size: int = BLOCK_ROLLOUTS) -> Iterator[Block]:
    """The log's groups in order, in blocks of about `size` rollouts.

    Rewards that went through float32 are read as the short decimals they came from, so that 0.7 passes a threshold of
    0.7. Within a group rows keep the order of the log.

    Raises:
        DataError: The log holds no rollout.
    """
    n = len(log.rewards_N)
    if n == 0:
        raise DataError("log: expected rollouts, found none")
    group_N = log.group_N
    step_N = np.diff(group_N)
    order_N: NDArray[np.intp] | None = None
    if (step_N < 0).any():
        order_N = np.argsort(group_N, kind="stable")
        group_N = group_N[order_N]
        step_N = np.diff(group_N)
    starts = np.concatenate([[0], np.flatnonzero(step_N) + 1])  # of every group
    del step_N
    bounds = np.append(starts, n)
    first = 0
    while first < len(starts):
        last = int(np.searchsorted(starts, starts[first] + size, side="left"))
        last = min(max(last, first + 1), len(starts))
        yield _block(log, order_N, group_N, bounds[first : last + 1], first)
        first = last


def _block(
    log: RolloutLog,
    order_N: NDArray[np.intp] | None,
    group_N: NDArray[np.intp],
    bounds: NDArray[np.intp],
    first_group: int,
) -> Block:
    span = slice(int(bounds[0]), int(bounds[-1]))
    rows_N = span if order_N is None else order_N[span]
    rewards_N = log.rewards_N[rows_N]
    if log.float32:
        rewards_N = as_decimals(rewards_N)
    start_G = bounds[:-1] - bounds[0]
    numbers_N = group_N[span] - group_N[span.start]
    largest_G = np.fmax.reduceat(np.abs(rewards_N), start_G)
    relative = FLOAT32_ROUNDING if log.float32 else ROUNDING
    rounding_G = np.maximum(relative * np.nan_to_num(largest_G), SMALLEST)
    return Block(
        rewards_N=rewards_N,
        group_N=numbers_N,
        start_G=start_G,
        first_group=first_group,
        rows_N=rows_N,
        advantages_N=None if log.advantages_N is None else log.advantages_N[rows_N],
        lengths_N=None if log.lengths_N is None else log.lengths_N[rows_N],
        labels_N=None if log.labels_N is None else log.labels_N[rows_N],
        rounding_N=rounding_G[numbers_N],
    )
