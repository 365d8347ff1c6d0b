"""What becomes of a trial, with the training itself replaced by a writer of tables."""

from dataclasses import replace

import numpy as np
import pytest

from corpo_rl.errors import UsageError
from corpo_rl.experiment.folder import append_row, read_json
from corpo_rl.experiment.runner import RunError
from corpo_rl.experiment.settings import MINI
from corpo_rl.pairs.files import write_pairs
from corpo_rl.records import VerifierItem
from corpo_rl.sweep import trial as trials
from corpo_rl.sweep.plan import prepare_sweep
from corpo_rl.sweep.space import Dimension
from corpo_rl.sweep.statistics import selection_half
from corpo_rl.sweep.trial import StoppedError, Work, diverged_at, objective_values, problems, run_tables, run_work
from tests.sweep.written import N_ITEMS, Written

METHODS = Dimension("method", ("corpo", "static"))
LEVELS = Dimension("min_correct", (-0.2, 0.2))
SETTINGS = replace(MINI, samples_per_item=4, k=4, eval_items=N_ITEMS)


@pytest.fixture
def written(monkeypatch):
    writer = Written()
    monkeypatch.setattr(trials, "run_all", writer)
    return writer


def sweep(out, dimensions=(METHODS,), seeds=(0, 1), objective="pass@1", settings=SETTINGS):
    plan = prepare_sweep(
        out, settings, dimensions, judged_by=None, seeds=seeds, objective=objective, direction=None,
        split="in_domain", sampler="random", sampler_seed=0, hold="rollouts",
    )  # fmt: skip
    work(out, plan, Work("start"))
    return plan


def work(out, plan, what, **options):
    return run_work(out, plan, what, **{"seed_jobs": 1, "keep_policies": False, **options})


CORPO = Work("trial", 0, {"method": "corpo"})


def test_the_value_is_the_mean_over_seeds_and_over_the_half_that_chooses(tmp_path, written):
    plan = sweep(tmp_path)
    half_I = selection_half(problems(tmp_path, "in_domain"))
    assert 0 < half_I.sum() < N_ITEMS
    # all right under seed 0 on the half that chooses and nowhere else, half of it right under seed 1
    written.n_correct = {0: [4 * int(chosen) for chosen in half_I], 1: [2] * N_ITEMS}
    outcome = work(tmp_path, plan, CORPO)
    assert (outcome.value, outcome.reason) == (pytest.approx((1.0 + 0.5) / 2), None)
    tables = run_tables(tmp_path / "trials" / "0000", plan, method="corpo", seeds=(0, 1), split="in_domain")
    values_SI = objective_values(plan, tables)
    assert values_SI[:, ~half_I].mean() == pytest.approx((0.0 + 0.5) / 2), "the other half is another figure"


def test_a_finished_trial_is_not_trained_again_and_its_weights_go(tmp_path, written):
    plan = sweep(tmp_path)
    outcome = work(tmp_path, plan, CORPO)
    n_calls = len(written.calls)
    assert work(tmp_path, plan, CORPO) == outcome
    assert len(written.calls) == n_calls
    folder = tmp_path / "trials" / "0000"
    assert not list(folder.glob("runs/*/policy"))
    assert not (folder / "base" / "policy").exists()
    assert (tmp_path / "start" / "base" / "policy").exists()
    other = work(tmp_path, plan, Work("trial", 1, {"method": "static"}), keep_policies=True)
    assert other.value == 0.5
    assert len(list((tmp_path / "trials" / "0001").glob("runs/*/policy"))) == 2


def test_trials_share_the_start(tmp_path, written):
    plan = sweep(tmp_path)
    work(tmp_path, plan, CORPO)
    shared = tmp_path / "trials" / "0000" / "base" / "evaluation" / "ood.json"
    assert shared.stat().st_ino == (tmp_path / "start" / "base" / "evaluation" / "ood.json").stat().st_ino


def test_another_threshold_is_trained_with_but_not_judged_by(tmp_path, written):
    plan = sweep(tmp_path, (Dimension("method", ("corpo",)), LEVELS))
    work(tmp_path, plan, Work("trial", 0, {"min_correct": -0.2}))
    # trained with -0.2; then each seed's policy is judged by the task's 0.2, as the start of an experiment of its own
    assert written.calls[1:] == [("0000", -0.2, (0, 1)), ("corpo-s0", 0.2, ()), ("corpo-s1", 0.2, ())]
    folder = tmp_path / "trials" / "0000"
    judged = read_json(folder / "judged" / "corpo-s1" / "experiment.json")["settings"]
    assert judged["policy"] == str(folder / "runs" / "corpo-s1" / "policy")
    # the writer says 1 of 4 for a start and 2 of 4 for a run: the figure is the judged one
    assert read_json(folder / "outcome.json")["value"] == 0.25
    n_calls = len(written.calls)
    work(tmp_path, plan, Work("trial", 1, {"min_correct": 0.2}))
    assert len(written.calls) == n_calls + 1, "trained with what it is judged by: nothing to judge again"


def test_a_crash_is_a_failed_trial_with_its_reason(tmp_path, written):
    plan = sweep(tmp_path)
    written.raises = [RunError("corpo-s0: its process ended with exit code 1; see the end of ...", 1)]
    outcome = work(tmp_path, plan, CORPO)
    assert (outcome.value, outcome.reason) == (None, "corpo-s0: RuntimeError: probability tensor contains nan")
    assert read_json(tmp_path / "trials" / "0000" / "outcome.json")["value"] is None


def test_a_run_ended_by_a_signal_is_tried_once_more(tmp_path, written):
    plan = sweep(tmp_path)
    killed = RunError("corpo-s0: its process was killed by signal 9; see ...", 1)
    written.raises = [killed]
    assert work(tmp_path, plan, CORPO).value == 0.5
    written.raises = [killed, killed]
    (tmp_path / "trials" / "0000" / "outcome.json").unlink()
    assert work(tmp_path, plan, CORPO).value is None
    assert not written.raises


@pytest.mark.parametrize("told", [True, False])
def test_what_is_no_fault_of_the_setting_ends_the_sweep(tmp_path, written, told):
    plan = sweep(tmp_path)
    written.told = told
    message = "corpo-s0: the task gave NaN" if told else "corpo-s0: no space left on the disk"
    written.raises = [RunError(message, 1)]
    with pytest.raises(RunError, match=message):
        work(tmp_path, plan, CORPO)
    assert not (tmp_path / "trials" / "0000" / "outcome.json").exists(), "run again, it is tried again"


def test_a_loss_that_is_no_number_to_the_end_is_a_failure(tmp_path, written):
    plan = sweep(tmp_path)
    written.loss = None
    assert work(tmp_path, plan, CORPO).reason == ("seed 0: diverged, loss or gradient is not a number from step 1 on")


@pytest.mark.parametrize(
    ("losses", "norms", "expected"),
    [
        ([0.1, 0.2, 0.3], [1, 1, 1], None),
        ([0.1, None, None], [1, 1, 1], 2),
        ([0.1, None, 0.3], [1, 1, 1], None),
        ([0.1, 0.2, 0.3], [1, 1, None], 3),
        ([None, 0.2, None], [1, 1, 1], 3),
    ],
)
def test_divergence(tmp_path, losses, norms, expected):
    for step, (loss, norm) in enumerate(zip(losses, norms, strict=True), start=1):
        append_row(tmp_path / "metrics.jsonl", {"step": step, "loss": loss, "grad_norm": norm})
    assert diverged_at(tmp_path) == expected


def test_an_objective_nobody_measured_is_told(tmp_path, written):
    plan = sweep(tmp_path, objective="brier")
    with pytest.raises(UsageError, match=r"--objective: 'brier' is not among the figures: pass@1, pass@4, mean_reward"):
        work(tmp_path, plan, CORPO)


def test_a_sweep_that_ends_stops_its_trials(tmp_path, written):
    plan = sweep(tmp_path)
    with pytest.raises(StoppedError):
        work(tmp_path, plan, CORPO, stopped=lambda: True)


def test_a_folder_half_made_is_made_again(tmp_path, written):
    plan = sweep(tmp_path)
    folder = tmp_path / "trials" / "0000"
    folder.mkdir(parents=True)
    (folder / ".experiment.json.part").write_text("{")
    assert work(tmp_path, plan, CORPO).value == 0.5


def test_items_know_their_problems(tmp_path, written):
    sweep(tmp_path)
    found = problems(tmp_path, "in_domain")
    assert len(found) == N_ITEMS
    assert len(np.unique(found)) == N_ITEMS, "no problem comes twice in the mini task"


def test_pairs_travel_with_the_sweep_and_those_of_a_problem_stay_together(tmp_path, written):
    pairs = tmp_path / "pairs.jsonl"
    splits = [("train", (1, 0))] * 2 + [("in_domain", (1, 0))] * N_ITEMS + [("ood", (1, 1))] * N_ITEMS
    write_pairs(
        pairs,
        [
            VerifierItem(f"{number}", f"What is {number // 2}?", f"yes {number}", "no", *labels, "gsm8k", split)
            for number, (split, labels) in enumerate(splits)
        ],
    )
    out = tmp_path / "out"
    plan = sweep(
        out, (Dimension("method", ("corpo",)), LEVELS), settings=replace(SETTINGS, task="pairs", pairs=str(pairs))
    )
    pairs.unlink()
    assert sorted(problems(out, "in_domain")) == sorted([*range(N_ITEMS // 2)] * 2)
    assert work(out, plan, Work("trial", 0, {"min_correct": -0.2})).value == 0.25
    assert (out / "trials" / "0000" / "judged" / "corpo-s0" / "pairs.jsonl").exists()


def test_the_split_must_have_items(tmp_path, written):
    plan = sweep(tmp_path)
    with pytest.raises(UsageError, match="--split: the task has no items in other_domain"):
        work(tmp_path, replace(plan, split="other_domain"), Work("start"))


def test_a_confirmation_keeps_its_seeds_and_weights(tmp_path, written):
    plan = sweep(tmp_path)
    outcome = work(tmp_path, plan, Work("confirm", 3, {"method": "static"}, (7, 8)))
    assert (outcome.value, outcome.reason) == (None, None)
    folder = tmp_path / "confirm" / "0003"
    assert read_json(folder / "outcome.json") == {"seeds": [7, 8], "reason": None}
    assert (folder / "runs" / "static-s8" / "policy").exists()
