import itertools
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpo_rl.errors import UsageError
from corpo_rl.ranking.schedule import (
    KNOCKOUT,
    METHODS,
    ROUND_ROBIN,
    SCORE,
    SWISS,
    WINS,
    Comparison,
    n_comparisons,
    next_pairs,
    survivors,
    swiss_rounds,
    tallies,
)


def compared(first, second, score_first, score_second):
    scores = [None if score is None else Fraction(score) for score in (score_first, score_second)]
    return Comparison(first, second, *scores, n_calls=1, n_parsed=int(scores[0] is not None), one_order=False)


def played_out(method, n, outcome, *, rank_by=SCORE, rounds=None):
    """All rounds of a method when `outcome(first, second)` gives the two scores."""
    played = []
    while pairs := next_pairs(method, played, n, rank_by=rank_by, rounds=rounds):
        played.append([compared(first, second, *outcome(first, second)) for first, second in pairs])
    return played


def pairs_of(played):
    return [[(one.first, one.second) for one in comparisons] for comparisons in played]


def test_tallies_by_hand():
    # 0 against 1: 8 to 3; 0 against 2: 5 to 5; 1 against 2: nothing parsed
    found = tallies([compared(0, 1, 8, 3), compared(0, 2, 5, 5), compared(1, 2, None, None)], 4)
    assert [(one.wins, one.ties, one.losses, one.n_unparsed) for one in found] == [
        (1, 1, 0, 0),
        (0, 0, 1, 1),
        (0, 1, 0, 1),
        (0, 0, 0, 0),
    ]
    # means: 13/2, 3/1, 5/1; shares won: (1 + 1/2)/2, 0/1, (1/2)/1
    assert [one.value(SCORE) for one in found] == [Fraction(13, 2), 3, 5, None]
    assert [one.value(WINS) for one in found] == [Fraction(3, 4), 0, Fraction(1, 2), None]


def test_sums_do_not_round():
    # in floats 0.1 + 0.2 + 0.3 depends on the order of its terms
    tenths = [compared(0, row, Fraction(tenth, 10), 0) for row, tenth in enumerate((1, 2, 3), start=1)]
    one_way, other_way = (tallies(list(order), 4)[0].value(SCORE) for order in (tenths, reversed(tenths)))
    assert one_way == other_way == Fraction(1, 5)


def test_round_robin_meets_every_pair_once():
    (pairs,) = pairs_of(played_out(ROUND_ROBIN, 5, lambda first, second: (1, 0)))
    assert sorted(pairs) == list(itertools.combinations(range(5), 2))


@pytest.mark.parametrize(
    ("n", "per_round"), [(1, []), (2, [1]), (3, [1, 1]), (4, [2, 1]), (5, [1, 2, 1]), (6, [2, 2, 1]), (8, [4, 2, 1])]
)
def test_knockout_takes_one_comparison_less_than_answers(n, per_round):
    played = played_out(KNOCKOUT, n, lambda first, second: (0, 1))
    assert [len(comparisons) for comparisons in played] == per_round
    assert sum(per_round) == n_comparisons(KNOCKOUT, n) == n - 1


@given(st.integers(2, 70))
def test_nobody_gets_through_a_knockout_unseen(n):
    played = played_out(KNOCKOUT, n, lambda first, second: (first % 7, second % 7))
    assert {answer for comparisons in played for one in comparisons for answer in (one.first, one.second)} == set(
        range(n)
    )
    left = survivors(played, n)
    assert [len(alive) for alive in left[1:]] == [
        len(left[0]) - sum(map(len, played[: row + 1])) for row in range(len(played))
    ]
    assert len(left[-1]) == 1
    (champion,) = left[-1]
    assert champion % 7 == min(6, n - 1)


def test_ties_in_a_knockout_go_to_the_better_score_so_far_and_then_to_the_lot():
    # first round 0 beats 1 by 6 to 2, 2 beats 3 by 9 to 1; the final is a tie at 7
    played = [[compared(0, 1, 6, 2), compared(2, 3, 9, 1)], [compared(0, 2, 7, 7)]]
    assert survivors(played, 4) == [[0, 1, 2, 3], [0, 2], [2]]  # means (6 + 7)/2 and (9 + 7)/2
    equal = [[compared(0, 1, 9, 2), compared(2, 3, 9, 1)], [compared(0, 2, 7, 7)]]
    assert survivors(equal, 4)[-1] == [0]


def test_the_score_so_far_holds_the_tie_itself():
    # of 3 answers, 2 and the better of 0 and 1 meet at 5: 0 has (2 + 5)/2, 2 has 5 alone
    played = [[compared(0, 1, 2, 1)], [compared(0, 2, 5, 5)]]
    assert survivors(played, 3) == [[0, 1, 2], [0, 2], [2]]


def test_who_was_never_scored_does_not_beat_who_was():
    played = [[compared(0, 1, None, None), compared(2, 3, 0, 0)], [compared(0, 2, None, None)]]
    assert survivors(played, 4)[1:] == [[0, 2], [2]]


def test_swiss_by_hand():
    # scores are 0, 1, 2, 3: after the first round, by lot, 3 leads and would meet 2 again, so it meets 1
    played = played_out(SWISS, 4, lambda first, second: (first, second))
    assert pairs_of(played) == [[(0, 1), (2, 3)], [(1, 3), (0, 2)]]


@given(st.integers(2, 40), st.integers(1, 12), st.integers(0, 10**6))
def test_swiss_never_repeats_a_pair_and_lets_each_play(n, rounds, salt):
    def outcome(first, second):
        return (hash((salt, first)) % 11, hash((salt, second)) % 11)

    played = played_out(SWISS, n, outcome, rounds=rounds)
    pairs = [pair for found in pairs_of(played) for pair in found]
    assert len(set(pairs)) == len(pairs) <= n_comparisons(SWISS, n, rounds=rounds)
    for found in pairs_of(played):
        answers = [answer for pair in found for answer in pair]
        assert len(set(answers)) == len(answers)
    if len(played) > 1:
        assert {answer for pair in pairs for answer in pair} == set(range(n))


@pytest.mark.parametrize(("n", "expected"), [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (8, 3), (9, 4), (1000, 10)])
def test_swiss_takes_log2_rounds(n, expected):
    assert swiss_rounds(n) == expected


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 7])
def test_swiss_stops_when_every_pair_has_met(n):
    played = played_out(SWISS, n, lambda first, second: (first, second), rounds=100)
    assert len(played) <= n
    assert sum(map(len, played)) <= n * (n - 1) // 2


def test_counts_of_comparisons():
    assert [n_comparisons(method, 9) for method in METHODS] == [36, 4 * 4, 8]
    with pytest.raises(UsageError, match="method: expected one of round-robin, swiss, knockout, got 'elo'"):
        n_comparisons("elo", 3)
