from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from corpo_rl.cli.task_options import task_options, with_task
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
