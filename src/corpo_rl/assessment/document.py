"""What several verifiers did on the same pairs, as one document for reports and files."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from corpo_rl.assessment.answers import Answer
from corpo_rl.assessment.figures import LEVELS, Columns, count_columns, failure_kinds, figures
from corpo_rl.errors import DataError

ALL = "all"
"""Name of the pairs of all splits together."""
_EXAMPLES = ("correct", "wrong", "not parsed")


def assess(
    answers_of: Mapping[str, Sequence[Answer]], *, ks: Sequence[int], seed: int = 0, level: float = 0.95
) -> dict[str, Any]:
    """Figures of each model on each split and on all pairs, with intervals by problem.

    Two models or more are also compared with the first: the differences have intervals of their own, in which the same
    problems are resampled for both.

    Args:
        answers_of: Completions of each model, all on the same pairs. The first is what the others are compared with.
        ks: The k of each pass@k; undefined where fewer were sampled.
        seed: Of the bootstrap.
        level: Coverage of the intervals.

    Returns:
        `splits`: name -> {`n_pairs`, `n_problems`, `models`: name -> {`n_completions`, `n_parsed`, `figures`: name ->
        {value, low, high}, `differences` (None for the first), `right_by_score`, `wrong_by_score`: 11 counts each,
        `parse_failures`: kind -> count}}; `examples`: model -> a few completions of each outcome.

    Raises:
        DataError: There is no model, or two models were not asked about the same pairs.
    """
    if not answers_of:
        raise DataError("assess: expected the completions of one model or more, found none")
    pairs = {model: {(one.item.split, one.item.item_id) for one in answers} for model, answers in answers_of.items()}
    if len({frozenset(asked) for asked in pairs.values()}) > 1:
        raise DataError("assess: the models were not asked about the same pairs; their figures cannot be compared")
    first = next(iter(answers_of.values()))
    splits = list(dict.fromkeys(answer.item.split for answer in first))
    names = [*splits, ALL] if len(splits) > 1 else splits
    return {
        "splits": {name: _split(answers_of, name, ks=ks, seed=seed, level=level) for name in names},
        "examples": {model: _examples(answers) for model, answers in answers_of.items()},
    }


def _split(
    answers_of: Mapping[str, Sequence[Answer]], split: str, *, ks: Sequence[int], seed: int, level: float
) -> dict[str, Any]:
    chosen = {
        model: [answer for answer in answers if split in (ALL, answer.item.split)]
        for model, answers in answers_of.items()
    }
    first = next(iter(chosen.values()))
    problems = list(dict.fromkeys(answer.item.problem for answer in first))
    columns = {model: count_columns(answers, problems, ks=ks) for model, answers in chosen.items()}
    base = next(iter(columns.values()))
    return {
        "n_pairs": len({(answer.item.split, answer.item.item_id) for answer in first}),
        "n_problems": len(problems),
        "models": {
            model: {
                "n_completions": len(answers),
                "n_parsed": sum(answer.scores is not None for answer in answers),
                "figures": _as_json(figures(columns[model], ks=ks, seed=seed, level=level)),
                "differences": None
                if columns[model] is base
                else _as_json(figures(columns[model], ks=ks, seed=seed, level=level, against=base)),
                "right_by_score": _levels(columns[model], "right"),
                "wrong_by_score": _levels(columns[model], "wrong"),
                "parse_failures": failure_kinds(answers),
            }
            for model, answers in chosen.items()
        },
    }


def _levels(columns: Columns, label: str) -> list[int]:
    start = columns.place(f"{label}_0")
    return [int(count) for count in columns.values_PC[:, start : start + LEVELS].sum(axis=0)]


def _as_json(found: Mapping[str, Any]) -> dict[str, Any]:
    return {name: asdict(interval) for name, interval in found.items()}


def _examples(answers: Sequence[Answer], *, n: int = 2) -> list[dict[str, Any]]:
    """The first completions of each outcome."""
    shown = []
    for outcome in _EXAMPLES:
        of_kind = [answer for answer in answers if _outcome(answer) == outcome]
        shown += [
            {
                "outcome": outcome,
                "failure": answer.failure,
                "split": answer.item.split,
                "item_id": answer.item.item_id,
                "swapped": answer.swapped,
                "problem": answer.item.problem,
                "answer_a": answer.item.answer_a,
                "answer_b": answer.item.answer_b,
                "label_a": answer.item.label_a,
                "label_b": answer.item.label_b,
                "score_a": None if answer.scores is None else answer.scores.a,
                "score_b": None if answer.scores is None else answer.scores.b,
                "completion": answer.text,
            }
            for answer in of_kind[:n]
        ]
    return shown


def _outcome(answer: Answer) -> str:
    if answer.scores is None:
        return "not parsed"
    return "correct" if answer.correct else "wrong"
