"""What is collected of a sweep, against figures worked out from tables written by hand."""

import json
from dataclasses import replace

import numpy as np
import pytest

from corpo_rl.experiment.folder import write_json
from corpo_rl.experiment.settings import MINI
from corpo_rl.report.sweep_schema import check_sweep, sweep_json
from corpo_rl.sweep import trial as trials
from corpo_rl.sweep.plan import prepare_sweep
from corpo_rl.sweep.results import _parts, chosen_trial, collect
from corpo_rl.sweep.space import Dimension
from corpo_rl.sweep.statistics import selection_half
from corpo_rl.sweep.study import Study, Trial
from corpo_rl.sweep.trial import Work, problems, run_work
from tests.sweep.written import N_ITEMS, Written

pytest.importorskip("optuna", reason="needs corpo-rl[sweep]")

METHODS = Dimension("method", ("corpo", "static", "rloo", "grpo"))


@pytest.fixture
def collected(tmp_path, monkeypatch):
    """Four trials: one far better on the half that chooses and worse on the other, one level with it, one far off, one
    failed; and a confirmation of the first."""
    writer = Written()
    monkeypatch.setattr(trials, "run_all", writer)
    plan = prepare_sweep(
        tmp_path, replace(MINI, samples_per_item=4, k=4, eval_items=N_ITEMS), (METHODS,), judged_by=None,
        seeds=(0, 1), objective="pass@1", direction=None, split="in_domain", sampler="grid", sampler_seed=0,
        hold="rollouts",
    )  # fmt: skip

    def work(kind, number, method, seeds=()):
        what = Work(kind, number, {"method": method}, seeds)
        return run_work(tmp_path, plan, what, seed_jobs=1, keep_policies=False)

    work("start", 0, "corpo")
    write_json(tmp_path / "start" / "base" / "environment.json", {"python": "3"})
    half_I = selection_half(problems(tmp_path, "in_domain"))
    study = Study(tmp_path, plan)
    lucky = [4 if chosen else 1 for chosen in half_I]
    # level on the half that chooses but for one item, which is as often right under the other seed
    level = [list(lucky), list(lucky)]
    level[0][int(np.argmax(half_I))] = 3
    for number, per_seed in enumerate([[lucky, lucky], level, [[2] * N_ITEMS] * 2]):
        writer.n_correct = dict(enumerate(per_seed))
        added = study.add()
        study.finish(number, work("trial", number, str(added.params["method"])).value)
    study.add()
    study.fail(3, "diverged")
    writer.n_correct = {5: [2] * N_ITEMS, 6: [3] * N_ITEMS}
    work("confirm", 0, "corpo", (5, 6))
    results = collect(tmp_path, plan, study, n_trials=4, confirm_seeds=(5, 6), jobs=1, command="corpo-rl sweep")
    study.close()
    document = json.loads(sweep_json(results))
    check_sweep(document)
    return document


def test_each_half_has_its_own_figures(collected):
    first, second, third, failed = collected["trials"]
    assert first["selection"]["value"] == 1.0
    assert first["held_out"]["value"] == 0.25, "1 of 4 on every item that did not choose"
    assert first["by_seed"] == [1.0, 1.0]
    # one sample of one item fewer under one of two seeds: 1 - (1/4) / n_items / 2
    n_chosen = collected["splits"]["selection"]["n_items"]
    assert second["selection"]["value"] == pytest.approx(1 - 0.25 / n_chosen / 2)
    assert (third["selection"]["value"], third["held_out"]["value"]) == (0.5, 0.5)
    assert third["selection"] == {"value": 0.5, "low": 0.5, "high": 0.5}
    assert (failed["state"], failed["selection"], failed["held_out"], failed["by_seed"]) == ("failed", None, None, [])
    assert collected["splits"]["held_out"]["n_items"] == N_ITEMS - n_chosen


def test_ties_are_those_of_the_half_that_chooses(collected):
    assert [trial["tied"] for trial in collected["trials"]] == [True, True, False, False]
    assert collected["best"] == 0


def test_the_confirmation_is_of_its_own_runs(collected):
    told = collected["confirmation"]
    assert (told["seeds"], told["reason"]) == ([5, 6], None)
    # seed 5: 2 of 4, seed 6: 3 of 4; the start has 1 of 4 everywhere
    for part in ("selection", "held_out", "ood"):
        assert told["parts"][part]["value"] == pytest.approx(0.625)
        assert told["over_start"][part]["value"] == pytest.approx(0.375)
        assert collected["start"][part]["value"] == 0.25
        assert told["parts"][part]["low"] == 0.5
        assert told["parts"][part]["high"] == 0.75
    assert collected["trials"][0]["held_out"]["value"] != told["parts"]["held_out"]["value"]


def test_halves_of_the_start_are_apart(tmp_path):
    half_I = np.arange(6) < 2
    plan = prepare_sweep(
        tmp_path, MINI, (METHODS,), judged_by=None, seeds=(0,), objective="pass@1", direction=None, split="in_domain",
        sampler="grid", sampler_seed=0, hold="rollouts",
    )  # fmt: skip
    values = {"in_domain": np.array([[1.0, 1.0, 0.0, 0.0, 0.5, 0.5]]), "ood": np.array([[0.2, 0.4]])}
    found = _parts(plan, values, {"in_domain": np.arange(6), "ood": np.arange(2)}, half_I)
    assert {name: one.value for name, one in found.items()} == {
        "selection": 1.0,
        "held_out": 0.25,
        "ood": pytest.approx(0.3),
    }


def trial(number, value, *, same_as=None):
    return Trial(number, "failed" if value is None else "finished", {}, value, same_as, None)


def test_the_best_is_the_first_of_equals_and_never_a_failed_one():
    found = [trial(0, None), trial(1, 0.2), trial(2, 0.7), trial(3, 0.7), trial(4, 0.7, same_as=2)]
    assert chosen_trial(found, minimize=False).number == 2
    assert chosen_trial(found, minimize=True).number == 1
    assert chosen_trial(found[:1], minimize=False) is None
