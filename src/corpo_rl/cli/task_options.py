"""The options that name a task, alike in `compare` and `sweep`."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from corpo_rl.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--task", help="mini, pairs, rubric, code, puzzles:NAME[,NAME...], or FILE.py:NAME of your own Task class."
    ),
    click.option("--pairs", type=click.Path(path_type=Path), help="Pairs file (JSONL) of the task 'pairs'."),
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
        settings.setdefault("task", "pairs")
    task = settings.get("task", preset_task)
    if "data" in settings and task == "pairs":
        raise UsageError("--data: the task pairs takes its file by --pairs, found --data; use that")
    path, _, name = task.rpartition(":")
    if path.endswith(".py"):
        settings["task"] = f"{Path(path).resolve()}:{name}"
    return settings
