"""An evaluation for a terminal."""

from collections.abc import Mapping
from typing import Any

from corpo_rl.errors import one_line
from corpo_rl.report.audit_tables import Table
from corpo_rl.report.evaluation_tables import differences_table, failures_table, figures_table, split_title, splits_of

_NAME = 34
_CELL = 24


def evaluation_text(document: Mapping[str, Any]) -> str:
    """Figures of every split, then differences to the first model, then what was not parsed."""
    lines: list[str] = []
    for split in splits_of(document):
        table = figures_table(document, split)
        lines += [split_title(document, split), *_rows(table), table.caption, ""]
        if differences := differences_table(document, split):
            lines += [differences.title, *_rows(differences), ""]
        if (failures := failures_table(document, split)) and split == splits_of(document)[-1]:
            lines += [failures.title, *_rows(failures), ""]
    return "\n".join(lines).rstrip()


def _rows(table: Table) -> list[str]:
    widths = [_NAME, *(max(_CELL, min(40, len(name)) + 2) for name in table.head[1:])]
    return [
        "".join(
            one_line(text)[: width - 1].ljust(width) if place == 0 else one_line(text)[-(width - 1) :].rjust(width)
            for place, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (table.head, *table.rows)
    ]
