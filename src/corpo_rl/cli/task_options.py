"""The options that name a task, alike in `compare` and `sweep`."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from corpo_rl.errors import UsageError

PAIRS_FILE = "pairs.jsonl"
"""Name of the pairs in a folder of `pairs build`."""

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--task", help="mini, pairs, rubric, code, puzzles:NAME[,NAME...], or FILE.py:NAME of your own Task class."
    ),
    click.option(
        "--pairs",
        type=click.Path(path_type=Path),
        help="Pairs file (JSONL) of the task 'pairs', or the folder that `pairs build` wrote.",
    ),
    click.option(
        "--data", type=click.Path(path_type=Path), help="File of the task 'rubric' (its items) or 'code' (problems)."
    ),
    click.option(
        "--reward",
        type=click.Choice(["min_margin", "brier"]),
        help="Reward of the tasks 'mini' and 'pairs'; the least that is correct follows it.  [default: min_margin]",
    ),
)


def task_options(command: F) -> F:
    """Options `--task`, `--pairs`, `--data` and `--reward`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def with_task(given: Mapping[str, Any], *, preset_task: str) -> dict[str, Any]:
    """Settings as given, with paths as text, and the task that follows from them.

    Raises:
        UsageError: The pairs are given as `--data`.

    Example:
        >>> with_task({"pairs": Path("my/pairs.jsonl")}, preset_task="mini")
        {'pairs': 'my/pairs.jsonl', 'task': 'pairs'}
    """
    settings = {name: str(value) if isinstance(value, Path) else value for name, value in given.items()}
    if "pairs" in settings:
        settings["pairs"] = str(pairs_file(Path(settings["pairs"])))
        settings.setdefault("task", "pairs")
    task = settings.get("task", preset_task)
    if "data" in settings and task == "pairs":
        raise UsageError("--data: the task pairs takes its file by --pairs, found --data; use that")
    path, _, name = task.rpartition(":")
    if path.endswith(".py"):
        settings["task"] = f"{Path(path).resolve()}:{name}"
    return settings


def pairs_file(path: Path) -> Path:
    """The file of pairs in a folder that `pairs build` wrote; anything else as it is."""
    inside = path / PAIRS_FILE
    return inside if inside.is_file() else path


def folder_of(task: str, *, scale: str, preset_task: str) -> str:
    """What the results' folder is called unless told: after the scale, or a task that is not the scale's own.

    Example:
        >>> folder_of("mini", scale="mini", preset_task="mini")
        'mini'
        >>> folder_of("/my/task.py:Spelling", scale="mini", preset_task="mini")
        'Spelling'
        >>> folder_of("puzzles:mini_sudoku,word_sorting", scale="mini", preset_task="mini")
        'puzzles-mini_sudoku-word_sorting'
    """
    if task == preset_task:
        return scale
    path, _, name = task.rpartition(":")
    return re.sub(r"[^A-Za-z0-9_]+", "-", name if path.endswith(".py") else task).strip("-") or scale
