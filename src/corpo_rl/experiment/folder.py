"""The files of an experiment on disk: written whole or not at all, locked while in use."""

import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from corpo_rl.errors import DataError, UsageError


def write_text(path: Path, text: str) -> None:
    """Write a file so that a kill at any moment leaves either the old content or the new, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Write a JSON file whole or not at all. NaN is refused: undefined values are null in our files."""
    write_text(path, json.dumps(data, indent=1, allow_nan=False) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        DataError: The file is missing or is not a JSON object.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: expected a JSON file of this experiment, found {error}") from error
    if not isinstance(data, dict):
        raise DataError(f"{path}: expected a JSON object, found {type(data).__name__}")
    return data


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Rows of a JSONL file that one process appends to; a last line torn by a kill is left out."""
    rows: list[dict[str, Any]] = []
    if not path.exists():
        return rows
    lines = path.read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines, start=1):
        try:
            rows += [json.loads(line)] if line else []
        except ValueError as error:
            if number < len(lines):
                raise DataError(f"{path}:{number}: expected a JSON object, found {line[:60]!r}") from error
    return rows


def append_row(path: Path, row: Mapping[str, Any]) -> None:
    """Append one row to a JSONL file; NaN is refused."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row, allow_nan=False) + "\n")


def keep_rows(path: Path, *, last_step: int) -> None:
    """Drop the rows after `last_step`, which a resumed run will write again."""
    rows = [row for row in read_rows(path) if row["step"] <= last_step]
    write_text(path, "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows))


def is_full(folder: Path) -> bool:
    """Whether the disk under a folder is full: under 1 MiB free, the rest of a write that did not fit."""
    return shutil.disk_usage(folder).free < 2**20


@contextmanager
def locked(folder: Path, *, wait_seconds: float = 0.0) -> Iterator[None]:
    """Hold a folder against a second process. The lock dies with its process, however it ends.

    Raises:
        UsageError: Another process holds it, still so after `wait_seconds`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        deadline = time.monotonic() + wait_seconds
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() >= deadline:
                    raise UsageError(f"{folder}: another process is at work here; wait for it, or give --out") from None
                time.sleep(0.2)
        yield
