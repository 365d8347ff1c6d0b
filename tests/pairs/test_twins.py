from collections import Counter

import numpy as np
import pytest

from corpo_rl.pairs.rated import RatedAnswer, RatedProblem, tidied
from corpo_rl.pairs.twins import (
    MIXED,
    SAME,
    DrawnPair,
    Twins,
    choose_twins,
    draw_pairs,
    has_mixed_pair,
    has_same_twins,
    match_twins,
)


def problem(*answers):
    (found,) = tidied(
        [RatedProblem("1", "P?", tuple(RatedAnswer(text, correct=label, source=by) for by, text, label in answers))]
    ).problems
    return found


def many(n_right, n_wrong, *, sources=("x",)):
    rng = np.random.default_rng(0)
    return problem(
        *(
            (sources[number % len(sources)], f"{number:03}" + "." * int(rng.integers(60)), number < n_right)
            for number in range(n_right + n_wrong)
        )
    )


def draw(one, kind, n, *, max_chars=None, seed=0):
    return draw_pairs(one, 0, kind=kind, n=n, max_chars=max_chars, rng=np.random.default_rng(seed))


@pytest.mark.parametrize(("n_right", "n_wrong"), [(1, 1), (3, 4), (4, 6), (6, 6), (1, 9), (0, 5)])
def test_all_pairs_are_drawn_when_all_are_wanted(n_right, n_wrong):
    pairs = draw(many(n_right, n_wrong), MIXED, 1000)
    assert len({frozenset((pair.first, pair.second)) for pair in pairs}) == len(pairs) == n_right * n_wrong
    pairs = draw(many(n_right, n_wrong), SAME, 1000)
    assert len({frozenset((pair.first, pair.second)) for pair in pairs}) == len(pairs)
    assert Counter(pair.label for pair in pairs) == Counter(
        {1: n_right * (n_right - 1) // 2, 0: n_wrong * (n_wrong - 1) // 2}
    )


def test_few_pairs_use_all_answers_alike():
    one = many(10, 60)
    uses = Counter(place for pair in draw(one, MIXED, 120) for place in (pair.first, pair.second))
    right = [uses[place] for place, answer in enumerate(one.answers) if answer.correct]
    wrong = [uses[place] for place, answer in enumerate(one.answers) if not answer.correct]
    assert (min(right), max(right)) == (12, 12)  # 120 pairs over 10 right answers
    assert (min(wrong), max(wrong)) == (2, 2)  # and over 60 wrong ones
    same = Counter(place for pair in draw(one, SAME, 60) if not pair.label for place in (pair.first, pair.second))
    assert (min(same.values()), max(same.values())) == (2, 2)  # 60 pairs of 60 wrong answers


def test_a_pair_is_seen_in_one_order():
    one = problem(("x", "rrrr", True), ("x", "ww", False), ("y", "wwwwww", False))
    assert {(pair.sources, pair.length, pair.label) for pair in draw(one, MIXED, 9)} == {
        (("x", "x"), 2, 1),  # one source: the longer one first
        (("x", "y"), -2, 1),  # two sources: by name
    }


def test_answers_that_two_sources_share_do_not_meet_twice():
    one = problem(("x", "right", True), ("y", "right", True), ("x", "wrong", False), ("y", "wrong", False))
    assert len(draw(one, MIXED, 9)) == 1
    assert draw(one, SAME, 9) == []


def test_long_pairs_are_not_drawn():
    one = problem(("x", "r" * 10, True), ("x", "w" * 20, False), ("x", "w" * 21, False))
    assert len(draw(one, MIXED, 9, max_chars=32)) == 1  # "P?" and 10 and 20
    assert has_mixed_pair(one, max_chars=32)
    assert not has_mixed_pair(one, max_chars=31)


def test_which_problems_give_twins_of_their_own_out_of_domain():
    assert has_same_twins(many(2, 2))
    assert not has_same_twins(many(1, 5))
    # two right ones by x and y, and two wrong ones by x and z
    assert not has_same_twins(
        problem(("x", "a", True), ("y", "b", True), ("x", "c", False), ("z", "d", False)),
    )
    assert has_same_twins(problem(("x", "a", True), ("y", "b", True), ("x", "c", False), ("y", "d", False)))


def pair(of, length, label, *, sources=("x", "x"), first=0, second=1):
    return DrawnPair(of, first, second, sources, length, label)


def matched(pairs, *, own, kind=MIXED):
    twins = match_twins(pairs, kind=kind, own=own, rng=np.random.default_rng(0))
    return {frozenset([(twin.one.problem, twin.one.length), (twin.other.problem, twin.other.length)]) for twin in twins}


def test_matching_worked_by_hand():
    pairs = [pair(0, 10, 1), pair(0, 18, 0), pair(1, 12, 0), pair(1, 40, 0), pair(1, 41, 1)]
    pairs += [pair(2, 0, 1), pair(2, -12, 0)]
    # across: 10 with 12, 40 with 41; own: 10 with 18 in problem 0, 41 with 40; -12 and 0 are of other sides
    assert matched(pairs, own=True) == {frozenset([(0, 10), (0, 18)]), frozenset([(1, 40), (1, 41)])}
    assert matched(pairs, own=False) == {frozenset([(0, 10), (1, 12)]), frozenset([(1, 40), (1, 41)])}


def test_twins_are_by_the_same_sources():
    pairs = [pair(0, 5, 1, sources=("x", "y")), pair(0, 5, 0, sources=("x", "z")), pair(1, 6, 0, sources=("x", "y"))]
    assert matched(pairs, own=True) == {frozenset([(0, 5), (1, 6)])}


def chosen(twins, problems, **limits):
    settings = {"n": None, "own_first": False, "pairs_per_problem": None, "uses_per_answer": None, **limits}
    return choose_twins(twins, problems, rng=np.random.default_rng(0), **settings)


def test_choosing_goes_round_the_problems_and_their_answers():
    problems = [many(4, 4), many(4, 4), many(4, 4)]
    twins = [
        Twins(pair(of, 1, 1, first=place, second=4 + place), pair(of, 1, 0, first=4 + other, second=other))
        for of in range(3)
        for place in range(4)
        for other in range(4)
    ]
    picked = chosen(twins, problems, n=12)
    assert Counter(twin.one.problem for twin in picked) == {0: 2, 1: 2, 2: 2}
    uses = Counter((one.problem, place) for twin in picked for one in (twin.one, twin.other) for place in (one.first,))
    assert max(uses.values()) <= 2
    assert len(chosen(twins, problems, n=11)) == 6, "one pair too many, for the caller to leave out"
    assert max(Counter(twin.one.problem for twin in chosen(twins, problems, pairs_per_problem=5)).values()) == 2
    assert len(chosen(twins, problems, uses_per_answer=2)) <= 3 * 4


def test_twins_that_are_unlike_in_length_wait():
    problems = [many(4, 4), many(4, 4)]
    unlike = Twins(pair(1, 1, 1, first=0, second=4), pair(1, 40, 0, first=5, second=1))
    like = [Twins(pair(0, 1, 1, first=n, second=4 + n), pair(0, 11, 0, first=4 + n, second=n)) for n in range(3)]
    assert unlike.unlike
    assert not any(twin.unlike for twin in like)
    assert unlike not in chosen([unlike, *like], problems, n=6)
    assert unlike in chosen([unlike, *like], problems, n=8)


def test_matching_prefers_like_lengths_to_one_problem():
    pairs = [pair(0, 10, 1), pair(0, 90, 0), pair(1, 12, 0), pair(1, 85, 1)]
    assert matched(pairs, own=True) == {frozenset([(0, 10), (1, 12)]), frozenset([(0, 90), (1, 85)])}


def test_own_twins_go_first_where_that_is_asked():
    problems = [many(4, 4), many(4, 4)]
    own = Twins(pair(0, 1, 1, first=0, second=1), pair(0, 1, 0, first=4, second=5))
    across = Twins(pair(0, 1, 1, first=2, second=3), pair(1, 1, 0, first=4, second=5))
    assert chosen([across, own], problems, n=2, own_first=True) == [own]
    assert chosen([own, across], problems, n=2) == [across], "one pair of a problem before two"
