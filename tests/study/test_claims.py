"""Verdicts on made-up studies whose truth was planted."""

import math
from dataclasses import replace

import numpy as np
import pytest

from corpo_rl.study.claims import CLAIMS, LIMITS, summary, verdicts
from corpo_rl.study.quantities import Study
from corpo_rl.study.verdicts import seed_interval

from . import made_up
from .made_up import PLAN, results_of, study_of

STUDY = study_of()
FOUND = verdicts(STUDY)
WORDS = {}
for row in FOUND:
    WORDS.setdefault(row["key"], []).append(row["verdict"])


def test_every_claim_has_a_number_of_its_own():
    keys = [claim.key for claim in CLAIMS + LIMITS]
    assert len(set(keys)) == len(keys)
    assert {key[0] for key in keys} == {"1", "2", "3", "4", "5", "6", "7", "F"}


@pytest.mark.parametrize(
    ("key", "word"),
    [
        ("1", "supported"),  # 30 % of the failures
        ("2a", "supported"),  # 0.2 up against 0.8 down
        ("2b", "supported"),
        ("3a", "supported"),  # from 0.2 to 0.8
        ("3b", "supported"),  # 0.4 and 0.4
        ("3c", "supported"),  # 0.8 against 0.4
        ("4a", "supported"),  # 0.45 against 0.2
        ("4e", "supported"),
        ("5", "supported"),  # 0.55 against 0.7
        ("6a", "supported"),  # 0.45 against 0.3
        ("6e", "supported"),
        ("7", "supported"),  # two thousandths dearer
        ("F1d", "supported"),
        ("F2a", "supported"),
        ("F2b", "supported"),
        ("F3a", "supported"),
        ("F3b", "supported"),
        ("F3c", "supported"),  # 0.4 against 0.7
    ],
)
def test_what_was_planted_is_found(key, word):
    assert set(WORDS[key]) == {word}


def test_what_was_not_planted_is_not_found():
    # in the other domain all methods are alike, at 0.5
    for key in ("4c", "4g", "6c", "6g"):
        assert "supported" not in WORDS[key], key


def test_the_opposite_is_refused(monkeypatch):
    monkeypatch.setitem(made_up.UP, "static", (0.8, 0.5, 0.2))
    monkeypatch.setitem(made_up.UP, "corpo", (0.2, 0.2, 0.8))
    monkeypatch.setitem(made_up.REINFORCED, "grpo", 0.02)
    monkeypatch.setitem(made_up.SOLVED, "corpo", (0.9, 0.05, 0.5))
    found = verdicts(study_of())
    for key in ("1", "2a", "3a", "3b", "3c", "4e", "5", "6e"):
        assert {row["verdict"] for row in found if row["key"] == key} == {"not supported"}, key


def test_cells_of_a_claim():
    cells = {row["key"]: [] for row in FOUND}
    for row in FOUND:
        cells[row["key"]].append((row["reward"], row["threshold"]))
    assert cells["4a"] == [("min_margin", 0.2), ("min_margin", 0.6), ("brier", 0.68)]
    assert cells["F2a"] == [("min_margin", 0.2), ("brier", 0.68)]
    assert cells["7"] == [(None, None)]


def test_one_number_by_hand():
    row = next(row for row in FOUND if (row["key"], row["reward"]) == ("4a", "brier"))
    runs = STUDY.results["runs"]

    def rates(method):
        of = sorted(
            (run for run in runs if (run["part"], run["reward"], run["method"]) == ("main", "brier", method)),
            key=lambda run: run["seed"],
        )
        return np.array([[int(digit) / 4 for digit in run["evaluation"]["ood"]["correct"]["0.68"]] for run in of])

    difference_SI = rates("static") - rates("grpo")
    assert row["interval"]["value"] == pytest.approx(difference_SI.mean(), rel=1e-5)
    # three cells: a level of 1 - 0.05 / 3
    allowed = seed_interval(difference_SI, level=1 - 0.05 / 3)
    assert row["interval_of_all"]["low"] == pytest.approx(allowed.low, rel=1e-5)
    assert row["interval_of_all"]["low"] < row["interval"]["low"]
    assert row["n_seeds"] == 6


def test_what_was_not_run_has_no_verdict():
    study = study_of(without=lambda run: run.method == "static" or run.part in ("failing", "timing"))
    keys = {row["key"] for row in verdicts(study)}
    assert {"1", "2b", "4e", "6e"} <= keys
    assert not keys & {"2a", "3a", "3c", "4a", "5", "6a", "7", "F1a", "F2a", "F2b", "F3a", "F3c"}


def test_only_seeds_that_both_have_are_compared():
    study = study_of(without=lambda run: run.part == "main" and run.method == "corpo" and run.seed > 2)
    rows = {row["key"]: row["n_seeds"] for row in verdicts(study)}
    assert (rows["4e"], rows["4a"], rows["2b"], rows["2a"]) == (3, 6, 3, 6)


def test_seeds_of_which_nothing_is_known_are_counted():
    results = results_of()
    grpo = [run for run in results["runs"] if (run["part"], run["method"]) == ("main", "grpo")]
    for run in grpo:
        if run["seed"] < 2:
            run["series"]["failed"] = {name: [0] * 12 for name in run["series"]["failed"]}
            run["series"]["failed_up"] = {name: [0] * 12 for name in run["series"]["failed_up"]}
    row = next(row for row in verdicts(Study(results)) if row["key"] == "1")
    assert (row["n_seeds"], row["n_undefined"]) == (4, 2)


def test_one_seed_decides_nothing():
    plan = replace(PLAN, seeds=(0,), few_seeds=(0,))
    rows = [row for row in verdicts(study_of(plan)) if row["key"] in ("1", "2a", "4a", "F1a")]
    assert rows
    assert {row["verdict"] for row in rows} == {"undecided"}
    assert {row["interval"]["low"] for row in rows} == {None}


def test_summary_counts_the_verdicts_that_allow_for_all_cells():
    rows = {row["key"]: row for row in summary(FOUND)}
    assert rows["4a"]["n_cells"] == 3
    for key, row in rows.items():
        words = [one["verdict_of_all"] for one in FOUND if one["key"] == key]
        assert [row[word] for word in ("supported", "not supported", "undecided")] == [
            words.count("supported"), words.count("not supported"), words.count("undecided"),
        ]  # fmt: skip
    assert rows["1"]["overall"] == "supported"
    assert list(rows) == [claim.key for claim in CLAIMS + LIMITS]


def test_a_cost_over_the_margin_is_refused():
    results = results_of()
    for run in results["runs"]:
        for row in run.get("rounds", ()):
            row["corpo"] = 1.2 * row["grpo"]
    row = next(row for row in verdicts(Study(results)) if row["key"] == "7")
    assert row["verdict"] == "not supported"
    assert row["interval"]["value"] == pytest.approx(math.log(1.2), rel=1e-5)
