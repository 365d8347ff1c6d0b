"""Rows of problems in each form, and how they are read."""

import json

from corpo_rl.pairs.problems import read_problems


def written(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def humaneval(**changes):
    return {
        "task_id": "Demo/0",
        "prompt": 'import math\n\ndef near(x, y):\n    return abs(x - y) < 1\n\ndef root(x):\n    """Root of x."""\n',
        "entry_point": "root",
        "test": "def check(candidate):\n    assert near(candidate(4), 2)\n    assert candidate(9) == 3\n",
        "canonical_solution": "    return math.sqrt(x)\n",
        **changes,
    }


def mbpp(**changes):
    return {
        "task_id": 2,
        "text": "Write a function to double a number.",
        "code": "def double(x):\n    return 2 * x",
        "test_list": ["assert double(2) == 4", "assert sorted([double(5)]) == [10]"],
        **changes,
    }


def apps(*, fn_name=None, inputs=("1\n", "41\n"), outputs=("2\n", "42\n"), **changes):
    tests = {"inputs": list(inputs), "outputs": list(outputs)}
    if fn_name:
        tests["fn_name"] = fn_name
    return {
        "problem_id": 7,
        "question": "Add one.",
        "solutions": json.dumps(["print(int(input()) + 1)", "pass"]),
        "input_output": json.dumps(tests),
        "starter_code": "",
        **changes,
    }


def contest(**changes):
    return {
        "name": "1_A. Next",
        "description": "Print n + 1.",
        "public_tests": {"input": ["1\n"], "output": ["2\n"]},
        "private_tests": {"input": ["2\n"], "output": ["3\n"]},
        "generated_tests": {"input": ["41\n"], "output": ["42\n"]},
        "solutions": {"language": [2, 3, 3], "solution": ["int main() {}", "first", "second"]},
        "time_limit": {"seconds": 1, "nanos": 500_000_000},
        **changes,
    }


def own(tests, **changes):
    return {"problem_id": "p", "text": "Do it.", "tests": tests, **changes}


def only(path, *rows, **options):
    (problem,) = read_problems(written(path / "p.jsonl", *rows), **options)
    return problem


def run(source):
    """Names that code defines: written here, or HumanEval's own."""
    names = {}
    exec(source, names)  # noqa: S102
    return names
