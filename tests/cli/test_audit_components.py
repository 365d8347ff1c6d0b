"""`corpo-rl audit --correct-component`: one of the rewards that are added up says what is correct."""

import json
import re

import numpy as np
import pytest
from click.testing import CliRunner

from corpo_rl.cli.main import cli
from corpo_rl.errors import UsageError

WEIGHTS = ["--reward-weights", "solved=1,form=0.5"]

# group a: solved 0, 0, 1, form 1, 0, 0 -> totals 0.5, 0, 1, mean 0.5
# group b: solved 0, 0, 0.7, form 1, 0, 0 -> totals 0.5, 0, 0.7, mean 0.4: the well-formed failure is over it by form
ROWS = [
    {"uid": "a", "solved": 0.0, "form": 1.0},
    {"uid": "a", "solved": 0.0, "form": 0.0},
    {"uid": "a", "solved": 1.0, "form": 0.0},
    {"uid": "b", "solved": 0.0, "form": 1.0},
    {"uid": "b", "solved": 0.0, "form": 0.0},
    {"uid": "b", "solved": 0.7, "form": 0.0},
]


def audit(folder, *arguments, rows=ROWS):
    path = folder / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return CliRunner().invoke(cli, ["audit", str(path), "--group-columns", "uid", *arguments], catch_exceptions=False)


def document(folder, *arguments, rows=ROWS):
    result = audit(folder, *arguments, "--format", "json", rows=rows)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_a_component_says_what_is_correct(tmp_path):
    found = document(tmp_path, *WEIGHTS, "--correct-component", "solved=0.7")
    assert found["correct_by"] == "label solved >= 0.7"
    assert (found["n_correct"], found["n_failed"], found["n_reinforced_failures"]) == (2, 4, 1)
    assert {row["name"]: row["n_reinforced_by_it"] for row in found["components"]} == {"solved": 0, "form": 1}


def test_the_threshold_is_included_and_read_like_the_log(tmp_path):
    rows = [row | {"solved": float(np.float32(row["solved"]))} for row in ROWS]
    assert rows[-1]["solved"] < 0.7
    assert document(tmp_path, *WEIGHTS, "--correct-component", "solved=0.7", rows=rows)["n_correct"] == 2
    assert document(tmp_path, *WEIGHTS, "--correct-component", "solved=0.71", rows=rows)["n_correct"] == 1


def test_a_missing_component_is_unknown(tmp_path):
    rows = [*ROWS[:5], ROWS[5] | {"solved": None}]
    found = document(tmp_path, *WEIGHTS, "--correct-component", "solved=0.7", rows=rows)
    assert (found["n_correct"], found["n_failed"]) == (1, 4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*WEIGHTS, "--correct-component", "right=1"], "got 'right=1' (rewards: solved, form)"),
        ([*WEIGHTS, "--correct-component", "solved"], "such as solved=0.5, got 'solved' (rewards: solved, form)"),
        ([*WEIGHTS, "--correct-component", "solved=high"], "got 'solved=high'"),
        ([*WEIGHTS, "--correct-component", "solved=nan"], "got 'solved=nan'"),
        (["--reward-column", "solved", "--correct-component", "solved=1"], "got 'solved=1' (rewards: one only)"),
        ([*WEIGHTS, "--correct-component", "solved=1", "--min-correct", "1"], "as --min-correct and --correct-column"),
        ([*WEIGHTS, "--correct-component", "solved=1", "--correct-column", "form"], "pass one"),
    ],
)
def test_nonsense_is_refused(tmp_path, arguments, message):
    with pytest.raises(UsageError, match=f"^--correct-component: .*{re.escape(message)}") as caught:
        audit(tmp_path, *arguments)
    assert "\n" not in str(caught.value)
