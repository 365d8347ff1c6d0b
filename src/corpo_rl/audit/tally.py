"""What the advantages of a log did, by group: failed and correct rollouts pushed up, left alone, pushed down."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpo_rl.audit.blocks import Block, weighted_counts
from corpo_rl.core.advantages import ESTIMATORS, THRESHOLD_ESTIMATORS, estimate_advantages
from corpo_rl.core.dynamics import GROUP_CLASSES
from corpo_rl.core.rounding import ROUNDING, SMALLEST

FAILED, CORRECT, UNKNOWN = 0, 1, 2
"""Verdict on a rollout; unknown where it has no reward or, judged by a label, no label."""

N_CODES = 7
"""Cells a rollout may fall in: verdict x 3 + sign + 1 for failed and correct ones, 6 for the rest."""

CLASS_NAMES = (*GROUP_CLASSES, "unscorable")


@dataclass(frozen=True)
class Judge:
    """What makes a rollout correct: a least reward, or else a label of the log."""

    min_correct: float | None
    by_label: bool = False

    @property
    def known(self) -> bool:
        """Whether anything says what is correct."""
        return self.min_correct is not None or self.by_label

    def verdicts(self, block: Block) -> NDArray[np.intp]:
        """FAILED, CORRECT or UNKNOWN for each rollout. Shape [N]."""
        rewards_N = block.rewards_N
        if self.min_correct is not None:
            verdict_N = np.where(rewards_N >= self.min_correct, CORRECT, FAILED)
            return np.where(np.isnan(rewards_N), UNKNOWN, verdict_N)
        if not self.by_label or block.labels_N is None:
            return np.full(len(rewards_N), UNKNOWN)
        unknown_N = np.isnan(rewards_N) | np.isnan(block.labels_N)
        return np.where(unknown_N, UNKNOWN, (block.labels_N > 0.5).astype(np.intp))


@dataclass(frozen=True)
class Scored:
    """Advantages of a block's rollouts and their signs; a sign of NaN where the log gives no advantage. Shape [N]."""

    advantages_N: NDArray[np.float64]  # noqa: N815
    sign_N: NDArray[np.float64]  # noqa: N815


@dataclass(frozen=True)
class Tally:
    """Counts of a log by group, under one estimator. G groups."""

    cells_GC: NDArray[np.int32]  # noqa: N815
    """Rollouts of each group in each cell. Shape [G, N_CODES]."""
    signs_G3: NDArray[np.int32]  # noqa: N815
    """Scorable rollouts pushed down, left alone, pushed up. Shape [G, 3]."""
    mass_GC: NDArray[np.float64]  # noqa: N815
    """Sum of |A| in each cell. Shape [G, N_CODES]."""
    signed_mass_G2: NDArray[np.float64]  # noqa: N815
    """Sum of |A| pushed down and up. Shape [G, 2]."""
    token_mass_C: NDArray[np.float64] | None  # noqa: N815
    """Sum of |A| x length in each cell, over the rollouts that have a length. Shape [N_CODES]."""
    token_signs_2: NDArray[np.float64] | None
    """Sum of |A| x length pushed down and up."""
    reward_G: NDArray[np.float64]  # noqa: N815
    """Sum of the rewards known. Shape [G]."""
    mean_G: NDArray[np.float64]  # noqa: N815
    """Mean reward, NaN where none is known. Shape [G]."""
    class_G: NDArray[np.intp]  # noqa: N815
    """Index into CLASS_NAMES. Shape [G]."""
    equal_G: NDArray[np.bool_]  # noqa: N815
    """Whether two rewards or more are known and all are equal up to rounding. Shape [G]."""
    scorable_G: NDArray[np.intp]  # noqa: N815
    """Rollouts with a reward. Shape [G]."""
    size_G: NDArray[np.intp]  # noqa: N815
    """Rollouts. Shape [G]."""
    n_without_advantage: int
    """Scorable rollouts for which the log gives no advantage."""
    n_without_length: int
    weight_G: NDArray[np.int64] | None = None  # noqa: N815
    """How often each group counts; None for once. Shape [G]."""
    pattern_G: NDArray[np.intp] | None = None  # noqa: N815
    """For each group of the whole log, the group here that it is like; None when they are the same. Shape [all G]."""

    def total(self, values_G: NDArray[Any]) -> Any:
        """Sum over the groups of the whole log. Shape [C] of [G, C], or a number of [G]."""
        return values_G.sum(axis=0) if self.weight_G is None else self.weight_G @ values_G

    @property
    def n_groups(self) -> int:
        """Groups of the whole log."""
        return len(self.size_G if self.pattern_G is None else self.pattern_G)

    def spread(self, values_G: NDArray[Any]) -> NDArray[Any]:
        """The value of each group of the whole log. Shape [all G]."""
        return values_G if self.pattern_G is None else values_G.take(self.pattern_G)


_BY_GROUP = (
    "cells_GC", "signs_G3", "mass_GC", "signed_mass_G2", "reward_G", "mean_G", "class_G", "equal_G", "scorable_G",
    "size_G",
)  # fmt: skip


@dataclass
class Counterfactual:
    """Totals of a log under one estimator."""

    n_failed: int = 0
    n_reinforced_failures: int = 0
    positive: int = 0
    zero: int = 0
    negative: int = 0
    positive_mass: float = 0.0
    negative_mass: float = 0.0
    zero_signal_groups: int = 0
    negative_only_groups: int = 0
    sign_flips: int = 0
    """Rollouts whose sign is not the headline's."""


def signs(advantages_N: NDArray[np.float64], tolerance: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """-1, 0 or 1, 0 within the tolerance, NaN for NaN. Shape [N]."""
    return np.where(np.abs(advantages_N) <= tolerance, 0.0, np.sign(advantages_N))


def recomputed(block: Block, estimator: str, min_correct: float | None) -> Scored:
    """Advantages of the block's rollouts under an estimator; their signs as if rewards did not round."""
    advantages_N = estimate_advantages(
        estimator, block.rewards_N, block.group_N, min_correct=min_correct, unscorable="exclude"
    )
    if estimator == "grpo":  # dividing by the group's std changes no sign, and blows rounding up
        centred_N = estimate_advantages("dr_grpo", block.rewards_N, block.group_N, unscorable="exclude")
        sign_N = signs(centred_N, block.rounding_N)
        return Scored(np.where(sign_N == 0, 0.0, advantages_N), sign_N)
    sign_N = signs(advantages_N, block.rounding_N)
    return Scored(np.where(sign_N == 0, 0.0, advantages_N), sign_N)


def as_logged(block: Block, reproduced_by: str | None, min_correct: float | None) -> Scored:
    """The advantages the run logged. Their signs are those of the estimator that reproduces them, where one does.

    Where none does, an advantage counts as 0 up to 1e-9 of the group's largest, and in a group of equal rewards up to
    1e-2: with a standard deviation of 1e-9 to divide by, rounding can get that large.
    """
    logged_N = block.advantages_N
    assert logged_N is not None, "the log has advantages"
    known_N = np.isfinite(logged_N)
    if reproduced_by is not None:
        sign_N = recomputed(block, reproduced_by, min_correct).sign_N
    else:
        largest_G = np.fmax.reduceat(np.abs(logged_N), block.start_G)
        tolerance_N = np.maximum(ROUNDING * np.nan_to_num(largest_G), SMALLEST)[block.group_N]
        spread_G = spreads(block)
        flat_G = spread_G <= block.rounding_N[block.start_G]
        sign_N = signs(logged_N, np.where(flat_G[block.group_N], np.maximum(tolerance_N, 1e-2), tolerance_N))
    pushed_N = known_N & (sign_N != 0)
    return Scored(np.where(pushed_N, logged_N, 0.0), np.where(known_N, sign_N, np.nan))


def spreads(block: Block) -> NDArray[np.float64]:
    """Largest less smallest reward of each group; NaN where no reward is known. Shape [G]."""
    high_G: NDArray[np.float64] = np.fmax.reduceat(block.rewards_N, block.start_G)
    return high_G - np.fmin.reduceat(block.rewards_N, block.start_G)


def cells(verdict_N: NDArray[np.intp], sign_N: NDArray[np.float64]) -> NDArray[np.intp]:
    """Cell of each rollout: verdict x 3 + sign + 1, or 6 where verdict or sign is unknown. Shape [N]."""
    unknown_N = (verdict_N == UNKNOWN) | np.isnan(sign_N)
    return np.where(unknown_N, N_CODES - 1, verdict_N * 3 + np.nan_to_num(sign_N).astype(np.intp) + 1)


def tally_block(block: Block, scored: Scored, verdict_N: NDArray[np.intp]) -> Tally:
    """Count one block, given the verdict on each of its rollouts."""
    rewards_N, sign_N = block.rewards_N, scored.sign_N
    scorable_N = ~np.isnan(rewards_N)
    cell_N = cells(verdict_N, sign_N)
    push_N = np.where(scorable_N & ~np.isnan(sign_N), np.nan_to_num(sign_N).astype(np.intp) + 1, 3)
    mass_N = np.abs(scored.advantages_N)

    cells_GC = block.codes(cell_N, N_CODES)
    signed_G4 = block.sums(push_N, mass_N, 4)
    n_verdicts_G3 = block.codes(verdict_N, 3)
    scorable_G = block.codes(scorable_N.astype(np.intp), 2)[:, 1]
    groups = block.groups
    equal_G = (spreads(block) <= block.rounding_N[block.start_G]) & (scorable_G > 0)

    token_C = token_2 = None
    n_without_length = 0
    if block.lengths_N is not None:
        with_length_N = np.isfinite(block.lengths_N)
        n_without_length = int(np.count_nonzero(~with_length_N))
        tokens_N = mass_N * np.where(with_length_N, block.lengths_N, 0.0)
        token_C = weighted_counts(cell_N, tokens_N, N_CODES)
        token_2 = weighted_counts(push_N, tokens_N, 4)[[0, 2]]
    return Tally(
        cells_GC=cells_GC.astype(np.int32),
        signs_G3=block.codes(push_N, 4)[:, :3].astype(np.int32),
        mass_GC=block.sums(cell_N, mass_N, N_CODES),
        signed_mass_G2=signed_G4[:, [0, 2]],
        token_mass_C=token_C,
        token_signs_2=token_2,
        reward_G=block.of_groups(np.where(scorable_N, rewards_N, 0.0), np.add),
        mean_G=groups.mean(rewards_N),
        class_G=_classes(n_verdicts_G3[:, FAILED] > 0, n_verdicts_G3[:, CORRECT] > 0, equal_G),
        equal_G=equal_G & (scorable_G > 1),
        scorable_G=scorable_G,
        size_G=groups.size_G,
        n_without_advantage=int(np.count_nonzero(np.isnan(sign_N) & scorable_N)),
        n_without_length=n_without_length,
    )


def _classes(
    failing_G: NDArray[np.bool_], passing_G: NDArray[np.bool_], equal_G: NDArray[np.bool_]
) -> NDArray[np.intp]:
    class_G = np.where(passing_G, np.where(equal_G, 4, 3), np.where(equal_G, 0, 1))
    class_G = np.where(failing_G & passing_G, 2, class_G)
    return np.where(failing_G | passing_G, class_G, len(CLASS_NAMES) - 1)


def joined(parts: Iterable[Tally]) -> Tally:
    """The blocks' tallies as one, in order."""
    tallies = list(parts)

    def rows(name: str) -> NDArray[np.generic]:
        return np.concatenate([getattr(part, name) for part in tallies])

    def total(name: str) -> NDArray[np.float64] | None:
        if getattr(tallies[0], name) is None:
            return None
        summed: NDArray[np.float64] = np.sum([getattr(part, name) for part in tallies], axis=0)
        return summed

    return Tally(
        **{name: rows(name) for name in _BY_GROUP},  # type: ignore[arg-type]
        token_mass_C=total("token_mass_C"),
        token_signs_2=total("token_signs_2"),
        n_without_advantage=sum(part.n_without_advantage for part in tallies),
        n_without_length=sum(part.n_without_length for part in tallies),
    )


def estimators_known(min_correct: float | None) -> tuple[str, ...]:
    """Names of the estimators that can be recomputed: all, or without a threshold those that need none."""
    return tuple(name for name in ESTIMATORS if min_correct is not None or name not in THRESHOLD_ESTIMATORS)


def add_counterfactual(
    total: Counterfactual, block: Block, scored: Scored, headline: Scored, verdict_N: NDArray[np.intp]
) -> None:
    """Add one block under another estimator to its totals."""
    sign_N = scored.sign_N
    scorable_N = ~np.isnan(block.rewards_N)
    push_N = np.where(scorable_N, sign_N.astype(np.intp) + 1, 3)
    cells_GC = block.codes(verdict_N * 4 + push_N, 12)
    down_G, level_G, up_G = (cells_GC[:, push] + cells_GC[:, 4 + push] + cells_GC[:, 8 + push] for push in range(3))
    total_VP = block.total(cells_GC).reshape(3, 4)
    total.n_failed += int(total_VP[FAILED, :3].sum())
    total.n_reinforced_failures += int(total_VP[FAILED, 2])
    total.negative += int(total_VP[:, 0].sum())
    total.zero += int(total_VP[:, 1].sum())
    total.positive += int(total_VP[:, 2].sum())
    total.zero_signal_groups += int(block.total((down_G + up_G == 0) & (level_G > 0)))
    total.negative_only_groups += int(block.total((down_G > 0) & (up_G == 0)))
    mass_4 = block.total(block.sums(push_N, np.abs(scored.advantages_N), 4))
    total.negative_mass += float(mass_4[0])
    total.positive_mass += float(mass_4[2])
    known_N = scorable_N & ~np.isnan(headline.sign_N)
    total.sign_flips += block.count(known_N & (sign_N != headline.sign_N))
