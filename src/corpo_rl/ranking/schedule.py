"""Which answers a verifier compares next, and how the comparisons so far add up.

Answers are numbered 0 to n-1 in an order drawn by lot, which is how every tie that must be broken is broken.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from corpo_rl.errors import UsageError

ROUND_ROBIN, SWISS, KNOCKOUT = "round-robin", "swiss", "knockout"
METHODS = (ROUND_ROBIN, SWISS, KNOCKOUT)
"""Every pair once; a few rounds among neighbours in the standing; the loser of each pair is out."""

SCORE, WINS = "score", "wins"
RANK_BY = (SCORE, WINS)
"""Mean of the scores an answer got; share of its comparisons that it won, a tie being half."""

Pair = tuple[int, int]


@dataclass(frozen=True)
class Comparison:
    """What the verifier said of two answers, over both orders and all samples."""

    first: int
    second: int
    score_first: Fraction | None
    """Mean score from 0 to 10 over what parsed, each order counting the same; None when nothing parsed."""
    score_second: Fraction | None
    n_calls: int
    n_parsed: int
    one_order: bool
    """Whether both orders were asked, but only one has a completion that parsed: its position bias is not cancelled."""


@dataclass(frozen=True)
class Tally:
    """What the comparisons say of one answer; those without a parsed completion are in `n_unparsed` alone."""

    total: Fraction = Fraction(0)
    """Sum of its scores, one for each comparison."""
    wins: int = 0
    ties: int = 0
    losses: int = 0
    n_unparsed: int = 0

    @property
    def n_parsed(self) -> int:
        """Comparisons that gave it a score."""
        return self.wins + self.ties + self.losses

    def value(self, rank_by: str) -> Fraction | None:
        """What it is ranked by; None without a parsed comparison."""
        if self.n_parsed == 0:
            return None
        return (self.total if rank_by == SCORE else self.wins + Fraction(self.ties, 2)) / self.n_parsed


def tallies(comparisons: Sequence[Comparison], n: int) -> list[Tally]:
    """The tally of each of n answers. Sums are fractions: equal means are equal, in whichever order they were added.

    Example:
        >>> tallies([Comparison(0, 1, Fraction(8), Fraction(3), n_calls=1, n_parsed=1, one_order=False)], 2)[1]
        Tally(total=Fraction(3, 1), wins=0, ties=0, losses=1, n_unparsed=0)
    """
    total, wins, ties, losses, unparsed = [Fraction(0)] * n, [0] * n, [0] * n, [0] * n, [0] * n
    for one in comparisons:
        sides = ((one.first, one.score_first, one.score_second), (one.second, one.score_second, one.score_first))
        for answer, own, other in sides:
            if own is None or other is None:
                unparsed[answer] += 1
                continue
            total[answer] += own
            wins[answer] += own > other
            ties[answer] += own == other
            losses[answer] += own < other
    return [Tally(*columns) for columns in zip(total, wins, ties, losses, unparsed, strict=True)]


def n_comparisons(method: str, n: int, *, rounds: int | None = None) -> int:
    """Comparisons that a method makes of n answers; for swiss the most it may make.

    Args:
        method: One of `METHODS`.
        n: Different answers, at least 1.
        rounds: Rounds of swiss; by default those of `swiss_rounds`.

    Raises:
        UsageError: There is no such method.

    Example:
        >>> [n_comparisons(method, 16) for method in METHODS]
        [120, 32, 15]
    """
    if method == ROUND_ROBIN:
        return n * (n - 1) // 2
    if method == KNOCKOUT:
        return n - 1
    if method == SWISS:
        return swiss_rounds(n, rounds) * (n // 2)
    raise UsageError(f"method: expected one of {', '.join(METHODS)}, got {method!r}")


def swiss_rounds(n: int, rounds: int | None = None) -> int:
    """Rounds of swiss: by default log2(n), rounded up, which single out the best if no comparison errs.

    Never more than give every pair once: n - 1, or n for an odd n, where each answer sits out a round.
    """
    most = n - 1 + n % 2 if n > 1 else 0
    return min(most, math.ceil(math.log2(n)) if rounds is None else rounds)


def next_pairs(
    method: str, played: Sequence[Sequence[Comparison]], n: int, *, rank_by: str, rounds: int | None = None
) -> list[Pair]:
    """The pairs to compare after the rounds played so far; none when the method is through.

    Args:
        method: One of `METHODS`.
        played: Comparisons of each round so far.
        n: Different answers, at least 1.
        rank_by: One of `RANK_BY`: the standing by which swiss finds neighbours.
        rounds: Rounds of swiss; by default those of `swiss_rounds`.
    """
    if n < 2:
        return []
    if method == ROUND_ROBIN:
        return [] if played else [(first, second) for second in range(n) for first in range(second)]
    if method == KNOCKOUT:
        return _knockout_pairs(survivors(played, n)[-1])
    return _swiss_pairs(played, n, rank_by=rank_by) if len(played) < swiss_rounds(n, rounds) else []


def survivors(played: Sequence[Sequence[Comparison]], n: int) -> list[list[int]]:
    """Who is left in a knockout at the start, and after each round played.

    The higher score goes on; at a tie, or when nothing parsed, who has the higher mean so far, at last who comes first
    by lot. An answer that was never scored so only beats its like.
    """
    left = [list(range(n))]
    for number, comparisons in enumerate(played, start=1):
        so_far = tallies([one for earlier in played[:number] for one in earlier], n)
        out = {_loser(one, so_far) for one in comparisons}
        left.append([answer for answer in left[-1] if answer not in out])
    return left


def by_lot(comparison: Comparison) -> bool:
    """Whether a comparison names no winner: the scores are equal, or there are none."""
    return comparison.score_first == comparison.score_second


def _loser(one: Comparison, so_far: Sequence[Tally]) -> int:
    def strength(answer: int, score: Fraction | None) -> tuple[Fraction, Fraction, int]:
        mean = so_far[answer].value(SCORE)
        return (Fraction(-1) if score is None else score, Fraction(-1) if mean is None else mean, -answer)

    first, second = strength(one.first, one.score_first), strength(one.second, one.score_second)
    return one.first if first < second else one.second


def _knockout_pairs(left: Sequence[int]) -> list[Pair]:
    """Neighbours meet; in the first round only so many that a power of two is left, so that nobody rests twice."""
    if len(left) < 2:
        return []
    half = 1 << (len(left) - 1).bit_length() - 1
    return [(left[row], left[row + 1]) for row in range(0, 2 * (len(left) - half), 2)]


def _swiss_pairs(played: Sequence[Sequence[Comparison]], n: int, *, rank_by: str) -> list[Pair]:
    """Each answer meets the next in the standing that it has not met; one without any such sits this round out."""
    comparisons = [one for earlier in played for one in earlier]
    met = {(one.first, one.second) for one in comparisons}
    n_met = Counter(answer for pair in met for answer in pair)
    values = [tally.value(rank_by) for tally in tallies(comparisons, n)]
    waiting = sorted(range(n), key=lambda answer: (-(-1 if (value := values[answer]) is None else value), answer))
    if n % 2:  # who has met the most sits out, so that nobody is left unjudged
        waiting.remove(max(reversed(waiting), key=lambda answer: n_met[answer]))
    pairs: list[Pair] = []
    while waiting:
        one = waiting.pop(0)
        other = next((answer for answer in waiting if (min(one, answer), max(one, answer)) not in met), None)
        if other is not None:
            waiting.remove(other)
            pairs.append((min(one, other), max(one, other)))
    return pairs
