import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpo_rl.core.calibration import auroc, brier_score, expected_calibration_error

COUNTS = st.lists(st.integers(0, 4), min_size=11, max_size=11)
LEVELS = np.arange(11) / 10


def answers(right, wrong):
    """One (probability, label) for each count."""
    return [(level, 1) for level, n in zip(LEVELS, right, strict=True) for _ in range(n)] + [
        (level, 0) for level, n in zip(LEVELS, wrong, strict=True) for _ in range(n)
    ]


@given(COUNTS, COUNTS)
def test_auroc_is_the_share_of_ordered_pairs(right, wrong):
    found = answers(right, wrong)
    of_right, of_wrong = [[p for p, label in found if label == kind] for kind in (1, 0)]
    wins = [(p > q) + (p == q) / 2 for p in of_right for q in of_wrong]
    expected = sum(wins) / len(wins) if wins else np.nan
    assert auroc(right, wrong) == pytest.approx(expected, nan_ok=True)


@given(COUNTS, COUNTS)
def test_brier_and_ece_one_answer_after_the_other(right, wrong):
    found = answers(right, wrong)
    brier = sum((p - label) ** 2 for p, label in found) / len(found) if found else np.nan
    assert brier_score(right, wrong, LEVELS) == pytest.approx(brier, nan_ok=True)
    gaps = 0.0
    for level in LEVELS:
        labels = [label for p, label in found if p == level]
        if labels:
            gaps += len(labels) / len(found) * abs(sum(labels) / len(labels) - level)
    expected = gaps if found else np.nan
    assert expected_calibration_error(right, wrong, LEVELS) == pytest.approx(expected, nan_ok=True)


def test_known_cases():
    perfect_right, perfect_wrong = [0] * 10 + [5], [5] + [0] * 10
    assert auroc(perfect_right, perfect_wrong) == 1
    assert auroc(perfect_wrong, perfect_right) == 0
    assert brier_score(perfect_right, perfect_wrong, LEVELS) == 0
    hedge = [0] * 5 + [3] + [0] * 5
    assert auroc(hedge, hedge) == 0.5
    assert brier_score(hedge, hedge, LEVELS) == 0.25
    assert expected_calibration_error(hedge, hedge, LEVELS) == 0  # half of them are right, as 5 of 10 claims


def test_leading_axes_are_kept():
    rng = np.random.default_rng(0)
    right, wrong = rng.integers(0, 5, size=(2, 7, 3, 11))
    for figure in (
        auroc,
        lambda r, w: brier_score(r, w, LEVELS),
        lambda r, w: expected_calibration_error(r, w, LEVELS),
    ):
        table = figure(right, wrong)
        assert table.shape == (7, 3)
        assert table[4, 1] == figure(right[4, 1], wrong[4, 1])


def test_undefined_is_nan():
    none = [0] * 11
    some = [1] * 11
    assert np.isnan(auroc(none, some))
    assert np.isnan(auroc(some, none))
    assert np.isnan(brier_score(none, none, LEVELS))
    assert np.isnan(expected_calibration_error(none, none, LEVELS))
