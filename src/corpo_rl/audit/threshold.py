"""What other thresholds would have said of the same log, and whether its rewards order right and wrong at all."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpo_rl.audit.blocks import Block
from corpo_rl.audit.tally import Scored
from corpo_rl.core.rounding import under

MOST_LEVELS = 24
"""Distinct rewards up to which each is a row of the table; with more, the table is over a grid."""

GRID = 13
"""Rows of the grid, evenly spaced from the smallest reward to the largest."""


@dataclass
class Levels:
    """Distinct rewards of a log, as far as they are few."""

    values_K: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))  # noqa: N815
    """Sorted. Shape [K]; not complete once `too_many`."""
    low: float = np.inf
    high: float = -np.inf
    too_many: bool = False

    def see(self, block: Block) -> None:
        """Take a block's rewards in."""
        rewards_N = block.rewards_N[~np.isnan(block.rewards_N)]
        if not len(rewards_N):
            return
        self.low, self.high = min(self.low, float(rewards_N.min())), max(self.high, float(rewards_N.max()))
        if self.too_many:
            return
        if len(self.values_K):  # sorting is slow: only values not seen before are sorted
            at_N = np.minimum(np.searchsorted(self.values_K, rewards_N), len(self.values_K) - 1)
            rewards_N = rewards_N[self.values_K[at_N] != rewards_N]
        if len(rewards_N):
            self.values_K = np.union1d(self.values_K, rewards_N)
            self.too_many = len(self.values_K) > MOST_LEVELS

    def thresholds(self) -> NDArray[np.float64]:
        """Rows of the table, rising. Shape [K]; empty when no reward is known."""
        if not np.isfinite(self.low):
            return np.zeros(0)
        if not self.too_many:
            return self.values_K
        return np.unique(_tidy(np.linspace(self.low, self.high, GRID)))


def _tidy(values_K: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round to three digits of the range: nobody means a threshold of 0.08333333333."""
    span = float(values_K[-1] - values_K[0])
    if span == 0:
        return values_K
    tidy_K: NDArray[np.float64] = np.round(values_K, int(2 - np.floor(np.log10(span))))
    return tidy_K


@dataclass
class LevelTable:
    """Counts at each threshold of the table."""

    thresholds_K: NDArray[np.float64]  # noqa: N815
    scorable_K: NDArray[np.int64] = field(init=False)  # noqa: N815
    """Rollouts between one threshold and the next, place k being under threshold k. Shape [K+1]."""
    up_K: NDArray[np.int64] = field(init=False)  # noqa: N815
    floored_K: NDArray[np.int64] = field(init=False)  # noqa: N815
    n_groups: int = 0
    highest: float = -np.inf

    def __post_init__(self) -> None:
        k = len(self.thresholds_K)
        self.scorable_K, self.up_K = np.zeros(k + 1, dtype=np.int64), np.zeros(k + 1, dtype=np.int64)
        self.floored_K = np.zeros(k, dtype=np.int64)

    def add(self, block: Block, headline: Scored, mean_G: NDArray[np.float64]) -> None:
        """Take a block in."""
        known_N = ~np.isnan(block.rewards_N)
        k = len(self.thresholds_K)
        place_N = np.searchsorted(self.thresholds_K, block.rewards_N, side="right")  # thresholds at or under the reward
        place_N = np.where(known_N, place_N, k + 1)
        self.scorable_K += block.total(block.codes(place_N, k + 2))[: k + 1]
        self.up_K += block.total(block.codes(np.where(headline.sign_N > 0, place_N, k + 1), k + 2))[: k + 1]
        for place, level in enumerate(self.thresholds_K.tolist()):
            self.floored_K[place] += int(block.total(under(mean_G, level)))
        self.n_groups += int(block.total(~np.isnan(mean_G)))
        self.highest = max(self.highest, float(np.fmax.reduce(block.rewards_N, initial=-np.inf)))

    def rows(self) -> list[dict[str, Any]]:
        """A row for each threshold: who fails, how many of them are reinforced, and what a floor there would do."""
        n_failed_K, n_up_K = np.cumsum(self.scorable_K)[:-1], np.cumsum(self.up_K)[:-1]
        total = int(self.scorable_K.sum())
        return [
            {
                "min_correct": level,
                "n_failed": int(n_failed),
                "n_correct": total - int(n_failed),
                "n_reinforced_failures": int(n_up),
                "reinforced_failure_share": int(n_up) / int(n_failed) if n_failed else None,
                "floored_group_share": int(n_floored) / self.n_groups if self.n_groups else None,
                "floor_state": self.state(level, int(n_floored)),
            }
            for level, n_failed, n_up, n_floored in zip(
                self.thresholds_K.tolist(), n_failed_K, n_up_K, self.floored_K, strict=True
            )
        ]

    def state(self, level: float, n_floored: int) -> str:
        """State of a floor at this level, as in `corpo_rl.floor_state`."""
        if not self.n_groups:
            return "unknown"
        if n_floored == 0:
            return "inert"
        return "active" if self.highest > level else "saturated"


@dataclass
class Ordering:
    """Whether a rollout that a label calls failed outscores one it calls correct in the same group."""

    n_groups_checked: int = 0
    """Groups with both kinds."""
    n_groups_inverted: int = 0
    n_failed_above_correct: int = 0
    """Failed rollouts with a reward over that of the worst correct one of their group."""
    n_compared: int = 0
    """Rollouts with a reward and a label."""
    n_correct_under: int = 0
    """Rollouts that the label calls correct and `min_correct` failed."""
    n_failed_over: int = 0
    """Rollouts that the label calls failed and `min_correct` correct."""

    def add(self, block: Block, min_correct: float | None) -> None:
        """Take a block in."""
        assert block.labels_N is not None, "asked only of logs with labels"
        known_N = ~np.isnan(block.labels_N) & ~np.isnan(block.rewards_N)
        right_N, wrong_N = known_N & (block.labels_N > 0.5), known_N & (block.labels_N <= 0.5)
        worst_right_G = np.minimum.reduceat(np.where(right_N, block.rewards_N, np.inf), block.start_G)
        above_N = wrong_N & (block.rewards_N > worst_right_G[block.group_N] + block.rounding_N)
        wrong_G = np.logical_or.reduceat(wrong_N, block.start_G)
        self.n_groups_checked += int(np.count_nonzero(wrong_G & np.isfinite(worst_right_G)))
        self.n_groups_inverted += int(np.count_nonzero(np.logical_or.reduceat(above_N, block.start_G)))
        self.n_failed_above_correct += int(np.count_nonzero(above_N))
        self.n_compared += int(np.count_nonzero(known_N))
        if min_correct is not None:
            passes_N = block.rewards_N >= min_correct
            self.n_correct_under += int(np.count_nonzero(right_N & ~passes_N))
            self.n_failed_over += int(np.count_nonzero(wrong_N & passes_N))
