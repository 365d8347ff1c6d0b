"""A ranking, and what picking the best of n is worth, for a terminal: at most 80 columns wide."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from corpo_rl.records import Interval
from corpo_rl.report.text import WIDTH, cut_to, padded, wrapped
from corpo_rl.report.view import interval, joined, number, percent, plain

TABLE_ANSWERS = 12
"""Most answers for which the score table is shown: more do not fit the width."""

MOST_ROWS = 50
"""Most answers listed; the JSON has them all."""

_MOST_NAMES = 5
_NAME_WIDTH = 16


def rank_text(document: Mapping[str, Any]) -> str:
    """Answers in order, the score table of up to `TABLE_ANSWERS` of them, the best one, and what was left out.

    Args:
        document: What `ranking_document` gives, or the same read back from JSON.
    """
    answers = document["answers"]
    lines = [f"{'no.':>4} {'rank':>5} {'score':>6} {'compared':>9} {'won/tied/lost':>14}  answer", "-" * WIDTH]
    n_of_rank = Counter(answer["rank"] for answer in answers)
    lines += [_answer_row(row, answer, n_of_rank) for row, answer in enumerate(answers[:MOST_ROWS])]
    if len(answers) > MOST_ROWS:
        lines.append(f"     and {len(answers) - MOST_ROWS:,} more")
    if 1 < len(answers) <= TABLE_ANSWERS and document["n_parsed"]:
        lines += ["", *wrapped("Score of each answer (row) beside each other one (column):", indent="")]
        lines += _score_rows(document)
    lines += ["", *wrapped(_best(document), indent="")]
    for note in _notes(document):
        lines += wrapped(note, indent="- ")
    return "\n".join(lines) + "\n"


def best_of_n_text(document: Mapping[str, Any]) -> str:
    """Accuracy of each way to pick, what the verifier gains, and what was left out.

    Args:
        document: What `best_of_n_document` gives, or the same read back from JSON.
    """
    figures = document["figures"]
    rows = [
        ("at random (expected)", "random"),
        ("by majority vote", "majority"),
        ("by the verifier", "verifier"),
        ("by the labels (oracle)", "oracle"),
        ("gain over random", "gain"),
    ]
    title = f"Best of {document['n']} answers to each of {_of(document['n_problems'], 'problem')}"
    lines = [title, "-" * WIDTH, f"{'picked':<28}{'right':>8}   {100 * document['level']:g} % interval"]
    for label, name in rows:
        found = interval(figures[name])
        if name != "majority" or not math.isnan(found.value):
            lines.append(_figure_row(label, found, partial(number, signed=name == "gain")))
    lines += [_figure_row("share of the headroom", interval(figures["headroom"]), percent), ""]
    notes = [
        f"Intervals are over problems. The headroom is oracle - random. {_how(document)}",
        *_parse_notes(document),
    ]
    if document["n_unranked"]:
        notes.append(
            f"In {_of(document['n_unranked'], 'problem')} no answer could be ranked; it counts as a blind pick."
        )
    if document["n_unvoted"]:
        notes.append(f"In {_of(document['n_unvoted'], 'problem')} no answer votes; the majority is a blind pick there.")
    if document["n_tied"]:
        notes.append(
            f"In {_of(document['n_tied'], 'problem')} right and wrong answers share the first rank: each answer there "
            "has the same chance."
        )
    if document["n_too_few"] or document["n_not_judged"]:
        notes.append(
            f"Left out: {_of(document['n_too_few'], 'problem')} with fewer than {document['n']} judged answers, and "
            f"{_of(document['n_not_judged'], 'answer')} that could not be judged."
        )
    for note in notes:
        lines += wrapped(note, indent="- ")
    return "\n".join(lines) + "\n"


def _figure_row(label: str, found: Interval, written: Callable[[float], str]) -> str:
    span = "" if math.isnan(found.low) else f"   [{written(found.low)}, {written(found.high)}]"
    return f"{label:<28}{written(found.value):>8}{span}"


def _answer_row(row: int, answer: Mapping[str, Any], n_of_rank: Mapping[int | None, int]) -> str:
    rank = "-" if answer["rank"] is None else f"{answer['rank']}{'=' if n_of_rank[answer['rank']] > 1 else ''}"
    n_parsed = answer["wins"] + answer["ties"] + answer["losses"]
    n_compared = f"{n_parsed}/{n_parsed + answer['n_unparsed']}" if answer["n_unparsed"] else str(n_parsed)
    record = f"{answer['wins']}/{answer['ties']}/{answer['losses']}"
    figures = f"{row + 1:>4} {rank:>5} {_score(answer['score']):>6} {n_compared:>9} {record:>14}  "
    first_line = next((line for line in answer["text"].splitlines() if line.strip()), "").strip()
    name = padded(cut_to(plain(_named(answer)), _NAME_WIDTH), _NAME_WIDTH)
    return cut_to(f"{figures}{name}  {plain(first_line)}".rstrip(), WIDTH)


def _score_rows(document: Mapping[str, Any]) -> Iterator[str]:
    n = len(document["answers"])
    cells = {}
    for one in document["comparisons"]:
        cells[one["first"], one["second"]] = _score(one["score_first"])
        cells[one["second"], one["first"]] = _score(one["score_second"])
    yield f"{'no.':>4}" + "".join(f"{column + 1:>6}" for column in range(n))
    for row in range(n):
        yield (f"{row + 1:>4}" + "".join(f"{cells.get((row, column), '.'):>6}" for column in range(n))).rstrip()


def _best(document: Mapping[str, Any]) -> str:
    answers, best = document["answers"], document["best"]
    if not best:
        return (
            f"No answer could be ranked: none of {document['n_calls']:,} completions holds two scores in the form "
            "asked for, which a policy has to be taught (`corpo-rl compare` does it in --warmup-steps)."
        )
    first = answers[best[0]]
    same = f" (the same text: {_names(first['names'][1:])})" if len(first["names"]) > 1 else ""
    if len(best) == 1:
        return f"Best: {first['names'][0]}{same}."
    others = _names([_named(answers[place]) for place in best[1:]])
    seed = document["settings"]["seed"]
    return f"Best: a tie of {len(best):,}. By lot (seed {seed}) {first['names'][0]}{same}, before {others}."


def _notes(document: Mapping[str, Any]) -> Iterator[str]:
    answers, settings = document["answers"], document["settings"]
    yield _how(document)
    if settings["method"] == "knockout":
        yield "Answers out in the same round share a rank; their scores come from few comparisons."
        if document["n_by_lot"]:
            yield (
                f"Of {_of(len(document['comparisons']), 'pair')} {document['n_by_lot']:,} named no winner; the better "
                "mean so far went on, and where that was equal the lot decided."
            )
    yield from _parse_notes(document)
    n_unranked = sum(answer["rank"] is None for answer in answers)
    if n_unranked and n_unranked < len(answers):
        yield f"{_of(n_unranked, 'answer')} (rank -) could not be ranked: no comparison there gave a score."
    n_one_order = sum(one["one_order"] for one in document["comparisons"])
    if n_one_order:
        yield (
            f"Of {_of(len(document['comparisons']), 'pair')} {n_one_order:,} got scores in one order only: there a "
            "liking for the first place does not cancel."
        )


def _how(document: Mapping[str, Any]) -> str:
    settings = document["settings"]
    orders = "both orders" if settings["both_orders"] else "one order"
    samples = f"{settings['n_samples']} samples each" if settings["n_samples"] > 1 else "one sample each"
    by = "share of comparisons won" if settings["rank_by"] == "wins" else "mean score (0 to 10)"
    by = "round reached" if settings["method"] == "knockout" else by
    method = settings["method"].capitalize()
    return f"{method}, {orders}, {samples}: {_of(document['n_calls'], 'completion')}. Ranked by {by}."


def _parse_notes(document: Mapping[str, Any]) -> Iterator[str]:
    n_failed = document["n_calls"] - document["n_parsed"]
    if n_failed:
        kinds = ", ".join(f"{kind} {count:,}" for kind, count in document["failures"].items())
        yield f"Of {_of(document['n_calls'], 'completion')} {n_failed:,} did not parse, and are in no score ({kinds})."
    if n_failed and document["n_cut"]:
        yield f"{_of(document['n_cut'], 'completion')} cut at the length limit; a longer one may let more end."


def _names(names: Sequence[str]) -> str:
    if len(names) > _MOST_NAMES:
        names = [*names[: _MOST_NAMES - 1], f"{len(names) - _MOST_NAMES + 1:,} more"]
    return joined(names)


def _of(n: int, thing: str) -> str:
    """A number of things: "1 problem", "2,000 problems"."""
    return f"{n:,} {thing}{'' if n == 1 else 's'}"


def _named(answer: Mapping[str, Any]) -> str:
    others = len(answer["names"]) - 1
    return str(answer["names"][0]) + (f" (+{others})" if others else "")


def _score(value: float | None) -> str:
    return number(math.nan if value is None else value, digits=2)
