"""The page of CoRPO's kin shows the numbers that its file holds, and the file is what a comparison gives."""

import json
from pathlib import Path

import pytest

from corpo_rl.core.methods import BASES, parse_method
from corpo_rl.experiment.settings import VALUE_METHODS

from .scripts import load_script

RECIPE = Path(__file__).parent.parent / "recipes" / "kin"
PAGE = (RECIPE / "README.md").read_text()
FOUND = json.loads((RECIPE / "numbers.json").read_text())


@pytest.fixture(scope="module")
def figures():
    return load_script(RECIPE / "figures.py")


def test_the_tables_are_those_of_the_numbers(figures):
    assert figures.outcome_table(FOUND) in PAGE
    assert figures.scale_table(FOUND) in PAGE
    assert f"$ {FOUND['command']}\n" in PAGE


def test_every_base_was_run():
    run = {name if name in VALUE_METHODS else parse_method(name).base for name in FOUND["methods"]}
    assert run == {*BASES, *VALUE_METHODS}


def test_what_the_page_says_of_them():
    methods = FOUND["methods"]
    base = FOUND["base"]
    for name, row in methods.items():
        assert row["pass@1"]["in_domain"]["low"] > base["in_domain"]["high"], f"{name} learns"
        assert row["pass@1"]["other_domain"]["low"] > base["other_domain"]["high"], f"{name} learns"
        assert row["pass@1"]["ood"]["high"] < base["ood"]["low"], f"{name} loses"
        reinforced = row["curves"]["reinforced_failure_share"]["first"]
        if name not in VALUE_METHODS and parse_method(name).never_reinforces_failure:
            assert reinforced == 0, name
        elif name != "max_gap":
            assert 0.13 <= round(reinforced, 2) <= 0.38, name
    assert methods["ema"]["pass@1"] == methods["rloo"]["pass@1"]
    least = sorted(methods, key=lambda name: methods[name]["pass@1"]["in_domain"]["value"])[:2]
    assert sorted(least) == ["max_gap", "max_gap+gate"]
    norms = {name: methods[name]["curves"]["grad_norm"] for name in ("corpo", "corpo+batch_std", "corpo+phase")}
    assert norms["corpo+batch_std"]["first"] / norms["corpo"]["first"] == pytest.approx(2.5, abs=0.3)
    assert norms["corpo+phase"]["last"] > norms["corpo+phase"]["first"]


def test_the_numbers_are_read_off_the_results(figures):
    mini = json.loads((RECIPE.parent / "mini" / "results.json").read_text())
    found = figures.numbers({**mini, "runs": [run for run in mini["runs"] if run["seed"] == 0]})
    corpo = next(run for run in mini["runs"] if (run["method"], run["seed"]) == ("corpo", 0))
    last = sorted(value for value in corpo["curves"]["r_count"][80:100] if value is not None)
    assert found["methods"]["corpo"]["curves"]["r_count"]["last"] == pytest.approx((last[9] + last[10]) / 2)
    assert found["methods"]["corpo"]["pass@1"]["ood"] == corpo["evaluation"]["ood"]["measures"]["pass@1"]
