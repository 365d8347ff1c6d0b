"""Pairs files: JSON Lines, one problem with two labelled answers a line.

Fields: `problem`, `answer_a`, `answer_b`, `label_a`, `label_b`, `domain`, `split`, and optionally `item_id` (the line
number when absent). Other fields are left alone.
"""

import dataclasses
import gzip
import hashlib
import json
import os
import re
import tempfile
import unicodedata
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any, Self, TextIO, cast

from corpo_rl.errors import DataError, UsageError
from corpo_rl.records import EVALUATION_SPLITS, TRAIN, VerifierItem

SPLITS = (TRAIN, *EVALUATION_SPLITS)

_TEXT_FIELDS = ("problem", "answer_a", "answer_b", "domain", "split")
_FIELDS = ("problem", "answer_a", "answer_b", "label_a", "label_b", "domain", "split")
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"


def read_pairs(path: Path) -> list[VerifierItem]:
    """Items of a pairs file, in file order.

    Strict, because a bad row would bend a comparison unseen: besides broken rows it refuses a problem that occurs in
    two splits (it would leak), a row that repeats another, and labels that do not fit the split. Labels are the
    numbers 0 and 1; true and false are refused. A UTF-8 byte order mark and blank lines are skipped.

    Args:
        path: The file.

    Returns:
        At least one item.

    Raises:
        DataError: As above, naming `path:line`, what was expected and what was found.
    """
    items: list[VerifierItem] = []
    line_of_id: dict[tuple[str, str], int] = {}
    line_of_text: dict[tuple[str, str, str], int] = {}
    split_of_problem: dict[str, tuple[str, int]] = {}
    for line, row in read_json_lines(path):
        where = f"{path}:{line}"
        item = _item(row, line=line, where=where)
        first = line_of_id.setdefault((item.split, item.item_id), line)
        if first != line:
            raise DataError(f"{where}: item_id {item.item_id!r} is already used in line {first}; make ids unique")
        first = line_of_text.setdefault((item.problem, item.answer_a, item.answer_b), line)
        if first != line:
            raise DataError(f"{where}: same problem and answers as line {first}; remove one of the two")
        split, first = split_of_problem.setdefault(normalised(item.problem), (item.split, line))
        if split != item.split:
            raise DataError(
                f"{where}: this problem is in split {item.split!r} and, in line {first}, in split {split!r}; "
                "keep all pairs of a problem in one split"
            )
        items.append(item)
    if not items:
        raise DataError(f"{path}: expected one pair a line, found no row; is this the right file?")
    return items


def write_pairs(path: Path, items: Iterable[VerifierItem], *, force: bool = False) -> None:
    """Write items as a pairs file, whole or not at all: a temporary file beside it is renamed when complete.

    Args:
        path: File to write; its folder is made when absent.
        items: Rows. Fields that a subclass of `VerifierItem` adds are written too.
        force: Replace a file that exists.

    Raises:
        UsageError: The file exists and `force` is off.
        DataError: The file cannot be written (no space, no permission); an older file is then as it was.
    """
    if path.exists() and not force:
        raise UsageError(f"{path}: this file exists; name another or replace it with --force")
    with written_whole(path) as file:
        for item in items:
            file.write(json.dumps(dataclasses.asdict(item), ensure_ascii=False) + "\n")


@contextmanager
def written_whole(path: Path) -> Iterator[TextIO]:
    """A text file to write that takes its place only when the block ends well; its folder is made when absent.

    Raises:
        DataError: It cannot be written (no space, no permission); an older file is then as it was.
    """
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as file:
            temporary = Path(file.name)
            yield cast(TextIO, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)  # mkstemp makes files that only their owner reads
        temporary.replace(path)
    except OSError as error:
        raise _unwritable(path, error) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


class Appended:
    """A JSON Lines file that rows are added to, each on disk before the next: what a killed job leaves is usable.

    Raises:
        DataError: It cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = path.open("a", encoding="utf-8")
        except OSError as error:
            raise _unwritable(path, error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, row: Mapping[str, Any]) -> None:
        """Add a row."""
        try:
            self._file.write(json.dumps(row) + "\n")
            self._file.flush()
        except OSError as error:
            raise _unwritable(self._path, error) from error


def _unwritable(path: Path, error: OSError) -> DataError:
    return DataError(f"{path}: could not be written ({error.strerror or error}); free space or name another")


def read_json_lines(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Line numbers from 1 and objects of a JSON Lines file, plain or compressed with gzip, read line by line.

    Raises:
        DataError: The file cannot be read, is a Git LFS pointer, is not UTF-8, or a line is not a JSON object.
    """
    try:
        with _opened(path) as file:
            for line, raw in enumerate(file, start=1):
                if line == 1:
                    if raw.startswith(_LFS_POINTER):
                        raise DataError(f"{path}:1: a Git LFS pointer, not the data itself; run: git lfs pull")
                    raw = raw.removeprefix(b"\xef\xbb\xbf")
                if raw.strip():
                    yield line, _json_object(raw, where=f"{path}:{line}")
    except OSError as error:
        raise DataError(f"{path}: could not be read ({error.strerror or error})") from error
    except (EOFError, zlib.error) as error:
        raise DataError(f"{path}: could not be read ({error}); is the compressed file complete?") from error


def normalised(text: str) -> str:
    """The words of a text, without case, accents' encoding, punctuation and spacing: equal for trivial rewordings.

    Example:
        >>> normalised("How many  eggs, in total?") == normalised("how many eggs in total")
        True
        >>> normalised("3 eggs") == normalised("4 eggs")
        False
    """
    words = re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(words) or text


def text_field(row: Mapping[str, Any], name: str, *, where: str) -> str:
    """A field that must be text with something in it.

    Raises:
        DataError: It is absent, no string, blank, or holds half a surrogate pair, which no tokenizer takes.
    """
    if name not in row:
        raise DataError(f"{where}: no field {name!r} (fields: {', '.join(row) or 'none'})")
    value = row[name]
    if not isinstance(value, str) or not value.strip():
        raise DataError(f"{where}: {name}: expected text, found {shown(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise DataError(f"{where}: {name}: expected text, found half a surrogate pair in it (broken escape)") from None
    return value


def shown(value: Any) -> str:
    """A value as error messages show it: JSON, cut to stay on one line."""
    text = json.dumps(value, default=repr)  # parquet holds what JSON cannot say
    return text if len(text) <= 40 else text[:37] + "..."


def _opened(path: Path) -> gzip.GzipFile | BufferedReader:
    with path.open("rb") as file:
        compressed = file.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if compressed else path.open("rb")


def _json_object(raw: bytes, *, where: str) -> Mapping[str, Any]:
    try:
        row = json.loads(raw.decode())
    except UnicodeDecodeError as error:
        raise DataError(
            f"{where}: expected UTF-8 text, found byte 0x{raw[error.start]:02x}; save it as UTF-8"
        ) from None
    except json.JSONDecodeError as error:
        raise DataError(
            f"{where}: expected a JSON object, found broken JSON ({error.msg}, column {error.colno})"
        ) from None
    except (ValueError, RecursionError):
        raise DataError(
            f"{where}: expected a JSON object, found one nested too deep or with too long a number"
        ) from None
    if not isinstance(row, dict):
        raise DataError(f"{where}: expected a JSON object, found {shown(row)}")
    return row


def _item(row: Mapping[str, Any], *, line: int, where: str) -> VerifierItem:
    for name in _FIELDS:
        if name not in row:
            raise DataError(f"{where}: no field {name!r} (fields: {', '.join(row) or 'none'})")
    text = {name: text_field(row, name, where=where) for name in _TEXT_FIELDS}
    item_id = text_field(row, "item_id", where=where) if "item_id" in row else str(line)
    item = VerifierItem(
        item_id=item_id,
        label_a=_label(row, "label_a", where=where),
        label_b=_label(row, "label_b", where=where),
        **text,
    )
    if item.split not in SPLITS:
        raise DataError(f"{where}: split: expected one of {', '.join(SPLITS)}, found {shown(item.split)}")
    mixed = item.label_a != item.label_b
    if mixed == (item.split == "ood"):
        expected = "both right or both wrong" if item.split == "ood" else "one right and one wrong"
        raise DataError(
            f"{where}: split {item.split!r} takes pairs with {expected}, found labels {item.label_a} and {item.label_b}"
        )
    if mixed and item.answer_a.strip() == item.answer_b.strip():
        raise DataError(f"{where}: the two answers are the same text but one is labelled right and one wrong")
    return item


def _label(row: Mapping[str, Any], name: str, *, where: str) -> int:
    value = row[name]
    if type(value) is not int or value not in (0, 1):
        raise DataError(f"{where}: {name}: expected 0 or 1, found {shown(value)}")
    return value


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits.

    Raises:
        DataError: It cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path}: could not be read ({error.strerror or error})") from error
