"""The audit as Markdown, for a pull request or an issue."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from corpo_rl.report.audit_tables import Table
from corpo_rl.report.audit_text import (
    EXAMPLES,
    LONGEST_SAMPLE,
    actions,
    evidence,
    example_title,
    sections,
    siblings_line,
)
from corpo_rl.report.audit_view import LONGEST_SENTENCE, Document, by_weight, headline, shown, verdict


def audit_markdown(audit: Document) -> str:
    """An audit as Markdown (GitHub's kind); foreign text is escaped or stands in code.

    Args:
        audit: An audit as loaded from JSON, checked by `check_audit`.
    """
    message = headline(audit)
    lead = f"{message.figure} {message.span} {message.lead}".strip().rstrip(".")
    lines = ["# Audit of a run", "", f"**{escaped(lead)}.**", "", *(f"{escaped(text)}\n" for text in message.more)]
    lines += [escaped(f"{message.about_span}."), ""] if message.about_span else []
    lines += [escaped(shown(audit["log"]["said"], LONGEST_SENTENCE)), ""]
    lines += ["## Findings", "", escaped(verdict(audit["findings"])), ""]
    for finding in by_weight(audit["findings"]):
        lines += _finding_markdown(finding)
    for title, parts in sections(audit):
        lines += ["", f"## {escaped(title)}", ""]
        for part in parts:
            lines += [*table_markdown(part), ""] if isinstance(part, Table) else [escaped(part), ""]
    lines += _examples_markdown(audit["examples"])
    version = escaped(shown(audit["corpo_rl_version"]))
    lines += ["", f"Written by corpo-rl {version}, {escaped(shown(audit['created']))}."]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def escaped(text: str) -> str:
    r"""A text that Markdown shows as it is.

    Example:
        >>> escaped("<b> [x](javascript:y) |A| a_b")
        '&lt;b&gt; \\[x\\](javascript:y) \\|A\\| a\\_b'
    """
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_{}\[\]#|~!])", r"\\\1", text)


def table_markdown(table: Table) -> Iterator[str]:
    """A table as Markdown, its caption below."""
    yield "| " + " | ".join(escaped(cell) for cell in table.head) + " |"
    yield "|" + "|".join("---" if at in {0, *table.words} else "---:" for at in range(len(table.head))) + "|"
    for row in table.rows:
        yield "| " + " | ".join(escaped(cell) for cell in row) + " |"
    if table.caption:
        yield from ("", escaped(table.caption))


def _finding_markdown(finding: Mapping[str, Any]) -> Iterator[str]:
    title = escaped(shown(finding["title"], LONGEST_SENTENCE))
    yield f"- **{finding['status']}** {title}: {escaped(evidence(finding))}"
    for where, what in actions(finding):
        yield f"  - {escaped(where)}: {escaped(what)}"
    if finding["reference"] is not None:
        yield f"  - see {escaped(shown(finding['reference'], LONGEST_SENTENCE))}"


def _examples_markdown(examples: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not examples:
        return
    yield from ("", "## Failures that were reinforced most strongly", "")
    for example in examples[:EXAMPLES]:
        yield f"**{escaped(example_title(example))}**\n"
        for name in ("prompt", "completion"):
            if example[name] is not None:
                yield f"{name}: {_code(shown(example[name], LONGEST_SAMPLE))}\n"
        yield f"{escaped(siblings_line(example))}\n"
    if len(examples) > EXAMPLES:
        yield f"{len(examples) - EXAMPLES} more in JSON and HTML."


def _code(text: str) -> str:
    """A text as inline code: its fence is longer than any run of backticks in it."""
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence} {text} {fence}"
