from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from corpo_rl.cli.task_options import folder_of, pairs_file, task_options, with_task
from corpo_rl.errors import UsageError


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {}),
        ({"steps": 3, "task": "mini"}, {"steps": 3, "task": "mini"}),
        ({"pairs": Path("p.jsonl")}, {"pairs": "p.jsonl", "task": "pairs"}),
        ({"task": "code", "data": Path("p.jsonl")}, {"task": "code", "data": "p.jsonl"}),
        ({"task": "puzzles:a,b"}, {"task": "puzzles:a,b"}),
        ({"task": "/my/task.py:Mine"}, {"task": "/my/task.py:Mine"}),
        ({"task": "task.py:Mine"}, {"task": f"{Path.cwd()}/task.py:Mine"}),
    ],
)
def test_what_follows_from_the_options(given, expected):
    assert with_task(given, preset_task="mini") == expected


@pytest.mark.parametrize(("given", "preset"), [({"task": "pairs"}, "mini"), ({}, "pairs")])
def test_pairs_have_an_option_of_their_own(given, preset):
    with pytest.raises(UsageError, match="--data: the task pairs takes its file by --pairs"):
        with_task({**given, "data": Path("p.jsonl")}, preset_task=preset)


def test_the_options_reach_the_command():
    found = {}

    @click.command()
    @task_options
    def command(**options):
        found.update(options)

    arguments = ["--task", "code", "--data", "p.jsonl", "--reward", "brier"]
    assert CliRunner().invoke(command, arguments).exit_code == 0
    assert found == {"task": "code", "pairs": None, "data": Path("p.jsonl"), "reward": "brier"}


def test_a_folder_of_pairs_build_stands_for_its_file(tmp_path):
    (tmp_path / "pairs.jsonl").touch()
    assert with_task({"pairs": tmp_path}, preset_task="pairs")["pairs"] == f"{tmp_path}/pairs.jsonl"
    assert pairs_file(tmp_path / "pairs.jsonl") == tmp_path / "pairs.jsonl"
    assert pairs_file(tmp_path / "nothing") == tmp_path / "nothing"


@pytest.mark.parametrize(
    ("task", "scale", "preset", "folder"),
    [
        ("mini", "mini", "mini", "mini"),
        ("pairs", "small", "pairs", "small"),
        ("pairs", "mini", "mini", "pairs"),
        ("code", "small", "pairs", "code"),
        ("/my work/my_task.py:Spelling", "mini", "mini", "Spelling"),
        ("puzzles:mini_sudoku,word_sorting", "mini", "mini", "puzzles-mini_sudoku-word_sorting"),
        ("../..", "mini", "mini", "mini"),
    ],
)
def test_two_tasks_get_two_folders(task, scale, preset, folder):
    assert folder_of(task, scale=scale, preset_task=preset) == folder
