"""Training sets row by row: the columns that tell a prompt, and the same file with some of its rows."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpo_rl.errors import DataError, UsageError


@dataclass(frozen=True)
class TrainingSet:
    """A file of prompts: JSON lines as TRL reads them, or parquet as TRL and verl do."""

    path: Path
    kind: str
    """ "json" or "parquet"."""
    columns: tuple[str, ...]
    """Top-level names: of the schema, or of the first row."""
    n_rows: int


def open_training_set(path: Path) -> TrainingSet:
    """Look at a training set.

    Raises:
        UsageError: There is no such file.
        DataError: It is neither JSON lines nor parquet, or holds no row.
    """
    if not path.is_file():
        raise UsageError(f"{path}: no such file")
    with _reading(path), path.open("rb") as stream:
        head = stream.read(4)
    if head == b"PAR1":
        file = _parquet(path)
        found = TrainingSet(path, "parquet", tuple(file.schema_arrow.names), file.metadata.num_rows)
    else:
        n_rows, columns = 0, tuple[str, ...]()
        for row in _json_rows(path):
            columns = columns or tuple(row)
            n_rows += 1
        found = TrainingSet(path, "json", columns, n_rows)
    if not found.n_rows:
        raise DataError(f"{path}: the data set holds no row")
    return found


def column_values(data: TrainingSet, column: str) -> list[Any]:
    """Values of a column, None where a row has none.

    Args:
        data: The data set.
        column: A name, or names of nested fields with dots between them: "extra_info.index".

    Raises:
        DataError: No row has such a value.
    """
    names = [column] if column in data.columns else column.split(".")
    if data.kind == "parquet":
        if names[0] not in data.columns:
            raise _no_column(data, column)
        values = [
            _nested({names[0]: value}, names)
            for batch in _parquet(data.path).iter_batches(columns=[names[0]])
            for value in batch.column(0).to_pylist()
        ]
    else:
        values = [_nested(row, names) for row in _json_rows(data.path)]
    if all(value is None for value in values):
        raise _no_column(data, column)
    return values


def write_kept(data: TrainingSet, kept: Sequence[bool], out: Path) -> None:
    """Write the rows that are kept to a new file of the same kind, in their order and as they were.

    Lines of JSON stay byte for byte. Parquet keeps its schema with all metadata, its compression, and its row groups
    less those of which no row is left. The file appears whole or not at all.

    Args:
        data: The data set.
        kept: Whether each row is kept. Length `data.n_rows`.
        out: Path of the new file; one that is there is replaced.

    Raises:
        UsageError: `out` is the data set itself, has the ending of another kind, or no folder.
        DataError: No row is kept, or the file cannot be read or written.
    """
    check_out(data, out)
    if not any(kept):
        raise DataError(f"{data.path}: no row is kept, and an empty data set trains nothing; widen --band")
    part = out.with_name(f".{out.name}.part")
    try:
        if data.kind == "parquet":
            _write_parquet(data.path, kept, part)
        else:
            with part.open("wb") as stream:
                for line, is_kept in zip(_lines(data.path), kept, strict=True):
                    if is_kept:
                        stream.write(line + b"\n")
        part.replace(out)
    except OSError as error:
        raise DataError(f"{out}: cannot be written ({error.strerror or error})") from error
    finally:
        part.unlink(missing_ok=True)


def check_out(data: TrainingSet, out: Path) -> None:
    """Raise UsageError unless a filtered copy of the data set can go there."""
    if out.exists() and out.samefile(data.path):
        raise UsageError(f"{out}: is the data set itself; name another file")
    if not out.parent.is_dir():
        raise UsageError(f"{out.parent}: no such folder")
    if (out.suffix == ".parquet") != (data.kind == "parquet"):
        kind = "parquet" if data.kind == "parquet" else "JSON lines"
        raise UsageError(f"{out}: {data.path.name} is {kind} and stays it; name a file that ends so")


def _write_parquet(path: Path, kept: Sequence[bool], part: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    source = _parquet(path)
    codec = source.metadata.row_group(0).column(0).compression.lower()
    compression = "none" if codec == "uncompressed" else codec
    with pq.ParquetWriter(part, source.schema_arrow, compression=compression) as writer:
        start = 0
        for number in range(source.num_row_groups):
            n_rows = source.metadata.row_group(number).num_rows
            mask = kept[start : start + n_rows]
            start += n_rows
            if any(mask):
                writer.write_table(source.read_row_group(number).filter(pa.array(list(mask))), row_group_size=n_rows)


def _parquet(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: cannot be read as parquet ({str(error).splitlines()[0]})") from error


def _json_rows(path: Path) -> Iterator[dict[str, Any]]:
    for place, line in enumerate(_lines(path), start=1):
        try:
            row = json.loads(line.decode("utf-8-sig"))
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"{path}: row {place} is no JSON ({error}); expected JSON lines, one object for each prompt, or parquet"
            ) from error
        if not isinstance(row, dict):
            raise DataError(
                f"{path}: row {place} is no JSON object but {type(row).__name__}; expected one for each prompt"
            )
        yield row


def _lines(path: Path) -> Iterator[bytes]:
    """Lines that are not blank, without their end."""
    with _reading(path), path.open("rb") as stream:
        for line in stream:
            if line.strip():
                yield line.rstrip(b"\n")


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turns what the system says of a file into our error."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error


def _nested(row: Any, names: Sequence[str]) -> Any:
    for name in names:
        row = row.get(name) if isinstance(row, dict) else None
    return row


def _no_column(data: TrainingSet, column: str) -> DataError:
    return DataError(
        f"{data.path}: no row has a value of {column!r} (columns: {', '.join(data.columns[:12])}); name the one that "
        "tells the prompt with --dataset-column"
    )
