import re

import pytest

from corpo_rl.report.sweep_text import MOST_ROWS, sweep_text
from corpo_rl.report.sweep_view import cautions, headline, in_order, place_in_range, ranked

from .sweeps import RANGE, SWEEPS, document_of


@pytest.mark.parametrize("name", SWEEPS)
def test_it_fits_80_columns_and_moves_no_cursor(name):
    text = sweep_text(SWEEPS[name])
    assert max(map(len, text.splitlines())) <= 80
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e]", text)
    assert text.endswith("\n")


def test_the_figure_is_the_confirmed_one_and_never_the_luckiest():
    text = " ".join(sweep_text(SWEEPS["usual"]).split())
    assert text.startswith("0.620 [0.590, 0.650] pass@1 of trial 1: static, learning rate")
    assert "trained again under fresh seeds, on held-out items" in text
    assert "It was chosen at 0.700, as the best of 7 finished trials" in text
    assert "The same policies on the held-out items: 0.650." in text
    assert "Over the starting policy that is +0.320 [+0.280, +0.360]." in text
    assert "fresh seeds 8, 9" in text


def test_without_a_confirmation_the_luck_is_told():
    told = headline(SWEEPS["plain"])
    assert told.figure == "0.700"
    assert "on the very items it was chosen by" in told.lead
    assert any("too good by luck" in sentence for sentence in told.more)


def test_a_confirmation_that_failed_is_no_figure():
    document = document_of(3)
    document["confirmation"] |= {"reason": "seed 8: diverged", "parts": {}, "over_start": {}}
    told = headline(document)
    assert told.figure == "0.700"
    assert any("failed when it was trained again under fresh seeds: seed 8: diverged" in one for one in told.more)
    assert "starting policy" not in sweep_text(document)


def test_ties_and_failures_are_listed_as_such():
    text = sweep_text(SWEEPS["usual"])
    assert "4 trials tie with it: 0, 2, 4 and 6." in " ".join(text.split())
    rows = re.findall(r"^ +(\d+)([* ]) (.*)$", text, flags=re.MULTILINE)
    assert {int(number) for number, mark, _ in rows if mark == "*"} == {0, 1, 2, 4, 6}
    assert rows[0][0] == "1"
    (failed,) = (row for number, _, row in rows if number == "5")
    assert re.fullmatch(r"failed +static +\S+ +16 *", failed), "failed is not 0"
    assert "corpo-s0: RuntimeError: probability tensor" in text


def test_trials_stand_from_the_best_on_whichever_way_is_better():
    for name in ("usual", "least"):
        rows = [trial for trial in ranked(SWEEPS[name]) if trial["state"] == "finished"]
        values = [trial["selection"]["value"] for trial in rows]
        assert values == sorted(values, reverse=name == "usual")
        assert rows[0]["number"] == 1


def test_a_repeated_setting_names_its_first_trial_and_no_tie():
    text = sweep_text(document_of(4, repeated=(2,)))
    assert re.search(r"^ +2\* .* as 0 ", text, flags=re.MULTILINE)
    assert "1 trial ties with it: 0." in text


def test_many_trials_are_cut():
    text = sweep_text(SWEEPS["many"])
    assert f"{70 - MOST_ROWS} more are in results.json" in text


def test_when_nothing_finished_there_is_no_figure():
    text = sweep_text(SWEEPS["all failed"])
    assert text.startswith("No trial finished; 3 failed.")
    assert text.count("failed   ") == 3
    assert "[" not in text, "no interval of nothing"


def test_what_to_read_with_care():
    told = " ".join(cautions(SWEEPS["plain"]))
    assert "Every trial has one seed" in told
    assert "2 trials ran side by side" in told
    assert "--hold prompts" in told
    assert "With 2 seeds a trial" in " ".join(cautions(SWEEPS["usual"]))
    assert not list(cautions(document_of(6, seeds=range(5), dimensions=[{"name": "method", "choices": ["a", "b"]}])))


@pytest.mark.parametrize(("number", "edge"), [(1, False), (0, True), (9, True)])
def test_a_best_value_at_the_edge_is_told(number, edge):
    document = document_of(10, dimensions=[{"name": "method", "choices": ["corpo"]}, RANGE], seeds=range(5))
    rate = document["trials"][number]["params"]["learning_rate"]
    rate = rate if not edge else {0: 1.1e-4, 9: 9.5e-3}[number]
    document["trials"][1]["params"]["learning_rate"] = rate
    assert any("edge of what was searched" in one for one in cautions(document)) == edge


def test_places_in_a_range_are_on_the_scale_it_was_drawn_on():
    assert place_in_range(1e-3, RANGE) == pytest.approx(0.5)
    assert place_in_range(1e-3, {**RANGE, "log": False}) == pytest.approx(0.0009 / 0.0099)
    assert in_order({"group_size": 4, "method": "corpo"}) == [("method", "corpo"), ("group_size", 4)]
