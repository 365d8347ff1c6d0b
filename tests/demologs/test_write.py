import json

import pyarrow.parquet as pq
import pytest

from corpo_rl.demologs.write import DEMO_FORMATS, write_demo_log
from corpo_rl.errors import UsageError


def write(folder, form="jsonl", **options):
    return write_demo_log(folder, **({"scenario": "graded-fault", "format": form, "seed": 0, "n_steps": 2} | options))


@pytest.mark.parametrize("form", DEMO_FORMATS)
def test_files_are_named_and_the_same_for_the_same_seed(tmp_path, form):
    first, again = write(tmp_path / "a", form), write(tmp_path / "b", form)
    assert first
    assert [path.relative_to(tmp_path / "a") for path in first] == [path.relative_to(tmp_path / "b") for path in again]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]
    assert sorted(path for path in (tmp_path / "a").rglob("*") if path.is_file()) == sorted(first)


def test_nothing_is_replaced_without_force(tmp_path):
    write(tmp_path / "log")
    with pytest.raises(UsageError, match="is there already; pass --force"):
        write(tmp_path / "log", "csv")
    paths = write(tmp_path / "log", "csv", force=True)
    assert [path.name for path in (tmp_path / "log").iterdir()] == [path.name for path in paths] == ["rollouts.csv"]
    assert [path.name for path in tmp_path.iterdir()] == ["log"], "no half-written folder is left"


def test_trl_tables_are_as_trl_writes_them(tmp_path):
    table = pq.read_table(write(tmp_path / "a", "trl")[0])
    assert table.column_names == ["step", "prompt", "completion", "checks_passed", "advantage"]
    assert [str(field.type) for field in table.schema] == ["int64", "string", "string", "double", "double"]
    chat = pq.read_table(write(tmp_path / "b", "trl-chat")[0]).to_pylist()[0]
    assert chat["prompt"][0]["role"] == "user"
    assert chat["completion"][0]["role"] == "assistant"


def test_verl_rows_are_as_verl_writes_them(tmp_path):
    paths = write(tmp_path / "a", "verl")
    assert [path.name for path in paths] == ["1.jsonl", "2.jsonl"]
    rows = [json.loads(line) for line in paths[0].read_text().splitlines()]
    assert list(rows[0]) == ["input", "output", "gts", "score", "step", "uid"]
    assert [row["uid"] for row in rows] == sorted(row["uid"] for row in rows)
    assert len({row["uid"] for row in rows}) == 64
    assert len({row["uid"].rsplit("_", 2)[0] for row in rows}) == 8


def test_a_format_that_is_not_there(tmp_path):
    with pytest.raises(UsageError, match="format: expected one of trl"):
        write(tmp_path / "log", "pickle")
    assert not (tmp_path / "log").exists()
