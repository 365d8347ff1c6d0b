"""What several verifiers did on the same pairs, as one document for reports and files."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import numpy as np

from corpo_rl._version import __version__
from corpo_rl.assessment.answers import Answer
from corpo_rl.assessment.figures import (
    FIGURES,
    KINDS,
    OF_BOTH_ORDERS,
    PASS_AT_K,
    Measured,
    accuracy_of_domains,
    columns_of,
    kind_of,
    level_counts,
    measured,
    right_at_levels,
)
from corpo_rl.core.intervals import cluster_bootstrap_intervals, difference_figure
from corpo_rl.errors import DataError
from corpo_rl.records import EVALUATION_SPLITS, TRAIN, Interval

SCHEMA = "corpo-rl.evaluation/1"
"""Value of the field `schema`; a change that breaks a reader raises the number."""

ALL = "all"
"""Name of the pairs of all splits together."""

SPLIT_TEXTS = {
    TRAIN: ("training pairs", "one right and one wrong answer"),
    "in_domain": ("in domain", "one right and one wrong answer, the domain trained on"),
    "ood": ("out of domain", "both answers right or both wrong, the domain trained on"),
    "other_domain": ("other domain", "one right and one wrong answer, another kind of problem"),
    ALL: ("all pairs", "every split together"),
}

OUTCOMES = ("correct", "wrong", "not parsed")

_LONGEST_TEXT = 4000
"""Characters of an example's texts that are kept."""


def assess(
    answers_of: Mapping[str, Sequence[Answer]],
    *,
    ks: Sequence[int],
    seed: int = 0,
    level: float = 0.95,
    n_resamples: int = 2000,
    settings: Mapping[str, Any] | None = None,
    command: str = "",
) -> dict[str, Any]:
    """Figures of each model on each split and on all pairs, with intervals by problem.

    Two models or more are also compared with the first: the differences have intervals of their own, in which the same
    problems are drawn for both.

    Args:
        answers_of: Completions of each model, all on the same pairs. The first is what the others are compared with.
        ks: The k of each pass@k beside pass@1; undefined where fewer were sampled.
        seed: Of the bootstrap.
        level: Coverage of the intervals.
        n_resamples: Resamples of the bootstrap.
        settings: How the completions came about, for the record; plain JSON values.
        command: The command line, for the record.

    Returns:
        What `results.json` holds; docs/evaluation.md describes it. Undefined values are None.

    Raises:
        DataError: There is no model, or two models were not asked about the same pairs.
    """
    if not answers_of:
        raise DataError("assess: expected the completions of one model or more, found none")
    asked = {frozenset(_pairs(answers)) for answers in answers_of.values()}
    if len(asked) > 1:
        raise DataError("assess: the models were not asked about the same pairs; their figures cannot be compared")
    ks = sorted({1, *ks})
    first = next(iter(answers_of.values()))
    found = {answer.item.split for answer in first}
    splits = [split for split in (*EVALUATION_SPLITS, TRAIN) if split in found]
    splits += sorted(found - set(splits))
    both_orders = any(answer.swapped for answer in first)
    names = [f"pass@{k}" for k in ks] + [name for name in FIGURES if both_orders or name not in OF_BOTH_ORDERS]
    drawing: dict[str, Any] = {"seed": seed, "level": level, "n_resamples": n_resamples}
    document = {
        "schema": SCHEMA,
        "corpo_rl_version": __version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command,
        "settings": {**(settings or {}), "models": list(answers_of), "k": ks, "bootstrap": drawing},
        "figures": {name: _about(name) for name in names},
        "splits": {
            split: _split(answers_of, split, names, ks=ks, **drawing)
            for split in ([ALL, *splits] if len(splits) > 1 else splits)
        },
        "examples": {model: _examples(answers) for model, answers in answers_of.items()},
    }
    return {name: _nan_to_none(part) for name, part in document.items()}


def _about(name: str) -> dict[str, str]:
    over, meaning = PASS_AT_K if name.startswith("pass@") else FIGURES[name]
    return {"over": over, "meaning": meaning}


def _pairs(answers: Sequence[Answer]) -> set[tuple[str, str]]:
    return {(answer.item.split, answer.item.item_id) for answer in answers}


def _split(
    answers_of: Mapping[str, Sequence[Answer]],
    split: str,
    names: Sequence[str],
    *,
    ks: Sequence[int],
    seed: int,
    level: float,
    n_resamples: int,
) -> dict[str, Any]:
    chosen = {
        model: [answer for answer in answers if split in (ALL, answer.item.split)]
        for model, answers in answers_of.items()
    }
    first = next(iter(chosen.values()))
    problems = list(dict.fromkeys(answer.item.problem for answer in first))
    items = {(answer.item.split, answer.item.item_id): answer.item for answer in first}
    columns = {model: columns_of(answers, problems) for model, answers in chosen.items()}
    figures: dict[tuple[str, str, str], Measured] = {}
    for model, found in columns.items():
        of_all = measured(found, ks=ks)
        figures |= {(model, "figures", name): of_all[name] for name in names}
        domains = accuracy_of_domains(found, chosen[model])
        figures |= {(model, "domains", domain): one for domain, one in domains.items()}
        figures |= {(model, "levels", str(place)): one for place, one in enumerate(right_at_levels(found))}
    reference = next(iter(chosen))
    differences = {
        (model, part, name): difference_figure(one.figure, figures[reference, part, name].figure)
        for (model, part, name), one in figures.items()
        if model != reference and part != "levels"
    }
    intervals = cluster_bootstrap_intervals(
        [*(one.figure for one in figures.values()), *differences.values()],
        rng=np.random.default_rng(seed),
        level=level,
        n_resamples=n_resamples,
    )
    values = dict(zip(figures, intervals, strict=False))
    compared = dict(zip(differences, intervals[len(figures) :], strict=True))

    def of(model: str, part: str) -> dict[str, Any]:
        return {
            name: {**asdict(values[key]), "n": figures[key].n}
            for key in figures
            if key[:2] == (model, part)
            for name in key[2:]
        }

    def against(model: str, part: str) -> dict[str, Any]:
        return {
            key[2]: {**asdict(interval), "verdict": _verdict(interval)}
            for key, interval in compared.items()
            if key[:2] == (model, part)
        }

    title, description = SPLIT_TEXTS.get(split, (split, ""))
    return {
        "title": title,
        "description": description,
        "n_pairs": len(items),
        "n_problems": len(problems),
        "kinds": {kind: sum(kind_of(item) == kind for item in items.values()) for kind in KINDS},
        "domains": dict(sorted(Counter(item.domain for item in items.values()).items())),
        "models": {
            model: {
                "n_completions": len(answers),
                "n_parsed": int(columns[model].parsed_N.sum()),
                "n_cut": sum(answer.finish_reason == "length" for answer in answers),
                "parse_failures": _failures(answers),
                "figures": of(model, "figures"),
                "domains": of(model, "domains"),
                "scores": list(_scores(columns[model], of(model, "levels"))),
                "differences": None
                if model == reference
                else {"figures": against(model, "figures"), "domains": against(model, "domains")},
            }
            for model, answers in chosen.items()
        },
    }


def _failures(answers: Sequence[Answer]) -> dict[str, int]:
    """Completions that were not parsed, by kind, the most frequent first."""
    kinds = Counter(answer.failure for answer in answers if answer.failure is not None)
    return dict(sorted(kinds.items(), key=lambda found: (-found[1], found[0])))


def _scores(columns: Any, shares: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    counts = level_counts(columns).sum(axis=0)
    for score, (wrong, right) in enumerate(counts.astype(int).tolist()):
        share = {name: shares[str(score)][name] for name in ("value", "low", "high")}
        yield {"score": score, "n_right": right, "n_wrong": wrong, "right_share": share}


def _verdict(difference: Interval) -> str:
    if difference.low > 0:
        return "higher"
    return "lower" if difference.high < 0 else "no difference found"


def _examples(answers: Sequence[Answer], *, n: int = 2) -> list[dict[str, Any]]:
    """A few completions of each outcome: the surest right ones, the furthest off, and the commonest parse failures."""
    order = {
        "correct": lambda answer: -answer.reward,
        "wrong": lambda answer: answer.reward,
        "not parsed": _by_kind(answers),
    }
    shown = []
    for outcome in OUTCOMES:
        of_kind = sorted((answer for answer in answers if _outcome(answer) == outcome), key=order[outcome])
        shown += [
            {
                "outcome": outcome,
                "failure": answer.failure,
                "split": answer.item.split,
                "item_id": answer.item.item_id,
                "swapped": answer.swapped,
                "problem": _cut(answer.item.problem),
                "answer_a": _cut(answer.item.answer_a),
                "answer_b": _cut(answer.item.answer_b),
                "label_a": answer.item.label_a,
                "label_b": answer.item.label_b,
                "score_a": None if answer.scores is None else answer.scores.a,
                "score_b": None if answer.scores is None else answer.scores.b,
                "finish_reason": answer.finish_reason,
                "completion": _cut(answer.text),
            }
            for answer in of_kind[:n]
        ]
    return shown


def _by_kind(answers: Sequence[Answer]) -> Any:
    """Order in which the first of each kind of failure comes before the second of any, frequent kinds first."""
    place_of: dict[int, tuple[int, int]] = {}
    rank = {kind: place for place, kind in enumerate(_failures(answers))}
    seen: Counter[str] = Counter()
    for answer in answers:
        if answer.failure is not None:
            place_of[id(answer)] = (seen[answer.failure], rank[answer.failure])
            seen[answer.failure] += 1
    return lambda answer: place_of[id(answer)]


def _outcome(answer: Answer) -> str:
    if answer.scores is None:
        return "not parsed"
    return "correct" if answer.correct else "wrong"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 3] + "..."


def _nan_to_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _nan_to_none(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_nan_to_none(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
