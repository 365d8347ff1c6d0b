"""Broken and odd logs from valid ones: every mutation is drawn from a `random.Random`, so a seed tells all."""

import bz2
import csv
import gzip
import io
import json
import lzma
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

STRANGE_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -0.0, 1, -1, 0.5, 1e308, -1e308, 5e-324, 1e-9, 2**53 + 1, 2**63, -(2**63), 2**64, 10**30,
    10**400, float("nan"), float("inf"), float("-inf"), "", " ", "0.5", "nan", "1e999", "true", "null", "0x10", "1_0",
    "\0", "\ud800", "\u2028", "\u202e<script>alert(1)</script>", "a\nb\r\nc", "é" * 40, "x" * 5000, [], {}, [1.0], [[]],
    [None, 0.5], {"": None}, {"reward": 1.0}, {"score": [0.5]}, [{"role": "user", "content": "hi"}], "train", "eval",
)  # fmt: skip

STRANGE_NAMES = (
    "", " ", "reward", "rewards", "score", "advantage", "step", "prompt", "prompt_id", "uid", "group", "completion",
    "acc", "correct", "length", "a\nb", "a\u2028b", "\0", "<b>", "|", "é", "\ud800", "x" * 300, "reward ", "Reward",
    "corpo_group", "corpo_reward", "corpo_split", "split", "trajectory", "items", "__class__", "c0", "self",
)  # fmt: skip

TOKENS = (
    b"NaN", b"Infinity", b"-Infinity", b"null", b"true", b"1e999", b"-0", b"9" * 400, b"\0", b"\xef\xbb\xbf",
    b"\xff\xfe", b'"', b"'", b"{", b"}", b"[", b"]", b"[" * 2000, b'{"a":' * 500, b",", b":", b"\n", b"\r\n", b"\r",
    b"\n\n\n", b"\t", b";", b"\\", b"\\ud800", b"\xed\xa0\x80", b"\xff", b"\x1a", b"PAR1", b"\x1f\x8b\x08",
    b"version https://git-lfs",
    b"-", b"e", b"0" * 50,
)  # fmt: skip

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lambda data: lzma.compress(data, preset=0),
    ".zst": lambda data: pa.Codec("zstd").compress(data, asbytes=True),
}


def mutate(kind: str, data: bytes, rng: random.Random) -> bytes:
    """The bytes of a log of a kind ("json", "csv" or "parquet") after a few mutations, some of form, some of bytes."""
    of_form = {"json": mutate_json, "csv": mutate_csv, "parquet": mutate_parquet}[kind]
    for _ in range(rng.choice([0, 1, 1, 2, 4])):
        data = of_form(data, rng)
    for _ in range(rng.choice([0, 0, 0, 1, 1, 3])):
        data = rng.choice(BYTES)(data, rng)
    return data


def packed(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    """The bytes as they are, compressed, or decoded otherwise, and what that adds to the name of the file."""
    draw = rng.random()
    if draw < 0.75:
        return data, ""
    if draw < 0.85:
        encoding = rng.choice(["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig", "utf-32"])
        return data.decode("utf-8", "replace").encode(encoding), ""
    suffix = rng.choice(list(PACKERS))
    data = PACKERS[suffix](data)
    if rng.random() < 0.4:
        data = rng.choice(BYTES)(data, rng)
    return data, suffix if rng.random() < 0.9 else rng.choice(list(PACKERS))


def flip_bits(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice([1, 2, 8, 64]) if changed else 0):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def drop_start(data: bytes, rng: random.Random) -> bytes:
    return data[rng.randrange(len(data) + 1) :]


def splice(data: bytes, rng: random.Random) -> bytes:
    """Copy a piece to another place, over what is there or in between, or take it out."""
    first, last = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    last = min(last, first + rng.choice([4, 64, 4096]))
    at = rng.randrange(len(data) + 1)
    piece = data[first:last]
    return rng.choice(
        [data[:at] + piece + data[at:], data[:at] + piece + data[at + len(piece) :], data[:first] + data[last:]]
    )


def insert_token(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(TOKENS) + data[at + rng.choice([0, 0, 1, 8]) :]


BYTES: tuple[Callable[[bytes, random.Random], bytes], ...] = (flip_bits, cut, drop_start, splice, insert_token)


def mutate_json(data: bytes, rng: random.Random) -> bytes:
    """Change values, names and lines of a file of JSON lines; one line, some or all."""
    lines = data.split(b"\n")
    if rng.random() < 0.2:
        return _mutate_lines(lines, rng)
    change = rng.choice([_swap_value, _swap_value, _rename, _remove, _wrap, _write_as])
    seed = rng.random()
    some = rng.choice([1, 1, max(len(lines) // 4, 1), len(lines)])
    for place in rng.sample(range(len(lines)), min(some, len(lines))):
        try:
            record = json.loads(lines[place])
        except (ValueError, RecursionError):
            continue
        # the same change in every line, as a framework that writes another form would have it
        changed = change(record, random.Random(seed) if some > 1 and rng.random() < 0.7 else rng)
        lines[place] = changed if isinstance(changed, bytes) else _dumped(changed)
    return b"\n".join(lines)


def _mutate_lines(lines: list[bytes], rng: random.Random) -> bytes:
    how = rng.randrange(6)
    if how == 0:
        rng.shuffle(lines)
    elif how == 1:
        lines = lines[: rng.randrange(3)]
    elif how == 2:
        lines.insert(
            rng.randrange(len(lines) + 1), rng.choice([b"", b"   ", b"null", b"[]", b"{}", b"3", b'"x"', b"{"])
        )
    elif how == 3:
        lines = [b"[" + b",".join(line for line in lines if line) + rng.choice([b"]", b"", b",]"])]
    elif how == 4:
        lines += rng.choices(lines, k=5)
    else:
        return rng.choice([b"\r\n", b"\n\n", b" ", b"\r", b"\x0b"]).join(lines)
    return b"\n".join(lines)


def _dumped(record: Any) -> bytes:
    return json.dumps(record, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _places(value: Any, depth: int = 0) -> list[tuple[Any, Any]]:
    """Containers of a record with the keys in them."""
    if depth > 4 or not isinstance(value, dict | list):
        return []
    keys = list(value) if isinstance(value, dict) else list(range(min(len(value), 4)))
    found = [(value, key) for key in keys]
    for key in keys:
        found += _places(value[key], depth + 1)
    return found


def _swap_value(record: Any, rng: random.Random) -> Any:
    places = _places(record)
    if not places:
        return rng.choice(STRANGE_VALUES)
    container, key = rng.choice(places if rng.random() < 0.5 else places[: max(len(record), 1)])
    container[key] = rng.choice(STRANGE_VALUES)
    return record


def _rename(record: Any, rng: random.Random) -> Any:
    if isinstance(record, dict) and record:
        name = rng.choice(list(record))
        renamed = rng.choice(STRANGE_NAMES)
        return {renamed if key == name else key: value for key, value in record.items()}
    return record


def _remove(record: Any, rng: random.Random) -> Any:
    places = [(container, key) for container, key in _places(record) if isinstance(container, dict)]
    if places:
        container, key = rng.choice(places)
        del container[key]
    return record


def _wrap(record: Any, rng: random.Random) -> Any:
    places = _places(record)
    if places and rng.random() < 0.8:
        container, key = rng.choice(places)
        container[key] = rng.choice([[container[key]], {"value": container[key]}, str(container[key])])
        return record
    return rng.choice([[record], {"data": record}, [record, record]])


def _write_as(record: Any, rng: random.Random) -> bytes:
    """The record with a key twice, or written in another legal or nearly legal way."""
    text = _dumped(record)
    if isinstance(record, dict) and record and rng.random() < 0.5:
        name = json.dumps(rng.choice(list(record))).encode()
        return text[:-1] + b", " + name + b": " + _dumped(rng.choice(STRANGE_VALUES)) + b"}"
    return rng.choice(
        [text + b",", text.replace(b" ", b""), b"  " + text + b"\t", text.replace(b'"', b"'"), text + text]
    )


def mutate_csv(data: bytes, rng: random.Random) -> bytes:
    """Change cells, the header, the number of cells of a row, or the delimiter."""
    try:
        rows = list(csv.reader(io.StringIO(data.decode("utf-8", "replace"), newline="")))
    except csv.Error:
        return data
    rows = [row for row in rows if row] or [[""]]
    how = rng.randrange(6)
    if how == 0:
        rows[0][rng.randrange(len(rows[0]))] = rng.choice(STRANGE_NAMES).replace("\ud800", "?")
    elif how == 1:
        for row in rng.choices(rows, k=rng.choice([1, 10])):
            row[rng.randrange(len(row))] = str(rng.choice(STRANGE_VALUES)).replace("\ud800", "?")
    elif how == 2:
        row = rng.choice(rows)
        del row[rng.randrange(len(row)) :]
    elif how == 3:
        rng.choice(rows).append("more")
    elif how == 4:
        place = rng.randrange(len(rows[0]))
        value = str(rng.choice(STRANGE_VALUES)).replace("\ud800", "?")
        rows = [rows[0]] + [[value if at == place else cell for at, cell in enumerate(row)] for row in rows[1:]]
    else:
        rows = rows[rng.randrange(2) :]
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=rng.choice([",", ",", ",", ";", "\t", "|"])).writerows(rows)
    return text.getvalue().encode("utf-8", "replace")


def mutate_parquet(data: bytes, rng: random.Random) -> bytes:
    """Change a column's type, values or name, the rows, or the way the file is written."""
    try:
        table = pq.read_table(io.BytesIO(data))
        return _rewritten(table, rng)
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, OverflowError):
        return data


def _rewritten(table: pa.Table, rng: random.Random) -> bytes:
    place = rng.randrange(max(table.num_columns, 1))
    name = table.column_names[place]
    how = rng.randrange(7)
    if how == 0:
        table = table.set_column(place, name, _retyped(table.column(place), rng))
    elif how == 1:
        values = table.column(place).to_pylist()
        for _ in range(rng.choice([1, 10, len(values)])):
            values[rng.randrange(len(values))] = rng.choice([None, float("nan"), float("inf"), 1e308, -1.0, 0.1])
        table = table.set_column(place, name, pa.array(values, type=table.column(place).type))
    elif how == 2:
        names = list(table.column_names)
        names[place] = rng.choice(STRANGE_NAMES).replace("\ud800", "?")
        table = table.rename_columns(names)
    elif how == 3:
        table = table.remove_column(place)
    elif how == 4:
        table = table.slice(rng.randrange(table.num_rows + 1), rng.choice([0, 1, 7, 1000]))
    elif how == 5:
        table = table.append_column(rng.choice(STRANGE_NAMES).replace("\ud800", "?"), table.column(place))
    else:
        table = pa.concat_tables([table, table.slice(0, rng.randrange(table.num_rows + 1))])
    out = io.BytesIO()
    pq.write_table(
        table,
        out,
        row_group_size=rng.choice([1, 7, 64, 1 << 20]),
        compression=rng.choice(["none", "snappy", "gzip", "zstd"]),
        version=rng.choice(["1.0", "2.6"]),
        use_dictionary=rng.random() < 0.5,
    )
    return out.getvalue()


def _retyped(column: pa.ChunkedArray, rng: random.Random) -> pa.Array:
    n = len(column)
    whole = pa.array([rng.choice([0, 1, 2, 8]) for _ in range(n)])
    return rng.choice(
        [
            lambda: pa.nulls(n),
            lambda: pa.array([str(value) for value in column.to_pylist()]),
            lambda: pa.array([str(value) for value in column.to_pylist()]).dictionary_encode(),
            lambda: pa.array([str(value) for value in column.to_pylist()], type=pa.large_string()),
            lambda: pa.array([str(value).encode() for value in column.to_pylist()], type=pa.binary()),
            lambda: pa.array([[value] for value in column.to_pylist()]),
            lambda: pa.array([{"value": value} for value in column.to_pylist()]),
            lambda: whole.cast(pa.bool_()),
            lambda: whole.cast(rng.choice([pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.int32()])),
            lambda: whole.cast(rng.choice([pa.timestamp("us"), pa.date32(), pa.duration("s"), pa.decimal128(20, 3)])),
            lambda: pa.array([2**63 + value for value in range(n)], type=pa.uint64()),
            lambda: pa.array([[("k", 1)]] * n, type=pa.map_(pa.string(), pa.int64())),
        ]
    )()
