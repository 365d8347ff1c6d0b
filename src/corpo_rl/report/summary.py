"""The results in plain sentences: chosen and filled in here, while every figure in them is read from the results."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from corpo_rl.report.view import (
    BASE,
    Results,
    capital,
    comparison,
    interval,
    joined,
    level_text,
    measure,
    method_names,
    number,
    pass_k,
    percent,
    place,
    reference,
    runs_of,
    split_names,
)

FIRST_STEPS = 10
"""Steps that count as the start of training when the report says what was reinforced there (ours)."""

MANY = 0.10
"""Share of parse failures worth a caution; hedges are from five times that (ours)."""


@dataclass(frozen=True)
class Finding:
    """A sentence of the summary."""

    kind: str
    """`poor` (a result that speaks against every method or all of a method's figures), `comparison` (method against
    reference), `level` (method against base), `dynamics` (what training did) or `caution` (how far to trust it)."""
    text: str


def headline(results: Results) -> str:
    """The verdict by pass@1, in one sentence."""
    base_line = reference(results)
    rows = [row for row in results["comparisons"] if row["measure"] == "pass@1"]
    known = [row for row in rows if not math.isnan(interval(row["difference"]).value)]
    if not known:
        names = method_names(results)
        if len(names) == 1:
            return f"Only {names[0]} was run, so there is nothing to compare it with."
        return f"No method could be compared with {base_line or 'a reference'} by pass@1."
    clauses: dict[str, list[str]] = {}
    for method in dict.fromkeys(row["method"] for row in known):
        clauses.setdefault(_verdict_clause(results, [row for row in known if row["method"] == method]), []).append(
            method
        )
    same = clauses.pop("", [])
    if not clauses:
        return f"No difference found by pass@1 between {base_line} and {joined(same, last='or')}."
    told = [f"{joined(names)} {'is' if len(names) == 1 else 'are'} {clause}" for clause, names in clauses.items()]
    if same:
        told.append(f"no difference found for {joined(same)}")
    return f"Against {base_line} by pass@1: {'; '.join(told)}."


def findings(results: Results) -> list[Finding]:
    """Every sentence of the summary, in reading order, without repeats."""
    answers = list(_answers(results))
    levels = list(_against_base(results))
    texts = [
        *(finding for finding in [*levels, *answers] if finding.kind == "poor"),
        *(Finding("comparison", text) for text in _comparisons(results)),
        *(finding for finding in levels if finding.kind == "level"),
        *(Finding("dynamics", text) for text in _dynamics(results)),
        *(finding for finding in answers if finding.kind == "caution"),
        *(Finding("caution", text) for text in _trust(results)),
        *(Finding("caution", text) for text in _runs(results)),
    ]
    return list(dict.fromkeys(texts))


def _verdict_clause(results: Results, rows: Sequence[Mapping[str, Any]]) -> str:
    """Where a method differs from the reference; empty when it differs nowhere."""
    verdicts = {row["split"]: row["verdict"] for row in rows}
    told = []
    for verdict in ("higher", "lower"):
        places = [place(results, split) for split in split_names(results) if verdicts.get(split) == verdict]
        if places:
            told.append(
                f"{verdict} {'on every split' if len(places) == len(results['splits']) > 1 else joined(places)}"
            )
    some = "no difference found" in verdicts.values()
    return " and ".join(told) + (", with no difference found elsewhere" if told and some else "")


def _comparisons(results: Results) -> Iterator[str]:
    for split in split_names(results):
        found = [comparison(results, method, split, "pass@1") for method in method_names(results)]
        told: dict[tuple[str, int, int], list[str]] = {}
        for row in found:
            if row is not None:
                told.setdefault((row["reference"], row["n_items"], row["n_seeds"]), []).append(_difference(row))
        for (base_line, n_items, n_seeds), texts in told.items():
            about = f"{level_text(results)} intervals, {_count(n_items, 'item')}, {_count(n_seeds, 'seed')}"
            yield f"{capital(place(results, split))}, pass@1 against {base_line}'s ({about}): {'; '.join(texts)}."


def _difference(row: Mapping[str, Any]) -> str:
    difference = interval(row["difference"])
    if math.isnan(difference.value):
        return f"{row['method']} undefined"
    size = number(abs(difference.value))
    way = f"{size} {'higher' if difference.value > 0 else 'lower'}" if float(size) else "the same to three digits"
    end = ", no difference found" if row["verdict"] == "no difference found" else ""
    return f"{row['method']} {way} ({number(difference.low)} to {number(difference.high)}){end}"


def _against_base(results: Results) -> Iterator[Finding]:
    for split in split_names(results):
        base = measure(results, BASE, split, "pass@1").value
        values = {name: measure(results, name, split, "pass@1").value for name in method_names(results)}
        known = {name: value for name, value in values.items() if not math.isnan(value)}
        if math.isnan(base) or not known:
            continue
        above = [f"{name} ({number(value)})" for name, value in known.items() if value > base]
        below = [f"{name} ({number(value)})" for name, value in known.items() if value < base]
        where = capital(place(results, split))
        start = f"the base's pass@1 of {number(base)}"
        if len(below) == len(known):
            who = "every method" if len(known) > 1 else "the method"
            text = f"{where}, {who} ends below {start}: {joined(below)}. Training made the policy worse there."
            yield Finding("poor", text)
            continue
        if len(above) == len(known) > 1:
            yield Finding("level", f"{where}, every method ends above {start}.")
            continue
        told = [f"{way} {start}: {joined(who)}" for way, who in (("above", above), ("below", below)) if who]
        yield Finding("level", f"{where}, {'; '.join(told) if told else f'no method moved from {start}'}.")


def _dynamics(results: Results) -> Iterator[str]:
    told = _reinforced_under_grpo(results)
    if told is not None:
        yield told
    never = []
    for name in method_names(results):
        shares = [value for run in runs_of(results, name) for _, value in _known(run, "reinforced_failure_share")]
        if shares and max(shares) == 0:
            never.append(name)
    if never:
        yield f"{joined(never)} reinforced no failed rollout in any step."


def _reinforced_under_grpo(results: Results) -> str | None:
    names = sorted(method_names(results), key=lambda name: name != "grpo")
    for run in (run for name in names for run in runs_of(results, name)):
        early = [pair for pair in _known(run, "reinforced_failure_share_grpo") if pair[0] <= FIRST_STEPS]
        if early:
            shares = [share for _, share in early]
            low, high = percent(min(shares)), percent(max(shares))
            share = low if low == high else f"between {low} and {high}"
            rule = "GRPO reinforced" if run["method"] == "grpo" else "GRPO's rule would have reinforced"
            return (
                f"In steps {early[0][0]} to {early[-1][0]} {rule} {share} of the failed rollouts of a step "
                f"({run['method']}, seed {run['seed']}): they failed, yet had a positive advantage."
            )
    return None


def _answers(results: Results) -> Iterator[Finding]:
    for split in split_names(results):
        where = capital(place(results, split))
        for name in (BASE, *method_names(results)):
            unparsed = measure(results, name, split, "parse_failure_rate").value
            hedges = measure(results, name, split, "hedge_rate").value
            who = "the base" if name == BASE else name
            if unparsed == 1:
                text = f"{where}, no answer of {who} could be parsed: its other figures there say nothing."
                yield Finding("poor", text)
            elif unparsed >= MANY:
                yield Finding("caution", f"{where}, {percent(unparsed)} of the answers of {who} could not be parsed.")
            if hedges >= 5 * MANY:
                yield Finding(
                    "caution", f"{where}, {who} hedges with (5, 5) in {percent(hedges)} of its parsed answers."
                )


def _trust(results: Results) -> Iterator[str]:
    seeds = [len(runs_of(results, name)) for name in method_names(results)]
    if seeds and min(seeds) <= 1:
        yield (
            "One seed per method: the intervals cover the choice of items only, not what another seed would give."
            if max(seeds) <= 1
            else "Some methods have one seed only: their intervals cover the choice of items, not of seeds."
        )
    k = pass_k(results)
    full = [split for split in split_names(results) if _at_ceiling(results, split)]
    if full and k != 1:
        where = joined([place(results, split) for split in full])
        chance = number(1 - 0.75**k)
        yield (
            f"pass@{k} is at its ceiling {where}: with four joint outcomes random guessing gives {chance}, "
            "so judge by pass@1."
        )


def _at_ceiling(results: Results, split: str) -> bool:
    """Whether every method reaches what guessing reaches; only where answers are two scores (they can hedge)."""
    names = [name for name in method_names(results) if name in results["methods"]]
    values = [measure(results, name, split, f"pass@{pass_k(results)}").value for name in names]
    hedges = [measure(results, name, split, "score_accuracy").value for name in names]
    two_scores = any(not math.isnan(value) for value in hedges)
    return two_scores and bool(values) and all(value >= 0.98 for value in values)


def _runs(results: Results) -> Iterator[str]:
    for name in method_names(results):
        if not runs_of(results, name):
            yield f"{name} was asked for but has no run."
    for run in results["runs"]:
        who = f"{run['method']}, seed {run['seed']}"
        if run["status"] != "finished":
            yield f"{who} is not finished (status: {run['status']}, {_count(run['steps'], 'step')} done)."
        for warning in run.get("warnings", []):
            yield f"{who}: {warning.rstrip('.')}."


def _known(run: Mapping[str, Any], curve: str) -> list[tuple[int, float]]:
    """Steps and values of a curve where it is defined."""
    curves = run.get("curves") or {}
    pairs = zip(curves.get("step", []), curves.get(curve, []), strict=False)
    return [(step, value) for step, value in pairs if value is not None]


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
