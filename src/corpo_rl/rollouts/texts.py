"""Prompts and completions of a few rollouts, fetched from the files that hold them."""

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from corpo_rl.records import RolloutLog, Texts
from corpo_rl.rollouts.columns import NO_FIELD
from corpo_rl.rollouts.files import Findings, LogFile
from corpo_rl.rollouts.plan import Plan
from corpo_rl.rollouts.scan import scan, scan_exploded

LONGEST = 20_000
"""Characters of a text that are kept."""


def read_texts(log: RolloutLog, files: Sequence[LogFile], plan: Plan, rows: Sequence[int]) -> list[Texts]:
    """Prompt and completion of these rows of the log, None where it holds none.

    Only the files of these rows are read, up to the last of them.

    Args:
        log: The log as read from the files.
        files: Its files.
        plan: Which columns hold the texts.
        rows: Rows of the log.
    """
    columns = [name for name in plan.texts if name is not None]
    wanted: dict[int, dict[tuple[int, int], None]] = defaultdict(dict)
    for row in rows:
        wanted[int(log.file_N[row])][_place(log, row)] = None
    found: dict[tuple[int, tuple[int, int]], list[Any]] = {}
    for number, places in wanted.items():
        last = max(line for line, _ in places)
        file = files[number]
        if plan.explode is not None:
            blocks = scan_exploded(file, columns, (), plan.explode, Findings())
        else:
            blocks = scan(file, columns, Findings())
        for block in blocks:
            lines = block.row_B.tolist()
            parts = [0] * len(lines) if block.part_B is None else block.part_B.tolist()
            for at, place in enumerate(zip(lines, parts, strict=True)):
                if place in places:
                    found[number, place] = [_item(block.columns[name], at) for name in columns]
            if lines and lines[-1] > last:
                break
    return [_texts(found.get((int(log.file_N[row]), _place(log, row))), plan) for row in rows]


def _place(log: RolloutLog, row: int) -> tuple[int, int]:
    return int(log.row_N[row]), 0 if log.part_N is None else int(log.part_N[row])


def _item(values: Any, at: int) -> Any:
    return values[at] if isinstance(values, list) else values[at].as_py()


def _texts(values: list[Any] | None, plan: Plan) -> Texts:
    if values is None:
        return Texts(None, None)
    told = iter(values)
    prompt, completion = (None if name is None else _text(next(told)) for name in plan.texts)
    return Texts(prompt, completion)


def _text(value: Any) -> str | None:
    """A text as it is, messages as "role: content", anything else as JSON."""
    if value is None or value is NO_FIELD:
        return None
    if isinstance(value, list) and value and all(isinstance(one, dict) and "content" in one for one in value):
        value = "\n".join(f"{one.get('role', '?')}: {_content(one['content'])}" for one in value)
    return _content(value)[:LONGEST]


def _content(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (RecursionError, ValueError):
        return "too deep to show"
