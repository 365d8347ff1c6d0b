"""What a verifier could score without reading: how well length, position, source and problem alone tell the labels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corpo_rl.errors import DataError
from corpo_rl.pairs.built import SourcedItem
from corpo_rl.records import Interval

_DRAWS = 400

LONGER = "the longer answer is the right one"
FIRST = "answer A is the right one"
SOURCE = "the source that is right more often"
DIFFERENCE = "difference in length (AUROC)"
THRESHOLD = "best threshold on the difference in length"
ALONE = "length of an answer by itself (AUROC)"
BOTH_LENGTH = "length of both answers (AUROC)"
PROBLEM_LENGTH = "length of the problem (AUROC)"
BOTH_SOURCES = "which sources"
PROBLEM = "which problem"


@dataclass(frozen=True)
class Shortcut:
    """How well a rule that looks at one thing alone tells the labels."""

    rule: str
    """In words. The rules of `find_shortcuts` are the constants of this module."""
    score: float
    """Share of pairs it is right about, ties counting half; for an AUROC, the chance that of two pairs (or answers)
    with different labels the longer one has the label 1. 0.5 where the thing tells nothing; an AUROC under 0.5 tells as
    much as one over it."""
    chance: Interval
    """Mean of the same figure when labels are drawn at random, and where it lies 19 times in 20. Rules that are fitted
    to the very pairs they are measured on (thresholds, sources, problems) do better than 0.5 by chance alone."""


def find_shortcuts(items: Sequence[SourcedItem], *, rng: np.random.Generator) -> tuple[Shortcut, ...]:
    """Measure the shortcuts in pairs of one kind.

    Args:
        items: Pairs of one right and one wrong answer, or pairs of two right and of two wrong answers.
        rng: Draws the labels of chance.

    Returns:
        For pairs of the first kind `LONGER`, `FIRST`, `SOURCE` (for each two sources that meet), `DIFFERENCE`,
        `THRESHOLD` (longer, or shorter, by more than so much; guessing under it) and `ALONE`; for the second kind
        `BOTH_LENGTH`, `PROBLEM_LENGTH`, `BOTH_SOURCES` and `PROBLEM` (the label that pairs by the same two sources, or
        of the same problem, have more often). An AUROC is NaN when all labels are equal.

    Raises:
        DataError: There is no pair, or there are pairs of both kinds.

    Example:
        >>> pair = dict(problem="1+1", domain="sums", split="train", source_a="x", source_b="y")
        >>> found = find_shortcuts([
        ...     SourcedItem("0", answer_a="It is 2", answer_b="3", label_a=1, label_b=0, **pair),
        ...     SourcedItem("1", answer_a="It is 3", answer_b="2", label_a=0, label_b=1, **pair),
        ... ], rng=np.random.default_rng(0))
        >>> [shortcut.score for shortcut in found]
        [0.5, 0.5, 0.5, 0.5, 0.5, 0.5]
    """
    mixed = {item.label_a != item.label_b for item in items}
    if len(mixed) != 1:
        raise DataError(
            "shortcuts are measured on pairs of one kind (one right and one wrong, or alike), found none or others"
        )
    labels_N = np.array([item.label_a for item in items])
    if mixed == {True}:
        rules = _mixed_rules(items)
        drawn = [rng.integers(2, size=len(items)) for _ in range(_DRAWS)]
    else:
        rules = _same_rules(items)
        drawn = [rng.permutation(labels_N) for _ in range(_DRAWS)]
    return tuple(Shortcut(name, rule(labels_N), _spread([rule(labels) for labels in drawn])) for name, rule in rules)


_Rule = Callable[[NDArray[np.int64]], float]
"""From the labels of answer A, shape [N], to the score."""


def _mixed_rules(items: Sequence[SourcedItem]) -> list[tuple[str, _Rule]]:
    length_a_N = np.array([len(item.answer_a) for item in items])
    length_b_N = np.array([len(item.answer_b) for item in items])
    difference_N = length_a_N - length_b_N
    rank_N, alone_2N = _ranks(difference_N), _ranks(np.concatenate([length_a_N, length_b_N]))

    order_N = np.argsort(-np.abs(difference_N), kind="stable")
    gap_N = np.abs(difference_N)[order_N]
    # a threshold takes all pairs with a difference or none
    last_of_gap_N = np.append(gap_N[1:] != gap_N[:-1], True)

    names = sorted({(*sorted((item.source_a, item.source_b)),) for item in items})
    group_N = np.array([names.index((*sorted((item.source_a, item.source_b)),)) for item in items])
    side_N = np.array([(item.source_b > item.source_a) - (item.source_b < item.source_a) for item in items])

    def threshold(label_N: NDArray[np.int64]) -> float:
        for_longer_N = np.cumsum((np.sign(difference_N) * (2 * label_N - 1))[order_N])
        return float(0.5 + np.abs(for_longer_N[last_of_gap_N]).max() / (2 * len(items)))

    def source(label_N: NDArray[np.int64]) -> float:
        for_first_G = np.bincount(group_N, weights=side_N * (2 * label_N - 1))
        return float(0.5 + np.abs(for_first_G).sum() / (2 * len(items)))

    return [
        (LONGER, lambda label_N: float(0.5 + (np.sign(difference_N) * (2 * label_N - 1)).mean() / 2)),
        (FIRST, lambda label_N: float(label_N.mean())),
        (SOURCE, source),
        (DIFFERENCE, lambda label_N: _auroc(rank_N, label_N)),
        (THRESHOLD, threshold),
        (ALONE, lambda label_N: _auroc(alone_2N, np.concatenate([label_N, 1 - label_N]))),
    ]


def _same_rules(items: Sequence[SourcedItem]) -> list[tuple[str, _Rule]]:
    both_N = _ranks([len(item.answer_a) + len(item.answer_b) for item in items])
    problem_N = _ranks([len(item.problem) for item in items])

    def majority(keys: Sequence[object]) -> _Rule:
        places = {key: place for place, key in enumerate(dict.fromkeys(keys))}
        group_N = np.array([places[key] for key in keys])

        def rule(label_N: NDArray[np.int64]) -> float:
            for_right_G = np.bincount(group_N, weights=2 * label_N - 1)
            return float(0.5 + np.abs(for_right_G).sum() / (2 * len(keys)))

        return rule

    return [
        (BOTH_LENGTH, lambda label_N: _auroc(both_N, label_N)),
        (PROBLEM_LENGTH, lambda label_N: _auroc(problem_N, label_N)),
        (BOTH_SOURCES, majority([(*sorted((item.source_a, item.source_b)),) for item in items])),
        (PROBLEM, majority([item.problem for item in items])),
    ]


def _ranks(values: ArrayLike) -> NDArray[np.float64]:
    """Ranks from 1, equal values sharing the mean of theirs. Shape [N]."""
    _, place_N, count_K = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    last_K = np.cumsum(count_K)
    ranks: NDArray[np.float64] = (last_K - (count_K - 1) / 2)[place_N]
    return ranks


def _auroc(rank_N: NDArray[np.float64], label_N: NDArray[np.int64]) -> float:
    n_right = int(label_N.sum())
    n_wrong = len(label_N) - n_right
    if not n_right or not n_wrong:
        return float("nan")
    return float((rank_N[label_N == 1].sum() - n_right * (n_right + 1) / 2) / (n_right * n_wrong))


def _spread(scores: Sequence[float]) -> Interval:
    known = [score for score in scores if score == score]
    if not known:
        return Interval(np.nan, np.nan, np.nan)
    low, high = np.quantile(known, [0.025, 0.975])
    return Interval(float(np.mean(known)), float(low), float(high))
