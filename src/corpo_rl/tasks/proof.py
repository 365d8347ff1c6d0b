"""A task proves itself without a model: known right answers are correct, known wrong ones and junk are not.

Beside `tasks.base.Task` a task may offer

    examples(item) -> Sequence[tuple[str, bool]]     completions, and whether each is correct
    hidden(item) -> Sequence[str]                    texts that its prompt may not hold, such as the reference answer

Good examples are a right answer, wrong ones that come near it, and a right answer in a form that is not asked for.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

from corpo_rl.errors import UsageError, one_line
from corpo_rl.records import EVALUATION_SPLITS, TRAIN, Graded
from corpo_rl.tasks.base import Task, grade, grade_all

SPLITS = (TRAIN, *EVALUATION_SPLITS)

JUNK: Mapping[str, str] = {
    "nothing": "",
    "space": " \n\t ",
    "null characters": "\0\0",
    "100,000 letters": "x" * 100_000,
    "letters of many scripts": "\u4f60\u597d \u05e9\u05dc\u05d5\u05dd \u202e\U0001f642 e\u0301",
    "half a surrogate pair": "\ud83d",
}
"""Completions that answer nothing, by what they are. The prompt itself is one more."""

PROMPT = "the prompt itself"


class Example(NamedTuple):
    """A completion with what became of it."""

    split: str
    place: int
    """Place of its item in the split, from 0."""
    text: str
    junk: str | None
    """What junk it is; None for an example of the task."""
    right: bool
    """Whether it is known to be correct; junk never is."""
    graded: Graded | None
    """None where grading failed."""
    error: str = ""
    """How grading failed."""


@dataclass(frozen=True)
class Violation:
    """Something that does not hold, with the first place where it does not."""

    kind: str
    """In words, one of those that `prove` lists."""
    first: str
    """Where, and what was found, on one line."""
    count: int
    """Times it was met."""


@dataclass(frozen=True)
class Proof:
    """What was asked of a task, and what did not hold."""

    n_items: Mapping[str, int]
    """Items of each split."""
    n_proved: Mapping[str, int]
    """How many of them, the first, had their examples graded."""
    n_right: int
    """Examples known to be right."""
    n_wrong: int
    """Examples known to be wrong."""
    n_junk: int
    """Junk completions."""
    rewards: Mapping[float, int]
    """Rewards met, lowest first, each with the number of completions that got it."""
    failures: Mapping[str, int]
    """Kinds of parse failure met, most frequent first."""
    violations: tuple[Violation, ...]
    notes: tuple[str, ...]
    """What could not be checked, and what is allowed but worth knowing, a sentence each."""
    examples: tuple[Example, ...]
    """All that was graded, in order."""

    @property
    def holds(self) -> bool:
        """Whether nothing was found."""
        return not self.violations


def prove(task: Task, *, n_items: int | None = 20) -> Proof:
    """Check a task against what it knows of itself.

    Of all items: the prompt is text, and none is in two splits; `train` and one other split have items. Of the first
    `n_items` of each split:

        the prompt is the same when asked again, and holds nothing that the task's `hidden` names;
        right examples reach `min_correct`, and wrong ones do not;
        junk never does, and gets a reward all the same;
        no grading fails, says that nothing is known, or gives a reward or measure that is no finite number.

    And `unparsable_reward` is below `min_correct`, both finite.

    Args:
        task: Any task.
        n_items: Items of each split whose examples are graded; None for all.

    Raises:
        UsageError: `n_items` is below 1.

    Example:
        >>> from corpo_rl.tasks.mini import MiniTask
        >>> proof = prove(MiniTask(), n_items=2)
        >>> proof.holds, proof.n_right, proof.n_wrong, proof.n_junk
        (True, 16, 48, 56)
    """
    if n_items is not None and n_items < 1:
        raise UsageError(f"items: expected a number of at least 1, got {n_items}")
    found = _Found()
    gradable = _check_threshold(task, found)
    items = {split: _items(task, split, found) for split in SPLITS}
    if not items[TRAIN] or not any(items[split] for split in EVALUATION_SPLITS):
        found.add("a split is empty", f"expected items in {TRAIN} and in one of {', '.join(EVALUATION_SPLITS)}")
    n_repeated = _check_prompts(task, items, found)
    chosen = {split: items[split][:n_items] if gradable else [] for split in SPLITS}
    examples = tuple(
        example for split in SPLITS for example in _graded(task, split, list(_asked(task, split, chosen[split], found)))
    )
    for example in examples:
        _check_example(example, task.min_correct, found)
    n_right = sum(example.right for example in examples)
    n_junk = sum(example.junk is not None for example in examples)
    grades = [example.graded for example in examples if example.graded is not None]
    return Proof(
        n_items={split: len(items[split]) for split in SPLITS},
        n_proved={split: len(chosen[split]) for split in SPLITS},
        n_right=n_right,
        n_wrong=len(examples) - n_right - n_junk,
        n_junk=n_junk,
        rewards=dict(sorted(Counter(float(one.reward) for one in grades if one.scorable).items())),
        failures=dict(Counter(one.failure for one in grades if one.failure is not None).most_common()),
        violations=found.violations(),
        notes=tuple(_notes(task, examples, n_repeated=n_repeated, n_right=n_right, n_junk=n_junk)),
        examples=examples,
    )


class _Found:
    """Violations as they come up: the first of each kind is kept, the others are counted."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}
        self._count: Counter[str] = Counter()

    def add(self, kind: str, what: str) -> None:
        self._first.setdefault(kind, one_line(what))
        self._count[kind] += 1

    def violations(self) -> tuple[Violation, ...]:
        return tuple(Violation(kind, first, self._count[kind]) for kind, first in self._first.items())


def _check_threshold(task: Task, found: _Found) -> bool:
    """Whether there is a threshold to grade by."""
    values = {"min_correct": task.min_correct, "unparsable_reward": task.unparsable_reward}
    for name, value in values.items():
        if not _is_finite(value):
            found.add("a threshold is no finite number", f"{name}: found {value!r}")
            return False
    if task.unparsable_reward >= task.min_correct:
        found.add(
            "what does not parse is correct",
            f"unparsable_reward {task.unparsable_reward} has to be below min_correct {task.min_correct}",
        )
    return True


def _items(task: Task, split: str, found: _Found) -> Sequence[Any]:
    try:
        return list(task.items(split))
    except Exception as error:  # the task's own code
        found.add("the task fails", f"items({split!r}) raised {_said(error)}")
        return []


def _check_prompts(task: Task, items: Mapping[str, Sequence[Any]], found: _Found) -> int:
    """Prompts of all items; returns how many repeat another of their split."""
    split_of: dict[str, tuple[str, int]] = {}
    n_repeated = 0
    for split in SPLITS:
        for place, item in enumerate(items[split]):
            try:
                prompt = task.prompt(item)
            except Exception as error:  # the task's own code
                found.add("the task fails", f"{split} {place}: prompt raised {_said(error)}")
                continue
            if not isinstance(prompt, str) or not prompt.strip():
                found.add("a prompt is no text", f"{split} {place}: found {_short(prompt)}")
                continue
            other, first = split_of.setdefault(prompt, (split, place))
            if other != split:
                found.add("a prompt is in two splits", f"{split} {place} and {other} {first}: {_short(prompt)}")
            elif first != place:
                n_repeated += 1
    return n_repeated


def _asked(task: Task, split: str, items: Sequence[Any], found: _Found) -> Iterator[tuple[Any, Example]]:
    """Items with the completions to grade: the task's examples of each, and the junk."""
    own = getattr(task, "examples", None)
    hidden = getattr(task, "hidden", None)
    for place, item in enumerate(items):
        try:
            prompt = task.prompt(item)
            again = task.prompt(item)
            named = [(str(text), bool(right)) for text, right in own(item)] if own is not None else []
            secrets = [str(text) for text in hidden(item)] if hidden is not None else []
        except Exception as error:  # the task's own code
            found.add("the task fails", f"{split} {place}: prompt, examples or hidden raised {_said(error)}")
            continue
        if not isinstance(prompt, str):
            continue  # said of all items before
        if again != prompt:
            found.add("a prompt changes when asked again", f"{split} {place}: {_short(prompt)}")
        for secret in secrets:
            if secret and secret in prompt:
                found.add("a prompt holds what it should hide", f"{split} {place}: {_short(secret)}")
        for text, right in named:
            yield item, Example(split, place, text, None, right, None)
        for what, text in {**JUNK, PROMPT: prompt}.items():
            yield item, Example(split, place, text, what, right=False, graded=None)


def _graded(task: Task, split: str, asked: Sequence[tuple[Any, Example]]) -> Iterator[Example]:
    """All of a split in one batch, as training does it; one by one where that fails, to see which it was."""
    try:
        grades: Sequence[Graded] = grade_all(task, [item for item, _ in asked], [example.text for _, example in asked])
    except Exception:  # the task's own code; what it said is caught below
        for item, example in asked:
            try:
                yield example._replace(graded=grade(task, item, example.text))
            except Exception as error:  # the task's own code
                yield example._replace(error=_said(error))
        return
    for (_, example), graded in zip(asked, grades, strict=True):
        yield example._replace(graded=graded)


def _check_example(example: Example, min_correct: float, found: _Found) -> None:
    what = example.junk or f"the example {_short(example.text)}"
    where = f"{example.split} {example.place}: {what}"
    graded = example.graded
    if graded is None:
        found.add("grading fails", f"{where} raised {example.error}")
        return
    if not graded.scorable:
        found.add("nothing is known of a completion", f"{where} ({graded.failure})")
        return
    got = f"{where} got {graded.reward:g}, min_correct is {min_correct:g}"
    got += f" (parse failure {graded.failure})" if graded.failure else ""
    if example.right and not graded.correct:
        found.add("a right example is not correct", got)
    elif graded.correct and not example.right:
        found.add("junk is correct" if example.junk else "a wrong example is correct", got)
    for name, value in graded.measures.items():
        if not _is_finite(value):
            found.add("a measure is no finite number", f"{where}: {name}: found {value!r}")


def _notes(task: Task, examples: Sequence[Example], *, n_repeated: int, n_right: int, n_junk: int) -> Iterator[str]:
    if getattr(task, "examples", None) is None:
        yield "The task has no method examples(item), so nothing is known of right and wrong answers but junk."
    elif n_right == 0:
        yield "No example is a right one: whether anything reaches min_correct is not known."
    elif n_right + n_junk == len(examples):
        yield "No example is a wrong one: whether wrong answers stay below min_correct is not known."
    if n_repeated:
        yield f"{n_repeated:,} items have the prompt of another item of their split."
    failed = {example.graded.reward for example in examples if example.graded and not example.graded.correct}
    if len(failed) == 1:
        yield "All failures met are worth the same: as far as the examples go the reward is right or wrong, not graded."


def _is_finite(value: object) -> bool:
    return isinstance(value, Real) and math.isfinite(value)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {_short(str(error))}"


def _short(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return repr(text if len(text) <= 60 else text[:57] + "...")
