"""What a task must offer to be trained on and evaluated."""

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, Protocol

from corpo_rl.errors import DataError, ParseFailure, Unscorable
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
        """Graded reward of a parsed answer, in task units. Raises `Unscorable` where nothing can be said of it."""

    def measures(self, item: Any, answer: Any) -> Mapping[str, float]:
        """Further figures of a parsed answer, averaged in reports; may be empty."""


def grade(task: Task, item: Any, completion: str) -> Graded:
    """Grade one completion: parse, reward, and whether the reward reaches `task.min_correct`.

    Where the task's `reward` raises `Unscorable` the reward is NaN, the completion not correct, and `failure` the
    kind: trainers leave it out of every baseline, evaluations out of every figure, and both count it.

    Raises:
        DataError: The task gave a reward that is not a finite number. What cannot be graded has to raise
            `ParseFailure` (it is the completion's fault) or `Unscorable` (it is not), so that it is counted.
    """
    try:
        answer = task.parse(completion)
    except ParseFailure as failure:
        return Graded(reward=task.unparsable_reward, correct=False, failure=failure.kind)
    try:
        reward = task.reward(item, answer)
    except Unscorable as reason:
        return Graded(reward=math.nan, correct=False, failure=reason.kind)
    if not isinstance(reward, Real) or not math.isfinite(reward):
        raise DataError(
            f"task {task.name}: expected a finite number as reward, got {reward!r} for the completion "
            f"{completion[:60]!r}; raise ParseFailure for what cannot be graded"
        )
    return Graded(reward=reward, correct=reward >= task.min_correct, failure=None, measures=task.measures(item, answer))


def grade_all(task: Task, items: Sequence[Any], completions: Sequence[str]) -> list[Graded]:
    """Grade a batch, a completion of each item: one by one, or by the task's own `grade_many` where it has one.

    A task whose grading is slow (it runs programs, or asks a server) may offer, beside `Task`,

        grade_many(items: Sequence[Any], completions: Sequence[str]) -> Sequence[Graded]

    to grade what is equal once, and side by side. It has to give what `grade` gives for each by itself.

    Args:
        task: The task.
        items: Item of each completion. Items may come again.
        completions: As many.

    Returns:
        As many, in the same order.

    Raises:
        DataError: As `grade`; or `grade_many` gave another number, or a reward that is neither finite nor, with a
            `failure` that says why, NaN.

    Example:
        >>> class Length:
        ...     name, min_correct, unparsable_reward = "length", 3.0, -1.0
        ...     items = prompt = measures = lambda self, *_: {}
        ...     parse = lambda self, completion: completion
        ...     reward = lambda self, item, answer: float(len(answer))
        >>> [graded.reward for graded in grade_all(Length(), ["a", "b"], ["xy", "xyz"])]
        [2.0, 3.0]
    """
    if len(items) != len(completions):
        raise DataError(f"task {task.name}: expected a completion of each item, got {len(completions)} of {len(items)}")
    grade_many = getattr(task, "grade_many", None)
    if grade_many is None:
        return [grade(task, item, completion) for item, completion in zip(items, completions, strict=True)]
    graded = list(grade_many(items, completions))
    if len(graded) != len(items):
        raise DataError(f"task {task.name}: expected {len(items)} grades from grade_many, got {len(graded)}")
    for one, completion in zip(graded, completions, strict=True):
        if isinstance(one.reward, Real) and (math.isfinite(one.reward) or _is_unknown(one)):
            continue
        raise DataError(
            f"task {task.name}: expected a finite number as reward, or NaN with the reason as failure, got "
            f"{one.reward!r} for the completion {completion[:60]!r}"
        )
    return graded


def _is_unknown(graded: Graded) -> bool:
    return math.isnan(graded.reward) and graded.failure is not None and not graded.correct
