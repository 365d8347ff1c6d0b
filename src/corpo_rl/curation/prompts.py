"""What the prompts of a log are called: their ids and texts, whole, from the files that hold them."""

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from corpo_rl.errors import DataError
from corpo_rl.records import RolloutLog
from corpo_rl.rollouts.columns import NO_FIELD
from corpo_rl.rollouts.detect import detect
from corpo_rl.rollouts.files import Findings, LogFile, find_files
from corpo_rl.rollouts.options import ReadOptions
from corpo_rl.rollouts.plan import Plan
from corpo_rl.rollouts.sample import merged, sample_file
from corpo_rl.rollouts.scan import scan, scan_exploded


@dataclass(frozen=True)
class PromptNames:
    """Ids and texts of the prompts of a log. P prompts."""

    id_column: str | None
    """Column of the log with the ids; None where a prompt is told by its text."""
    ids: Sequence[Any]
    """Id of each prompt as the log has it; None for all where there is no column of ids. Length P."""
    texts: Sequence[Any]
    """Prompt as the log has it, text or messages; None where it holds none. Length P."""


def prompt_names(
    paths: Iterable[str | os.PathLike[str]], options: ReadOptions, log: RolloutLog, rows: Sequence[int]
) -> PromptNames:
    """Id and text of the prompts of these rows of a log.

    Args:
        paths: As they were given to the reader of the log.
        options: Likewise.
        log: What the reader made of them.
        rows: A row of the log for each prompt.

    Raises:
        DataError: A file cannot be read any more, or has changed since.
    """
    wanted = set(log.sources)
    files = [file for file in find_files(paths) if file.name in wanted]
    samples = [sample for file in files if (sample := sample_file(file)) is not None]
    if tuple(file.name for file in files) != log.sources or len(samples) != len(files):
        raise DataError(f"{log.sources[0]}: the files of the log have changed while they were read; start again")
    form, _ = detect(samples, log.format)
    plan = form.plan(merged(samples), options)
    assert plan.prompt is not None, "the log tells its prompts"
    text_column = plan.texts[0]
    columns = list(dict.fromkeys(name for name in (plan.prompt, text_column) if name is not None))
    found = _values(files, log, plan, columns, rows)
    by_id = plan.prompt != text_column and not _is_prompt(found[0].get(plan.prompt) if found else None)
    return PromptNames(
        id_column=plan.prompt if by_id else None,
        ids=[values.get(plan.prompt) if by_id else None for values in found],
        texts=[values.get(text_column if by_id and text_column else plan.prompt) for values in found]
        if text_column or not by_id
        else [None] * len(found),
    )


def _is_prompt(value: Any) -> bool:
    """Whether a value can only be messages, and no id."""
    return isinstance(value, list | dict)


def _values(
    files: Sequence[LogFile], log: RolloutLog, plan: Plan, columns: Sequence[str], rows: Sequence[int]
) -> list[dict[str, Any]]:
    """Values of these columns in these rows; a value that is missing is left out."""
    places: dict[int, set[tuple[int, int]]] = defaultdict(set)
    for row in rows:
        places[int(log.file_N[row])].add(_place(log, row))
    found: dict[tuple[int, tuple[int, int]], dict[str, Any]] = {}
    for number, wanted in places.items():
        last = max(line for line, _ in wanted)
        file, findings = files[number], Findings()
        if plan.explode is not None:
            blocks = scan_exploded(file, columns, (), plan.explode, findings)
        else:
            blocks = scan(file, columns, findings)
        for block in blocks:
            lines = block.row_B.tolist()
            parts = [0] * len(lines) if block.part_B is None else block.part_B.tolist()
            for at, place in enumerate(zip(lines, parts, strict=True)):
                if place in wanted:
                    values = {name: _item(block.columns[name], at) for name in columns}
                    found[number, place] = {
                        name: value for name, value in values.items() if value is not None and value is not NO_FIELD
                    }
            if lines and lines[-1] > last:
                break
    return [found.get((int(log.file_N[row]), _place(log, row)), {}) for row in rows]


def _place(log: RolloutLog, row: int) -> tuple[int, int]:
    return int(log.row_N[row]), 0 if log.part_N is None else int(log.part_N[row])


def _item(values: Any, at: int) -> Any:
    return values[at] if isinstance(values, list) else values[at].as_py()
