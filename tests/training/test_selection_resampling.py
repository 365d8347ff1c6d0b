"""Resampling: full batches, where further prompts come from, several processes, and resumed runs."""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from corpo_rl.errors import DataError
from corpo_rl.rollouts.read import read_rollouts
from corpo_rl.training.selection import ON_DESELECTED
from corpo_rl.training.selection_rows import pack_rows, put_rows
from corpo_rl.training.spare_prompts import FILE, SparePrompts

from .selection_run import (
    CLASSES,
    GROUP,
    KEPT,
    STEPS,
    RecordedSelecting,
    assert_group_is_cores,
    class_of,
    groups_of,
    main,
    train,
    weights,
)
from .support import completion_log, graded, logged, prompts

pytestmark = [
    # transformers 5.24 renames its own setting, which TRL still sets
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore:You are using 'rollout_func', which is an experimental feature"),
]

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("rule", ["varying", "mixed", "keep_failed"])
def test_resampling_fills_the_batch_with_groups_of_other_prompts(tmp_path, rule):
    run = train(tmp_path, group_selection=rule, on_deselected="resample", max_resamples=9, max_steps=STEPS)
    assert len(run.losses) == STEPS
    for step, batch in enumerate(run.losses, start=1):
        groups = groups_of(batch)
        assert len(groups) == 5 or rule == "mixed", "the same prompt must not come twice"
        if rule == "mixed":  # of 20 prompts 4 are mixed: no batch can be full
            assert {class_of(prompt) for prompt in groups if groups[prompt][0][0]} == {"mixed"}
            continue
        for prompt, rows in groups.items():
            assert class_of(prompt) in KEPT[rule]
            assert_group_is_cores(prompt, rows)
        entry = logged(run, step)
        assert (entry["corpo/selected_groups"], entry["corpo/dropped_groups"]) == (5, 0)
        generated = [batch for batch in run.generations if batch.step == step - 1]
        assert len(generated) == 1, "what leaves the scoring is the batch, once"
        n_deselected = sum(entry[f"corpo/deselected/{name}"] for name in CLASSES)
        # alone, a process generates for as many groups as are missing, so that none is left over
        assert entry["corpo/generated_rollouts"] == GROUP * (5 + n_deselected)
        assert entry["corpo/deselected/mixed"] == 0
    assert sum(logged(run, step)["corpo/resampled_groups"] for step in range(1, STEPS + 1)) > 0


def test_what_resampling_cannot_fill_is_dropped_and_said_once(tmp_path, caplog):
    with caplog.at_level(logging.WARNING, logger="corpo_rl"):
        run = train(tmp_path, group_selection="mixed", on_deselected="resample", max_resamples=1)
    said = [record.getMessage() for record in caplog.records if "not full after max_resamples=1" in record.getMessage()]
    assert len(said) == 1
    assert "corpo/dropped_groups" in said[0]
    for step, batch in enumerate(run.losses, start=1):
        groups = groups_of(batch)
        kept = {prompt: rows for prompt, rows in groups.items() if rows[0][0]}
        for prompt, rows in kept.items():
            assert class_of(prompt) == "mixed"
            assert_group_is_cores(prompt, rows)
        assert logged(run, step)["corpo/dropped_groups"] == 5 - len(kept) > 0


def test_groups_that_find_no_room_are_left_out(tmp_path):
    class Generous(RecordedSelecting):
        """Generates for two groups more than are missing, as processes that cannot share fewer do."""

        def _further_inputs(self, n_groups, group_size, in_batch):
            return super()._further_inputs(n_groups + 2, group_size, in_batch)

    run = train(tmp_path, trainer=Generous, group_selection="keep_failed", on_deselected="resample", n_prompts=40)
    n_left_out = 0
    for step, batch in enumerate(run.losses, start=1):
        groups = groups_of(batch)
        assert len(groups) == 5
        for prompt, rows in groups.items():
            assert class_of(prompt) in KEPT["keep_failed"]
            assert_group_is_cores(prompt, rows)
        table = completion_log(tmp_path, step)
        left_out = table[~table["corpo_kept"]]
        assert not left_out["advantage"].any()
        n_left_out += sum(class_of(prompt.replace(" ", "")) != "all_correct_equal" for prompt in left_out["prompt"])
    assert n_left_out > 0, "some must have been kept by the rule and found no room"


def test_a_data_set_without_other_prompts_is_said(tmp_path, caplog):
    with caplog.at_level(logging.WARNING, logger="corpo_rl"):
        run = train(tmp_path, group_selection="mixed", on_deselected="resample", n_prompts=5, max_steps=1)
    assert any("no prompt left that is not in the batch" in record.getMessage() for record in caplog.records)
    assert logged(run, 1)["corpo/generated_rollouts"] == 20


def test_the_completion_log_holds_every_rollout_and_says_which_are_trained_on(tmp_path):
    run = train(tmp_path, group_selection="varying", on_deselected="resample", max_resamples=9)
    n_seen = 0
    for step in (1, 2):
        table = completion_log(tmp_path, step)
        assert len(table) == logged(run, step)["corpo/generated_rollouts"]
        expected = [class_of(prompt.replace(" ", "")) in KEPT["varying"] for prompt in table["prompt"]]
        assert table["corpo_kept"].tolist() == expected
        assert table["corpo_kept"].sum() == 20
        assert not table.loc[~table["corpo_kept"], "advantage"].any()
        assert (table.groupby("corpo_group").size() == GROUP).all()
        n_seen += len(table)
    assert n_seen > 40
    log = read_rollouts([tmp_path / "completions"])
    assert len(log.rewards_N) == n_seen, "the audit reads all of them"


def test_evaluation_selects_nothing(tmp_path):
    run = train(
        tmp_path,
        group_selection="mixed",
        on_deselected="resample",
        extra={"eval_dataset": prompts(5, first=50)},
        eval_strategy="steps",
        eval_steps=2,
        per_device_eval_batch_size=20,
        num_generations_eval=GROUP,
    )
    (evaluated,) = [batch for batch in run.generations if batch.mode == "eval"]
    assert {class_of(prompt) for prompt in groups_of(evaluated)} == set(CLASSES)
    for prompt, rows in groups_of(evaluated).items():
        assert_group_is_cores(prompt, rows)
    assert "eval_corpo/selected_groups" not in logged(run, 2, "eval_")


def test_a_method_that_remembers_prompts_learns_from_the_dropped_too(tmp_path):
    run = train(tmp_path, group_selection="mixed", advantage_estimator="ema", max_steps=1)
    assert len(run._memory.averages) == 5


def test_a_rising_threshold_is_moved_by_the_first_generation_alone(tmp_path):
    schedule = "target:0.99:0.0,0.2,0.4:1"
    states = []
    for on_deselected in ON_DESELECTED:
        folder = tmp_path / on_deselected
        run = train(
            folder, group_selection="varying", on_deselected=on_deselected, min_correct=None,
            min_correct_schedule=schedule, max_steps=1,
        )  # fmt: skip
        states.append(run._memory.schedule)
        assert logged(run, 1)["corpo/min_correct"] == 0.0, "one threshold for all generations of a batch"
    assert states[0] == states[1]


def test_a_resumed_run_goes_on_as_if_never_stopped(tmp_path):
    """With completions that the model samples, and rewards of their text."""
    common = {
        "reward": graded, "group_selection": "mixed", "on_deselected": "resample", "max_steps": 4,
        "save_strategy": "steps", "save_steps": 1, "per_device_train_batch_size": 12, "min_correct": 0.9,
    }  # fmt: skip
    whole = train(tmp_path / "whole", **common)
    position = json.loads((tmp_path / "whole" / "checkpoint-2" / FILE).read_text())["position"]
    assert 0 < position < whole._spare.position, "both halves must resample"
    resumed = train(tmp_path / "whole", resume=str(tmp_path / "whole" / "checkpoint-2"), **common)
    assert resumed._spare.position == whole._spare.position
    later = [batch for batch in whole.losses if batch.step >= 2]
    assert [groups_of(batch) for batch in resumed.losses] == [groups_of(batch) for batch in later]
    assert torch.equal(weights(resumed), weights(whole))

    (tmp_path / "whole" / "checkpoint-2" / FILE).write_text(json.dumps({"position": 0, "n_prompts": 20}))
    forgetful = train(tmp_path / "whole", resume=str(tmp_path / "whole" / "checkpoint-2"), **common)
    assert not torch.equal(weights(forgetful), weights(whole)), "the position must matter"


def launch(folder, n, *options):
    return subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(n)),
            *("-m", "tests.training.selection_run", str(folder), *options),
        ],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def read(folder, n):
    return [json.loads((folder / f"rank{rank}.json").read_text(encoding="utf-8")) for rank in range(n)]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """What one process saw from the first step to the last."""
    folder = tmp_path_factory.mktemp("alone")
    main(folder)
    return read(folder, 1)[0]


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """What two processes saw of the same run after one was lost behind the first step, and the run resumed."""
    folder = tmp_path_factory.mktemp("two")
    died = launch(folder, 2, "--die-at", "1")
    assert died.returncode != 0
    assert not (folder / "rank0.json").exists()
    resumed = launch(folder, 2, "--resume")
    assert resumed.returncode == 0, resumed.stderr[-4000:]
    return read(folder, 2)


def all_rows(ranks):
    return sorted(row for rank in ranks for row in rank["rows"] if row[2])


def test_two_processes_train_on_the_same_full_groups_as_one_and_resume(alone, two):
    assert {row[0] for row in all_rows(two)} == {1, 2}, "only what came after the loss of a process"
    later = [row for row in all_rows([alone]) if row[0] >= 1]
    assert [row[:3] for row in all_rows(two)] == [row[:3] for row in later]
    assert [row[3] for row in all_rows(two)] == pytest.approx([row[3] for row in later], abs=1e-7)
    assert {rank["position"] for rank in two} == {alone["position"]}
    for step in ("2", "3"):
        assert two[0]["entries"][step] == pytest.approx(alone["entries"][step], rel=1e-4, abs=1e-6)
    for rank in two:
        assert rank["weights"] == pytest.approx(alone["weights"], rel=1e-5)
    resampled = [alone["entries"][step]["corpo/resampled_groups"] for step in ("1", "2", "3")]
    assert resampled[0] > 0, "further prompts must be taken before the loss"
    assert sum(resampled[1:]) > 0, "and after it"


def test_the_groups_of_two_processes_are_whole_and_cores(two):
    by_group = {}
    for step, prompt, completion, advantage in all_rows(two):
        by_group.setdefault((step, prompt), []).append((tuple(completion), advantage))
    for (_, prompt), rows in by_group.items():
        assert class_of(prompt) in KEPT["varying"]
        assert_group_is_cores(prompt, rows)
    for step in (1, 2):
        entry = two[0]["entries"][str(step + 1)]
        assert sum(at == step for at, _ in by_group) == entry["corpo/selected_groups"]


def test_spare_prompts_are_permutations_one_after_the_other():
    spare = SparePrompts(seed=3, n_prompts=7)
    rounds = [list(spare.once_round()) for _ in range(3)]
    assert [sorted(one) for one in rounds] == [list(range(7))] * 3
    assert len({tuple(one) for one in rounds}) == 3
    assert list(SparePrompts(seed=4, n_prompts=7).once_round()) != rounds[0]


def test_spare_prompts_go_on_from_where_they_were(tmp_path):
    spare = SparePrompts(seed=3, n_prompts=7)
    for _, _ in zip(range(5), spare.once_round(), strict=False):
        pass
    spare.save(tmp_path)
    again = SparePrompts(seed=3, n_prompts=7)
    again.load(tmp_path)
    assert again.position == spare.position
    assert list(again.once_round()) == list(spare.once_round())
    with pytest.raises(DataError, match="was written with a data set of 7 rows, this one has 8; resume with the same"):
        SparePrompts(seed=3, n_prompts=8).load(tmp_path)
    (tmp_path / FILE).write_text('{"position": null}')
    with pytest.raises(DataError, match="expected what a checkpoint of SelectingTrainer holds"):
        again.load(tmp_path)
    (tmp_path / FILE).unlink()
    again.load(tmp_path)
    assert again.position == 0


def test_rows_of_other_lengths_are_put_in_on_the_right_side():
    batch = {
        "prompt_ids": torch.tensor([[7, 8], [0, 9]]),
        "prompt_mask": torch.tensor([[1, 1], [0, 1]]),
        "completion_ids": torch.tensor([[1, 2, 3], [4, 0, 0]]),
        "completion_mask": torch.tensor([[1, 1, 1], [1, 0, 0]]),
        "tool_mask": torch.tensor([[1, 0, 1], [1, 1, 1]]),
        "advantages": torch.tensor([0.5, -0.5]),
        "num_items_in_batch": torch.tensor(4),
    }
    other = {
        "prompt_ids": torch.tensor([[5, 6, 7]]),
        "prompt_mask": torch.tensor([[1, 1, 1]]),
        "completion_ids": torch.tensor([[8]]),
        "completion_mask": torch.tensor([[1]]),
        "tool_mask": torch.tensor([[0]]),
        "advantages": torch.tensor([0.25]),
        "num_items_in_batch": torch.tensor(1),
    }
    (row,) = pack_rows(other, [0])
    changed = put_rows(batch, {0: row}, padding=99)
    assert changed["prompt_ids"].tolist() == [[5, 6, 7], [99, 0, 9]]
    assert changed["prompt_mask"].tolist() == [[1, 1, 1], [0, 0, 1]]
    assert changed["completion_ids"].tolist() == [[8, 99, 99], [4, 0, 0]]
    assert changed["completion_mask"].tolist() == [[1, 0, 0], [1, 0, 0]]
    assert changed["tool_mask"].tolist() == [[0, 1, 1], [1, 1, 1]]
    assert changed["advantages"].tolist() == [0.25, -0.5]
    assert batch["completion_ids"].tolist() == [[1, 2, 3], [4, 0, 0]], "arguments stay as they are"
    with pytest.raises(DataError, match="pixel_values: rollouts are put into another batch only where they are text"):
        pack_rows(other | {"pixel_values": torch.zeros(1, 3)}, [0])
    with pytest.raises(DataError, match="tool_mask: one generation of the batch holds it, another does not"):
        put_rows(batch, {0: {name: value for name, value in row.items() if name != "tool_mask"}}, padding=99)
