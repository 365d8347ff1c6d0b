"""The published forms of problems: what is read of each, and what is refused."""

import json

import pytest

from corpo_rl.errors import DataError, UsageError
from corpo_rl.pairs.cut import CALL_PREAMBLE
from corpo_rl.pairs.problems import read_problems
from corpo_rl.records import CallTests, FinalAnswer, FunctionTests, ProgramTests

from .problem_rows import apps, contest, humaneval, mbpp, only, run, written


def test_humaneval_gives_the_tests_the_problems_own_code_but_not_the_candidates(tmp_path):
    problem = only(tmp_path, humaneval())
    assert (problem.problem_id, problem.text, problem.prompt) == (
        "Demo/0",
        humaneval()["prompt"],
        humaneval()["prompt"],
    )
    assert problem.tests.entry_point == "root"
    assert problem.tests.source == humaneval()["test"]
    names = run(problem.tests.preamble)
    assert names["near"](1, 1.5)
    assert "math" in names
    assert "root" not in names
    assert run(problem.reference)["root"](9) == 3


def test_humaneval_with_a_prompt_that_has_no_body_yet(tmp_path):
    problem = only(tmp_path, humaneval(prompt="class Pair: pass\ndef root(x):", canonical_solution=" return x ** 0.5"))
    assert set(run(problem.tests.preamble)) == {"__builtins__", "Pair"}


def test_modules_that_only_the_tests_need_are_imported(tmp_path):
    test = (
        "def check(candidate):\n    assert math.isclose(root(4), 2)\n    assert json.x == candidate(1)\n    json = 1\n"
    )
    problem = only(tmp_path, humaneval(prompt="def root(x):\n", test=test))
    # json is a variable of the tests', whatever it is named
    assert problem.tests.preamble == "import math"


def test_a_body_that_is_not_indented_as_its_docstring_still_makes_a_reference(tmp_path):
    prompt, solution = 'def root(x):\n    """Root."""\n', "  y = x ** 0.5\n  return y"
    problem = only(tmp_path, humaneval(prompt=prompt, canonical_solution=solution))
    assert run(problem.reference)["root"](9) == 3


def test_a_problem_whose_prompt_names_a_helper_is_asked_by_its_first_test(tmp_path):
    problem = only(
        tmp_path,
        humaneval(
            prompt='def half(x):\n    """Quarter of x."""\n',
            entry_point="half ",
            canonical_solution="    return x / 2\ndef check(x):\n    return half(half(x))\n",
            test="def check(candidate):\n    assert check(8) == 2\n    assert check(4) == 1\n",
        ),
    )
    assert problem.text == "Quarter of x.\nYour code should pass tests like this one:\nassert check(8) == 2"
    assert problem.prompt == ""
    assert problem.tests == FunctionTests("check", "assert check(8) == 2\nassert check(4) == 1")


def test_mbpp(tmp_path):
    problem = only(tmp_path, mbpp(challenge_test_list=["assert double(0) == 0"], test_setup_code="base = 1"))
    assert problem.problem_id == "2"
    assert problem.text == (
        "Write a function to double a number.\nYour code should pass tests like this one:\nassert double(2) == 4"
    )
    assert problem.tests == FunctionTests(
        "double", "assert double(2) == 4\nassert sorted([double(5)]) == [10]\nassert double(0) == 0", "base = 1"
    )
    assert problem.reference == "def double(x):\n    return 2 * x"


def test_sanitized_mbpp_with_imports_of_its_own_and_of_the_reference(tmp_path):
    row = mbpp(
        prompt=mbpp()["text"],
        code="from collections import Counter as C\nimport re\ndef double(x):\n    return C(x)",
        test_list=["assert double('a') == C('a')", "assert math.isclose(double(1), os.x, cmath.y)"],
        test_imports=["import math", "import os"],
    )
    del row["text"]
    problem = only(tmp_path, row)
    # cmath is nobody's import, re is not used by the tests
    assert problem.tests.preamble.splitlines() == [
        "import cmath",
        "from collections import Counter as C",
        "import math",
        "import os",
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"test_list": ["assert double(2) == half(8)"]}, "call one function of the reference, found double and half"),
        ({"test_list": ["assert triple(2) == 6"]}, r"found none \(called: triple\)"),
        ({"test_list": ["assert double(Pair(2))"]}, "the tests use Pair, which nothing but the reference defines"),
        ({"test_list": ["double(2) = 4"]}, "p.jsonl:1: tests: expected Python code, found text that does not parse"),
        ({"test_list": ["double(2)"]}, "a problem without tests: expected assert statements, found none"),
        ({"test_list": []}, "a problem without tests: expected assert statements in test_list, found none"),
        ({"test_list": [3]}, "p.jsonl:1: test_list: expected text, found 3"),
        ({"test_list": "assert"}, 'p.jsonl:1: test_list: expected a list, found "assert"'),
        ({"code": "def double(x"}, "expected Python code as reference and set-up, found text that does not parse"),
    ],
)
def test_mbpp_that_does_not_tell_its_function(tmp_path, changes, message):
    code = "class Pair: pass\ndef double(x):\n    return 2 * x\ndef half(x):\n    return x / 2"
    with pytest.raises(DataError, match=message):
        only(tmp_path, mbpp(**{"code": code, **changes}))


def test_apps_programs(tmp_path):
    problem = only(tmp_path, apps(inputs=["1\n", ["4", "1"]], outputs=["2\n", ["42"]]))
    assert problem.tests == ProgramTests((("1\n", "2\n"), ("4\n1", "42")), time_limit=None)
    assert (problem.problem_id, problem.text, problem.prompt) == ("7", "Add one.", "")
    assert problem.reference == "print(int(input()) + 1)"


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        ([3, [4]], ["3", "[4]"]),
        ([[3], [4]], ["3", "4"]),  # every result in a list of one: the list is APPS' own
        ([[[3]], [[4, 5]]], ["[3]", "[4, 5]"]),
        ([[3], [4, 5]], ["[3]", "[4, 5]"]),
    ],
)
def test_apps_calls(tmp_path, outputs, expected):
    starter = "class Solution:\n    def inc(self, x: List[int], y):\n        "
    solution = starter + "return [x, y]"
    row = apps(fn_name="inc", inputs=[[[1], "a"], [[2], None]], outputs=outputs, starter_code=starter)
    problem = only(tmp_path, {**row, "solutions": json.dumps([solution])})
    assert problem.tests == CallTests("inc", (('[[1], "a"]', expected[0]), ("[[2], null]", expected[1])))
    assert problem.text == "Add one.\n\n" + starter
    assert problem.reference == CALL_PREAMBLE + solution


def test_apps_names_the_function_when_nothing_else_does(tmp_path):
    assert only(tmp_path, apps(fn_name="inc", inputs=[[1], [41]])).text == "Add one.\n\nName the function inc."


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (apps(input_output=""), "p.jsonl:1: a problem without tests: expected inputs and outputs in input_output"),
        (apps(inputs=[], outputs=[]), "a problem without tests: expected inputs and outputs, found empty lists"),
        (apps(inputs=["1"]), "p.jsonl:1: input_output: expected an output for each input, found 1 and 2"),
        (apps(input_output="{"), "p.jsonl:1: input_output: expected JSON in the text, found broken JSON"),
        (apps(input_output="[1]"), r"p.jsonl:1: input_output: expected an object, found \[1\]"),
        (apps(input_output="[" * 99_999), "input_output: expected JSON in the text, found it nested too deep"),
        (apps(input_output='{"inputs": ["1"]}'), r"input_output: no field 'outputs' \(fields: inputs\)"),
        (apps(inputs=[1, 2]), "input_output: input 0: expected text, found 1"),
        (apps(fn_name="inc"), r'input_output: input 0: expected a list of arguments, found "1\\n"'),
        (apps(solutions="{}x"), "p.jsonl:1: solutions: expected JSON in the text, found broken JSON"),
        (apps(solutions='{"a": 1}'), "p.jsonl:1: solutions: expected a list of programs"),
        (apps(problem_id=None), "p.jsonl:1: no field 'problem_id'"),
    ],
)
def test_broken_apps(tmp_path, row, message):
    with pytest.raises(DataError, match=message):
        only(tmp_path, row)


def test_code_contests(tmp_path):
    problem = only(tmp_path, contest())
    assert problem.tests == ProgramTests((("1\n", "2\n"), ("2\n", "3\n"), ("41\n", "42\n")), time_limit=1.5)
    assert (problem.problem_id, problem.text, problem.reference) == ("1_A. Next", "Print n + 1.", "first")
    tests = only(tmp_path, contest(time_limit=None), kinds=["private"]).tests
    assert tests == ProgramTests((("2\n", "3\n"),), time_limit=None)


def test_code_contests_in_other_exports(tmp_path):
    row = contest(public_tests=[{"input": "5", "output": "6"}], private_tests=None, time_limit=2, solutions=None)
    problem = only(tmp_path, row)
    assert problem.tests == ProgramTests((("5", "6"), ("41\n", "42\n")), time_limit=2.0)
    assert problem.reference is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"public_tests": {"input": ["1"], "output": []}}, "public_tests: expected an output for each input, found 1 "),
        ({"public_tests": {"input": [1], "output": ["1"]}}, "public_tests: input 0: expected text, found 1"),
        ({"public_tests": "1"}, 'public_tests: expected an object with lists input and output, found "1"'),
        ({"time_limit": -1}, "time_limit: expected seconds, more than 0 and under an hour, found -1"),
        ({"time_limit": True}, "time_limit: expected seconds"),
        ({"solutions": [1]}, "solutions: expected an object with lists language and solution"),
    ],
)
def test_broken_code_contests(tmp_path, changes, message):
    with pytest.raises(DataError, match=message):
        only(tmp_path, contest(**changes))


def test_code_contests_without_tests_of_a_kind(tmp_path):
    row = contest(private_tests={"input": [], "output": []})
    with pytest.raises(DataError, match="a problem without tests: expected some in private_tests, found none"):
        only(tmp_path, row, kinds=["private"])
    with pytest.raises(UsageError, match="kinds: expected some of public, private, generated, found secret"):
        only(tmp_path, row, kinds=["secret"])


@pytest.mark.parametrize(
    ("row", "answer", "reference"),
    [
        ({"question": "?", "answer": "6 / 2 = <<6/2=3>>3\n#### 3"}, "3", "6 / 2 = 3\n#### 3"),
        (
            {"question": "?", "ground_truth": "So it is\nA: 1,300", "m": {"is_correct": True}},
            "1,300",
            "So it is\nA: 1,300",
        ),
        (
            {"problem": "?", "level": "1", "solution": "so $\\boxed{\\frac{1}{2}}$."},
            "\\frac{1}{2}",
            "so $\\boxed{\\frac{1}{2}}$.",
        ),
        ({"problem": "?", "solution": "$\\boxed{4}$", "answer": "4"}, "4", "$\\boxed{4}$"),
        ({"problem": "?", "answer": 0.5}, "0.5", None),
        ({"problem": "?", "answer": None, "final_answer": "Monday"}, "Monday", None),
    ],
)
def test_math(tmp_path, row, answer, reference):
    problem = only(tmp_path, row)
    assert (problem.tests, problem.reference, problem.text) == (FinalAnswer(answer), reference, "?")


def test_math_ids_are_the_files_or_the_line(tmp_path):
    rows = [{"question": "a", "answer": "1"}, {"question": "b", "answer": "1", "unique_id": "algebra/2"}]
    assert [problem.problem_id for problem in read_problems(written(tmp_path / "p.jsonl", *rows))] == ["1", "algebra/2"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            {"question": "?", "answer": "Long\ntalk"},
            r"p.jsonl:1: answer: expected a final answer \(one line, or one mar",
        ),
        ({"question": "?", "solution": "Talk"}, "p.jsonl:1: solution: expected a final answer"),
        (
            {"question": "?", "answer": ""},
            "p.jsonl:1: a problem without tests: expected an answer in one of the fields",
        ),
        ({"question": "?", "answer": [1]}, r"p.jsonl:1: answer: expected text, found \[1\]"),
        ({"question": "", "answer": "1"}, 'p.jsonl:1: question: expected text, found ""'),
    ],
)
def test_broken_math(tmp_path, row, message):
    with pytest.raises(DataError, match=message):
        only(tmp_path, row)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"test": "def check(candidate):\n    pass\n"}, "p.jsonl:1: test: a problem without tests: expected assert"),
        ({"test": "def check(candidate:\n"}, "p.jsonl:1: test: expected Python code, found text that does not parse"),
        ({"test": "def check(candidate):\n    assert True\n"}, "p.jsonl:1: test: expected calls of 'root', found none"),
        ({"test": "assert other(1)"}, "p.jsonl:1: test: expected calls of 'root', found none"),
        ({"entry_point": "power"}, r"entry_point: expected a function .*, found \"power\" \(functions: near, root\)"),
        ({"prompt": "Write a root, please."}, "p.jsonl:1: prompt: expected Python code that ends inside a function"),
        (
            {"canonical_solution": "    return ("},
            "p.jsonl:1: canonical_solution: expected code that completes the prompt",
        ),
        ({"canonical_solution": 1}, "p.jsonl:1: canonical_solution: expected text, found 1"),
        ({"task_id": 1.5}, "p.jsonl:1: task_id: expected text, found 1.5"),
        (
            {"test": None},
            "p.jsonl:1: a problem without tests: expected the fields of one of the forms program, humaneval",
        ),
    ],
)
def test_broken_humaneval(tmp_path, changes, message):
    with pytest.raises(DataError, match=message):
        only(tmp_path, humaneval(**changes))
