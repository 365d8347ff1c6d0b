"""Files of a log as blocks of columns: only the columns asked for, a megabyte or so at a time, broken rows counted."""

import csv
import io
import itertools
import json
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from corpo_rl.errors import DataError
from corpo_rl.rollouts.columns import NO_FIELD, Values, as_list
from corpo_rl.rollouts.files import BROKEN, Findings, LogFile, line_blocks

PARQUET_ROWS = 1 << 20
CSV_ROWS = 10_000

Explode = Callable[[dict[str, Any]], list[dict[str, Any]]]

RECORD = dict[str, Any]
"""The type that decodes a line whole. One object for all: dict[str, Any] is another one each time it is written."""

UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError)
"""What an `explode` may raise on a record it cannot read."""


@dataclass(frozen=True)
class ColumnBlock:
    """Rows of a file, as columns."""

    columns: Mapping[str, Values]
    """Values of each column asked for; `NO_FIELD` where a row lacks it."""
    row_B: NDArray[np.int64]  # noqa: N815
    """Line or row of each in the file. Shape [B]."""
    n_bytes: int
    """Bytes of the file read so far."""
    part_B: NDArray[np.int32] | None = None  # noqa: N815
    """Place among the rows of its line, where a line holds several. Shape [B]."""


def scan(file: LogFile, columns: Sequence[str], findings: Findings) -> Iterator[ColumnBlock]:
    """Blocks of a file.

    Args:
        file: What to read.
        columns: Columns wanted; those a file lacks come as `NO_FIELD` throughout.
        findings: Takes what is broken.

    Raises:
        DataError: The file cannot be read at all.
    """
    if file.kind == "parquet":
        return _scan_parquet(file, columns)
    if file.kind == "csv":
        return _scan_csv(file, columns, findings)
    return _scan_json(file, columns, findings)


def scan_exploded(
    file: LogFile, columns: Sequence[str], fields: Sequence[str], explode: Explode, findings: Findings
) -> Iterator[ColumnBlock]:
    """Blocks of a file each of whose lines is a record of several rows.

    Args:
        file: What to read.
        columns: Columns of the rows that are wanted.
        fields: Top-level fields of a record that `explode` looks at; none for all.
        explode: From a record to its rows.
        findings: Takes what is broken.
    """
    for records, lines, n_bytes in _records(file, fields, findings):
        rows: list[dict[str, Any]] = []
        row_B: list[int] = []
        part_B: list[int] = []
        for record, line in zip(records, lines, strict=True):
            try:
                exploded = explode(record)
            except UNREADABLE as error:
                _broken(file, line, f"a record of another form ({type(error).__name__}: {error})", findings)
                continue
            rows += exploded
            row_B += [line] * len(exploded)
            part_B += range(len(exploded))
        found = {name: [row.get(name, NO_FIELD) for row in rows] for name in columns}
        yield ColumnBlock(found, np.array(row_B, dtype=np.int64), n_bytes, np.array(part_B, dtype=np.int32))


def _records(
    file: LogFile, fields: Sequence[str], findings: Findings
) -> Iterator[tuple[list[dict[str, Any]], list[int], int]]:
    """Records of a file with their lines."""
    if file.kind == "json" and not fields:
        yield from _json_rows(file, RECORD, findings)
        return
    names = list(fields) if fields else parquet_columns(file) if file.kind == "parquet" else []
    for block in scan(file, names, findings):
        columns = {name: as_list(values) for name, values in block.columns.items()}
        records = [
            {name: values[place] for name, values in columns.items() if values[place] is not NO_FIELD}
            for place in range(len(block.row_B))
        ]
        yield records, block.row_B.tolist(), block.n_bytes


def _scan_json(file: LogFile, columns: Sequence[str], findings: Findings) -> Iterator[ColumnBlock]:
    if not all(_may_name_a_field(name) for name in columns):
        for records, lines, n_bytes in _json_rows(file, RECORD, findings):
            values = {name: [record.get(name, NO_FIELD) for record in records] for name in columns}
            yield ColumnBlock(values, np.asarray(lines, dtype=np.int64), n_bytes)
        return
    row_type = msgspec.defstruct(
        "Row",
        [(f"c{place}", Any, msgspec.field(default=NO_FIELD, name=name)) for place, name in enumerate(columns)],
        gc=False,
    )
    names = [f"c{place}" for place in range(len(columns))]
    for rows, lines, n_bytes in _json_rows(file, row_type, findings):
        found: dict[str, Values] = {
            column: list(map(operator.attrgetter(name), rows)) for column, name in zip(columns, names, strict=True)
        }
        yield ColumnBlock(found, np.asarray(lines, dtype=np.int64), n_bytes)


def _may_name_a_field(name: str) -> bool:
    """Whether msgspec takes the name for a field: no quote, backslash, control character or half a surrogate pair."""
    return not any(char < " " or char in '"\\' or "\ud800" <= char <= "\udfff" for char in name)


def _json_rows(file: LogFile, row_type: Any, findings: Findings) -> Iterator[tuple[list[Any], Any, int]]:
    """Decoded rows with their lines."""
    decoder = msgspec.json.Decoder(row_type)
    line = 1
    for block, n_bytes in line_blocks(file, findings):
        if line == 1 and block.lstrip()[:1] == b"[":
            yield from _json_array(file, row_type, findings)
            return
        if line == 1 and block.split(b"\n", 1)[0].strip() == b"{" and (row := _object_over_lines(file, row_type)):
            yield [row], [1], file.n_bytes
            return
        # a third of the time of block.count(b"\n")
        n_newlines = int(np.count_nonzero(np.frombuffer(block, dtype=np.uint8) == ord("\n")))
        n_lines = n_newlines + (not block.endswith(b"\n"))
        try:
            rows = decoder.decode_lines(block)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            rows = []
        if len(rows) == n_lines:
            yield rows, np.arange(line, line + n_lines), n_bytes
        else:  # a blank or a broken line among them
            yield *_each_line(file, block, line, decoder, row_type, findings), n_bytes
        line += n_lines


def json_head(file: LogFile, n: int) -> list[dict[str, Any]]:
    """The first rows of a file of JSON lines, broken ones left out."""
    for rows, _, _ in _json_rows(file, RECORD, Findings()):
        if rows:
            head: list[dict[str, Any]] = rows[:n]
            return head
    return []


def _each_line(
    file: LogFile, block: bytes, first: int, decoder: Any, row_type: Any, findings: Findings
) -> tuple[list[Any], list[int]]:
    rows, lines = [], []
    for line, text in enumerate(block.split(b"\n"), start=first):
        if not text.strip():
            continue
        try:
            rows.append(decoder.decode(text))
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            row = _by_the_standard_library(text, row_type)
            if row is None:
                _broken(file, line, f"not a JSON object ({_first_words(error)})", findings)
                continue
            rows.append(row)
        lines.append(line)
    return rows, lines


def _by_the_standard_library(text: bytes, row_type: Any) -> Any:
    """The row of a line with NaN or Infinity in it, which Python writes and no standard allows; None for no row."""
    try:
        loaded = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(loaded, dict):
        return None
    return loaded if row_type is RECORD else _struct(loaded, row_type)


def _struct(loaded: dict[str, Any], row_type: Any) -> Any:
    return row_type(*(loaded.get(name, NO_FIELD) for name in row_type.__struct_encode_fields__))


def _json_array(file: LogFile, row_type: Any, findings: Findings) -> Iterator[tuple[list[Any], list[int], int]]:
    """A file that is one array of objects; the "line" of an object is its place, from 1."""
    text = b"".join(block for block, _ in line_blocks(file, Findings()))
    try:
        loaded = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{file.name}:1: starts as a JSON array and is none ({_first_words(error)}); write one object a line"
        ) from error
    if not all(isinstance(row, dict) for row in loaded):
        raise DataError(f"{file.name}:1: expected an array of objects, one for each row, found other values in it")
    findings.note("a JSON array was read whole; places are numbers of objects")
    rows = loaded if row_type is RECORD else [_struct(row, row_type) for row in loaded]
    yield rows, list(range(1, len(rows) + 1)), file.n_bytes


def _object_over_lines(file: LogFile, row_type: Any) -> Any:
    """The row of a file that is one object written over many lines; None for any other."""
    return _by_the_standard_library(b"".join(block for block, _ in line_blocks(file, Findings())), row_type)


def _scan_csv(file: LogFile, columns: Sequence[str], findings: Findings) -> Iterator[ColumnBlock]:
    rows = csv_rows(file, findings)
    header = next(rows, (0, [], 0))[1]
    place_of = csv_places(file, header, columns)
    while True:
        batch = list(itertools.islice(rows, CSV_ROWS))
        if not batch:
            return
        kept = []
        for line, cells, _ in batch:
            if len(cells) == len(header):
                kept.append((line, cells))
            else:
                _broken(file, line, f"expected {len(header)} cells as in the header, found {len(cells)}", findings)
        found: dict[str, Values] = {
            name: [NO_FIELD] * len(kept) if place is None else [cell_value(cells[place]) for _, cells in kept]
            for name, place in place_of.items()
        }
        yield ColumnBlock(found, np.array([line for line, _ in kept], dtype=np.int64), batch[-1][2])


def csv_rows(file: LogFile, findings: Findings) -> Iterator[tuple[int, list[str], int]]:
    """Rows of a CSV file as text with the line each ends on, the header first; blank ones are left out.

    The delimiter is the one of comma, semicolon and tab that the header has most of.
    """
    csv.field_size_limit(1 << 28)
    n_bytes = 0

    def lines() -> Iterator[str]:
        nonlocal n_bytes
        for block, n_bytes in line_blocks(file, findings):  # noqa: B007
            yield from io.StringIO(block.decode("utf-8", "replace"), newline="")

    text = lines()
    first = next(text, "")
    delimiter = max(",;\t", key=first.count)
    reader = csv.reader(itertools.chain([first], text), delimiter=delimiter)
    try:
        for cells in reader:
            if cells:
                yield reader.line_num, cells, n_bytes
    except csv.Error as error:
        raise DataError(f"{file.name}:{reader.line_num}: not CSV ({error})") from error


def csv_places(file: LogFile, header: Sequence[str], columns: Sequence[str]) -> dict[str, int | None]:
    """Place of each wanted column in the header; None where it lacks.

    Raises:
        DataError: A wanted column is there twice.
    """
    for name in columns:
        if header.count(name) > 1:
            raise DataError(f"{file.name}:1: column {name!r} is there {header.count(name)} times; rename all but one")
    return {name: header.index(name) if name in header else None for name in columns}


def cell_value(text: str) -> Any:
    """What a cell of a CSV file says: a number, true or false, nothing, or its text.

    Example:
        >>> [cell_value(text) for text in ("0.5", "7", "true", "", "null", "good", "1_0")]
        [0.5, 7, True, None, None, 'good', '1_0']
    """
    word = text.strip()
    if word.lower() in ("", "null", "none", "na", "n/a"):
        return None
    if word.lower() in ("true", "false"):
        return word.lower() == "true"
    if "_" in word:
        return text
    try:
        return int(word) if word.lstrip("+-").isdecimal() and len(word) < 400 else float(word)
    except ValueError:
        return text


def _scan_parquet(file: LogFile, columns: Sequence[str]) -> Iterator[ColumnBlock]:
    import pyarrow as pa

    parquet = _open_parquet(file)
    there = [name for name in columns if name in parquet.schema_arrow.names]
    texts = [name for name in there if pa.types.is_string(parquet.schema_arrow.field(name).type)]
    if texts:  # as keys: each different text once, as the file mostly holds them
        parquet = _open_parquet(file, read_dictionary=texts)
    row, n_rows = 0, max(parquet.metadata.num_rows, 1)
    try:
        for batch in parquet.iter_batches(batch_size=PARQUET_ROWS, columns=there):
            n = batch.num_rows
            found: dict[str, Values] = {
                name: batch.column(there.index(name)) if name in there else [NO_FIELD] * n for name in columns
            }
            yield ColumnBlock(found, np.arange(row, row + n), file.n_bytes * (row + n) // n_rows)
            row += n
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise DataError(f"{file.name}: row {row} and on: not readable parquet ({_first_words(error)})") from error


def _open_parquet(file: LogFile, *, read_dictionary: list[str] | None = None) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        parquet = pq.ParquetFile(file.path, read_dictionary=read_dictionary)
        names = parquet.schema_arrow.names
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise DataError(f"{file.name}: not readable parquet ({_first_words(error)}); is it complete?") from error
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"{file.name}: column {twice[0]!r} is there {names.count(twice[0])} times; rename all but one")
    return parquet


def parquet_columns(file: LogFile) -> list[str]:
    """Names of the columns of a parquet file."""
    names: list[str] = _open_parquet(file).schema_arrow.names
    return names


def parquet_head(file: LogFile, n: int) -> list[dict[str, Any]]:
    """The first rows of a parquet file."""
    import pyarrow as pa

    parquet = _open_parquet(file)
    try:
        for batch in parquet.iter_batches(batch_size=n):
            rows: list[dict[str, Any]] = batch.to_pylist()
            return rows
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise DataError(f"{file.name}: not readable parquet ({_first_words(error)})") from error
    return []


def _broken(file: LogFile, line: int, why: str, findings: Findings) -> None:
    findings.n_rows += 1
    findings.drop(BROKEN)
    findings.problem(f"{file.name}:{line}: {why}")


def _first_words(error: BaseException) -> str:
    return " ".join(str(error).split())[:160] or type(error).__name__
