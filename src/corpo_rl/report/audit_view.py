"""What a report reads out of an audit, and how figures and foreign text are written. Nothing here computes a figure."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from typing import Any, Final

Document = Mapping[str, Any]
"""An audit as loaded from JSON; `docs/audit-schema.md` describes it."""

SIGNS: Final = {"positive": "A > 0", "zero": "A = 0", "negative": "A < 0"}

BY_WEIGHT: Final = ("WARN", "NOTE", "NOT CHECKED", "OK")
"""Statuses in reading order: what needs a look first."""

LONGEST_NAME: Final = 120
LONGEST_SENTENCE: Final = 800
"""Characters of a foreign text that are shown; of a sentence, which may quote several."""

FAIR: Final = (
    "A positive advantage on a failure can be intended: partial credit is shaping. Whether it is meant here is for you "
    "to say."
)


@dataclass(frozen=True)
class Headline:
    """The message of an audit."""

    lead: str
    """One sentence."""
    figure: str
    """The share of reinforced failures as the lead begins with it; empty where there is none."""
    span: str
    """Its interval, "[29.8, 32.7]", in percent; empty where there is none."""
    about_span: str
    """The interval with its level and what was resampled, in words; empty where there is none."""
    more: tuple[str, ...]
    """What to know with it, a sentence each."""


def headline(audit: Document) -> Headline:
    """What share of the failed rollouts was reinforced; or why nothing can be said of that."""
    if audit["correct_by"] is None:
        request = (
            "Choose a level from the table of thresholds and pass it: --min-correct X, the least reward that counts as "
            "correct. Or name a column that says so: --correct-column NAME. No value suits every reward, so none is "
            "assumed."
        )
        return Headline("Nothing says which rollouts are correct, so no failure was counted.", "", "", "", (request,))
    judged = f"Correct means {shown(audit['correct_by'])}: {count(audit['n_correct'])} rollouts."
    n_failed, n_up, share_of = audit["n_failed"], audit["n_reinforced_failures"], audit["reinforced_failure_share"]
    if not n_failed:
        return Headline("No rollout failed, so none could be reinforced.", "", "", "", (judged,))
    if not audit["n_groups_comparable"] and audit["advantages_from"] == "recomputed":
        lead = "No group has two rollouts with a reward, so nothing was compared with anything."
        return Headline(lead, "", "", "", (judged,))
    told = [f"{count(n_up)} of {count(n_failed)} had an advantage above 0 ({whose(audit)})."]
    if n_up:
        told.append(
            f"{share(audit['in_all_failed_groups_share'])} of them sit in groups without one correct rollout, where a "
            "failure was compared with failures only."
        )
    span, sure = interval(share_of), f"{100 * (audit['level'] or 0):g} %"
    return Headline(
        lead="of failed rollouts were reinforced",
        figure=share(share_of["value"]),
        span=span,
        about_span=f"{sure} interval {span}, drawing {audit['resampled']} again" if span else "",
        more=(*told, judged, *((FAIR,) if n_up else ())),
    )


def whose(audit: Document) -> str:
    """Whose advantages the headline is about, in words."""
    name = shown(audit["estimator"])
    if audit["advantages_from"] == "recomputed":
        return f"recomputed with {name}: the log holds no advantages"
    return "logged; no estimator known here reproduces them" if name == "logged" else f"logged; {name} reproduces them"


def is_headline_estimator(audit: Document, name: str) -> bool:
    """Whether a row of the counterfactual table is the estimator that the headline is about, or its plain form."""
    return bool(audit["estimator"].split(",")[0] == name)


def status_counts(findings: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How many findings have each status, those without any left out."""
    found = [finding["status"] for finding in findings]
    return {status: found.count(status) for status in BY_WEIGHT if status in found}


def verdict(findings: Sequence[Mapping[str, Any]]) -> str:
    """The findings in one line. It never says more than was checked."""
    counts = status_counts(findings)
    if not set(counts) - {"NOT CHECKED"}:
        return "Nothing was checked: each finding needs something that the log or the call does not give."
    return "Findings: " + ", ".join(f"{n} {status}" for status, n in counts.items()) + "."


def by_weight(findings: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Findings that need a look first, otherwise in their order."""
    return sorted(findings, key=lambda finding: BY_WEIGHT.index(finding["status"]))


def count(value: float | None) -> str:
    """A number of things.

    Example:
        >>> count(12500), count(None)
        ('12,500', 'n/a')
    """
    return "n/a" if value is None else f"{value:,}"


def share(value: float | None) -> str:
    """A share in percent, to a tenth, that does not round a rare event to none, nor a miss to all.

    Example:
        >>> share(0.3121), share(0.0001), share(0.9999), share(0), share(None)
        ('31.2 %', '<0.1 %', '>99.9 %', '0.0 %', 'n/a')
    """
    return "n/a" if value is None else f"{_percent(value)} %"


def interval(node: Mapping[str, Any]) -> str:
    """The interval of a share, in percent; empty where there is none, or where drawing again told nothing.

    When no rollout was reinforced, or every one, each draw gives the same share: no interval, rather than a sure one.

    Example:
        >>> interval({"value": 0.3, "low": 0.298, "high": 0.327}), interval({"value": 0.0, "low": 0.0, "high": 0.0})
        ('[29.8, 32.7]', '')
    """
    if node["low"] is None or node["high"] is None or node["low"] == node["high"]:
        return ""
    return f"[{_percent(node['low'])}, {_percent(node['high'])}]"


def _percent(value: float) -> str:
    if 0 < value < 0.0005:
        return "<0.1"
    if 0.9995 <= value < 1:
        return ">99.9"
    return f"{100 * value:.1f}"


def figure(value: float | None) -> str:
    """A figure to about three digits; what is only rounding is "~0".

    Example:
        >>> [figure(x) for x in (0.84321, 12.345, 3205532.9, 1e-7, 2e-15, 0, -0.25, None)]
        ['0.843', '12.3', '3,205,533', '1e-07', '~0', '0', '-0.250', 'n/a']
    """
    if value is None:
        return "n/a"
    size = abs(float(f"{value:.3g}"))  # rounded first: 0.9999 and 1.0001 are written alike
    if size == 0:
        return "0"
    if size < 1e-9:
        return "~0"
    if size < 1e-3 or size >= 1e15:
        return f"{value:.2g}"
    digits = next((digits for limit, digits in ((1, 3), (10, 2), (1000, 1)) if size < limit), 0)
    return f"{value:,.{digits}f}"


def level(value: float | None) -> str:
    """A reward or threshold as it is, to six digits."""
    return "n/a" if value is None else f"{value:.6g}"


def threshold_text(value: float, below: float | None) -> str:
    """A threshold in as few digits as say the same of the log: `--min-correct` with this text gives its row.

    Args:
        value: The threshold.
        below: The next smaller reward that the text must stay above; None for the least one.

    Example:
        >>> threshold_text(0.6, 0.5), threshold_text(0.5955555555555555, 0.4), threshold_text(2 / 3, 0.6666666)
        ('0.6', '0.595555', '0.66666666')
    """
    nearest = float(f"{value:.6g}")
    if nearest <= value and (below is None or nearest > below):
        return f"{value:.6g}"
    exact = Decimal(value)
    for digits in range(6, 18):
        cut = float(exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), ROUND_FLOOR))
        if below is None or below < cut:
            return f"{cut:.{digits}g}"
    return repr(value)


def shown(text: object, limit: int = LONGEST_NAME) -> str:
    r"""Foreign text on one line: cut, and every character that would move a cursor or turn a line around made visible.

    Example:
        >>> shown("a\x1b[2J\u202eb"), shown("one\ntwo"), shown("abcdef", 4)
        ('a\\x1b[2J\\u202eb', 'one\\ntwo', 'abc...')
    """
    text = str(text)
    cut = text if len(text) <= limit else text[: limit - 1] + "..."
    return re.sub(r"[^\x20-\x7e]", _visible, cut)


def shown_lines(text: str, limit: int) -> str:
    """The same for a text of several lines, which stay lines."""
    lines = (text if len(text) <= limit else text[: limit - 1] + "...").splitlines()
    return "\n".join(re.sub(r"[^\x20-\x7e\t]", _visible, line) for line in lines)


def _visible(found: re.Match[str]) -> str:
    char = found[0]
    kind = unicodedata.category(char)
    if kind == "Zs":
        return " "
    if kind[0] == "C" or kind in {"Zl", "Zp"}:
        return char.encode("ascii", "backslashreplace").decode() if ord(char) > 126 else repr(char)[1:-1]
    return char


def picked(n: int, most: int) -> list[int]:
    """Rows of a long list, evenly spaced, the first and the last among them.

    Example:
        >>> picked(3, 10), picked(100, 4)
        ([0, 1, 2], [0, 33, 66, 99])
    """
    if n <= most:
        return list(range(n))
    return [row * (n - 1) // (most - 1) for row in range(most)]


def known(values: Sequence[float | None]) -> list[float]:
    """Values that are not null."""
    return [value for value in values if value is not None]


def ends(values: Sequence[float | None]) -> tuple[float, float] | None:
    """The first and the last value that is not null; None without any."""
    found = known(values)
    return (found[0], found[-1]) if found else None
