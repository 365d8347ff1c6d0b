"""Puzzles of the package reasoning-gym (Apache-2.0), made from seeds without end, and scored by rules.

Only those whose score is graded correctness: `tasks.puzzle_list` says what each score means, and why others are not
taken.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from corpo_rl.errors import DataError, MissingExtraError, ParseFailure, UsageError
from corpo_rl.records import EVALUATION_SPLITS, TRAIN
from corpo_rl.tasks.puzzle_list import PUZZLES, REFUSED, Entry

SIZE = 1000
"""Training items; ours. A board of sudoku takes 20 ms to make."""

EVALUATION_SIZE = 100
"""Items of each evaluation split; ours."""

UNPARSABLE_REWARD = -0.1
"""Reward of a completion without an answer; ours. Under that of any wrong answer, which is at least 0."""

FORM_CREDIT = 0.05
"""Scores up to here count as 0: several scorers of the package pay them for a wrong answer in the right form."""

NEARLY = 0.9
"""Reward of the right answer with more behind it, where the scorer would give full marks."""

_STREAM = 1_000_000
"""Seeds between two streams of puzzles. The package makes puzzle i of seed s from the number s + i, so that seeds near
each other give the same puzzles."""

_OPEN, _CLOSE = "<answer>", "</answer>"


@dataclass(frozen=True)
class PuzzleItem:
    """A puzzle with its reference answer."""

    item_id: str
    """Unique within its split."""
    puzzle: str
    """Its name, as in `PUZZLES`."""
    question: str
    answer: str
    """A right answer; of some puzzles there are others."""
    split: str
    entry: Entry = field(repr=False, compare=False)
    """All that the package's scorer wants to know."""


class PuzzlesTask:
    """Solve puzzles; the completion ends with `<answer>...</answer>`. A `tasks.base.Task`.

    Reward: the package's own score, in [0, 1], with three corrections. Up to 0.05 it is 0 (credit for form). Above 1,
    or where no number, it is 0 (no scorer in the list was seen to do that). Where just one text is right but the scorer
    would give full marks to it with more behind, it is 0.9. Correct is 1: solved entirely.

    Answers that the package's scorer fails on get the reward of no answer, and 1 in the measure `scorer_error`.

    Splits, none with a puzzle of another:
        train, in_domain: the first names, in turn, with easy settings.
        ood: the same names with harder settings.
        other_domain: the last name, easy, where there are several; it is then in no other split.

    Args:
        names: Puzzles, as in `PUZZLES`.
        size: Training items. Small puzzles may give fewer.
        evaluation_size: Items of each other split.
        seed: Decides which puzzles are made.

    Raises:
        UsageError: A name is unknown, refused or there twice, or a size is out of range.
        MissingExtraError: The package is not installed.

    Example:
        >>> task = PuzzlesTask(["word_sorting"], size=2)
        >>> task.parse("Easy. <answer>a, b</answer>")
        'a, b'
    """

    name = "puzzles"
    min_correct = 1.0
    unparsable_reward = UNPARSABLE_REWARD

    def __init__(
        self, names: Sequence[str], *, size: int = SIZE, evaluation_size: int = EVALUATION_SIZE, seed: int = 0
    ) -> None:
        _check_names(names)
        for what, value in (("size", size), ("evaluation_size", evaluation_size)):
            if not 1 <= value <= _STREAM // 100:
                raise UsageError(f"puzzles: {what}: expected a number from 1 to {_STREAM // 100:,}, got {value}")
        if not 0 <= seed < 1000:
            raise UsageError(f"puzzles: seed: expected a number from 0 to 999, got {seed}")
        try:
            self._create = import_module("reasoning_gym").create_dataset
        except ImportError as error:
            raise MissingExtraError("the task puzzles", "puzzles") from error
        self._trained = tuple(names[:-1]) if len(names) > 1 else tuple(names)
        self._other = tuple(names[-1:]) if len(names) > 1 else ()
        self._sizes = {TRAIN: size, **dict.fromkeys(EVALUATION_SPLITS, evaluation_size)}
        self._seed = seed
        self._made: dict[str, tuple[PuzzleItem, ...]] = {}
        self._scorers: dict[tuple[str, bool], Any] = {}

    def items(self, split: str) -> Sequence[PuzzleItem]:
        """Items of a split; the same ones, in the same order, on every call. The first call makes them.

        Raises:
            UsageError: No task has such a split.
            DataError: The settings give no puzzle at all.
        """
        if split not in self._sizes:
            raise UsageError(f"split: expected one of {', '.join(self._sizes)}, got {split!r}")
        for earlier in (*EVALUATION_SPLITS, TRAIN):  # in this order, so that train gives way
            if earlier not in self._made:
                self._made[earlier] = self._make(earlier)
            if earlier == split:
                break
        return self._made[split]

    def prompt(self, item: PuzzleItem) -> str:
        """The package's question and the form asked for."""
        asked = f"End with your final answer between {_OPEN} and {_CLOSE}, and nothing else there."
        return f"{item.question.strip()}\n\n{asked}"

    def parse(self, completion: str) -> str:
        """What stands in the last `<answer>...</answer>`, which has to end the text.

        Earlier ones are taken for thinking aloud. Failure kinds: `empty`; `no_answer`: there is no `<answer>`;
        `text_after_answer`: there is one, but it does not end the text; `unclosed_answer`: nothing closes the last one;
        `empty_answer`: nothing but space is in it.
        """
        text = completion.strip()
        if not text:
            raise ParseFailure("empty")
        start, end = text.rfind(_OPEN), text.rfind(_CLOSE)
        if start < 0:
            raise ParseFailure("no_answer")
        if end < start:
            raise ParseFailure("unclosed_answer")
        inside = text[start + len(_OPEN) : end]
        if end + len(_CLOSE) < len(text) or _CLOSE in inside:
            raise ParseFailure("text_after_answer")
        if not inside.strip():
            raise ParseFailure("empty_answer")
        return inside.strip()

    def reward(self, item: PuzzleItem, answer: str) -> float:
        """The score, corrected as the class says, in [0, 1]; `unparsable_reward` where the scorer failed."""
        score = self._score(item, answer)
        if score is None:
            return self.unparsable_reward
        if not FORM_CREDIT < score <= 1 + 1e-9:  # a sum of shares may pass 1 by rounding; a NaN is in no range
            return 0.0
        if score > 1 - 1e-9 and PUZZLES[item.puzzle].one_answer and _plain(answer) != _plain(item.answer):
            return NEARLY
        return min(score, 1.0)

    def measures(self, item: PuzzleItem, answer: str) -> Mapping[str, float]:
        """Figures beside the reward.

        - as_reference: 1 when the answer is the reference, whatever its case and spaces.
        - scorer_error: 1 when the package's scorer failed on it.
        """
        return {
            "as_reference": float(_plain(answer) == _plain(item.answer)),
            "scorer_error": float(self._score(item, answer) is None),
        }

    def format_example(self, item: PuzzleItem, rng: np.random.Generator) -> str:
        """The reference in the form asked for, for a supervised start; it teaches some of the answers too."""
        return f"{_OPEN}{item.answer}{_CLOSE}"

    def examples(self, item: PuzzleItem) -> Sequence[tuple[str, bool]]:
        """Completions and whether each is correct: the reference, near misses of it, and forms not asked for."""
        right = f"{_OPEN}{item.answer}{_CLOSE}"
        near = _cut(item.answer) if PUZZLES[item.puzzle].several_right else _changed(item.answer)
        return [
            (right, True),
            (f"I try {_OPEN}{near}{_CLOSE}, which is wrong.\n{_OPEN}\n{item.answer}\n{_CLOSE}\n", True),
            (f"{_OPEN}{near}{_CLOSE}", False),
            (item.answer, False),
            (f"{right} I hope this helps.", False),
            (right.removesuffix(_CLOSE), False),
            *([(f"{_OPEN}{item.answer}, {item.answer}{_CLOSE}", False)] if PUZZLES[item.puzzle].one_answer else []),
        ]

    def hidden(self, item: PuzzleItem) -> Sequence[str]:
        """The reference, where it is a board of several lines: a shorter one may stand in the question by chance."""
        return (item.answer,) if "\n" in item.answer else ()

    def _score(self, item: PuzzleItem, answer: str) -> float | None:
        """The package's score; None where its scorer failed, which its code does on some answers."""
        kind = (item.puzzle, item.split == "ood")  # some scorers know the words of their own settings only
        if kind not in self._scorers:
            self._scorers[kind] = self._create(item.puzzle, seed=0, size=1, **_settings(*kind))
        try:
            return float(self._scorers[kind].score_answer(answer, item.entry))
        except Exception:  # foreign code; the failure is counted in `measures`
            return None

    def _make(self, split: str) -> tuple[PuzzleItem, ...]:
        names = self._other if split == "other_domain" else self._trained
        seen = {_key(item.puzzle, item.entry) for items in self._made.values() for item in items}
        found: list[PuzzleItem] = []
        streams = {name: self._stream(name, split) for name in names}
        while streams and len(found) < self._sizes[split]:
            for name in list(streams):
                entry = next((entry for entry in streams[name] if _key(name, entry) not in seen), None)
                if entry is None:
                    del streams[name]
                elif len(found) < self._sizes[split]:
                    seen.add(_key(name, entry))
                    item_id = f"{name}-{len(found):05d}"
                    found.append(PuzzleItem(item_id, name, entry["question"], entry["answer"], split, entry))
        if names and not found:
            raise DataError(f"puzzles: {', '.join(names)} gave no puzzle for the split {split}; take another seed")
        return tuple(found)

    def _stream(self, name: str, split: str) -> Iterator[Entry]:
        """Puzzles of a stream of its own, at most twenty times as many as are wanted."""
        number = (TRAIN, *EVALUATION_SPLITS).index(split)
        tries = min(20 * self._sizes[split], 20_000)  # the package allows no more of some
        seed = (4 * self._seed + number) * _STREAM
        made = self._create(name, seed=seed, size=tries, **_settings(name, split == "ood"))
        for index in range(tries):
            entry = made[index]
            if PUZZLES[name].is_kept(entry) and (split != "ood" or PUZZLES[name].is_hard(entry)):
                yield entry


def _settings(name: str, hard: bool) -> Mapping[str, Any]:  # noqa: FBT001
    return PUZZLES[name].hard if hard else PUZZLES[name].easy


def _check_names(names: Sequence[str]) -> None:
    if not names:
        raise UsageError(f"puzzles: expected at least one name, got none; take one of {', '.join(PUZZLES)}")
    for name in names:
        if name in REFUSED:
            raise UsageError(f"puzzles: {name} is not taken: {REFUSED[name]}; take one of {', '.join(PUZZLES)}")
        if name not in PUZZLES:
            raise UsageError(f"puzzles: expected names of {', '.join(PUZZLES)}, got {name!r}")
    if len(set(names)) < len(names):
        raise UsageError(f"puzzles: expected each name once, got {', '.join(names)}")


def _key(name: str, entry: Entry) -> tuple[str, str]:
    """Equal for puzzles that may not be in two splits."""
    return name, _plain(entry["answer"]) if PUZZLES[name].unlike_by_answer else entry["question"]


def _plain(text: str) -> str:
    return "".join(text.split()).casefold()


def _changed(answer: str) -> str:
    """An answer whose last digit, or last letter where it has none, is another."""
    chosen = str.isdecimal if any(map(str.isdecimal, answer)) else str.isalpha
    last = max(place for place, char in enumerate(answer) if chosen(char))
    char = answer[last]
    other = str((int(char) + 1) % 10) if char.isdecimal() else "e" if char not in "eE" else "o"
    return answer[:last] + other + answer[last + 1 :]


def _cut(answer: str) -> str:
    """An answer without its last step: the parts are held apart by spaces, commas or arrows."""
    parts = answer.replace(",", " , ").split()
    return " ".join(parts[: max(0, len(parts) - 1)]).rstrip(" ,→") if len(parts) > 1 else answer[:-1]
