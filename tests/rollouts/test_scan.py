"""Broken lines, rows and tables: each counted with its place, or refused in one line."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpo_rl.errors import CorpoError, DataError, UsageError
from corpo_rl.rollouts.columns import NO_FIELD, as_list
from corpo_rl.rollouts.scan import parquet_columns, scan, scan_exploded
from tests.rollouts.logs import groups_of, lines, read, sizes, table_rows, the_file, write, write_parquet

ROWS = table_rows()
CSV = "step,group_id,reward\n" + "".join(f"{row['step']},{row['group_id']},{row['reward']}\n" for row in ROWS)


def scanned(path, columns):
    """Columns, places and findings of a file."""
    file, findings = the_file(path)
    blocks = list(scan(file, columns, findings))
    found = {name: [value for block in blocks for value in as_list(block.columns[name])] for name in columns}
    return found, [row for block in blocks for row in block.row_B.tolist()], findings


def test_json_lines_as_columns(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"a": 1, "b": null}\n{"b": [2], "c": "x"}\n')
    found, rows, _ = scanned(path, ["a", "b", "z"])
    assert found == {"a": [1, NO_FIELD], "b": [None, [2]], "z": [NO_FIELD, NO_FIELD]}
    assert rows == [1, 2]


def test_lines_keep_their_numbers_over_blocks_and_blank_lines(tmp_path, monkeypatch):
    monkeypatch.setattr("corpo_rl.rollouts.files._BLOCK", 64)
    text = "".join(f'{{"a": {n}}}\n' + "\n" * (n % 3) for n in range(200))
    found, rows, _ = scanned(write(tmp_path / "a.jsonl", text), ["a"])
    assert found["a"] == list(range(200))
    assert [json.loads(text.split("\n")[row - 1])["a"] for row in rows] == found["a"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"reward": 1', "not a JSON object"),
        ("[1, 2]", "not a JSON object"),
        ("7", "not a JSON object"),
        ('"text"', "not a JSON object"),
        ("null", "not a JSON object"),
        ("\0\0\0\0", "not a JSON object"),
        ('{"reward": ' + "[" * 100_000 + "]" * 100_000 + "}", "not a JSON object"),
        ('{"reward": 1, "x": "\\ud800"}', "not a JSON object"),
        ('{"reward": 1}{"reward": 2}', "not a JSON object"),
    ],
)
def test_a_broken_line_is_counted_with_its_place(tmp_path, line, why):
    text = lines(ROWS[:6]) + line + "\n" + lines(ROWS[6:])
    log = read(write(tmp_path / "a.jsonl", text))
    if "ud800" in line:  # half a character is read: only the text of the example is lost
        assert log.n_rows == 17
        return
    assert dict(log.dropped) == {"broken line": 1}
    assert log.n_rows == 17
    assert len(log.rewards_N) == 16
    (problem,) = log.problems
    assert problem.startswith(f"{tmp_path}/a.jsonl:7: {why}")
    assert len(problem) < 400


def test_bytes_that_are_no_text(tmp_path):
    data = lines(ROWS).encode() + b'{"reward": 1, "group_id": "g0", "completion": "\xff\xfe"}\n'
    log = read(write(tmp_path / "a.jsonl", data))
    assert len(log.rewards_N) + log.dropped.get("broken line", 0) == 17


@pytest.mark.parametrize(
    "write_all",
    [
        lambda rows: "[" + ",".join(map(json.dumps, rows)) + "]",
        lambda rows: "\n  " + json.dumps(rows, indent=2) + "\n",
        lambda rows: "\ufeff" + json.dumps(rows),
    ],
)
def test_an_array_of_objects_is_read(tmp_path, write_all):
    log = read(write(tmp_path / "a.json", write_all(ROWS)))
    assert groups_of(log) == groups_of(read(write(tmp_path / "b.jsonl", ROWS)))
    assert "a JSON array was read whole; places are numbers of objects" in log.notes


def test_an_object_over_many_lines_is_one_row(tmp_path):
    record = {"rewards": [0.0, 1.0], "step": 1, "prompt": "p"}
    log = read(write(tmp_path / "a.json", json.dumps(record, indent=2)))
    assert sizes(log) == {2: 1}
    assert not log.dropped
    log = read(write(tmp_path / "b.jsonl", "{\n" + lines([record])))
    assert sizes(log) == {2: 1}, "a torn first line is none"
    assert dict(log.dropped) == {"broken line": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" + '{"reward": 1},' * 3, r"a\.json:1: starts as a JSON array and is none \(.*write one object a line"),
        ("[" * 100_000, r"a\.json:1: starts as a JSON array and is none"),
        ("[1, 2]", r"a\.json:1: expected an array of objects, one for each row"),
        ('"text"', r"a\.json: no line is a JSON object; expected one for each rollout"),
        ("17", r"a\.json: no line is a JSON object"),
        ("{" * 50_000, r"a\.json: no line is a JSON object"),
        ("{\n" * 50_000, r"a\.json: no line is a JSON object"),
        ("\0" * 5000, r"a\.json: no line is a JSON object"),
        ("", r"a\.json: the log holds no row; nothing to audit"),
        ("\n \n\n", r"a\.json: the log holds no row; nothing to audit"),
        ("[]", r"a\.json: no line is a JSON object"),
    ],
)
def test_json_that_is_no_log_is_one_line(tmp_path, text, message):
    with pytest.raises(CorpoError, match=message) as caught:
        read(write(tmp_path / "a.json", text))
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_csv_dialects(tmp_path, line_end, delimiter):
    log = read(write(tmp_path / "a.csv", CSV.replace("\n", line_end).replace(",", delimiter)))
    assert groups_of(log) == groups_of(read(write(tmp_path / "b.jsonl", ROWS)))
    assert log.row_N.tolist() == list(range(2, 18))


def test_csv_with_line_ends_and_delimiters_within_quotes(tmp_path):
    text = 'group_id,completion,reward\n"a","x, ""y""\nz",1\n"a",plain,0\n\n"b\nb",,0.5\n"b\nb","",0.25\n'
    found, rows, _ = scanned(write(tmp_path / "a.csv", text), ["group_id", "completion", "reward"])
    assert found["completion"] == ['x, "y"\nz', "plain", None, None]
    assert found["reward"] == [1, 0, 0.5, 0.25]
    assert rows == [3, 4, 7, 9], "the line on which each row ends"


def test_ragged_csv_rows_are_counted_with_their_place(tmp_path):
    log = read(write(tmp_path / "a.csv", CSV + "9,g0\n9,g0,1.0,more\n"))
    assert dict(log.dropped) == {"broken line": 2}
    assert log.problems == (
        f"{tmp_path}/a.csv:18: expected 3 cells as in the header, found 2",
        f"{tmp_path}/a.csv:19: expected 3 cells as in the header, found 4",
    )
    assert len(log.rewards_N) == 16


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("reward,reward,group_id\n1,2,a\n", DataError, r"a\.csv:1: column 'reward' is there 2 times; rename all but"),
        ("group_id,reward\n", UsageError, r"a\.csv: the log holds no row; nothing to audit"),
        ("", UsageError, r"a\.csv: the log holds no row; nothing to audit"),
        ("1,2\n3,4\n", DataError, r"a\.csv: no column 'reward' \(columns: 1, 2\); name yours with --reward-column"),
    ],
)
def test_csv_that_is_no_log_is_one_line(tmp_path, text, kind, message):
    with pytest.raises(kind, match=message):
        read(write(tmp_path / "a.csv", text))


def test_csv_with_an_open_quote_loses_the_rest_and_says_so(tmp_path):
    log = read(write(tmp_path / "a.csv", CSV + '9,"g0,1.0\n9,g0,1.0\n'))
    assert len(log.rewards_N) == 16
    assert dict(log.dropped) == {"broken line": 1}


def test_a_column_that_is_there_twice_is_no_trouble_unless_wanted(tmp_path):
    log = read(write(tmp_path / "a.csv", "note,note,group_id,reward\nx,y,a,1\nx,y,a,0\n"))
    assert log.rewards_N.tolist() == [1.0, 0.0]


def test_parquet_of_several_row_groups_keeps_row_numbers(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist(ROWS), path, row_group_size=3)
    log = read(path)
    assert log.row_N.tolist() == list(range(16))
    assert groups_of(log) == groups_of(read(write(tmp_path / "b.jsonl", ROWS)))


def test_parquet_columns_of_one_name_are_refused(tmp_path):
    table = pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], names=["reward", "reward"])
    path = tmp_path / "a.parquet"
    pq.write_table(table, path)
    with pytest.raises(DataError, match=r"a\.parquet: column 'reward' is there 2 times; rename all but one"):
        read(path)


def test_parquet_without_rows_and_without_columns(tmp_path):
    for name, columns in (("a", {"group_id": pa.array([], pa.int64()), "reward": pa.array([], pa.float64())}),
                          ("b", {})):  # fmt: skip
        with pytest.raises(UsageError, match=r"\.parquet: the log holds no row; nothing to audit"):
            read(write_parquet(tmp_path / f"{name}.parquet", columns))


@pytest.mark.parametrize("damage", ["text", "torn", "overwritten"])
def test_parquet_that_is_none(tmp_path, damage):
    path = write_parquet(tmp_path / "a.parquet", table_rows(500))
    data = path.read_bytes()
    broken = {
        "text": b"group_id,reward\na,1\n",
        "torn": data[: len(data) // 2],
        "overwritten": data[:4] + b"\xff" * (len(data) // 2) + data[4 + len(data) // 2 :],
    }
    path.write_bytes(broken[damage])
    with pytest.raises(DataError, match=r"a\.parquet: .*not readable parquet \("):
        read(path)


def test_parquet_is_told_by_its_content_where_the_name_does_not(tmp_path):
    path = write_parquet(tmp_path / "rollouts", ROWS)
    assert parquet_columns(the_file(path)[0]) == list(ROWS[0])
    assert len(read(path).rewards_N) == 16


def test_exploded_records_keep_line_and_place(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"r": [1, 2]}\n{"r": 3}\n\n{"r": []}\n{"r": [4]}\n')
    file, findings = the_file(path)
    blocks = list(scan_exploded(file, ["x"], ("r",), lambda one: [{"x": x} for x in one["r"]], findings))
    (block,) = blocks
    assert block.columns["x"] == [1, 2, 4]
    assert block.row_B.tolist() == [1, 1, 5]
    assert block.part_B.tolist() == [0, 1, 0]
    assert findings.dropped == {"broken line": 1}
    assert findings.problems[0].startswith(f"{path}:2: a record of another form (TypeError")


def test_names_of_columns_that_no_json_library_takes_for_a_field(tmp_path):
    for name in ('quo"te', "back\\slash", "line\nend", "half \ud800", "", "c0"):
        path = write(tmp_path / "a.jsonl", [{name: place, "group_id": "a"} for place in range(4)])
        log = read(path, reward_columns=(name,))
        np.testing.assert_array_equal(log.rewards_N, [0, 1, 2, 3])
