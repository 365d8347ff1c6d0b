"""The form of a sweep's `results.json`: its schema, a check that names what is wrong, and how it is written."""

from collections.abc import Mapping
from typing import Any, Final

from corpo_rl.errors import DataError
from corpo_rl.report.form import (
    Schema,
    check_form,
    count_field,
    field,
    json_text,
    list_field,
    map_field,
    number_field,
    object_field,
    text_field,
)

SWEEP_VERSION: Final = "corpo-rl.sweep/1"
"""Value of the field `schema`; a change that breaks a reader raises the number."""

SELECTION: Final = "selection"
"""The part of the items that trials are chosen by."""
HELD_OUT: Final = "held_out"
"""The other half of the same split, which no choice has seen."""

STATES: Final = ("finished", "failed")

_INTERVAL = {
    "value": number_field("the estimate"),
    "low": number_field("lower bound of its interval"),
    "high": number_field("upper bound"),
}

_VALUE: Final[Schema] = {"type": ["string", "number"]}

_DIMENSION = object_field(
    "what trials differ in: a list has `choices`, a range has `low`, `high` and `log`",
    {"name": text_field("method, learning_rate, group_size or min_correct")},
)

_TRIAL = object_field(
    "one trial",
    {
        "number": count_field("from 0, in the order in which they were drawn"),
        "state": field("string", "finished or failed", enum=list(STATES)),
        "params": map_field("dimension -> its value, fixed ones included", _VALUE),
        "prompts_per_step": count_field("prompts of one optimizer step"),
        "same_as": count_field("earlier trial with the same values, whose outcome it takes over", null=True),
        "reason": text_field("why it failed", null=True),
        SELECTION: object_field("the objective on the half of the items that chooses", _INTERVAL, null=True),
        HELD_OUT: object_field("the same policies on the other half", _INTERVAL, null=True),
        "by_seed": list_field("the objective under each seed, on the half that chooses", number_field("a mean")),
        "tied": field("boolean", "whether it cannot be told from the best trial; true for that one itself"),
    },
)

_PARTS = map_field("part of the items -> the objective", object_field("a figure", _INTERVAL))

SWEEP_SCHEMA: Final[Schema] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Results of corpo-rl sweep",
    **object_field(
        "what a search over settings found",
        {
            "schema": {"const": SWEEP_VERSION},
            "corpo_rl_version": text_field("version that wrote it"),
            "created": text_field("when, ISO 8601"),
            "command": text_field("command line that made it; empty when called from Python"),
            "settings": object_field(
                "what all trials share, and how they were drawn",
                {
                    "objective": text_field("figure that trials are chosen by"),
                    "direction": field("string", "which way is better", enum=["maximize", "minimize"]),
                    "split": text_field("evaluation split whose items are halved"),
                    "judged_by": field("number", "least reward that counts as correct when judging, in task units"),
                    "sampler": text_field("tpe, random or grid"),
                    "sampler_seed": count_field("its seed"),
                    "seeds": list_field("training seeds of every trial", count_field("a seed")),
                    "hold": text_field("what a step keeps when the group size changes: rollouts or prompts"),
                    "jobs": count_field("trials side by side"),
                    "n_trials": count_field("trials asked for"),
                    "level": field("number", "coverage of the intervals", minimum=0, maximum=1),
                    "dimensions": list_field("what trials differ in", _DIMENSION),
                },
            ),
            "environment": map_field("library -> version, and the machine", {}),
            "splits": map_field(
                "part of the items -> what it is",
                object_field(
                    "a part",
                    {
                        "title": text_field("its name"),
                        "description": text_field("what it holds"),
                        "n_items": count_field("items"),
                        "n_problems": count_field("problems, which intervals draw"),
                    },
                ),
            ),
            "trials": list_field("every trial, by number", _TRIAL),
            "start": _PARTS,
            "best": count_field("number of the trial with the best objective on the half that chooses", null=True),
            "confirmation": object_field(
                "the best setting trained again; null when that was not asked for",
                {
                    "seeds": list_field("fresh seeds", count_field("a seed")),
                    "reason": text_field("why it failed", null=True),
                    "parts": _PARTS,
                    "over_start": map_field(
                        "part -> the objective minus the starting policy's on the same items",
                        object_field("a paired difference", _INTERVAL),
                    ),
                },
                null=True,
            ),
            "importances": map_field(
                "searched dimension -> its share by PED-ANOVA; null where too few trials finished",
                field("number", "share", minimum=0),
                null=True,
            ),
        },
    ),
}
"""JSON Schema (draft 2020-12) of a sweep's results. Further fields are allowed everywhere."""


def check_sweep(document: object, *, name: str = "results") -> None:
    """Check that a document has the form of a sweep's results.

    Beyond the schema: trials are numbered from 0, the best one finished, and a finished one has its figures.

    Args:
        document: As loaded from JSON.
        name: What to call it in an error.

    Raises:
        DataError: Something is missing or of the wrong kind; the message names the first such place.

    Example:
        >>> check_sweep({"schema": "corpo-rl.sweep/0"})  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        corpo_rl.errors.DataError: results.schema: ...corpo-rl.sweep/0': written by another version
    """
    check_form(document, SWEEP_SCHEMA, name, described_in="docs/sweep.md")
    assert isinstance(document, Mapping)
    for place, trial in enumerate(document["trials"]):
        at = f"{name}.trials[{place}]"
        if trial["number"] != place:
            raise DataError(f"{at}.number: expected {place}, got {trial['number']}")
        if (trial["state"] == "finished") != (trial[SELECTION] is not None):
            raise DataError(f"{at}.{SELECTION}: expected figures of finished trials, and of no others")
    for part in (SELECTION, HELD_OUT):
        if part not in document["splits"]:
            raise DataError(f"{name}.splits: expected the part {part!r}")
    best = document["best"]
    if best is not None and (best >= len(document["trials"]) or document["trials"][best]["state"] != "finished"):
        raise DataError(f"{name}.best: expected the number of a finished trial, got {best}")


def sweep_json(document: Mapping[str, Any]) -> str:
    """A sweep's results as JSON text: sorted keys, a newline at the end, null for what is undefined."""
    return json_text(document, "results", nan_as_null=True)
