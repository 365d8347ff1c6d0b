import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

import corpo_rl.pairs.final_answers as final_answers
from corpo_rl.errors import CorpoError
from corpo_rl.pairs.final_answers import FinalAnswerJudge, marked_answer
from corpo_rl.records import FinalAnswer

GSM8K = Path(__file__).parents[2].parent / "shared" / "data" / "gsm8k"


@pytest.fixture(scope="module")
def judge():
    with FinalAnswerJudge() as judge:
        yield judge


def status(judge, expected, text):
    return judge.judge(FinalAnswer(expected), text).status


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3+4\nA: 7", "7"),
        ("3+4\n#### 1,000\n", "1,000"),
        ("A: 1\nA: 2", "2"),
        ("**Answer:** 7", "7"),
        ("Final answer : $x+1$", "$x+1$"),
        ("so \\boxed{1} or \\boxed{\\frac{1}{2}}.\nA: 9", "\\frac{1}{2}"),
        ("\\boxed{\\text{if } x \\in \\{1, 2\\}}", "\\text{if } x \\in \\{1, 2\\}"),
        ("\\fbox{3}", "3"),
        ("so $x = \\boxed 25$, that is", "25"),
        ("\\boxed{}\n#### 4", "4"),
        ("\\boxed{never closed\nA: 5", "5"),
        ("The answer is 7", None),
        ("Alpha: 7, plan A: 7", None),
        ("A:\n####", None),
        ("", None),
    ],
)
def test_marked_answer(text, expected):
    assert marked_answer(text) == expected


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ("18", "A: $18"),
        ("18", "#### 18 dollars a day"),
        ("18", "9 * 2 = $<<9*2=19>>18"),
        ("18", "He pays 20 of 40, so the answer is 18."),
        ("70,000", "A: 70000.00"),
        ("10000", "A: 10 000"),
        ("5", "A: 5."),
        ("-3", "A: - 3"),
        ("0.5", "\\boxed{50\\%}"),
        ("\\frac{1}{2}", "A: 1/2"),
        ("\\$18.90", "\\boxed{18.9}"),
        ("x+1", "\\boxed{1+x}"),
        ("x+1", "Answer: $1 + x$"),
        ("3", "\\boxed{x = 3}"),
        ("(3,4)", "\\boxed{(3, 4)}"),
        ("\\{1,2,3\\}", "\\boxed{\\{3,2,1\\}}"),
        ("\\frac{\\pi}{4}", "\\boxed{\\pi/4}"),
        ("2", "\\boxed{\\sqrt{4}}"),
        ("Monday", "It is on Monday."),
        ("\\text{Monday}", "\\boxed{\\text{ monday}}"),
        ("yes", "Yes."),
        ("\\text{(C)}", "\\boxed{C}"),
        ("7", "\x00\ud800 7"),
    ],
)
def test_right_answers(judge, expected, text):
    verdict = judge.judge(FinalAnswer(expected), text)
    assert (verdict.status, verdict.passed, verdict.total, verdict.detail) == ("ok", 1, 1, "")
    assert verdict.seconds > 0


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ("18", "A: 19"),
        ("18", "18 is not it\nA: 20"),
        ("(3,4)", "\\boxed{(4,3)}"),
        ("0", "\\boxed{10^{-9}}"),
        ("7", "\\boxed{7.0001}"),
        # a word is no product of letters, which these two share
        ("Monday", "\\boxed{dynamo}"),
        ("Monday", "It is Monday or Tuesday"),
        ("\\text{Monday}", "\\boxed{\\text{not Monday}}"),
        # naming several is no answer
        ("7", "\\boxed{7} \\boxed{8}"),
        ("7", "\\boxed{7, 8}"),
        ("7", "\\boxed{\\{7, 8\\}}"),
        ("7", "\\boxed{7 \\text{ or } 8}"),
        ("7", "$7$ or $8$"),
        ("7", "A: 7 or 8"),
        ("7", "\\boxed{x=7 \\lor x=8}"),
        ("7", "\\boxed{y}"),
    ],
)
def test_wrong_answers(judge, expected, text):
    verdict = judge.judge(FinalAnswer(expected), text)
    assert (verdict.status, verdict.passed, verdict.total) == ("wrong", 0, 1)
    assert verdict.detail == "another answer than expected"


@pytest.mark.parametrize("text", ["", "no idea", "\\boxed{}", "A:", "\\boxed{" * 2000, "$" + "{" * 9000])
def test_no_answer_is_wrong_and_says_so(judge, text):
    verdict = judge.judge(FinalAnswer("7"), text)
    assert (verdict.status, verdict.detail) == ("wrong", "no final answer found")


def test_only_the_end_of_a_text_is_read(judge):
    assert status(judge, "7", "x" * 50_000_000 + "\nA: 7") == "ok"
    assert status(judge, "7", "A: 7\n" + "so " * 50_000) == "wrong"
    verdict = judge.judge(FinalAnswer("7"), "9" * 100_000)
    assert (verdict.status, verdict.detail) == ("wrong", "a number of 1000 digits or more")


def test_an_expected_answer_that_says_nothing_judges_nothing(judge):
    verdict = judge.judge(FinalAnswer(" "), "A: 7")
    assert (verdict.status, verdict.correct) == ("not_judged", None)
    assert verdict.detail == "no answer could be read in the one expected"


@pytest.mark.parametrize(
    "text",
    [
        "\\boxed{10^{10^{10}}}",
        "\\boxed{10000000!}",
        "\\boxed{" + "(" * 1500 + "7" + ")" * 1500 + "}",
        "\\boxed{\\int_0^1 e^{x^2}\\sin(x^x) dx}",
    ],
    ids=["tower", "factorial", "nested", "integral"],
)
def test_endless_comparisons_are_cut_off_and_the_next_verdict_is_as_ever(text):
    with FinalAnswerJudge(seconds=1.0) as judge:
        started = time.monotonic()
        verdict = judge.judge(FinalAnswer("7"), text)
        assert verdict.status == "not_judged"
        assert verdict.detail == "no comparison within 1 seconds"
        assert time.monotonic() - started < 5
        assert status(judge, "7", "A: 7") == "ok"


def test_a_process_that_dies_is_replaced():
    with FinalAnswerJudge() as judge:
        os.kill(judge._process.pid, signal.SIGKILL)
        judge._process.wait()
        verdict = judge.judge(FinalAnswer("7"), "A: 7")
        assert (verdict.status, verdict.detail) == ("not_judged", "the comparison broke down")
        assert status(judge, "7", "A: 7") == "ok"


def test_a_process_that_asks_to_retire_is_replaced(monkeypatch, tmp_path):
    worker = tmp_path / "worker.py"
    worker.write_text(
        "import json, os, sys\n"
        "print('{}', flush=True)\n"
        "for line in sys.stdin:\n"
        "    retire = 'old' in line\n"
        "    print(json.dumps({'status': 'ok', 'detail': str(os.getpid()), 'retire': retire}), flush=True)\n"
    )
    monkeypatch.setattr(final_answers, "_WORKER", worker)
    with FinalAnswerJudge() as judge:
        first, second, third = (judge.judge(FinalAnswer(name), "").detail for name in ("young", "old", "young"))
    assert first == second != third


def test_a_full_memory_makes_no_answer_wrong():
    worker = Path(final_answers.__file__).with_name("final_answers_worker.py")
    code = (
        "import runpy, sys\n"
        "names = runpy.run_path(sys.argv[1])\n"
        "held = bytearray(460 << 20)\n"  # as answers before may have filled it
        "names['main'](seconds=5, memory_mb=900)\n"
    )
    requests = [{"expected": "7", "answer": answer, "marked": True} for answer in ("8", "7")]
    ran = subprocess.run(
        [sys.executable, "-c", code, str(worker)],
        input="".join(json.dumps(request) + "\n" for request in requests),
        capture_output=True,
        text=True,
        check=True,
    )
    ready, wrong, right = map(json.loads, ran.stdout.splitlines())
    assert ready == {"ready": True}
    assert wrong == {"status": "not_judged", "detail": "the comparison needs too much memory", "retire": True}
    assert right == {"status": "ok", "detail": "", "retire": True}


def test_nothing_stays_behind():
    with FinalAnswerJudge() as judge:
        pid = judge._process.pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_without_the_library(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CorpoError, match=r"judging final answers needs .*; run: pip install 'corpo-rl\[pairs\]'"):
        FinalAnswerJudge()


def test_a_process_that_does_not_start(monkeypatch, tmp_path):
    broken = tmp_path / "worker.py"
    broken.write_text("raise OSError('no room')")
    monkeypatch.setattr(final_answers, "_WORKER", broken)
    with pytest.raises(CorpoError, match="does not start in a process of its own: OSError: no room"):
        FinalAnswerJudge()


@pytest.mark.skipif(not GSM8K.is_dir(), reason="the published GSM8K answers are not beside this checkout")
def test_agrees_with_every_published_label(judge):
    lines = (GSM8K / "example_model_solutions.jsonl").read_text(encoding="utf-8").splitlines()
    found = Counter()
    for row in map(json.loads, lines):
        expected = marked_answer(row["ground_truth"])
        for answer in row.values():
            if isinstance(answer, dict):
                found[status(judge, expected, answer["solution"]), answer["is_correct"]] += 1
    assert found == {("ok", True): 2001, ("wrong", False): 3275}


@pytest.mark.skipif(not GSM8K.is_dir(), reason="GSM8K is not beside this checkout")
def test_published_solutions_are_right(judge):
    lines = (GSM8K / "test.jsonl").read_text(encoding="utf-8").splitlines()
    answers = [json.loads(line)["answer"] for line in lines]
    assert {status(judge, marked_answer(answer), answer) for answer in answers} == {"ok"}


def test_the_memory_of_the_process_that_asks_is_not_taken_for_the_judges_own():
    code = """
import resource
held = bytearray(700 << 20)
from corpo_rl.pairs.final_answers import FinalAnswerJudge
from corpo_rl.records import FinalAnswer
assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 600 << 10
with FinalAnswerJudge(memory_mb=1024) as judge:
    print(judge.judge(FinalAnswer("4"), "The answer is 5").status)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "wrong\n"
