"""Rows, jobs and summaries of labelling."""

import dataclasses
import hashlib
import re
from pathlib import Path

import pytest

from corpo_rl.errors import DataError
from corpo_rl.pairs.engines import _MOST_DEATHS
from corpo_rl.pairs.labels import LabelledSet, LabelRow
from corpo_rl.pairs.labels_summary import labels_summary, labels_text
from corpo_rl.records import (
    OK,
    STATUSES,
    WRONG,
    CallTests,
    Candidate,
    Verdict,
)

from .labelling import CANDIDATES, EGGS, HALF, TWICE, Engine, body, labelled, named, rows_of


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
