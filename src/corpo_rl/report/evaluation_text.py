"""An evaluation for a terminal: figures down, models across, at most 80 columns wide."""

import math
from collections.abc import Iterator

from corpo_rl.records import Interval
from corpo_rl.report.evaluation_view import (
    Document,
    Row,
    difference,
    found,
    main_rows,
    models,
    n_of,
    order_rows,
    over,
    sampling_words,
    splits,
)
from corpo_rl.report.text import WIDTH, cut_to, padded, wrapped
from corpo_rl.report.view import interval, plain

_LABEL, _CELL = 17, 21
_ABREAST = (WIDTH - _LABEL) // _CELL
"""Models in one table; more follow in a table under it."""


def evaluation_text(document: Document) -> str:
    """Every split's figures with intervals, paired differences to the first model, and what did not parse.

    Args:
        document: An evaluation as loaded from JSON, checked by `check_evaluation`.

    Returns:
        Lines of at most 80 columns, ending in a newline. Control characters in names are replaced.
    """
    lines: list[str] = []
    if len(models(document)) > 1:
        lines += [cut_to(f"[{place}] {plain(name)}", WIDTH) for place, name in enumerate(models(document), start=1)]
        lines.append("")
    for split in splits(document):
        lines += [*_split(document, split), ""]
    for note in _notes(document):
        lines += wrapped(note, indent="- ")
    return "\n".join(lines) + "\n"


def _split(document: Document, split: str) -> Iterator[str]:
    about = document["splits"][split]
    pairs = "pair" if about["n_pairs"] == 1 else "pairs"
    problems = "problem" if about["n_problems"] == 1 else "problems"
    size = f"{about['n_pairs']:,} {pairs} of {about['n_problems']:,} {problems}"
    described = f": {about['description']}" if about["description"] else ""
    yield from wrapped(f"{about['title']}, {size}{described}", indent="")
    yield "-" * WIDTH
    names = models(document)
    if len(names) == 1:
        yield from _alone(document, split, names[0])
    else:
        for start in range(0, len(names), _ABREAST):
            if start:
                yield ""
            yield from _abreast(document, split, start, names[start : start + _ABREAST])
    yield from _failures(document, split)


def _alone(document: Document, split: str, model: str) -> Iterator[str]:
    for row in (*main_rows(document, split), *order_rows(document)):
        cell = _with_interval(row, found(document, split, model, row))
        yield cut_to(f"{_label(row)} {cell:<24}{n_of(document, split, model, row):>9,} {over(document, row)}", WIDTH)


def _abreast(document: Document, split: str, start: int, names: list[str]) -> Iterator[str]:
    heads = [cut_to(f"[{start + place}] {_short(name)}", _CELL - 1) for place, name in enumerate(names, start=1)]
    yield (" " * _LABEL + "".join(" " * (_CELL - len(head)) + head for head in heads)).rstrip()
    parsed = [document["splits"][split]["models"][name] for name in names]
    counts = [f"{one['n_parsed']:,} of {one['n_completions']:,}" for one in parsed]
    yield f"{'parsed':<{_LABEL}}" + "".join(f"{count:>{_CELL}}" for count in counts)
    for row in (*main_rows(document, split), *order_rows(document)):
        cells = [_with_interval(row, found(document, split, name, row), digits=2) for name in names]
        yield _label(row) + "".join(f"{cell:>{_CELL}}" for cell in cells)
        differences = [difference(document, split, name, row) for name in names]
        if any(one is not None for one in differences):
            written = ("" if one is None else _with_interval(row, interval(one), signed=True) for one in differences)
            yield f"{'  minus [1]':<{_LABEL}}" + "".join(f"{cell:>{_CELL}}" for cell in written)


def _failures(document: Document, split: str) -> Iterator[str]:
    names = models(document)
    for place, name in enumerate(names, start=1):
        one = document["splits"][split]["models"][name]
        n_failed = one["n_completions"] - one["n_parsed"]
        if not n_failed and not one["n_cut"]:
            continue
        kinds = ", ".join(f"{kind} {count:,}" for kind, count in one["parse_failures"].items())
        cut = f"; {one['n_cut']:,} cut at the length limit" if one["n_cut"] else ""
        failed = f"{n_failed:,} of {one['n_completions']:,} not parsed" + (f" ({kinds})" if kinds else "")
        yield from wrapped(f"{failed}{cut}", indent=f"[{place}] " if len(names) > 1 else "")


def _notes(document: Document) -> Iterator[str]:
    level = f"{100 * document['settings']['bootstrap']['level']:g} %"
    drawn = sampling_words(document)
    if drawn:
        yield drawn
    yield f"Brackets hold {level} intervals, over problems; n/a: undefined."
    if len(models(document)) > 1:
        yield "Differences are paired: their intervals draw the same problems for both models."
    yield (
        "A completion that does not parse fails in pass@k and the accuracies, and is in no figure of scores (ordering, "
        "AUROC, Brier, ECE, hedges, position): those are over what parsed."
    )


def _label(row: Row) -> str:
    return padded(cut_to(plain(row.label), _LABEL - 1), _LABEL)


def _with_interval(row: Row, one: Interval, *, signed: bool = False, digits: int | None = None) -> str:
    digits = 2 if signed else 3 if digits is None else digits
    value = row.write(one.value, signed=signed, digits=digits)
    if math.isnan(one.low):
        return value
    bounds = [row.write(bound, signed=signed, digits=digits) for bound in (one.low, one.high)]
    if all(bound.endswith(" %") for bound in bounds):
        bounds = [bound.removesuffix(" %") for bound in bounds]
    return f"{value} [{bounds[0]}, {bounds[1]}]"


def _short(name: str) -> str:
    """The end of a model's name, which tells most."""
    return plain(name.rstrip("/").rsplit("/", 1)[-1] or name)
