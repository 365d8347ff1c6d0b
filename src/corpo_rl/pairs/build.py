"""Verifier pairs from rated answers: split by problem, and with nothing but the answers to tell right from wrong."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from corpo_rl.errors import DataError, UsageError
from corpo_rl.pairs.built import BuiltPairs, SourcedItem, SplitPart, domain_part, found_clusters
from corpo_rl.pairs.near_duplicates import SIMILARITY, cluster_problems
from corpo_rl.pairs.rated import NOTHING_LEFT_OUT, RatedProblem, tidied
from corpo_rl.pairs.splits import ClusterKinds, PairSizes, allot_clusters
from corpo_rl.pairs.twins import (
    MIXED,
    SAME,
    DrawnPair,
    choose_twins,
    draw_pairs,
    has_mixed_pair,
    has_same_twins,
    match_twins,
)
from corpo_rl.records import EVALUATION_SPLITS, TRAIN

HELD_OUT = 0.3
"""Share of the problems that validation may take. With HumanEval's 122 problems of right and wrong answers it leaves
86 to train on, some 57 pairs each at the paper's size."""

_SHARES_UP_TO = 0.6
"""Where validation falls short of its sizes with the share, but not with a larger one, it gets the larger one: answers
of one sample a source make few twins, and problems without twins are of no use to train either."""

USES_PER_ANSWER = 10
"""With one sample in ten right, the paper's training size on HumanEval needs about 6."""

_DRAWN = 4
"""Pairs drawn of a problem for each one wanted of it: enough to find twins among them."""
_DRAWN_AT_LEAST = 64


def build_pairs(
    problems: Iterable[RatedProblem],
    *,
    domain: str,
    sizes: PairSizes,
    rng: np.random.Generator,
    other: Iterable[RatedProblem] = (),
    other_domain: str = "other",
    similarity: float = SIMILARITY,
    held_out: float = HELD_OUT,
    pairs_per_problem: int | None = None,
    uses_per_answer: int | None = USES_PER_ANSWER,
    max_chars: int | None = None,
    on_problem: Callable[[], None] | None = None,
) -> BuiltPairs:
    """Pairs for training and for the three validations from rated answers.

    Guarantees:
    - No problem is in two splits, nor are two problems that are nearly the same.
    - In `train`, `in_domain` and `other_domain` one answer is right and one wrong; in `ood` half the pairs are both
      right and half both wrong. Two answers that are the same never meet, and no two answers meet twice.
    - Pairs come as twins (see `corpo_rl.pairs.twins`): in the first n pairs of a split, for every n, A is the right one
      in half, the longer one is right in half of those that differ in length, and each source wrote as many right as
      wrong answers, all up to the one pair of an odd n.

    Problems with a right and a wrong answer are divided among the splits by `allot_clusters`. Within a split pairs go
    round the problems, and round the answers of each, so that all are used alike. In `ood` a problem gives as many
    pairs of two right as of two wrong answers wherever its answers allow: else the problem would tell the labels.

    Args:
        problems: Rated problems of the domain trained on.
        domain: Its name, written into the items.
        sizes: Pairs wanted in each split.
        rng: Decides every draw: the same state and problems give the same pairs.
        other: Rated problems of another domain, for `other_domain`.
        other_domain: Its name.
        similarity: Least similarity of problems that are kept together; see `cluster_problems`.
        held_out: Share of the problems that validation may take; see `allot_clusters`. It may take up to 0.6 where
            that, and nothing less, gives it its sizes.
        pairs_per_problem: Most pairs of a problem; None for no limit.
        uses_per_answer: Most pairs that an answer is in; None for no limit.
        max_chars: Most characters of a problem and its two answers together; None for no limit.
        on_problem: Called for each different problem whose answers have been compared with each other.

    Raises:
        UsageError: A setting is out of range, or no pair is asked for.
        DataError: No problem has a right and a wrong answer that make a pair, or nothing is left to train on.
        MissingExtraError: `similarity` is under 1 and `datasketch` is not installed.
    """
    sizes.check()
    for name, value in (
        ("pairs per problem", pairs_per_problem),
        ("uses per answer", uses_per_answer),
        ("max chars", max_chars),
    ):
        if value is not None and value < 1:
            raise UsageError(f"{name}: expected at least 1, found {value}")

    if not any((sizes.train != 0, sizes.in_domain, sizes.ood, sizes.other_domain)):
        raise UsageError("sizes: expected one above 0, found none; ask for pairs")

    main, others = (tidied(rated, on_problem=on_problem) for rated in (problems, other))
    n_main = len(main.problems)
    everything = (*main.problems, *others.problems)
    clusters = cluster_problems([problem.problem for problem in everything], similarity=similarity)
    members: dict[int, list[int]] = {}
    for place, cluster in enumerate(clusters.cluster_of):
        members.setdefault(cluster, []).append(place)

    mixed = {place for place, problem in enumerate(everything) if has_mixed_pair(problem, max_chars=max_chars)}
    of_main = [cluster for cluster, places in members.items() if places[0] < n_main]
    kinds = _kinds(of_main, members, everything, mixed=mixed, n_main=n_main)
    if not kinds.both and not kinds.mixed:
        raise DataError(_no_pair(main.problems, max_chars=max_chars))
    # a cluster's place is its first problem's: those that begin in the other domain hold nothing of the first
    free = [place for place in range(n_main, len(everything)) if clusters.cluster_of[place] >= n_main]

    def draw(split: str, places: Sequence[int]) -> "_Drawn":
        return _drawn(
            everything,
            places,
            n=getattr(sizes, split),
            kind=SAME if split == "ood" else MIXED,
            pairs_per_problem=pairs_per_problem,
            uses_per_answer=uses_per_answer,
            max_chars=max_chars,
            rng=rng,
        )

    def places_in(allotted: Iterable[int], *, only: Callable[[int], bool]) -> list[int]:
        found = (place for cluster in sorted(allotted) for place in members[cluster])
        return [place for place in found if place < n_main and only(place)]

    def validation(share: float) -> tuple[Mapping[str, Sequence[int]], dict[str, list[int]], dict[str, "_Drawn"]]:
        allotted = allot_clusters(kinds, sizes=sizes, held_out=share, rng=rng)
        places = {
            "in_domain": places_in(allotted["in_domain"], only=mixed.__contains__),
            "ood": places_in(allotted["ood"], only=lambda place: True),
        }
        return allotted, places, {split: draw(split, places[split]) for split in places}

    allotted, places_of, drawn = first = validation(held_out)
    for share in np.arange(held_out + 0.1, _SHARES_UP_TO + 0.01, 0.1):
        if all(len(drawn[split]) == getattr(sizes, split) for split in drawn):
            break
        allotted, places_of, drawn = validation(float(share))
    else:
        if any(len(drawn[split]) < getattr(sizes, split) for split in drawn):
            allotted, places_of, drawn = first
    # what validation could not use, for want of twins, is train's
    used = {clusters.cluster_of[pair.problem] for pairs in drawn.values() for pair, _ in pairs}
    for_train = {*allotted[TRAIN], *(set(allotted["in_domain"]) - used), *(set(allotted["ood"]) - used)}
    places_of[TRAIN] = places_in(for_train, only=mixed.__contains__)
    places_of["other_domain"] = [place for place in free if place in mixed]
    for split in (TRAIN, "other_domain"):
        drawn[split] = draw(split, places_of[split])

    if sizes.train != 0 and not drawn[TRAIN]:
        raise DataError(
            f"no pair is left to train on: of {len(kinds.both) + len(kinds.mixed)} problems with a right and a wrong "
            f"answer {len(places_of[TRAIN])} are for training, and none of their pairs has a twin (a pair that looks "
            "the same but has the other label); give more answers, or allow longer ones"
        )
    splits = (TRAIN, *EVALUATION_SPLITS)
    if not any(drawn.values()):
        raise DataError("no pair can be made for the splits asked for: no two pairs are twins; give more answers")
    items = tuple(
        _item(
            everything[pair.problem],
            pair,
            swapped=swapped,
            split=split,
            number=number,
            domain=other_domain if split == "other_domain" else domain,
        )
        for split in splits
        for number, (pair, swapped) in enumerate(drawn[split])
    )
    return BuiltPairs(
        items=items,
        parts={
            split: _part(split, getattr(sizes, split), drawn[split], places_of[split], has_other=bool(others.problems))
            for split in splits
        },
        domains=tuple(
            domain_part(name, rated.problems, rated.left_out)
            for name, rated in ((domain, main), (other_domain, others))
            if rated.problems
        ),
        clusters=found_clusters(members, clusters.links, everything, n_main=n_main, names=(domain, other_domain)),
        n_overlapping=len(others.problems) - len(free),
    )


def _kinds(
    of_main: Sequence[int],
    members: Mapping[int, Sequence[int]],
    everything: Sequence[RatedProblem],
    *,
    mixed: set[int],
    n_main: int,
) -> ClusterKinds:
    both: list[int] = []
    only_mixed: list[int] = []
    one_sided: list[int] = []
    for cluster in of_main:
        places = [place for place in members[cluster] if place < n_main]
        if mixed.isdisjoint(places):
            one_sided.append(cluster)
        elif any(has_same_twins(everything[place]) for place in places):
            both.append(cluster)
        else:
            only_mixed.append(cluster)
    return ClusterKinds(both=both, mixed=only_mixed, one_sided=one_sided)


_Drawn = list[tuple[DrawnPair, bool]]
"""Pairs and whether the second answer is A; twins follow each other, swapped or not together."""


def _drawn(
    problems: Sequence[RatedProblem],
    places: Sequence[int],
    *,
    n: int | None,
    kind: str,
    pairs_per_problem: int | None,
    uses_per_answer: int | None,
    max_chars: int | None,
    rng: np.random.Generator,
) -> _Drawn:
    if n == 0 or not places:
        return []
    each = max(_DRAWN_AT_LEAST, _DRAWN * (pairs_per_problem or 0 if n is None else -(-n // len(places))))
    pairs = [
        pair
        for place in places
        for pair in draw_pairs(problems[place], place, kind=kind, n=each, max_chars=max_chars, rng=rng)
    ]
    # one pair a problem cannot be twins of one problem
    own = kind == SAME or n is None or n >= 2 * len(places)
    twins = choose_twins(
        match_twins(pairs, kind=kind, own=own, rng=rng),
        problems,
        n=n,
        own_first=kind == SAME,
        pairs_per_problem=pairs_per_problem,
        uses_per_answer=uses_per_answer,
        rng=rng,
    )
    drawn: _Drawn = []
    for twin in twins:
        swapped = bool(rng.integers(2))
        # of the last twins an odd n keeps one, either of the two
        order = (twin.one, twin.other) if rng.integers(2) else (twin.other, twin.one)
        drawn += [(pair, swapped) for pair in order[: None if n is None else n - len(drawn)]]
    return drawn


def _item(
    problem: RatedProblem, pair: DrawnPair, *, swapped: bool, split: str, number: int, domain: str
) -> SourcedItem:
    a, b = problem.answers[pair.first], problem.answers[pair.second]
    if swapped:
        a, b = b, a
    return SourcedItem(
        item_id=f"{split}-{number}",
        problem=problem.problem,
        answer_a=a.text,
        answer_b=b.text,
        label_a=int(a.correct),
        label_b=int(b.correct),
        domain=domain,
        split=split,
        source_a=a.source,
        source_b=b.source,
        problem_id=problem.problem_id,
        answer_id_a=a.answer_id,
        answer_id_b=b.answer_id,
        status_a=a.status,
        status_b=b.status,
    )


def _part(split: str, asked: int | None, drawn: "_Drawn", places: Sequence[int], *, has_other: bool) -> SplitPart:
    short = asked is not None and len(drawn) < asked
    return SplitPart(asked, len(drawn), len(places), _why(split, len(places), has_other=has_other) if short else "")


def _why(split: str, n_problems: int, *, has_other: bool) -> str:
    if split == "other_domain" and not has_other:
        return "no answers of another domain were given"
    if not n_problems:
        return "no problem is left for it"
    kind = "two right or two wrong answers" if split == "ood" else "a right and a wrong answer"
    return (
        f"the {n_problems} problems for it give no more pairs of {kind} that have a twin, within the limits on the "
        "uses of a problem and of an answer"
    )


def _no_pair(problems: Sequence[RatedProblem], *, max_chars: int | None) -> str:
    part = domain_part("", problems, NOTHING_LEFT_OUT)
    if part.n_mixed:
        return (
            f"no pair is left to train on: {part.n_mixed} problems have a right and a wrong answer, but none with a "
            f"pair of at most {max_chars} characters; allow longer ones"
        )
    return (
        f"no pair can be made: of {part.n_problems} problems none has both a right and a wrong answer "
        f"({part.n_right_only} have right ones only, {part.n_wrong_only} wrong ones only, {part.n_unanswered} none); "
        "sample more answers"
    )
