import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from corpo_rl.demologs.write import DEMO_FORMATS, write_demo_log
from corpo_rl.errors import DataError, UsageError


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


def test_force_deletes_nothing_but_logs(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "thesis.txt").write_text("years")
    with pytest.raises(UsageError, match=r"--force replaces a folder of logs alone, found .*thesis\.txt"):
        write_demo_log(folder, scenario="dirty", format="csv", seed=0, n_steps=2, force=True)
    assert [path.name for path in tmp_path.rglob("*")] == ["mine", "thesis.txt"]
    assert (folder / "thesis.txt").read_text() == "years"


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("kind", ["file", "link", "working folder", "above it", "dot"])
def test_only_a_folder_is_replaced_and_none_we_stand_in(tmp_path, monkeypatch, kind, force):
    target, inside = tmp_path / "target", tmp_path / "target" / "inside"
    if kind == "file":
        target.write_text("mine")
    elif kind == "link":
        (tmp_path / "elsewhere").mkdir()
        target.symlink_to(tmp_path / "elsewhere")
    else:
        inside.mkdir(parents=True)
        monkeypatch.chdir(inside if kind == "above it" else target)
    with pytest.raises(UsageError, match="and no folder" if kind in ("file", "link") else "the working folder lies"):
        write(Path() if kind == "dot" else target, "csv", force=force)
    assert target.exists()
    assert len(list(tmp_path.iterdir())) == 1 + (kind == "link"), "no half-written folder is left"


def test_what_was_there_is_put_back_when_the_new_one_cannot_be(tmp_path, monkeypatch):
    first = write(tmp_path / "log")
    rename = Path.rename

    def fail(path, target):
        if path.name.startswith(".log.") and not path.name.endswith(".old"):
            raise PermissionError(13, "Permission denied")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(DataError, match="cannot be written"):
        write(tmp_path / "log", "csv", force=True)
    assert [path.name for path in tmp_path.rglob("*")] == ["log", *(path.name for path in first)]
