"""Two audits compared: the form of that document, and its text, Markdown and HTML."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from corpo_rl.report.audit_markdown import escaped, table_markdown
from corpo_rl.report.audit_page import page_html, say_html, table_html
from corpo_rl.report.audit_schema import STATUSES, audit_json
from corpo_rl.report.audit_tables import Table
from corpo_rl.report.audit_text import table_lines
from corpo_rl.report.audit_view import LONGEST_SENTENCE, figure, share, shown
from corpo_rl.report.form import ITEM, Schema, check_form, field, list_field, number_field, object_field, text_field
from corpo_rl.report.markup import text_html
from corpo_rl.report.text import wrapped

Document = Mapping[str, Any]
"""A comparison as loaded from JSON; `docs/audit-schema.md` describes it."""

DIFF_VERSION: Final = "corpo-rl.audit-diff/1"
"""Value of the field `schema` of a comparison of two audits."""

_RUN = {"name": text_field("what the run is called"), "said": text_field("what was read of it")}

DIFF_SCHEMA: Final[Schema] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Two audits by corpo-rl, compared",
    **object_field(
        "Further fields are allowed everywhere.",
        {
            "schema": {"const": DIFF_VERSION, "description": f"`{DIFF_VERSION}`"},
            "corpo_rl_version": text_field("version of the package that wrote the document"),
            "created": text_field("when, ISO 8601 with a time zone"),
            "command": text_field("command line that made it"),
            "a": object_field("the first run", _RUN),
            "b": object_field("the second run", _RUN),
            "comparable": list_field("reasons why the runs may not be comparable; empty without any", ITEM),
            "figures": list_field(
                "every figure of both",
                object_field(
                    "a figure",
                    {
                        "key": text_field("name that stays the same"),
                        "label": text_field("what it is"),
                        "a": number_field("of the first run"),
                        "b": number_field("of the second run"),
                        "difference": number_field("second minus first"),
                        "low": number_field("lower end of the difference's interval, where there is one"),
                        "high": number_field("upper end"),
                    },
                ),
            ),
            "findings": list_field(
                "findings whose status differs",
                object_field(
                    "a finding",
                    {
                        "id": text_field("name that stays the same"),
                        "title": text_field("what was looked at, or found"),
                        "a": field("string", "status in the first run", enum=list(STATUSES)),
                        "b": field("string", "status in the second run", enum=list(STATUSES)),
                    },
                ),
            ),
        },
    ),
}
"""JSON Schema (draft 2020-12) of a comparison of two audits."""


def check_diff(document: object, *, name: str = "diff") -> None:
    """Check that a document has the form of a comparison of two audits.

    Args:
        document: As loaded from JSON.
        name: What to call it in an error.

    Raises:
        DataError: Something is missing or of the wrong kind; the message names the first such place.
    """
    check_form(document, DIFF_SCHEMA, name, described_in="docs/audit-schema.md")


def audit_diff_json(diff: Document) -> str:
    """The comparison as JSON text, as `audit_json` writes it.

    Raises:
        DataError: A number is NaN or infinite; the message names its place.
    """
    return audit_json(diff)


def audit_diff_text(diff: Document) -> str:
    """The comparison for a terminal, at most 80 columns wide.

    Args:
        diff: A comparison as loaded from JSON, checked by `check_diff`.
    """
    lines = wrapped(_lead(diff), indent="")
    lines += [line for text in _runs(diff) for line in wrapped(text, indent="  ")]
    lines += [line for text in _reasons(diff) for line in wrapped(text, indent="! ")]
    lines += ["", *table_lines(figures_table(diff)), ""]
    lines += table_lines(found) if (found := findings_table(diff)) else wrapped(SAME, indent="")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def audit_diff_markdown(diff: Document) -> str:
    """The comparison as Markdown.

    Args:
        diff: A comparison as loaded from JSON, checked by `check_diff`.
    """
    lines = ["# Two runs compared", "", f"**{escaped(_lead(diff))}**", ""]
    lines += [f"- {escaped(text)}" for text in (*_runs(diff), *_reasons(diff))]
    lines += ["", *table_markdown(figures_table(diff)), "", "## Findings that differ", ""]
    lines += table_markdown(found) if (found := findings_table(diff)) else [SAME]
    return "\n".join(lines) + "\n"


def audit_diff_html(diff: Document) -> str:
    """The comparison as one HTML page that loads nothing and runs no script.

    Args:
        diff: A comparison as loaded from JSON, checked by `check_diff`.
    """
    runs = "".join(f"<li>{say_html(text)}</li>" for text in _runs(diff))
    reasons = "".join(f'<p class="poor">{say_html(text)}</p>' for text in _reasons(diff))
    found = findings_table(diff)
    body = f"""<header class="top">
<p class="eyebrow"><b>corpo-rl audit diff</b> {text_html(shown(diff["corpo_rl_version"]))}</p>
<h1>{say_html(_lead(diff))}</h1>
<ul class="words">{runs}</ul>
{reasons}</header>
<main>
{table_html(figures_table(diff), cards=True)}
<h2>Findings that differ</h2>
{table_html(found) if found else f"<p>{SAME}</p>"}
</main>"""
    return page_html("corpo-rl audit diff", body, diff)


SAME: Final = "Every finding has the same status in both."


def _lead(diff: Document) -> str:
    """The share of reinforced failures in both, or that it is not known."""
    row = next((row for row in diff["figures"] if row["key"] == "reinforced_failure_share"), None)
    if row is None or row["a"] is None or row["b"] is None:
        return "Two runs compared; the share of reinforced failures is not known in both."
    both = f"{share(row['a'])} in A, {share(row['b'])} in B"
    return f"Failed rollouts reinforced: {both}; B minus A: {_difference(row)} points."


def _runs(diff: Document) -> Iterator[str]:
    for name in ("a", "b"):
        yield f"{name.upper()} is {shown(diff[name]['name'], 200)}: {shown(diff[name]['said'], LONGEST_SENTENCE)}"


def _reasons(diff: Document) -> Iterator[str]:
    for reason in diff["comparable"]:
        yield f"Compare with care: {shown(reason, LONGEST_SENTENCE)}."


def figures_table(diff: Document) -> Table:
    """Every figure of both runs, and by how much they differ."""
    rows = tuple(
        (shown(row["label"], 60), _value(row, row["a"]), _value(row, row["b"]), _difference(row))
        for row in diff["figures"]
    )
    caption = "B minus A; shares in percentage points. Brackets: interval of the difference, where there is one."
    return Table("Figures", ("", "A", "B", "difference"), rows, caption)


def findings_table(diff: Document) -> Table | None:
    """Findings whose status differs; None when all agree."""
    if not diff["findings"]:
        return None
    rows = tuple((shown(row["title"], 80), row["a"], row["b"]) for row in diff["findings"])
    return Table("Findings that differ", ("", "A", "B"), rows, words=(1, 2))


def _is_share(row: Mapping[str, Any]) -> bool:
    return str(row["key"]).endswith("_share") or str(row["key"]).startswith("class_")


def _value(row: Mapping[str, Any], value: float | None) -> str:
    return share(value) if _is_share(row) else figure(value)


def _difference(row: Mapping[str, Any]) -> str:
    value = row["difference"]
    if value is None:
        return "n/a"
    write = _points if _is_share(row) else _signed
    span = f" [{write(row['low'])}, {write(row['high'])}]" if None not in (row["low"], row["high"]) else ""
    return write(value) + span


def _points(value: float) -> str:
    return f"{100 * value:+.1f}"


def _signed(value: float) -> str:
    return ("+" if value > 0 else "") + figure(value)
