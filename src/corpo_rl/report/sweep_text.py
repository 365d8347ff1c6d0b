"""A sweep for a terminal: what the best setting is worth, then every trial, at most 80 columns wide."""

from collections.abc import Iterator, Sequence
from typing import Final

from corpo_rl.report.sweep_schema import HELD_OUT, SELECTION
from corpo_rl.report.sweep_view import (
    LABELS,
    Document,
    Trial,
    better_words,
    brackets,
    cautions,
    confirmed,
    headline,
    level_words,
    objective,
    parts,
    ranked,
    searched,
    short,
)
from corpo_rl.report.text import WIDTH, cut_to, padded, wrapped
from corpo_rl.report.view import interval, number, plain

MOST_ROWS: Final = 30
"""Trials that are shown; all are in the results."""

_PART, _CELL = 27, 24

_HEADS: Final = {"learning_rate": "rate", "group_size": "group"}
"""Short names of dimensions, for heads of columns."""


def sweep_text(document: Document) -> str:
    """The headline, the best setting's figures on each part of the items, and the trials from the best on.

    Args:
        document: A sweep's results as loaded from JSON, checked by `check_sweep`.

    Returns:
        Lines of at most 80 columns, ending in a newline. Control characters are replaced.
    """
    told = headline(document)
    figure = f"{told.figure} {told.span.partition('interval ')[2]}".strip()
    lines = wrapped(f"{figure}  {told.lead}".strip(), indent="")
    for sentence in told.more:
        lines += wrapped(sentence, indent="- ")
    lines += ["", *_parts(document), *_trials(document)]
    for caution in cautions(document):
        lines += wrapped(caution, indent="! ")
    way = better_words(document).capitalize()
    reading = f"Brackets hold {level_words(document)} intervals over seeds and problems. {way}."
    lines += wrapped(f"{reading} * ties with the best; n/a: undefined.", indent="")
    return "\n".join(lines) + "\n"


def _parts(document: Document) -> Iterator[str]:
    told = confirmed(document)
    if told is None:
        return
    seeds = ", ".join(map(str, told["seeds"]))
    yield cut_to(f"{objective(document)} of the best setting, fresh seeds {seeds}", WIDTH)
    yield "-" * WIDTH
    yield padded("", _PART) + padded("starting policy", _CELL) + "trained"
    for part in parts(document):
        if part == SELECTION:
            continue
        start, here = interval(document["start"].get(part)), interval(told["parts"][part])
        cells = [f"{number(one.value)} {brackets(one)}".strip() for one in (start, here)]
        yield (
            padded(cut_to(plain(document["splits"][part]["title"]), _PART - 1), _PART)
            + padded(cells[0], _CELL)
            + cells[1]
        )
    yield ""


def _trials(document: Document) -> Iterator[str]:
    names = searched(document)
    rows = ranked(document)
    yield cut_to(f"{len(rows)} trials by {objective(document)} on the half of the items that chooses", WIDTH)
    yield "-" * WIDTH
    widths = {name: _width(name, rows) for name in names}
    heads = "".join(f"  {padded(_HEADS.get(name, LABELS[name]), widths[name])}" for name in names)
    yield cut_to(f"{'trial':>6} {'chosen by':<20} {'held out':<8}{heads}", WIDTH).rstrip()
    for trial in rows[:MOST_ROWS]:
        cells = "".join(f"  {padded(_value(trial, name), widths[name])}" for name in names)
        yield cut_to(f"{_number(trial)} {_worth(trial)}{cells}", WIDTH).rstrip()
        if trial["reason"] is not None and trial["same_as"] is None:
            yield from wrapped(trial["reason"], indent=" " * 8)
    if len(rows) > MOST_ROWS:
        yield f"{len(rows) - MOST_ROWS} more are in results.json"
    yield ""
    if document["importances"]:
        shares = ", ".join(f"{LABELS.get(name, name)} {100 * share:.0f} %" for name, share in _by_share(document))
        yield from wrapped(f"Weight in reaching the best tenth, by PED-ANOVA: {shares}.", indent="")


def _by_share(document: Document) -> list[tuple[str, float]]:
    return sorted(document["importances"].items(), key=lambda one: -one[1])


def _number(trial: Trial) -> str:
    mark = "*" if trial["tied"] else " "
    return f"{trial['number']:>5}{mark}"


def _worth(trial: Trial) -> str:
    if trial["state"] == "failed":
        same = "" if trial["same_as"] is None else f", as {trial['same_as']}"
        return f"{'failed' + same:<29}"
    chosen, held = interval(trial[SELECTION]), interval(trial[HELD_OUT])
    text = f"{number(chosen.value)} {brackets(chosen)}".strip()
    same = "" if trial["same_as"] is None else f"as {trial['same_as']}"
    return f"{text:<20} {same or number(held.value):<8}"


def _width(name: str, rows: Sequence[Trial]) -> int:
    return max(len(_HEADS.get(name, LABELS[name])), *(len(_value(trial, name)) for trial in rows))


def _value(trial: Trial, name: str) -> str:
    return plain(short(trial["params"][name])) if name in trial["params"] else ""
