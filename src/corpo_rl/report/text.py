"""The results as a terminal table, at most 80 columns wide, and a summary."""

import math
import textwrap
import unicodedata
from collections.abc import Iterator

from corpo_rl.records import Interval
from corpo_rl.report.summary import findings, headline
from corpo_rl.report.view import (
    BASE,
    Results,
    evaluation,
    level_text,
    measure,
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
    yield _row("", [*passes, "reward", "Brier", "hedge", "parse"])
    yield _row("", [*("" for _ in passes), "mean", "", "(5, 5)", "failed"])
    for name in rows:
        cells = [_with_interval(measure(results, name, split, key)) for key in passes]
        cells += [number(measure(results, name, split, key).value, digits=2) for key in ("mean_reward", "brier")]
        cells += [percent(measure(results, name, split, key).value) for key in ("hedge_rate", "parse_failure_rate")]
        yield _row(plain(name), cells)


def _row(name: str, cells: list[str]) -> str:
    passes, figures = cells[:-4], cells[-4:]
    text = padded(cut_to(name, NAME_WIDTH), NAME_WIDTH)
    return (text + "".join(f" {cell:>17}" for cell in passes) + "".join(f" {cell:>6}" for cell in figures)).rstrip()


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
