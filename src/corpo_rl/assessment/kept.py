"""Completions kept on disk as they come, a folder for each model, so that a killed evaluation goes on where it stopped.

A folder holds `settings.json`, which says what decides the completions, and `samples.jsonl` with a line for each:
`split`, `item_id`, `order` ("ab" or "ba"), `sample`, `prompt` (a digest of what was asked), `text`, `finish_reason`.
"""

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from corpo_rl.assessment.answers import Stream
from corpo_rl.errors import DataError, UsageError
from corpo_rl.records import Sample, SampleRequest, SamplingSettings

SAMPLES_FILE = "samples.jsonl"
SETTINGS_FILE = "settings.json"

_TEXTS = ("split", "item_id", "order", "prompt", "text", "finish_reason")


def kept_samples(stream: Stream, folder: Path, *, about: Mapping[str, Any], force: bool = False) -> Stream:
    """A stream that asks for nothing it finds in a folder, and appends to the folder what it asks for.

    Each completion is on disk before it is handed on; a last line torn by a kill is dropped. While one evaluation
    asks, no other one can use the folder. More samples, pairs or orders may be asked for later.

    Args:
        stream: Where completions come from; its requests have keys as `corpo_rl.assessment.answers.ask` makes them.
        folder: Made when absent.
        about: What decides the completions beside the sampling settings and the prompt, e.g. the model's name and the
            seed; plain JSON values. Another model under the same name, say a folder trained further, is taken for the
            same one.
        force: Begin anew, whatever the folder holds.

    Raises:
        UsageError: The folder was begun under other settings or with other pairs, or another process is using it.
        DataError: It cannot be read or written, or holds a line that is not of this kind.
    """

    def asked_once(requests: Sequence[SampleRequest], sampling: SamplingSettings) -> Iterator[Sample]:
        with _opened(folder) as file:
            if force:
                (folder / SETTINGS_FILE).unlink(missing_ok=True)
                file.truncate(0)
            _check_settings(folder, {**about, **asdict(sampling)}, is_empty=os.fstat(file.fileno()).st_size == 0)
            kept = _read(folder / SAMPLES_FILE, file)
            missing = []
            for request in requests:
                row = kept.get(request.key)
                if row is None:
                    missing.append(request)
                elif row["prompt"] != _digest(request.prompt):
                    raise UsageError(
                        f"{folder}: was begun with another text of pair {request.key!r}; choose another --out, or "
                        "begin anew with --force"
                    )
                else:
                    yield Sample(request.key, row["text"], row["finish_reason"])
            kept.clear()
            prompt_of = {request.key: request.prompt for request in missing}
            for sample in stream(missing, sampling) if missing else ():
                _append(folder / SAMPLES_FILE, file, _row(sample, prompt_of[sample.key]))
                yield sample

    return asked_once


def model_folders(out: Path, names: Sequence[str]) -> dict[str, Path]:
    """A folder for each model under `out`: the one it has already, or a new one named after it.

    Models whose names would give the same folder are kept apart by a digest of the whole name.

    Raises:
        UsageError: A name is there twice.
        DataError: A folder's settings cannot be read.
    """
    twice = [name for place, name in enumerate(names) if name in names[:place]]
    if twice:
        raise UsageError(f"expected each model once, found {twice[0]!r} twice")
    folders: dict[str, Path] = {}
    for name in names:
        plain = out / (re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[-60:].lstrip("-.") or "model")
        apart = plain.with_name(f"{plain.name}-{hashlib.sha256(name.encode()).hexdigest()[:6]}")
        mine = not (plain / SETTINGS_FILE).exists() or _settings(plain).get("model") == name
        folders[name] = plain if mine and plain not in folders.values() and not apart.exists() else apart
    return folders


def _row(sample: Sample, prompt: str) -> dict[str, Any]:
    question, order, number = sample.key.rsplit("/", 2)
    split, _, item_id = question.partition("/")
    return {
        "split": split,
        "item_id": item_id,
        "order": order,
        "sample": int(number),
        "prompt": _digest(prompt),
        "text": sample.text,
        "finish_reason": sample.finish_reason,
    }


def _digest(prompt: str) -> str:
    return hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()[:16]


@contextmanager
def _opened(folder: Path) -> Iterator[IO[bytes]]:
    path = folder / SAMPLES_FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = path.open("a+b")
    except OSError as error:
        raise DataError(f"{path}: could not be written ({error.strerror or error}); name another place") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"{folder}: another evaluation is at work here; wait for it or choose --out") from None
        yield file


def _check_settings(folder: Path, settings: Mapping[str, Any], *, is_empty: bool) -> None:
    """Refuse a folder of other settings; write the settings of a new one."""
    path = folder / SETTINGS_FILE
    if not path.exists():
        if not is_empty:
            raise UsageError(f"{folder}: holds completions but no {SETTINGS_FILE}; choose another --out, or --force")
        part = path.with_name(f".{path.name}.part")
        try:
            part.write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
            part.replace(path)
        except OSError as error:
            raise DataError(f"{path}: could not be written ({error.strerror or error}); name another place") from error
        return
    before = _settings(folder)
    for name in sorted(settings.keys() | before.keys()):
        if settings.get(name) != before.get(name):
            raise UsageError(
                f"{folder}: was begun with {name} {before.get(name)!r}, not {settings.get(name)!r}; choose another "
                "--out, or begin anew with --force"
            )


def _settings(folder: Path) -> dict[str, Any]:
    path = folder / SETTINGS_FILE
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: expected the settings of an evaluation, found {error}; begin anew: --force") from None
    if not isinstance(settings, dict):
        raise DataError(f"{path}: expected a JSON object, found {type(settings).__name__}; begin anew with --force")
    return settings


def _read(path: Path, file: IO[bytes]) -> dict[str, dict[str, Any]]:
    """Rows by the key of their request; what stands behind the last line end is cut off."""
    file.seek(0)
    kept: dict[str, dict[str, Any]] = {}
    end = 0
    for line, raw in enumerate(file, start=1):
        if not raw.endswith(b"\n"):
            break
        end += len(raw)
        try:
            row = json.loads(raw)
            well_formed = type(row["sample"]) is int and all(isinstance(row[name], str) for name in _TEXTS)
        except (ValueError, TypeError, KeyError):
            well_formed = False
        if not well_formed:
            raise DataError(
                f"{path}:{line}: expected a kept completion ({', '.join(_TEXTS)}, sample), found {raw[:40]!r}; delete "
                "the line, or begin anew with --force"
            )
        kept[f"{row['split']}/{row['item_id']}/{row['order']}/{row['sample']}"] = row
    file.truncate(end)
    return kept


def _append(path: Path, file: IO[bytes], row: Mapping[str, Any]) -> None:
    try:
        file.write(json.dumps(row).encode() + b"\n")
        file.flush()
    except OSError as error:
        raise DataError(f"{path}: could not be written ({error.strerror or error}); free space and go on") from error
