"""Verdicts on ordinary candidates, and judges in trouble."""

import pytest

from corpo_rl.records import FunctionTests
from corpo_rl.sandbox.inside import wire

DOUBLE = FunctionTests("double", "assert double(2) == 4\nassert double(5) == 10")
HONEST = "def double(x): return x + x"


def test_an_interrupted_verdict_is_not_given_to_the_next_candidate(fresh_judge, monkeypatch):
    judge = fresh_judge()

    def interrupted(*arguments, **named):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(wire, "receive", interrupted)
        with pytest.raises(KeyboardInterrupt):
            judge.judge(DOUBLE, HONEST)
    assert judge.judge(DOUBLE, "def double(x): return 0").status == "wrong"
    assert judge.judge(DOUBLE, HONEST).status == "ok"


def test_an_exception_that_ends_iterations_ends_no_test(judge):
    # Python takes a StopIteration out of map's function for the end of the map: all() of nothing is True
    tests = FunctionTests("even", "assert all(map(even, [2, 4]))\nassert all(even(x) for x in [6, 8])")
    verdict = judge.judge(tests, "def even(x): raise StopIteration")
    assert (verdict.status, verdict.passed) == ("wrong", 0)
    assert judge.judge(tests, "def even(x): return x % 2 == 0").status == "ok"


@pytest.mark.parametrize(
    ("raised", "caught"),
    [
        ("ValueError('no')", "ValueError"),
        ("KeyError(3)", "LookupError"),
        ("ZeroDivisionError", "ArithmeticError"),
        ("UnicodeDecodeError('utf-8', b'', 0, 1, 'no')", "ValueError"),
        ("type('Own', (Exception,), {})()", "Exception"),
        ("type('Own', (KeyError,), {})()", "LookupError"),
        ("StopIteration", "Exception"),
        ("ExceptionGroup('two', [ValueError()])", "Exception"),
    ],
)
def test_tests_catch_what_the_candidate_raised(judge, raised, caught):
    source = f"""
try:
    f()
    ended = True
    assert ended is None
except {caught}:
    pass
"""
    verdict = judge.judge(FunctionTests("f", source), f"def f(): raise {raised}")
    assert verdict.status == "ok", verdict
