"""The form of a curation's document, its text, and the page that shows both."""

import copy
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from corpo_rl.cli.curate import curate
from corpo_rl.cli.demo_log import demo_log
from corpo_rl.curation.document import SCHEMA
from corpo_rl.errors import DataError
from corpo_rl.report.curation_text import (
    CURATION_SCHEMA,
    CURATION_VERSION,
    check_curation,
    curation_json,
    curation_text,
)
from tests.report.breaking import broken

PAGE = Path(__file__).parents[2] / "docs" / "curation.md"


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """What the command of the page prints, as text and as a document."""
    folder = tmp_path_factory.mktemp("demo") / "demo"
    runner = CliRunner()
    runner.invoke(demo_log, [str(folder)], catch_exceptions=False)
    arguments = [str(folder), "--min-correct", "0.8", "--band", "0.2,0.8", "--last-steps", "20"]
    text, document = (
        runner.invoke(curate, [*arguments, *more], catch_exceptions=False).stdout for more in ([], ["--json"])
    )
    return text, json.loads(document)


def test_the_page_shows_what_the_command_prints(shown):
    page = PAGE.read_text(encoding="utf-8")
    assert "$ corpo-rl curate demo --min-correct 0.8 --band 0.2,0.8 --last-steps 20" in page
    *block, rest = page.split("--last-steps 20\n", 1)[1].split("\n```", 1)[0].splitlines()
    assert (rest, len(block) > 20) == ("...", True)
    assert block == shown[0].splitlines()[: len(block)]


def test_text_and_document_agree(shown):
    text, document = shown
    assert curation_text(document) == text
    assert curation_json(document) == curation_json(dict(reversed(document.items())))
    assert all(len(line) <= 80 for line in text.splitlines())
    n_listed = sum(row["n_prompts"] for row in document["by_rate"])
    n_without_rate = sum(row["success_rate"] is None for row in document["prompts"])
    assert n_listed + n_without_rate == document["n_prompts"] == len(document["prompts"])
    assert sum(document["reasons"].values()) == document["n_prompts"]
    assert sum(row["kept"] for row in document["prompts"]) == document["n_kept"]


def test_undefined_figures_are_said_to_be(shown):
    document = copy.deepcopy(shown[1])
    document["prompts"][0] |= {"success_rate": None, "low": None, "high": None, "mean_reward": None, "n_scorable": 0,
                               "n_correct": 0, "kept": False, "reason": "too few rollouts"}  # fmt: skip
    check_curation(document)
    (line,) = [line for line in curation_text(document).splitlines() if line.startswith("Problem 1:")]
    assert line.split()[-5:] == ["0/0", "n/a", "n/a", "too", "few"]


def test_a_log_without_a_judged_prompt_has_a_text(shown):
    document = copy.deepcopy(shown[1])
    document |= {"prompts": [], "n_prompts": 0, "n_kept": 0}
    document["reasons"] = dict.fromkeys(document["reasons"], 0)
    text = curation_text(document)
    assert "keeps 0 of 0 prompts" in text
    assert "judged" not in text


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["schema"], "corpo-rl.audit/1", r"curation\.schema: expected 'corpo-rl.curation/1'"),
        (["prompts", 0, "success_rate"], 1.5, r"curation\.prompts\[0\]\.success_rate: 1.5 is out of range"),
        (["prompts", 0, "reason"], "bored", r"curation\.prompts\[0\]\.reason: expected one of"),
        (["dataset"], 3, r"curation\.dataset: expected object or null, got 3"),
    ],
)
def test_what_does_not_fit_is_named_with_its_place(shown, path, value, message):
    with pytest.raises(DataError, match=message):
        check_curation(broken(copy.deepcopy(shown[1]), path, value))


def test_the_library_agrees_with_our_checker(shown):
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    validator = jsonschema.Draft202012Validator(CURATION_SCHEMA)
    validator.check_schema(CURATION_SCHEMA)
    assert not list(validator.iter_errors(shown[1]))
    assert list(validator.iter_errors(broken(copy.deepcopy(shown[1]), ["prompts", 0, "kept"], 3)))
    assert CURATION_VERSION == SCHEMA


def test_the_page_holds_every_field_as_the_schema_describes_it():
    documented = re.findall(r"^\| `.*\|$", PAGE.read_text(encoding="utf-8").split("\n## The JSON\n")[1], re.M)
    assert documented == [row(*field) for field in fields(CURATION_SCHEMA)]


def row(path, schema):
    kinds = schema.get("type", "any" if "const" not in schema else "string")
    kind = " or ".join([kinds] if isinstance(kinds, str) else kinds)
    return f"| `{path}` | {kind} | {schema['description']} |"


def fields(schema, path=""):
    """Path and schema of every field, depth first; [] stands for an item of a list."""
    for name, inner in schema.get("properties", {}).items():
        yield f"{path}{name}", inner
        yield from fields(inner, f"{path}{name}.")
    if isinstance(schema.get("items"), dict):
        yield from fields(schema["items"], f"{path.rstrip('.')}[].")


if __name__ == "__main__":  # the table of docs/curation.md
    print("\n".join(row(*field) for field in fields(CURATION_SCHEMA)))
