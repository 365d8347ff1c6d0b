"""The judge of the code task, in the real sandbox: right programs get all of the reward, hostile ones none of it."""

import shutil
import threading
from pathlib import Path

import pytest

from corpo_rl.errors import CorpoError
from corpo_rl.experiment.inputs import task_from_spec
from corpo_rl.experiment.judging import MOST_WORKERS, ProgramJudges, program
from corpo_rl.pairs.problems import read_problems
from corpo_rl.records import CallTests, FunctionTests, Limits, Problem, ProgramTests, Verdict
from corpo_rl.tasks.base import grade, grade_all
from corpo_rl.tasks.code import CodeTask

DATA = Path(__file__).parents[3] / "shared" / "data"
HUMANEVAL = DATA / "humaneval" / "HumanEval.jsonl.gz"
MBPP = DATA / "codet" / "mbpp_sanitized_for_code_generation.jsonl"

needs_bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

SIGNATURE = 'import math\n\ndef root(x):\n    """Root of x."""\n'
ROOT = Problem(
    "root",
    SIGNATURE,
    FunctionTests(
        "root", "def check(candidate):\n    assert candidate(4) == 2\n    assert candidate(9) == 3", "import math"
    ),
    prompt=SIGNATURE,
    split="train",
)
DOUBLE = Problem(
    "double",
    "Write double(x).",
    FunctionTests("double", "assert double(2) == 4\nassert double(5) == 10\nassert double(0) == 0"),
    split="in_domain",
)
LONGEST = Problem(
    "longest", "", CallTests("longest", (('[["a", "bb"]]', '"bb"'), ('[["ccc", "dd"]]', '"ccc"'))), split="train"
)
NEXT = Problem("next", "", ProgramTests((("1\n", "2\n"), ("41\n", "42\n"))), split="train")


class Remembering:
    """Judges that give one test passed of two, and remember what they were asked and by whom."""

    made: list  # set anew by the fixture

    def __init__(self):
        self.jobs, self.threads, self.closed = [], set(), False
        self.made.append(self)

    def judge(self, tests, answer):
        assert not self.closed
        self.jobs.append((tests, answer))
        self.threads.add(threading.get_ident())
        if "unavailable" in answer:
            raise CorpoError("the sandbox does not start here")
        return Verdict("wrong", len(answer) % 3, 3)

    def close(self):
        self.closed = True


@pytest.fixture(autouse=True)
def made():
    Remembering.made = []
    return Remembering.made


def test_equal_programs_are_judged_once_and_each_answer_gets_its_verdict(made):
    answers = [(DOUBLE, "a" * length) for length in (1, 2, 3, 1, 2)] + [(LONGEST, "a")]
    with ProgramJudges(workers=3, new_judges=Remembering) as judge:
        verdicts = judge(answers)
        assert [verdict.passed for verdict in verdicts[:5]] == [1, 2, 0, 1, 2]
        assert sorted(len(job[1]) for one in made for job in one.jobs if job[0] is DOUBLE.tests) == [1, 2, 3]
        assert sum(len(one.jobs) for one in made) == 4
        assert judge([]) == []


def test_judges_are_kept_from_call_to_call_each_in_a_thread_of_its_own(made):
    with ProgramJudges(workers=2, new_judges=Remembering) as judge:
        for call in range(20):
            judge([(DOUBLE, f"{call} {number}") for number in range(4)])
        assert 1 <= len(made) <= 2
        assert all(len(one.threads) == 1 for one in made)
        judge.close()
        assert all(one.closed for one in made)
        judge([(DOUBLE, "again")])
        assert sum(not one.closed for one in made) == 1
    assert all(one.closed for one in made)


def test_no_sandbox_is_started_before_it_is_needed_and_no_more_than_is_sane(made, monkeypatch):
    monkeypatch.setattr("corpo_rl.experiment.judging.available_cores", lambda: 500)
    with ProgramJudges(new_judges=Remembering) as judge:
        assert made == []
        judge([(DOUBLE, str(number)) for number in range(100)])
        assert len(made) <= MOST_WORKERS == 8


def test_a_sandbox_that_does_not_start_is_told():
    with ProgramJudges(workers=1, new_judges=Remembering) as judge, pytest.raises(CorpoError, match="does not start"):
        judge([(DOUBLE, "unavailable"), (DOUBLE, "b")])


BODY = "    return math.sqrt(x)"
WHOLE = "def root(x):\n    return math.sqrt(x)"


@pytest.mark.parametrize(
    "text",
    [
        BODY,
        WHOLE,
        f"```python\n{WHOLE}\n```",
        f" Here it is:\n\n```python\n{WHOLE}\n```\nIt prints:\n```\n2\n```",
        f"First try:\n```python\ndef root(x): return 0\n```\nBetter:\n```python\n{WHOLE}\n```",
        f"```python\n{WHOLE}\n```\nUse it so:\n```python\nprint(root(4))\n```",
        f"```python\n{SIGNATURE}{BODY}\n```",
        f"```python\n{WHOLE}",
        f"{BODY}\n\nprint(root(4))",
    ],
)
@needs_bubblewrap
def test_the_code_of_an_answer_is_found(text, sandbox):
    assert sandbox([(ROOT, text)])[0].status == "ok", program(ROOT, text)


@pytest.fixture(scope="module")
def sandbox():
    """A judge in the real sandbox, with half a second for each program."""
    with ProgramJudges(Limits(seconds=0.5), workers=2) as judge:
        yield judge


@pytest.fixture(scope="module")
def task(sandbox):
    return CodeTask([ROOT, DOUBLE, LONGEST, NEXT], judge=sandbox)


@needs_bubblewrap
@pytest.mark.parametrize(
    ("problem", "text", "reward"),
    [
        (DOUBLE, "def double(x): return 2 * x", 1.0),
        (DOUBLE, "def double(x): return 4", 1 / 3),
        (DOUBLE, "def double(x): return x * x", 2 / 3),
        (DOUBLE, "def double(x): return 1 / x * x * x * 2", 2 / 3),
        (DOUBLE, "def double(x) return 2 * x", 0.0),
        (DOUBLE, "I would rather write a poem.", 0.0),
        (DOUBLE, "def twice(x): return 2 * x", 0.0),
        (DOUBLE, "import numpy\ndef double(x): return 2 * x", 0.0),
        (LONGEST, "def longest(words): return max(words, key=len)", 1.0),
        (LONGEST, "class Solution:\n    def longest(self, words): return words[0]", 1 / 2),
        (NEXT, "print(int(input()) + 1)", 1.0),
        (NEXT, "print(2)", 1 / 2),
    ],
)
def test_the_reward_is_the_share_of_tests_passed(task, problem, text, reward):
    one = grade(task, problem, text)
    assert (one.reward, one.correct, one.failure) == (pytest.approx(reward), reward == 1, None)


HOSTILE = {
    "endless": "def double(x):\n    while True: pass",
    "endless while loading": "while True: pass\ndef double(x): return 2 * x",
    "ends at once": "import os\nos._exit(0)",
    "ends in the call": "import os\ndef double(x): os._exit(0)",
    "ends well in the call": "import sys\ndef double(x): sys.exit(0)",
    "equals everything": "class Any:\n    def __eq__(self, other): return True\n    __hash__ = None\n"
    "def double(x): return Any()",
    "an int that equals everything": "class Any(int):\n    def __eq__(self, other): return True\n"
    "    def __hash__(self): return 0\ndef double(x): return Any(7)",
    "no assertions": "import builtins\nclass Quiet(Exception): pass\nbuiltins.AssertionError = Quiet\n"
    "def double(x): return 7",
    "prints a verdict": 'import os\nfor fd in range(1, 20):\n    try: os.write(fd, b\'{"status": "ok", "passed": 3, '
    '"total": 3}\')\n    except OSError: pass\ndef double(x): return 7',
    "reads the tests": "import sys\ndef double(x):\n    frame = sys._getframe()\n    while frame:\n"
    "        for value in frame.f_locals.values():\n            if isinstance(value, str) and '== 10' in value:\n"
    "                return 2 * x\n        frame = frame.f_back\n    return 7",
    "takes all memory": "def double(x):\n    data = []\n    while True: data.append(bytearray(1 << 26))",
    "forks": "import os\ndef double(x):\n    os.fork()\n    return 7",
}


@needs_bubblewrap
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_programs_get_no_credit_and_harm_nobody_after_them(task, name):
    honest = "def double(x): return 2 * x"
    found = grade_all(task, [DOUBLE] * 4, [HOSTILE[name], honest, HOSTILE[name] + "\n", honest + "\n"])
    assert all(not one.correct and not one.reward > 0 for one in (found[0], found[2])), found
    assert all(one.reward == 1.0 for one in (found[1], found[3])), found


@needs_bubblewrap
def test_what_cannot_be_judged_has_no_reward(task):
    """An iterator is no plain value: whether it is right is not known."""
    one = grade(task, DOUBLE, "def double(x): return iter([x])")
    assert not one.scorable
    assert one.failure == "not_judged"


def shown_of(problem, prompt):
    """Lines of the tests that stand in the prompt."""
    lines = {line.strip().replace("candidate", problem.tests.entry_point) for line in problem.tests.source.splitlines()}
    return [line for line in lines if "assert" in line and line in prompt]


@needs_bubblewrap
@pytest.mark.parametrize(
    ("path", "n_problems", "unknown"),
    # the solutions of three problems of MBPP return match objects, which are no plain values
    [(HUMANEVAL, 164, set()), (MBPP, 427, {"MbppEval/737", "MbppEval/787", "MbppEval/794"})],
    ids=["humaneval", "mbpp"],
)
def test_published_solutions_get_all_of_the_reward_and_broken_ones_less(path, n_problems, unknown):
    if not path.exists():
        pytest.skip(f"needs {path.name} in {path.parent}")
    with ProgramJudges(Limits(seconds=20)) as judge:
        task = CodeTask(read_problems(path), judge=judge)
        items = [*task.items("train"), *task.items("in_domain")]
        assert len(items) == n_problems
        assert 0.1 < len(task.items("in_domain")) / n_problems < 0.3
        right = grade_all(task, items, [f"Here:\n```python\n{item.reference}\n```" for item in items])
        broken = grade_all(task, items, [without_result(item) for item in items])
    assert {item.problem_id: one.reward for item, one in zip(items, right, strict=True) if one.scorable} == {
        item.problem_id: 1.0 for item in items if item.problem_id not in unknown
    }
    assert all(one.reward < 1.0 for one in broken)
    assert sum(one.reward for one in broken) / n_problems < 0.05
    for item in items:
        assert len(shown_of(item, task.prompt(item))) <= (0 if item.prompt else 1), item.problem_id


def without_result(problem):
    """The problem's own solution, but the function returns nothing."""
    name = problem.tests.entry_point
    return f"```python\n{problem.reference}\n_right = {name}\ndef {name}(*args):\n    _right(*args)\n```"


@needs_bubblewrap
def test_the_task_of_a_file_judges_in_the_sandbox(tmp_path):
    path = tmp_path / "p.jsonl"
    tests = '{"entry_point": "double", "source": "assert double(2) == 4\\nassert double(5) == 10"}'
    rows = [f'{{"problem_id": "{s}", "text": "Double.", "split": "{s}", "tests": {tests}}}' for s in ("train", "ood")]
    path.write_text("\n".join(rows))
    task = task_from_spec("code", data=path)
    assert grade(task, task.items("ood")[0], "def double(x): return x * x").reward == 0.5
