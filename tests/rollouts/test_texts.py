"""Texts of chosen rows, out of whatever file holds them."""

import gzip
import json

import pyarrow as pa
import pytest

from corpo_rl.rollouts.read import read_with_texts
from corpo_rl.rollouts.texts import LONGEST
from tests.rollouts.logs import lines, table_rows, write, write_parquet

ROWS = table_rows()
CHOSEN = [15, 0, 6, 0]


def csv_text(rows):
    return "step,group_id,prompt,completion,reward\n" + "".join(
        f'{row["step"]},{row["group_id"]},"{row["prompt"]}","{row["completion"]}",{row["reward"]}\n' for row in rows
    )


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", lines(ROWS)),
        ("a.jsonl.gz", gzip.compress(lines(ROWS).encode(), mtime=0)),
        ("a.json", json.dumps(ROWS, indent=1)),
        ("a.csv", csv_text(ROWS)),
        ("a.csv.gz", gzip.compress(csv_text(ROWS).encode(), mtime=0)),
        ("a.jsonl", "\n\n{torn\n" + lines(ROWS).replace("\n", "\n\n")),
        ("a.jsonl", lines(ROWS).encode("utf-16")),
        ("a.parquet", None),
    ],
)
def test_texts_of_the_rows_asked_for_in_their_order(tmp_path, name, content):
    path = write_parquet(tmp_path / name, ROWS) if content is None else write(tmp_path / name, content)
    _, read_texts = read_with_texts([path])
    texts = read_texts(CHOSEN)
    assert [text.prompt for text in texts] == [ROWS[row]["prompt"] for row in CHOSEN]
    assert [text.completion for text in texts] == [ROWS[row]["completion"] for row in CHOSEN]
    assert read_texts([]) == []


def test_texts_out_of_several_files_after_rows_were_dropped(tmp_path):
    rows = [dict(row) for row in ROWS]
    rows[0]["group_id"] = None
    paths = [write(tmp_path / f"{n}.jsonl", rows[n * 8 : n * 8 + 8]) for n in range(2)]
    _, read_texts = read_with_texts(paths)
    assert [text.completion for text in read_texts([14, 0, 7])] == [rows[15]["completion"], rows[1]["completion"],
                                                                     rows[8]["completion"]]  # fmt: skip


def test_texts_of_parquet_rows_in_later_batches(tmp_path, monkeypatch):
    monkeypatch.setattr("corpo_rl.rollouts.scan.PARQUET_ROWS", 3)
    _, read_texts = read_with_texts([write_parquet(tmp_path / "a.parquet", ROWS)])
    assert [text.completion for text in read_texts(CHOSEN)] == [ROWS[row]["completion"] for row in CHOSEN]


def test_only_the_file_of_a_row_is_read_again(tmp_path):
    paths = [write(tmp_path / f"{n}.jsonl", ROWS[n * 8 : n * 8 + 8]) for n in range(2)]
    _, read_texts = read_with_texts(paths)
    paths[0].unlink()
    assert read_texts([15])[0].completion == ROWS[15]["completion"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, None),
        ("", ""),
        (7, "7"),
        ({"a": "\N{SNOWMAN}"}, '{"a": "\N{SNOWMAN}"}'),
        ([], "[]"),
        ([{"role": "user", "content": "x"}, {"content": [1]}], "user: x\n?: [1]"),
        ([{"text": "x"}], '[{"text": "x"}]'),
        ("y" * (LONGEST + 5), "y" * LONGEST),
    ],
)
def test_values_that_are_no_plain_text(tmp_path, value, shown):
    rows = [row | {"completion": value} for row in ROWS]
    _, read_texts = read_with_texts([write(tmp_path / "a.jsonl", rows)])
    assert read_texts([3])[0].completion == shown


def test_a_log_without_texts(tmp_path):
    rows = [{"group_id": row["group_id"], "reward": row["reward"]} for row in ROWS]
    _, read_texts = read_with_texts([write(tmp_path / "a.jsonl", rows)])
    (text,) = read_texts([2])
    assert (text.prompt, text.completion) == (None, None)


def test_chats_in_parquet_are_shown_as_those_in_lines(tmp_path):
    rows = [row | {"completion": [{"role": "assistant", "content": row["completion"]}]} for row in ROWS]
    pq_path = write_parquet(tmp_path / "a.parquet", rows)
    assert pa.parquet.read_schema(pq_path).field("completion").type.num_fields
    for path in (pq_path, write(tmp_path / "a.jsonl", rows)):
        _, read_texts = read_with_texts([path])
        assert read_texts([9])[0].completion == f"assistant: {ROWS[9]['completion']}"
