import copy
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from corpo_rl.errors import DataError
from corpo_rl.report.schema import CURVES, SCHEMA, VERDICTS, check_results, results_json

from .breaking import broken
from .synthetic import make_hostile, make_results


@pytest.mark.parametrize("results", [make_results(), make_results(seeds=(0, 1)), make_hostile()])
def test_results_pass_and_survive_writing(results):
    check_results(results)
    again = json.loads(results_json(results))
    assert again == results
    check_results(again)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["schema"], "corpo-rl.compare/2", r"results\.schema: expected 'corpo-rl.compare/1', got 'corpo-rl.compare/2'"),
        (["settings"], ..., r"results: no field 'settings' \(fields: schema, corpo_rl_version"),
        (["settings", "k"], True, r"results\.settings\.k: expected integer, got True"),
        (["settings", "level"], 95, r"results\.settings\.level: 95 is out of range"),
        (["runs", 1, "seed"], "0", r"results\.runs\[1\]\.seed: expected integer, got '0'"),
        (
            ["runs", 0, "curves", "reward", 3],
            math.nan,
            r"runs\[0\]\.curves\.reward\[3\]: expected number or null, got nan",
        ),
        (
            ["runs", 0, "curves", "r_loss"],
            [0.0],
            r"runs\[0\]\.curves\.r_loss: expected 100 values, one per step, got 1",
        ),
        (
            ["runs", 1, "evaluation_curves", "ood", "pass@1"],
            [],
            r"results\.runs\[1\]\.evaluation_curves\.ood\.pass@1: expected 6 values, one per step, got 0",
        ),
        (
            ["methods", "corpo", "evaluation", "ood", "measures", "brier", "low"],
            ...,
            r"results\.methods\.corpo\.evaluation\.ood\.measures\.brier: no field 'low' \(fields: value, high\)",
        ),
        (
            ["comparisons", 2, "verdict"],
            "better",
            r"results\.comparisons\[2\]\.verdict: expected one of 'higher', 'lower'",
        ),
        (["comparisons", 0, "split"], "elsewhere", r"comparisons\[0\]: split 'elsewhere' is not described"),
        (["splits", "ood"], ..., r"results\.base\.evaluation: split 'ood' is not described in results\.splits"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(path, value, message):
    with pytest.raises(DataError, match=message) as caught:
        check_results(broken(make_results(("grpo", "corpo")), path, value))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("results", [None, [], "results", 3])
def test_what_is_no_object_is_refused(results):
    with pytest.raises(DataError, match="results: expected object"):
        check_results(results)


def test_further_fields_are_allowed():
    results = make_results()
    results["note"] = {"anything": [1, 2]}
    results["runs"][0]["curves"]["our_own"] = [0.5] * 100
    check_results(results)


def test_undefined_is_written_as_null_and_numpy_as_numbers():
    text = results_json(
        {"b": [math.nan, math.inf, -math.inf, np.float32("nan")], "a": np.int64(3), "c": (np.float64(1),)}
    )
    assert json.loads(text) == {"a": 3, "b": [None] * 4, "c": [1.0]}
    assert not re.search("NaN|Infinity", text)


def test_the_same_results_give_the_same_bytes():
    results = make_results()
    other = dict(reversed(copy.deepcopy(results).items()))
    assert results_json(results) == results_json(other)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": [{1, 2}]}, r"results\.a\[0\]: expected .* got set"),
        ({"a": {1: 2}}, r"results\.a: expected text as key, got 1"),
        ({"a": np.zeros(3)}, r"results\.a: expected .* got ndarray"),
    ],
)
def test_what_json_does_not_have_is_refused(value, message):
    with pytest.raises(DataError, match=message):
        results_json(value)


def test_the_library_agrees_with_our_checker():
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    validator = jsonschema.Draft202012Validator(SCHEMA)
    validator.check_schema(SCHEMA)
    assert not list(validator.iter_errors(make_hostile()))
    for path, value in ((["settings", "k"], 0), (["runs", 0, "steps"], -1), (["comparisons", 0, "verdict"], "better")):
        assert list(validator.iter_errors(broken(make_results(("grpo", "corpo")), path, value)))


def test_the_documentation_names_every_field():
    text = (Path(__file__).parents[2] / "docs" / "results-schema.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([^`\n]+)`", text))
    missing = [name for name in (*fields(SCHEMA), *CURVES, *VERDICTS) if name not in named]
    assert missing == []


def fields(schema):
    for name, inner in schema.get("properties", {}).items():
        yield name
        yield from fields(inner)
    for inner in schema.get("$defs", {}).values():
        yield from fields(inner)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from fields(schema[key])
