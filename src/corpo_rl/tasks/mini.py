"""The mini task: a verifier of sums, small enough to train on a CPU in minutes. Differences are its other domain.

A prompt is a problem and two candidate answers; a completion is the policy's own answer, then a score from 0 to 10 for
each candidate. The own answer is not graded: it is room to work the problem out before judging, as the paper's verifier
explains before it scores.

    prompt      37+46?83|84:
    completion  83;9,1
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

from corpo_rl.errors import ParseFailure, UsageError
from corpo_rl.records import EVALUATION_SPLITS, TRAIN, VerifierItem
from corpo_rl.tasks.verifier import UNPARSABLE_REWARD, Scores, verifier_measures, verifier_reward

SUMS = "sums"
DIFFERENCES = "differences"
SIGNS = {SUMS: "+", DIFFERENCES: "-"}

EASY = 2
"""Digits of each operand of an easy problem."""
HARD = 3
"""Digits of each operand of a hard problem."""

SIZES = {TRAIN: 4890, "in_domain": 196, "ood": 98, "other_domain": 157}
"""Items per split: the sizes of the paper's own splits (https://arxiv.org/abs/2511.04439)."""

ONE_RIGHT = ((1, 0), (0, 1))
"""Labels of candidates A and B when one is right, in turn: right answers stand first as often as second."""
BOTH_ALIKE = ((1, 1), (0, 0))

_SEED = 2511_04439
_COMPLETION = re.compile(r"(\d{1,5});(\d{1,3}),(\d{1,3})", re.ASCII)
# what people and small models get wrong: a miscounted unit, ten or hundred, and a carry too many or too few
_SLIPS = (1, 2, 9, 10, 11, 20)
_LARGE_SLIPS = (90, 100, 110)


class MiniTask:
    """Sums and differences of two whole numbers, judged by two scores. A `tasks.base.Task`.

    Splits (SIZES has their sizes); half of the problems have two-digit operands (easy), half three-digit ones (hard),
    and no problem occurs twice, in whichever order its operands stand:
        train, in_domain: sums, one candidate right and one wrong.
        ood: sums, in turn both candidates right and both wrong. Both right means the same number twice, for a sum has
            one right answer; both wrong means two different numbers.
        other_domain: differences, one candidate right and one wrong.

    Args:
        reward: A name in `tasks.verifier.REWARDS`; `min_correct` follows it.

    Raises:
        UsageError: No reward has this name.

    Example:
        >>> task = MiniTask()
        >>> item = task.items("in_domain")[1]
        >>> task.prompt(item), item.label_a, item.label_b
        ('381+103?474|484:', 0, 1)
        >>> task.reward(item, task.parse("484;1,9"))
        0.8
    """

    name = "mini"
    unparsable_reward = UNPARSABLE_REWARD

    def __init__(self, *, reward: str = "min_margin") -> None:
        chosen = verifier_reward(reward)
        self.min_correct = chosen.min_correct
        self._reward = chosen.of

    def items(self, split: str) -> Sequence[VerifierItem]:
        """Items of a split; the same ones, in the same order, on every call and machine.

        Raises:
            UsageError: The mini task has no such split.
        """
        if split not in SIZES:
            raise UsageError(f"split: expected one of {', '.join(SIZES)}, got {split!r}")
        return _all_items()[split]

    def prompt(self, item: VerifierItem) -> str:
        """The problem and both candidates, e.g. "37+46?83|84:"."""
        return f"{item.problem}?{item.answer_a}|{item.answer_b}:"

    def parse(self, completion: str) -> Scores:
        """Both scores of a completion, e.g. "83;9,1".

        Raises:
            ParseFailure: Kind "empty"; "no_scores" when nothing follows the own answer; "out_of_range" when a score
                is over 10; "malformed" for any other text.
        """
        if not completion:
            raise ParseFailure("empty")
        if ";" not in completion or completion.endswith(";"):
            raise ParseFailure("no_scores")
        match = _COMPLETION.fullmatch(completion)
        if match is None:
            raise ParseFailure("malformed")
        scores = Scores(int(match[2]), int(match[3]))
        if max(scores.a, scores.b) > 10:
            raise ParseFailure("out_of_range")
        return scores

    def reward(self, item: VerifierItem, answer: Scores) -> float:
        """In [-1, 1], for `min_margin` the signed margin of the worse score; see `tasks.verifier.REWARDS`."""
        return self._reward(item, answer)

    def measures(self, item: VerifierItem, answer: Scores) -> Mapping[str, float]:
        """Brier score, score accuracy and hedge; see `tasks.verifier`."""
        return verifier_measures(item, answer)

    def examples(self, item: VerifierItem) -> Sequence[tuple[str, bool]]:
        """Completions and whether each is correct, for `tasks.proof`."""
        a, b = item.label_a, item.label_b
        right = ((10 * a, 10 * b), (4 + 2 * a, 4 + 2 * b))
        wrong = ((10 - 10 * a, 10 - 10 * b), (10 * a, 10 - 10 * b), (10 - 10 * a, 10 * b), (5, 5))
        graded = [*((scores, True) for scores in right), *((scores, False) for scores in wrong)]
        broken = (f"{10 * a},{10 * b}", f"0;{10 * a},{10 * b};")
        return [
            *((f"0;{first},{second}", is_right) for (first, second), is_right in graded),
            *((t, False) for t in broken),
        ]


def make_item(
    rng: np.random.Generator,
    first: int,
    second: int,
    *,
    domain: str,
    labels: tuple[int, int],
    split: str,
    item_id: str,
) -> VerifierItem:
    """An item about `first + second` or `first - second` whose candidates carry the given labels.

    A wrong candidate is the right answer with a slip: off by a unit, ten or hundred, or by a carry. Two wrong ones
    differ from each other.
    """
    right = first + second if domain == SUMS else first - second
    wrong = iter(wrong_answers(rng, right))
    answer_a, answer_b = (str(right if label else next(wrong)) for label in labels)
    return VerifierItem(
        item_id=item_id,
        problem=f"{first}{SIGNS[domain]}{second}",
        answer_a=answer_a,
        answer_b=answer_b,
        label_a=labels[0],
        label_b=labels[1],
        domain=domain,
        split=split,
    )


def wrong_answers(rng: np.random.Generator, right: int) -> list[int]:
    """Six or more distinct wrong answers, in random order: `right` with a slip, and never negative."""
    slips = _SLIPS + (_LARGE_SLIPS if right >= 200 else ())
    signed = (int(slip) for slip in rng.permutation(slips) * rng.choice((-1, 1), size=len(slips)))
    return [right + slip if right + slip >= 0 else right - slip for slip in signed]


@cache
def held_out_problems() -> frozenset[str]:
    """Problems of the evaluation splits, sums with their operands in both orders: nothing may be trained on them.

    Example:
        >>> {"381+103", "103+381"} <= held_out_problems()
        True
    """
    problems = {item.problem for split in EVALUATION_SPLITS for item in _all_items()[split]}
    swapped = {"+".join(reversed(problem.split("+"))) for problem in problems if "+" in problem}
    return frozenset(problems | swapped)


@cache
def _all_items() -> Mapping[str, tuple[VerifierItem, ...]]:
    rng = np.random.default_rng(_SEED)
    operands = {(domain, digits): _operands(rng, digits) for domain in SIGNS for digits in (EASY, HARD)}
    items = {}
    for split in (*EVALUATION_SPLITS, TRAIN):
        domain = DIFFERENCES if split == "other_domain" else SUMS
        kinds = BOTH_ALIKE if split == "ood" else ONE_RIGHT
        made = []
        for number in range(SIZES[split]):
            digits = HARD if number % 2 else EASY
            larger, smaller = operands[domain, digits].pop()
            swap = domain == SUMS and rng.integers(2) == 1
            made.append(
                make_item(
                    rng,
                    *((smaller, larger) if swap else (larger, smaller)),
                    domain=domain,
                    labels=kinds[number % 4 in (1, 2)],  # so that each kind is half easy and half hard
                    split=split,
                    item_id=f"{split}-{number:04d}-{'hard' if digits == HARD else 'easy'}",
                )
            )
        items[split] = tuple(made)
    return items


def _operands(rng: np.random.Generator, digits: int) -> list[tuple[int, int]]:
    """As many distinct (larger, smaller) pairs as the splits need, in random order."""
    low, high = 10 ** (digits - 1), 10**digits
    pairs: dict[tuple[int, int], None] = {}
    while len(pairs) < 3000:
        first, second = (int(value) for value in rng.integers(low, high, size=2))
        if first != second:
            pairs[max(first, second), min(first, second)] = None
    return list(pairs)
