import math
from dataclasses import replace

import numpy as np
import pytest

from corpo_rl.evaluation import ItemTable, table_to_json
from corpo_rl.experiment.folder import append_row, write_json
from corpo_rl.experiment.results import collect, floor_warnings
from corpo_rl.experiment.runner import prepare
from corpo_rl.experiment.settings import MINI
from corpo_rl.report.schema import check_results, results_json
from corpo_rl.report.text import compare_text
from corpo_rl.tasks.mini import MiniTask

N_ITEMS = 40


def table(split, n_correct):
    return ItemTable(
        split=split,
        n_samples=[4] * N_ITEMS,
        n_correct=n_correct,
        n_parsed=[4] * N_ITEMS,
        reward_sum=[float(n) for n in n_correct],
        measure_sums={"brier": [0.4] * N_ITEMS, "hedge": [0.0] * N_ITEMS, "score_accuracy": [2.0] * N_ITEMS},
        parse_failures={},
    )


def write_job(folder, n_correct, steps=2):
    for split in ("in_domain", "ood"):
        write_json(folder / "evaluation" / f"{split}.json", table_to_json(table(split, n_correct)))
    write_json(folder / "environment.json", {"python": "3"})
    for step in range(1, steps + 1):
        append_row(
            folder / "metrics.jsonl",
            {
                "step": step,
                "reward": 0.5,
                "loss": 0.1,
                "step_time": 1.5,
                "corpo/r_count": None,
                "corpo/groups/mixed": 1.0,
            },
        )


@pytest.fixture
def experiment(tmp_path):
    out = tmp_path / "out"
    settings = prepare(out, replace(MINI, samples_per_item=4, k=4))
    assert settings.k == 4
    write_job(out / "base", [1] * N_ITEMS)
    write_json(out / "base" / "items.json", {s: {"used": N_ITEMS, "too_long": 3} for s in ("in_domain", "ood")})
    # corpo gets one more right than grpo on every item: a difference of exactly 1/4 with no spread
    for seed in (0, 1):
        write_job(out / "runs" / f"grpo-s{seed}", [2] * N_ITEMS)
        write_job(out / "runs" / f"corpo-s{seed}", [3] * N_ITEMS)
        write_job(out / "runs" / f"static-s{seed}", [(item % 2) * 4 for item in range(N_ITEMS)])
    return out


def comparison(results, method, reference, measure="pass@1", split="ood"):
    keys = {"method": method, "reference": reference, "measure": measure, "split": split}
    (found,) = [one for one in results["comparisons"] if keys.items() <= one.items()]
    return found


def test_differences_by_hand(experiment):
    results = collect(experiment, methods=["grpo", "corpo", "static"], seeds=[0, 1], command="x")
    constant = comparison(results, "corpo", "grpo")
    assert constant["difference"] == {"value": 0.25, "low": 0.25, "high": 0.25}
    assert (constant["verdict"], constant["n_items"], constant["n_seeds"]) == ("higher", N_ITEMS, 2)
    # static: all of every other item, nothing of the rest; its mean is grpo's
    level = comparison(results, "static", "grpo")
    assert level["difference"]["value"] == pytest.approx(0.0)
    assert level["difference"]["low"] < -0.1 < 0.1 < level["difference"]["high"]
    assert level["verdict"] == "no difference found"
    assert comparison(results, "grpo", "base")["difference"]["value"] == pytest.approx(0.25)
    assert comparison(results, "corpo", "static")["difference"]["value"] == pytest.approx(0.25)


def test_values_are_pooled_over_seeds(experiment):
    results = collect(experiment, methods=["grpo", "corpo"], seeds=[0, 1], command="x")
    pooled = results["methods"]["corpo"]["evaluation"]["in_domain"]
    assert pooled["measures"]["pass@1"]["value"] == 0.75
    assert pooled["measures"]["pass@4"]["value"] == 1.0
    assert pooled["n_samples"] == 2 * 4 * N_ITEMS
    assert "other_domain" not in results["splits"], "a split nobody was judged on is absent, not zero"
    assert results["splits"]["ood"]["n_too_long"] == 3


def test_curves_keep_undefined_as_none_and_absent_as_absent(experiment):
    (run, *_) = collect(experiment, methods=["grpo"], seeds=[0], command="x")["runs"]
    assert run["curves"]["step"] == [1, 2]
    assert run["curves"]["r_count"] == [None, None]
    assert run["curves"]["class_mixed"] == [1.0, 1.0]
    assert "r_loss" not in run["curves"]
    assert run["train_seconds"] == 3.0


def test_results_follow_their_schema_and_hold_no_nan(experiment):
    results = collect(experiment, methods=["grpo", "corpo"], seeds=[0, 1], command="x")
    check_results(results)
    assert "NaN" not in results_json(results)


def test_what_was_not_judged_is_told_and_pooled(experiment):
    for seed in (0, 1):
        folder = experiment / "runs" / f"corpo-s{seed}"
        incomplete = replace(table("ood", [2] * N_ITEMS), n_samples=[3] * N_ITEMS, unscorable={"not_judged": N_ITEMS})
        write_json(folder / "evaluation" / "ood.json", table_to_json(incomplete))
    append_row(experiment / "runs" / "corpo-s0" / "metrics.jsonl", {"step": 3, "corpo/unscorable": 5.0})
    results = collect(experiment, methods=["grpo", "corpo"], seeds=[0, 1], command="x")
    check_results(results)
    pooled = results["methods"]["corpo"]["evaluation"]["ood"]
    assert (pooled["n_samples"], pooled["unscorable"]) == (2 * 3 * N_ITEMS, {"not_judged": 2 * N_ITEMS})
    assert pooled["measures"]["pass@1"]["value"] == pytest.approx(2 / 3)
    assert pooled["measures"]["pass@4"]["value"] is None, "of no item 4 were judged"
    assert "unscorable" not in results["methods"]["grpo"]["evaluation"]["ood"]
    told = {(run["method"], run["seed"]): run["warnings"] for run in results["runs"]}
    assert told["grpo", 0] == []
    on_ood = "out of domain: 40 of 160 completions could not be judged (not_judged) and are in no figure"
    in_training = "5 training completions could not be judged, and nothing was learnt from them"
    assert (told["corpo", 0], told["corpo", 1]) == ([in_training, on_ood], [on_ood])
    assert on_ood in " ".join(compare_text(results).split())


def test_splits_are_described_as_pairs_only_where_they_hold_pairs(experiment, monkeypatch):
    described = collect(experiment, methods=["grpo"], seeds=[0], command="x")["splits"]["ood"]["description"]
    assert described == "both answers right or both wrong, the domain trained on"

    class Texts(MiniTask):
        def items(self, split):
            return ["a"]

    monkeypatch.setattr("corpo_rl.experiment.results.load_task", lambda *_: Texts())
    described = collect(experiment, methods=["grpo"], seeds=[0], command="x")["splits"]["ood"]["description"]
    assert described == "held out of training, unlike what was trained on"


def test_floor_warnings_are_retold_from_the_log():
    def rows(floored, exceeding):
        return [
            {"step": step, "corpo/floored_group_share": floored, "corpo/exceeding_share": exceeding}
            for step in range(1, 26)
        ]

    assert floor_warnings(rows(0.5, 0.5), 0.2) == []
    (inert,) = floor_warnings(rows(0.0, 0.5), 0.2)
    assert inert.startswith("step 20: floor is inert")
    (saturated,) = floor_warnings(rows(1.0, 0.0), 0.2)
    assert "saturated" in saturated
    assert floor_warnings(rows(None, None), 0.2) == []


def test_the_reference_is_grpo_wherever_it_stands(experiment):
    results = collect(experiment, methods=["corpo", "grpo"], seeds=[0, 1], command="x")
    assert results["settings"]["reference"] == "grpo"
    assert comparison(results, "corpo", "grpo")["difference"]["value"] == pytest.approx(0.25)
    assert math.isclose(np.mean([one["n_seeds"] for one in results["comparisons"]]), 2)
