import json
from dataclasses import replace

import pytest

from corpo_rl.errors import UsageError
from corpo_rl.experiment.settings import MINI
from corpo_rl.sweep.plan import FILE, direction_of, plan_from_json, prepare_sweep
from corpo_rl.sweep.space import Dimension

METHODS = Dimension("method", ("corpo", "static"))
RATES = Dimension("learning_rate", low=1e-4, high=1e-3, log=True)
REST = {
    "judged_by": None,
    "seeds": (0, 1),
    "objective": "pass@1",
    "direction": None,
    "split": "in_domain",
    "sampler": "tpe",
    "sampler_seed": 0,
    "hold": "rollouts",
}


def prepare(out, dimensions=(METHODS, RATES), settings=MINI, **changes):
    return prepare_sweep(out, settings, dimensions, **{**REST, **changes})


def test_a_plan_comes_back_from_its_file_and_from_the_same_call(tmp_path):
    plan = prepare(tmp_path / "out")
    stored = json.loads((tmp_path / "out" / FILE).read_text())
    assert plan_from_json(stored).to_json() == plan.to_json()
    assert prepare(tmp_path / "out").to_json() == plan.to_json()
    assert (plan.direction, plan.judged_by) == ("maximize", 0.2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": (0,)}, r"holds another sweep \(seeds is \[0, 1\] there and \[0\] here\)"),
        ({"sampler_seed": 1}, r"sampler_seed is 0 there and 1 here"),
        ({"dimensions": (METHODS,)}, r"dimensions is method corpo,static; learning_rate 0.0001:0.001 there"),
        ({"settings": replace(MINI, steps=3)}, r"steps is 100 there and 3 here"),
        ({"judged_by": 0.5}, r"min_correct is None there and 0.5 here"),
    ],
)
def test_another_plan_in_the_same_folder_is_refused(tmp_path, changes, message):
    prepare(tmp_path / "out")
    with pytest.raises(UsageError, match=message):
        prepare(tmp_path / "out", **changes)


def test_a_folder_with_something_else_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="expected a new or empty folder"):
        prepare(tmp_path)
    assert (tmp_path / "notes.txt").exists()


def test_a_kill_before_the_plan_was_written_does_no_harm(tmp_path):
    plan = prepare(tmp_path / "out")
    (tmp_path / "out" / FILE).unlink()
    (tmp_path / "out" / "start" / "experiment.json").write_text("{")
    assert prepare(tmp_path / "out").to_json() == plan.to_json()


def test_all_trials_are_judged_by_one_threshold(tmp_path):
    several = Dimension("min_correct", (-0.2, 0.6))
    plan = prepare(tmp_path / "several", (METHODS, several))
    assert plan.judged_by == 0.2, "the task's own"
    assert plan.trial({"method": "corpo", "min_correct": 0.6}, tmp_path)[1].min_correct == 0.6
    one = prepare(tmp_path / "one", (METHODS, Dimension("min_correct", (0.6,))))
    assert one.judged_by == 0.6
    assert one.trial({"method": "corpo"}, tmp_path)[1].min_correct == 0.6
    said = prepare(tmp_path / "said", (METHODS, several), judged_by=0.4)
    assert said.judged_by == 0.4
    assert prepare(tmp_path / "plain").trial({"method": "corpo", "learning_rate": 1e-3}, tmp_path)[1].min_correct == 0.2


def test_what_has_one_value_is_fixed_and_not_searched(tmp_path):
    plan = prepare(tmp_path / "out", (Dimension("method", ("corpo",)), RATES))
    assert plan.fixed == {"method": "corpo"}
    assert plan.searched == (RATES,)
    assert plan.trial({"learning_rate": 5e-4}, tmp_path)[0] == "corpo"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sampler": "best"}, r"--sampler: expected one of tpe, random, grid"),
        ({"hold": "breath"}, r"--hold: expected one of rollouts, prompts"),
        ({"split": "train"}, r"--split: expected one of in_domain, ood, other_domain"),
        ({"sampler_seed": -1}, r"--sampler-seed: expected at least 0"),
        ({"objective": "pass@3"}, r"--objective: pass@1 and pass@16 are evaluated, got 'pass@3'"),
        ({"objective": "kindness"}, r"--objective: 'kindness' is not among .* add --direction"),
        ({"objective": "brier", "direction": "maximize"}, r"--direction: brier is better the lower it is"),
        ({"sampler": "grid"}, r"--learning-rate: a grid needs values with commas"),
    ],
)
def test_bad_input_is_one_line(tmp_path, changes, message):
    with pytest.raises(UsageError, match=message):
        prepare(tmp_path / "out", **changes)


def test_directions():
    assert direction_of("pass@4", None, k=4) == "maximize"
    assert direction_of("brier", None, k=4) == "minimize"
    assert direction_of("kindness", "minimize", k=4) == "minimize"
