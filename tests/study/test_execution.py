"""One run: what is counted from its log, what is judged, and that its numbers depend on the job alone."""

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpo_rl.errors import DataError
from corpo_rl.study.execution import execute, job_as_json, split_counts, step_counts
from corpo_rl.study.plan import Plan, Run, Sizes
from corpo_rl.study.worker import job_from_json
from corpo_rl.tasks.mini import MiniTask

pytestmark = pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*is deprecated:FutureWarning")

SIZES = Sizes(
    steps=3, prompts=2, group_size=4, learning_rate=6e-4, early=1, late=1, bin=1, samples=2, items=4, hedge_steps=1,
    timing_steps=4, timing_rounds=1,
)  # fmt: skip
PLAN = Plan(SIZES, {"min_margin": (0.2, -0.6)}, ("grpo", "corpo"), (0, 1), (9,), (0,))


def log(folder, *steps):
    folder.mkdir()
    for number, (rewards, advantages, groups) in enumerate(steps):
        table = pa.table(
            {"corpo_reward": rewards, "advantage": pa.array(advantages, pa.float32()), "corpo_group": groups}
        )
        pq.write_table(table, folder / f"completions_{number:05d}.parquet")


def test_counts_of_a_step_by_hand(tmp_path):
    log(
        tmp_path / "completions",
        # group means -0.25 and 0.6
        ([-1.0, 0.5, 0.2, 1.0], [-0.75, 0.75, 0.0, 0.4], ["a", "a", "b", "b"]),
        ([0.1, 0.1, 0.1, 0.1], [0.0, 0.0, 0.0, 0.0], ["c", "c", "d", "d"]),
    )
    found = step_counts(tmp_path / "completions", (0.2, 0.6, -1.0), n_steps=2)
    assert found["reward"] == [0.175, 0.1]
    assert (found["up"], found["down"]) == ([2, 0], [1, 0])
    assert found["failed"] == {"0.2": [1, 4], "0.6": [3, 4], "-1": [0, 0]}  # 0.2 has reached 0.2
    assert found["failed_up"] == {"0.2": [0, 0], "0.6": [1, 0], "-1": [0, 0]}  # the one of 0.5
    assert found["floored"] == {"0.2": [1, 2], "0.6": [1, 2], "-1": [0, 0]}
    with pytest.raises(DataError, match="expected the completions of 3 steps, found 2"):
        step_counts(tmp_path / "completions", (0.2,), n_steps=3)


def test_counts_of_an_evaluation_by_hand():
    task = MiniTask(reward="min_margin")
    first, second = task.items("in_domain")[:2]
    assert (first.label_a, second.label_a) == (1, 0)
    # right by 4 points, by 1 point, the hedge, and nothing; rewards 0.8, 0.2, 0 and -1
    answers = [["1;9,1", "1;6,4"], ["1;5,5", "nothing"]]
    sizes = replace(SIZES, items=2)
    found = split_counts(task, "in_domain", lambda prompts, n: answers, (0.2, 0.6, 0.0), sizes)
    assert found["correct"] == {"0.2": "20", "0.6": "10", "0": "21"}
    assert found["reward"] == pytest.approx(0.0, abs=1e-9)  # (0.8 + 0.2 + 0 - 1) / 4
    # of the three that parsed: (0.01 + 0.16 + 0.25) / 3, and one hedge
    assert found["brier"] == pytest.approx(0.14)
    assert found["hedge"] == pytest.approx(1 / 3, abs=1e-4)
    assert (found["unparsed"], found["n_samples"]) == (0.25, 2)

    nothing = split_counts(task, "in_domain", lambda prompts, n: [["", ""], ["", ""]], (0.2,), sizes)
    assert (nothing["brier"], nothing["hedge"], nothing["unparsed"]) == (None, None, 1.0)


def test_a_job_goes_through_a_file():
    job = PLAN.job(PLAN.runs("main")[3], {"min_margin/corpo@0.2": 5e-4, "min_margin/corpo@-0.6": 1e-3})
    assert job_from_json(job_as_json(job)) == job


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Records of some runs, made one after another in this process."""
    pytest.importorskip("trl", reason="trains: needs corpo-rl[train]")
    out = tmp_path_factory.mktemp("study")
    runs = {
        "grpo": Run("main", "mini", "min_margin", "grpo", None, 0),
        "corpo": Run("main", "mini", "min_margin", "corpo", 0.2, 0),
        # GRPO, told another threshold, and after another run
        "grpo again": Run("main", "mini", "min_margin", "grpo", -0.6, 0),
        "inert": Run("main", "mini", "min_margin", "corpo", -1.0, 0),
        "dr_grpo": Run("main", "mini", "min_margin", "dr_grpo", None, 0),
        "timing": Run("timing", "mini", "min_margin", "grpo+corpo", 0.2, 0),
    }
    rates = {f"min_margin/{name}": 6e-4 for name in ("grpo", "grpo@-0.6", "corpo@0.2", "corpo@-1", "dr_grpo")}
    return {name: execute(PLAN.job(run, rates), out, out / "scratch") for name, run in runs.items()}


def test_a_record_holds_every_step_and_item(ran):
    record = ran["corpo"]
    assert {len(record["series"][name]) for name in ("reward", "up", "down", "update", "gradient", "hedge")} == {3}
    assert all(up + down <= 8 for up, down in zip(record["series"]["up"], record["series"]["down"], strict=True))
    assert record["series"]["failed_up"]["0.2"] == [0, 0, 0], "CoRPO reinforces no failure"
    assert sum(ran["grpo"]["series"]["failed_up"]["0.2"]) > 0
    assert {split: len(found["correct"]["-0.6"]) for split, found in record["evaluation"].items()} == {
        "in_domain": 4, "ood": 4, "other_domain": 4,
    }  # fmt: skip
    assert len(record["base_sha256"]) == 16


def test_the_first_update_is_that_of_adam(ran):
    # its first step moves every weight that has a gradient by the learning rate, whatever the gradient
    from corpo_rl.policies.local import load_policy

    n_weights = sum(weight.numel() for weight in load_policy("mini").model.parameters())
    bound = 6e-4 * math.sqrt(n_weights)
    assert 0.9 * bound < ran["corpo"]["series"]["update"][0] < 1.001 * bound


def test_methods_without_a_threshold_train_the_same_under_any_and_after_any_run(ran):
    assert ran["grpo again"]["series"] == ran["grpo"]["series"]
    assert ran["grpo again"]["evaluation"] == ran["grpo"]["evaluation"]
    assert ran["grpo"]["series"] != ran["corpo"]["series"]


def test_an_inert_floor_is_the_group_mean(ran):
    for name in ("reward", "up", "down", "update"):
        assert ran["inert"]["series"][name] == ran["dr_grpo"]["series"][name]


def test_every_method_is_timed_in_every_round(ran):
    (row,) = ran["timing"]["rounds"]
    assert list(row) == ["grpo", "corpo"]
    assert all(0 < seconds < 10 for seconds in row.values())
    assert "series" not in ran["timing"]


def test_updates_are_those_of_the_weights(ran):
    assert np.isfinite(ran["grpo"]["series"]["update"]).all()
    assert ran["grpo"]["series"]["update"][1] < ran["grpo"]["series"]["update"][0]
