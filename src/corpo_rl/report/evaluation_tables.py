"""An evaluation as tables of words and figures, for a terminal and for a page."""

from collections.abc import Mapping
from typing import Any, Final

from corpo_rl.report.audit_tables import Table
from corpo_rl.report.audit_view import shown

NAMES: Final = {
    "accuracy": "accuracy",
    "accuracy_mixed": "accuracy, one right one wrong",
    "accuracy_both_right": "accuracy, both right",
    "accuracy_both_wrong": "accuracy, both wrong",
    "ordering": "right answer scored higher",
    "auroc": "AUROC of the scores",
    "brier": "Brier score",
    "ece": "calibration error (ECE)",
    "mean_reward": "mean reward",
    "hedge_rate": "hedges (5 and 5)",
    "parse_failure_rate": "not parsed",
    "position_bias": "first answer's score less second's",
    "order_flip_rate": "verdicts that flip with the order",
}
"""Figures in reading order, as the tables name them; pass@k stands before them."""

_SHARES: Final = {"hedge_rate", "parse_failure_rate", "order_flip_rate"}


LONGEST_NAME: Final = 40
"""Characters of a model's name that head a column."""


def heads(document: Mapping[str, Any]) -> list[str]:
    """Names of the models, as they head columns."""
    return [shown(model, LONGEST_NAME) for model in document["models"]]


def splits_of(document: Mapping[str, Any]) -> list[str]:
    """Splits in reading order."""
    known = ["in_domain", "ood", "other_domain", "train", "all"]
    return sorted(document["splits"], key=lambda name: (known.index(name) if name in known else -1, name))


def split_title(document: Mapping[str, Any], split: str) -> str:
    """A split and its size."""
    found = document["splits"][split]
    title = "all pairs" if split == "all" else split
    return f"{title}: {found['n_pairs']:,} pairs of {found['n_problems']:,} problems"


def figures_table(document: Mapping[str, Any], split: str) -> Table:
    """Figures down, models across; figures that no model has are left out."""
    models = document["models"]
    found = document["splits"][split]["models"]
    names = [*(f"pass@{k}" for k in document["ks"]), *NAMES]
    rows = [
        (NAMES.get(name, name), *(cell(found[model]["figures"][name], name) for model in models))
        for name in names
        if any(found[model]["figures"][name]["value"] is not None for model in models)
    ]
    return Table(
        split_title(document, split),
        ("", *heads(document)),
        tuple(rows),
        caption=f"With {100 * document['level']:g} % intervals over problems. "
        + "; ".join(
            f"{shown(model, LONGEST_NAME)}: {found[model]['n_parsed']:,} of {found[model]['n_completions']:,} completions parsed"
            for model in models
        )
        + ".",
    )


def differences_table(document: Mapping[str, Any], split: str) -> Table | None:
    """Each further model less the first, with intervals; None for one model."""
    models = document["models"][1:]
    if not models:
        return None
    found = document["splits"][split]["models"]
    names = [*(f"pass@{k}" for k in document["ks"]), *NAMES]
    rows = [
        (NAMES.get(name, name), *(cell(found[model]["differences"][name], name, signed=True) for model in models))
        for name in names
        if any(found[model]["differences"][name]["value"] is not None for model in models)
    ]
    return Table(
        f"less {heads(document)[0]}",
        ("", *heads(document)[1:]),
        tuple(rows),
        caption="Differences on the same problems: an interval without 0 tells the two models apart.",
    )


def failures_table(document: Mapping[str, Any], split: str) -> Table | None:
    """Completions that were not parsed, by kind; None when all were."""
    models = document["models"]
    found = document["splits"][split]["models"]
    kinds = sorted({kind for model in models for kind in found[model]["parse_failures"]})
    if not kinds:
        return None
    rows = tuple(
        (kind.replace("_", " "), *(f"{found[model]['parse_failures'].get(kind, 0):,}" for model in models))
        for kind in kinds
    )
    return Table(
        "Completions that were not parsed", ("", *models), rows, caption="They have no score, and count as wrong."
    )


def cell(interval: Mapping[str, Any], name: str, *, signed: bool = False) -> str:
    """A figure with its interval, as a share in percent or a plain number; n/a where undefined."""
    if interval["value"] is None:
        return "n/a"
    share = name.startswith(("pass@", "accuracy")) or name in _SHARES or name == "ordering"

    def shown(value: float) -> str:
        text = f"{100 * value:.1f}" if share else f"{value:.3f}"
        return f"+{text}" if signed and value > 0 else text

    unit = " %" if share else ""
    if interval["low"] is None:
        return f"{shown(interval['value'])}{unit}"
    return f"{shown(interval['value'])}{unit} [{shown(interval['low'])}, {shown(interval['high'])}]"
