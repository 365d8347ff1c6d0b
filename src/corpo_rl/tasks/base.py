"""What a task must offer to be trained on and evaluated."""

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, Protocol

from corpo_rl.errors import DataError, ParseFailure
from corpo_rl.records import Graded


class Task(Protocol):
    """A problem set with a graded reward. Items and answers are whatever the task likes; nobody else looks inside.

    Example:
        A whole task, in the form a user writes it:

        >>> class Doubling:
        ...     name = "doubling"
        ...     min_correct = 1.0
        ...     unparsable_reward = -1.0
        ...
        ...     def items(self, split):
        ...         return [2, 3] if split == "train" else [5]
        ...
        ...     def prompt(self, item):
        ...         return f"twice {item} is "
        ...
        ...     def parse(self, completion):
        ...         if not completion.strip().isdigit():
        ...             raise ParseFailure("not_a_number")
        ...         return int(completion)
        ...
        ...     def reward(self, item, answer):
        ...         return 1.0 - abs(answer - 2 * item) / 10
        ...
        ...     def measures(self, item, answer):
        ...         return {}
        >>> grade(Doubling(), 3, "5")
        Graded(reward=0.9, correct=False, failure=None, measures={})
        >>> grade(Doubling(), 3, "six").failure
        'not_a_number'
    """

    name: str
    """Short name, used in folders and reports."""
    min_correct: float
    """Least reward that counts as correct, in task units (`reward >= min_correct`)."""
    unparsable_reward: float
    """Reward of a completion that does not parse; under `min_correct`."""

    def items(self, split: str) -> Sequence[Any]:
        """Items of a split, always in the same order; empty when the task has no such split."""

    def prompt(self, item: Any) -> str:
        """Text put to the policy, before any chat template."""

    def parse(self, completion: str) -> Any:
        """Answer held in a completion, strictly. Raises `ParseFailure` with the kind of failure."""

    def reward(self, item: Any, answer: Any) -> float:
        """Graded reward of a parsed answer, in task units."""

    def measures(self, item: Any, answer: Any) -> Mapping[str, float]:
        """Further figures of a parsed answer, averaged in reports; may be empty."""


def grade(task: Task, item: Any, completion: str) -> Graded:
    """Grade one completion: parse, reward, and whether the reward reaches `task.min_correct`.

    Raises:
        DataError: The task gave a reward that is not a finite number. What cannot be graded has to raise
            `ParseFailure`, so that it is counted.
    """
    try:
        answer = task.parse(completion)
    except ParseFailure as failure:
        return Graded(reward=task.unparsable_reward, correct=False, failure=failure.kind)
    reward = task.reward(item, answer)
    if not isinstance(reward, Real) or not math.isfinite(reward):
        raise DataError(
            f"task {task.name}: expected a finite number as reward, got {reward!r} for the completion "
            f"{completion[:60]!r}; raise ParseFailure for what cannot be graded"
        )
    return Graded(reward=reward, correct=reward >= task.min_correct, failure=None, measures=task.measures(item, answer))
