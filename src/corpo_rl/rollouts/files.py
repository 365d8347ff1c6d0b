"""From what the user names to streams of bytes: folders, globs, compression, encodings, and what is no log."""

import bz2
import codecs
import glob
import gzip
import lzma
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast

from corpo_rl.errors import DataError, UsageError, one_line

KINDS = {
    ".jsonl": "json", ".ndjson": "json", ".json": "json", ".csv": "csv", ".tsv": "csv", ".parquet": "parquet",
}  # fmt: skip
"""What a file holds, by its suffix."""

_COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zst": "zstd"}
_PICKLES = {".pt", ".pth", ".pkl", ".pickle", ".ckpt"}
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"
_LONGEST_LINE = 1 << 28
_BLOCK = 1 << 20

DECOMPRESSION_ERRORS = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)

BROKEN = "broken line"
"""Reason under which unreadable lines are counted."""


@dataclass(frozen=True)
class LogFile:
    """A file of a log."""

    path: Path
    kind: str
    """ "json", "csv" or "parquet"."""
    compression: str | None
    n_bytes: int
    """Size on disk."""
    asked_for: bool
    """Whether the user named this very file, rather than its folder."""

    @property
    def name(self) -> str:
        """The path as the user will recognise it in messages, on one line."""
        return one_line(str(self.path))


@dataclass
class Findings:
    """What reading came across, collected over all files."""

    n_rows: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def drop(self, reason: str, n: int = 1) -> None:
        """Count rows that do not become rollouts."""
        if n:
            self.dropped[reason] = self.dropped.get(reason, 0) + n

    def problem(self, text: str) -> None:
        """Keep the first twenty, with their places."""
        if len(self.problems) < 20:
            self.problems.append(text)

    def note(self, text: str) -> None:
        """Keep a note, once."""
        if text not in self.notes:
            self.notes.append(text)


def find_files(paths: Iterable[str | os.PathLike[str]]) -> list[LogFile]:
    """Files of the log, in the order of the arguments, those of a folder or glob in step order (2 before 10).

    Folders are searched with their subfolders, without hidden ones. A file reached twice counts once.

    Raises:
        UsageError: A path does not exist, or nothing was named.
        DataError: A folder holds no log, or a file is of a kind that is not read.
    """
    files: dict[str, LogFile] = {}
    n_paths = 0
    for path in paths:
        n_paths += 1
        for found, asked_for in _expand(os.fspath(path)):
            files.setdefault(os.path.realpath(found), _log_file(found, asked_for=asked_for))
    if not n_paths:
        raise UsageError("no log named; pass files, folders or globs")
    return list(files.values())


def _expand(path: str) -> list[tuple[Path, bool]]:
    if os.path.isdir(path):
        return [(found, False) for found in _in_folder(Path(path))]
    if os.path.lexists(path):
        return [(Path(path), True)]
    matches = sorted(map(Path, glob.glob(path, recursive=True)), key=natural_order)
    if not matches:
        raise UsageError(f"{path}: no such file or folder; check the path")
    return [
        (found, not match.is_dir()) for match in matches for found in (_in_folder(match) if match.is_dir() else [match])
    ]


def _in_folder(folder: Path) -> list[Path]:
    found: list[Path] = []
    pickles: list[Path] = []
    seen: set[str] = set()
    for root, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(root)
        if real in seen:  # a link back into the tree
            folders.clear()
            continue
        seen.add(real)
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = Path(root, name)
            if name.startswith(".") or not path.is_file():
                continue
            if _kind(path)[0] is not None:
                found.append(path)
            elif path.suffix in _PICKLES:
                pickles.append(path)
    # Beside logs, .json files are settings and states (config.json, trainer_state.json).
    tables = [path for path in found if _without_compression(path).suffix != ".json"]
    if not found:
        if pickles:
            raise DataError(_no_pickle(pickles[0]))
        raise DataError(f"{folder}: no log in this folder (looked for {', '.join(KINDS)}); name the files themselves")
    return sorted(tables or found, key=natural_order)


def natural_order(path: Path) -> list[tuple[int, int, str]]:
    """Sort key by which step 2 comes before step 10."""
    pieces = re.split(r"(\d+)", str(path))
    return [(0, int(piece), "") if piece.isdecimal() and len(piece) < 4000 else (1, 0, piece) for piece in pieces]


def _without_compression(path: Path) -> Path:
    return path.with_suffix("") if path.suffix in _COMPRESSIONS else path


def _kind(path: Path) -> tuple[str | None, str | None]:
    return KINDS.get(_without_compression(path).suffix.lower()), _COMPRESSIONS.get(path.suffix)


def _no_pickle(path: Path) -> str:
    return (
        f"{path}: expected a table, found a pickle, and unpickling runs code from the file; "
        "save the samples as JSON Lines or parquet first"
    )


def _log_file(path: Path, *, asked_for: bool) -> LogFile:
    if path.suffix in _PICKLES:
        raise DataError(_no_pickle(path))
    kind, compression = _kind(path)
    try:
        if not path.is_file():
            raise DataError(f"{path}: not a regular file; name a log file or a folder")
        n_bytes = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(64)
    except OSError as error:
        raise unreadable(path, error) from error
    if head.startswith(_LFS_POINTER):
        raise DataError(f"{path}:1: a Git LFS pointer, not the data itself; run: git lfs pull")
    if kind is None:
        kind = "parquet" if head.startswith(b"PAR1") else "json"
    if kind == "parquet" and compression:
        raise DataError(f"{path}: parquet inside {compression}; unpack it first (parquet is compressed already)")
    return LogFile(path, kind, compression, n_bytes, asked_for)


def unreadable(path: Path, error: OSError) -> DataError:
    """The error for a file the system does not give us."""
    return DataError(f"{path}: could not be read ({error.strerror or error}); check the file and its permissions")


@contextmanager
def open_stream(file: LogFile) -> Iterator[tuple[BinaryIO, Callable[[], int]]]:
    """The unpacked bytes of a file, and how many of its bytes on disk have been read.

    Raises:
        DataError: The file cannot be read.
    """
    try:
        with file.path.open("rb") as raw, _unpacked(raw, file.compression) as stream:
            yield stream, raw.tell
    except gzip.BadGzipFile:
        raise
    except OSError as error:
        raise unreadable(file.path, error) from error


def _unpacked(raw: BinaryIO, compression: str | None) -> BinaryIO:
    if compression == "gzip":
        return cast(BinaryIO, gzip.GzipFile(fileobj=raw))
    if compression == "bz2":
        return cast(BinaryIO, bz2.BZ2File(raw))
    if compression == "xz":
        return cast(BinaryIO, lzma.LZMAFile(raw))
    if compression == "zstd":
        import pyarrow

        return cast(BinaryIO, pyarrow.CompressedInputStream(pyarrow.PythonFile(raw, mode="r"), "zstd"))
    return raw


def line_blocks(file: LogFile, findings: Findings) -> Iterator[tuple[bytes, int]]:
    """Whole lines of a text file as UTF-8, about a megabyte at a time, with the bytes on disk read so far.

    A byte order mark is taken off and UTF-16 is decoded. A packed file that ends early yields what it holds.

    Raises:
        DataError: The file cannot be read, or a line is longer than 256 MB.
    """
    with open_stream(file) as (stream, tell):
        pending: list[bytes] = []
        n_pending = 0
        for chunk in _decoded(_chunks(stream, file, findings), file, findings):
            end = chunk.rfind(b"\n") + 1
            if not end:
                pending.append(chunk)
                n_pending += len(chunk)
                if n_pending > _LONGEST_LINE:
                    raise DataError(f"{file.name}: a line is longer than 256 MB; is this a log of one row a line?")
                continue
            yield b"".join([*pending, chunk[:end]]), tell()
            pending, n_pending = [chunk[end:]], len(chunk) - end
        if n_pending:
            yield b"".join(pending), tell()


def _chunks(stream: BinaryIO, file: LogFile, findings: Findings) -> Iterator[bytes]:
    while True:
        try:
            chunk = stream.read(_BLOCK)
        except DECOMPRESSION_ERRORS as error:
            _cut_short(file, findings, str(error))
            return
        except OSError as error:
            if file.compression is None or error.errno is not None:
                raise
            _cut_short(file, findings, str(error))  # bz2 and zstd speak of broken data as OSError
            return
        if not chunk:
            return
        yield chunk


def _cut_short(file: LogFile, findings: Findings, why: str) -> None:
    findings.problem(f"{file.name}: the {file.compression} data breaks off ({why})")
    findings.warnings.append(f"{file.name}: the {file.compression} data breaks off; read up to there; is it complete?")


def _decoded(chunks: Iterator[bytes], file: LogFile, findings: Findings) -> Iterator[bytes]:
    first = next(chunks, b"")
    if first.startswith(codecs.BOM_UTF8):
        first = first[3:]
    elif first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or first[1:2] == b"\0" != first[:1]:
        findings.note("files in UTF-16 were decoded")
        big_endian = first.startswith(codecs.BOM_UTF16_BE)
        decoder = codecs.getincrementaldecoder("utf-16-be" if big_endian else "utf-16-le")(errors="replace")
        text = decoder.decode(first).removeprefix("\ufeff")
        yield text.encode("utf-8", "replace")
        for chunk in chunks:
            yield decoder.decode(chunk).encode("utf-8", "replace")
        yield decoder.decode(b"", final=True).encode("utf-8", "replace")
        return
    yield first
    yield from chunks
