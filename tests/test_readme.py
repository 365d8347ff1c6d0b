"""What the README shows is what happens."""

import doctest
import json
import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from corpo_rl.cli.main import COMMANDS
from corpo_rl.report.text import compare_text
from corpo_rl.tasks.base import grade

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
CONSOLE = [
    line.removeprefix("$ ").split("#")[0].strip()
    for block in re.findall(r"```console\n(.*?)```", README, flags=re.DOTALL)
    for line in block.splitlines()
    if line.startswith("$ ")
]


def test_the_first_screen_holds_install_python_and_shell():
    screen = "\n".join(README.splitlines()[:45])
    assert "pip install" in screen
    assert ">>> corpo_advantages" in screen
    assert "$ corpo-rl compare" in screen
    assert "$ corpo-rl audit" in screen
    assert "It is not" in screen


def test_interactive_examples_print_what_is_shown():
    for block in PYTHON:
        if block.startswith(">>>"):
            test = doctest.DocTestParser().get_doctest(block, {}, "README", "README.md", 0)
            assert doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test).failed == 0


@pytest.mark.skipif(find_spec("trl") is None, reason="trains: needs corpo-rl[train]")
def test_the_six_line_switch_runs_as_printed(tmp_path):
    (script,) = [block for block in PYTHON if "CorpoTrainer" in block]
    assert len(script.strip().splitlines()) == 6
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("corpo/r_count") == 2, "one line of metrics a step"


def test_the_task_of_ones_own_is_a_task():
    (source,) = [block for block in PYTHON if "class Spelling" in block]
    namespace = {}
    exec(source, namespace)  # noqa: S102  # our own README
    task = namespace["Spelling"]()
    assert grade(task, "stone", "enots").correct
    assert grade(task, "stone", "stone").reward == pytest.approx(1 / 5)  # only the middle letter is in place
    assert grade(task, "stone", "5").failure == "not_a_word"


def test_every_command_shown_exists_with_its_options():
    shown = [shlex.split(line) for line in CONSOLE if line.startswith("corpo-rl ")]
    assert {words[1] for words in shown} <= COMMANDS.keys()
    for words in shown:
        names = [word for word in words[1:3] if not word.startswith("-") and "." not in word]
        help_text = subprocess.run(
            [sys.executable, "-m", "corpo_rl", *names, "--help"], capture_output=True, text=True, check=True
        ).stdout
        for option in (word for word in words if word.startswith("--")):
            assert option in help_text, f"{' '.join(words)}: no option {option}"


def test_links_lead_to_files_and_headings_of_ours():
    def headings(page):
        return {
            re.sub(r"[^a-z0-9 -]", "", line.lstrip("# ").lower()).replace(" ", "-")
            for line in page.splitlines()
            if line.startswith("#")
        }

    for target in re.findall(r"\]\(([^)]+)\)", README):
        path, _, heading = target.partition("#")
        if not target.startswith("http"):
            assert (ROOT / path).exists(), target
            if heading:
                assert heading in headings((ROOT / path).read_text() if path else README), target


@pytest.fixture
def results():
    return json.loads((ROOT / "recipes/mini/results.json").read_text())


def test_the_table_and_the_shares_are_those_of_the_mini_recipe(results):
    printed = compare_text(results)
    (table,) = [block for block in re.findall(r"```text\n(.*?)\n```", README, flags=re.DOTALL) if "in domain" in block]
    assert printed.startswith(table)
    (shares,) = re.findall(r"\*\*GRPO reinforced (between \d+ % and \d+ %) of the failed rollouts", README)
    assert f"GRPO reinforced {shares} of the failed rollouts" in " ".join(printed.split())
    assert "No difference found by pass@1 between grpo and dr_grpo, static, corpo or loo_corpo." in " ".join(
        printed.split()
    )


def test_what_is_said_of_the_dynamics_is_so_in_every_seed(results):
    def r_count(method, steps):
        curves = [run["curves"]["r_count"][steps] for run in results["runs"] if run["method"] == method]
        assert len(curves) == 3
        return [np.nanmean(np.array(curve, dtype=float)) for curve in curves]

    early, late = slice(0, 10), slice(80, 100)
    assert min(r_count("grpo", early)) > 1
    assert max(r_count("static", early) + r_count("corpo", early)) < 1
    assert min(r_count("static", late)) > 2
    assert max(r_count("corpo", late)) < 1
    for run in results["runs"]:
        if run["method"] == "corpo":
            assert not any(run["curves"]["reinforced_failure_share"]), "none, in any step"


def test_the_audit_prints_what_is_shown(tmp_path):
    (shown,) = [block for block in re.findall(r"```text\n(.*?)```", README, flags=re.DOTALL) if "reinforced" in block]
    commands = [
        shlex.split(line)
        for line in CONSOLE
        if line in ("corpo-rl demo-log demo", "corpo-rl audit demo --min-correct 0.8")
    ]
    assert len(commands) == 2
    for words in commands:
        ran = subprocess.run(
            [sys.executable, "-m", *["corpo_rl", *words[1:]]], cwd=tmp_path, capture_output=True, text=True, check=True
        )
    assert ran.stdout.startswith(shown)
