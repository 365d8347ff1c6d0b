"""Completions kept in a JSON Lines file as they come, so that a killed ranking goes on where it stopped.

Fields: `key`, which stands for the policy, how it was sampled and what it was asked; `text`; `finish_reason`.
"""

import fcntl
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from corpo_rl.errors import DataError, UsageError
from corpo_rl.ranking.rank import Stream
from corpo_rl.records import Sample, SampleRequest, SamplingSettings


def kept_calls(stream: Stream, path: Path, *, policy: str) -> Stream:
    """A stream that asks for nothing it finds in a file, and appends to the file what it asks for.

    Each completion is on disk before it is handed on; a last line torn by a kill is dropped. While one ranking asks, no
    other one can use the file.

    Args:
        stream: Where completions come from.
        path: The file; made with its folder when the first completion comes.
        policy: Name of the policy. Another policy under the same name, say a folder trained further, is taken for the
            same one.

    Raises:
        DataError: The file cannot be read or written, or holds a line that is not of this kind.
        UsageError: Another process is using the file.
    """

    def asked_once(requests: Sequence[SampleRequest], sampling: SamplingSettings) -> Iterator[Sample]:
        names = {request.key: _name(request, sampling, policy) for request in requests}
        with _opened(path) as file:
            kept = _read(path, file)
            yield from (
                Sample(key, kept[name]["text"], kept[name]["finish_reason"])
                for key, name in names.items()
                if name in kept
            )
            missing = [request for request in requests if names[request.key] not in kept]
            kept.clear()
            for sample in stream(missing, sampling) if missing else ():
                row = {"key": names[sample.key], "text": sample.text, "finish_reason": sample.finish_reason}
                _append(path, file, json.dumps(row).encode() + b"\n")
                yield sample

    return asked_once


def _name(request: SampleRequest, sampling: SamplingSettings, policy: str) -> str:
    about = json.dumps([policy, asdict(sampling), request.key], sort_keys=True)
    return hashlib.sha256(about.encode()).hexdigest()[:32]


def _opened(path: Path) -> IO[bytes]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+b")
    except OSError as error:
        raise DataError(f"{path}: could not be written ({error.strerror or error}); name another place") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise UsageError(f"{path}: another ranking is using this file; wait for it or name another place") from None
    return file


def _read(path: Path, file: IO[bytes]) -> dict[str, dict[str, Any]]:
    """Rows by their key; what stands behind the last line end is cut off."""
    file.seek(0)
    kept: dict[str, dict[str, Any]] = {}
    end = 0
    for line, raw in enumerate(file, start=1):
        if not raw.endswith(b"\n"):
            break
        end += len(raw)
        try:
            row = json.loads(raw)
            well_formed = all(isinstance(row[name], str) for name in ("key", "text", "finish_reason"))
        except (ValueError, TypeError, KeyError):
            well_formed = False
        if not well_formed:
            raise DataError(
                f"{path}:{line}: expected a kept completion (key, text, finish_reason), found {raw[:40]!r}; "
                "delete the line or name another place"
            )
        kept[row["key"]] = row
    file.truncate(end)
    return kept


def _append(path: Path, file: IO[bytes], line: bytes) -> None:
    try:
        file.write(line)
        file.flush()
    except OSError as error:
        raise DataError(f"{path}: could not be written ({error.strerror or error}); free space and go on") from error
