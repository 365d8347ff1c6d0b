import copy
import json
import math
import re
from pathlib import Path

import pytest

from corpo_rl.errors import DataError
from corpo_rl.report.audit_diff import DIFF_SCHEMA, audit_diff_json, check_diff
from corpo_rl.report.audit_schema import AUDIT_SCHEMA, audit_json, check_audit

from .audits import AUDITS, make_audit, make_diff, make_hostile_diff
from .breaking import broken

DOCS = Path(__file__).parents[2] / "docs" / "audit-schema.md"


@pytest.mark.parametrize("name", AUDITS)
def test_audits_pass_and_survive_writing(name):
    check_audit(AUDITS[name])
    again = json.loads(audit_json(AUDITS[name]))
    assert again == AUDITS[name]
    check_audit(again)


@pytest.mark.parametrize("diff", [make_diff(), make_hostile_diff()])
def test_comparisons_pass_and_survive_writing(diff):
    check_diff(diff)
    assert json.loads(audit_diff_json(diff)) == diff


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["schema"], "corpo-rl.audit/2", r"audit\.schema: expected 'corpo-rl.audit/1', got .* another version"),
        (["n_failed"], ..., r"audit: no field 'n_failed' \(fields: schema, corpo_rl_version"),
        (["n_failed"], 2.5, r"audit\.n_failed: expected integer or null, got 2.5"),
        (["log", "dropped", "duplicate"], -1, r"audit\.log\.dropped\.duplicate: -1 is out of range"),
        (["reinforced_failure_share", "low"], 31.2, r"audit\.reinforced_failure_share\.low: 31.2 is out of range"),
        (["table", "failed", "mass", "zero"], math.nan, r"mass\.zero: expected number or null, got nan"),
        (["curves", "correct_share", 3], 1.5, r"audit\.curves\.correct_share\[3\]: 1.5 is out of range"),
        (["curves", "r_count", 5], math.inf, r"audit\.curves\.r_count\[5\]: expected number or null, got inf"),
        (["curves", "r_count", 5], math.nan, r"audit\.curves\.r_count\[5\]: expected number or null, got nan"),
        (["curves", "r_count", 5], True, r"audit\.curves\.r_count\[5\]: expected number or null, got True"),
        (["curves", "n_rollouts", 0], 2.0, r"audit\.curves\.n_rollouts\[0\]: expected integer, got 2.0"),
        (["curves", "step", 0], None, r"audit\.curves\.step\[0\]: expected integer, got None"),
        (["log", "notes"], ["fine", 3], r"audit\.log\.notes\[1\]: expected string, got 3"),
        (["curves", "reward"], [0.5], r"audit\.curves\.reward: expected 50 values, one per step, got 1"),
        (["estimators", "corpo", "r_count"], "low", r"audit\.estimators\.corpo\.r_count: expected number or null"),
        (["threshold", "levels", 2, "floor_state"], None, r"levels\[2\]\.floor_state: expected string, got None"),
        (["findings", 1, "status"], "FAIL", r"audit\.findings\[1\]\.status: expected one of 'OK', 'NOTE', 'WARN'"),
        (["length_unit"], "words", r"audit\.length_unit: expected one of 'tokens', 'characters', None, got 'words'"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(path, value, message):
    with pytest.raises(DataError, match=message) as caught:
        check_audit(broken(make_audit(), path, value))
    assert "\n" not in str(caught.value)


def test_a_comparison_is_no_audit():
    with pytest.raises(DataError, match=r"runs/a\.json\.schema: .* got 'corpo-rl.audit-diff/1'"):
        check_audit(make_diff(), name="runs/a.json")
    with pytest.raises(DataError, match=r"diff\.figures\[0\]\.a: expected number or null, got True"):
        check_diff(broken(make_diff(), ["figures", 0, "a"], True))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_none_is_refused_not_written_as_null(value):
    with pytest.raises(DataError, match=r"audit\.curves\.reward\[3\]: expected a finite number, or null"):
        audit_json(broken(make_audit(), ["curves", "reward", 3], value))


def test_the_same_audit_gives_the_same_bytes():
    other = dict(reversed(copy.deepcopy(make_audit()).items()))
    assert audit_json(other) == audit_json(make_audit())


@pytest.mark.parametrize("schema", [AUDIT_SCHEMA, DIFF_SCHEMA])
def test_the_library_agrees_with_our_checker(schema):
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    validator = jsonschema.Draft202012Validator(schema)
    validator.check_schema(schema)
    good = list(AUDITS.values()) if schema is AUDIT_SCHEMA else [make_diff(), make_hostile_diff()]
    for document in good:
        assert not list(validator.iter_errors(document))
    bad = broken(copy.deepcopy(good[0]), ["findings", 0, "title"], 3)
    assert list(validator.iter_errors(bad))


@pytest.mark.parametrize(("schema", "title"), [(AUDIT_SCHEMA, "Audit"), (DIFF_SCHEMA, "Comparison of two audits")])
def test_the_documentation_holds_every_field_as_the_schema_describes_it(schema, title):
    section = DOCS.read_text(encoding="utf-8").split(f"\n## {title}\n")[1].split("\n## ")[0]
    documented = re.findall(r"^\| `.*\|$", section, re.M)
    assert documented == [row(*field) for field in fields(schema)]


def row(path, schema):
    kinds = schema.get("type", "string")
    kind = " or ".join([kinds] if isinstance(kinds, str) else kinds)
    about = schema["description"].replace("|", r"\|")
    return f"| `{path}` | {kind} | {about} |"


def fields(schema, path=""):
    """Path and schema of every field, depth first; [] stands for an item of a list, * for a key that is data."""
    for name, inner in schema.get("properties", {}).items():
        yield f"{path}{name}", inner
        yield from fields(inner, f"{path}{name}.")
    for key, sign in (("items", "[]"), ("additionalProperties", "*")):
        if isinstance(schema.get(key), dict):
            yield from fields(schema[key], f"{path.rstrip('.')}{sign}." if sign == "[]" else f"{path}{sign}.")


if __name__ == "__main__":  # the tables of docs/audit-schema.md
    for schema in (AUDIT_SCHEMA, DIFF_SCHEMA):
        print("\n".join(row(*field) for field in fields(schema)), end="\n\n")
