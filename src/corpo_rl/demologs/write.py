"""Demo logs on disk: a made-up run written as a framework would have logged it."""

import json
import shutil
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from corpo_rl.demologs.lines import LINE_FORMATS
from corpo_rl.demologs.simulate import DEFAULT_STEPS, SimulatedRun, simulate_run
from corpo_rl.demologs.tables import Contents, csv_table, json_lines, parquet_table, trl
from corpo_rl.errors import DataError, UsageError

TABLE_FORMATS: Mapping[str, Callable[[SimulatedRun], Contents]] = {
    "trl": trl,
    "trl-chat": lambda run: trl(run, chat=True),
    "csv": csv_table,
    "jsonl": json_lines,
    "parquet": parquet_table,
}

DEMO_FORMATS: tuple[str, ...] = (*TABLE_FORMATS, *LINE_FORMATS)
"""Formats a demo log can be written in."""


def write_demo_log(
    folder: Path, *, scenario: str, format: str, seed: int, n_steps: int = DEFAULT_STEPS, force: bool = False
) -> list[Path]:
    """Write a made-up run into a new folder, whole or not at all.

    Args:
        folder: Where to. It must not exist, or be empty; with `force` it is replaced.
        scenario: What kind of run, one of `SCENARIOS`.
        format: How it is logged, one of `DEMO_FORMATS`.
        seed: Decides every draw.
        n_steps: Steps of training.
        force: Replace the folder.

    Returns:
        The files written.

    Raises:
        UsageError: No such scenario or format, a number out of range, or the folder holds something (with `force`:
            something other than logs).
        DataError: The folder cannot be written.
    """
    if format not in DEMO_FORMATS:
        raise UsageError(f"format: expected one of {', '.join(DEMO_FORMATS)}, got {format!r}")
    _check_replaceable(folder, force=force)
    run = simulate_run(scenario, seed=seed, n_steps=n_steps)
    contents = TABLE_FORMATS[format](run) if format in TABLE_FORMATS else _lines(run, format, seed)

    part = folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:8]}")
    old = part.with_name(f"{part.name}.old")
    try:
        for name, data in contents.items():
            path = part / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        if folder.exists():
            folder.rename(old)
        part.rename(folder)
    except OSError as error:
        if old.exists():
            old.rename(folder)
        shutil.rmtree(part, ignore_errors=True)
        raise DataError(f"{folder}: cannot be written ({error.strerror or error})") from error
    shutil.rmtree(old, ignore_errors=True)
    return [folder / name for name in sorted(contents)]


def _check_replaceable(folder: Path, *, force: bool) -> None:
    """Refuse to delete what is no log: replacing a folder deletes all that lies in it."""
    here = Path.cwd()
    if folder.resolve() in (here, *here.parents):
        raise UsageError(f"{folder}: the working folder lies there; name a new folder")
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UsageError(f"{folder}: is there already and no folder; name a new one")
    if not folder.exists() or not any(folder.iterdir()):
        return
    if not force:
        raise UsageError(f"{folder}: is there already; pass --force to replace it")
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not _is_ours(path):
            raise UsageError(f"{folder}: --force replaces a folder of logs alone, found {path}; name another folder")


def _is_ours(path: Path) -> bool:
    return path.is_dir() or path.suffix in (".csv", ".jsonl", ".parquet")


def _lines(run: SimulatedRun, format: str, seed: int) -> Contents:
    """The log's lines; in a dirty run the last line of the last file is cut off, as by a kill."""
    files = LINE_FORMATS[format](run, np.random.default_rng([seed, 1]))
    contents = {
        name: "".join(json.dumps(line.record, ensure_ascii=False) + "\n" for line in lines).encode("utf-8")
        for name, lines in files.items()
    }
    if run.torn:
        last = list(contents)[-1]
        contents[last] = contents[last][:-20]
    return contents
