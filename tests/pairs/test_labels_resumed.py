"""Labelling that was broken off goes on, and no file is lost or written by two."""

import subprocess
import sys

import pytest

from corpo_rl.errors import DataError, UsageError

from .labelling import Engine, labelled, rows_of


@pytest.mark.parametrize("n_before", [0, 1, 3, 4])
def test_a_broken_job_goes_on_and_gives_the_same_file(tmp_path, n_before):
    labelled(Engine(), tmp_path / "whole.jsonl")
    out = tmp_path / "labels.jsonl"
    with pytest.raises(RuntimeError, match="a bug of the judge"):
        labelled(Engine(breaks_after=n_before), out)
    assert not out.exists(), "half a file is never taken for a whole one"
    engine = Engine()
    done = labelled(engine, out)
    assert len(engine.jobs) == 5 - n_before
    assert done.n_resumed == n_before
    assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_a_torn_last_line_is_judged_again(tmp_path):
    out = tmp_path / "labels.jsonl"
    with pytest.raises(RuntimeError):
        labelled(Engine(breaks_after=3), out)
    partial = tmp_path / "labels.jsonl.partial"
    content = partial.read_bytes()
    assert content.endswith(b"}\n")
    partial.write_bytes(content[:-9])
    engine = Engine(breaks_after=1)
    with pytest.raises(RuntimeError):
        labelled(engine, out)
    assert partial.read_bytes() == content, "the same verdict in the place of the torn line"
    done = labelled(Engine(), out)
    assert done.n_resumed == 3
    assert len(rows_of(out)) == 6


@pytest.mark.parametrize(
    "change", [{"settings": {"timeout": 1.0}}, {"settings": {}}, {"stops": ()}], ids=["other", "missing", "stops"]
)
def test_other_settings_do_not_go_on(tmp_path, change):
    out = tmp_path / "labels.jsonl"
    with pytest.raises(RuntimeError):
        labelled(Engine(breaks_after=3), out)
    engine = Engine()
    with pytest.raises(UsageError, match=r"labels\.jsonl\.partial: was begun with .* begin anew with --force") as error:
        labelled(engine, out, **change)
    assert len(str(error.value).splitlines()) == 1
    assert engine.jobs == []
    labelled(engine, out, **change, force=True)
    assert len(engine.jobs) >= 5


def test_a_file_that_exists_is_only_replaced_when_told_to(tmp_path):
    out = tmp_path / "labels.jsonl"
    out.write_text("mine\n")
    with pytest.raises(UsageError, match=r"labels\.jsonl: this file exists; name another or replace it with --force"):
        labelled(Engine(), out)
    assert out.read_text() == "mine\n"
    with pytest.raises(RuntimeError):
        labelled(Engine(breaks_after=2), out, force=True)
    assert out.read_text() == "mine\n", "replaced when the new one is whole"
    labelled(Engine(), out, force=True)
    assert len(rows_of(out)) == 6


def test_killed_between_the_last_two_steps(tmp_path):
    """The labels are written, and the partial file is still there: the same call finishes all the same."""
    out = tmp_path / "labels.jsonl"
    partial = tmp_path / "labels.jsonl.partial"
    with pytest.raises(RuntimeError):
        labelled(Engine(breaks_after=4), out)
    begun = partial.read_bytes()
    labelled(Engine(), out)
    whole = out.read_bytes()
    partial.write_bytes(begun)
    done = labelled(Engine(), out)
    assert (out.read_bytes(), done.n_resumed, partial.exists()) == (whole, 4, False)


BAD_LINES = ["[]", "{", "1", '{"key": "half/0"}', '{"key": 1, "status": "ok", "passed": 1, "total": 1}',
             '{"key": "a", "status": "fine", "passed": 1, "total": 1}', '{"key": "a", "colour": 2}']  # fmt: skip


@pytest.mark.parametrize("line", BAD_LINES)
@pytest.mark.parametrize("as_header", [True, False])
def test_a_partial_file_that_is_none_is_refused(tmp_path, line, as_header):
    out = tmp_path / "labels.jsonl"
    with pytest.raises(RuntimeError):
        labelled(Engine(breaks_after=1), out)
    partial = tmp_path / "labels.jsonl.partial"
    header, verdict = partial.read_text().splitlines()
    content = f"{line}\n{verdict}\n" if as_header else f"{header}\n{line}\n{verdict}\n"
    partial.write_text(content)
    message = (
        r"labels\.jsonl\.partial: expected the verdicts of a call that did not finish, found something else; .*--force"
    )
    with pytest.raises(DataError, match=message):
        labelled(Engine(), out)
    assert partial.read_text() == content, "not ours, so left alone"


def test_each_verdict_is_on_disk_before_the_next_is_sought(tmp_path):
    out = tmp_path / "labels.jsonl"
    partial = tmp_path / "labels.jsonl.partial"
    n_lines = []

    def engine(jobs):
        for verdict in Engine()(jobs):
            n_lines.append(partial.read_bytes().count(b"\n"))
            yield verdict

    labelled(engine, out)
    assert n_lines == [1, 2, 3, 4, 5]  # the settings, then a line for each verdict


def test_two_at_once_do_not_write_one_file(tmp_path):
    out = tmp_path / "labels.jsonl"

    def engine(jobs):
        held = subprocess.run(
            [sys.executable, "-c", _SECOND_CALL, str(out)], capture_output=True, text=True, timeout=60, check=False
        )
        assert held.returncode == 2, held.stderr
        assert (
            held.stdout
            == f"{out}.partial: another process is at work on it; wait for it, or name another file with --out\n"
        )
        yield from Engine()(jobs)

    labelled(engine, out)
    assert len(rows_of(out)) == 6


_SECOND_CALL = """
import sys
from pathlib import Path
from corpo_rl.errors import UsageError
from corpo_rl.pairs.labels import label_candidates
from corpo_rl.records import Candidate, FinalAnswer, Problem
def engine(jobs): raise AssertionError
problems, candidates = [Problem("p", "p", FinalAnswer("1"))], [Candidate("p", "0", "1", "m")]
try:
    label_candidates(problems, candidates, engine=engine, out=Path(sys.argv[1]), stops=(), settings={})
except UsageError as error:
    print(error)
    sys.exit(2)
"""


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"could not be written"):
        labelled(Engine(), tmp_path / "file" / "labels.jsonl")
