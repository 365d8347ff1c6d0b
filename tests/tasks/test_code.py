import math
from dataclasses import replace

import pytest

from corpo_rl.errors import DataError, ParseFailure, Unscorable
from corpo_rl.records import (
    LOAD_ERROR,
    MISSING_MODULE,
    TIMEOUT,
    CallTests,
    FinalAnswer,
    FunctionTests,
    Graded,
    Problem,
    ProgramTests,
    Verdict,
)
from corpo_rl.tasks.base import grade, grade_all
from corpo_rl.tasks.code import CodeTask

SIGNATURE = 'def half(x):\n    """Half of x.\n\n    >>> half(4)\n    2\n    """\n'
HIDDEN = "def check(candidate):\n    assert candidate(6) == 3\n    assert candidate(7) == 3.5"
HALF = Problem("half", SIGNATURE, FunctionTests("half", HIDDEN), prompt=SIGNATURE, split="train")
DOUBLE = Problem(
    "double",
    "Write a function to double a number.\nYour code should pass tests like this one:\nassert double(2) == 4",
    FunctionTests("double", "assert double(2) == 4\nassert double(5) == 10\nassert double(-3) == -6"),
    split="in_domain",
)
LONGEST = Problem("longest", "The longest word of a list.", CallTests("longest", (('[["a", "bb"]]', '"bb"'),)))
NEXT = Problem("next", "Read n, print n + 1.", ProgramTests((("1\n", "2\n"), ("41\n", "42\n"))))


class Scripted:
    """A judge that says what the answer's first line says, as status, passed and total; it counts its calls."""

    def __init__(self):
        self.calls = []

    def __call__(self, answers):
        self.calls.append([(problem.problem_id, text) for problem, text in answers])
        return [self.verdict(text) for _, text in answers]

    @staticmethod
    def verdict(text):
        status, passed, total = text.split()[:3]
        return Verdict(status, int(passed), int(total))


@pytest.fixture
def judge():
    return Scripted()


@pytest.fixture
def task(judge):
    return CodeTask([HALF, DOUBLE], judge=judge)


def test_a_signature_is_asked_to_be_completed_and_shown_once(task):
    assert task.prompt(HALF) == (
        "Complete this Python function. Write all of it in one ```python block, with the standard library alone.\n\n"
        f"```python\n{SIGNATURE.strip()}\n```"
    )


def test_a_sentence_is_shown_with_the_test_that_stands_in_it(task):
    prompt = task.prompt(DOUBLE)
    assert prompt.startswith("Write a function to double a number.\nYour code should pass tests like this one:\n")
    assert prompt.endswith("\n\nWrite the Python code in one ```python block, with the standard library alone.")
    assert prompt.count("assert") == 1, "the other two tests are hidden"


def test_a_function_that_the_text_does_not_name_is_named(task):
    assert "\n\nName the function longest. Write the Python code in one" in task.prompt(LONGEST), "a word is no name"
    for told in ("Write longest(words).", "Write `longest`.", "Name the function longest.", "def longest (words):"):
        assert "\n\nWrite the Python code in one" in task.prompt(replace(LONGEST, text=told))
    assert "Name the function longest." in task.prompt(replace(LONGEST, text="Write the_longest(words)."))


def test_a_program_is_told_how_it_is_spoken_to(task):
    assert task.prompt(NEXT) == (
        "Read n, print n + 1.\n\nWrite a Python program that reads standard input and prints to standard output, in "
        "one ```python block, with the standard library alone."
    )


def test_a_text_beside_the_signature_is_shown_too(task):
    problem = Problem("p", "Halve it.", HALF.tests, prompt=SIGNATURE)
    assert task.prompt(problem) == "Halve it.\n\n" + task.prompt(HALF)


@pytest.mark.parametrize(
    ("verdict", "reward"),
    [
        ("ok 4 4", 1.0),
        ("wrong 3 4", 0.75),
        ("wrong 0 3", 0.0),
        ("timeout 1 4", 0.25),
        ("memory 2 4", 0.5),
        ("load_error 0 7", 0.0),
        ("missing_module 0 7", 0.0),
    ],
)
def test_the_reward_is_the_share_of_tests_passed(task, verdict, reward):
    one = grade(task, DOUBLE, verdict)
    assert (one.reward, one.correct, one.failure) == (reward, reward == 1.0, None)
    status = verdict.split()[0]
    expected = {name: float(name == status) for name in (LOAD_ERROR, TIMEOUT, MISSING_MODULE)}
    assert one.measures == expected


def test_reward_and_measures_of_an_answer_take_one_judgement(task, judge):
    grade(task, DOUBLE, "wrong 1 3")
    assert judge.calls == [[("double", "wrong 1 3")]]
    grade(task, HALF, "wrong 1 3")
    assert len(judge.calls) == 2, "the same answer to another problem is another one"


@pytest.mark.parametrize("text", ["", "  \n\t"])
def test_an_answer_of_nothing_does_not_parse_and_is_worth_less_than_any_program(task, judge, text):
    with pytest.raises(ParseFailure, match="empty"):
        task.parse(text)
    assert grade(task, DOUBLE, text) == Graded(reward=-0.1, correct=False, failure="empty")
    assert judge.calls == []


@pytest.mark.parametrize("verdict", ["not_judged 2 3", "not_judged 0 0", "wrong 0 0"])
def test_what_was_not_judged_is_no_failure_with_a_reward(task, verdict):
    with pytest.raises(Unscorable, match="not_judged"):
        task.reward(DOUBLE, verdict)
    one = grade(task, DOUBLE, verdict)
    assert math.isnan(one.reward)
    assert (one.correct, one.failure, one.measures) == (False, "not_judged", {})


def test_a_batch_is_judged_in_one_call_and_graded_as_each_by_itself(task, judge):
    items = [DOUBLE, HALF, DOUBLE, DOUBLE, HALF]
    texts = ["wrong 1 3", "", "ok 3 3", "not_judged 0 3", "load_error 0 2"]
    found = grade_all(task, items, texts)
    assert judge.calls == [[("double", texts[0]), ("double", texts[2]), ("double", texts[3]), ("half", texts[4])]]
    alone = [grade(CodeTask([HALF, DOUBLE], judge=Scripted()), *pair) for pair in zip(items, texts, strict=True)]
    assert [repr(one) for one in found] == [repr(one) for one in alone], "by repr: NaN is not equal to itself"


def test_a_batch_of_nothing_is_not_judged(task, judge):
    assert [one.failure for one in grade_all(task, [HALF, DOUBLE], ["", " "])] == ["empty", "empty"]
    assert judge.calls == []


def test_examples_are_the_problems_own_solution_and_programs_that_cannot_pass(task):
    solved = replace(HALF, reference="def half(x):\n    return x / 2\n")
    assert task.examples(solved)[0] == ("```python\ndef half(x):\n    return x / 2\n\n```", True)
    assert task.examples(solved)[1:] == task.examples(HALF)
    assert not any(right for _, right in task.examples(HALF))


def test_another_threshold_decides_what_is_correct(task):
    task.min_correct = 0.5
    assert grade(task, DOUBLE, "wrong 2 4").correct
    assert [one.correct for one in grade_all(task, [DOUBLE] * 2, ["wrong 2 4", "wrong 1 4"])] == [True, False]


def test_a_judge_that_loses_answers_is_refused():
    task = CodeTask([HALF, DOUBLE], judge=lambda answers: [])
    with pytest.raises(DataError, match="expected 2 verdicts from the judge, got 0"):
        grade_all(task, [HALF, DOUBLE], ["a", "b"])


def numbered(n, **changes):
    return [Problem(f"task/{number}", "Do it.", DOUBLE.tests, **changes) for number in range(n)]


def ids(task, split):
    return [problem.problem_id for problem in task.items(split)]


def test_one_problem_in_five_is_held_out_whatever_else_the_file_holds(judge):
    problems = numbered(1000)
    task = CodeTask(problems, judge=judge)
    train, held_out = ids(task, "train"), ids(task, "in_domain")
    # 200 expected, standard deviation 12.6
    assert 150 < len(held_out) < 250
    assert sorted(train + held_out) == sorted(problem.problem_id for problem in problems)
    assert not task.items("ood")
    assert not task.items("other_domain")
    fewer = CodeTask(problems[::-2], judge=judge)
    assert set(ids(fewer, "in_domain")) <= set(held_out)
    assert set(ids(fewer, "train")) <= set(train)


def test_the_split_of_an_id_is_the_same_on_every_machine(judge):
    # the first 8 bytes of `printf %s task/0 | sha256sum`, and so on, as a number, modulo 5
    task = CodeTask(numbered(12), judge=judge)
    assert ids(task, "in_domain") == ["task/2"]


def test_rows_that_name_their_split_go_there(judge):
    task = CodeTask([*numbered(3, split="train"), HALF, DOUBLE], judge=judge)
    assert ids(task, "train") == ["task/0", "task/1", "task/2", "half"]
    assert ids(task, "in_domain") == ["double"]


@pytest.mark.parametrize(
    ("problems", "message"),
    [
        ([], "code: expected at least one problem, found none"),
        ([Problem("q", "What is half of 15?", FinalAnswer("7.5"))], "'q': expected tests of a function or a program"),
        ([HALF, DOUBLE, LONGEST], "'longest': split: expected one of train, in_domain, .* found none"),
        ([HALF, *numbered(1, split="test")], "'task/0': split: expected one of train, .*, found test"),
        ([HALF], "found 1 in train and none elsewhere; give more rows a field 'split'"),
        ([DOUBLE], "found 1 in in_domain and none elsewhere"),
        (
            [LONGEST],
            "found 1 in .* and none elsewhere; a hash of the id puts one in five into in_domain: give more pro",
        ),
    ],
)
def test_problems_that_make_no_task_are_refused(judge, problems, message):
    with pytest.raises(DataError, match=message):
        CodeTask(problems, judge=judge)
