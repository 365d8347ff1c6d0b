"""A curation for a terminal, at most 80 columns wide, and the form of its JSON document."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from corpo_rl.errors import DataError
from corpo_rl.report.form import (
    ITEM,
    Schema,
    count_field,
    field,
    json_text,
    list_field,
    number_field,
    object_field,
    problems,
    share_field,
    text_field,
)
from corpo_rl.report.text import WIDTH, cut_to, padded, wrapped
from corpo_rl.report.view import number, percent, plain

CURATION_VERSION: Final = "corpo-rl.curation/1"

MOST_PROMPTS = 12
"""Prompts listed; the JSON has them all."""

_NAME_WIDTH = 24

_CLASSES = {
    "all_failed_equal": "all failed, with one and the same reward",
    "all_failed_graded": "all failed, some better than others",
    "mixed": "some failed, some correct",
    "all_correct_graded": "all correct, some better than others",
    "all_correct_equal": "all correct, with one and the same reward",
    "unscorable": "without a rollout of which it is known",
}
_GROUPS = object_field("groups of each class", {name: count_field(about) for name, about in _CLASSES.items()})

CURATION_SCHEMA: Final[Schema] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Prompts of a run by their success rate, by corpo-rl",
    **object_field(
        "Further fields are allowed everywhere.",
        {
            "schema": {"const": CURATION_VERSION, "description": f"`{CURATION_VERSION}`"},
            "corpo_rl_version": text_field("version of the package that wrote the document"),
            "created": text_field("when, ISO 8601 with a time zone"),
            "command": text_field("command line that made it; empty when called from Python"),
            "log": object_field(
                "what was read",
                {
                    "format": text_field("name of the log format"),
                    "title": text_field("the format in words"),
                    "n_files": count_field("files read"),
                    "sources": list_field("the first 20 of them", ITEM),
                    "grouped_by": text_field("how groups were told"),
                    "prompts_by": text_field("column that tells the prompts", null=True),
                    "n_rollouts": count_field("rollouts of the log"),
                    "n_groups": count_field("groups of the log"),
                    "n_groups_looked_at": count_field("groups of the steps asked for"),
                    "steps": object_field(
                        "their steps; null without",
                        {
                            "first": field("integer", "first step"),
                            "last": field("integer", "last step"),
                            "n": count_field("distinct steps"),
                        },
                        null=True,
                    ),
                    "warnings": list_field("what may be wrong with the log", ITEM),
                    "notes": list_field("what was done with it", ITEM),
                },
            ),
            "correct_by": text_field("what makes a rollout correct"),
            "min_correct": number_field("least reward that counts as correct, in task units; null with a label"),
            "band": list_field("success rates kept: low and high end, both included", share_field("an end")),
            "min_rollouts": count_field("scorable rollouts under which a prompt is uncertain"),
            "uncertain": field("string", "what becomes of uncertain prompts", enum=["keep", "drop"]),
            "level": share_field("confidence level of the intervals"),
            "n_prompts": count_field("prompts of the log"),
            "n_kept": count_field("prompts kept"),
            "reasons": object_field(
                "prompts by what the band says",
                {
                    "in band": count_field("kept"),
                    "below band": count_field("dropped"),
                    "above band": count_field("dropped"),
                    "too few rollouts": count_field("kept or dropped, as `uncertain` says"),
                },
            ),
            "n_settled": count_field("prompts whose whole interval is on the side of the band that their rate is on"),
            "dropped_all_failed": object_field(
                "all-failed groups of the prompts that are dropped, from which CoRPO learns",
                {
                    "n_prompts_never_correct": count_field("prompts dropped without one correct rollout"),
                    "n_prompts_never_correct_graded": count_field("those of them with a graded all-failed group"),
                    "n_prompts_with_such_groups": count_field("prompts dropped with an all-failed group"),
                    "n_prompts_below_band": count_field("those of them that are below the band"),
                    "n_groups_equal": count_field("such groups with equal rewards"),
                    "n_groups_graded": count_field("such groups with graded rewards"),
                },
            ),
            "by_rate": list_field(
                "prompts by success rate: exactly 0, bins without their low end, exactly 1",
                object_field(
                    "a bin",
                    {
                        "low": share_field("low end, not included unless it is the high end too"),
                        "high": share_field("high end, included unless it is 1 and the low end is not"),
                        "n_prompts": count_field("prompts"),
                        "n_kept": count_field("those kept"),
                        "mean_reward": number_field("mean over prompts of the mean reward, in task units"),
                        "group_classes": _GROUPS,
                    },
                ),
            ),
            "dataset": object_field(
                "the data set that was filtered; null without",
                {
                    "path": text_field("file read"),
                    "out": text_field("file written"),
                    "matched_by": text_field("what had to be equal"),
                    "n_rows": count_field("rows read"),
                    "n_rows_kept": count_field("rows written"),
                    "n_rows_unmatched": count_field("rows that are no prompt of the log"),
                    "n_rows_unmatched_kept": count_field("those of them that are written, as `uncertain` says"),
                    "n_prompts_unmatched": count_field("prompts of the log that are no row"),
                },
                null=True,
            ),
            "prompts": list_field(
                "every prompt, in order of first appearance; the lines of --out",
                object_field(
                    "a prompt",
                    {
                        "prompt_id": {"description": "id as the log has it; null where the text tells the prompt"},
                        "prompt": {"description": "text or messages as the log has them; null with an id"},
                        "n_rollouts": count_field("rollouts looked at"),
                        "n_scorable": count_field("those of which it is known whether they are correct"),
                        "n_correct": count_field("correct ones"),
                        "success_rate": share_field("n_correct / n_scorable"),
                        "low": share_field("lower end of its Wilson interval"),
                        "high": share_field("upper end of its Wilson interval"),
                        "mean_reward": number_field("mean reward, in task units"),
                        "group_classes": _GROUPS,
                        "kept": field("boolean", "whether it is kept"),
                        "reason": field(
                            "string",
                            "what the band says",
                            enum=["in band", "below band", "above band", "too few rollouts"],
                        ),
                        "settled": field("boolean", "whether the whole interval says the same"),
                    },
                ),
            ),
        },
    ),
}
"""JSON Schema (draft 2020-12) of a curation."""


def check_curation(document: object, *, name: str = "curation") -> None:
    """Check that a document has the form of a curation.

    Raises:
        DataError: It has not; the message names the first place.
    """
    found = next(problems(document, CURATION_SCHEMA, name), None)
    if found is not None:
        raise DataError(found)


def curation_json(document: Mapping[str, Any]) -> str:
    """The document as JSON text: the same document always gives the same bytes."""
    check_curation(document)
    return json_text(document, "curation", nan_as_null=True)


def curation_text(document: Mapping[str, Any]) -> str:
    """Prompts by success rate, what the band keeps, what it costs CoRPO, and the first prompts.

    Args:
        document: What `curation_document` gives, or the same read back from JSON.
    """
    low, high = document["band"]
    log = document["log"]
    steps = log["steps"]
    span = "" if steps is None else f", steps {steps['first']:,} to {steps['last']:,}"
    said = f"{log['title']}: {_of(document['n_prompts'], 'prompt')}, {_of(log['n_groups_looked_at'], 'group')}{span}"
    lines = [*wrapped(f"{said}; correct: {_correct(document)}", indent=""), ""]
    lines.append(f"{'success rate':<14}{'prompts':>9}{'kept':>9}{'reward':>9}  {'groups all failed':>19}{'mixed':>8}")
    lines.append(f"{'':<14}{'':>9}{'':>9}{'mean':>9}  {'equal':>9}{'graded':>10}")
    lines.append("-" * WIDTH)
    lines += [_bin(row) for row in document["by_rate"]]
    lines += ["", *wrapped(_kept(document, low, high), indent="")]
    for note in _notes(document):
        lines += wrapped(note, indent="- ")
    if document["prompts"]:
        lines += ["", f"{'prompt':<{_NAME_WIDTH}}{'correct':>12}{'rate':>7}  {'interval':<14}{'reward':>8}  verdict"]
        lines.append("-" * WIDTH)
        lines += [_prompt(row) for row in document["prompts"][:MOST_PROMPTS]]
        if len(document["prompts"]) > MOST_PROMPTS:
            lines.append(f"and {len(document['prompts']) - MOST_PROMPTS:,} more: --out FILE lists all")
    return "\n".join(lines) + "\n"


def _bin(row: Mapping[str, Any]) -> str:
    low, high = row["low"], row["high"]
    label = f"{100 * low:.0f} %" if low == high else f"{100 * low:.0f} to {100 * high:.0f} %"
    groups = row["group_classes"]
    return (
        f"{label:<14}{row['n_prompts']:>9,}{row['n_kept']:>9,}{_number(row['mean_reward']):>9}  "
        f"{groups['all_failed_equal']:>9,}{groups['all_failed_graded']:>10,}{groups['mixed']:>8,}"
    )


def _prompt(row: Mapping[str, Any]) -> str:
    told = row["prompt_id"] if row["prompt_id"] is not None else _opening(row["prompt"])
    name = padded(cut_to(plain(" ".join(str(told).split())), _NAME_WIDTH - 1), _NAME_WIDTH)
    counts = f"{row['n_correct']:,}/{row['n_scorable']:,}"
    rate = "n/a" if row["success_rate"] is None else percent(row["success_rate"])
    span = "" if row["low"] is None else f"[{_number(row['low'])}, {_number(row['high'])}]"
    verdict = {"in band": "kept", "below band": "too low", "above band": "too high"}.get(
        row["reason"], "few, kept" if row["kept"] else "too few"
    )
    return cut_to(f"{name}{counts:>12}{rate:>7}  {span:<14}{_number(row['mean_reward']):>8}  {verdict}", WIDTH)


def _opening(prompt: Any) -> str:
    """The last message of a prompt, in which prompts differ."""
    if isinstance(prompt, list) and prompt and isinstance(prompt[-1], Mapping):
        prompt = prompt[-1].get("content")
    return "?" if prompt is None else str(prompt)


def _kept(document: Mapping[str, Any], low: float, high: float) -> str:
    reasons = document["reasons"]
    few = reasons["too few rollouts"]
    uncertain = (
        f" {few:,} with fewer than {document['min_rollouts']:,} scorable rollouts are {_uncertain(document)}."
        if few
        else ""
    )
    return (
        f"The band {low:g} to {high:g} keeps {document['n_kept']:,} of {_of(document['n_prompts'], 'prompt')}: "
        f"{reasons['in band']:,} are in it, {reasons['below band']:,} below and {reasons['above band']:,} above."
        f"{uncertain}"
    )


def _uncertain(document: Mapping[str, Any]) -> str:
    return "kept" if document["uncertain"] == "keep" else "dropped"


def _notes(document: Mapping[str, Any]) -> Iterator[str]:
    judged = document["n_prompts"] - document["reasons"]["too few rollouts"]
    if judged:
        yield (
            f"Of the {judged:,} judged, {document['n_settled']:,} are surely on their side of the band: their whole "
            f"{100 * document['level']:g} % interval is."
        )
    lost = document["dropped_all_failed"]
    if lost["n_prompts_with_such_groups"]:
        yield (
            f"What is dropped has {lost['n_groups_graded'] + lost['n_groups_equal']:,} groups that all failed, of "
            f"{_of(lost['n_prompts_with_such_groups'], 'prompt')}; {lost['n_prompts_never_correct']:,} of the prompts "
            f"dropped were never answered correctly. CoRPO would learn from these groups: every rollout scores below "
            f"0, and in the {lost['n_groups_graded']:,} that are graded the better failures less so."
        )
    dataset = document["dataset"]
    if dataset is not None:
        yield (
            f"{dataset['out']} has {dataset['n_rows_kept']:,} of the {_of(dataset['n_rows'], 'row')} of "
            f"{dataset['path']} ({dataset['matched_by']})."
        )
        if dataset["n_rows_unmatched"]:
            yield (
                f"Rows of it without a prompt in the log: {dataset['n_rows_unmatched']:,}, uncertain too and "
                f"{_uncertain(document)}."
            )
        if dataset["n_prompts_unmatched"]:
            yield f"Prompts of the log without a row in it: {dataset['n_prompts_unmatched']:,}."
    yield from document["log"]["warnings"]


def _correct(document: Mapping[str, Any]) -> str:
    least = document["min_correct"]
    return str(document["correct_by"]) if least is None else f"reward >= {least:g}"


def _number(value: float | None) -> str:
    return number(math.nan if value is None else value, digits=2)


def _of(n: int, thing: str) -> str:
    """A number of things: "1 prompt", "2,000 prompts"."""
    return f"{n:,} {thing}{'' if n == 1 else 's'}"
