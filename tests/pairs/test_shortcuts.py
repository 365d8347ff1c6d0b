import numpy as np
import pytest

from corpo_rl.errors import DataError
from corpo_rl.pairs.built import SourcedItem
from corpo_rl.pairs.shortcuts import (
    ALONE,
    BOTH_LENGTH,
    BOTH_SOURCES,
    DIFFERENCE,
    FIRST,
    LONGER,
    PROBLEM,
    PROBLEM_LENGTH,
    SOURCE,
    THRESHOLD,
    find_shortcuts,
)


def pair(answer_a, answer_b, label_a, source_a="x", source_b="y", *, label_b=None, problem="p"):
    label_b = 1 - label_a if label_b is None else label_b
    return SourcedItem("i", problem, answer_a, answer_b, label_a, label_b, "d", "train", source_a, source_b)


def measured(items):
    return {one.rule: one for one in find_shortcuts(items, rng=np.random.default_rng(0))}


def plain_auroc(of_right, of_wrong):
    wins = [(one > other) + (one == other) / 2 for one in of_right for other in of_wrong]
    return sum(wins) / len(wins)


ITEMS = [
    pair("long answer", "short", 0),  # shorter, B, y beats x; difference 6
    pair("short", "long answer", 1),  # shorter, A, x beats y; -6
    pair("equal", "EQUAL", 1, "y", "x"),  # tie, A, y beats x; 0
    pair("short", "long answer", 1, "y", "z"),  # shorter, A, y beats z; -6
    pair("longer", "long", 1, "z", "y"),  # longer, A, z beats y; 2
    pair("same", "sources", 0, "w", "w"),  # longer, B; -3
]


def test_worked_by_hand():
    found = measured(ITEMS)
    assert found[LONGER].score == pytest.approx((2 + 0.5) / 6)
    assert found[FIRST].score == pytest.approx(4 / 6)
    # x and y: 2 of 3 to y; y and z: 1 of 2 to either; w and w: half
    assert found[SOURCE].score == pytest.approx((2 + 1 + 0.5) / 6)
    # differences where A is right: -6, 0, -6, 2; where B is: 6, -3. Wins of 8: 0 > -3, 2 > -3
    assert found[DIFFERENCE].score == pytest.approx(2 / 8)
    # shorter by 6 or more: right in 3 of 3; the other 3 guessed
    assert found[THRESHOLD].score == pytest.approx((3 + 1.5) / 6)
    assert found[ALONE].score == pytest.approx(plain_auroc([5, 5, 5, 5, 6, 7], [11, 11, 5, 11, 4, 4]))


def test_worked_by_hand_on_pairs_of_one_label():
    found = measured(
        [
            pair("aa", "bb", 1, label_b=1, problem="one"),
            pair("a", "b", 1, label_b=1, problem="one"),
            pair("aa", "b", 0, "y", "x", label_b=0, problem="one"),
            pair("aaa", "b", 0, "x", "x", label_b=0, problem="other"),
        ]
    )
    assert found[BOTH_LENGTH].score == pytest.approx(plain_auroc([4, 2], [3, 4]))
    assert found[PROBLEM_LENGTH].score == pytest.approx(plain_auroc([3, 3], [3, 5]))
    # x with y: 2 of 3 right; x with x: all wrong
    assert found[BOTH_SOURCES].score == pytest.approx((2 + 1) / 4)
    assert found[PROBLEM].score == pytest.approx((2 + 1) / 4)


def test_longer_wins():
    found = measured([pair("long answer", "short", 1), pair("a", "bb", 0), pair("aa", "b", 1)])
    assert {found[rule].score for rule in (LONGER, DIFFERENCE, THRESHOLD)} == {1.0}


def test_a_threshold_takes_all_pairs_with_a_difference_or_none():
    assert measured([pair("aaa", "b", 1), pair("aaa", "b", 0)])[THRESHOLD].score == 0.5
    assert measured([pair("aaa", "b", 0), pair("aaa", "b", 1), pair("aaaa", "b", 1)])[THRESHOLD].score == 2 / 3


def test_chance_is_what_random_labels_give():
    rng = np.random.default_rng(1)
    items = [
        pair("a" * rng.integers(1, 40), "b" * rng.integers(1, 40), int(rng.integers(2)), *rng.permutation(["x", "y"]))
        for _ in range(300)
    ]
    found = measured(items)
    # a share of 300 coin flips: standard deviation 0.5 / sqrt(300) = 0.0289, and 1.96 of them either way
    for rule in (LONGER, FIRST):
        assert found[rule].chance.value == pytest.approx(0.5, abs=0.006)
        assert found[rule].chance.low == pytest.approx(0.5 - 1.96 * 0.0289, abs=0.012)
        assert found[rule].chance.high == pytest.approx(0.5 + 1.96 * 0.0289, abs=0.012)
    # the better of two opposite rules: the mean of |z| is sqrt(2 / pi) standard deviations
    assert found[SOURCE].chance.value == pytest.approx(0.5 + 0.0289 * (2 / np.pi) ** 0.5, abs=0.004)
    for shortcut in found.values():
        assert shortcut.chance.low - 0.02 <= shortcut.score <= shortcut.chance.high + 0.02


def test_auroc_without_both_labels_is_not_known():
    found = measured([pair("a", "bb", 1, label_b=1)])
    assert np.isnan(found[BOTH_LENGTH].score)
    assert np.isnan(found[BOTH_LENGTH].chance.value)


@pytest.mark.parametrize("items", [[], [pair("a", "b", 1, label_b=1), pair("a", "b", 1)]])
def test_pairs_it_cannot_measure(items):
    with pytest.raises(DataError, match="measured on pairs of one kind"):
        find_shortcuts(items, rng=np.random.default_rng(0))
