"""Pairs of answers drawn two by two, so that nothing but what the answers say tells their labels.

A pair is looked at in a fixed order: by the names of its sources, or the longer answer first when one source wrote
both. Two pairs of opposite labels that then look alike are twins:

    both by sources (s, t), the first longer than the second by about as much,      right-wrong   and   wrong-right
    both by sources (s, t), and of about the same length in all,                    right-right   and   wrong-wrong

Position, source and length say the same of both twins, so over all twins they say nothing about the labels.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from corpo_rl.pairs.rated import RatedAnswer, RatedProblem

MIXED, SAME = "mixed", "same"
"""One right and one wrong answer; both right or both wrong."""

_TRIES = 20
"""Pairs looked at for each one wanted of a problem, when some are too long."""


@dataclass(frozen=True, slots=True)
class DrawnPair:
    """Two answers of a problem."""

    problem: int
    """Place of the problem."""
    first: int
    """Place of an answer among its problem's."""
    second: int
    sources: tuple[str, str]
    length: int
    """Characters by which the first answer is longer (mixed pairs), or of both together."""
    label: int
    """1 when the first answer is right, else 0."""


@dataclass(frozen=True, slots=True)
class Twins:
    """Two pairs that look alike and have opposite labels."""

    one: DrawnPair
    other: DrawnPair

    @property
    def own(self) -> bool:
        """Whether both are of one problem."""
        return self.one.problem == self.other.problem

    @property
    def unlike(self) -> bool:
        """Whether their lengths differ by more than a fifth and ten characters."""
        gap = abs(self.one.length - self.other.length)
        return gap > max(10, abs(self.one.length) / 5)


def has_mixed_pair(problem: RatedProblem, *, max_chars: int | None) -> bool:
    """Whether there is a pair of one right and one wrong answer."""
    shortest = [
        min((len(answer.text) for answer in problem.answers if answer.correct is correct), default=None)
        for correct in (True, False)
    ]
    right, wrong = shortest
    return (
        right is not None
        and wrong is not None
        and (max_chars is None or len(problem.problem) + right + wrong <= max_chars)
    )


def has_same_twins(problem: RatedProblem) -> bool:
    """Whether two right and two wrong answers are by the same two sources, or by one."""
    of_sources = [
        {
            tuple(sorted((one.source, other.source)))
            for one, other in combinations(_two_of_each_source(problem, correct=correct), 2)
        }
        for correct in (True, False)
    ]
    return not of_sources[0].isdisjoint(of_sources[1])


def _two_of_each_source(problem: RatedProblem, *, correct: bool) -> list[RatedAnswer]:
    seen: Counter[str] = Counter()
    kept: list[RatedAnswer] = []
    for answer in problem.answers:
        if answer.correct is correct and seen[answer.source] < 2:
            seen[answer.source] += 1
            kept.append(answer)
    return kept


def draw_pairs(
    problem: RatedProblem,
    place: int,
    *,
    kind: str,
    n: int,
    max_chars: int | None,
    rng: np.random.Generator,
) -> list[DrawnPair]:
    """Up to n pairs of a problem, each of its answers in about as many of them, and no two answers twice.

    For pairs of one label, up to n for each label.
    """
    right, wrong = (
        rng.permutation([place for place, answer in enumerate(problem.answers) if answer.correct is correct])
        for correct in (True, False)
    )
    if kind == MIXED:
        found = [_crossed(right, wrong, n=n * _TRIES)]
    else:
        found = [_combined(one, n=n * _TRIES) for one in (right, wrong)]
    pairs: list[DrawnPair] = []
    met: set[frozenset[str]] = set()  # two sources may have written the same answers
    for pairs_N2 in found:
        kept = 0
        for first, second in pairs_N2.tolist():
            pair = _ordered(problem, place, first, second, kind=kind, max_chars=max_chars, rng=rng)
            forms = frozenset((problem.answers[first].form, problem.answers[second].form))
            if pair is not None and forms not in met:
                met.add(forms)
                pairs.append(pair)
                kept += 1
            if kept == n:
                break
    return pairs


def _crossed(one: NDArray[np.intp], other: NDArray[np.intp], *, n: int) -> NDArray[np.intp]:
    """Pairs across two rows, each once: along the diagonals, so that the first few use all answers alike."""
    number = np.arange(min(n, len(one) * len(other)))
    if len(number) == 0:
        return np.empty((0, 2), dtype=np.intp)
    diagonal = number // np.lcm(len(one), len(other))
    return np.stack([one[number % len(one)], other[(number + diagonal) % len(other)]], axis=1)


def _combined(row: NDArray[np.intp], *, n: int) -> NDArray[np.intp]:
    """Pairs within a row, each once: neighbours, then every second one, and so on round the row."""
    size = len(row)
    number = np.arange(min(n, size * (size - 1) // 2))
    if len(number) == 0:
        return np.empty((0, 2), dtype=np.intp)
    step = number // size + 1
    return np.stack([row[number % size], row[(number + step) % size]], axis=1)


def _ordered(
    problem: RatedProblem,
    place: int,
    first: int,
    second: int,
    *,
    kind: str,
    max_chars: int | None,
    rng: np.random.Generator,
) -> DrawnPair | None:
    """A pair in the order in which it is compared with others; None when it is too long or its answers are the same."""
    one, other = problem.answers[first], problem.answers[second]
    total = len(one.text) + len(other.text)
    if one.form == other.form or (max_chars is not None and len(problem.problem) + total > max_chars):
        return None
    # neither source nor length orders two answers of one source that are equally long
    order_one = (one.source, -len(one.text) if one.source == other.source else 0)
    order_other = (other.source, -len(other.text) if one.source == other.source else 0)
    if order_one > order_other or (order_one == order_other and rng.integers(2)):
        first, second, one, other = second, first, other, one
    length = len(one.text) - len(other.text) if kind == MIXED else total
    return DrawnPair(place, first, second, (one.source, other.source), length, int(one.correct))


def match_twins(pairs: Sequence[DrawnPair], *, kind: str, own: bool, rng: np.random.Generator) -> list[Twins]:
    """Pairs joined to twins, each in one at most; the rest finds none.

    Args:
        pairs: Pairs of one kind.
        kind: That kind.
        own: Match within each problem before across problems. Twins that are like each other come first in any case.
        rng: Decides among equally good matches.
    """
    waiting = [pairs[place] for place in rng.permutation(len(pairs))]
    twins: list[Twins] = []
    for within, strict in ((True, True), (False, True), (True, False), (False, False)):
        if within and not own:
            continue
        groups: dict[tuple[object, ...], list[DrawnPair]] = defaultdict(list)
        for pair in waiting:
            # the longer answer is then by the same source in both twins, whatever the difference
            side = int(np.sign(pair.length)) if kind == MIXED else 0
            groups[pair.sources, side, pair.problem if within else None].append(pair)
        waiting = []
        for group in groups.values():
            # like brackets: each pair closes the nearest open one of the other label
            opened: list[DrawnPair] = []
            for pair in sorted(group, key=lambda pair: pair.length):
                if opened and opened[-1].label != pair.label and not (strict and Twins(opened[-1], pair).unlike):
                    twins.append(Twins(opened.pop(), pair))
                else:
                    opened.append(pair)
            waiting += opened
    return twins


def choose_twins(
    twins: Sequence[Twins],
    problems: Sequence[RatedProblem],
    *,
    n: int | None,
    own_first: bool,
    pairs_per_problem: int | None,
    uses_per_answer: int | None,
    rng: np.random.Generator,
) -> list[Twins]:
    """Twins for n pairs, going round: next come always those whose problems, then whose answers, were used the least.

    Twins that are unlike in length wait until there are no others.

    Args:
        twins: Twins to choose among.
        problems: The problems they are of.
        n: Pairs wanted; None for all that may be. For an odd number there is one pair too many.
        own_first: Twins of one problem before twins of two.
        pairs_per_problem: Most pairs of a problem.
        uses_per_answer: Most pairs that an answer is in.
        rng: Decides among those equally used.
    """
    pairs_of: Counter[int] = Counter()
    uses_of: Counter[tuple[int, str]] = Counter()

    def answers(pair: DrawnPair) -> Iterator[tuple[int, str]]:
        for place in (pair.first, pair.second):
            yield pair.problem, problems[pair.problem].answers[place].form

    def cost(twin: Twins) -> tuple[bool, bool, int, int]:
        problem_counts = Counter((twin.one.problem, twin.other.problem))
        answer_counts = Counter((*answers(twin.one), *answers(twin.other)))
        n_pairs = max(pairs_of[key] + count for key, count in problem_counts.items())
        n_uses = max(uses_of[key] + count for key, count in answer_counts.items())
        return own_first and not twin.own, twin.unlike, n_pairs, n_uses

    heap = [(cost(twin), order, twin) for order, twin in zip(rng.permutation(len(twins)).tolist(), twins, strict=True)]
    heapq.heapify(heap)
    chosen: list[Twins] = []
    while heap and (n is None or 2 * len(chosen) < n):
        before, order, twin = heapq.heappop(heap)
        now = cost(twin)
        if (pairs_per_problem is not None and now[2] > pairs_per_problem) or (
            uses_per_answer is not None and now[3] > uses_per_answer
        ):
            continue  # for good: counts only grow
        if now > before:
            heapq.heappush(heap, (now, order, twin))
            continue
        chosen.append(twin)
        pairs_of.update((twin.one.problem, twin.other.problem))
        uses_of.update((*answers(twin.one), *answers(twin.other)))
    return chosen
