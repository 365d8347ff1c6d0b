"""One finding of an audit: how it is written down."""

from collections.abc import Mapping
from typing import Any

Document = Mapping[str, Any]
"""The audit document so far; `docs/audit-schema.md` describes it."""

OK, NOTE, WARN, NOT_CHECKED = "OK", "NOTE", "WARN", "NOT CHECKED"

FEW = 0.05
"""Share of the failures up to which reinforced ones are a note, and over which they are a warning. Ours."""

PAPER = "Garg and Venkatesh, https://arxiv.org/abs/2511.04439"


def finding(
    name: str,
    status: str,
    title: str,
    evidence: str,
    *,
    needs: str | None = None,
    action: Mapping[str, str] | None = None,
    reference: str | None = None,
) -> dict[str, Any]:
    """A finding as it stands in the document.

    Args:
        name: Its id.
        status: OK, NOTE, WARN or NOT CHECKED.
        title: What was looked at, or what was found.
        evidence: The numbers.
        needs: What was missing, for NOT CHECKED.
        action: What to do, by framework ("trl", "verl", "general").
        reference: Where to read on.
    """
    return {
        "id": name,
        "status": status,
        "title": title,
        "evidence": evidence,
        "needs": needs,
        "action": dict(action or {}),
        "reference": reference,
    }


def percent(value: float | None) -> str:
    """A share in percent, n/a for None."""
    return "n/a" if value is None else f"{100 * value:.1f} %"
