"""The code task: write a program, be rewarded with the share of its tests that pass.

The tests are run by a judge that the task is given (`corpo_rl.experiment.judging.ProgramJudges` runs them in the
project's sandbox), so that nothing a policy wrote is ever run here.
"""

import hashlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from corpo_rl.errors import DataError, ParseFailure, Unscorable
from corpo_rl.records import (
    EVALUATION_SPLITS,
    LOAD_ERROR,
    MISSING_MODULE,
    NOT_JUDGED,
    TIMEOUT,
    TRAIN,
    CallTests,
    FinalAnswer,
    FunctionTests,
    Graded,
    Problem,
    ProgramTests,
    Verdict,
)

JudgesCode = Callable[[Sequence[tuple[Problem, str]]], Sequence[Verdict]]
"""Problems, each with what a policy wrote to it, prose included -> a verdict of each, in order."""

UNPARSABLE_REWARD = -0.1
"""Reward of an answer of nothing. Ours: under that of any program, which is at least 0, so that writing one pays; and
by less than most tests are worth, so that what a group learns from is still mostly the tests."""

IN_DOMAIN_SHARE = 5
"""One problem in so many is held out of training, where the rows name no split."""

_TERMS = "in one ```python block, with the standard library alone."


class CodeTask:
    r"""Write Python code for problems with tests. A `tasks.base.Task`, with `grade_many`.

    Reward: tests passed / tests, in [0, 1]; correct is 1, all of them. What does not compile, does not load, runs out
    of time or asks for a module that is not there passes no further test: that is a graded failure, as any other. The
    prompt asks for the standard library alone, so a missing module is the program's own fault.

    What the judge cannot judge (`not_judged`: its sandbox died, a result is of no plain type) has no reward at all:
    `grade` gives NaN, the trainer leaves it out of baselines and gives it advantage 0, an evaluation leaves it out of
    every figure, and both count it. To call it wrong would be untrue: the solutions that three of MBPP's 427 problems
    ship return match objects. But a program can bring it about on purpose (docs/sandbox.md says how), and under a floor
    an advantage of 0 is better than a failure's: watch `corpo/unscorable`, and look at the programs if it rises.

    The prompt shows what published evaluations show, and no more of the tests: HumanEval's signature and docstring
    (with the examples that stand in it); of MBPP the sentence and its first test, where that set's authors show all
    three; the text of APPS and CodeContests with the starter code. MBPP's first test is one of those that are counted,
    so a program that only knows its result gets that share of the reward, and is not correct.

    Splits: a problem goes where its row's field `split` says. Where no row has one, one in five is `in_domain`, told by
    a hash of its id, which neither the order nor the rest of the file changes, and the others are `train`; `ood` and
    `other_domain` are then empty.

    Args:
        problems: Problems with tests of code, ids unique.
        judge: Runs the tests.

    Raises:
        DataError: There is no problem, one has no tests of code, only some name a split or one names another than
            `train` and the evaluation splits, or no problem falls into `train` or into any evaluation split.

    Example:
        >>> from corpo_rl.records import FunctionTests
        >>> tests = FunctionTests("double", "assert double(2) == 4\nassert double(5) == 10")
        >>> problems = [Problem(str(n), "Write double(x): twice x.", tests) for n in range(9)]
        >>> task = CodeTask(problems, judge=lambda answers: [Verdict("wrong", 1, 2) for _ in answers])
        >>> len(task.items("train")), len(task.items("in_domain"))
        (6, 3)
        >>> task.reward(problems[0], task.parse("def double(x): return x * x"))
        0.5
    """

    name = "code"
    min_correct = 1.0
    unparsable_reward = UNPARSABLE_REWARD

    def __init__(self, problems: Sequence[Problem], *, judge: JudgesCode) -> None:
        if not problems:
            raise DataError("code: expected at least one problem, found none")
        for problem in problems:
            if isinstance(problem.tests, FinalAnswer):
                raise DataError(
                    f"code: problem {problem.problem_id!r}: expected tests of a function or a program, found a final "
                    "answer; math is no code task"
                )
        self._items_of = _by_split(problems)
        self._judge = judge
        self._last: tuple[str, str, Verdict] | None = None

    def items(self, split: str) -> Sequence[Problem]:
        """Problems of a split, in the order given."""
        return tuple(self._items_of.get(split, ()))

    def prompt(self, item: Problem) -> str:
        """What the policy reads. Its form is ours; of the tests it shows what the class says."""
        begun = item.prompt.strip("\n")
        text = item.text.strip()
        parts = [] if text in begun else [text]
        if isinstance(item.tests, ProgramTests):
            asked = f"Write a Python program that reads standard input and prints to standard output, {_TERMS}"
        elif begun:
            asked = f"Complete this Python function. Write all of it {_TERMS}"
        else:
            asked = f"Write the Python code {_TERMS}"
            if not _names(text, _entry_point(item)):
                asked = f"Name the function {_entry_point(item)}. {asked}"
        return "\n\n".join([*parts, asked, *([f"```python\n{begun}\n```"] if begun else [])])

    def parse(self, completion: str) -> str:
        """The completion, whole: which of its code is the answer depends on the problem, and the judge decides it.

        That is the last block fenced as Python, of several the last that defines the function asked for; without a
        fence all of it.

        Raises:
            ParseFailure: Kind "empty": there is nothing but space.
        """
        if not completion.strip():
            raise ParseFailure("empty")
        return completion

    def reward(self, item: Problem, answer: str) -> float:
        """Tests passed / tests, in [0, 1].

        Raises:
            Unscorable: Kind "not_judged".
        """
        return _reward(self._verdict(item, answer))

    def measures(self, item: Problem, answer: str) -> Mapping[str, float]:
        """What became of the program, 1 or 0 each: `load_error`, `timeout`, `missing_module`."""
        return _measures(self._verdict(item, answer))

    def examples(self, item: Problem) -> Sequence[tuple[str, bool]]:
        """For `tasks.proof`: the problem's own solution if it has one, a program that does not load, and no program."""
        wrong = [("```python\nraise SystemExit\n```", False), ("I do not know.", False)]
        return [*([(f"```python\n{item.reference}\n```", True)] if item.reference else []), *wrong]

    def grade_many(self, items: Sequence[Problem], completions: Sequence[str]) -> list[Graded]:
        """The grades of a batch, judged in one call of the judge. See `tasks.base.grade_all`."""
        asked = [(item, text) for item, text in zip(items, completions, strict=True) if text.strip()]
        verdicts = iter(self._judged(asked))
        return [
            self._graded(next(verdicts))
            if text.strip()
            else Graded(reward=self.unparsable_reward, correct=False, failure="empty")
            for text in completions
        ]

    def _graded(self, verdict: Verdict) -> Graded:
        try:
            reward = _reward(verdict)
        except Unscorable as reason:
            return Graded(reward=math.nan, correct=False, failure=reason.kind)
        return Graded(reward=reward, correct=reward >= self.min_correct, failure=None, measures=_measures(verdict))

    def _judged(self, asked: Sequence[tuple[Problem, str]]) -> Sequence[Verdict]:
        verdicts = self._judge(asked) if asked else []
        if len(verdicts) != len(asked):
            raise DataError(f"code: expected {len(asked)} verdicts from the judge, got {len(verdicts)}")
        return verdicts

    def _verdict(self, item: Problem, answer: str) -> Verdict:
        """The verdict on one answer; the last one is kept, as reward and measures are asked for in turn."""
        if self._last is None or self._last[:2] != (item.problem_id, answer):
            self._last = (item.problem_id, answer, self._judged([(item, answer)])[0])
        return self._last[2]


def _entry_point(problem: Problem) -> str:
    assert isinstance(problem.tests, FunctionTests | CallTests), "only a program is asked for by no name"
    return problem.tests.entry_point


def _names(text: str, name: str) -> bool:
    """Whether a text calls a function by its name, or says that it is one; the bare word may be any."""
    word = re.escape(name)
    return re.search(rf"\b{word}\s*\(|`{word}`|(?i:\bfunction) {word}\b", text) is not None


def _reward(verdict: Verdict) -> float:
    if verdict.status == NOT_JUDGED or not verdict.total:
        raise Unscorable("not_judged")
    return verdict.passed / verdict.total


def _measures(verdict: Verdict) -> dict[str, float]:
    return {status: float(verdict.status == status) for status in (LOAD_ERROR, TIMEOUT, MISSING_MODULE)}


def _by_split(problems: Sequence[Problem]) -> dict[str, list[Problem]]:
    known = (TRAIN, *EVALUATION_SPLITS)
    named = any(problem.split is not None for problem in problems)
    found: dict[str, list[Problem]] = {}
    for problem in problems:
        split: Any = problem.split if named else _split_of(problem.problem_id)
        if split not in known:
            raise DataError(
                f"code: problem {problem.problem_id!r}: split: expected one of {', '.join(known)}, as other rows name "
                f"one, found {split or 'none'}"
            )
        found.setdefault(split, []).append(problem)
    if TRAIN not in found or len(found) < 2:
        told = ", ".join(f"{len(rows)} in {split}" for split, rows in found.items())
        how = "give more rows" if named else "a hash of the id puts one in five into in_domain: give more problems, or"
        raise DataError(
            f"code: expected problems in {TRAIN} and in one of {', '.join(EVALUATION_SPLITS)}, found {told} and none "
            f"elsewhere; {how} a field 'split'"
        )
    return found


def _split_of(problem_id: str) -> str:
    number = int.from_bytes(hashlib.sha256(problem_id.encode("utf-8", "surrogatepass")).digest()[:8], "big")
    return "in_domain" if number % IN_DOMAIN_SHARE == 0 else TRAIN
