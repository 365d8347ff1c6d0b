"""The figures of a verifier on a set of pairs, each as sums that add up over problems.

A bootstrap over problems then only has to add the sums of the problems it draws.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corpo_rl.assessment.answers import Answer
from corpo_rl.core.calibration import auroc, brier_score, expected_calibration_error
from corpo_rl.core.intervals import ClusterFigure, ratio_of_sums
from corpo_rl.core.passk import pass_at_k
from corpo_rl.records import VerifierItem

LEVELS = 11
"""Scores are 0 to 10."""
PROBABILITIES = np.arange(LEVELS) / 10
"""What a score claims: the probability that the answer is right."""

KINDS = {
    "mixed": "one right and one wrong answer",
    "both_right": "two right answers",
    "both_wrong": "two wrong answers",
}

PAIRS, COMPLETIONS, PARSED = "pairs", "completions", "parsed completions"
PARSED_MIXED, SCORES, BOTH_PARSED = "parsed, mixed pairs", "scores of what parsed", "pairs parsed both ways"

PASS_AT_K = (PAIRS, "Chance that at least one of k completions has both scores on the right side of 5 (unbiased).")

FIGURES: Mapping[str, tuple[str, str]] = {
    **{
        f"accuracy_{kind}": (COMPLETIONS, f"Share of completions with both scores right, on pairs of {about}.")
        for kind, about in KINDS.items()
    },
    "accuracy_parsed": (PARSED, "Share of parsed completions with both scores on the right side of 5."),
    "score_accuracy": (SCORES, "Share of single scores on the right side of 5; a 5 is on neither."),
    "ordering": (PARSED_MIXED, "Share of completions that score the right answer over the wrong one; a tie is half."),
    "auroc": (SCORES, "Chance that a right answer scores over a wrong one, of any two pairs; a tie is half."),
    "brier": (SCORES, "Mean squared distance of score / 10 from the label: 0 best, 0.25 for 5 everywhere."),
    "ece": (SCORES, "Mean distance of score / 10 from the share of right answers at that score; 11 scores, 11 bins."),
    "mean_reward": (COMPLETIONS, "Mean reward, -1 for a completion that does not parse."),
    "hedge_rate": (PARSED, "Share of parsed completions that give 5 and 5."),
    "parse_failure_rate": (COMPLETIONS, "Share of completions that do not hold two scores in the form asked for."),
    "position_bias": (BOTH_PARSED, "Mean of the score an answer gets as A minus the score it gets as B, in points."),
    "score_as_a": (BOTH_PARSED, "Mean score of the same answers when each stands first."),
    "score_as_b": (BOTH_PARSED, "Mean score of the same answers when each stands second."),
    "preference_flip_rate": (BOTH_PARSED, "Share of pairs where each order scores another one of the answers higher."),
    "verdict_flip_rate": (
        BOTH_PARSED,
        "Share of pairs where some answer's score changes its side of 5 with the order.",
    ),
}
"""What each figure is over, and what it is; pass@k comes beside them, one for each k."""

OF_BOTH_ORDERS = tuple(name for name, (over, _) in FIGURES.items() if over == BOTH_PARSED)
"""Figures that only pairs asked in both orders have."""


@dataclass(frozen=True)
class Measured:
    """A figure, ready to be resampled, and how many it is over."""

    figure: ClusterFigure
    n: int
    """Pairs, completions or scores, as `FIGURES` says."""


@dataclass(frozen=True)
class Columns:
    """Completions as columns, one row each; P problems. Scores stand in the item's own order, 0 where not parsed."""

    problem_N: NDArray[np.intp]  # noqa: N815
    pair_N: NDArray[np.intp]  # noqa: N815
    """Pair of each completion, 0 to I-1."""
    swapped_N: NDArray[np.bool_]  # noqa: N815
    sample_N: NDArray[np.intp]  # noqa: N815
    parsed_N: NDArray[np.bool_]  # noqa: N815
    correct_N: NDArray[np.bool_]  # noqa: N815
    reward_N: NDArray[np.float64]  # noqa: N815
    score_NA: NDArray[np.int64]  # noqa: N815
    label_NA: NDArray[np.int64]  # noqa: N815
    n_problems: int

    def share(self, hit_N: ArrayLike, among_N: ArrayLike) -> Measured:
        """Sum of one column over the rows of another, in which what is summed has to lie."""
        hit_N, among_N = np.asarray(hit_N, dtype=np.float64), np.asarray(among_N, dtype=np.float64)
        columns = (np.bincount(self.problem_N, weights, self.n_problems) for weights in (hit_N * among_N, among_N))
        return Measured(ClusterFigure(np.stack(list(columns), axis=1), ratio_of_sums), int(among_N.sum()))


def kind_of(item: VerifierItem) -> str:
    """Which of `KINDS` a pair is of."""
    if item.label_a != item.label_b:
        return "mixed"
    return "both_right" if item.label_a else "both_wrong"


def columns_of(answers: Sequence[Answer], problems: Sequence[str]) -> Columns:
    """Completions as columns.

    Args:
        answers: The completions.
        problems: The problems, each a cluster: the same for two models that are compared.
    """
    place_of = {problem: place for place, problem in enumerate(problems)}
    pair_of: dict[tuple[str, str], int] = {}
    for answer in answers:
        pair_of.setdefault((answer.item.split, answer.item.item_id), len(pair_of))
    scores = [(0, 0) if answer.scores is None else (answer.scores.a, answer.scores.b) for answer in answers]
    return Columns(
        problem_N=np.array([place_of[answer.item.problem] for answer in answers], dtype=np.intp),
        pair_N=np.array([pair_of[answer.item.split, answer.item.item_id] for answer in answers], dtype=np.intp),
        swapped_N=np.array([answer.swapped for answer in answers], dtype=bool),
        sample_N=np.array([answer.sample for answer in answers], dtype=np.intp),
        parsed_N=np.array([answer.scores is not None for answer in answers], dtype=bool),
        correct_N=np.array([answer.correct for answer in answers], dtype=bool),
        reward_N=np.array([answer.reward for answer in answers], dtype=np.float64),
        score_NA=np.array(scores, dtype=np.int64).reshape(-1, 2),
        label_NA=np.array([(answer.item.label_a, answer.item.label_b) for answer in answers]).reshape(-1, 2),
        n_problems=len(problems),
    )


def measured(columns: Columns, *, ks: Sequence[int]) -> dict[str, Measured]:
    """Every figure of `FIGURES`, and pass@k before them.

    Figures that need both orders are there, undefined, when only one was asked for.

    Args:
        columns: The completions.
        ks: The k of each pass@k; undefined where a pair has fewer completions of an order than k.
    """
    c = columns
    all_N = np.ones(len(c.pair_N), dtype=bool)
    n_right_N = c.label_NA.sum(axis=1)
    # twice the distance of a score from 5, on the right side when above 0
    side_NA = np.sign(c.score_NA - 5) * (2 * c.label_NA - 1)
    difference_N = (c.score_NA[:, 0] - c.score_NA[:, 1]) * (c.label_NA[:, 0] - c.label_NA[:, 1])
    score_accuracy = c.share((side_NA > 0).mean(axis=1), c.parsed_N)
    counts = level_counts(c)
    return {
        **{f"pass@{k}": _pass_at_k(c, k) for k in ks},
        **{
            f"accuracy_{kind}": c.share(c.correct_N, n_right_N == n_right)
            for kind, n_right in (("mixed", 1), ("both_right", 2), ("both_wrong", 0))
        },
        "accuracy_parsed": c.share(c.correct_N, c.parsed_N),
        "score_accuracy": Measured(score_accuracy.figure, 2 * score_accuracy.n),
        "ordering": c.share((np.sign(difference_N) + 1) / 2, c.parsed_N & (n_right_N == 1)),
        **{name: Measured(figure, int(counts.sum())) for name, figure in _of_counts(counts).items()},
        "mean_reward": c.share(c.reward_N, all_N),
        "hedge_rate": c.share((c.score_NA == 5).all(axis=1), c.parsed_N),
        "parse_failure_rate": c.share(~c.parsed_N, all_N),
        **_of_both_orders(c),
    }


def accuracy_of_domains(columns: Columns, answers: Sequence[Answer]) -> dict[str, Measured]:
    """Share of completions with both scores right for the pairs of each domain, by name."""
    domain_N = np.array([answer.item.domain for answer in answers])
    return {str(domain): columns.share(columns.correct_N, domain_N == domain) for domain in np.unique(domain_N)}


def right_at_levels(columns: Columns) -> list[Measured]:
    """For each score from 0 to 10, the share of right answers among those that got it."""
    counts = level_counts(columns)
    return [
        Measured(
            ClusterFigure(np.stack([counts[:, level, 1], counts[:, level].sum(axis=1)], axis=1), ratio_of_sums),
            int(counts[:, level].sum()),
        )
        for level in range(LEVELS)
    ]


def level_counts(columns: Columns) -> NDArray[np.float64]:
    """Answers of each problem at each score, wrong and right apart; parsed completions only. Shape [P, K, 2]."""
    c = columns
    counts = np.zeros((c.n_problems, LEVELS, 2))
    for answer in (0, 1):
        np.add.at(
            counts,
            (c.problem_N[c.parsed_N], c.score_NA[c.parsed_N, answer], c.label_NA[c.parsed_N, answer]),
            1,
        )
    return counts


def _pass_at_k(c: Columns, k: int) -> Measured:
    """Mean over the pairs; that of a pair is the mean over the orders in which it was asked."""
    order_N = 2 * c.pair_N + c.swapped_N
    orders, first_Q, place_N, size_Q = np.unique(order_N, return_index=True, return_inverse=True, return_counts=True)
    passed_Q = pass_at_k(np.bincount(place_N, c.correct_N, len(orders)).astype(np.int64), size_Q, k=k)
    defined_Q = ~np.isnan(passed_Q)
    n_orders_I = np.bincount(orders[defined_Q] // 2, minlength=int(c.pair_N.max(initial=-1)) + 1)
    weight_Q = np.where(defined_Q, 1 / np.maximum(n_orders_I[orders // 2], 1), 0.0)
    problem_Q = c.problem_N[first_Q]
    columns = (
        np.bincount(problem_Q, weights, c.n_problems)
        for weights in (np.where(defined_Q, passed_Q, 0.0) * weight_Q, weight_Q)
    )
    return Measured(ClusterFigure(np.stack(list(columns), axis=1), ratio_of_sums), int((n_orders_I > 0).sum()))


def _of_counts(counts: NDArray[np.float64]) -> dict[str, ClusterFigure]:
    flat = counts.reshape(len(counts), 2 * LEVELS)
    return {
        "auroc": ClusterFigure(flat, lambda sums: auroc(sums[..., 1::2], sums[..., ::2])),
        "brier": ClusterFigure(flat, lambda sums: brier_score(sums[..., 1::2], sums[..., ::2], PROBABILITIES)),
        "ece": ClusterFigure(
            flat, lambda sums: expected_calibration_error(sums[..., 1::2], sums[..., ::2], PROBABILITIES)
        ),
    }


def _of_both_orders(c: Columns) -> dict[str, Measured]:
    """What the order of the answers does, over the pairs with parsed completions in both orders.

    Flips compare the first completion of one order with the first of the other, the second with the second, and so on.
    """
    rows_of: defaultdict[int, tuple[dict[int, int], dict[int, int]]] = defaultdict(lambda: ({}, {}))
    for row in np.flatnonzero(c.parsed_N):
        rows_of[int(c.pair_N[row])][int(c.swapped_N[row])][int(c.sample_N[row])] = int(row)
    found = {name: np.zeros((c.n_problems, 2)) for name in OF_BOTH_ORDERS}
    counted = dict.fromkeys(OF_BOTH_ORDERS, 0)

    def add(name: str, problem: int, value: float) -> None:
        found[name][problem] += (value, 1)
        counted[name] += 1

    for straight, swapped in rows_of.values():
        if not straight or not swapped:
            continue
        problem = int(c.problem_N[next(iter(straight.values()))])
        # answer A stands first when straight, answer B when swapped
        one_A = c.score_NA[list(straight.values())].mean(axis=0)
        other_A = c.score_NA[list(swapped.values())].mean(axis=0)
        first, second = (one_A[0] + other_A[1]) / 2, (one_A[1] + other_A[0]) / 2
        add("position_bias", problem, first - second)
        add("score_as_a", problem, first)
        add("score_as_b", problem, second)
        both = straight.keys() & swapped.keys()
        if both:
            one_NA = c.score_NA[[straight[number] for number in both]]
            other_NA = c.score_NA[[swapped[number] for number in both]]
            preferred_N = np.sign(one_NA[:, 0] - one_NA[:, 1]) * np.sign(other_NA[:, 0] - other_NA[:, 1])
            add("preference_flip_rate", problem, float((preferred_N < 0).mean()))
            sides_differ_N = (np.sign(one_NA - 5) != np.sign(other_NA - 5)).any(axis=1)
            add("verdict_flip_rate", problem, float(sides_differ_N.mean()))
    return {name: Measured(ClusterFigure(sums, ratio_of_sums), counted[name]) for name, sums in found.items()}
