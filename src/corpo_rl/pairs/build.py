"""Verifier pairs from rated answers: split by problem, with neither position nor source to tell right from wrong.

Twin draws do the balancing. For a pair of sources (s, t) each draw takes two pairs at once, from two problems:

    A from s, right   B from t, wrong        and        A from s, wrong   B from t, right

so that over the twins neither the position, nor the sources, nor both together say anything about the labels.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from corpo_rl.errors import DataError, UsageError
from corpo_rl.pairs.files import normalised
from corpo_rl.records import TRAIN, VerifierItem


@dataclass(frozen=True)
class RatedAnswer:
    """An answer to a problem, known to be right or wrong."""

    text: str
    correct: bool
    source: str
    """Who wrote it; within a problem each source has one answer."""


@dataclass(frozen=True)
class RatedProblem:
    """A problem with its rated answers."""

    problem_id: str
    problem: str
    answers: tuple[RatedAnswer, ...]


@dataclass(frozen=True)
class SourcedItem(VerifierItem):
    """A pair that remembers who wrote its answers: for checks, never shown to the policy."""

    source_a: str
    source_b: str


@dataclass(frozen=True)
class PairSizes:
    """How many pairs a split should get; it gets fewer when the data allow no more."""

    train: int | None
    """None for as many as remain."""
    in_domain: int
    ood: int


@dataclass(frozen=True)
class BuiltPairs:
    """Pairs, with what was left out on the way."""

    items: tuple[SourcedItem, ...]
    """Sorted by split; within a split twins follow each other."""
    n_identical: int
    """Pairs dropped because both answers are the same text."""
    n_repeated: int
    """Pairs dropped because the same problem has come with the same two answers before."""
    n_too_long: int
    """Pairs dropped by `max_chars`."""
    n_usable: int
    """Pairs with one right and one wrong answer that are left, before splitting and balancing."""

    def split(self, name: str) -> tuple[SourcedItem, ...]:
        """Items of one split."""
        return tuple(item for item in self.items if item.split == name)


def build_pairs(
    problems: Iterable[RatedProblem],
    *,
    domain: str,
    sizes: PairSizes,
    pairs_per_problem: int,
    max_chars: int | None,
    rng: np.random.Generator,
) -> BuiltPairs:
    """Pairs for training, in-domain and out-of-domain validation from rated answers.

    Guarantees: no problem is in two splits, problems that differ only in case, punctuation or spacing counting as one;
    in `train` and `in_domain` one answer is right and one wrong, A being the right one in half the pairs, up to one;
    in `ood` half the pairs are both right and half both wrong, up to one; each source has written equally many of the
    right and of the wrong answers, up to one. The same holds of the first n pairs of a split, for every n, so that an
    evaluation of some of them is as fair as one of all. The validation splits take one pair a problem and are filled
    first.

    Args:
        problems: The rated answers.
        domain: Written into each item.
        sizes: Pairs wanted in each split.
        pairs_per_problem: Most pairs a problem gives to `train`.
        max_chars: Most characters of a problem and its two answers together; None for no limit.
        rng: Decides every draw: the same state and problems give the same pairs.

    Returns:
        The pairs. `other_domain` stays empty: the answers are all of one domain.

    Raises:
        UsageError: A size is negative, or `pairs_per_problem` or `max_chars` is under 1.
        DataError: Nothing is left to train on.
    """
    for name, value, least in (
        ("train", sizes.train, 0),
        ("in_domain", sizes.in_domain, 0),
        ("ood", sizes.ood, 0),
        ("pairs_per_problem", pairs_per_problem, 1),
        ("max_chars", max_chars, 1),
    ):
        if value is not None and value < least:
            raise UsageError(f"{name}: expected at least {least}, found {value}")

    pools = _pools(problems, max_chars=max_chars)
    used: set[str] = set()
    in_domain = _draw_twins(pools.mixed, n=sizes.in_domain, per_problem=1, taken=used, rng=rng)
    used |= {pair.key for pair in in_domain}
    ood = _draw_twins(pools.same, n=sizes.ood, per_problem=1, taken=used, rng=rng)
    used |= {pair.key for pair in ood}
    train = _draw_twins(pools.mixed, n=sizes.train, per_problem=pairs_per_problem, taken=used, rng=rng)
    if not train:
        raise DataError(
            f"no pair is left to train on: {pools.n_usable} pairs of one right and one wrong answer in all, "
            f"{len(in_domain)} of them in in_domain; ask for fewer validation pairs or allow longer ones"
        )
    items = [
        replace(drawn.item, domain=domain, split=split, item_id=f"{split}-{number}")
        for split, pairs in ((TRAIN, train), ("in_domain", in_domain), ("ood", ood))
        for number, drawn in enumerate(pairs)
    ]
    return BuiltPairs(
        items=tuple(items),
        n_identical=pools.n_identical,
        n_repeated=pools.n_repeated,
        n_too_long=pools.n_too_long,
        n_usable=pools.n_usable,
    )


@dataclass(frozen=True)
class _Pair:
    key: str
    item: SourcedItem


_Pool = Mapping[tuple[str, str], tuple[list[_Pair], list[_Pair]]]
"""For each pair of sources (s, t) in order: pairs where s holds the favoured label, and pairs where it does not."""


@dataclass(frozen=True)
class _Pools:
    mixed: _Pool
    """First lists: s right, t wrong; second: s wrong, t right."""
    same: _Pool
    """First lists: both right; second: both wrong."""
    n_identical: int
    n_repeated: int
    n_too_long: int
    n_usable: int


def _pools(problems: Iterable[RatedProblem], *, max_chars: int | None) -> _Pools:
    mixed: dict[tuple[str, str], tuple[list[_Pair], list[_Pair]]] = defaultdict(lambda: ([], []))
    same: dict[tuple[str, str], tuple[list[_Pair], list[_Pair]]] = defaultdict(lambda: ([], []))
    seen: set[tuple[str, str, str]] = set()
    n_identical = n_repeated = n_too_long = n_usable = 0
    for problem in problems:
        key = normalised(problem.problem)
        for first, second in combinations(sorted(problem.answers, key=lambda answer: answer.source), 2):
            if first.text.strip() == second.text.strip():
                n_identical += 1
                continue
            if max_chars is not None and len(problem.problem) + len(first.text) + len(second.text) > max_chars:
                n_too_long += 1
                continue
            if (key, first.text, second.text) in seen:
                n_repeated += 1
                continue
            seen |= {(key, first.text, second.text), (key, second.text, first.text)}
            pair = _Pair(key, _item(problem.problem, first, second))
            is_mixed = first.correct != second.correct
            n_usable += is_mixed
            pool = mixed if is_mixed else same
            pool[first.source, second.source][0 if first.correct else 1].append(pair)
    return _Pools(mixed, same, n_identical, n_repeated, n_too_long, n_usable)


def _draw_twins(
    pool: _Pool, *, n: int | None, per_problem: int, taken: set[str], rng: np.random.Generator
) -> list[_Pair]:
    """Draw up to n pairs, two by two, going round the pairs of sources; problems in `taken` are left alone."""
    queues = {
        sources: [_shuffled([pair for pair in side if pair.key not in taken], rng) for side in pool[sources]]
        for sources in sorted(pool)
    }
    times_used: defaultdict[str, int] = defaultdict(int)
    drawn: list[_Pair] = []
    while queues and (n is None or len(drawn) < n):
        for sources in list(queues):
            twins = _next_twins(queues[sources], times_used=times_used, per_problem=per_problem)
            if twins is None:
                del queues[sources]
                continue
            swap = bool(rng.integers(2))
            # of the last twins an odd n keeps one, either of the two
            order = twins if rng.integers(2) else twins[::-1]
            for pair in order[: None if n is None else n - len(drawn)]:
                times_used[pair.key] += 1
                drawn.append(_swapped(pair) if swap else pair)
    return drawn


def _next_twins(
    sides: list[list[_Pair]], *, times_used: Mapping[str, int], per_problem: int
) -> tuple[_Pair, _Pair] | None:
    while sides[0] and times_used[sides[0][-1].key] >= per_problem:
        sides[0].pop()
    if not sides[0]:
        return None
    first = sides[0].pop()
    while sides[1]:
        second = sides[1].pop()
        if times_used[second.key] + (second.key == first.key) < per_problem:
            return first, second
    return None


def _swapped(pair: _Pair) -> _Pair:
    item = pair.item
    return _Pair(
        pair.key,
        replace(
            item,
            answer_a=item.answer_b,
            answer_b=item.answer_a,
            label_a=item.label_b,
            label_b=item.label_a,
            source_a=item.source_b,
            source_b=item.source_a,
        ),
    )


def _item(problem: str, first: RatedAnswer, second: RatedAnswer) -> SourcedItem:
    return SourcedItem(
        item_id="",
        problem=problem,
        answer_a=first.text,
        answer_b=second.text,
        label_a=int(first.correct),
        label_b=int(second.correct),
        domain="",
        split="",
        source_a=first.source,
        source_b=second.source,
    )


def _shuffled(pairs: Sequence[_Pair], rng: np.random.Generator) -> list[_Pair]:
    return [pairs[index] for index in rng.permutation(len(pairs))]
