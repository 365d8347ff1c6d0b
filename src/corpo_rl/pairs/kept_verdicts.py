"""The verdicts of a labelling that is not finished yet: what a killed call leaves for the next one to go on from."""

import dataclasses
import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from corpo_rl.errors import DataError, UsageError
from corpo_rl.records import STATUSES, Verdict


class KeptVerdicts:
    """A JSON Lines file of verdicts by key, each handed to the system before the next is sought.

    Its first line holds the settings they were made with. A last line that a kill tore is dropped. One process at a
    time has the file: the lock dies with its process, however it ends. A file without a verdict is removed at the end.

    Use it as a context manager.

    Args:
        path: The file; its folder is made when absent.
        settings: Plain JSON values. Verdicts made with others are not gone on from.
        force: Begin anew whatever the file holds.

    Raises:
        UsageError: The file was begun with other settings, or another process has it.
        DataError: It holds something else, or cannot be read or written.
    """

    def __init__(self, path: Path, *, settings: Mapping[str, Any], force: bool = False) -> None:
        self._path = path
        self.verdicts: dict[str, Verdict] = {}
        """Verdict of each key so far."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a+b")
        except OSError as error:
            raise self._unusable(error) from error
        try:
            self._hold()
            if force:
                self._file.truncate(0)
            self._read(settings)
        except OSError as error:
            self._file.close()
            raise self._unusable(error) from error
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self.verdicts:
            self._path.unlink(missing_ok=True)
        self._file.close()

    def add(self, key: str, verdict: Verdict) -> None:
        """Keep a verdict.

        Raises:
            DataError: It cannot be written.
        """
        self.verdicts[key] = verdict
        self._append({"key": key, **dataclasses.asdict(verdict)})

    def remove(self) -> None:
        """Remove the file: the work is done."""
        self._path.unlink(missing_ok=True)

    def _hold(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # the process that had it may have finished, and removed it, between our opening and our holding it
            held = os.stat(self._path).st_ino == os.fstat(self._file.fileno()).st_ino
        except (BlockingIOError, FileNotFoundError):
            held = False
        if not held:
            raise UsageError(
                f"{self._path}: another process is at work on it; wait for it, or name another file with --out"
            )

    def _read(self, settings: Mapping[str, Any]) -> None:
        # through JSON, as the file holds them: lists for tuples
        settings = json.loads(json.dumps(settings))
        self._file.seek(0)
        *lines, torn = self._file.read().split(b"\n")
        if torn:
            self._file.truncate(self._file.tell() - len(torn))
        if not lines:
            self._append(settings)
            return
        try:
            before = json.loads(lines[0])
            if not isinstance(before, dict) or "key" in before:
                raise ValueError
            for line in lines[1:]:
                row = json.loads(line)
                key, verdict = row.pop("key"), Verdict(**row)
                if not isinstance(key, str) or verdict.status not in STATUSES:
                    raise ValueError
                self.verdicts[key] = verdict
        except (ValueError, TypeError, KeyError, AttributeError):
            raise DataError(
                f"{self._path}: expected the verdicts of a call that did not finish, found something else; move it "
                "away, or begin anew with --force"
            ) from None
        for name in sorted(settings.keys() | before.keys()):
            if settings.get(name) != before.get(name):
                raise UsageError(
                    f"{self._path}: was begun with {name} {json.dumps(before.get(name))}, not "
                    f"{json.dumps(settings.get(name))}; go on with the same, or begin anew with --force"
                )

    def _append(self, row: Mapping[str, Any]) -> None:
        try:
            self._file.write(json.dumps(row).encode() + b"\n")
            self._file.flush()
        except OSError as error:
            raise self._unusable(error) from error

    def _unusable(self, error: OSError) -> DataError:
        return DataError(f"{self._path}: could not be written ({error.strerror or error}); free space or name another")
