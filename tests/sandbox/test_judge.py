"""Judges in trouble, and their limits."""

import os
import resource
import time

import pytest

from corpo_rl.records import CallTests, FunctionTests, ProgramTests
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


def test_keys_that_json_cannot_tell_apart_do_not_stand_for_each_other(judge):
    tests = CallTests("f", (("[]", '{"1": 5, "2": 6}'),))
    assert judge.judge(tests, "def f(): return {1: 5, '1': 5}").status == "wrong"
    assert judge.judge(tests, "def f(): return {1: 5, 2: 6}").status == "ok"
    assert judge.judge(tests, "def f(): return {'1': 5, '2': 6}").status == "ok"


def test_details_are_one_printable_line(judge):
    said = "\\ud800 \\x1b[31m red\\n\\u2028 \\u202e back \\x00 end"
    for program in (f"raise Exception('{said}')", f"def double(x): raise Exception('{said}')"):
        detail = judge.judge(DOUBLE, program).detail
        assert detail.endswith("Exception: \ufffd \ufffd[31m red \ufffd back \ufffd end")
        assert detail.isprintable()
        detail.encode()


def test_a_candidate_that_is_called_outside_the_tests_is_judged_all_the_same(judge):
    tests = FunctionTests(
        "f", "first = f(1)\ndef check(candidate):\n    assert first == 1\n    assert candidate(2) == 2"
    )
    assert judge.judge(tests, "def f(x): return x").status == "ok"
    ends = {
        "while 1: pass": "timeout",
        "raise ValueError": "wrong",
        "return f": "not_judged",
        "return [0] * 10**9": "memory",
    }
    for body, status in ends.items():
        assert judge.judge(tests, f"def f(x):\n    {body}").status == status
    broken = FunctionTests("f", "assert f(1) == 1", preamble="raise SystemExit(0)")
    verdict = judge.judge(broken, "def f(x): return x")
    assert (verdict.status, verdict.detail) == ("not_judged", "test 1: the problem's own code failed: SystemExit: 0")


@pytest.mark.parametrize(
    ("source", "program", "status"),
    [
        # what fills the memory of the tests is a result that is short to send
        ("assert list(f()) == [1]", "def f(): return range(10**12)", "not_judged"),
        ("assert f() * 10**9 == 'no'", "def f(): return 'no'", "not_judged"),
        (
            "assert f() == 1",
            "import wire\nwire.encode = lambda value: ['n', '1e99999999999', None]\ndef f(): pass",
            "wrong",
        ),
    ],
    ids=["range", "repeat", "fraction"],
)
def test_the_memory_of_the_tests_is_bounded(judge, source, program, status):
    boxes = list(judge._boxes)
    started = time.monotonic()
    assert judge.judge(FunctionTests("f", source), program).status == status
    assert judge._boxes == boxes, "the judge itself came to an end"
    assert time.monotonic() - started < 8


def test_a_process_with_many_open_files_can_judge(fresh_judge):
    # more than select() can handle
    resource_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource_limit[0] < 2000:
        pytest.skip("this process may not open 2000 files")
    kept = [os.open("/dev/null", os.O_RDONLY) for _ in range(1200)]
    try:
        assert fresh_judge().judge(DOUBLE, HONEST).status == "ok"
    finally:
        for descriptor in kept:
            os.close(descriptor)


def test_a_problems_own_time_limit_is_allowed(judge):
    program = "import time\ntime.sleep(1.5)\nprint(1)"
    assert judge.judge(ProgramTests((("", "1"),)), program).status == "timeout"
    assert judge.judge(ProgramTests((("", "1"),), time_limit=0.1), program).status == "timeout"
    assert judge.judge(ProgramTests((("", "1"),), time_limit=10.0), program).status == "ok"
    # of the processor as well: 1 s in the judge's limits is no more than 3 s of it
    busy = "import time\nwhile time.process_time() < 3.5: pass\nprint(1)"
    assert judge.judge(ProgramTests((("", "1"),), time_limit=20.0), busy).status == "ok"
    # each case has the time for itself
    short = "import time\ntime.sleep(0.3)\nprint(1)"
    assert judge.judge(ProgramTests((("", "1"),) * 3), short).passed == 3


def test_a_function_has_its_time_for_all_tests_together(judge):
    tests = FunctionTests("f", "\n".join(f"assert f({number}) == {number}" for number in range(9)))
    verdict = judge.judge(tests, "import time\ndef f(x):\n    time.sleep(0.4)\n    return x")
    assert verdict.status == "timeout"
    assert verdict.passed in (1, 2)
    assert verdict.seconds < 3


def test_the_limit_of_output_is_the_outputs(fresh_judge):
    judge = fresh_judge(output_bytes=10)
    assert judge.judge(DOUBLE, HONEST).status == "ok"
    assert (
        judge.judge(DOUBLE, "def double(x): raise ValueError('x' * 200)").detail == f"test 1: ValueError: {'x' * 200}"
    )
    assert judge.judge(ProgramTests((("", "x" * 10),)), "print('x' * 10, end='')").status == "ok"
    verdict = judge.judge(ProgramTests((("", "x" * 11),)), "print('x' * 11, end='')")
    assert (verdict.status, verdict.detail) == ("wrong", "test 1: more output than allowed")
