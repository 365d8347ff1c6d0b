"""What a report reads out of a sweep, in words. Nothing here computes a figure; a null stays undefined."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from corpo_rl.records import EVALUATION_SPLITS, Interval
from corpo_rl.report.audit_view import shown
from corpo_rl.report.sweep_schema import HELD_OUT, SELECTION
from corpo_rl.report.view import interval, joined, number

Document = Mapping[str, Any]
"""A sweep's results as loaded from JSON; docs/sweep.md describes them."""

Trial = Mapping[str, Any]
"""One of its trials."""

LABELS: Final = {
    "method": "method",
    "learning_rate": "learning rate",
    "group_size": "group size",
    "min_correct": "min_correct",
}
"""Dimension -> how it is called."""

FEW_SEEDS: Final = 5
"""Seeds under which a bootstrap over seeds is known to be too narrow."""

EDGE: Final = 0.05
"""Share of a range that counts as its edge."""


@dataclass(frozen=True)
class Headline:
    """The message of a sweep."""

    figure: str
    """The objective, e.g. "0.412"; empty when nothing can be said."""
    span: str
    """Its interval in words; empty where there is none."""
    lead: str
    """Whose figure it is, on what."""
    more: tuple[str, ...]
    """What to know with it, a sentence each."""


def headline(document: Document) -> Headline:
    """What the best setting is worth: as confirmed, where it was, and never more than that."""
    best = best_trial(document)
    failed = sum(trial["state"] == "failed" for trial in document["trials"])
    if best is None:
        return Headline("", "", f"No trial finished; {failed} failed.", ())
    name = objective(document)
    setting = f"trial {best['number']}: {params_words(best['params'])}"
    chosen = interval(best[SELECTION])
    n_finished = sum(trial["state"] == "finished" for trial in document["trials"])
    picked = f"the best of {n_finished} finished trials" if n_finished > 1 else "the only finished trial"
    told = confirmed(document)
    if told is None:
        lead = f"{name} of {setting}, {picked}, on the very items it was chosen by"
        more = [_unconfirmed(document)]
        return Headline(number(chosen.value), _span(document, chosen), lead, (*more, *_further(document)))
    here = interval(told["parts"][HELD_OUT])
    lead = f"{name} of {setting}, trained again under fresh seeds, on held-out items"
    return Headline(
        number(here.value),
        _span(document, here),
        lead,
        (_luck(document, chosen, picked), *_over_start(document), *_further(document)),
    )


def _span(document: Document, one: Interval) -> str:
    if math.isnan(one.low):
        return ""
    return f"{level_words(document)} interval {brackets(one)}"


def _luck(document: Document, chosen: Interval, picked: str) -> str:
    same_runs = interval((best_trial(document) or {})[HELD_OUT])
    return (
        f"It was chosen at {number(chosen.value)}, as {picked}; such a figure is in part luck, so it is not the one to "
        f"quote. The same policies on the held-out items: {number(same_runs.value)}."
    )


def _over_start(document: Document) -> Iterator[str]:
    told = confirmed(document)
    if told is not None and HELD_OUT in told["over_start"]:
        gain = interval(told["over_start"][HELD_OUT])
        yield f"Over the starting policy that is {number(gain.value, signed=True)} {brackets(gain, signed=True)}."


def _unconfirmed(document: Document) -> str:
    told = document["confirmation"]
    if told is not None and told["reason"] is not None:
        return f"The setting failed when it was trained again under fresh seeds: {shown(told['reason'], 300)}"
    return "It was not trained again under fresh seeds: as the best of several trials this figure is too good by luck."


def _further(document: Document) -> Iterator[str]:
    others = [trial for trial in ties(document) if trial["number"] != document["best"]]
    if others:
        names = joined([str(trial["number"]) for trial in others[:12]])
        more = f" and {len(others) - 12} more" if len(others) > 12 else ""
        trials = "trial ties" if len(others) == 1 else "trials tie"
        yield f"{len(others)} {trials} with it: {names}{more}. This search does not tell them apart from the best."
    elif sum(trial["state"] == "finished" and trial["same_as"] is None for trial in document["trials"]) > 1:
        yield "No other trial ties with it."
    failed = sum(trial["state"] == "failed" for trial in document["trials"])
    if failed:
        trials = "trial" if failed == 1 else "trials"
        yield f"{failed} {trials} failed and {'has' if failed == 1 else 'have'} no value."


def cautions(document: Document) -> Iterator[str]:
    """What to bear in mind, a sentence or two each."""
    n_seeds = len(document["settings"]["seeds"])
    if n_seeds == 1:
        yield (
            "Every trial has one seed: intervals and ties cover the draw of items only, and not the luck of a training "
            "run. Settings may differ by that luck alone."
        )
    elif n_seeds < FEW_SEEDS:
        yield f"With {n_seeds} seeds a trial the intervals are too narrow in the seeds, as any bootstrap of so few is."
    if document["settings"]["jobs"] > 1:
        yield (
            f"{document['settings']['jobs']} trials ran side by side, so that which settings were drawn depended on "
            "their speed; the same command may try others next time."
        )
    yield from _edges(document)
    if document["settings"]["hold"] == "prompts" and "group_size" in searched(document):
        yield "Larger groups sampled more rollouts a step: --hold prompts gives them more to learn from."


def _edges(document: Document) -> Iterator[str]:
    best = best_trial(document)
    if best is None:
        return
    for dimension in document["settings"]["dimensions"]:
        value, name = best["params"].get(dimension["name"]), dimension["name"]
        if not isinstance(value, int | float):
            continue
        if "choices" in dimension:
            ends = [min(dimension["choices"]), max(dimension["choices"])]
            at = value in ends and len(dimension["choices"]) > 1
        else:
            place = place_in_range(float(value), dimension)
            at = not EDGE <= place <= 1 - EDGE
        if at:
            label = f"The best {LABELS[name]}, {short(value)},"
            yield f"{label} is at the edge of what was searched: a wider search may help."


def place_in_range(value: float, dimension: Mapping[str, Any]) -> float:
    """Where a value stands in a range, from 0 to 1, on the scale it was drawn on."""
    low, high = float(dimension["low"]), float(dimension["high"])
    if dimension["log"]:
        value, low, high = math.log(value), math.log(low), math.log(high)
    return (value - low) / (high - low)


def objective(document: Document) -> str:
    """Name of the objective."""
    return shown(document["settings"]["objective"], 40)


def better_words(document: Document) -> str:
    """Which way is better."""
    return "higher is better" if document["settings"]["direction"] == "maximize" else "lower is better"


def level_words(document: Document) -> str:
    """Coverage of the intervals, e.g. "95 %"."""
    return f"{100 * float(document['settings']['level']):g} %"


def best_trial(document: Document) -> Trial | None:
    """The best trial; None when none finished."""
    found: Trial | None = None if document["best"] is None else document["trials"][document["best"]]
    return found


def confirmed(document: Document) -> Mapping[str, Any] | None:
    """What fresh seeds said of the best setting; None when that was not asked for, or failed."""
    told: Mapping[str, Any] | None = document["confirmation"]
    return None if told is None or told["reason"] is not None else told


def ties(document: Document) -> list[Trial]:
    """Trials that tie with the best, itself among them; those that repeat another are left out."""
    return [trial for trial in document["trials"] if trial["tied"] and trial["same_as"] is None]


def parts(document: Document) -> list[str]:
    """Parts of the items in report order: held out first, what trials were chosen by last."""
    others = [part for part in EVALUATION_SPLITS if part in document["splits"]]
    return [HELD_OUT, *others, SELECTION]


def ranked(document: Document) -> list[Trial]:
    """Finished trials from the best on, then the failed ones; equals in their order."""
    sign = -1.0 if document["settings"]["direction"] == "maximize" else 1.0

    def key(trial: Trial) -> tuple[bool, float, int]:
        value = interval(trial[SELECTION]).value
        return (trial["state"] != "finished", 0.0 if math.isnan(value) else sign * value, trial["number"])

    return sorted(document["trials"], key=key)


def searched(document: Document) -> list[str]:
    """Names of the dimensions with more than one value."""
    return [one["name"] for one in document["settings"]["dimensions"] if len(one.get("choices", (0, 0))) > 1]


def params_words(params: Mapping[str, Any]) -> str:
    """A setting as a phrase.

    Example:
        >>> params_words({"method": "corpo", "learning_rate": 0.00032, "group_size": 8})
        'corpo, learning rate 0.00032, group size 8'
    """
    return ", ".join(
        short(value) if name == "method" else f"{LABELS.get(name, shown(name))} {short(value)}"
        for name, value in in_order(params)
    )


def in_order(params: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """A setting's values, the dimensions in the order in which they are listed."""
    return [(name, params[name]) for name in dict.fromkeys((*LABELS, *params)) if name in params]


def short(value: object) -> str:
    """A value of a dimension, numbers to three digits."""
    return f"{value:.3g}" if isinstance(value, float) else shown(value, 40)


def brackets(one: Interval, *, signed: bool = False) -> str:
    """An interval in brackets; empty where there is none."""
    if math.isnan(one.low):
        return ""
    return f"[{number(one.low, signed=signed)}, {number(one.high, signed=signed)}]"


def space_words(document: Document) -> Sequence[tuple[str, str]]:
    """Each dimension and what it was searched over."""
    found = []
    for one in document["settings"]["dimensions"]:
        if "choices" in one:
            text = ", ".join(map(short, one["choices"]))
        else:
            text = f"{short(one['low'])} to {short(one['high'])}" + (", logarithmic" if one["log"] else "")
        found.append((LABELS.get(one["name"], shown(one["name"])), text))
    return found
