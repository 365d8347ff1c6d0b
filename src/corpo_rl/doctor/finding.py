"""What the doctor says: one thing, where, why, and what to change."""

from dataclasses import dataclass

ERROR, WARNING, NOTE = "error", "warning", "note"
SEVERITIES = (ERROR, WARNING, NOTE)
"""An error means that CoRPO is not on, or undone; a warning, that it is weakened or may be; a note, worth knowing."""


@dataclass(frozen=True)
class Finding:
    """One thing that is found."""

    severity: str
    """One of `SEVERITIES`."""
    where: str
    """File and line, setting, or package."""
    what: str
    """What is the case, and why it matters, in a sentence."""
    change: str = ""
    """The line to write instead; empty where nothing has to change."""
