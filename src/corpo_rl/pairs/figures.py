"""The figures of a set of verifier pairs: what its data card says, and `numbers.json` holds."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from corpo_rl.pairs.built import BuiltPairs, DomainPart, SourcedItem
from corpo_rl.pairs.rated_files import RatedInput
from corpo_rl.pairs.shortcuts import find_shortcuts


def pair_figures(
    built: BuiltPairs,
    *,
    read: Mapping[str, RatedInput],
    inputs: Sequence[Mapping[str, str]],
    settings: Mapping[str, Any],
    command: str,
    version: str,
) -> dict[str, Any]:
    """All figures, as plain JSON values; undefined ones are None.

    Args:
        built: The pairs.
        read: What the files of each domain held, by the domain's name.
        inputs: For each input file its role, name and SHA-256.
        settings: What decided the pairs, the seed among them.
        command: The command that makes them again.
        version: Of this package.
    """
    return {
        "command": command,
        "version": version,
        "settings": dict(settings),
        "inputs": [dict(one) for one in inputs],
        "splits": {
            split: {
                "asked": part.asked,
                "why_fewer": part.why,
                "n_problems_allotted": part.n_allotted,
                **split_figures(built.split(split)),
            }
            for split, part in built.parts.items()
        },
        "domains": {part.name: _domain_figures(part, read.get(part.name)) for part in built.domains},
        "clusters": [
            {
                "problems": [
                    {"domain": domain, "problem_id": problem_id}
                    for domain, problem_id in zip(cluster.domains, cluster.problem_ids, strict=True)
                ],
                "similarity": round(cluster.similarity, 3),
            }
            for cluster in built.clusters
        ],
        "n_overlapping_problems": built.n_overlapping,
    }


def split_figures(items: Sequence[SourcedItem]) -> dict[str, Any]:
    """What can be counted in the pairs of a split.

    The labels of chance (see `find_shortcuts`) come from a seed of their own, so that the figures depend on the pairs
    alone.
    """
    pairs_of = Counter(item.problem for item in items)
    answers = [
        (item.problem, text, label, source, status)
        for item in items
        for text, label, source, status in (
            (item.answer_a, item.label_a, item.source_a, item.status_a),
            (item.answer_b, item.label_b, item.source_b, item.status_b),
        )
    ]
    uses_of = Counter((problem, text) for problem, text, *_ in answers)
    sources = Counter((source, label) for *_, label, source, _ in answers)
    return {
        "n_pairs": len(items),
        "n_problems": len(pairs_of),
        "pairs_of_a_problem": _spread(list(pairs_of.values())),
        "n_answers": len(uses_of),
        "pairs_of_an_answer": _spread(list(uses_of.values())),
        "labels": {
            "a_right": sum(item.label_a > item.label_b for item in items),
            "b_right": sum(item.label_a < item.label_b for item in items),
            "both_right": sum(item.label_a == item.label_b == 1 for item in items),
            "both_wrong": sum(item.label_a == item.label_b == 0 for item in items),
        },
        "sources": {
            source: {"right": sources[source, 1], "wrong": sources[source, 0]}
            for source in sorted({source for source, _ in sources})
        },
        "characters": {
            name: _spread([len(text) for _, text, label, *_ in answers if label == value])
            for name, value in (("right", 1), ("wrong", 0))
        },
        "status_of_wrong": dict(
            sorted(Counter(status for *_, label, _, status in answers if label == 0 and status).items())
        ),
        "shortcuts": [
            {
                "rule": shortcut.rule,
                "score": _known(shortcut.score),
                "chance": _known(shortcut.chance.value),
                "chance_low": _known(shortcut.chance.low),
                "chance_high": _known(shortcut.chance.high),
            }
            for shortcut in (find_shortcuts(items, rng=np.random.default_rng(0)) if items else ())
        ],
    }


def _domain_figures(part: DomainPart, read: RatedInput | None) -> dict[str, Any]:
    left_out = dict(read.left_out) if read else {}
    left_out["the same as an earlier answer of its source"] = part.left_out.copies
    left_out["labelled right here and wrong there"] = part.left_out.contradictory
    return {
        "n_problems": part.n_problems,
        "n_right_and_wrong": part.n_mixed,
        "n_right_only": part.n_right_only,
        "n_wrong_only": part.n_wrong_only,
        "n_unanswered": part.n_unanswered,
        "n_right_answers": part.n_right,
        "n_wrong_answers": part.n_wrong,
        "left_out": left_out,
        "notes": list(read.notes) if read else [],
    }


def _spread(values: Sequence[int]) -> dict[str, float | None]:
    if not values:
        return {"least": None, "median": None, "most": None}
    return {"least": min(values), "median": float(np.median(values)), "most": max(values)}


def _known(value: float) -> float | None:
    return None if np.isnan(value) else round(value, 4)
