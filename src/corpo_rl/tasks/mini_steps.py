"""The mini task of many steps: sums of three and four numbers, written out as running sums, every line checkable.

    prompt      12+47+25:
    completion  59;84

The characters are those of the embedded policy. Its weights know another form, so a supervised warm start comes first.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from corpo_rl.errors import ParseFailure, UsageError
from corpo_rl.records import EVALUATION_SPLITS, TRAIN
from corpo_rl.tasks.mini import wrong_answers
from corpo_rl.tasks.verifier import MIN_CORRECT, UNPARSABLE_REWARD

SIZES = {TRAIN: 4000, "in_domain": 200}
"""Items per split; the other splits have none."""

SLIP = 0.15
"""Share of lines of a warm start's examples that slip. With it a policy that has learnt all they teach solves
0.85^2 = 72 % of the short problems and 0.85^3 = 61 % of the long ones."""

_SEED = 2511_04439
_LINE = re.compile(r"0|[1-9][0-9]{0,3}", re.ASCII)


@dataclass(frozen=True)
class SumItem:
    """A sum of three or four two-digit numbers."""

    item_id: str
    """Unique within its split."""
    operands: tuple[int, ...]
    split: str

    @property
    def n_lines(self) -> int:
        """Lines of a whole answer: a running sum for every operand but the first."""
        return len(self.operands) - 1


class Step(NamedTuple):
    """A step of a completion: the half-open range of its characters, and what it is worth."""

    start: int
    end: int
    """The range of a line takes in the separator after it, the decision that the number ends there. An empty range at
    the end of the text is the decision to stop."""
    reward: float | None
    """In [-1, 1]; correct from `MiniStepsTask.step_min_correct` on. None where there is nothing to judge it by."""


class MiniStepsTask:
    """Running sums, judged as a whole by the last line and step by step by every line. A `tasks.base.Task`.

    The outcome is the last line against the true total. A step is a line against what its own line before and the next
    operand add up to: so a line can be right after a wrong one, and a right total can follow from two wrong lines. Both
    are graded by how far the number is off:

        1 if right, else -min(1, |error| / 100)

    Half of the problems have three operands and two lines, half four and three. No problem occurs twice, in whatever
    order its operands stand.

    Example:
        >>> task = MiniStepsTask()
        >>> item = SumItem("x", (12, 47, 25), "train")
        >>> task.prompt(item), task.reward(item, task.parse("59;84")), task.reward(item, task.parse("58;83"))
        ('12+47+25:', 1.0, -0.01)
        >>> task.step_rewards(item, "58;83")
        [Step(start=0, end=3, reward=-0.01), Step(start=3, end=5, reward=1.0)]
    """

    name = "mini_steps"
    min_correct = MIN_CORRECT
    unparsable_reward = UNPARSABLE_REWARD
    step_min_correct = MIN_CORRECT
    """Least reward with which a step counts as correct; only a right line gets it."""

    def items(self, split: str) -> Sequence[SumItem]:
        """Items of a split; the same ones, in the same order, on every call and machine.

        Raises:
            UsageError: No task has such a split.
        """
        if split not in (TRAIN, *EVALUATION_SPLITS):
            raise UsageError(f"split: expected one of {', '.join((TRAIN, *EVALUATION_SPLITS))}, got {split!r}")
        return _all_items().get(split, ())

    def prompt(self, item: SumItem) -> str:
        """The problem, e.g. "12+47+25:"."""
        return "+".join(map(str, item.operands)) + ":"

    def parse(self, completion: str) -> tuple[int, ...]:
        """The lines of a completion. How many there should be is for `reward` to say, which knows the problem.

        Raises:
            ParseFailure: Kind "empty", or "malformed" where a line is not a whole number of up to four digits without
                leading zeros.
        """
        if not completion:
            raise ParseFailure("empty")
        lines = completion.split(";")
        if not all(_LINE.fullmatch(line) for line in lines):
            raise ParseFailure("malformed")
        return tuple(map(int, lines))

    def reward(self, item: SumItem, answer: tuple[int, ...]) -> float:
        """Closeness of the last line to the total, in [-1, 1]; -1 for too few or too many lines."""
        if len(answer) != item.n_lines:
            return UNPARSABLE_REWARD
        return _closeness(answer[-1], sum(item.operands))

    def measures(self, item: SumItem, answer: tuple[int, ...]) -> Mapping[str, float]:
        """Figures beside the reward.

        - right_lines: share of the lines, of those there should be, that follow from the line before.
        - wrong_number_of_lines: 1 for too few or too many.
        - unsound: 1 when the total is right and a line does not follow from the one before.
        """
        lines = zip((item.operands[0], *answer), item.operands[1:], answer, strict=False)
        n_right = sum(before + operand == line for before, operand, line in lines)
        right_total = self.reward(item, answer) >= self.min_correct
        return {
            "right_lines": n_right / item.n_lines,
            "wrong_number_of_lines": float(len(answer) != item.n_lines),
            "unsound": float(right_total and n_right < item.n_lines),
        }

    def step_rewards(self, item: SumItem, completion: str) -> list[Step]:
        """The steps of a completion, whether it parses as a whole or not: their characters and rewards, in order.

        Each line is judged by the policy's own line before. A line that is no number is worth -1, and the one after it
        None: there is nothing to judge it by. Whatever follows the last line that the problem needs is one step worth
        -1, and so is stopping before it.

        Example:
            >>> steps = MiniStepsTask().step_rewards(SumItem("x", (12, 47, 25, 10), "train"), "59;+;94;94;9")
            >>> [(step.start, step.end, step.reward) for step in steps]
            [(0, 3, 1.0), (3, 5, -1.0), (5, 7, None), (7, 12, -1.0)]
        """
        steps: list[Step] = []
        before: int | None = item.operands[0]
        start = 0
        lines = completion.split(";")
        if lines[-1] == "":  # nothing after a separator, or nothing at all, is no line
            lines.pop()
        for number, (line, operand) in enumerate(zip(lines, item.operands[1:], strict=False), start=1):
            # the separator after the last line is the first character too many, unless the line is nothing but that
            with_separator = number < item.n_lines or not line
            end = min(start + len(line) + with_separator, len(completion))
            value = int(line) if _LINE.fullmatch(line) else None
            reward = -1.0 if value is None else None if before is None else _closeness(value, before + operand)
            steps.append(Step(start, end, reward))
            before, start = value, end
        if start < len(completion):
            steps.append(Step(start, len(completion), -1.0))
        elif len(steps) < item.n_lines:
            steps.append(Step(start, start, -1.0))
        return steps

    def format_example(self, item: SumItem, rng: np.random.Generator) -> str:
        """A whole answer in which each line slips with the chance `SLIP`, and the next goes on from what it says."""
        before, lines = item.operands[0], []
        for operand in item.operands[1:]:
            right = before + operand
            before = wrong_answers(rng, right)[0] if rng.random() < SLIP else right
            lines.append(str(before))
        return ";".join(lines)


def make_item(rng: np.random.Generator, n_operands: int, *, split: str, item_id: str) -> SumItem:
    """A sum of that many random two-digit numbers."""
    return SumItem(item_id, tuple(int(value) for value in rng.integers(10, 100, size=n_operands)), split)


@cache
def held_out_problems() -> frozenset[tuple[int, ...]]:
    """Operands of the problems that policies are judged on, in order of size: nothing may be trained on them."""
    return frozenset(tuple(sorted(item.operands)) for item in _all_items()["in_domain"])


def warm_start_examples(rng: np.random.Generator, n: int) -> list[tuple[str, str]]:
    """Prompts and completions to learn the form and some skill from, none of them about a held-out problem.

    Example:
        >>> warm_start_examples(np.random.default_rng(0), 2)
        [('86+67+56:', '164;220'), ('34+83+70+10:', '117;198;118')]
    """
    task = MiniStepsTask()
    examples: list[tuple[str, str]] = []
    while len(examples) < n:
        item = make_item(rng, 3 + len(examples) % 2, split=TRAIN, item_id="warmstart")
        if tuple(sorted(item.operands)) not in held_out_problems():
            examples.append((task.prompt(item), task.format_example(item, rng)))
    return examples


def _closeness(value: int, right: int) -> float:
    return 1.0 if value == right else -min(1.0, abs(value - right) / 100)


@cache
def _all_items() -> Mapping[str, tuple[SumItem, ...]]:
    rng = np.random.default_rng(_SEED)
    seen: set[tuple[int, ...]] = set()
    items = {}
    for split in ("in_domain", TRAIN):
        made: list[SumItem] = []
        while len(made) < SIZES[split]:
            kind = len(made) % 2
            item = make_item(rng, 3 + kind, split=split, item_id=f"{split}-{len(made):04d}-{('short', 'long')[kind]}")
            if tuple(sorted(item.operands)) not in seen:
                seen.add(tuple(sorted(item.operands)))
                made.append(item)
        items[split] = tuple(made)
    return items
