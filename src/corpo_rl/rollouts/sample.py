"""A first look at the files of a log: which columns they have, and what stands in them."""

import itertools
from collections.abc import Iterable
from typing import Any

from corpo_rl.rollouts.columns import NO_FIELD
from corpo_rl.rollouts.files import Findings, LogFile, line_blocks
from corpo_rl.rollouts.plan import Sample
from corpo_rl.rollouts.scan import cell_value, csv_rows, json_head, parquet_columns, parquet_head

N_ROWS = 50


def sample_file(file: LogFile) -> Sample | None:
    """The columns of one file with a first value each; None for a file without rows.

    Raises:
        DataError: The file cannot be read, or holds no rows of named columns.
    """
    if file.kind == "parquet":
        names, rows = parquet_columns(file), parquet_head(file, N_ROWS)
        return None if not rows else _sample(file, names, rows)
    if file.kind == "csv":
        lines = csv_rows(file, Findings())
        header = next(lines, None)
        if header is None:
            return None
        names = header[1]
        found = [
            dict(zip(names, map(cell_value, cells), strict=False)) for _, cells, _ in itertools.islice(lines, N_ROWS)
        ]
        return _sample(file, names, found) if found else None
    rows = json_head(file, N_ROWS)
    if not rows:
        return None if not any(block.strip() for block, _ in line_blocks(file, Findings())) else _sample(file, [], [])
    return _sample(file, list(dict.fromkeys(name for row in rows for name in row)), rows)


def _sample(file: LogFile, names: Iterable[str], rows: list[dict[str, Any]]) -> Sample:
    columns: dict[str, Any] = dict.fromkeys(names)
    numeric = set()
    for name in columns:
        values = [row[name] for row in rows if row.get(name) is not None and row[name] is not NO_FIELD]
        columns[name] = values[0] if values else None
        if values and sum(isinstance(value, int | float) for value in values) * 2 > len(values):
            numeric.add(name)
    return Sample(kind=file.kind, name=file.name, columns=columns, numeric=frozenset(numeric), asked_for=file.asked_for)


def merged(samples: list[Sample]) -> Sample:
    """All files' columns as if of one."""
    columns: dict[str, Any] = {}
    for sample in samples:
        for name, value in sample.columns.items():
            if columns.get(name) is None:
                columns[name] = value
    numeric = frozenset().union(*(sample.numeric for sample in samples))
    return Sample(kind=samples[0].kind, name=samples[0].name, columns=columns, numeric=numeric)
