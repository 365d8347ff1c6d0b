import pytest

from corpo_rl.errors import DataError
from corpo_rl.pairs.build import SourcedItem
from corpo_rl.pairs.shortcuts import find_shortcuts


def pair(answer_a, answer_b, label_a, source_a="x", source_b="y", label_b=None):
    label_b = 1 - label_a if label_b is None else label_b
    return SourcedItem("i", "p", answer_a, answer_b, label_a, label_b, "d", "train", source_a, source_b)


def test_worked_by_hand():
    found = find_shortcuts(
        [
            pair("long answer", "short", 0),  # shorter, B, y beats x
            pair("short", "long answer", 1),  # shorter, A, x beats y
            pair("equal", "EQUAL", 1, "y", "x"),  # tie, A, y beats x
            pair("short", "long answer", 1, "y", "z"),  # shorter, A, y beats z
            pair("long answer", "short", 1, "z", "y"),  # longer, A, z beats y
        ]
    )
    assert found.n_pairs == 5
    assert found.length == pytest.approx((3 + 0.5) / 5)
    assert not found.longer
    assert found.position == pytest.approx(4 / 5)
    # x and y: 2 of 3 to y; y and z: 1 of 2 to either
    assert found.source == pytest.approx((2 + 1) / 5)


def test_longer_wins():
    found = find_shortcuts([pair("long answer", "short", 1)])
    assert (found.length, found.longer, found.source) == (1.0, True, 1.0)


@pytest.mark.parametrize("items", [[], [pair("a", "b", 1, label_b=1)]])
def test_pairs_it_cannot_measure(items):
    with pytest.raises(DataError, match="measured on pairs of one right and one wrong"):
        find_shortcuts(items)
