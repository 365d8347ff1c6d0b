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
