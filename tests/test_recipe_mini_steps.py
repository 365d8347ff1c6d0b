"""The recipe of rewards for every step: it runs and goes on, and its page says what it found."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from .scripts import load_script

ROOT = Path(__file__).parent.parent
RECIPE = ROOT / "recipes/mini-steps"


@pytest.fixture(scope="module")
def recipe():
    return load_script(RECIPE / "run.py")


def run(*arguments):
    return subprocess.run([sys.executable, str(RECIPE / "run.py"), *arguments], capture_output=True, text=True)


def test_a_small_run_of_it_goes_on_where_it_was_stopped(recipe, tmp_path):
    out = tmp_path / "runs"
    arguments = ["--out", str(out), "--seeds", "1", "--warm-up", "2", "--steps", "1", "--prompts", "4", "--items", "4"]
    ran = run(*arguments, "--rules", "both,outcome")
    assert ran.returncode == 0, ran.stderr
    numbers = json.loads((out / "numbers.json").read_text())
    assert ran.stdout.rstrip() == recipe.text_of(numbers)
    assert list(numbers["rules"]) == ["both", "outcome"]
    assert list(numbers["less_outcome"]) == ["both"]

    done = {path: path.stat().st_mtime_ns for path in out.glob("*/run.json")}
    more = run(*arguments, "--rules", "both,outcome,dr_grpo")
    assert more.returncode == 0, more.stderr
    assert {path: path.stat().st_mtime_ns for path in done} == done, "what was done is kept"
    grown = json.loads((out / "numbers.json").read_text())
    assert grown["rules"]["both"] == numbers["rules"]["both"]
    assert [run["seed"] for run in grown["rules"]["dr_grpo"]["runs"]] == [1]

    other = run(*arguments, "--steps", "2")
    assert other.returncode == 2
    assert "name a new folder" in other.stderr


def test_what_was_pushed_up_is_counted_from_the_log(recipe, tmp_path):
    (tmp_path / "completions").mkdir()
    pd.DataFrame({
        "outcome": [-1.0, 0.2, 0.0],
        "advantage": [0.3, 0.4, -0.1],
        # failed: under 0.2; a step that nobody could score is neither
        "corpo_step_rewards": ["[-1.0, 1.0]", "[0.2, -0.6, null]", "[]"],
        "corpo_step_advantages": ["[0.5, 1.0]", "[0.1, 0.0, 0.7]", "[]"],
    }).to_parquet(tmp_path / "completions/completions_00001.parquet")  # fmt: skip
    assert recipe.pushed_up(tmp_path) == {
        "n_failed_steps": 2, "n_steps_up": 1, "n_failed_rollouts": 2, "n_rollouts_up": 1,
    }  # fmt: skip


def test_the_page_shows_what_the_command_printed(recipe):
    page = (RECIPE / "README.md").read_text()
    numbers = json.loads((RECIPE / "numbers.json").read_text())
    (table,) = re.findall(r"```text\n(.*?)\n```", page, flags=re.DOTALL)
    assert table == recipe.text_of(numbers)
    assert f"$ {numbers['command']}\n" in page
    assert list(numbers["rules"]) == list(recipe.RULES)
    for found in numbers["rules"].values():
        assert [run["seed"] for run in found["runs"]] == [0, 1, 2, 3, 4]
    seconds = [run["seconds"] for found in numbers["rules"].values() for run in found["runs"]]
    assert f"{min(seconds):.0f} to {max(seconds):.0f} s a run" in page
