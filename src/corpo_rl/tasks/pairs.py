"""The verifier task on real pairs: a problem and two written answers, to be scored in words a chat model can write."""

import re
from collections.abc import Mapping, Sequence

import numpy as np

from corpo_rl.errors import DataError, ParseFailure
from corpo_rl.records import VerifierItem
from corpo_rl.tasks.verifier import UNPARSABLE_REWARD, Scores, verifier_measures, verifier_reward

_SCORE_LINE = re.compile(r"([AB]):[ \t]*(\S.*)?")
_INTEGER = re.compile(r"[+-]?[0-9]{1,4}")


class PairsTask:
    """Verify pairs of answers: the completion ends with the lines `A: <score>` and `B: <score>`, each from 0 to 10.

    Text before the two lines is allowed (an explanation), text after them is not.

    Args:
        items: The pairs, of any splits.
        reward: A name in `tasks.verifier.REWARDS`; `min_correct` follows it.

    Raises:
        DataError: There is no item.
        UsageError: No reward has this name.
    """

    name = "pairs"
    unparsable_reward = UNPARSABLE_REWARD

    def __init__(self, items: Sequence[VerifierItem], *, reward: str = "min_margin") -> None:
        chosen = verifier_reward(reward)
        self.min_correct = chosen.min_correct
        self._reward = chosen.of
        if not items:
            raise DataError("pairs: expected at least one pair, found none")
        self._items_of: dict[str, list[VerifierItem]] = {}
        for item in items:
            self._items_of.setdefault(item.split, []).append(item)

    def items(self, split: str) -> Sequence[VerifierItem]:
        """Pairs of a split, in the order given."""
        return tuple(self._items_of.get(split, ()))

    def prompt(self, item: VerifierItem) -> str:
        """The problem, both answers and the form asked for. Neither labels nor sources are in it."""
        return (
            f"Problem: {item.problem}\n\nAnswer A:\n{item.answer_a}\n\nAnswer B:\n{item.answer_b}\n\n"
            "Score each answer from 0 (surely wrong) to 10 (surely correct). End with two lines:\n"
            "A: <score>\nB: <score>"
        )

    def parse(self, completion: str) -> Scores:
        r"""The two scores, strictly.

        Failure kinds: `empty`; `no_scores`: no line begins with `A:` or `B:`; `text_after_scores`: the two lines are
        there, but not last; `repeated_scores`: they are there more than once; `missing_score`: the last two lines are
        not one of A and then one of B; `malformed`: a score is not an integer; `out_of_range`: it is not in 0..10.

        Example:
            >>> task = PairsTask([VerifierItem("1", "1+1", "2", "3", 1, 0, domain="sums", split="train")])
            >>> task.parse("B forgot a term.\nA: 8\nB: 2")
            Scores(a=8, b=2)
            >>> task.parse("A: 8/10\nB: 2")
            Traceback (most recent call last):
            corpo_rl.errors.ParseFailure: completion is not in the form the task asks for: malformed
        """
        lines = [line.strip() for line in completion.split("\n") if line.strip()]
        if not lines:
            raise ParseFailure("empty")
        matches = [_SCORE_LINE.fullmatch(line) for line in lines]
        letters = "".join(match.group(1) if match else "-" for match in matches)
        if "A" not in letters and "B" not in letters:
            raise ParseFailure("no_scores")
        if not letters.endswith("AB"):
            raise ParseFailure("text_after_scores" if "AB" in letters else "missing_score")
        if letters.count("AB") > 1:
            raise ParseFailure("repeated_scores")
        score_a, score_b = (_score(match.group(2) if match else None) for match in matches[-2:])
        return Scores(score_a, score_b)

    def format_example(self, item: VerifierItem, rng: np.random.Generator) -> str:
        """A completion in the form asked for, to teach the form and little else.

        Two scores in three lie on their label's side of 5, evenly over 6..10 or 0..4. A policy that cannot tell the
        answers apart so learns to take sides, where even scores over 0..10 taught it to hedge.
        """
        score_a, score_b = (
            int(rng.integers(6, 11) if (rng.random() < 2 / 3) == bool(label) else rng.integers(0, 5))
            for label in (item.label_a, item.label_b)
        )
        return f"A: {score_a}\nB: {score_b}"

    def reward(self, item: VerifierItem, answer: Scores) -> float:
        """In [-1, 1]; see `corpo_rl.tasks.verifier.REWARDS`."""
        return self._reward(item, answer)

    def measures(self, item: VerifierItem, answer: Scores) -> Mapping[str, float]:
        """See `corpo_rl.tasks.verifier.verifier_measures`."""
        return verifier_measures(item, answer)

    def examples(self, item: VerifierItem) -> Sequence[tuple[str, bool]]:
        """Completions and whether each is correct, for `tasks.proof`."""
        a, b = item.label_a, item.label_b
        right = ((10 * a, 10 * b), (4 + 2 * a, 4 + 2 * b))
        wrong = ((10 - 10 * a, 10 - 10 * b), (10 * a, 10 - 10 * b), (10 - 10 * a, 10 * b), (5, 5))
        form = f"A: {10 * a}\nB: {10 * b}"
        return [
            *((f"A: {first}\nB: {second}", True) for first, second in right),
            (f"I read both.\n\n{form}\n", True),
            *((f"A: {first}\nB: {second}", False) for first, second in wrong),
            *((text, False) for text in (f"{form}/10", f"{form}\nI hope this helps.", f"{form}\n{form}")),
        ]


def _score(text: str | None) -> int:
    if text is None or _INTEGER.fullmatch(text) is None:
        raise ParseFailure("malformed")
    score = int(text)
    if not 0 <= score <= 10:
        raise ParseFailure("out_of_range")
    return score
