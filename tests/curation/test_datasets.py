import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpo_rl.curation.datasets import check_out, column_values, open_training_set, write_kept
from corpo_rl.errors import DataError, UsageError

ROWS = [
    {"data_source": "d", "prompt": [{"role": "user", "content": f"q{number}"}], "extra_info": {"index": number}}
    for number in range(10)
]
KEPT = [True, False, False, True, False, False, False, False, True, True]


def parquet(path, rows=ROWS, **options):
    table = pa.Table.from_pylist(rows).replace_schema_metadata({"huggingface": '{"info": 1}', "own": "x"})
    pq.write_table(table, path, **options)
    return path


def test_lines_of_json_stay_byte_for_byte_and_in_order(tmp_path):
    odd = [b'{"prompt": "a",  "n": 1.0}', b'\t{"n": 1e2, "prompt":"\xc3\xa4"}\r', b'{"prompt": "\\u00e4", "z": null}']
    source, out = tmp_path / "train.jsonl", tmp_path / "out.jsonl"
    source.write_bytes(b"\xef\xbb\xbf" + odd[0] + b"\n\n" + odd[1] + b"\n" + odd[2])  # no end of line at the end
    data = open_training_set(source)
    assert (data.kind, data.n_rows, data.columns) == ("json", 3, ("prompt", "n"))
    assert column_values(data, "prompt") == ["a", "ä", "ä"]
    write_kept(data, [False, True, True], out)
    assert out.read_bytes() == odd[1] + b"\n" + odd[2] + b"\n"


@pytest.mark.parametrize("compression", ["snappy", "zstd", "none"])
def test_parquet_keeps_schema_metadata_compression_and_row_groups(tmp_path, compression):
    source = parquet(tmp_path / "train.parquet", row_group_size=3, compression=compression)
    out = tmp_path / "out.parquet"
    data = open_training_set(source)
    assert (data.kind, data.n_rows) == ("parquet", 10)
    write_kept(data, KEPT, out)
    before, after = pq.ParquetFile(source), pq.ParquetFile(out)
    assert after.read().to_pylist() == [row for row, kept in zip(ROWS, KEPT, strict=True) if kept]
    assert after.schema_arrow.equals(before.schema_arrow, check_metadata=True)
    # groups of rows 0-2, 3-5, 6-8 and 9 keep one row each
    assert [after.metadata.row_group(place).num_rows for place in range(after.num_row_groups)] == [1, 1, 1, 1]
    codec = after.metadata.row_group(0).column(0).compression
    assert codec == before.metadata.row_group(0).column(0).compression


def test_a_row_group_without_a_kept_row_is_gone(tmp_path):
    source, out = parquet(tmp_path / "train.parquet", row_group_size=5), tmp_path / "out.parquet"
    write_kept(open_training_set(source), [False] * 5 + [True] * 5, out)
    assert pq.ParquetFile(out).num_row_groups == 1
    assert pq.read_table(out).to_pylist() == ROWS[5:]


def test_columns_inside_columns(tmp_path):
    data = open_training_set(parquet(tmp_path / "train.parquet"))
    assert column_values(data, "extra_info.index") == list(range(10))
    assert column_values(data, "prompt")[3] == ROWS[3]["prompt"]
    dotted = tmp_path / "dotted.jsonl"
    dotted.write_text('{"a.b": 1, "a": {"b": 2}}\n{"a": {"b": 3}}\n{"a": 4}\n')
    assert column_values(open_training_set(dotted), "a.b") == [1, None, None], "a column of that very name goes first"


@pytest.mark.parametrize("kind", ["parquet", "json"])
def test_a_column_that_is_not_there_is_named_with_those_that_are(tmp_path, kind):
    if kind == "parquet":
        data = open_training_set(parquet(tmp_path / "train.parquet"))
    else:
        (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
        data = open_training_set(tmp_path / "train.jsonl")
    for name in ("question", "extra_info.uid"):
        with pytest.raises(
            DataError, match=rf"no row has a value of '{name}' \(columns: data_source, prompt, extra_info"
        ):
            column_values(data, name)


def test_what_is_no_data_set_is_said(tmp_path):
    with pytest.raises(UsageError, match=r"none\.jsonl: no such file"):
        open_training_set(tmp_path / "none.jsonl")
    for name, content, message in [
        ("empty.jsonl", b"\n", "the data set holds no row"),
        ("array.json", b'[{"prompt": "a"}]', "row 1 is no JSON object but list"),
        ("text.jsonl", b'{"prompt": "a"}\nnot json\n', "row 2 is no JSON .*expected JSON lines"),
        ("torn.parquet", b"PAR1 and no more", "cannot be read as parquet"),
        ("bytes.jsonl", b"\xff\xfe", "row 1 is no JSON"),
    ]:
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(DataError, match=message):
            open_training_set(path)


def test_where_the_copy_may_go(tmp_path):
    source = parquet(tmp_path / "train.parquet")
    data = open_training_set(source)
    with pytest.raises(UsageError, match="is the data set itself; name another file"):
        check_out(data, tmp_path / "." / "train.parquet")
    with pytest.raises(UsageError, match=r"out\.jsonl: train\.parquet is parquet and stays it"):
        check_out(data, tmp_path / "out.jsonl")
    with pytest.raises(UsageError, match="no such folder"):
        check_out(data, tmp_path / "none" / "out.parquet")
    with pytest.raises(DataError, match="no row is kept, and an empty data set trains nothing; widen --band"):
        write_kept(data, [False] * 10, tmp_path / "out.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["train.parquet"], "nothing is left behind"
