"""The form of `results.json`: its JSON Schema, a check that names the place that is wrong, and how it is written."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from corpo_rl.errors import DataError
from corpo_rl.report.form import check_form, json_text, short, uneven

VERSION: Final = "corpo-rl.compare/1"
"""Value of the field `schema`; a change that breaks a reader raises the number."""

VERDICTS: Final = ("higher", "lower", "no difference found")

CURVES: Final = {
    "reward": "Mean reward of the step's rollouts, in task units.",
    "reinforced_failure_share": "Share of failed rollouts with a positive advantage, under the estimator in use.",
    "reinforced_failure_share_grpo": "The same share had the same rewards been given GRPO's advantages.",
    "r_count": "Number of rollouts with a positive advantage over the number with a negative one.",
    "r_loss": "Summed loss over positive advantages over summed loss over negative ones; never above 0.",
    "floored_group_share": "Share of groups whose mean reward is under min_correct: the correctness-seeking phase.",
    "class_all_failed_equal": "Share of groups in which all failed, with one and the same reward.",
    "class_all_failed_graded": "Share of groups in which all failed, with differing rewards.",
    "class_mixed": "Share of groups with correct and failed rollouts.",
    "class_all_correct_graded": "Share of groups in which all are correct, with differing rewards.",
    "class_all_correct_equal": "Share of groups in which all are correct, with one and the same reward.",
    "unscorable": "Number of rollouts without a reward, left out of baselines.",
    "grad_norm": "Norm of the gradient before clipping.",
    "loss": "The trainer's loss.",
    "entropy": "Mean entropy of the policy's next-token distribution, in nats.",
    "completion_length": "Mean length of the completions, in tokens.",
}
"""Curves of a run and what each holds; a run may lack any of them."""

_NUMBER = {"type": ["number", "null"]}
_COUNT = {"type": "integer", "minimum": 0}
_TEXT = {"type": "string"}
_SCALARS = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean", "null"]}}

SCHEMA: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Results of corpo-rl compare",
    "type": "object",
    "required": [
        "schema",
        "corpo_rl_version",
        "created",
        "command",
        "settings",
        "environment",
        "splits",
        "base",
        "runs",
        "methods",
        "comparisons",
    ],
    "properties": {
        "schema": {"const": VERSION},
        "corpo_rl_version": _TEXT,
        "created": _TEXT,
        "command": _TEXT,
        "settings": {
            "type": "object",
            "required": ["methods", "k", "level"],
            "properties": {
                "methods": {"type": "array", "items": _TEXT},
                "reference": {"type": ["string", "null"]},
                "seeds": {"type": "array", "items": {"type": "integer"}},
                "k": {"type": "integer", "minimum": 1},
                "level": {"type": "number", "minimum": 0, "maximum": 1},
            },
        },
        "environment": _SCALARS,
        "splits": {"type": "object", "additionalProperties": {"$ref": "#/$defs/split"}},
        "base": {
            "type": "object",
            "required": ["evaluation"],
            "properties": {"evaluation": {"$ref": "#/$defs/evaluation_by_split"}},
        },
        "runs": {"type": "array", "items": {"$ref": "#/$defs/run"}},
        "methods": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "required": ["seeds", "evaluation"],
                "properties": {
                    "seeds": {"type": "array", "items": {"type": "integer"}},
                    "evaluation": {"$ref": "#/$defs/evaluation_by_split"},
                },
            },
        },
        "comparisons": {"type": "array", "items": {"$ref": "#/$defs/comparison"}},
    },
    "$defs": {
        "interval": {
            "type": "object",
            "required": ["value", "low", "high"],
            "properties": {"value": _NUMBER, "low": _NUMBER, "high": _NUMBER},
        },
        "split": {
            "type": "object",
            "required": ["title"],
            "properties": {"title": _TEXT, "description": _TEXT, "n_items": _COUNT, "n_too_long": _COUNT},
        },
        "evaluation": {
            "type": "object",
            "required": ["n_items", "n_samples", "measures"],
            "properties": {
                "n_items": _COUNT,
                "n_samples": _COUNT,
                "measures": {"type": "object", "additionalProperties": {"$ref": "#/$defs/interval"}},
                "parse_failures": {"type": "object", "additionalProperties": _COUNT},
                "unscorable": {"type": "object", "additionalProperties": _COUNT},
            },
        },
        "evaluation_by_split": {"type": "object", "additionalProperties": {"$ref": "#/$defs/evaluation"}},
        "run": {
            "type": "object",
            "required": ["method", "seed", "status", "steps"],
            "properties": {
                "method": _TEXT,
                "seed": {"type": "integer"},
                "status": _TEXT,
                "steps": _COUNT,
                "train_seconds": _NUMBER,
                "evaluation": {"$ref": "#/$defs/evaluation_by_split"},
                "curves": {
                    "type": "object",
                    "required": ["step"],
                    "properties": {"step": {"type": "array", "items": _COUNT}},
                    "additionalProperties": {"type": "array", "items": _NUMBER},
                },
                "evaluation_curves": {
                    "type": "object",
                    "required": ["step"],
                    "properties": {"step": {"type": "array", "items": _COUNT}},
                    "additionalProperties": {
                        "type": "object",
                        "additionalProperties": {"type": "array", "items": {"$ref": "#/$defs/interval"}},
                    },
                },
                "warnings": {"type": "array", "items": _TEXT},
            },
        },
        "comparison": {
            "type": "object",
            "required": ["split", "measure", "method", "reference", "difference", "n_items", "n_seeds", "verdict"],
            "properties": {
                "split": _TEXT,
                "measure": _TEXT,
                "method": _TEXT,
                "reference": _TEXT,
                "difference": {"$ref": "#/$defs/interval"},
                "n_items": _COUNT,
                "n_seeds": _COUNT,
                "verdict": {"enum": list(VERDICTS)},
            },
        },
    },
}
"""JSON Schema (draft 2020-12) of a results file. Further fields are allowed everywhere and ignored by the report."""


def check_results(results: object) -> None:
    """Check that results have the form the report reads.

    Beyond the schema: a curve is as long as its steps, and a split that is named anywhere is described in `splits`.

    Raises:
        DataError: Something is missing or of the wrong kind; the message names the first such place.

    Example:
        >>> check_results({"schema": "corpo-rl.compare/0"})  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        corpo_rl.errors.DataError: results.schema: ...corpo-rl.compare/0': written by another version
    """
    check_form(results, SCHEMA, "results", described_in="docs/results-schema.md")
    if isinstance(results, Mapping):
        for message in _loose_ends(results):
            raise DataError(f"{message}; the form is described in docs/results-schema.md")


def results_json(results: Mapping[str, Any]) -> str:
    """Results as JSON text: sorted keys, a newline at the end, and null for NaN and the infinities.

    The same results always give the same bytes. NumPy scalars are written as the numbers they are.

    Raises:
        DataError: A value is of a kind that JSON does not have; the message names its place.

    Example:
        >>> print(results_json({"b": float("nan"), "a": (1, 2.5)}), end="")
        {
         "a": [
          1,
          2.5
         ],
         "b": null
        }
    """
    return json_text(results, "results", nan_as_null=True)


def _loose_ends(results: Mapping[str, Any]) -> Iterator[str]:
    splits = results["splits"]
    named = [("base.evaluation", results["base"]["evaluation"])]
    named += [(f"methods.{name}.evaluation", found["evaluation"]) for name, found in results["methods"].items()]
    for row, run in enumerate(results["runs"]):
        named.append((f"runs[{row}].evaluation", run.get("evaluation", {})))
        curves = run.get("curves") or {}
        yield from uneven(f"results.runs[{row}].curves", curves, curves.get("step", []))
        tested = run.get("evaluation_curves") or {}
        steps = tested.get("step", [])
        for split, by_measure in tested.items():
            if split != "step":
                named.append((f"runs[{row}].evaluation_curves", {split: by_measure}))
                yield from uneven(f"results.runs[{row}].evaluation_curves.{split}", by_measure, steps)
    named += [(f"comparisons[{row}]", {pair["split"]: pair}) for row, pair in enumerate(results["comparisons"])]
    for path, by_split in named:
        for split in by_split:
            if split not in splits:
                yield f"results.{path}: split {short(split)} is not described in results.splits"
