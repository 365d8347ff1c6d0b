"""The results as a terminal table, at most 80 columns wide, and a summary."""

import math
import textwrap
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from corpo_rl.records import Interval
from corpo_rl.report.summary import findings, headline
from corpo_rl.report.view import (
    BASE,
    Results,
    evaluation,
    level_text,
    measure,
    measures,
    method_names,
    number,
    pass_k,
    percent,
    plain,
    split_names,
    split_title,
)

WIDTH = 80
NAME_WIDTH = 12
FIGURE_WIDTH = 6
MOST_FIGURES = 4
"""Narrow columns beside two pass@k with their intervals, within `WIDTH`."""


def compare_text(results: Results) -> str:
    """Final table per split, then the summary, for a terminal.

    Args:
        results: A results file as loaded from JSON, checked by `check_results`.

    Returns:
        Lines of at most 80 columns, ending in a newline. Control characters in names and warnings are replaced.
    """
    lines: list[str] = []
    for split in split_names(results):
        lines += [*_split_table(results, split), ""]
    lines += wrapped(f"Brackets hold {level_text(results)} intervals. n/a: undefined.", indent="")
    lines += ["", *wrapped(headline(results), indent=""), ""]
    for finding in findings(results):
        mark = "! " if finding.kind in {"poor", "caution"} else "- "
        lines += wrapped(finding.text, indent=mark)
    return "\n".join(lines) + "\n"


def _split_table(results: Results, split: str) -> Iterator[str]:
    k = pass_k(results)
    passes = ["pass@1"] if k == 1 else ["pass@1", f"pass@{k}"]
    rows = (BASE, *method_names(results))
    n_items = next((found["n_items"] for name in rows if (found := evaluation(results, name, split))), None)
    about = plain(f"{split_title(results, split)}: {results['splits'][split].get('description') or split}")
    yield cut_to(f"{about}, {n_items} items" if n_items is not None else f"{about}, not evaluated", WIDTH)
    yield "-" * WIDTH
    figures = _figures(results)
    yield _row("", [*passes, *(figure.head for figure in figures)], n_figures=len(figures))
    yield _row("", [*("" for _ in passes), *(figure.under for figure in figures)], n_figures=len(figures))
    for name in rows:
        cells = [_with_interval(measure(results, name, split, key)) for key in passes]
        cells += [figure.write(measure(results, name, split, figure.key).value) for figure in figures]
        yield _row(plain(name), cells, n_figures=len(figures))


@dataclass(frozen=True)
class _Figure:
    """A narrow column behind the pass@k."""

    key: str
    head: str
    under: str
    write: Callable[[float], str]


def _figures(results: Results) -> list[_Figure]:
    """Mean reward, what the task measures beside it as far as there is room, and parse failures."""
    two_digits = partial(number, digits=2)
    reward = _Figure("mean_reward", "reward", "mean", two_digits)
    brier = _Figure("brier", "Brier", "", two_digits)
    hedge = _Figure("hedge_rate", "hedge", "(5, 5)", percent)
    failed = _Figure("parse_failure_rate", "parse", "failed", percent)
    columns = [column.key for column in measures(results)]
    if brier.key in columns:
        return [reward, brier, hedge, failed]
    shown = {"pass@1", f"pass@{pass_k(results)}", reward.key, failed.key}
    own = [key for key in columns if key not in shown][: MOST_FIGURES - 2]
    return [reward, *(_own_figure(key, two_digits) for key in own), failed]


def _own_figure(key: str, write: Callable[[float], str]) -> _Figure:
    first, _, rest = plain(key).replace("_", " ").partition(" ")
    return _Figure(key, cut_to(first, FIGURE_WIDTH), cut_to(rest, FIGURE_WIDTH), write)


def _row(name: str, cells: list[str], *, n_figures: int) -> str:
    n_passes = len(cells) - n_figures
    text = padded(cut_to(name, NAME_WIDTH), NAME_WIDTH)
    widths = [17] * n_passes + [FIGURE_WIDTH] * n_figures
    return (text + "".join(f" {cell:>{width}}" for cell, width in zip(cells, widths, strict=True))).rstrip()


def _with_interval(found: Interval) -> str:
    span = f" [{number(found.low, digits=2)}, {number(found.high, digits=2)}]"
    return number(found.value, digits=2) + (span if not math.isnan(found.low) else "")


def wrapped(text: str, *, indent: str) -> list[str]:
    """A text in lines of at most `WIDTH` columns, the first behind `indent` and the others under it."""
    lines: list[str] = []
    for line in textwrap.wrap(plain(text), WIDTH - len(indent), break_on_hyphens=False):
        # textwrap counts characters; wide ones (CJK, emoji) take two columns
        while columns_of(line) > WIDTH - len(indent):
            head = _head(line, WIDTH - len(indent))
            lines.append(head)
            line = line[len(head) :]
        lines.append(line)
    return [(indent if row == 0 else " " * len(indent)) + line for row, line in enumerate(lines)]


def columns_of(text: str) -> int:
    """Terminal columns a text takes: two for a wide character, none for a combining one."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def _head(text: str, width: int) -> str:
    """The longest beginning of a text that fits a width."""
    end = next((end for end in range(len(text)) if columns_of(text[: end + 1]) > width), len(text))
    return text[:end]


def cut_to(text: str, width: int) -> str:
    """A text that fits a width; "~" stands for what is cut off."""
    return text if columns_of(text) <= width else _head(text, width - 1) + "~"


def padded(text: str, width: int) -> str:
    """A text filled up with spaces to a width."""
    return text + " " * (width - columns_of(text))
