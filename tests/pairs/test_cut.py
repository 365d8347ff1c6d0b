import ast
from pathlib import Path

import pytest

from corpo_rl.pairs.cut import (
    CALL_PREAMBLE,
    HUMANEVAL_STOPS,
    STOPS,
    answer_text,
    cut_at_stops,
    fenced_code,
    program_of,
    without_calculator_marks,
)
from corpo_rl.pairs.problems import read_problems
from corpo_rl.records import CallTests, Candidate, FinalAnswer, FunctionTests, Problem, ProgramTests

HUMANEVAL = Path(__file__).parents[2].parent / "shared" / "data" / "humaneval" / "HumanEval.jsonl.gz"

PROMPT = 'from typing import List\n\ndef total(xs: List[int]) -> int:\n    """Sum."""\n'
TOTAL = Problem(
    "total",
    PROMPT,
    FunctionTests("total", "assert total([1, 2]) == 3", preamble="from typing import List"),
    prompt=PROMPT,
)
PROGRAM = Problem("sum", "Print the sum.", ProgramTests((("1 2", "3"),)))
CALLS = Problem("inc", "Add one.", CallTests("inc", (("[1]", "2"),)))
MATH = Problem("half", "Half of 3?", FinalAnswer("1.5"))


def continuing(text, **options):
    return answer_text(TOTAL, Candidate("total", "0", text, "m", continues_prompt=True), **options)


def alone(text, problem=TOTAL):
    return answer_text(problem, Candidate(problem.problem_id, "0", text, "m"))


def names_after(problem, text, *, continues_prompt):
    names = {}
    exec(program_of(problem, text, continues_prompt=continues_prompt), names)  # noqa: S102
    return names


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("    return 1", "    return 1"),
        ("", ""),
        ("    return 1\n\ndef other():\n    pass", "    return 1\n"),
        ("    return 1\nclass A:", "    return 1"),
        ("    return 1\n# next", "    return 1"),
        ("    return 1\nif __name__ == 1:", "    return 1"),
        ("    return 1\nprint(2)\ndef x", "    return 1"),
        ("    if x:\n        # why\n        print(1)\n    return 1", None),
        ("def", None),
    ],
)
def test_cut_at_the_published_stops(text, expected):
    assert cut_at_stops(text, HUMANEVAL_STOPS) == (text if expected is None else expected)


@pytest.mark.parametrize("after", ["assert f(1)", "import os", "from x import y", "@wraps", '"""Module', "'''x", "```"])
def test_cut_at_what_else_follows_a_body(after):
    text = f"    return 1\n{after}\n"
    assert cut_at_stops(text) == "    return 1"
    assert cut_at_stops(text, HUMANEVAL_STOPS) == text
    assert cut_at_stops(f"    x = 1\n    {after}\n    return 1") == f"    x = 1\n    {after}\n    return 1"


def test_stops_are_tuples_without_repeats():
    assert STOPS[:5] == HUMANEVAL_STOPS == ("\nclass", "\ndef", "\n#", "\nif", "\nprint")
    assert len(set(STOPS)) == len(STOPS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no code", "no code"),
        ("```python\na\n```\nthen\n```python\nb\n```\ndone", "b\n"),
        ("```Py\na\n```\n```\nb\n```", "a\n"),
        ("```\na\n```\n```\nb\n```", "b\n"),
        ("```sh\npip install x\n```", "```sh\npip install x\n```"),
        ("It is\n```python\ncut off", "cut off"),
        ("- so:\n  ```python title=x\n  a\n  ```\n", "  a\n"),
        # fences inside code are somebody's documentation
        (
            'def f():\n    """\n    ```\n    f()\n    ```\n    """',
            'def f():\n    """\n    ```\n    f()\n    ```\n    """',
        ),
    ],
)
def test_fenced_code(text, expected):
    assert fenced_code(text) == expected


def test_fenced_code_that_defines_the_function_goes_first():
    text = "```python\ndef f(): return 1\n```\nUse:\n```python\nprint(f())\n```"
    assert fenced_code(text, defining="f") == "def f(): return 1\n"
    assert fenced_code(text, defining="g") == "print(f())\n"
    method = "So: ```python\nclass Solution:\n  1\n```\n```python\nx\n```"
    assert fenced_code(method, defining="f") == "class Solution:\n  1\n"
    assert fenced_code(method) == "x\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("    return sum(xs)\n\nprint(total([1]))", ("    return sum(xs)\n", True)),
        ("\n\n    return 1\n```\ndef total(x): 2", ("\n\n    return 1", True)),
        # a second definition after the body is what a base model goes on with
        ("    return 1\n\ndef total(xs):\n    return 2", ("    return 1\n", True)),
        ("def total(xs):\n    return 2\n\nprint(1)", ("def total(xs):\n    return 2\n\nprint(1)", False)),
        ("import math\n\ndef total(xs):\n    return 2", ("import math\n\ndef total(xs):\n    return 2", False)),
        ("Sure!\n```python\ndef total(xs):\n    return 2\n```", ("def total(xs):\n    return 2\n", False)),
        ("Sure!\n```python\n    return 2\n```", ("    return 2\n", True)),
        ("def totals(xs):\n    return 2", ("def totals(xs):\n    return 2", True)),
        ("", ("", True)),
        ("\n# TODO", ("", True)),
    ],
)
def test_completions(text, expected):
    assert continuing(text) == expected


def test_completions_with_stops_of_the_callers():
    assert continuing("    return 1\n\nprint(2)", stops=()) == ("    return 1\n\nprint(2)", True)


def test_answers_that_stand_alone_are_not_cut_at_stops():
    code = "def total(xs):\n    return sum(xs)\n\nprint(1)\nassert total([1]) == 1"
    assert alone(code) == (code, False)
    assert alone(f"Here:\n```python\n{code}\n```\nDone.") == (code + "\n", False)
    assert alone("import sys\n\ndef f(): 1\n\nprint(2)", PROGRAM) == ("import sys\n\ndef f(): 1\n\nprint(2)", False)


def test_math_answers_stay_as_they_are():
    text = "```\n1.5\n```\n\nif so\nA: 1.5 "
    assert alone(text, MATH) == (text, False)


def test_programs_of_completions_and_of_whole_answers():
    assert names_after(TOTAL, "    return sum(xs)", continues_prompt=True)["total"]([1, 2]) == 3
    # List comes from the prompt, which the writer saw
    whole = "def total(xs: List[int]) -> int:\n    return sum(xs)"
    assert names_after(TOTAL, whole, continues_prompt=False)["total"]([1, 2]) == 3
    assert program_of(PROGRAM, "print(3)", continues_prompt=False) == "print(3)"


def test_programs_of_calls_have_what_leetcode_imports():
    solution = (
        "class Solution:\n    def inc(self, x: Optional[int]):\n        return Counter([x]) and bisect.bisect([x], x)"
    )
    assert names_after(CALLS, solution, continues_prompt=False)["Solution"]().inc(1) == 1
    begun = Problem("inc", "", CALLS.tests, prompt="def inc(x: List):\n")
    assert names_after(begun, "    return len(x) + 1", continues_prompt=True)["inc"]([]) == 1
    ast.parse(CALL_PREAMBLE)


def test_future_imports_stay_first():
    text = '"""Doc."""\nfrom __future__ import annotations\ndef total(xs: Unknown):\n    return sum(xs)'
    assert names_after(TOTAL, text, continues_prompt=False)["total"]([1, 2]) == 3


def test_calculator_marks():
    assert without_calculator_marks("3*2=<<3*2=6>>6 < 7 << 8") == "3*2=6 < 7 << 8"


@pytest.mark.skipif(not HUMANEVAL.is_file(), reason="HumanEval is not beside this checkout")
def test_published_bodies_hold_no_stop():
    for problem in read_problems(HUMANEVAL):
        body = problem.reference.removeprefix(problem.prompt)
        candidate = Candidate(problem.problem_id, "0", body, "m", continues_prompt=True)
        text, continues = answer_text(problem, candidate)
        assert program_of(problem, text, continues_prompt=continues).rstrip() == problem.reference.rstrip()
