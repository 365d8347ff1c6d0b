"""The recipe of correctness, form and length: it runs, and its page says what it found."""

import doctest
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .scripts import load_script

ROOT = Path(__file__).parent.parent
RECIPE = ROOT / "recipes/components"


@pytest.fixture(scope="module")
def recipe():
    return load_script(RECIPE / "run.py")


def test_a_small_run_of_it(recipe, tmp_path):
    out = tmp_path / "runs"
    arguments = ["--out", str(out), "--seeds", "1", "--steps", "2", "--prompts", "4", "--items", "4"]
    ran = subprocess.run([sys.executable, str(RECIPE / "run.py"), *arguments], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    numbers = json.loads((out / "numbers.json").read_text())
    assert ran.stdout.rstrip() == recipe.text_of(numbers)

    for rule in ("floor", "dr_grpo", "grpo"):
        runs = numbers["rules"][rule]["runs"]
        assert [run["seed"] for run in runs] == [1]
        for run in runs:
            found = run["audit"]
            assert 0 < found["n_failed"] <= 2 * 4 * 8
            if rule == "floor":
                assert found["n_reinforced_failures"] == 0 < run["n_plain_lifted"]
            else:  # the audit counts from the log what the trainer counted from its rewards
                assert found["n_reinforced_failures"] == run["n_plain_lifted"] > 0
    again = subprocess.run([sys.executable, str(RECIPE / "run.py"), *arguments], capture_output=True, text=True)
    assert again.returncode == 2
    assert "is not empty; name a new folder" in again.stderr


def test_its_components(recipe):
    texts = ["83;9,1", "83;9,2", "83;9", ""]
    assert recipe.form(texts) == [1.0, 0.0, 0.0, 0.0]
    assert recipe.short(texts) == [-6.0, -6.0, -4.0, 0.0]
    item = recipe.ITEMS[0]
    sure = ";".join([item.answer_a, f"{10 * item.label_a},{10 * item.label_b}"])
    assert recipe.correct([sure, "no"], item=[0, 0]) == [1.0, -1.0]


def test_the_page_shows_what_the_command_printed(recipe):
    page = (RECIPE / "README.md").read_text()
    numbers = json.loads((RECIPE / "numbers.json").read_text())
    (table,) = re.findall(r"```text\n(.*?)\n```", page, flags=re.DOTALL)
    assert table == recipe.text_of(numbers)
    assert f"$ {numbers['command']}\n" in page
    seconds = [run["seconds"] for found in numbers["rules"].values() for run in found["runs"]]
    assert f"{min(seconds):.0f} to {max(seconds):.0f} s a run" in page
    lifted = sum(run["n_plain_lifted"] for run in numbers["rules"]["floor"]["runs"])
    failed = sum(run["audit"]["n_failed"] for run in numbers["rules"]["floor"]["runs"])
    assert f"{lifted:,} of these {failed:,}" in " ".join(page.split())


def test_the_examples_of_the_documentation():
    assert doctest.testfile(str(ROOT / "docs/components.md"), module_relative=False, raise_on_error=True).attempted == 5
