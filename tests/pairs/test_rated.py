import json

import pytest

from corpo_rl.errors import DataError, UsageError
from corpo_rl.pairs.rated import RatedAnswer, RatedProblem, answer_form, rate, tidied
from corpo_rl.pairs.rated_files import read_rated
from corpo_rl.records import FinalAnswer, FunctionTests, LabelledCandidate, Problem

CODE = Problem("code/1", "def half(x):\n", FunctionTests("half", "assert half(4) == 2"), prompt="def half(x):\n")
MATH = Problem("math/1", "Two and two?", FinalAnswer("4"))


def label(text="    return x / 2", *, correct=True, problem_id="code/1", candidate_id="0", source="m", status=None):
    status = status or {True: "ok", False: "wrong", None: "not_judged"}[correct]
    return LabelledCandidate(problem_id, candidate_id, source, text, correct, int(correct is True), 1, status)


def test_labels_join_their_problems():
    labels = [
        label("\n    return x / 2\n\n", candidate_id="7"),
        label("It is 5.", correct=False, problem_id="math/1"),
        label(correct=None, status="missing_module"),
        label(correct=None),
        label(correct=None),
        label(" \n", correct=False),
    ]
    rated = rate([CODE, MATH], labels)
    code, math = rated.problems
    assert code.answers == (RatedAnswer("    return x / 2", correct=True, source="m", answer_id="7", status="ok"),)
    assert (code.problem, code.is_code, math.is_code) == ("def half(x):", True, False)
    assert [answer.text for answer in math.answers] == ["It is 5."]
    assert rated.left_out.unjudged == {"missing_module": 1, "not_judged": 2}
    assert (rated.left_out.blank, rated.left_out.unknown, rated.left_out.total) == (1, 0, 4)


def test_labels_of_unknown_problems_are_refused_or_counted():
    labels = [label(), label(problem_id="code/9"), label(problem_id="code/8")]
    with pytest.raises(DataError, match=r"^2 labels are of problems .* the first of 'code/9'; .* --allow-unknown$"):
        rate([CODE], labels)
    assert rate([CODE], labels, allow_unknown=True).left_out.unknown == 2


def test_labels_that_say_nothing_are_refused():
    with pytest.raises(
        DataError, match="no label says right or wrong: 1 are of unknown problems, 2 could not be judged"
    ):
        rate([CODE], [label(correct=None), label(correct=None), label(problem_id="x")], allow_unknown=True)


def test_problems_with_the_same_text_become_one():
    one = RatedProblem("1", "P?", (RatedAnswer("a", correct=True, source="x"),))
    other = RatedProblem("2", "P?", (RatedAnswer("b", correct=False, source="x"), RatedAnswer("a ", True, "x")))
    (found,) = tidied([one, other]).problems
    assert (found.problem_id, [answer.text for answer in found.answers]) == ("1", ["a", "b"])
    assert tidied([one, other]).left_out.copies == 1


def test_the_same_answer_by_two_sources_is_kept_of_both_unless_the_labels_differ():
    answers = [RatedAnswer("a", True, "x"), RatedAnswer("a", True, "y"), RatedAnswer("b", True, "x")]
    (found,) = tidied([RatedProblem("1", "P?", tuple(answers))]).problems
    assert len(found.answers) == 3
    contradicted = tidied([RatedProblem("1", "P?", (*answers, RatedAnswer(" a", False, "z")))])
    assert [answer.text for answer in contradicted.problems[0].answers] == ["b"]
    assert contradicted.left_out.contradictory == 3


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("    return x", "  return x  # done", True),
        ("return x\n    # a line of its own", "return x", True),
        ("    if x:\n        y()\n    z()", "    if x:\n        y()\n        z()", False),
        ("    return 'a b'", "    return 'a  b'", False),
        ("    return x[", "    return x[ ", True),  # no code at all: as lines
        ("    return x[", "return x[", False),
        ("def f():\n    return 1", "def f():\n\n    return 1", True),
    ],
)
def test_what_is_the_same_code(one, other, same):
    assert (answer_form(one, is_code=True) == answer_form(other, is_code=True)) is same


@pytest.mark.parametrize("text", ["    return " + "-" * 3000 + "1", "    return 0x" + "f" * 9000, "\0", "    \\"])
def test_code_that_is_hard_on_parsers(text):
    assert answer_form(text, is_code=True)
    assert answer_form(text, is_code=True) == answer_form(text + "\n", is_code=True)


def write(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


PROBLEM_ROW = {"task_id": "1", "prompt": "def half(x):\n", "entry_point": "half", "test": "assert half(4) == 2"}
LABEL_ROW = {
    "problem_id": "1", "candidate_id": "0", "source": "m", "text": "    return x / 2", "correct": True, "passed": 1,
    "total": 1, "status": "ok", "some_other_field": 3,
}  # fmt: skip
SOLUTIONS_ROW = {
    "question": "Two and two?",
    "ground_truth": "4",
    "small": {"is_correct": True, "solution": "2+2 = <<2+2=4>>4\nA: 4"},
    "large": {"is_correct": False, "solution": "so it"},
}


def test_files_of_either_kind_are_told_apart(tmp_path):
    labels = write(tmp_path / "labels.jsonl", LABEL_ROW, {**LABEL_ROW, "candidate_id": "1", "text": ""})
    solutions = write(tmp_path / "solutions.jsonl", SOLUTIONS_ROW)
    problems = write(tmp_path / "problems.jsonl", PROBLEM_ROW, {**PROBLEM_ROW, "task_id": "2", "test": "half(4)"})
    read = read_rated([labels, solutions], problems=[problems])
    assert [(len(one.answers), one.is_code) for one in read.problems] == [(1, True), (1, False)]
    assert read.left_out == {
        "without text": 1,
        "without a final 'A:' line, for which a verifier would only learn to look": 1,
    }
    assert read.notes == (
        "1 problems without usable tests were left out.",
        "Calculator marks such as <<3+4=7>> were removed from 1 answers.",
    )


def test_files_that_do_not_belong_together(tmp_path):
    labels = write(tmp_path / "labels.jsonl", LABEL_ROW)
    solutions = write(tmp_path / "solutions.jsonl", SOLUTIONS_ROW)
    problems = write(tmp_path / "problems.jsonl", PROBLEM_ROW)
    with pytest.raises(UsageError, match=r"labels.jsonl: labels name their problems by id only; give the problems"):
        read_rated([labels], problems=[])
    with pytest.raises(UsageError, match=r"problems.jsonl: a problems file is for labels, and there are none"):
        read_rated([solutions], problems=[problems])
    again = write(tmp_path / "again.jsonl", PROBLEM_ROW)
    with pytest.raises(DataError, match=r"again.jsonl: problem '1' is in .*problems.jsonl too; make ids unique"):
        read_rated([labels], problems=[problems, again])
    empty = write(tmp_path / "empty.jsonl")
    with pytest.raises(DataError, match=r"empty.jsonl: expected one labelled candidate a line, found no row"):
        read_rated([empty], problems=[problems])
    broken = write(tmp_path / "broken.jsonl", {**LABEL_ROW, "text": "\ud800"})
    with pytest.raises(DataError, match=r"broken.jsonl:1: text: expected text, found half a surrogate pair"):
        read_rated([broken], problems=[problems])
