import dataclasses
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from corpo_rl.errors import DataError, UsageError
from corpo_rl.pairs.cut import STOPS
from corpo_rl.pairs.engines import _MOST_DEATHS
from corpo_rl.pairs.labels import LabelledSet, LabelRow, label_candidates
from corpo_rl.pairs.labels_summary import labels_summary, labels_text
from corpo_rl.records import (
    MISSING_MODULE,
    OK,
    STATUSES,
    WRONG,
    CallTests,
    Candidate,
    FinalAnswer,
    FunctionTests,
    Problem,
    Verdict,
)

HALF = Problem(
    "half",
    "Halve x.",
    FunctionTests("half", "assert half(4) == 2\nassert half(2) == 1"),
    prompt="def half(x):\n",
    reference="def half(x):\n    return x / 2\n",
)
TWICE = Problem(
    "twice",
    "Double x.",
    FunctionTests("twice", "assert twice(4) == 8\nassert twice(2) == 4"),
    prompt="def twice(x):\n",
    reference="def twice(x):\n    return 2 * x\n",
)
EGGS = Problem("eggs", "How many eggs?", FinalAnswer("7"))


def body(problem, number, text):
    return Candidate(problem.problem_id, str(number), text, "m", continues_prompt=True)


CANDIDATES = [
    body(TWICE, 0, "    return 2 * x\n"),
    body(HALF, 0, "    return x / 2\n\nprint(half(3))"),
    body(TWICE, 1, "    return x\n"),
    body(HALF, 1, "    return x\n"),
    body(HALF, 2, "    return x / 2\n"),  # the program of half 0, once that is cut
    body(TWICE, 2, "    import numpy\n"),
]


class Engine:
    """Judges by looking for the reference's expression, and remembers what it was asked; may break after some."""

    def __init__(self, breaks_after=None, *, backwards=True):
        self.jobs = []
        self.breaks_after = breaks_after
        self.backwards = backwards  # verdicts come in any order

    def __call__(self, jobs):
        for number, job in enumerate(list(jobs)[:: -1 if self.backwards else 1]):
            if number == self.breaks_after:
                raise RuntimeError("a bug of the judge")
            self.jobs.append(job)
            yield job.key, self.verdict(job)

    def verdict(self, job):
        if isinstance(job.tests, FinalAnswer):
            return Verdict(OK, 1, 1, seconds=0.5)
        if "numpy" in job.answer:
            return Verdict(MISSING_MODULE, 0, 2, "test 1: ModuleNotFoundError: No module named 'numpy'", 0.25)
        right = "x / 2" if job.tests.entry_point == "half" else "2 * x"
        return Verdict(OK, 2, 2, seconds=0.5) if right in job.answer else Verdict(WRONG, 1, 2, "test 1", 0.125)


def labelled(engine, out, *, problems=(HALF, TWICE), candidates=CANDIDATES, stops=STOPS, settings=None, **more):
    settings = {"timeout": 3.0} if settings is None else settings
    more = {"check_references": False, **more}
    return label_candidates(problems, candidates, engine=engine, out=out, stops=stops, settings=settings, **more)


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def named(row):
    return row["problem_id"], row["candidate_id"]


def test_every_candidate_has_one_row_in_the_order_of_the_problems(tmp_path):
    out = tmp_path / "labels.jsonl"
    done = labelled(Engine(), out)
    rows = rows_of(out)
    # half is the first of the problems; within a problem the order is that of the candidates
    assert [named(row) for row in rows] == [
        ("half", "0"), ("half", "1"), ("half", "2"), ("twice", "0"), ("twice", "1"), ("twice", "2")
    ]  # fmt: skip
    assert [row["status"] for row in rows] == ["ok", "wrong", "ok", "ok", "wrong", "missing_module"]
    assert [row["correct"] for row in rows] == [True, False, True, True, False, None]
    assert rows[5]["detail"].endswith("No module named 'numpy'")
    assert rows == [dataclasses.asdict(row) for row in done.rows]
    assert list(rows[0]) == [field.name for field in dataclasses.fields(LabelRow)]
    assert [path.name for path in tmp_path.iterdir()] == ["labels.jsonl"]


def test_the_text_is_what_was_judged_and_the_hash_that_of_the_whole_program(tmp_path):
    out = tmp_path / "labels.jsonl"
    labelled(Engine(), out)
    first = rows_of(out)[0]
    assert first["text"] == "    return x / 2\n"
    assert first["program_sha256"] == hashlib.sha256(b"def half(x):\n    return x / 2\n").hexdigest()


def test_equal_programs_of_a_problem_are_judged_once(tmp_path):
    engine = Engine()
    done = labelled(engine, tmp_path / "labels.jsonl")
    assert len(engine.jobs) == len({job.key for job in engine.jobs}) == 5
    one, other = done.rows[0], done.rows[2]
    assert (one.program_sha256, one.passed, one.seconds) == (other.program_sha256, other.passed, other.seconds)
    assert done.n_judged == 5


def test_equal_answers_to_two_problems_are_two(tmp_path):
    same = [body(HALF, 0, "    return x / 2\n"), body(TWICE, 0, "    return x / 2\n")]
    problems = [dataclasses.replace(problem, prompt="") for problem in (HALF, TWICE)]
    candidates = [dataclasses.replace(one, continues_prompt=False) for one in same]
    engine = Engine()
    done = labelled(engine, tmp_path / "labels.jsonl", problems=problems, candidates=candidates)
    assert [row.status for row in done.rows] == ["ok", "wrong"]
    assert done.rows[0].program_sha256 == done.rows[1].program_sha256


def test_nothing_is_cut_without_stops(tmp_path):
    engine = Engine()
    done = labelled(engine, tmp_path / "labels.jsonl", stops=())
    assert done.rows[0].text == "    return x / 2\n\nprint(half(3))"
    assert len(engine.jobs) == 6


def test_math_answers_are_judged_as_they_stand(tmp_path):
    engine = Engine()
    answers = [Candidate("eggs", "0", "3+4 = 7\nA: 7", "m")]
    done = labelled(engine, tmp_path / "labels.jsonl", problems=[EGGS], candidates=answers)
    assert engine.jobs[0].answer == done.rows[0].text == "3+4 = 7\nA: 7"
    assert done.rows[0].correct is True


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


def test_references_are_judged_first_and_failing_ones_are_named(tmp_path):
    wrong = dataclasses.replace(TWICE, reference="def twice(x):\n    return x\n")
    engine, seen = Engine(backwards=False), []
    done = labelled(
        engine,
        tmp_path / "labels.jsonl",
        problems=(HALF, wrong),
        check_references=True,
        on_references=lambda failed, n: seen.append((dict(failed), n, len(engine.jobs))),
    )
    assert {name: verdict.status for name, verdict in done.failed_references.items()} == {"twice": "wrong"}
    assert done.n_references == 2
    # the references are programs of candidates too, and not judged twice
    assert len(engine.jobs) == 5
    assert seen == [({"twice": Verdict(WRONG, 1, 2, "test 1", 0.125)}, 2, 2)]
    assert [row.status for row in done.rows] == ["ok", "wrong", "ok", "ok", "wrong", "missing_module"]


def test_answers_to_problems_whose_reference_fails_can_be_left_unjudged(tmp_path):
    wrong = dataclasses.replace(TWICE, reference="def twice(x):\n    return x\n")
    out = tmp_path / "labels.jsonl"
    more = {"problems": (HALF, wrong), "check_references": True}
    with pytest.raises(RuntimeError):
        labelled(Engine(breaks_after=2), out, **more)
    done = labelled(Engine(), out, **more, distrust_failed_references=True)
    assert [row.correct for row in done.rows] == [True, False, True, None, None, None]
    assert {row.status for row in done.rows[3:]} == {"not_judged"}
    assert done.rows[3].detail == "the problem's own solution is not judged right: wrong, test 1"
    assert (done.rows[3].passed, done.rows[3].total) == (2, 2)


def test_only_problems_with_candidates_have_their_reference_judged(tmp_path):
    engine = Engine()
    done = labelled(engine, tmp_path / "labels.jsonl", candidates=CANDIDATES[:1], check_references=True)
    assert (done.n_references, len(engine.jobs)) == (1, 1)


def test_jobs_are_made_as_the_engine_takes_them(tmp_path):
    """A million programs need not be held at once."""
    problem = dataclasses.replace(HALF, tests=CallTests("half", (("[4]", "2"),)))
    candidates = [body(problem, number, f"    return {number}\n") for number in range(50)]

    def engine(jobs):
        assert iter(jobs) is jobs
        for job in jobs:
            yield job.key, Verdict(WRONG, 0, 1)

    done = labelled(engine, tmp_path / "labels.jsonl", problems=[problem], candidates=candidates)
    assert len(done.rows) == 50


def test_progress_counts_candidates_and_starts_where_the_last_call_ended(tmp_path):
    out = tmp_path / "labels.jsonl"
    seen = []
    with pytest.raises(RuntimeError):
        labelled(Engine(breaks_after=3), out, on_verdict=lambda *counts: seen.append(counts))
    labelled(Engine(), out, on_verdict=lambda *counts: seen.append(counts))
    assert seen == [(0, 5), (1, 5), (2, 5), (3, 5), (3, 5), (4, 5), (5, 5)]


def test_an_engine_that_leaves_a_job_out_is_a_bug_not_a_label(tmp_path):
    out = tmp_path / "labels.jsonl"

    def forgetful(jobs):
        jobs = list(jobs)
        for job in jobs[1:]:
            yield job.key, Verdict(OK, 1, 1)

    with pytest.raises(KeyError):
        labelled(forgetful, out)
    assert not out.exists()


def test_an_answer_to_an_unknown_problem_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"candidate '?0'? .*problem 'thrice'"):
        labelled(Engine(), tmp_path / "labels.jsonl", candidates=[Candidate("thrice", "0", "x", "m")])
    assert list(tmp_path.iterdir()) == []


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


DOCS = Path(__file__).parents[2] / "docs" / "labels.md"


def documented(heading):
    """First cells of the table under a heading of the page, their names in order."""
    page = DOCS.read_text(encoding="utf-8")
    table = page[page.index(f"| {heading} |") :].partition("\n\n")[0].splitlines()[2:]
    return [name for row in table for name in re.findall(r"`(\w+)`", row.split("|")[1])]


def test_the_page_describes_every_field_status_and_figure(tmp_path):
    done = labelled(Engine(), tmp_path / "labels.jsonl")
    assert documented("field") == [field.name for field in dataclasses.fields(LabelRow)]
    assert documented("status") == list(STATUSES)
    assert documented("key")[: -len(FROM_THE_COMMAND)] == list(labels_summary(done, seconds=2.0))
    assert documented("key")[-len(FROM_THE_COMMAND) :] == FROM_THE_COMMAND
    assert f"to {_MOST_DEATHS} in a row" in DOCS.read_text(encoding="utf-8")


FROM_THE_COMMAND = ["n_empty", "n_unknown", "problems_left_out", "out"]


def test_the_summary_counts_what_the_rows_say(tmp_path):
    wrong = dataclasses.replace(TWICE, reference="def twice(x):\n    return x\n")
    done = labelled(
        Engine(), tmp_path / "labels.jsonl", problems=(HALF, wrong), check_references=True, candidates=CANDIDATES[:5]
    )
    summary = labels_summary(done, seconds=2.5)
    assert (summary["n_candidates"], summary["n_problems"], summary["n_programs"]) == (5, 2, 4)
    assert summary["statuses"] == {**dict.fromkeys(STATUSES, 0), "ok": 3, "wrong": 2}
    assert (summary["n_judged"], summary["n_correct"], summary["correct_share"]) == (5, 3, 3 / 5)
    assert summary["mean_share_of_tests_passed"] == (1 + 1 + 1 + 0.5 + 0.5) / 5
    assert summary["failed_references"] == {"twice": "wrong, test 1"}
    assert summary["programs_per_second"] == 4 / 2.5
    text = labels_text(summary)
    assert "WARNING: 1 of 2 solutions that ship with the problems are not judged right" in text
    assert "Judged 4 programs in 2.5 s: 1.6 a second." in text


def test_a_share_of_nothing_is_none_not_zero(tmp_path):
    done = labelled(Engine(), tmp_path / "labels.jsonl", candidates=CANDIDATES[5:])
    summary = labels_summary(done, seconds=0.0)
    assert summary["correct_share"] is summary["mean_share_of_tests_passed"] is summary["programs_per_second"] is None
    assert summary["n_problems_not_judged"] == 1
    assert summary["missing_modules"] == {"numpy": 1}
    text = labels_text(summary)
    assert "Right: - of the 0 that could be judged, which pass - of their tests on average." in text
    assert "with none judged 1." in text
    assert "Not judged for want of a module: numpy 1." in text


def test_reasons_are_counted_without_their_place():
    rows = tuple(
        LabelRow("p", str(number), "m", "", None, 0, 2, status, detail)
        for number, (status, detail) in enumerate([
            ("not_judged", "test 1: a result of type map cannot be judged"),
            ("not_judged", "test 2: a result of type map cannot be judged"),
            ("not_judged", "the sandbox of the tests died twice"),
            ("missing_module", "test 1: while loading: ModuleNotFoundError: No module named 'b.c'"),
            *[("missing_module", f"test {k}: ModuleNotFoundError: No module named 'a{k}'") for k in range(6)],
        ])
    )  # fmt: skip
    summary = labels_summary(LabelledSet(rows, 10, 10, 0, 0, {}), seconds=1.0)
    assert summary["not_judged_because"] == {
        "a result of type map cannot be judged": 2, "the sandbox of the tests died twice": 1
    }  # fmt: skip
    assert summary["missing_modules"] == {**{f"a{k}": 1 for k in range(6)}, "b.c": 1}
    assert "module: a0 1; a1 1; a2 1; a3 1; a4 1; and 2 others." in labels_text(summary)
