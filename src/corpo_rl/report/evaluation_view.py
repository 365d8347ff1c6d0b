"""What a report reads out of an evaluation, and how its figures are called and written. Nothing here computes one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from corpo_rl.records import Interval
from corpo_rl.report.evaluation_schema import KINDS
from corpo_rl.report.view import interval, number, percent

Document = Mapping[str, Any]
"""An evaluation as loaded from JSON; `docs/evaluation.md` describes it."""

ALL: Final = "all"

KIND_NAMES: Final = {"mixed": "mixed pairs", "both_right": "both right", "both_wrong": "both wrong"}

LABELS: Final = {
    **{f"accuracy_{kind}": f"- {name}" for kind, name in KIND_NAMES.items()},
    "accuracy_parsed": "pass@1 if parsed",
    "score_accuracy": "single scores",
    "ordering": "right over wrong",
    "auroc": "AUROC",
    "brier": "Brier",
    "ece": "ECE",
    "mean_reward": "mean reward",
    "hedge_rate": "hedges (5, 5)",
    "parse_failure_rate": "parse failures",
    "position_bias": "position bias",
    "score_as_a": "score as A",
    "score_as_b": "score as B",
    "preference_flip_rate": "preference flips",
    "verdict_flip_rate": "verdict flips",
}
"""Name of each figure in a table, at most 16 letters."""

ORDER: Final = (
    "accuracy_parsed", "ordering", "auroc", "score_accuracy", "brier", "ece", "hedge_rate", "parse_failure_rate",
    "mean_reward",
)  # fmt: skip
"""Figures of the main table after the accuracies, in reading order."""

OF_ORDER: Final = ("position_bias", "score_as_a", "score_as_b", "preference_flip_rate", "verdict_flip_rate")
"""Figures that the order of the answers has, in reading order."""

SHARES: Final = {"hedge_rate", "parse_failure_rate", "preference_flip_rate", "verdict_flip_rate"}
"""Figures written as percentages."""

LESS_IS_BETTER: Final = {
    "brier", "ece", "hedge_rate", "parse_failure_rate", "preference_flip_rate", "verdict_flip_rate",
}  # fmt: skip
MORE_IS_BETTER: Final = {
    "accuracy_mixed", "accuracy_both_right", "accuracy_both_wrong", "accuracy_parsed", "ordering", "auroc",
    "score_accuracy", "mean_reward",
}  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A line of a table: a figure of every model."""

    key: str
    """Name of the figure, or of the domain."""
    label: str
    part: str
    """`figures` or `domains`."""

    def better(self) -> str:
        """Which verdict is the better one: "higher", "lower", or "" for a figure that has no better end."""
        if self.part == "domains" or self.key.startswith("pass@") or self.key in MORE_IS_BETTER:
            return "higher"
        return "lower" if self.key in LESS_IS_BETTER else ""

    def write(self, value: float, *, signed: bool = False, digits: int = 3) -> str:
        """A value of the figure; a signed one is a difference."""
        if self.key in SHARES and self.part == "figures":
            sign = "-" if value < 0 else "+" if signed and value > 0 else ""
            return sign + percent(abs(value))
        if self.key in OF_ORDER:
            return number(value, digits=2, signed=signed or self.key == "position_bias")
        return number(value, digits=digits, signed=signed)


def models(document: Document) -> list[str]:
    """Names of the models; the others are compared with the first."""
    return list(document["settings"]["models"])


def splits(document: Document) -> list[str]:
    """Splits in reading order: all pairs first, the rest as the pairs file's splits are ordered."""
    known = [ALL, "in_domain", "ood", "other_domain", "train"]
    found = document["splits"]
    return [name for name in known if name in found] + sorted(set(found) - set(known))


def main_rows(document: Document, split: str) -> list[Row]:
    """Rows of a split's table: pass@1, also of each kind and domain when there are several, pass@k, and the rest."""
    about = document["splits"][split]
    kinds = [kind for kind in KINDS if about["kinds"][kind]]
    rows = [Row("pass@1", "pass@1", "figures")]
    if len(kinds) > 1:
        rows += [Row(name, LABELS[name], "figures") for name in (f"accuracy_{kind}" for kind in kinds)]
    if len(about["domains"]) > 1:
        rows += [Row(domain, f"- {domain}", "domains") for domain in about["domains"]]
    rows += [Row(f"pass@{k}", f"pass@{k}", "figures") for k in sorted(document["settings"]["k"]) if k != 1]
    return rows + [Row(name, LABELS[name], "figures") for name in ORDER if name != "ordering" or "mixed" in kinds]


def order_rows(document: Document) -> list[Row]:
    """Rows of the table of what the order of the answers does; empty when only one order was asked for."""
    return [Row(name, LABELS[name], "figures") for name in OF_ORDER if name in document["figures"]]


def found(document: Document, split: str, model: str, row: Row) -> Interval:
    """A figure with its interval; undefined parts are NaN."""
    return interval(document["splits"][split]["models"][model][row.part].get(row.key))


def n_of(document: Document, split: str, model: str, row: Row) -> int:
    """How many a figure is over."""
    node = document["splits"][split]["models"][model][row.part].get(row.key)
    return 0 if node is None else int(node["n"])


def over(document: Document, row: Row) -> str:
    """What that number counts."""
    return "completions" if row.part == "domains" else str(document["figures"][row.key]["over"])


def difference(document: Document, split: str, model: str, row: Row) -> Mapping[str, Any] | None:
    """The paired difference of a model to the first; None for the first."""
    differences = document["splits"][split]["models"][model]["differences"]
    if differences is None:
        return None
    node: Mapping[str, Any] | None = differences[row.part].get(row.key)
    return node


def sampling_words(document: Document) -> str:
    """How the completions were drawn, in a sentence."""
    settings = document["settings"]
    n, temperature = settings.get("n_samples"), settings.get("temperature")
    if n is None or temperature is None:
        return ""
    how = "greedily" if temperature == 0 else f"at temperature {temperature:g}"
    samples = "One completion" if n == 1 else f"{n} completions"
    orders = "in both orders of its answers" if settings.get("both_orders") else "in its own order"
    return f"{samples} of each pair {orders}, drawn {how}."
