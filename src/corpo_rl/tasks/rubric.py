"""The rubric task: grade a text by a rubric, from 1 to 5, as a person or a stronger model graded it before."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from corpo_rl.errors import DataError, ParseFailure

LOWEST, HIGHEST = 1, 5

MIN_CORRECT = 0.75
"""Least reward of a score within half a grade of the reference: of a whole reference that score alone."""

UNPARSABLE_REWARD = -1.0
"""That of a score four grades off, the worst there is."""

_SCORE_LINE = re.compile(r"Score:[ \t]*(\S.*)?")
_INTEGER = re.compile(r"[+-]?[0-9]{1,4}")


@dataclass(frozen=True)
class RubricItem:
    """A text that answers an instruction, the rubric to grade it by, and the grade it got."""

    item_id: str
    """Unique within its split."""
    instruction: str
    """What the text was written for."""
    response: str
    """The text to grade."""
    rubric: str
    """What is asked of the text, and what deserves each grade."""
    score: float
    """The reference, from 1 to 5. A fraction is the mean of several raters."""
    split: str
    """`train` or one of the evaluation splits."""
    reference_answer: str = ""
    """A text that deserves a 5, shown to the policy; empty where there is none."""


class RubricTask:
    r"""Grade a text by a rubric: the completion ends with the line `Score: <1 to 5>`. A `tasks.base.Task`.

    Text before that line is allowed (an explanation), text after it is not. The reward falls with the distance of the
    score v from the reference s, by the same amount for every grade:

        R = 1 - |v - s| / 2,  in [-1, 1]

    A score within half a grade of the reference, R >= 0.75, is correct: of a whole reference only the score itself, of
    a mean of raters one or both of its neighbours, so every item can be solved. It can be gamed by a grade in the
    middle: always answering 3 is never more than two grades off, gets 0 at least, and is correct only where the
    reference is near 3. The square of the distance would pay it 0.5 instead of 0 where the reference is 1 or 5. A
    floor at `min_correct` treats it as the failure it is.

    Args:
        items: The items, of any splits.

    Raises:
        DataError: There is no item.

    Example:
        >>> item = RubricItem("1", "Name a prime.", "Nine.", "Is it right? 1: no. 5: yes.", score=1, split="train")
        >>> task = RubricTask([item])
        >>> [task.reward(item, task.parse(f"It is 3 * 3.\nScore: {score}")) for score in (1, 2, 5)]
        [1.0, 0.5, -1.0]
    """

    name = "rubric"
    min_correct = MIN_CORRECT
    unparsable_reward = UNPARSABLE_REWARD

    def __init__(self, items: Sequence[RubricItem]) -> None:
        if not items:
            raise DataError("rubric: expected at least one item, found none")
        self._items_of: dict[str, list[RubricItem]] = {}
        for item in items:
            self._items_of.setdefault(item.split, []).append(item)

    def items(self, split: str) -> Sequence[RubricItem]:
        """Items of a split, in the order given."""
        return tuple(self._items_of.get(split, ()))

    def prompt(self, item: RubricItem) -> str:
        """Instruction, text, rubric and the form asked for; the reference score is not in it."""
        best = f"\n\nA text that deserves a 5:\n{item.reference_answer}" if item.reference_answer else ""
        return (
            f"Instruction:\n{item.instruction}\n\nText:\n{item.response}{best}\n\nRubric:\n{item.rubric}\n\n"
            "Grade the text by the rubric, from 1 (worst) to 5 (best). End with one line:\n"
            "Score: <grade>"
        )

    def parse(self, completion: str) -> int:
        """The score, strictly.

        Failure kinds: `empty`; `no_score`: no line begins with `Score:`; `text_after_score`: one does, but not the
        last; `repeated_score`: more than one does; `malformed`: the score is not an integer; `out_of_range`: it is not
        in 1..5.
        """
        lines = [line.strip() for line in completion.split("\n") if line.strip()]
        if not lines:
            raise ParseFailure("empty")
        matches = [_SCORE_LINE.fullmatch(line) for line in lines]
        if not any(matches):
            raise ParseFailure("no_score")
        last = matches[-1]
        if last is None:
            raise ParseFailure("text_after_score")
        if any(matches[:-1]):
            raise ParseFailure("repeated_score")
        if last.group(1) is None or _INTEGER.fullmatch(last.group(1)) is None:
            raise ParseFailure("malformed")
        score = int(last.group(1))
        if not LOWEST <= score <= HIGHEST:
            raise ParseFailure("out_of_range")
        return score

    def reward(self, item: RubricItem, answer: int) -> float:
        """1 - |score - reference| / 2, in [-1, 1]."""
        return 1.0 - abs(answer - item.score) / 2

    def measures(self, item: RubricItem, answer: int) -> Mapping[str, float]:
        """Figures beside the reward.

        - absolute_error: distance from the reference, in grades.
        - exact: 1 when the score is the reference; of a reference that is no whole number it never is.
        - within_one: 1 when it is at most one grade off.
        - bias: score minus reference, in grades; its mean is above 0 for a judge who is too kind.
        """
        error = answer - item.score
        return {
            "absolute_error": abs(error),
            "exact": float(error == 0),
            "within_one": float(abs(error) <= 1),
            "bias": float(error),
        }

    def format_example(self, item: RubricItem, rng: np.random.Generator) -> str:
        """A completion in the form asked for, to teach the form and little else.

        Half are the whole grade nearest to the reference, the others any grade: a policy that learns from them leans
        to no grade but the common ones of the data.
        """
        score = _nearest(item.score) if rng.random() < 0.5 else int(rng.integers(LOWEST, HIGHEST + 1))
        return f"Score: {score}"

    def examples(self, item: RubricItem) -> Sequence[tuple[str, bool]]:
        """Completions and whether each is correct: every grade, and the right one in forms that are not asked for."""
        right = _nearest(item.score)
        graded = [(f"Score: {score}", abs(score - item.score) <= 0.5) for score in range(LOWEST, HIGHEST + 1)]
        form = f"Score: {right}"
        broken = (
            str(right),
            f"{form}/5",
            f"{form}.0",
            f"{form}\nThat is my grade.",
            f"{form}\n{form}",
            f"It deserves {form}",
            f"Score: {HIGHEST + right}",
            f"Score: -{right}",
        )
        return [*graded, (f"The rubric asks for this.\n\n{form}\n", True), *((text, False) for text in broken)]


def _nearest(score: float) -> int:
    return min(range(LOWEST, HIGHEST + 1), key=lambda grade: abs(grade - score))
