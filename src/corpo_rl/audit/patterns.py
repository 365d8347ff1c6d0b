"""A log's groups by what they hold: groups with the same rewards, in whatever order, need to be counted only once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpo_rl.audit.blocks import BLOCK_ROLLOUTS, Layout, subset
from corpo_rl.records import RolloutLog

FEW_GROUPS = 2_000
"""Groups under which counting every one is quick enough."""

MANY_GROUPS = 200_000
"""Groups from which pyarrow's table of hashes beats sorting them by more than its import takes."""

WORTHWHILE = 0.5
"""Share of distinct groups up to which counting them once is quicker."""


@dataclass(frozen=True)
class Patterns:
    """The distinct groups of a log. P patterns, G groups."""

    log: RolloutLog
    """One group of each pattern, the first."""
    weight_P: NDArray[np.int64]  # noqa: N815
    """Groups of each pattern. Shape [P]."""
    pattern_G: NDArray[np.intp]  # noqa: N815
    """Pattern of each group. Shape [G]."""


def find_patterns(log: RolloutLog, layout: Layout) -> Patterns | None:
    """The log's distinct groups; None where they are too many, or where rollouts differ in more than their reward.

    Groups are told by a 64-bit sum over their mixed rewards: of a million patterns, two coincide with a chance of one
    in thirty million.
    """
    others = (log.advantages_N, log.lengths_N, log.labels_N)
    if any(values_N is not None for values_N in others) or log.components:
        return None
    if len(layout.bounds) - 1 < FEW_GROUPS:
        return None
    hash_G = _hashes(log.rewards_N if layout.order_N is None else log.rewards_N[layout.order_N], layout.bounds)
    pattern_G, n_patterns = _numbered(hash_G)
    n_groups = len(hash_G)
    if n_patterns > WORTHWHILE * n_groups:
        return None
    first_P = np.empty(n_patterns, dtype=np.intp)
    first_P[pattern_G[::-1]] = np.arange(n_groups)[::-1]  # of several writes to a place the last one stays
    return Patterns(subset(log, layout, first_P), np.bincount(pattern_G), pattern_G)


def _numbered(hash_G: NDArray[np.uint64]) -> tuple[NDArray[np.intp], int]:
    """A number for each distinct hash, in order of first appearance, and how many there are."""
    if len(hash_G) >= MANY_GROUPS:
        import pyarrow as pa

        encoded = pa.array(hash_G).dictionary_encode()
        return encoded.indices.to_numpy().astype(np.intp), len(encoded.dictionary)
    distinct, first_P, number_G = np.unique(hash_G, return_index=True, return_inverse=True)
    rank_P = np.empty(len(distinct), dtype=np.intp)
    rank_P[np.argsort(first_P)] = np.arange(len(distinct))
    return rank_P[number_G], len(distinct)


def strongest_groups(
    candidates: Sequence[tuple[float, int]], pattern_G: NDArray[np.intp], n: int
) -> list[tuple[float, int]]:
    """From the strongest patterns to the strongest groups: by falling advantage, then in the log's order."""
    found = [
        (advantage, group)
        for advantage, pattern in candidates
        for group in np.flatnonzero(pattern_G == pattern)[:n].tolist()
    ]
    return sorted(found, key=lambda one: (-one[0], one[1]))[:n]


def _hashes(rewards_N: NDArray[np.float64], bounds: NDArray[np.intp]) -> NDArray[np.uint64]:
    """A number for each group that does not depend on the order of its rewards. Shape [G].

    Source:
        Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014: the mixing function.
    """
    hash_G = np.empty(len(bounds) - 1, dtype=np.uint64)
    first = 0
    while first < len(hash_G):
        last = int(np.searchsorted(bounds, bounds[first] + BLOCK_ROLLOUTS, side="left"))
        last = min(max(last, first + 1), len(hash_G))
        mixed_N = (rewards_N[bounds[first] : bounds[last]] + 0.0).view(np.uint64)  # + 0.0 makes a copy, and 0 of -0
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed_N ^= mixed_N >> np.uint64(shift)
            mixed_N *= np.uint64(factor)
        mixed_N ^= mixed_N >> np.uint64(31)
        mixed_N += np.uint64(0x9E3779B97F4A7C15)  # 0 is mixed to 0, and would not be counted
        hash_G[first:last] = np.add.reduceat(mixed_N, bounds[first:last] - bounds[first])
        first = last
    return hash_G
