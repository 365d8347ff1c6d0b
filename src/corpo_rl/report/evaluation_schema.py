"""The form of an evaluation's `results.json`: its schema, a check that names what is wrong, and how it is written."""

from collections.abc import Mapping
from typing import Any, Final

from corpo_rl.errors import DataError
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
    share_field,
    text_field,
)

EVALUATION_VERSION: Final = "corpo-rl.evaluation/1"
"""Value of the field `schema`; a change that breaks a reader raises the number."""

VERDICTS: Final = ("higher", "lower", "no difference found")

KINDS: Final = ("mixed", "both_right", "both_wrong")

LEVELS: Final = 11
"""Scores are 0 to 10."""

_INTERVAL = {
    "value": number_field("the estimate"),
    "low": number_field("lower bound of its interval"),
    "high": number_field("upper bound"),
}

_FIGURES = map_field(
    "figure -> what it is",
    object_field("a figure", {**_INTERVAL, "n": count_field("how many it is over, in the unit that `figures` names")}),
)

_DIFFERENCES = map_field(
    "figure -> this model's minus the first model's",
    object_field(
        "a paired difference",
        {
            **_INTERVAL,
            "verdict": field("string", "whether the interval leaves out 0, and where", enum=list(VERDICTS)),
        },
    ),
)

_MODEL = {
    "n_completions": count_field("completions, all orders and samples"),
    "n_parsed": count_field("those with two scores in the form asked for"),
    "n_cut": count_field("those that reached the length limit"),
    "parse_failures": map_field("kind -> completions that did not parse", count_field("completions")),
    "figures": _FIGURES,
    "domains": map_field(
        "domain -> share of completions with both scores right",
        object_field("an accuracy", {**_INTERVAL, "n": count_field("completions")}),
    ),
    "scores": list_field(
        "for each score from 0 to 10, the answers that got it",
        object_field(
            "a score",
            {
                "score": count_field("the score"),
                "n_right": count_field("right answers with this score"),
                "n_wrong": count_field("wrong answers with this score"),
                "right_share": object_field(
                    "share of right answers among them",
                    {
                        "value": share_field("the share"),
                        "low": share_field("lower bound of its interval"),
                        "high": share_field("upper bound"),
                    },
                ),
            },
        ),
    ),
    "differences": object_field(
        "paired differences to the first model; null for the first",
        {"figures": _DIFFERENCES, "domains": _DIFFERENCES},
        null=True,
    ),
}

_SPLIT = {
    "title": text_field("name in words"),
    "description": text_field("what its pairs are"),
    "n_pairs": count_field("pairs"),
    "n_problems": count_field("problems they are about"),
    "kinds": object_field("pairs of each kind", {kind: count_field("pairs") for kind in KINDS}),
    "domains": map_field("domain -> pairs", count_field("pairs")),
    "models": map_field("model -> what it did", object_field("a model", _MODEL)),
}

_EXAMPLE = {
    "outcome": field("string", "what became of it", enum=["correct", "wrong", "not parsed"]),
    "failure": text_field("kind of parse failure; null when it parsed", null=True),
    "split": text_field("split of the pair"),
    "item_id": text_field("id of the pair"),
    "swapped": field("boolean", "whether answer B was shown first"),
    "problem": text_field("the problem"),
    "answer_a": text_field("answer A of the pairs file"),
    "answer_b": text_field("answer B of the pairs file"),
    "label_a": field("integer", "1 when answer A is right, else 0"),
    "label_b": field("integer", "1 when answer B is right, else 0"),
    "score_a": field("integer", "score of answer A; null when not parsed", null=True),
    "score_b": field("integer", "score of answer B; null when not parsed", null=True),
    "finish_reason": text_field("`length` when the completion was cut"),
    "completion": text_field("what the model wrote"),
}

EVALUATION_SCHEMA: Final[Schema] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Results of corpo-rl evaluate",
    **object_field(
        "what verifiers did on pairs",
        {
            "schema": {"const": EVALUATION_VERSION},
            "corpo_rl_version": text_field("version of the package that wrote the document"),
            "created": text_field("when, ISO 8601 with a time zone"),
            "command": text_field("command line that made it; empty when called from Python"),
            "settings": object_field(
                "how the completions came about",
                {
                    "models": list_field("the models; the others are compared with the first", ITEM),
                    "k": list_field("the k of each pass@k", field("integer", "k", minimum=1)),
                    "bootstrap": object_field(
                        "how intervals were drawn",
                        {
                            "seed": count_field("seed"),
                            "level": field("number", "coverage", minimum=0, maximum=1),
                            "n_resamples": count_field("resamples"),
                        },
                    ),
                },
            ),
            "figures": map_field(
                "figure -> what it means",
                object_field(
                    "a figure",
                    {"over": text_field("what its `n` counts"), "meaning": text_field("what it is, in a sentence")},
                ),
            ),
            "splits": map_field("split -> what was found; `all` is every split together", object_field("", _SPLIT)),
            "examples": map_field(
                "model -> a few completions of each outcome",
                field("array", "completions", items=object_field("a completion", _EXAMPLE)),
            ),
        },
    ),
}
"""JSON Schema (draft 2020-12) of an evaluation. Further fields are allowed everywhere."""


def check_evaluation(document: object, *, name: str = "results") -> None:
    """Check that a document has the form of an evaluation.

    Beyond the schema: every split has every model and figure, and a score for each of 0 to 10.

    Args:
        document: As loaded from JSON.
        name: What to call it in an error.

    Raises:
        DataError: Something is missing or of the wrong kind; the message names the first such place.

    Example:
        >>> check_evaluation({"schema": "corpo-rl.evaluation/0"})  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        corpo_rl.errors.DataError: results.schema: ...corpo-rl.evaluation/0': written by another version
    """
    check_form(document, EVALUATION_SCHEMA, name, described_in="docs/evaluation.md")
    if isinstance(document, Mapping):
        if not document["splits"] or not document["settings"]["models"]:
            raise DataError(f"{name}: expected one split and one model at least, found none")
        for split, found in document["splits"].items():
            for model in document["settings"]["models"]:
                place = f"{name}.splits.{split}.models"
                if model not in found["models"]:
                    raise DataError(f"{place}: expected the models of the settings, found no {model!r}")
                one = found["models"][model]
                missing = [figure for figure in document["figures"] if figure not in one["figures"]]
                if missing:
                    raise DataError(f"{place}.{model}.figures: expected every figure, found no {missing[0]!r}")
                if [row["score"] for row in one["scores"]] != list(range(LEVELS)):
                    raise DataError(f"{place}.{model}.scores: expected the scores 0 to {LEVELS - 1}, in order")


def evaluation_json(document: Mapping[str, Any]) -> str:
    """An evaluation as JSON text: sorted keys, a newline at the end, null for what is undefined."""
    return json_text(document, "results", nan_as_null=True)
