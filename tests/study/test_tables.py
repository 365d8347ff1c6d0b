"""The tables of the page: numbers recomputed by other means, and their places on the page."""

import math
import re

import numpy as np
import pytest

from corpo_rl.errors import DataError
from corpo_rl.study.claims import CLAIMS, LIMITS, summary, verdicts
from corpo_rl.study.tables import (
    SHORT,
    dynamics_table,
    facts_text,
    fill_in,
    generated,
    limits_table,
    outcome_table,
    short_table,
    steps_table,
    summary_table,
    table,
    timing_table,
    verdict_text,
    verdicts_table,
)

from .made_up import study_of

STUDY = study_of()
FOUND = verdicts(STUDY)
SUMMED = summary(FOUND)


def cells(text):
    """Rows of a Markdown table by their first cell."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()[2:]]
    return {row[0]: row[1:] for row in rows}


def first_number(cell):
    return float(re.match(r"[-+]?[\d.]+", cell)[0])


def main_runs(reward, method, threshold):
    return [
        run
        for run in STUDY.results["runs"]
        if (run["part"], run["reward"], run["method"], run["threshold"]) == ("main", reward, method, threshold)
    ]


def test_outcomes_are_the_means_of_the_runs():
    rows = cells(outcome_table(STUDY, "min_margin", 0.6))
    assert list(rows) == ["base", "`grpo`", "`dr_grpo`", "`static`", "`corpo`"]
    for method, trained_under in (("grpo", None), ("corpo", 0.6)):
        for place, split in enumerate(("in_domain", "ood", "other_domain")):
            counts = [
                [int(digit) for digit in run["evaluation"][split]["correct"]["0.6"]]
                for run in main_runs("min_margin", method, trained_under)
            ]
            assert first_number(rows[f"`{method}`"][2 * place]) == pytest.approx(np.mean(counts) / 4, abs=0.0051)
            assert first_number(rows[f"`{method}`"][2 * place + 1]) == pytest.approx(
                np.mean(np.array(counts) > 0), abs=0.0051
            )
    assert re.fullmatch(r"0\.\d\d \[0\.\d\d, 0\.\d\d\]", rows["`corpo`"][0])
    assert "[" not in rows["base"][0], "a base was judged once"


def test_dynamics_are_counted_over_the_windows():
    rows = cells(dynamics_table(STUDY, "brier", 0.68))
    early = [
        math.log((sum(run["series"]["up"][:2]) + 0.5) / (sum(run["series"]["down"][:2]) + 0.5))
        for run in main_runs("brier", "static", 0.68)
    ]
    assert first_number(rows["`static`"][0]) == pytest.approx(math.exp(np.mean(early)), rel=0.006)
    share = [
        sum(run["series"]["failed_up"]["0.68"][:2]) / sum(run["series"]["failed"]["0.68"][:2])
        for run in main_runs("brier", "grpo", None)
    ]
    assert first_number(rows["`grpo`"][3]) == pytest.approx(100 * np.mean(share), abs=0.051)
    assert rows["`corpo`"][3] == "0.0 %"
    assert rows["`corpo`"][5:7] == ["50.0 %", "50.0 %"], "half of the groups were made to lie under it"


def test_verdicts_of_a_reward_have_a_column_for_each_threshold():
    rows = cells(verdicts_table(FOUND, reward="min_margin"))
    assert list(rows) == [claim.key for claim in CLAIMS if claim.where == "main"]
    for key, row in rows.items():
        for threshold, cell in zip((0.2, 0.6), row, strict=True):
            found = next(
                one for one in FOUND if (one["key"], one["reward"], one["threshold"]) == (key, "min_margin", threshold)
            )
            claim = next(claim for claim in CLAIMS if claim.key == key)
            assert cell == verdict_text(claim, found)
            assert found["verdict_of_all"] in cell
    assert "supported" in cells(verdicts_table(FOUND, reward=None))["7"][0]


def test_a_cell_tells_both_verdicts_where_they_differ():
    claim = next(claim for claim in CLAIMS if claim.key == "4a")
    row = {
        "interval": {"value": 0.0314, "low": 0.0012, "high": 0.06},
        "verdict": "supported", "verdict_of_all": "undecided", "n_undefined": 2,
    }  # fmt: skip
    assert verdict_text(claim, row) == "+0.031 [+0.001, +0.060] undecided; alone supported; 2 seeds undefined"
    ratio = next(claim for claim in CLAIMS if claim.key == "2a")
    row = {**row, "interval": {"value": math.log(0.5), "low": math.log(0.25), "high": None}, "n_undefined": 0}
    assert verdict_text(ratio, {**row, "verdict": "undecided"}) == "0.5 [0.25, n/a] undecided"
    assert verdict_text(ratio, None) == ""


def test_summary_and_limits():
    rows = cells(summary_table(SUMMED))
    assert list(rows) == [claim.key for claim in CLAIMS]
    for row in SUMMED:
        if row["key"] in rows:
            assert rows[row["key"]][1:4] == [str(row[word]) for word in ("supported", "not supported", "undecided")]
            assert rows[row["key"]][4] == f"**{row['overall']}**"
    limits = cells(limits_table(FOUND))
    assert list(limits) == [claim.key for claim in LIMITS]
    assert limits["F2a"][1].startswith("0 [0, 0] supported")


def test_the_short_table_leaves_no_claim_out_and_adds_up():
    assert sorted(key for keys in SHORT.values() for key in keys) == sorted(claim.key for claim in CLAIMS)
    rows, by_key = cells(short_table(FOUND)), {row["key"]: row for row in SUMMED}
    assert list(rows) == list(SHORT)
    for text, keys in SHORT.items():
        *counts, word = rows[text]
        added = [sum(by_key[key][verdict] for key in keys) for verdict in ("supported", "not supported", "undecided")]
        assert [int(count) for count in counts] == added
        if len(keys) == 1:
            assert word == f"**{by_key[keys[0]]['overall']}**"
        if added[0] and added[1]:
            assert word == "**mixed**"


def test_steps_say_how_well_the_updates_met():
    rows = cells(steps_table(STUDY))
    # static moved half as far in the pilot, so its rate is twice the base rate of 1e-3, and then it moves as far
    assert rows["`min_margin/static@0.6`"][:2] == ["2.00e-03", "1.00 [1.00, 1.00]"]
    assert rows["`min_margin/grpo`"][0] == "1.00e-03"
    assert rows["`brier/corpo@0.68`"][2] == f"{100 / 24:.1f} %", "the last of 24 steps was clipped"


def test_timing_and_facts():
    rows = cells(timing_table(STUDY))
    assert rows["`grpo`"] == ["1.002", "1"]
    assert first_number(rows["`corpo`"][1]) == 1.0  # 1.002, to three digits
    n = len(STUDY.results["runs"])
    assert facts_text(STUDY).startswith(f"{n} of {n} runs, {n * 10 / 3600:.1f} hours of one core in all; the median")


def test_a_part_of_a_study_has_tables_too():
    study = study_of(without=lambda run: run.part in ("timing", "failing", "main") and run.seed != 0)
    found = verdicts(study)
    parts = generated(study, found, summary(found))
    assert "n/a" in parts["verdicts"]
    nothing = study_of(without=lambda run: run.part != "pilot")
    parts = generated(nothing, [], [])
    assert parts["summary"] == parts["timing"] == "Nothing of this was run."


def test_the_page_is_filled_in_and_filled_in_again():
    parts = generated(STUDY, FOUND, SUMMED)
    page = "Words.\n" + "".join(f"<!-- results: {name} -->\nold\n<!-- end: {name} -->\nmore\n" for name in parts)
    filled = fill_in(page, parts)
    assert "\nold\n" not in filled
    assert filled.startswith("Words.\n<!-- results: facts -->\n")
    assert filled.count("more\n") == len(parts)
    assert fill_in(filled, parts) == filled
    for text in parts.values():
        assert text in filled


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("<!-- results: b -->\n<!-- end: b -->", "expected places for a, found b"),
        ("<!-- results: a -->\n", "expected <!-- end: a --> after <!-- results: a -->"),
    ],
)
def test_a_page_without_a_place_is_refused(page, message):
    with pytest.raises(DataError, match=message):
        fill_in(page, {"a": "text"})


def test_a_table_is_markdown():
    assert table(["", "x"], [["a", 1]]) == "|  | x |\n| --- | --- |\n| a | 1 |"
