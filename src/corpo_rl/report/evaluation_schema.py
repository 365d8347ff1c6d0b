"""The form of an evaluation's JSON document: its schema, a check that names what is wrong, and how it is written."""

from collections.abc import Mapping
from typing import Any, Final

from corpo_rl.report.form import (
    ITEM,
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

EVALUATION_VERSION: Final = "corpo-rl.evaluation/1"
"""Value of the field `schema`; a change that breaks a reader raises the number."""

_INTERVAL = object_field(
    "a figure; its value is null where undefined, its bounds also where there is one problem only",
    {"value": number_field("estimate"), "low": number_field("lower bound"), "high": number_field("upper bound")},
)

_MODEL = {
    "n_completions": count_field("completions"),
    "n_parsed": count_field("those in which two scores were read"),
    "figures": map_field("figures by name, see docs/evaluation.md", _INTERVAL),
    "differences": map_field("the same less those of the first model; null for the first", _INTERVAL, null=True),
    "right_by_score": list_field("right answers that got the score 0, 1, ... 10", count_field("answers")),
    "wrong_by_score": list_field("wrong answers that got the score 0, 1, ... 10", count_field("answers")),
    "parse_failures": map_field("completions that were not parsed, by kind", count_field("completions")),
}

_EXAMPLE = {
    "outcome": text_field("correct, wrong, or not parsed"),
    "failure": text_field("kind of parse failure", null=True),
    "split": text_field("split of the pair"),
    "item_id": text_field("its id"),
    "swapped": field("boolean", "whether the answers were shown the other way round"),
    "problem": text_field("the problem"),
    "answer_a": text_field("answer A of the pair"),
    "answer_b": text_field("answer B of the pair"),
    "label_a": count_field("1 if answer A is right, else 0"),
    "label_b": count_field("1 if answer B is right, else 0"),
    "score_a": count_field("score of answer A, however it was shown; null when not parsed", null=True),
    "score_b": count_field("score of answer B", null=True),
    "completion": text_field("what the model wrote"),
}

EVALUATION_SCHEMA: Final[Schema] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "corpo-rl evaluation",
    **object_field(
        "What verifiers did on the same pairs.",
        {
            "schema": {"const": EVALUATION_VERSION, "description": "version of this form"},
            "corpo_rl_version": text_field("version that wrote it"),
            "created": text_field("when, in UTC"),
            "command": text_field("the command"),
            "pairs": text_field("the pairs file"),
            "pairs_sha256": text_field("its SHA-256"),
            "models": list_field("names of the models; the others are compared with the first", ITEM),
            "settings": object_field(
                "how completions were drawn",
                {
                    "n_samples": count_field("completions of each pair and order"),
                    "both_orders": field("boolean", "whether pairs were shown in both orders"),
                    "temperature": number_field("0 for greedy"),
                    "max_new_tokens": count_field("longest completion"),
                    "seed": count_field("seed"),
                },
            ),
            "level": number_field("coverage of the intervals, which resample problems"),
            "ks": list_field("the k of each pass@k", count_field("k")),
            "splits": map_field(
                "by split, and `all` for all pairs where there are several",
                object_field(
                    "one split",
                    {
                        "n_pairs": count_field("pairs"),
                        "n_problems": count_field("different problems"),
                        "models": map_field("by model", object_field("one model", _MODEL)),
                    },
                ),
            ),
            "examples": map_field("by model", list_field("a few completions", object_field("one", _EXAMPLE))),
        },
    ),
}


def check_evaluation(document: object) -> None:
    """Check an evaluation against `EVALUATION_SCHEMA`.

    Raises:
        DataError: Something is missing or of the wrong kind; the message names the first such place.
    """
    check_form(document, EVALUATION_SCHEMA, "evaluation", described_in="docs/evaluation.md")


def evaluation_json(document: Mapping[str, Any]) -> str:
    """The document as JSON text; undefined figures are null."""
    return json_text(document, "evaluation", nan_as_null=True)
