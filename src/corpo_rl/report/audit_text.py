"""The audit for a terminal, at most 80 columns wide."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from corpo_rl.report.audit_tables import (
    Table,
    candidates_table,
    classes_table,
    components_table,
    curves_tables,
    estimators_table,
    levels_table,
    logged_sentences,
    ratios,
    reading,
    remarks,
    signs_table,
    threshold_sentences,
)
from corpo_rl.report.audit_view import (
    LONGEST_SENTENCE,
    Document,
    by_weight,
    figure,
    headline,
    level,
    shown,
    verdict,
)
from corpo_rl.report.text import WIDTH, columns_of, cut_to, padded, wrapped

EXAMPLES: Final = 3
"""Examples shown in text; JSON and HTML hold all."""

LONGEST_SAMPLE: Final = 300
"""Characters of a prompt or completion shown in text."""

WIDEST_CELL: Final = 42

FRAMEWORKS: Final = {"trl": "TRL", "verl": "verl", "general": "in general"}


def audit_text(audit: Document) -> str:
    """An audit for a terminal.

    Args:
        audit: An audit as loaded from JSON, checked by `check_audit`.

    Returns:
        Lines of at most 80 columns, ending in a newline; control characters are written as escapes.
    """
    lines = [*wrapped(shown(audit["log"]["said"], LONGEST_SENTENCE), indent=""), ""]
    for kind, text in remarks(audit):
        if kind == "warning":
            lines += wrapped(text, indent="! ")
    message = headline(audit)
    lead = " ".join(part for part in (message.figure, message.span, message.lead) if part)
    lines += wrapped(lead if lead.endswith(".") else f"{lead}.", indent="")
    for sentence in (*message.more, *([f"{message.about_span}."] if message.about_span else [])):
        lines += wrapped(sentence, indent="  ")
    lines += wrapped(verdict(audit["findings"]), indent="  ")
    for title, parts in sections(audit):
        lines += ["", cut_to(title, WIDTH), "-" * WIDTH]
        for part in parts:
            lines += table_lines(part) if isinstance(part, Table) else wrapped(part, indent="")
    lines += _example_lines(audit["examples"])
    lines += ["", "Findings", "-" * WIDTH, *wrapped(verdict(audit["findings"]), indent="")]
    for finding in by_weight(audit["findings"]):
        lines += _finding_lines(finding)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def sections(audit: Document) -> Iterator[tuple[str, list[Table | str]]]:
    """Every section but the findings and the examples: its title, then sentences and tables."""
    signs, classes = signs_table(audit), classes_table(audit)
    levels: list[Table | str] = [*threshold_sentences(audit)]
    found = levels_table(audit)
    levels += [found] if found is not None else []
    if audit["correct_by"] is None:
        yield "Thresholds to choose from", levels
    told: list[Table | str] = [f"{name} {value}: {meaning}." for name, value, meaning in ratios(audit)]
    yield "What was pushed up and down", [*([signs] if signs else []), *told]
    if classes is not None:
        yield classes.title, [classes]
    estimators = estimators_table(audit)
    yield estimators.title, [estimators]
    candidates = candidates_table(audit)
    yield "Logged against recomputed advantages", [*logged_sentences(audit), *([candidates] if candidates else [])]
    if audit["correct_by"] is not None and levels:
        yield "Thresholds", levels
    components = components_table(audit)
    for table in (*([components] if components else []), *curves_tables(audit)):
        yield table.title, [table]
    rows: list[Table | str] = [f"{label}: {text}" for label, text in (*reading(audit), *remarks(audit))]
    yield "What was read", rows


def table_lines(table: Table) -> list[str]:
    """A table as lines of at most `WIDTH` columns; too wide a one goes on below itself, row names repeated."""
    lines = _grid(table)
    if "" in lines:  # it goes on below itself: turned around it may not have to
        lines = min(lines, _grid(table.turned()), key=len)
    return lines + (wrapped(table.caption, indent="") if table.caption else [])


def _grid(table: Table) -> list[str]:
    cells = [[cut_to(cell, WIDEST_CELL) for cell in row] for row in (table.head, *table.rows)]
    widths = [max(map(columns_of, column)) for column in zip(*cells, strict=True)]
    lines: list[str] = []
    for place, columns in enumerate(_parts(widths)):
        lines += [""] if place else []
        for row in cells:
            first = padded(row[0], widths[0])
            lines.append(first + "".join(_cell(row[at], widths[at], words=at in table.words) for at in columns))
    return [line.rstrip() for line in lines]


def _cell(text: str, width: int, *, words: bool) -> str:
    space = " " * (width - columns_of(text))
    return f"  {text}{space}" if words else f"  {space}{text}"


def _parts(widths: Sequence[int]) -> Iterator[list[int]]:
    """Columns that fit side by side behind the row names."""
    part: list[int] = []
    room = WIDTH - widths[0]
    for at, width in enumerate(widths[1:], start=1):
        if part and sum(widths[other] + 2 for other in part) + width + 2 > room:
            yield part
            part = []
        part.append(at)
    yield part


def _finding_lines(finding: Mapping[str, Any]) -> Iterator[str]:
    yield ""
    yield from wrapped(f"[{finding['status']}] {shown(finding['title'], LONGEST_SENTENCE)}", indent="")
    yield from wrapped(evidence(finding), indent="  ")
    for where, what in actions(finding):
        yield from wrapped(f"{where}: {what}", indent="  > ")
    if finding["reference"] is not None:
        yield from wrapped(f"see {shown(finding['reference'], LONGEST_SENTENCE)}", indent="  ")


def evidence(finding: Mapping[str, Any]) -> str:
    """The numbers of a finding, and what it lacks."""
    needs = "" if finding["needs"] is None else f" (needs {shown(finding['needs'])})"
    return shown(finding["evidence"], LONGEST_SENTENCE) + needs


def actions(finding: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What to do about a finding: for which framework, and what."""
    known = [name for name in FRAMEWORKS if name in finding["action"]]
    for name in (*known, *sorted(set(finding["action"]) - set(known))):
        yield FRAMEWORKS.get(name, shown(name, 30)), shown(finding["action"][name], LONGEST_SENTENCE)


def _example_lines(examples: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not examples:
        return
    yield from ("", "Failures that were reinforced most strongly", "-" * WIDTH)
    for place, example in enumerate(examples[:EXAMPLES]):
        yield from [""] if place else []
        yield from wrapped(example_title(example), indent="")
        for name in ("prompt", "completion"):
            if example[name] is not None:
                yield from wrapped(f"{name}: {shown(example[name], LONGEST_SAMPLE)}", indent="  ")
        yield from wrapped(siblings_line(example), indent="  ")
    if len(examples) > EXAMPLES:
        yield f"{len(examples) - EXAMPLES} more, and the siblings' texts, with --format json or html."


def example_title(example: Mapping[str, Any]) -> str:
    """Where a reinforced failure stands, and its numbers."""
    step = "" if example["step"] is None else f", step {example['step']}"
    return (
        f"reward {level(example['reward'])}, advantage {figure(example['advantage'])}: {shown(example['where'], 200)}"
        f"{step}, group {example['group']}"
    )


def siblings_line(example: Mapping[str, Any]) -> str:
    """Rewards and advantages of the other rollouts of its group."""
    told = ", ".join(
        f"{level(one['reward'])} ({figure(one['advantage'])}{', correct' if one['correct'] else ''})"
        for one in example["siblings"]
    )
    n = example["n_siblings_left_out"]
    return f"its group, reward (advantage): {told or 'none'}" + (f", and {n} more" if n else "")
