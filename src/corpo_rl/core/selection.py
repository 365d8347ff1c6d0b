"""Which groups of a batch are trained on: dynamic sampling, and the variant that keeps what CoRPO learns from."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corpo_rl.core.dynamics import GROUP_CLASSES
from corpo_rl.core.groups import Groups, finite_number, index_groups, reward_vector
from corpo_rl.core.rounding import ROUNDING
from corpo_rl.errors import UsageError

RULES: tuple[str, ...] = ("all", "varying", "mixed", "keep_failed")
"""Names that `select_groups` knows."""

NEED_MIN_CORRECT = ("mixed", "keep_failed")
"""Those that ask which rollouts are correct."""

UNSCORABLE = "unscorable"
"""Beside `GROUP_CLASSES`: a group without one scorable rollout."""


@dataclass(frozen=True)
class Selection:
    """Groups that a rule keeps. Groups are numbered 0 to G-1 in no promised order; `index_N` ties them to rollouts."""

    kept_N: NDArray[np.bool_]  # noqa: N815
    """Whether each rollout's group is kept. Shape [N]."""
    kept_G: NDArray[np.bool_]  # noqa: N815
    """Whether each group is kept. Shape [G]."""
    index_N: NDArray[np.intp]  # noqa: N815
    """Group of each rollout, 0 to G-1. Shape [N]."""
    kept: dict[str, int] | None
    """Groups kept, for each of `GROUP_CLASSES` and "unscorable"; None where no `min_correct` tells the classes."""
    dropped: dict[str, int] | None
    """Groups not kept, likewise."""

    @property
    def n_kept(self) -> int:
        """Groups kept."""
        return int(np.count_nonzero(self.kept_G))

    @property
    def n_dropped(self) -> int:
        """Groups not kept."""
        return len(self.kept_G) - self.n_kept


def select_groups(
    rewards: ArrayLike,
    group_ids: ArrayLike,
    *,
    rule: str,
    min_correct: float | None = None,
    tolerance: float = ROUNDING,
) -> Selection:
    """Groups to train on.

    For group g with scorable rewards R_j, of which c_g reach `min_correct` and n_g are there:

        all           every group
        varying       max R_j > min R_j up to rounding: the group-mean baseline gives some rollout an advantage
        mixed         0 < c_g < n_g: DAPO's dynamic sampling, which asks for accuracy and not for reward
        keep_failed   varying, or c_g = 0: also every group that all failed, equally too

    With 0/1 rewards "varying" and "mixed" are the same. With graded ones they are not: "mixed" drops every all-failed
    group, and those are the groups over which CoRPO's floor stands (each rollout of one has advantage
    R_i - min_correct < 0). "keep_failed" keeps them all; what it drops are the groups that all succeeded equally, where
    CoRPO's advantages are 0.

    Args:
        rewards: Reward of each rollout, in task units; NaN where unscorable. Shape [N].
        group_ids: Prompt each rollout answers, integers or strings, in any row order. Shape [N].
        rule: One of `RULES`. Every rule but "all" drops a group without a scorable rollout.
        min_correct: Least reward that counts as correct, in task units. "mixed" and "keep_failed" need it; given for
            the others, it tells the classes of the groups counted.
        tolerance: Rewards of a group are equal when max - min is at most this share of the largest magnitude.

    Returns:
        Masks over rollouts and groups, and the groups kept and dropped by class.

    Raises:
        DataError: A shape is wrong, a value is not finite (NaN rewards aside), or the ids are neither integers nor
            strings.
        UsageError: The rule is unknown, or needs a `min_correct` that is not given.

    Source:
        Yu et al., DAPO, https://arxiv.org/abs/2503.14476, dynamic sampling: 0 < number of correct answers < G.
        "varying" is its form for graded rewards and "keep_failed" a variant of ours; neither is in the paper.

    Example:
        >>> rewards, groups = [0.0, 0.2, 0.0, 0.0, 0.1, 1.0, 1.0, 1.0], [0, 0, 1, 1, 2, 2, 3, 3]
        >>> for rule in RULES:
        ...     print(rule, select_groups(rewards, groups, rule=rule, min_correct=1.0).kept_G)
        all [ True  True  True  True]
        varying [ True False  True False]
        mixed [False False  True False]
        keep_failed [ True  True  True False]
    """
    if rule not in RULES:
        raise UsageError(f"rule: expected one of {', '.join(RULES)}, got {rule!r}")
    if rule in NEED_MIN_CORRECT and min_correct is None:
        raise UsageError(f"min_correct: the rule {rule!r} asks which rollouts are correct; pass the least such reward")
    rewards_N = reward_vector(rewards, unscorable="exclude")
    groups = index_groups(group_ids, n=len(rewards_N))
    threshold = None if min_correct is None else finite_number("min_correct", min_correct)

    varying_G = _varying(groups, rewards_N, tolerance=tolerance)
    scorable_G = groups.any(~np.isnan(rewards_N))
    class_G = None if threshold is None else _classes(groups, rewards_N, varying_G, threshold=threshold)
    if rule == "all":
        kept_G = np.ones(len(groups.size_G), dtype=np.bool_)
    elif rule == "varying":
        kept_G = varying_G
    else:
        assert threshold is not None, "checked above"
        any_correct_G = groups.any(rewards_N >= threshold)
        any_failed_G = groups.any(rewards_N < threshold)
        kept_G = any_correct_G & any_failed_G if rule == "mixed" else varying_G | (scorable_G & ~any_correct_G)
    return Selection(
        kept_N=groups.per_rollout(kept_G),
        kept_G=kept_G,
        index_N=groups.index_N,
        kept=None if class_G is None else _counts(class_G[kept_G]),
        dropped=None if class_G is None else _counts(class_G[~kept_G]),
    )


def group_classes(
    rewards: ArrayLike, group_ids: ArrayLike, *, min_correct: float, tolerance: float = ROUNDING
) -> list[str]:
    """Class of the group of each rollout: one of `GROUP_CLASSES`, or "unscorable". Length N.

    Args:
        rewards: Reward of each rollout, in task units; NaN where unscorable. Shape [N].
        group_ids: Prompt each rollout answers, integers or strings. Shape [N].
        min_correct: Least reward that counts as correct, in task units.
        tolerance: As in `select_groups`.

    Raises:
        DataError: As in `select_groups`.

    Example:
        >>> group_classes([0.0, 0.2, 1.0], ["a", "a", "b"], min_correct=0.5)
        ['all_failed_graded', 'all_failed_graded', 'all_correct_equal']
    """
    rewards_N = reward_vector(rewards, unscorable="exclude")
    groups = index_groups(group_ids, n=len(rewards_N))
    threshold = finite_number("min_correct", min_correct)
    varying_G = _varying(groups, rewards_N, tolerance=tolerance)
    class_G = _classes(groups, rewards_N, varying_G, threshold=threshold)
    names = (*GROUP_CLASSES, UNSCORABLE)
    return [names[number] for number in groups.per_rollout(class_G)]


def _varying(groups: Groups, rewards_N: NDArray[np.float64], *, tolerance: float) -> NDArray[np.bool_]:
    """Whether the scorable rewards of each group differ. Shape [G]."""
    known_N = ~np.isnan(rewards_N)
    low_G = np.full(len(groups.size_G), np.inf)
    high_G = np.full(len(groups.size_G), -np.inf)
    np.minimum.at(low_G, groups.index_N[known_N], rewards_N[known_N])
    np.maximum.at(high_G, groups.index_N[known_N], rewards_N[known_N])
    varying_G: NDArray[np.bool_] = high_G - low_G > tolerance * np.maximum(np.abs(low_G), np.abs(high_G))
    return varying_G  # without a scorable one: -inf > inf, which is False


def _classes(
    groups: Groups, rewards_N: NDArray[np.float64], varying_G: NDArray[np.bool_], *, threshold: float
) -> NDArray[np.intp]:
    """Place of each group's class in `GROUP_CLASSES`, one past their end for unscorable. Shape [G]."""
    failing_G, passing_G = groups.any(rewards_N < threshold), groups.any(rewards_N >= threshold)
    place = {name: number for number, name in enumerate((*GROUP_CLASSES, UNSCORABLE))}
    return np.select(
        [
            failing_G & passing_G,
            failing_G & varying_G,
            failing_G,
            passing_G & varying_G,
            passing_G,
        ],
        [
            place["mixed"],
            place["all_failed_graded"],
            place["all_failed_equal"],
            place["all_correct_graded"],
            place["all_correct_equal"],
        ],
        default=place[UNSCORABLE],
    ).astype(np.intp)


def _counts(class_M: NDArray[np.intp]) -> dict[str, int]:
    names = (*GROUP_CLASSES, UNSCORABLE)
    return dict(zip(names, np.bincount(class_M, minlength=len(names)).tolist(), strict=True))
