"""What the HTML pages without scripts share: the page around it, tables, and bars."""

import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any, Final

from corpo_rl.report.audit_tables import Table
from corpo_rl.report.audit_view import SIGNS, shown
from corpo_rl.report.markup import MINUS, class_html, minus, prose_html, text_html

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
"""Content-Security-Policy of a page without scripts."""


def page_html(title: str, body: str, document: Mapping[str, Any], *, sheets: Sequence[str] = ()) -> str:
    """A whole page: no script, nothing from the network.

    Args:
        title: Title of the window.
        body: Header and main part.
        document: What it shows, for its version and date.
        sheets: Further style sheets of this folder.
    """
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{text_html(title)}</title>
<link rel="icon" href="data:,">
<style>{"".join(map(_asset, ("page.css", "audit.css", *sheets)))}</style>
</head>
<body>
<div class="page audit">
{body}
<footer>Written by corpo-rl {text_html(shown(document["corpo_rl_version"]))} on
{text_html(shown(document["created"]))}. This page runs no script and loads nothing from the network.
{_command(document)}</footer>
</div>
</body>
</html>
"""


def _command(document: Mapping[str, Any]) -> str:
    command = shown(document["command"], 1000)
    return f'<code class="command">{text_html(command)}</code>' if command else ""


def say_html(text: str) -> str:
    """A sentence, with the options of the command line in it kept on one line, and true minus signs in brackets.

    Example:
        >>> say_html("pass --min-correct 1")
        'pass <code class="option">--min-correct</code> 1'
    """
    said = re.sub(r"(?<=\[)-(?=\d)", MINUS, prose_html(text))
    return re.sub(r"(?<![\w-])--[a-z][a-z-]{1,24}(?![\w-])", r'<code class="option">\g<0></code>', said)


def table_html(table: Table, *, cards: bool = False) -> str:
    """A table with its caption below.

    Args:
        table: What it holds.
        cards: Whether a row becomes a card on a narrow screen: for tables of many columns.
    """
    heads = "".join(
        f'<th scope="col"{class_html("" if at in {0, *table.words} else "figure")}>{prose_html(head)}</th>'
        for at, head in enumerate(table.head)
    )
    rows = "".join(_row(table, row) for row in table.rows)
    caption = f'<p class="caption">{say_html(table.caption)}</p>' if table.caption else ""
    return f"""<div class="scroll"><table class="data{" cards" if cards else ""}">
<caption class="unseen">{text_html(table.title)}</caption>
<thead><tr>{heads}</tr></thead>
<tbody>{rows}</tbody></table></div>
{caption}"""


def _row(table: Table, row: Sequence[str]) -> str:
    cells = "".join(
        f'<td{class_html("" if at in table.words else "figure")} data-label="{escape(table.head[at])}">'
        f"{minus(prose_html(cell)) if at not in table.words else prose_html(cell)}</td>"
        for at, cell in enumerate(row)
        if at
    )
    return f'<tr><th scope="row">{prose_html(row[0])}</th>{cells}</tr>\n'


def bar_html(value: float | None, longest: float, look: str = "") -> str:
    """A bar beside a figure that says the same; nothing for null and 0."""
    width = 100 * value / longest if value and longest > 0 else 0.0
    bar = f'<i{class_html(look)} style="width:{width:.2f}%"></i>' if width else ""
    return f'<span class="bar" aria-hidden="true">{bar}</span>'


def split_html(parts: Mapping[str, float], kind: str) -> str:
    """A bar split by sign, as a picture of figures that stand beside it.

    Args:
        parts: Size of each sign's part.
        kind: "failed" or "correct", which sets its colour.
    """
    whole = sum(parts.values())
    widths = {sign: 100 * parts[sign] / whole if whole else 0.0 for sign in SIGNS}
    cut = "".join(
        f'<i class="{sign}" style="width:{width:.2f}%"></i>' for sign, width in widths.items() if width > 1e-6
    )
    return f'<span class="split {kind}" aria-hidden="true">{cut}</span>'


def _asset(name: str) -> str:
    return (files("corpo_rl.report") / name).read_text(encoding="utf-8").replace("\r\n", "\n")
