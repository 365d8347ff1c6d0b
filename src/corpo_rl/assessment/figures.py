"""The figures of a verifier on a set of pairs, with intervals by problem.

Each figure is a function of counts that add up over problems, so that a resample of problems is a sum of counts.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpo_rl.assessment.answers import Answer
from corpo_rl.core.calibration import auroc, brier_score, expected_calibration_error
from corpo_rl.core.intervals import bootstrap_figure_interval
from corpo_rl.core.passk import pass_at_k
from corpo_rl.records import Interval
from corpo_rl.tasks.verifier import Scores, min_margin_reward

LEVELS = 11
"""Scores are 0 to 10."""
PROBABILITIES = np.arange(LEVELS) / 10
"""What a score claims: the probability that the answer is right."""

KINDS = ("mixed", "both_right", "both_wrong")

FIGURES: Mapping[str, str] = {
    "accuracy": "share of completions with both scores on the right side of 5; one that is not parsed is not",
    "accuracy_mixed": "the same on pairs of one right and one wrong answer",
    "accuracy_both_right": "the same on pairs of two right answers",
    "accuracy_both_wrong": "the same on pairs of two wrong answers",
    "ordering": "share of parsed completions on mixed pairs that score the right answer higher, ties counting half",
    "auroc": "probability that a right answer scores higher than a wrong one of any pair, ties counting half; parsed",
    "brier": "mean squared distance of score / 10 from the label; parsed",
    "ece": "mean distance of score / 10 from the share of right answers at that score, the 11 scores as bins; parsed",
    "mean_reward": "mean reward, -1 for what is not parsed",
    "hedge_rate": "share of parsed completions that give 5 and 5",
    "parse_failure_rate": "share of completions that are not parsed",
    "position_bias": "mean of the score of the answer shown first minus that of the one shown second; parsed",
    "order_flip_rate": "share of pairs of completions, one in each order, whose verdicts on an answer differ; parsed",
}
"""What each figure is; pass@k comes beside them, one for each k."""

_COUNTS = ("n", "correct", "reward", "failed", "hedge", "order", "n_order", "position", "n_parsed", "flip", "n_flip")
_Figure = Callable[[NDArray[np.float64]], NDArray[np.float64]]


@dataclass(frozen=True)
class Columns:
    """Counts of each problem. Shape [P, C]."""

    names: tuple[str, ...]
    values_PC: NDArray[np.float64]  # noqa: N815

    def place(self, name: str) -> int:
        """Column of a count."""
        return self.names.index(name)


def count_columns(answers: Sequence[Answer], problems: Sequence[str], *, ks: Sequence[int]) -> Columns:
    """The counts of each problem that all figures are made of.

    Args:
        answers: The completions.
        problems: The problems, each a row: the same for two models that are compared.
        ks: The k of each pass@k.
    """
    names = (
        *_COUNTS,
        *(f"{count}_{kind}" for kind in KINDS for count in ("n", "correct")),
        *(f"right_{level}" for level in range(LEVELS)),
        *(f"wrong_{level}" for level in range(LEVELS)),
        *(f"{count}@{k}" for k in ks for count in ("pass", "n")),
    )
    column = {name: place for place, name in enumerate(names)}
    row_of = {problem: row for row, problem in enumerate(problems)}
    values_PC = np.zeros((len(problems), len(names)))
    by_question: defaultdict[tuple[str, str, bool], list[Answer]] = defaultdict(list)
    for answer in answers:
        row = values_PC[row_of[answer.item.problem]]
        for name, value in _counts(answer).items():
            row[column[name]] += value
        by_question[answer.item.split, answer.item.item_id, answer.swapped].append(answer)
    for question in by_question.values():
        row = values_PC[row_of[question[0].item.problem]]
        for k in ks:
            if len(question) >= k:
                row[column[f"pass@{k}"]] += float(pass_at_k(sum(one.correct for one in question), len(question), k=k))
                row[column[f"n@{k}"]] += 1
    for (split, item_id, swapped), question in by_question.items():
        if swapped:
            row = values_PC[row_of[question[0].item.problem]]
            flips, n_flips = _flips(by_question[split, item_id, False], question)
            row[column["flip"]] += flips
            row[column["n_flip"]] += n_flips
    return Columns(names, values_PC)


def figures(
    columns: Columns, *, ks: Sequence[int], seed: int, level: float = 0.95, against: Columns | None = None
) -> dict[str, Interval]:
    """Every figure with its interval over problems, NaN where undefined.

    Args:
        columns: Counts of each problem.
        ks: The k of each pass@k.
        seed: Of the bootstrap; the same problems are resampled for every figure and model.
        level: Coverage aimed at.
        against: Counts of another model on the same problems: the figures are then differences to it.
    """
    found = {}
    for name, figure in _all_figures(columns, ks).items():
        values_PC = columns.values_PC
        statistic = figure
        if against is not None:
            values_PC = np.concatenate([columns.values_PC, against.values_PC], axis=1)
            statistic = _difference(figure, columns.values_PC.shape[1])
        found[name] = bootstrap_figure_interval(values_PC, statistic, rng=np.random.default_rng(seed), level=level)
    return found


def kind_of(answer: Answer) -> str:
    """Which of `KINDS` a pair is of."""
    if answer.item.label_a != answer.item.label_b:
        return "mixed"
    return "both_right" if answer.item.label_a else "both_wrong"


def failure_kinds(answers: Sequence[Answer]) -> dict[str, int]:
    """Completions that were not parsed, by kind."""
    return dict(sorted(Counter(answer.failure for answer in answers if answer.failure is not None).items()))


def _counts(answer: Answer) -> dict[str, float]:
    kind = kind_of(answer)
    counts: dict[str, float] = {
        "n": 1,
        f"n_{kind}": 1,
        "correct": answer.correct,
        f"correct_{kind}": answer.correct,
        "failed": answer.scores is None,
        "reward": -1.0 if answer.scores is None else min_margin_reward(answer.item, answer.scores),
    }
    if answer.scores is None:
        return counts
    scores, item = answer.scores, answer.item
    counts |= {
        "n_parsed": 1,
        "hedge": scores == Scores(5, 5),
        "position": (scores.b - scores.a) if answer.swapped else (scores.a - scores.b),
    }
    if kind == "mixed":
        right, wrong = (scores.a, scores.b) if item.label_a else (scores.b, scores.a)
        counts |= {"n_order": 1, "order": (right > wrong) + (right == wrong) / 2}
    for score, label in ((scores.a, item.label_a), (scores.b, item.label_b)):
        name = f"{'right' if label else 'wrong'}_{score}"
        counts[name] = counts.get(name, 0) + 1
    return counts


def _flips(straight: Sequence[Answer], swapped: Sequence[Answer]) -> tuple[float, float]:
    """Verdicts on an answer that differ between the orders, over those that can be compared, sample by sample."""
    flips = compared = 0
    for one, other in zip(straight, swapped, strict=False):
        if one.scores is None or other.scores is None:
            continue
        for first, second in ((one.scores.a, other.scores.a), (one.scores.b, other.scores.b)):
            compared += 1
            flips += np.sign(first - 5) != np.sign(second - 5)
    return float(flips), float(compared)


def _all_figures(columns: Columns, ks: Sequence[int]) -> dict[str, _Figure]:
    def ratio(top: str, bottom: str) -> _Figure:
        top_at, bottom_at = columns.place(top), columns.place(bottom)
        return lambda values: _ratio(values[..., top_at], values[..., bottom_at])

    right = slice(columns.place("right_0"), columns.place("right_0") + LEVELS)
    wrong = slice(columns.place("wrong_0"), columns.place("wrong_0") + LEVELS)
    return {
        **{f"pass@{k}": ratio(f"pass@{k}", f"n@{k}") for k in ks},
        "accuracy": ratio("correct", "n"),
        **{f"accuracy_{kind}": ratio(f"correct_{kind}", f"n_{kind}") for kind in KINDS},
        "ordering": ratio("order", "n_order"),
        "auroc": lambda values: auroc(values[..., right], values[..., wrong]),
        "brier": lambda values: brier_score(values[..., right], values[..., wrong], PROBABILITIES),
        "ece": lambda values: expected_calibration_error(values[..., right], values[..., wrong], PROBABILITIES),
        "mean_reward": ratio("reward", "n"),
        "hedge_rate": ratio("hedge", "n_parsed"),
        "parse_failure_rate": ratio("failed", "n"),
        "position_bias": ratio("position", "n_parsed"),
        "order_flip_rate": ratio("flip", "n_flip"),
    }


def _difference(figure: _Figure, n_columns: int) -> _Figure:
    return lambda values: figure(values[..., :n_columns]) - figure(values[..., n_columns:])


def _ratio(top: NDArray[np.float64], bottom: NDArray[np.float64]) -> NDArray[np.float64]:
    ratio: NDArray[np.float64] = np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom != 0)
    return ratio
