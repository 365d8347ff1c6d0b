"""What a report reads out of results: names in their order, values with their intervals, and how they are written.

Nothing here computes a figure; a null stays undefined and is written "n/a".
"""

import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from corpo_rl.records import EVALUATION_SPLITS, Interval

Results = Mapping[str, Any]
"""A results file as loaded from JSON; `docs/results-schema.md` describes it."""

BASE = "base"
"""Row name of the policy before training."""

UNDEFINED = Interval(math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class Measure:
    """One figure of an evaluation."""

    key: str
    """Key in `evaluation[split]["measures"]`."""
    label: str
    """Column heading."""
    definition: str
    """What it means, in a sentence or two."""


VERIFIER_MEASURES = (
    Measure(
        "brier",
        "Brier",
        "Mean squared distance of score / 10 from the label, parsed answers only: 0 best, 1 worst, (5, 5) 0.25.",
    ),
    Measure(
        "score_accuracy",
        "score accuracy",
        "Share of single scores on the right side of 5, parsed answers only; a 5 is on neither side.",
    ),
    Measure("hedge_rate", "hedge", "Share of parsed answers that are the hedge (5, 5), which commits to nothing."),
)
"""What tasks that score two candidates report beside the reward."""


def measures(results: Results) -> list[Measure]:
    """Measures of the final tables, in column order; pass@k appears once when k is 1."""
    k = pass_k(results)
    found = [Measure("pass@1", "pass@1", "Chance that one sampled answer is correct, averaged over items.")]
    if k != 1:
        found.append(
            Measure(
                f"pass@{k}",
                f"pass@{k}",
                f"Chance that at least one of {k} sampled answers is correct, averaged over items (unbiased estimate).",
            )
        )
    found.append(
        Measure("mean_reward", "mean reward", "Mean graded reward of the samples, in task units, unparsable included.")
    )
    unparsed = Measure(
        "parse_failure_rate", "parse failures", "Share of samples that are not in the form the task asks for."
    )
    seen = _measured(results)
    if not seen or seen & {column.key for column in VERIFIER_MEASURES}:
        found += VERIFIER_MEASURES
    known = {column.key for column in (*found, unparsed, *VERIFIER_MEASURES)}
    found += [
        Measure(key, key.replace("_", " "), "The task's own figure, averaged over the parsed answers.")
        for key in sorted(seen - known)
        if not key.startswith("pass@")
    ]
    return [*found, unparsed]


def _measured(results: Results) -> set[str]:
    """Measures that any evaluation has."""
    owners = (results["base"], *results["methods"].values())
    return {key for owner in owners for found in owner.get("evaluation", {}).values() for key in found["measures"]}


def pass_k(results: Results) -> int:
    """The k of the second pass@k, from the settings."""
    return int(results["settings"].get("k", 16))


def level_text(results: Results) -> str:
    """Confidence level of the intervals, e.g. "95 %"."""
    return f"{100 * float(results['settings'].get('level', 0.95)):g} %"


def reference(results: Results) -> str | None:
    """Method the others are compared with, None when the results name none."""
    named = results["settings"].get("reference")
    return None if named is None else str(named)


def method_names(results: Results) -> list[str]:
    """Every method that was asked for or run: the settings' order first."""
    asked = results["settings"].get("methods") or []
    run = [run["method"] for run in results["runs"]]
    return list(dict.fromkeys([*asked, *run, *results["methods"]]))


def split_names(results: Results) -> list[str]:
    """Evaluation splits in report order."""
    known = [name for name in EVALUATION_SPLITS if name in results["splits"]]
    return known + [name for name in results["splits"] if name not in known]


def split_title(results: Results, split: str) -> str:
    """Title of a split, its key when it has none."""
    return str(results["splits"][split].get("title") or split)


def place(results: Results, split: str) -> str:
    """A split as a place in a sentence: "in domain", "on <title>"."""
    known = {"in_domain": "in domain", "ood": "out of domain", "other_domain": "in the other domain"}
    return known.get(split) or f"on {split_title(results, split)}"


def evaluation(results: Results, method: str, split: str) -> Mapping[str, Any] | None:
    """Pooled evaluation of a method, or of `BASE`, on a split; None when there is none."""
    owner = results["base"] if method == BASE else results["methods"].get(method, {})
    found: Mapping[str, Any] | None = owner.get("evaluation", {}).get(split)
    return found


def measure(results: Results, method: str, split: str, key: str) -> Interval:
    """A measure with its interval, `UNDEFINED` where the results hold none."""
    found = evaluation(results, method, split)
    return interval(None if found is None else found["measures"].get(key))


def interval(node: Mapping[str, Any] | None) -> Interval:
    """Read {"value", "low", "high"}; a null or a missing part becomes NaN."""
    if node is None:
        return UNDEFINED
    return Interval(*(math.nan if node.get(key) is None else float(node[key]) for key in ("value", "low", "high")))


def comparison(results: Results, method: str, split: str, key: str, *, against: str | None) -> Mapping[str, Any] | None:
    """The paired comparison of a method with another or with `BASE`, None when there is none."""
    for row in results["comparisons"]:
        if (row["method"], row["split"], row["measure"], row["reference"]) == (method, split, key, against):
            found: Mapping[str, Any] = row
            return found
    return None


def runs_of(results: Results, method: str) -> list[Mapping[str, Any]]:
    """Runs of a method, by seed as listed."""
    return [run for run in results["runs"] if run["method"] == method]


def number(value: float, *, digits: int = 3, signed: bool = False) -> str:
    """Fixed-point text; "n/a" when undefined, and never a negative zero.

    Example:
        >>> number(0.12345), number(-0.0001), number(0.04, signed=True), number(float("nan"))
        ('0.123', '0.000', '+0.040', 'n/a')
    """
    if math.isnan(value):
        return "n/a"
    text = f"{value:{'+' if signed else ''}.{digits}f}"
    return text[1:] if text[0] in "+-" and float(text) == 0 else text


def percent(value: float) -> str:
    """A share as a whole percentage that does not round a rare event to none, nor a miss to all.

    Example:
        >>> percent(0.18), percent(0.004), percent(0.998), percent(0.0)
        ('18 %', '<1 %', '>99 %', '0 %')
    """
    if math.isnan(value):
        return "n/a"
    if 0 < value <= 0.005:
        return "<1 %"
    if 0.995 <= value < 1:
        return ">99 %"
    return f"{number(100 * value, digits=0)} %"


def joined(names: Sequence[str], *, last: str = "and") -> str:
    """Names as in a sentence.

    Example:
        >>> joined(["a"]), joined(["a", "b", "c"])
        ('a', 'a, b and c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {last} {names[-1]}"


def capital(text: str) -> str:
    """Text with its first letter as a sentence starts; the rest is left alone."""
    return text[:1].upper() + text[1:]


def plain(text: object) -> str:
    r"""Text that cannot move a terminal's cursor or break a line: control and format characters become "?".

    Example:
        >>> plain("corpo\x1b[2J")
        'corpo?[2J'
    """
    return "".join("?" if unicodedata.category(char)[0] in "CZ" and char != " " else char for char in str(text))
