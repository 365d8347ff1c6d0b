from dataclasses import replace

import pytest

from corpo_rl.errors import DataError, UsageError
from corpo_rl.study.plan import PARTS, Run, condition_name, matched_rates

from .made_up import PLAN, SIZES


def test_a_run_is_named_by_all_it_is():
    assert Run("main", "mini", "brier", "corpo", -0.6, 3).name == "main-mini-brier-corpo@-0.6-s3"
    assert Run("main", "mini", "brier", "grpo", None, 3).name == "main-mini-brier-grpo-s3"
    assert condition_name("brier", "corpo", 0.68) == "brier/corpo@0.68"
    names = [run.name for part in PARTS for run in PLAN.runs(part)]
    assert len(set(names)) == len(names)


def test_methods_without_a_threshold_are_trained_once():
    # min_margin: grpo, dr_grpo, and static and corpo at 2 thresholds each = 6; brier, one threshold: 4
    assert PLAN.conditions("min_margin") == [
        ("grpo", None), ("dr_grpo", None), ("static", 0.2), ("static", 0.6), ("corpo", 0.2), ("corpo", 0.6),
    ]  # fmt: skip
    assert len(PLAN.runs("pilot")) == 2 * (6 + 4)
    assert len(PLAN.runs("main")) == 2 + 6 * (6 + 4)  # and the base under each reward


def test_the_main_part_goes_seed_after_seed():
    seeds = [run.seed for run in PLAN.runs("main") if run.part == "main"]
    assert seeds == sorted(seeds)


def test_what_should_fail():
    runs = PLAN.runs("failing")
    # for each of 2 rewards: the hedging base; 3 seeds of 4 methods from it and 2 saturated; 2 pilot seeds of 2 inert
    assert len(runs) == 2 * (1 + 3 * (4 + 2) + 2 * 2)
    assert {run.threshold for run in runs if run.base == "hedge" and run.method == "corpo"} == {0.2, 0.68}
    inert = [run for run in runs if run.threshold == -1.0]
    assert {run.seed for run in inert} == {100, 101}


def test_a_run_is_judged_by_every_threshold_of_its_reward_and_its_own():
    assert PLAN.judged(Run("main", "mini", "min_margin", "grpo", None, 0)) == (0.2, 0.6)
    assert PLAN.judged(Run("failing", "mini", "min_margin", "corpo", 1.0, 0)) == (0.2, 0.6, 1.0)


def pilot_record(method, threshold, update, seed=100, reward="min_margin"):
    run = {"reward": reward, "method": method, "threshold": threshold, "seed": seed}
    return {"run": run, "series": {"update": update}}


def test_rates_are_matched_by_the_size_of_the_update():
    pilot = [
        pilot_record("grpo", None, [0.3, 0.1]),
        pilot_record("grpo", None, [0.3, 0.5], seed=101),  # in all 0.3
        pilot_record("static", 0.2, [0.1, 0.1]),
        pilot_record("static", 0.2, [0.1, 0.3], seed=101),  # in all 0.15: half as far
        pilot_record("grpo", None, [0.2, 0.2], reward="brier"),
        pilot_record("corpo", 0.68, [0.3, 0.3], reward="brier"),  # 2/3 of the base rate of 1e-3
    ]
    assert matched_rates(pilot, SIZES) == {
        "min_margin/grpo": 1e-3, "min_margin/static@0.2": 2e-3, "brier/grpo": 1e-3, "brier/corpo@0.68": 6.67e-4,
    }  # fmt: skip
    with pytest.raises(DataError, match="expected runs of grpo under brier, found none"):
        matched_rates(pilot[:4] + pilot[5:], SIZES)


def test_who_trains_at_a_matched_rate():
    rates = {"min_margin/corpo@0.2": 5e-4, "min_margin/grpo": 1e-3}

    def rate(*run):
        return PLAN.job(Run(*run), rates).learning_rate

    assert rate("main", "mini", "min_margin", "corpo", 0.2, 0) == 5e-4
    assert rate("failing", "hedge", "min_margin", "corpo", 0.2, 0) == 5e-4
    assert rate("failing", "mini", "min_margin", "corpo", -1.0, 100) == 1e-3  # as dr_grpo in the pilot
    assert rate("pilot", "mini", "min_margin", "corpo", 0.2, 100) == 1e-3
    with pytest.raises(KeyError):
        rate("main", "mini", "min_margin", "static", 0.2, 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"early": 3}, "early: expected a multiple of bin=2, got 3"),
        ({"late": 12}, "late: expected early \\+ 2 x late within 24 steps, got 12"),
        ({"samples": 36}, "samples: expected 1 to 35, got 36"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(change, message):
    with pytest.raises(UsageError, match=message):
        replace(SIZES, **change)


def test_plans_that_do_not_fit_are_refused():
    with pytest.raises(UsageError, match=r"expected none of the study's seeds, got \[5\]"):
        replace(PLAN, pilot_seeds=(5, 100))
    with pytest.raises(UsageError, match=r"expected grpo and others of .*, got \['ppo'\]"):
        replace(PLAN, methods=("grpo", "ppo"))
    with pytest.raises(UsageError, match="methods: expected grpo"):
        replace(PLAN, methods=("corpo",))
