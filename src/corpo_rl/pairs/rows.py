"""Rows of a data file, whatever its container: JSON Lines (also gzipped), a JSON array, or parquet."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from corpo_rl.errors import DataError
from corpo_rl.pairs.files import read_json_lines, shown


def read_rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Places ("file:line", or "file: row 3" from 0 where there are no lines) and rows, in file order.

    A `.parquet` file and a `.json` file with an array are told by their names, the rest is JSON Lines.

    Raises:
        DataError: The file cannot be read, or a row is not an object.
    """
    if path.suffix == ".parquet":
        yield from _parquet_rows(path)
    elif path.suffix == ".json" and _starts_array(path):
        yield from _array_rows(path)
    else:
        for line, row in read_json_lines(path):
            yield f"{path}:{line}", row


def _starts_array(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(64).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"["
    except OSError as error:
        raise DataError(f"{path}: could not be read ({error.strerror or error})") from error


def _array_rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        rows = json.loads(path.read_bytes().decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        raise DataError(f"{path}:{error.lineno}: expected a JSON array, found broken JSON ({error.msg})") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: expected UTF-8 text, found another encoding (byte {error.start})") from None
    except (ValueError, RecursionError):
        raise DataError(f"{path}: expected a JSON array, found one nested too deep or with too long a number") from None
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise DataError(f"{path}: row {number}: expected a JSON object, found {shown(row)}")
        yield f"{path}: row {number}", row


def _parquet_rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with pq.ParquetFile(path) as file:
            # few at a time: a row of CodeContests holds megabytes of tests
            for batch in file.iter_batches(batch_size=16):
                for row in batch.to_pylist():
                    yield f"{path}: row {number}", row
                    number += 1
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"{path}: could not be read as parquet ({reason})") from error
