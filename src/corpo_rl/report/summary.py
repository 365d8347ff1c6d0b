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

MOST_IN_WORDS = 8
"""Methods, beside the reference, whose pairs are told one by one (ours)."""

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
    """The verdict by pass@1, in one sentence; a second one when every method did worse than no training."""
    base_line = reference(results)
    rows = [row for row in results["comparisons"] if _is_pass_1(row) and row["reference"] == base_line]
    known = [row for row in rows if not math.isnan(interval(row["difference"]).value)]
    if not known:
        names = method_names(results)
        if len(names) == 1:
            return f"Only {names[0]} was run, so there is no other method to compare it with."
        return f"No method could be compared with {base_line or 'a reference'} by pass@1."
    told, same = _verdicts(results, known)
    if not told:
        verdict = f"No difference found by pass@1 between {base_line} and {joined(same, last='or')}."
    elif len({row["method"] for row in known}) > MOST_IN_WORDS:
        n_methods = len({row["method"] for row in known})
        verdict = (
            f"Against {base_line} by pass@1, {n_methods - len(same)} of {n_methods} methods differ on some split, with "
            "no correction for so many comparisons."
        )
    else:
        told += [f"no difference found for {joined(same)}"] if same else []
        verdict = f"Against {base_line} by pass@1: {'; '.join(told)}."
    against_base = {row["verdict"] for row in results["comparisons"] if _is_pass_1(row) and row["reference"] == BASE}
    return verdict + (" All of them ended below the base on every split." if against_base == {"lower"} else "")


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


def _verdicts(results: Results, rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[str]]:
    """Who differs and where, methods with the same verdicts together; then who differs nowhere."""
    clauses: dict[str, list[str]] = {}
    for method in dict.fromkeys(row["method"] for row in rows):
        clause = _verdict_clause(results, [row for row in rows if row["method"] == method])
        clauses.setdefault(clause, []).append(method)
    same = clauses.pop("", [])
    told = [f"{joined(names)} {'is' if len(names) == 1 else 'are'} {clause}" for clause, names in clauses.items()]
    return told, same


def _verdict_clause(results: Results, rows: Sequence[Mapping[str, Any]]) -> str:
    """Where a method differs from what it is compared with; empty when it differs nowhere."""
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
    base_line = reference(results)
    for split in split_names(results):
        told: dict[tuple[int, int], list[str]] = {}
        for method in method_names(results):
            row = comparison(results, method, split, "pass@1", against=base_line)
            if row is not None:
                told.setdefault((row["n_items"], row["n_seeds"]), []).append(_difference(row))
        for (n_items, n_seeds), texts in told.items():
            about = f"{level_text(results)} intervals, {_count(n_items, 'item')}, {_count(n_seeds, 'seed')}"
            yield f"{capital(place(results, split))}, pass@1 against {base_line}'s ({about}): {'; '.join(texts)}."
    yield from _other_pairs(results)
    yield from _twins(results)


def _other_pairs(results: Results) -> Iterator[str]:
    """The pairs in which neither is the reference nor the base."""
    others = [name for name in method_names(results) if name != reference(results)]
    rows = [row for row in results["comparisons"] if _is_pass_1(row) and row["reference"] in others]
    told = []
    if len(others) > MOST_IN_WORDS:  # some hundred pairs: too many for sentences
        pairs = {(row["method"], row["reference"]) for row in rows}
        apart = {(row["method"], row["reference"]) for row in rows if row["verdict"] in ("higher", "lower")}
        if pairs:
            yield (
                f"Of the {len(pairs)} pairs among the other methods {len(apart)} differ by pass@1 on some split. So "
                "many comparisons are not corrected for their number; the results file holds each."
            )
        return
    for other in others:
        found, _ = _verdicts(results, [row for row in rows if row["reference"] == other])
        told += [f"against {other}, {clause}" for clause in found]
    if told:
        yield f"Among the other methods, by pass@1: {'; '.join(told)}."
    elif rows:
        yield f"Among {joined(others)} no difference was found by pass@1."


def _twins(results: Results) -> Iterator[str]:
    """Pairs of methods alike in every measure, with no spread: a reader must not take them for two results."""
    rows = [row for row in results["comparisons"] if row["reference"] != BASE]
    for pair in dict.fromkeys((row["method"], row["reference"]) for row in rows):
        ends = [row["difference"] for row in rows if (row["method"], row["reference"]) == pair]
        if all(end == {"value": 0, "low": 0, "high": 0} for end in ends):
            yield (f"{joined(pair)} do not differ in any measure on any split: they seem to be the same policy.")


def _is_pass_1(row: Mapping[str, Any]) -> bool:
    return bool(row["measure"] == "pass@1")


def _difference(row: Mapping[str, Any]) -> str:
    difference = interval(row["difference"])
    if math.isnan(difference.value):
        return f"{row['method']} undefined"
    size = number(abs(difference.value))
    way = f"{size} {'higher' if difference.value > 0 else 'lower'}" if float(size) else "the same to three digits"
    end = ", no difference found" if row["verdict"] == "no difference found" else ""
    return f"{row['method']} {way} ({number(difference.low)} to {number(difference.high)}){end}"


def _against_base(results: Results) -> Iterator[Finding]:
    """Verdicts against the base by pass@1: whether training helped at all."""
    for split in split_names(results):
        found: dict[str, list[str]] = {"higher": [], "lower": [], "no difference found": []}
        for name in method_names(results):
            row = comparison(results, name, split, "pass@1", against=BASE)
            if row is not None and not math.isnan(interval(row["difference"]).value):
                value = number(measure(results, name, split, "pass@1").value)
                found[row["verdict"]].append(f"{name} ({value})")
        names = [name for same in found.values() for name in same]
        where = capital(place(results, split))
        start = f"the base's pass@1 of {number(measure(results, BASE, split, 'pass@1').value)}"
        who = "every method" if len(names) > 1 else "the method"
        if not names:
            continue
        if len(found["lower"]) == len(names):
            text = f"{where}, {who} ends below {start}: {joined(names)}. Training made the policy worse there."
            yield Finding("poor", text)
        elif len(found["higher"]) == len(names):
            yield Finding("level", f"{where}, {who} ends above {start}.")
        elif len(found["no difference found"]) == len(names):
            yield Finding("poor", f"{where}, no method could be told from {start}: {joined(names)}.")
        else:
            words = {"higher": "above", "lower": "below", "no difference found": "not told from"}
            told = [f"{words[verdict]} {start}: {joined(who)}" for verdict, who in found.items() if who]
            yield Finding("level", f"{where}, {'; '.join(told)}.")


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
    yield from _phases(results)


def _phases(results: Results) -> Iterator[str]:
    """Methods that never left one phase: there a floor changes nothing, or is all that is left."""
    always, never = [], []
    for name in method_names(results):
        shares = [value for run in runs_of(results, name) for _, value in _known(run, "floored_group_share")]
        if shares and min(shares) == 1:
            always.append(name)
        elif shares and max(shares) == 0:
            never.append(name)
    if always:
        yield (
            f"In every step every group of {joined(always)} had a mean reward under min_correct: a floor that always "
            "binds is a constant baseline, so corpo equals static here."
        )
    if never:
        yield (
            f"In no step had a group of {joined(never)} a mean reward under min_correct: a floor that never binds is "
            "inert, so corpo equals dr_grpo here."
        )


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
        unparsed, hedged = [], []
        for name in (BASE, *method_names(results)):
            failures = measure(results, name, split, "parse_failure_rate").value
            hedges = measure(results, name, split, "hedge_rate").value
            who = "the base" if name == BASE else name
            if failures == 1:
                text = f"{where}, no answer of {who} could be parsed: its other figures there say nothing."
                yield Finding("poor", text)
            elif failures >= MANY:
                unparsed.append(f"{percent(failures)} of {who}")
            if hedges >= 5 * MANY:
                hedged.append(f"{percent(hedges)} of {who}")
        if unparsed:
            yield Finding("caution", f"{where}, answers that could not be parsed: {joined(unparsed)}.")
        if hedged:
            yield Finding("caution", f"{where}, parsed answers that are the hedge (5, 5): {joined(hedged)}.")


def _trust(results: Results) -> Iterator[str]:
    seeds = [n for name in method_names(results) if (n := len(runs_of(results, name)))]
    if seeds and min(seeds) == 1:
        yield (
            "One seed per method: the intervals cover the choice of items only, not what another seed would give."
            if max(seeds) == 1
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
