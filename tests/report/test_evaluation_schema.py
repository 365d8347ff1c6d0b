import copy
import json
import re
from pathlib import Path

import pytest

from corpo_rl.assessment.document import SCHEMA
from corpo_rl.assessment.figures import FIGURES, KINDS, LEVELS, OF_BOTH_ORDERS
from corpo_rl.errors import DataError
from corpo_rl.report import evaluation_schema, evaluation_view
from corpo_rl.report.evaluation_schema import EVALUATION_SCHEMA, VERDICTS, check_evaluation, evaluation_json

from .breaking import broken
from .evaluations import EVALUATIONS

DOCS = Path(__file__).parents[2] / "docs" / "evaluation.md"


@pytest.mark.parametrize("name", EVALUATIONS)
def test_evaluations_pass_and_survive_writing(name):
    document = EVALUATIONS[name]
    check_evaluation(document)
    again = json.loads(evaluation_json(document))
    assert again == document
    check_evaluation(again)


def test_the_library_agrees_with_our_checker():
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    validator = jsonschema.Draft202012Validator(EVALUATION_SCHEMA)
    validator.check_schema(EVALUATION_SCHEMA)
    for document in EVALUATIONS.values():
        assert not list(validator.iter_errors(document))
    for path, value in ((["settings", "k"], [0]), (["splits", "all", "n_pairs"], -1), (["figures"], ...)):
        assert list(validator.iter_errors(broken(copy.deepcopy(EVALUATIONS["two"]), path, value)))


MODEL = ["splits", "ood", "models", "runs/after/model"]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["schema"], "corpo-rl.compare/1", r"results\.schema: expected 'corpo-rl.evaluation/1', got 'corpo-rl.comp"),
        (["settings"], ..., r"results: no field 'settings' \(fields: schema"),
        (["settings", "bootstrap", "level"], 95, r"results\.settings\.bootstrap\.level: 95 is out of range"),
        ([*MODEL, "n_parsed"], "7", r"runs/after/model\.n_parsed: expected integer, got '7'"),
        ([*MODEL, "figures", "brier", "low"], ..., r"figures\.brier: no field 'low' \(fields: value, high, n\)"),
        ([*MODEL, "figures", "brier"], ..., r"splits\.ood\.models\.runs/after/model\.figures: .* found no 'brier'"),
        ([*MODEL, "scores", 10], ..., r"ood\.models\.runs/after/model\.scores: expected the scores 0 to 10, in order"),
        ([*MODEL, "differences", "figures", "ece", "verdict"], "better", r"ece\.verdict: expected one of 'higher'"),
        (MODEL, ..., r"results\.splits\.ood\.models: expected the models .* found no 'runs/after/model'"),
        (["splits"], {}, "results: expected one split and one model at least, found none"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(path, value, message):
    with pytest.raises(DataError, match=message) as caught:
        check_evaluation(broken(copy.deepcopy(EVALUATIONS["two"]), path, value))
    assert "\n" not in str(caught.value)


def test_the_report_speaks_of_what_the_evaluation_writes():
    assert evaluation_schema.EVALUATION_VERSION == SCHEMA
    assert list(KINDS) == list(evaluation_schema.KINDS)
    assert evaluation_schema.LEVELS == LEVELS
    assert evaluation_view.LABELS.keys() == FIGURES.keys()
    assert set(evaluation_view.OF_ORDER) == set(OF_BOTH_ORDERS)
    shown = {*evaluation_view.ORDER, *evaluation_view.OF_ORDER, *(f"accuracy_{kind}" for kind in KINDS)}
    assert shown == FIGURES.keys(), "every figure has a place in a table"
    assert all(len(label) <= 16 for label in evaluation_view.LABELS.values())
    ends = evaluation_view.LESS_IS_BETTER | evaluation_view.MORE_IS_BETTER
    assert FIGURES.keys() - ends == {"position_bias", "score_as_a", "score_as_b"}


def test_the_documentation_names_every_field_and_figure():
    named = set(re.findall(r"`([^`\n]+)`", DOCS.read_text(encoding="utf-8")))
    named |= {part for name in named for part in re.split(r"[.*\[\]]+", name)}  # `splits.*.title`
    missing = [name for name in (*fields(EVALUATION_SCHEMA), *FIGURES, *VERDICTS) if name not in named]
    assert missing == []


def fields(schema):
    for name, inner in schema.get("properties", {}).items():
        yield name
        yield from fields(inner)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from fields(schema[key])
