"""The tables of a study's page, as Markdown, and the page with them in place."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpo_rl.errors import DataError
from corpo_rl.records import Interval
from corpo_rl.study.claims import CLAIMS, LIMITS, Claim
from corpo_rl.study.plan import FLOORED, REFERENCE, UNTRAINED, condition_name
from corpo_rl.study.quantities import (
    Study,
    failed_share,
    floored_share,
    log_r_count,
    paired,
    reinforced_share,
    solved,
    updates,
)
from corpo_rl.study.verdicts import overall, seed_interval

SPLITS = {"in_domain": "in domain", "ood": "out of domain", "other_domain": "other domain"}

CAPTIONS = {
    "r_count.svg": "Rollouts pushed up for each one pushed down, by step. Lines are means over seeds; the bands of "
    "grpo, static and corpo hold 95 %.",
    "reinforced.svg": "Share of the failed rollouts with an advantage above 0, by step. static, corpo and loo_corpo "
    "have none by construction and are not drawn.",
    "differences.svg": "Differences in pass@1 with 95 % intervals, each by its threshold. The mark is the verdict that "
    "allows for all cells.",
}
"""What is said under each picture."""

Row = Mapping[str, Any]


def summary_table(rows: Sequence[Row], claims: Sequence[Claim] = CLAIMS) -> str:
    """How many cells speak for each claim, and the word for all of them."""
    texts = {claim.key: claim.text for claim in claims}
    lines = [
        [row["key"], texts[row["key"]], *(row[word] for word in ("supported", "not supported", "undecided")),
         f"**{row['overall']}**"]
        for row in rows
        if row["key"] in texts
    ]  # fmt: skip
    return table(["", "claim", "supported", "not supported", "undecided", "in all"], lines)


SHORT: Mapping[str, Sequence[str]] = {
    "GRPO reinforces a sizeable share of its failures": ["1"],
    "Early on the static threshold and CoRPO push fewer rollouts up than down": ["2a", "2b"],
    "Later the static threshold's ratio of up to down climbs, and above CoRPO's": ["3a", "3c"],
    "Later CoRPO's ratio settles": ["3b"],
    "The static threshold beats GRPO out of domain": ["4a", "4b", "4c", "4d"],
    "CoRPO beats GRPO out of domain": ["4e", "4f", "4g", "4h"],
    "CoRPO is slightly below the static threshold in domain": ["5"],
    "The static threshold beats GRPO without its divisor out of domain": ["6a", "6b", "6c", "6d"],
    "CoRPO beats GRPO without its divisor out of domain": ["6e", "6f", "6g", "6h"],
    "CoRPO costs no more than GRPO": ["7"],
}
"""The claims in few lines, each with the keys of those that it takes together."""


def short_table(found: Sequence[Row]) -> str:
    """The verdicts in a line for each of `SHORT`, over all cells of its claims."""
    lines = []
    for text, keys in SHORT.items():
        words = [row["verdict_of_all"] for row in found if row["key"] in keys]
        counts = [f"{words.count(word)}" for word in ("supported", "not supported", "undecided")]
        if words:
            lines.append([text, *counts, f"**{overall(words)}**"])
    return table(["claim", "supported", "not supported", "undecided", "in all"], lines)


def definitions_table(claims: Sequence[Claim] = CLAIMS + LIMITS) -> str:
    """What was computed for each claim, and its rule."""
    return table(["", "quantity", "too little to matter"], [[c.key, c.quantity, _margin(c)] for c in claims])


def verdicts_table(found: Sequence[Row], claims: Sequence[Claim] = CLAIMS, *, reward: str | None) -> str:
    """Value, interval and verdict of each claim at each threshold of a reward; None for claims without one."""
    chosen = [row for row in found if row["reward"] == reward and row["key"] in {claim.key for claim in claims}]
    thresholds = list(dict.fromkeys(row["threshold"] for row in chosen))
    at = {(row["key"], row["threshold"]): row for row in chosen}
    lines = [
        [claim.key, *(verdict_text(claim, at.get((claim.key, threshold))) for threshold in thresholds)]
        for claim in claims
        if any((claim.key, threshold) in at for threshold in thresholds)
    ]
    heads = ["" if threshold is None else f"threshold {threshold:g}" for threshold in thresholds]
    return table(["", *heads], lines)


def limits_table(found: Sequence[Row]) -> str:
    """Value, interval and verdict of what should fail, a column for each reward."""
    keys = [claim.key for claim in LIMITS]
    rewards = list(dict.fromkeys(row["reward"] for row in found if row["key"] in keys))
    at = {(row["key"], row["reward"]): row for row in found}
    lines = [
        [claim.key, claim.text, *(verdict_text(claim, at.get((claim.key, reward))) for reward in rewards)]
        for claim in LIMITS
        if any((claim.key, reward) in at for reward in rewards)
    ]
    return table(["", "expected", *rewards], lines)


def verdict_text(claim: Claim, row: Row | None) -> str:
    """A cell: value and interval, and the verdict that allows for all cells; the one without where it is another."""
    if row is None:
        return ""
    write = _writer(claim.scale)
    interval = row["interval"]
    text = f"{write(interval['value'])} [{write(interval['low'])}, {write(interval['high'])}] {row['verdict_of_all']}"
    if row["verdict"] != row["verdict_of_all"]:
        text += f"; alone {row['verdict']}"
    return text + (f"; {row['n_undefined']} seeds undefined" if row["n_undefined"] else "")


def outcome_table(study: Study, reward: str, threshold: float) -> str:
    """pass@1 and pass@k of the base and of every method on each split, judged by a threshold."""
    k = study.results["plan"]["sizes"]["samples"]
    lines = []
    for method in (UNTRAINED, *study.results["plan"]["methods"]):
        runs = study.runs(reward, method, threshold, part="base" if method == UNTRAINED else "main")
        if runs:
            cells = [
                _interval_text(seed_interval(solved(runs, split, threshold, k=at), n_resamples=2000), places=2)
                for split in SPLITS
                for at in (1, k)
            ]
            lines.append(["base" if method == UNTRAINED else f"`{method}`", *cells])
    return table(["", *(f"{name}, pass@{at}" for name in SPLITS.values() for at in (1, k))], lines)


def dynamics_table(study: Study, reward: str, threshold: float) -> str:
    """What the advantages of each method did early and late: means over seeds."""
    lines = []
    for method in study.results["plan"]["methods"]:
        runs = study.runs(reward, method, threshold)
        if not runs:
            continue
        count = [_mean_text(log_r_count(study, runs, which), _ratio) for which in ("early", "middle", "late")]
        up = [_mean_text(reinforced_share(study, runs, threshold, which), _percent) for which in ("early", "all")]
        floored = [_mean_text(floored_share(study, runs, threshold, which), _percent) for which in ("early", "late")]
        failed = [_mean_text(failed_share(study, runs, threshold, which), _percent) for which in ("early", "late")]
        lines.append([f"`{method}`", *count, *up, *floored, *failed])
    heads = ["r_count early", "middle", "late", "failures reinforced, early", "all steps", "groups under it, early",
             "late", "rollouts failed, early", "late"]  # fmt: skip
    return table(["", *heads], lines)


def steps_table(study: Study) -> str:
    """Learning rates, and how well the updates met: the mean update over the reference's, on the same seeds."""
    lines = []
    for reward, thresholds in study.results["plan"]["thresholds"].items():
        reference = study.runs(reward, REFERENCE, None)
        for method in study.results["plan"]["methods"]:
            for threshold in thresholds if method in FLOORED else (None,):
                runs, others = paired(study.runs(reward, method, threshold), reference)
                key = condition_name(reward, method, threshold)
                if runs:
                    met = seed_interval(updates(runs) / updates(others))
                    clipped = sum(run["n_clipped"] for run in runs.values())
                    steps = study.results["plan"]["sizes"]["steps"] * len(runs)
                    lines.append(
                        [f"`{key}`", f"{study.results['rates'][key]:.2e}", _interval_text(met, places=2),
                         f"{100 * clipped / steps:.1f} %"]
                    )  # fmt: skip
    return table(["", "learning rate", "update over grpo's", "steps clipped"], lines)


def facts_text(study: Study) -> str:
    """How many runs there are, and how long they took."""
    runs = study.results["runs"]
    trained = [run["seconds"] for run in runs if run["part"] == "main"]
    hours = math.fsum(run["seconds"] for run in runs) / 3600
    machines = [f"{one['machine']}, torch {one['torch']}, TRL {one['trl']}" for one in study.results["environments"]]
    middle = f"; the median run of the main part took {median(trained):.0f} s" if trained else ""
    return (
        f"{len(runs)} of {study.results['n_planned']} runs, {hours:.1f} hours of one core in all{middle}. "
        f"Environments: {'; '.join(dict.fromkeys(machines))}."
    )


def timing_table(study: Study) -> str:
    """Seconds of a step of every method that was timed, and over the reference's."""
    rounds = [row for run in study.results["runs"] for row in run.get("rounds", ())]
    lines = []
    for method in rounds[0] if rounds else ():
        over = seed_interval([math.log(row[method] / row[REFERENCE]) for row in rounds])
        seconds = median(row[method] for row in rounds)
        ends = f"{_ratio(over.value)} [{_ratio(over.low)}, {_ratio(over.high)}]"
        lines.append([f"`{method}`", f"{seconds:.3f}", "1" if method == REFERENCE else ends])
    return table(["", "seconds of a step", "over grpo's"], lines)


def generated(study: Study, found: Sequence[Row], summed: Sequence[Row]) -> dict[str, str]:
    """Every part of the page that is made from the results, by its name."""
    parts = {
        "facts": facts_text(study),
        "summary": summary_table(summed),
        "definitions": definitions_table(),
        "limits": limits_table(found),
        "steps": steps_table(study),
        "timing": timing_table(study),
        "pictures": "\n\n".join(f"![{text}]({name})\n\n{text}" for name, text in CAPTIONS.items()),
    }
    verdicts, outcomes = [], []
    for reward, thresholds in study.results["plan"]["thresholds"].items():
        verdicts += [f"Reward `{reward}`:", verdicts_table(found, reward=reward)]
        for threshold in thresholds:
            outcomes += [
                f"### `{reward}`, threshold {threshold:g}",
                outcome_table(study, reward, threshold),
                dynamics_table(study, reward, threshold),
            ]
    verdicts += ["Once:", verdicts_table(found, reward=None)]
    return {**parts, "verdicts": "\n\n".join(verdicts), "outcomes": "\n\n".join(outcomes)}


def fill_in(page: str, parts: Mapping[str, str]) -> str:
    r"""The page with each part between its marks, `<!-- results: NAME -->` and `<!-- end: NAME -->`.

    Raises:
        DataError: A part has no place on the page, or a place has no part.

    Example:
        >>> print(fill_in("<!-- results: a -->\n<!-- end: a -->", {"a": "text"}))
        <!-- results: a -->
        text
        <!-- end: a -->
    """
    places = re.findall(r"^<!-- results: (\w+) -->$", page, flags=re.MULTILINE)
    if sorted(places) != sorted(parts):
        raise DataError(f"page: expected places for {', '.join(sorted(parts))}, found {', '.join(sorted(places))}")
    for name, text in parts.items():
        start, end = f"<!-- results: {name} -->\n", f"<!-- end: {name} -->"
        before, _, rest = page.partition(start)
        _, mark, after = rest.partition(end)
        if not mark:
            raise DataError(f"page: expected {end} after {start.strip()}")
        page = f"{before}{start}{text}\n{mark}{after}"
    return page


def table(heads: Sequence[str], lines: Sequence[Sequence[object]]) -> str:
    """A Markdown table; one sentence when there is nothing in it."""
    if not lines:
        return "Nothing of this was run."
    rows = [heads, ["---"] * len(heads), *lines]
    return "\n".join("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows)


def _margin(claim: Claim) -> str:
    margin = claim.rule.margin
    if margin is None or claim.rule.kind == "within":
        return ""
    return f"a factor of {math.exp(margin):g}" if claim.scale == "ratio" else f"{margin:g}"


def _writer(scale: str) -> Callable[[float | None], str]:
    return {"points": _signed, "share": _percent, "ratio": _ratio, "count": _plain}[scale]


def _signed(value: float | None) -> str:
    return "n/a" if value is None or math.isnan(value) else f"{value:+.3f}"


def _percent(value: float | None) -> str:
    return "n/a" if value is None or math.isnan(value) else f"{100 * value:.1f} %"


def _ratio(value: float | None) -> str:
    """A ratio from its logarithm."""
    return "n/a" if value is None or math.isnan(value) else f"{math.exp(value):.3g}"


def _plain(value: float | None) -> str:
    return "n/a" if value is None or math.isnan(value) else f"{value:g}"


def _mean_text(values_S: NDArray[np.float64], write: Callable[[float | None], str]) -> str:
    known_S = values_S[np.isfinite(values_S)]
    return write(float(known_S.mean())) if len(known_S) else "n/a"


def _interval_text(interval: Interval, *, places: int) -> str:
    if math.isnan(interval.value):
        return "n/a"
    value = f"{interval.value:.{places}f}"
    return value if math.isnan(interval.low) else f"{value} [{interval.low:.{places}f}, {interval.high:.{places}f}]"
