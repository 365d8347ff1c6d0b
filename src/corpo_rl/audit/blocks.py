"""A log's rollouts in blocks of whole groups, each small enough to stay in the processor's cache.

Every figure of the audit is a sum over groups, so blocks bound the memory and none of them sees half a group.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpo_rl.core.groups import Groups
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
    weight_G: NDArray[np.int64] | None = None  # noqa: N815
    """How often each group counts; None for once."""

    @property
    def n_groups(self) -> int:
        """G."""
        return len(self.start_G)

    @property
    def groups(self) -> Groups:
        """The groups as core takes them."""
        return Groups(index_N=self.group_N, size_G=np.diff(np.append(self.start_G, len(self.rewards_N))))

    def of_groups(self, values_N: NDArray[np.float64], how: np.ufunc) -> NDArray[np.float64]:
        """`np.add`, `np.maximum`, ... over the rows of each group. Shape [G]."""
        reduced: NDArray[np.float64] = how.reduceat(values_N, self.start_G)
        return reduced

    def total(self, values_GC: NDArray[Any]) -> NDArray[Any]:
        """Sum over the groups, each as often as it counts. Shape [C] of [G, C], or a scalar of [G]."""
        summed: NDArray[Any] = values_GC.sum(axis=0) if self.weight_G is None else self.weight_G @ values_GC
        return summed

    def count(self, flag_N: NDArray[np.bool_]) -> int:
        """Rollouts with the flag, those of each group as often as it counts."""
        if self.weight_G is None:
            return int(np.count_nonzero(flag_N))
        return int(self.weight_G @ np.bincount(self.group_N[flag_N], minlength=self.n_groups))

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


@dataclass(frozen=True)
class Layout:
    """How a log's rows are put together by group. G groups."""

    order_N: NDArray[np.intp] | None  # noqa: N815
    """Rows in group order; None when they are so in the log."""
    bounds: NDArray[np.intp]
    """First row of each group in that order, then the number of rows. Shape [G+1]."""

    @classmethod
    def of(cls, log: RolloutLog) -> "Layout":
        """The log's layout; within a group rows keep the order of the log.

        Raises:
            DataError: The log holds no rollout.
        """
        n, group_N = len(log.rewards_N), log.group_N
        if n == 0:
            raise DataError("log: expected rollouts, found none")
        order_N: NDArray[np.intp] | None = None
        if (group_N[1:] < group_N[:-1]).any():
            order_N = np.argsort(group_N, kind="stable")
            group_N = group_N[order_N]
        starts = np.flatnonzero(group_N[1:] != group_N[:-1]) + 1
        return cls(order_N, np.concatenate([[0], starts, [n]]))

    def rows(self, groups: Sequence[int] | NDArray[np.intp]) -> NDArray[np.intp]:
        """Rows of these groups in the log, group by group."""
        start_G, size_G = self.bounds[groups], self.sizes(groups)
        skipped_G = start_G - (np.cumsum(size_G) - size_G)  # rows of the log less rows of the result, before each
        rows_N: NDArray[np.intp] = np.repeat(skipped_G, size_G) + np.arange(size_G.sum())
        return rows_N if self.order_N is None else self.order_N[rows_N]

    def sizes(self, groups: Sequence[int] | NDArray[np.intp]) -> NDArray[np.intp]:
        """Rollouts in each of these groups."""
        places = np.asarray(groups, dtype=np.intp)
        sizes_G: NDArray[np.intp] = self.bounds[places + 1] - self.bounds[places]
        return sizes_G


def blocks(
    log: RolloutLog,
    layout: Layout | None = None,
    *,
    weight_G: NDArray[np.int64] | None = None,
    size: int = BLOCK_ROLLOUTS,
) -> Iterator[Block]:
    """The log's groups in order, in blocks of about `size` rollouts.

    Rewards that went through float32 are read as the short decimals they came from, so that 0.7 passes a threshold of
    0.7.

    Args:
        log: Rollouts as read.
        layout: The log's layout, when it is known already.
        weight_G: How often each group counts; None for once. Shape [G].
        size: Rollouts from which a block is closed.

    Raises:
        DataError: The log holds no rollout.
    """
    layout = Layout.of(log) if layout is None else layout
    bounds = layout.bounds
    n_groups = len(bounds) - 1
    first = 0
    while first < n_groups:
        last = int(np.searchsorted(bounds, bounds[first] + size, side="left"))
        last = min(max(last, first + 1), n_groups)
        yield _block(log, layout, first, last, weight_G)
        first = last


def subset(log: RolloutLog, layout: Layout, groups: Sequence[int] | NDArray[np.intp]) -> RolloutLog:
    """The log with these groups only, numbered from 0 as they are given."""
    rows_N = layout.rows(groups)

    def picked(values_N: NDArray[Any] | None) -> NDArray[Any] | None:
        return None if values_N is None else values_N[rows_N]

    return replace(
        log,
        rewards_N=log.rewards_N[rows_N],
        group_N=np.repeat(np.arange(len(groups)), layout.sizes(groups)),
        file_N=log.file_N[rows_N],
        row_N=log.row_N[rows_N],
        step_G=None if log.step_G is None else log.step_G[groups],
        prompt_G=None if log.prompt_G is None else log.prompt_G[groups],
        advantages_N=picked(log.advantages_N),
        lengths_N=picked(log.lengths_N),
        labels_N=picked(log.labels_N),
        components={name: values_N[rows_N] for name, values_N in log.components.items()},
    )


def _block(log: RolloutLog, layout: Layout, first: int, last: int, weight_G: NDArray[np.int64] | None) -> Block:
    bounds = layout.bounds[first : last + 1]
    span = slice(int(bounds[0]), int(bounds[-1]))
    rows_N = span if layout.order_N is None else layout.order_N[span]
    rewards_N = log.rewards_N[rows_N]
    if log.float32:
        rewards_N = as_decimals(rewards_N)
    start_G = bounds[:-1] - bounds[0]
    numbers_N = np.repeat(np.arange(last - first), np.diff(bounds))
    largest_G = np.fmax.reduceat(np.abs(rewards_N), start_G)
    relative = FLOAT32_ROUNDING if log.float32 else ROUNDING
    rounding_G = np.maximum(relative * np.nan_to_num(largest_G), SMALLEST)
    return Block(
        rewards_N=rewards_N,
        group_N=numbers_N,
        start_G=start_G,
        first_group=first,
        rows_N=rows_N,
        advantages_N=None if log.advantages_N is None else log.advantages_N[rows_N],
        lengths_N=None if log.lengths_N is None else log.lengths_N[rows_N],
        labels_N=None if log.labels_N is None else log.labels_N[rows_N],
        rounding_N=rounding_G[numbers_N],
        weight_G=None if weight_G is None else weight_G[first:last],
    )
