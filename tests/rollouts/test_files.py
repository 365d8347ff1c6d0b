"""Folders, patterns, compression and encodings: what is read, in which order, and what is refused."""

import bz2
import gzip
import lzma
import os
from pathlib import Path

import pyarrow as pa
import pytest

from corpo_rl.errors import DataError, UsageError
from corpo_rl.rollouts.files import find_files
from tests.rollouts.logs import groups_of, lines, read, table_rows, write

ROWS = table_rows()
PACKERS = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: pa.compress(data, codec="zstd", asbytes=True),
}


def names(paths):
    return [file.path.name for file in find_files(paths)]


def test_a_folder_is_read_in_step_order(tmp_path):
    for step in (10, 2, 1):
        write(tmp_path / f"{step}.jsonl", ROWS)
    write(tmp_path / "sub" / "3.jsonl", ROWS)
    write(tmp_path / ".hidden" / "4.jsonl", ROWS)
    write(tmp_path / ".5.jsonl", ROWS)
    write(tmp_path / "notes.txt", "no log")
    assert names([tmp_path]) == ["1.jsonl", "2.jsonl", "10.jsonl", "3.jsonl"]


def test_settings_beside_logs_are_left_out(tmp_path):
    write(tmp_path / "config.json", "{}")
    write(tmp_path / "1.jsonl", ROWS)
    assert names([tmp_path]) == ["1.jsonl"]


def test_a_pattern_is_expanded_in_step_order_and_a_file_reached_twice_counts_once(tmp_path):
    for step in (10, 9):
        write(tmp_path / f"{step}.jsonl", ROWS)
    os.symlink(tmp_path / "9.jsonl", tmp_path / "latest.jsonl")
    assert names([str(tmp_path / "*.jsonl"), tmp_path / "9.jsonl"]) == ["9.jsonl", "10.jsonl"]
    assert len(read(tmp_path / "9.jsonl").rewards_N) == 16


def test_a_link_back_into_the_folder_ends(tmp_path):
    write(tmp_path / "run" / "1.jsonl", ROWS)
    os.symlink(tmp_path / "run", tmp_path / "run" / "again")
    assert names([tmp_path / "run"]) == ["1.jsonl"]


def test_a_link_to_itself_is_refused(tmp_path):
    loop = tmp_path / "loop.jsonl"
    os.symlink(loop, loop)
    with pytest.raises(DataError, match=r"loop\.jsonl: .*(not a regular file|could not be read)"):
        find_files([loop])


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda folder: folder / "absent.jsonl", UsageError, r"absent\.jsonl: no such file or folder; check the path"),
        (lambda folder: folder, DataError, r"no log in this folder \(looked for \.jsonl, .*name the files themselves"),
        (
            lambda folder: write(folder / "rollout_3.pt", b"\x80\x04").parent,
            DataError,
            r"rollout_3\.pt: expected a table, found a pickle, .* save the samples as JSON Lines or parquet",
        ),
        (lambda folder: write(folder / "a.pkl", b"\x80"), DataError, r"a\.pkl: expected a table, found a pickle"),
        (
            lambda folder: write(folder / "a.jsonl", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n"),
            DataError,
            r"a\.jsonl:1: a Git LFS pointer, not the data itself; run: git lfs pull",
        ),
        (lambda folder: write(folder / "a.parquet.gz", b"x"), DataError, r"parquet inside gzip; unpack it first"),
    ],
)
def test_what_is_no_log_is_refused(tmp_path, make, kind, message):
    with pytest.raises(kind, match=message):
        find_files([make(tmp_path)])


def test_nothing_named():
    with pytest.raises(UsageError, match="no log named; pass files, folders or globs"):
        find_files([])


def test_no_permission(tmp_path, monkeypatch):
    path = write(tmp_path / "a.jsonl", ROWS)
    find = find_files([path])

    def denied(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)
    with pytest.raises(DataError, match=r"a\.jsonl: could not be read \(Permission denied\); check the file and"):
        find_files([path])
    monkeypatch.setattr("corpo_rl.rollouts.read.find_files", lambda paths: find)
    with pytest.raises(DataError, match=r"a\.jsonl: could not be read \(Permission denied\)"):
        read(path)


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.parametrize("kind", ["jsonl", "csv", "json"])
def test_packed_logs_are_those_they_hold(tmp_path, suffix, kind):
    text = lines(ROWS)
    if kind == "csv":
        text = "group_id,reward\n" + "".join(f"{row['group_id']},{row['reward']}\n" for row in ROWS)
    path = write(tmp_path / f"run.{kind}{suffix}", PACKERS[suffix](text.encode()))
    assert groups_of(read(path)) == groups_of(read(write(tmp_path / "plain.jsonl", ROWS)))


@pytest.mark.parametrize("suffix", PACKERS)
def test_a_packed_log_that_breaks_off_is_read_up_to_there_and_said(tmp_path, suffix):
    # several blocks of every packer, and hard to pack, so that something is left of two thirds of it
    rows = [row | {"completion": os.urandom(500).hex()} for row in table_rows(1000)]
    whole = PACKERS[suffix](lines(rows).encode())
    path = write(tmp_path / f"run.jsonl{suffix}", whole[: len(whole) * 2 // 3])
    log = read(path)
    assert 0 < len(log.rewards_N) < len(rows)
    assert any("data breaks off" in warning and "is it complete?" in warning for warning in log.warnings)


@pytest.mark.parametrize("suffix", PACKERS)
def test_what_is_not_packed_at_all_is_refused(tmp_path, suffix):
    path = write(tmp_path / f"run.jsonl{suffix}", ROWS)
    with pytest.raises(DataError, match=r"run\.jsonl\.\w+: the \w+ data breaks off .* before its first row; is"):
        read(path)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_encodings(tmp_path, encoding, kind):
    text = lines(ROWS).replace("question", "Frage \N{LATIN SMALL LETTER U WITH DIAERESIS}")
    if kind == "csv":
        text = "group_id,reward\r\n" + "".join(f"{row['group_id']},{row['reward']}\r\n" for row in ROWS)
    data = text.encode(encoding)
    if encoding == "utf-16-be":
        data = b"\xfe\xff" + data
    log = read(write(tmp_path / f"run.{kind}", data))
    assert groups_of(log) == groups_of(read(write(tmp_path / "plain.jsonl", ROWS)))
    assert any("UTF-16" in note for note in log.notes) == ("16" in encoding)


def test_a_line_of_ten_megabytes(tmp_path):
    rows = table_rows()
    rows[5]["completion"] = "x" * 10_000_000
    log = read(write(tmp_path / "run.jsonl", rows))
    assert log.row_N.tolist() == list(range(1, 17))
    assert not log.dropped


def test_a_line_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("corpo_rl.rollouts.files._LONGEST_LINE", 1 << 21)
    path = write(tmp_path / "run.jsonl", '{"reward": 1, "text": "' + "x" * (4 << 20))
    with pytest.raises(DataError, match=r"run\.jsonl: a line is longer than .* is this a log of one row a line"):
        read(path)


def test_names_of_files_stay_on_one_line(tmp_path):
    path = write(tmp_path / "a\nb\x1b[31m.jsonl", [{"score": 1.0, "c\nd": 2}])
    with pytest.raises(DataError) as caught:
        read(path, reward_columns=("absent",))
    assert str(caught.value).isprintable()
    assert "a\\nb\\x1b[31m.jsonl: no column 'absent'" in str(caught.value)
    assert "c\\nd" in str(caught.value)
    write(path, lines(ROWS) + "torn {\n")
    log = read(path)
    assert all(text.isprintable() for text in (*log.problems, *log.warnings, *log.notes, *log.sources))
