import json
import subprocess
import sys

import pytest

from corpo_rl.errors import DataError, UsageError
from corpo_rl.experiment.folder import append_row, keep_rows, locked, read_json, read_rows, write_json


def test_a_torn_last_line_is_left_out_and_a_torn_middle_one_is_refused(tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"step": 1}\n{"step": 2}\n{"st')
    assert read_rows(rows) == [{"step": 1}, {"step": 2}]
    rows.write_text('{"step": 1}\n{"st\n{"step": 3}\n')
    with pytest.raises(DataError, match=r"rows.jsonl:2: expected a JSON object"):
        read_rows(rows)


def test_rows_after_the_checkpoint_are_dropped(tmp_path):
    rows = tmp_path / "rows.jsonl"
    for step in (1, 2, 3, 4):
        append_row(rows, {"step": step})
    keep_rows(rows, last_step=2)
    assert [row["step"] for row in read_rows(rows)] == [1, 2]


def test_nan_is_never_written(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        append_row(tmp_path / "rows.jsonl", {"step": 1, "value": float("nan")})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "file.json", {"value": float("inf")})
    assert not (tmp_path / "file.json").exists()


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file.json"
    write_json(path, {"old": 1})

    def full(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("corpo_rl.experiment.folder.os.replace", full)
    with pytest.raises(OSError, match="No space"):
        write_json(path, {"new": 2})
    assert json.loads(path.read_text()) == {"old": 1}


def test_a_broken_json_file_is_named(tmp_path):
    path = tmp_path / "file.json"
    path.write_text("[1]")
    with pytest.raises(DataError, match="expected a JSON object, found list"):
        read_json(path)
    path.write_text("{")
    with pytest.raises(DataError, match=r"file.json: expected a JSON file"):
        read_json(path)


HOLDER = """
import sys, time
from pathlib import Path
from corpo_rl.experiment.folder import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_process_is_kept_out_and_the_lock_dies_with_its_holder(tmp_path):
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout.readline() == b"held\n"
            with pytest.raises(UsageError, match="another process is at work here"), locked(tmp_path):
                pass
        finally:
            holder.kill()
            holder.wait()
    with locked(tmp_path):
        pass
