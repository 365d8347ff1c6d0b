"""Two audits side by side: which figures and findings differ, and by how much."""

import datetime
import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from corpo_rl._version import __version__

SCHEMA: Final = "corpo-rl.audit-diff/1"

SHARES: Final = (
    ("reinforced_failure_share", "failed rollouts reinforced"),
    ("correct_share", "correct rollouts"),
    ("in_all_failed_groups_share", "reinforced failures in groups without a success"),
    ("r_count", "r_count: pushed up per pushed down"),
    ("r_loss_proxy", "r_loss proxy: |A| up per |A| down"),
    ("correctness_seeking_share", "groups with a mean under min_correct"),
    ("zero_variance_share", "groups with zero variance"),
    ("unscorable_share", "rollouts without a reward"),
)
"""Figures compared, with their labels; those of the group classes follow."""


def diff_audits(
    a: Mapping[str, Any], b: Mapping[str, Any], *, names: tuple[str, str], command: str = "", created: str | None = None
) -> dict[str, Any]:
    """What differs between the audits of two runs.

    Args:
        a: Document of the first audit.
        b: Document of the second.
        names: What to call them.
        command: How the comparison was called, for the record.
        created: Time stamp for the record; now when left out.

    Returns:
        A document: figures of both with their difference b - a; for the share of reinforced failures also an interval
        of the difference, taking the two runs as independent; and the findings whose status differs.
    """
    figures_a, figures_b = _figures(a), _figures(b)
    labels = dict(SHARES) | {key: key.removeprefix("class_").replace("_", " ") + " groups" for key in figures_a}
    labels |= dict(SHARES)
    return {
        "schema": SCHEMA,
        "corpo_rl_version": __version__,
        "created": created or datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": command,
        "a": {"name": names[0], "said": a["log"]["said"]},
        "b": {"name": names[1], "said": b["log"]["said"]},
        "comparable": list(_reasons_not(a, b)),
        "figures": [_figure(key, labels[key], figures_a[key], figures_b[key], a, b) for key in figures_a],
        "findings": _changed_findings(a, b),
    }


def _figures(document: Mapping[str, Any]) -> dict[str, float | None]:
    n_groups, phases = document["n_groups"], document["phases"]
    failed, correct = document["n_failed"], document["n_correct"]
    figures: dict[str, float | None] = {
        "reinforced_failure_share": document["reinforced_failure_share"]["value"],
        "correct_share": None if failed is None else _ratio(correct, failed + correct),
        "in_all_failed_groups_share": document["in_all_failed_groups_share"],
        "r_count": document["r_count"],
        "r_loss_proxy": document["r_loss_proxy"],
        "correctness_seeking_share": None
        if phases is None
        else _ratio(phases["correctness_seeking"], phases["correctness_seeking"] + phases["preference_seeking"]),
        "zero_variance_share": _ratio(document["zero_variance_groups"], document["n_groups_comparable"]),
        "unscorable_share": _ratio(document["n_unscorable"], document["n_rollouts"]),
    }
    classes = document["group_classes"]
    names = ("all_failed_equal", "all_failed_graded", "mixed", "all_correct_graded", "all_correct_equal")
    return figures | {f"class_{name}": None if classes is None else _ratio(classes[name], n_groups) for name in names}


def _figure(
    key: str, label: str, a: float | None, b: float | None, audit_a: Mapping[str, Any], audit_b: Mapping[str, Any]
) -> dict[str, Any]:
    known = a is not None and b is not None
    difference = b - a if a is not None and b is not None else None
    low = high = None
    if key == "reinforced_failure_share" and known:
        low, high = _difference_interval(audit_a[key], audit_b[key])
    return {"key": key, "label": label, "a": a, "b": b, "difference": difference, "low": low, "high": high}


def _difference_interval(a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Bounds of b - a from the bounds of a and b: the square-and-add rule for independent estimates.

    Source:
        Zou and Donner, "Construction of confidence limits about effect measures", Statistics in Medicine 27, 2008.
    """
    if None in (a["low"], a["high"], b["low"], b["high"]):
        return None, None
    middle = b["value"] - a["value"]
    below = math.hypot(b["value"] - b["low"], a["high"] - a["value"])
    above = math.hypot(b["high"] - b["value"], a["value"] - a["low"])
    return middle - below, middle + above


def _reasons_not(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[str]:
    for key, what in (
        ("correct_by", "correct means something else"),
        ("advantages_from", "advantages come from another source"),
        ("schema", "the documents have another form"),
        ("corpo_rl_version", "another version of corpo-rl wrote them"),
    ):
        if a[key] != b[key]:
            yield f"{what}: {a[key]} and {b[key]}"
    sizes_a, sizes_b = (set(document["log"]["group_sizes"]) for document in (a, b))
    if sizes_a != sizes_b:
        yield f"groups have other sizes: {_listed(sizes_a)} and {_listed(sizes_b)}"


def _changed_findings(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[dict[str, Any]]:
    found_a, found_b = ({one["id"]: one for one in document["findings"]} for document in (a, b))
    return [
        {
            "id": name,
            "title": (found_b.get(name) or found_a[name])["title"],
            "a": found_a[name]["status"] if name in found_a else "NOT CHECKED",
            "b": found_b[name]["status"] if name in found_b else "NOT CHECKED",
        }
        for name in dict.fromkeys((*found_a, *found_b))
        if found_a.get(name, {}).get("status") != found_b.get(name, {}).get("status")
    ]


def _listed(sizes: set[str]) -> str:
    ordered = sorted(sizes, key=int)
    return ", ".join(ordered[:6]) + (", ..." if len(ordered) > 6 else "")


def _ratio(numerator: float, denominator: float) -> float | None:
    return numerator / denominator if denominator else None
