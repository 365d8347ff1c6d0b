"""Training on the prompts that `corpo-rl curate` kept."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from corpo_rl.errors import DataError
from corpo_rl.pairs.files import read_json_lines
from corpo_rl.tasks.base import Task

CURATED_FILE = "curated.jsonl"
"""Copy of the list inside the experiment's folder, so that a moved or edited file changes nothing."""


class Curated(NamedTuple):
    """Training items after curation."""

    items: list[Any]
    n_dropped: int
    """Items that the list says to leave out."""
    n_unknown: int
    """Items that the list does not name: they are kept."""


def keep_curated(task: Task, items: Sequence[Any], path: Path) -> Curated:
    """The items whose prompt the list does not drop, in their order.

    Args:
        task: Whose items they are; its prompts are what the list names.
        items: Training items.
        path: List that `corpo-rl curate --out` wrote: a line for each prompt, with `prompt` and `kept`.

    Raises:
        DataError: A line is not of that form, the list names no prompt of the items, or it leaves none.
    """
    kept: dict[str, bool] = {}
    for line, row in read_json_lines(path):
        prompt, verdict = _text(row.get("prompt")), row.get("kept")
        if prompt is None or not isinstance(verdict, bool):
            raise DataError(
                f"{path}:{line}: expected 'prompt' (text or messages) and 'kept' (true or false), as corpo-rl curate "
                f"--out writes them, found {json.dumps(row)[:80]}"
            )
        kept[prompt] = verdict
    verdicts = [kept.get(task.prompt(item)) for item in items]
    if all(verdict is None for verdict in verdicts):
        raise DataError(f"{path}: names no training prompt of the task {task.name}; curate a log of this very task")
    chosen = [item for item, verdict in zip(items, verdicts, strict=True) if verdict is not False]
    if not chosen:
        raise DataError(f"{path}: leaves no training item of the task {task.name}; widen the band")
    return Curated(chosen, verdicts.count(False), verdicts.count(None))


def _text(prompt: Any) -> str | None:
    """A prompt as the task wrote it; of messages the last one's content."""
    if isinstance(prompt, list) and prompt and isinstance(prompt[-1], dict):
        prompt = prompt[-1].get("content")
    return prompt if isinstance(prompt, str) else None
