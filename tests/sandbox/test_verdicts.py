"""Verdicts on ordinary candidates, each count by hand."""

import pytest

from corpo_rl.records import CallTests, FunctionTests, ProgramTests


def counts(judge, tests, program):
    verdict = judge.judge(tests, program)
    assert verdict.seconds > 0
    return verdict.status, verdict.passed, verdict.total


CHECK = FunctionTests(
    "f",
    """
METADATA = {"author": "x"}

def helper(x):
    return x + 1

def check(candidate):
    assert True, "this prints if the assert fails"
    assert candidate(1) == helper(1)
    limit = candidate(2)
    assert limit == 3 and candidate(limit) == 4
    for value in range(5):
        assert candidate(value) == value + 1
    assert False is not True
    assert twice(candidate(3)) == 8

check(f)
""",
    preamble="def twice(x):\n    return 2 * x\n",
)
"""Six statements with an assert, of which one is constant; the one that sets up is no test."""


@pytest.mark.parametrize(
    ("program", "expected", "detail"),
    [
        ("def f(x): return x + 1", ("ok", 5, 5), ""),
        # wrong for 4 alone: the loop fails
        ("def f(x): return 0 if x == 4 else x + 1", ("wrong", 4, 5), "test 3: AssertionError"),
        # wrong for 1: the first assert and the loop fail
        ("def f(x): return 0 if x == 1 else x + 1", ("wrong", 3, 5), "test 1: AssertionError"),
        # right for 3 alone (the last assert); `False is not True` holds without it
        ("def f(x): return 4 if x == 3 else None", ("wrong", 2, 5), "test 1: AssertionError"),
        # the set-up that calls it fails: what follows is not reached, the first assert stays passed
        (
            "def f(x):\n    if x == 2: raise ValueError('two')\n    return x + 1",
            ("wrong", 1, 5),
            "test 2: ValueError: two",
        ),
        ("def g(x): return x + 1", ("load_error", 0, 5), "the program defines no f"),
        (
            "def f(x) return x + 1",
            ("load_error", 0, 5),
            "while loading: SyntaxError: expected ':' (candidate.py, line 1)",
        ),
        ("import no_such_thing\ndef f(x): return x", ("missing_module", 0, 5), "No module named 'no_such_thing'"),
        ("def f(x):\n    import no_such_thing", ("missing_module", 0, 5), "No module named 'no_such_thing'"),
        ("def f(x):\n    while True: pass", ("timeout", 0, 5), "test 1: no answer in time"),
        ("def f(x): return [0] * 10**10", ("memory", 0, 5), "test 1: MemoryError"),
        ("def f(x): return (i for i in (x,))", ("not_judged", 0, 5), "a result of type generator cannot be judged"),
        # a failed test makes it wrong, whatever else came later
        ("def f(x):\n    if x == 1: return 0\n    while True: pass", ("wrong", 0, 5), "test 1: AssertionError"),
        ("def f(x):\n    if x == 2: import no_such_thing\n    return x", ("wrong", 0, 5), "test 1: AssertionError"),
        ("import twice\ndef f(x): return x + 1", ("missing_module", 0, 5), "No module named 'twice'"),
        ("def f(x): return twice(x)", ("wrong", 0, 5), "NameError: name 'twice' is not defined"),
    ],
)
def test_a_check_function(judge, program, expected, detail):
    assert counts(judge, CHECK, program) == expected
    assert judge.judge(CHECK, program).detail.endswith(detail)


@pytest.mark.parametrize(
    ("source", "program", "expected"),
    [
        ("assert f(1) == 1\nassert f(2) == 2\nassert f(3) == 4", "def f(x): return x", ("wrong", 2, 3)),
        ("assert f(1) == 1; assert f(2) == 2", "def f(x): return x", ("ok", 2, 2)),
        ("f(1)\nprint(f(2))", "def f(x): return x", ("not_judged", 0, 0)),
        ("", "def f(x): return x", ("not_judged", 0, 0)),
        ("assert True\nassert 1, 'text'\nassert f(1) == 1", "def f(x): return x", ("ok", 1, 1)),
        ("values = [3, 1, 2]\nf(values)\nassert values == [1, 2, 3]", "def f(x): x.sort()", ("ok", 1, 1)),
        ("values = [3, 1, 2]\nf(values)\nassert values == [1, 2, 3]", "def f(x): return sorted(x)", ("wrong", 0, 1)),
        ("values = [3, 1, 2]\nf(values)\nassert values == [3, 1, 2]", "def f(x): x.sort()", ("wrong", 0, 1)),
        ("a = {'x': [1]}\nf(a)\nassert a == {'x': [1, 2]}", "def f(x): x['x'].append(2)", ("ok", 1, 1)),
        ("a = {1}\nf(a)\nassert a == {1, 2}", "def f(x): x.add(2)", ("ok", 1, 1)),
        ("a = [[1], [2]]\nassert f(a) is None and a == [[2], [1]]", "def f(x): x.reverse()", ("ok", 1, 1)),
        # what works in place and returns its argument leaves the test's own object alone
        (
            "a = [2, 1]\nassert f(a) == [1, 2]\nassert a == [2, 1]",
            "def f(x):\n    x.sort()\n    return x",
            ("ok", 2, 2),
        ),
        ("assert f(2, key=3) == 5", "def f(x, *, key): return x + key", ("ok", 1, 1)),
        ("assert f(2, 3, 4) == 5", "def f(x): return x", ("wrong", 0, 1)),
        (
            "try:\n    f(0)\n    assert f is None\nexcept ZeroDivisionError:\n    pass",
            "def f(x): return 1 / x",
            ("ok", 1, 1),
        ),
        (
            "try:\n    f(0)\n    assert f is None\nexcept ZeroDivisionError:\n    pass",
            "def f(x): return 1",
            ("wrong", 0, 1),
        ),
        ("try:\n    assert f(0) == 1\nexcept:\n    pass", "def f(x):\n    while True: pass", ("timeout", 0, 1)),
        ("try:\n    assert f(0) == 1\nexcept:\n    pass", "import os\ndef f(x): os._exit(0)", ("wrong", 0, 1)),
        ("import math\nassert math.isclose(f(2), 2 ** 0.5)", "def f(x): return x ** 0.5", ("ok", 1, 1)),
        (
            "from collections import deque\nassert f(2) == deque([2])",
            "import collections\ndef f(x): return collections.deque([x])",
            ("ok", 1, 1),
        ),
        (
            "assert f(1) == (1, [2.5, {'a': {3}}], None, True, b'x', 1j)",
            "def f(x): return (1, [2.5, {'a': {3}}], None, True, b'x', 1j)",
            ("ok", 1, 1),
        ),
        ("assert f(1) == 1", "class Solution:\n    def f(self, x): return x", ("ok", 1, 1)),
        ("assert sorted([3, 1, 2], key=f) == [3, 2, 1]", "def f(x): return -x", ("ok", 1, 1)),
        ("assert f(lambda x: x) == 1", "def f(x): return 1", ("not_judged", 0, 1)),
        ("assert f(1) == 1\nassert f(1) ==", "def f(x): return x", ("not_judged", 0, 0)),
        ("x = undefined\nassert f(1) == 1", "def f(x): return x", ("wrong", 0, 1)),
        (
            "def check(c):\n    assert c(1) == 1\n    if c(2) != 2:\n        return\n    assert c(3) == 3",
            "def f(x): return x",
            ("ok", 1, 1),
        ),
        (
            "def check(c):\n    assert c(1) == 1\n    if c(2) != 2:\n        return\n    assert c(3) == 3",
            "def f(x): return min(x, 2)",
            ("wrong", 0, 1),
        ),
        (
            "def check(c):\n    def inner(x):\n        return c(x)\n    assert inner(1) == 1\n    assert inner(2) == 2",
            "def f(x): return 1",
            ("wrong", 1, 2),
        ),
        ("class T:\n    def test(self):\n        assert f(1) == 1\nT().test()", "def f(x): return x", ("ok", 1, 1)),
        ("assert f(10**30) == 10**30", "def f(x): return x", ("ok", 1, 1)),
        ("assert f('\\ud800') == '\\ud800'", "def f(x): return x", ("ok", 1, 1)),
        ("assert len(f(900000)) == 900000", "def f(x): return 'x' * x", ("ok", 1, 1)),
        ("assert len(f(1100000)) == 1100000", "def f(x): return 'x' * x", ("wrong", 0, 1)),
        ("assert f(list(range(300000)))", "def f(x): return len(x) == 300000", ("ok", 1, 1)),
        ("assert f(1) == f(1)", "import random\ndef f(x): return random.random() and hash('x')", ("ok", 1, 1)),
        ("assert f(2) == 2\nassert f(2) == 2", "import functools\n@functools.cache\ndef f(x): return x", ("ok", 2, 2)),
        ("assert f() == 3", "import asyncio\nasync def g(): return 3\ndef f(): return asyncio.run(g())", ("ok", 1, 1)),
        (
            "assert f() == 3",
            "import concurrent.futures as c\ndef f(): return c.ThreadPoolExecutor().submit(int, '3').result()",
            ("ok", 1, 1),
        ),
        (
            "assert f() == 'text'",
            "def f():\n    open('notes', 'w').write('text')\n    return open('/tmp/notes').read()",
            ("ok", 1, 1),
        ),
        ("assert f() == 3", "if __name__ == '__main__':\n    raise SystemExit\ndef f(): return 3", ("ok", 1, 1)),
        ("assert f() == 3", "print('x' * 10**6)\nimport sys\nsys.stdin.read()\ndef f(): return 3", ("ok", 1, 1)),
    ],
)
def test_statements(judge, source, program, expected):
    assert counts(judge, FunctionTests("f", source), program) == expected


@pytest.mark.parametrize(
    ("calls", "program", "expected"),
    [
        ((("[1, 2]", "3"), ("[5, 5]", "10")), "def f(a, b): return a + b", ("ok", 2, 2)),
        ((("[1, 2]", "3"), ("[5, 5]", "10")), "class Solution:\n    def f(self, a, b): return a + b", ("ok", 2, 2)),
        ((("[1, 2]", "3"), ("[5, 5]", "10")), "class Solution:\n    def f(self, a, b): return 3", ("wrong", 1, 2)),
        ((("[1, 2]", "3"), ("[5, 5]", "10")), "class Solution:\n    def g(self): pass", ("load_error", 0, 2)),
        ((("[1]", "3"), ("[2]", "10")), "def f(a, b): return a + b", ("wrong", 0, 2)),
        # a new Solution for every call
        (
            (("[1]", "1"), ("[2]", "1")),
            "class Solution:\n  n = 0\n  def f(self, a):\n    self.n += 1\n    return self.n",
            ("ok", 2, 2),
        ),
        ((("[[3, 1]]", "[1, 3]"),), "def f(a): return sorted(a)", ("ok", 1, 1)),
        ((("[[3, 1]]", "[1, 3]"),), "def f(a): return tuple(sorted(a))", ("ok", 1, 1)),
        ((("[1]", '[[1, 2], {"3": [4.0]}]'),), "def f(a): return ((1, 2), {3: (4,)})", ("ok", 1, 1)),
        ((("[1]", "0.3333333"),), "def f(a): return 1 / 3", ("ok", 1, 1)),
        ((("[1]", "0.33333"),), "def f(a): return 1 / 3", ("wrong", 0, 1)),
        ((("[1]", "2.0"),), "def f(a): return 2", ("ok", 1, 1)),
        ((("[1]", "2"),), "def f(a): return 2.0", ("wrong", 0, 1)),
        ((("[1]", "1"),), "def f(a): return True", ("wrong", 0, 1)),
        ((("[1]", "true"),), "def f(a): return 1", ("wrong", 0, 1)),
        ((("[1]", "true"),), "def f(a): return True", ("ok", 1, 1)),
        ((("[1]", "null"),), "def f(a): pass", ("ok", 1, 1)),
        ((("[1]", "0.0"),), "def f(a): return float('nan')", ("wrong", 0, 1)),
        ((("[1]", "1.5"),), "def f(a): return 10 ** 400", ("wrong", 0, 1)),
        ((("[1]", '"x"'),), "def f(a): return b'x'", ("wrong", 0, 1)),
        ((("[1]", "[1, 2]"),), "def f(a): return {1, 2}", ("wrong", 0, 1)),
        ((("[1]", "[1, 2]"),), "def f(a): return [1, 2, 3]", ("wrong", 0, 1)),
        ((("[1]", '{"a": 1}'),), "def f(a): return {'a': 1, 'b': 2}", ("wrong", 0, 1)),
        ((("[1]", "1"), ("[2]", "2")), "def f(a):\n    while a == 2: pass\n    return a", ("timeout", 1, 2)),
        ((("[1]", "1"), ("[2]", "2")), "def f(a):\n    if a == 1: raise ValueError\n    return a", ("wrong", 1, 2)),
        ((("[1]", "not JSON"),), "def f(a): return a", ("not_judged", 0, 0)),
        ((), "def f(a): return a", ("not_judged", 0, 0)),
    ],
)
def test_calls(judge, calls, program, expected):
    assert counts(judge, CallTests("f", calls), program) == expected


ECHO = "import sys\nfor line in sys.stdin: print(line.strip())"


@pytest.mark.parametrize(
    ("cases", "program", "expected"),
    [
        ((("1 2\n", "3\n"), ("2 2", "4")), "print(sum(map(int, input().split())))", ("ok", 2, 2)),
        ((("1 2\n", "3\n"), ("2 2", "5")), "print(sum(map(int, input().split())))", ("wrong", 1, 2)),
        ((("a\nb\n", "a\nb\n"),), ECHO, ("ok", 1, 1)),
        ((("a\r\nb\r\n", "a\r\nb\r\n"),), ECHO, ("ok", 1, 1)),
        ((("a\nb", "a\r\nb\r\n\r\n"),), ECHO, ("ok", 1, 1)),
        ((("", "a b\nc\n"),), "print('a  b   \\nc\\n\\n')", ("ok", 1, 1)),
        ((("", "a b\nc\n"),), "print('a b\\n\\nc')", ("wrong", 0, 1)),
        ((("", "a b\nc\n"),), "print('a b c')", ("wrong", 0, 1)),
        ((("", "ab"),), "print('a b')", ("wrong", 0, 1)),
        ((("", "0.5 1"),), "print('0.50000001 1')", ("ok", 1, 1)),
        ((("", "0.5"),), "print('5e-1')", ("ok", 1, 1)),
        ((("", "0.5"),), "print(0.51)", ("wrong", 0, 1)),
        ((("", "1"),), "print(1.0)", ("wrong", 0, 1)),
        ((("", "1000000.0"),), "print(1000000)", ("ok", 1, 1)),
        ((("", "1.0"),), "print('nan')", ("wrong", 0, 1)),
        ((("", "YES"),), "print('Yes')", ("wrong", 0, 1)),
        ((("", ""),), "pass", ("ok", 1, 1)),
        ((("", "é 😀"),), "print('é 😀')", ("ok", 1, 1)),
        ((("é 😀", "é 😀"),), "print(input())", ("ok", 1, 1)),
        ((("x" * 3000000, "3000000"),), "print(len(input()))", ("ok", 1, 1)),
        ((("x" * 3000000, "1"),), "print(1)", ("ok", 1, 1)),
        ((("", "x" * 900000),), "print('x' * 900000)", ("ok", 1, 1)),
        ((("", "x" * 1100000),), "print('x' * 1100000)", ("wrong", 0, 1)),
        ((("", "1"),), "print(1)\nraise SystemExit", ("ok", 1, 1)),
        ((("", "1"),), "print(1)\nexit()", ("ok", 1, 1)),
        ((("", "1"),), "print(1)\nquit(0)", ("ok", 1, 1)),
        ((("", "1"),), "print(1)\nimport sys\nsys.exit(1)", ("wrong", 0, 1)),
        ((("", "1"),), "print(1)\nraise ValueError", ("wrong", 0, 1)),
        ((("", "1"), ("", "1")), "import no_such_thing\nprint(1)", ("missing_module", 0, 2)),
        ((("", "1"), ("", "1")), "print(1", ("load_error", 0, 2)),
        ((("", "1"), ("", "1")), "raise SyntaxError('mine')", ("wrong", 0, 2)),
        ((("", "1"), ("", "1")), "while True: pass", ("timeout", 0, 2)),
        ((("1", "1"), ("2", "2"), ("3", "3")), "x = input()\nwhile x == '2': pass\nprint(x)", ("timeout", 1, 3)),
        ((("1", "1"), ("2", "2"), ("3", "3")), "x = input()\nif x == '2': 1 / 0\nprint(x)", ("wrong", 2, 3)),
        ((("1", "1"), ("2", "2"), ("3", "3")), "x = input()\nif x == '2': [0] * 10**11\nprint(x)", ("memory", 2, 3)),
        ((("", "__main__"),), "if __name__ == '__main__': print(__name__)", ("ok", 1, 1)),
        (
            (("", "[1, 2]"),),
            "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: list\nprint(A([1, 2]).x)",
            ("ok", 1, 1),
        ),
        ((("5", "120"),), "def f(n): return 1 if n < 2 else n * f(n - 1)\nprint(f(int(input())))", ("ok", 1, 1)),
        (
            (("3", "3"),),
            "import sys\nsys.setrecursionlimit(10**6)\nprint(sys.stdin.buffer.readline().decode())",
            ("ok", 1, 1),
        ),
        ((("", "1"),), "import sys\nsys.stdout.write('1')", ("ok", 1, 1)),
        ((("", "1"),), "import os\nos.write(1, b'1')", ("ok", 1, 1)),
        ((("", "1"),), "import sys\nprint('2', file=sys.stderr)\nprint(1)", ("ok", 1, 1)),
        ((), "print(1)", ("not_judged", 0, 0)),
    ],
)
def test_programs(judge, cases, program, expected):
    assert counts(judge, ProgramTests(cases), program) == expected
