"""Dynamic selection: what reaches the loss, where further prompts come from, several processes, and resumed runs.

As a script it is one process of a run that resamples:

    torchrun --nproc_per_node N -m tests.training.test_selection FOLDER [--die-at STEP] [--resume]
"""

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
import torch
from datasets import Dataset
from transformers import TrainerCallback

from corpo_rl.core.selection import RULES
from corpo_rl.errors import DataError, UsageError
from corpo_rl.policies.mini import build_tokenizer, new_model
from corpo_rl.rollouts.read import read_rollouts
from corpo_rl.training.selection import COUNT_ROWS, COUNT_TOKENS, ON_DESELECTED, SelectingConfig, SelectingTrainer
from corpo_rl.training.selection_rows import pack_rows, put_rows
from corpo_rl.training.spare_prompts import FILE, SparePrompts
from corpo_rl.training.trl import CorpoTrainer

from .equal_run import completion_of
from .support import MIN_CORRECT, Recorded, completion_log, graded, logged, prompts, settings

pytestmark = [
    # transformers 5.24 renames its own setting, which TRL still sets
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore:You are using 'rollout_func', which is an experimental feature"),
]

ROOT = Path(__file__).parents[2]
GROUP = 4
STEPS = 3

CLASSES = ("all_failed_equal", "all_failed_graded", "mixed", "all_correct_equal", "all_correct_graded")
KEPT = {
    "all": set(CLASSES),
    "varying": {"all_failed_graded", "mixed", "all_correct_graded"},
    "mixed": {"mixed"},
    "keep_failed": set(CLASSES) - {"all_correct_equal"},
}
"""Classes that each rule trains on, by its definition."""


def class_of(prompt):
    """The prompt "7+7?" is of class 7 mod 5, whoever answers it."""
    return CLASSES[int(prompt.split("+")[0]) % len(CLASSES)]


def reward_of(prompt, number):
    """Reward of the number-th rollout of a prompt, 0.4 and above being correct."""
    return {
        "all_failed_equal": 0.1,
        "all_failed_graded": (number % 3) / 10,
        "mixed": (number % 4) * 2 / 10,
        "all_correct_equal": 0.7,
        "all_correct_graded": 0.4 + (number % 3) / 10,
    }[class_of(prompt)]


def text_of(token_ids):
    return build_tokenizer().decode(token_ids, skip_special_tokens=True).replace(" ", "")


NUMBER_OF = {}
"""Number of a rollout within its group by prompt and completion, which `rollout` made."""


def rollout(prompts, trainer):
    """What TRL calls instead of generating: the rows of this process are its slice of the global batch."""
    first = trainer.accelerator.process_index * len(prompts)
    prompt_ids = [trainer.processing_class(prompt)["input_ids"] for prompt in prompts]
    numbers = [(first + place) % GROUP for place in range(len(prompts))]
    completion_ids = [completion_of(prompt, number) for prompt, number in zip(prompts, numbers, strict=True)]
    for prompt, number, ids in zip(prompts, numbers, completion_ids, strict=True):
        NUMBER_OF[prompt, tuple(ids)] = number
    return {"prompt_ids": prompt_ids, "completion_ids": completion_ids, "logprobs": None}


def by_class(prompts, completion_ids, **_):
    return [
        reward_of(prompt, NUMBER_OF[prompt, tuple(ids)]) for prompt, ids in zip(prompts, completion_ids, strict=True)
    ]


class RecordedSelecting(Recorded, SelectingTrainer):
    """Keeps the batches as they entered the loss, and the tensors themselves."""

    def __init__(self, **settings_):
        self.entered = []
        super().__init__(**settings_)

    def _compute_loss(self, model, inputs):
        self.entered.append({name: value.clone() for name, value in inputs.items()})
        return super()._compute_loss(model, inputs)


def selecting(folder, *, reward=by_class, n_prompts=20, trainer=RecordedSelecting, extra=None, **changes):
    """A trainer of five prompts of four completions a batch, one of each class on average."""
    torch.set_num_threads(1)
    standard = {"train_dataset": prompts(n_prompts), "processing_class": build_tokenizer()}
    if reward is by_class:
        standard["rollout_func"] = rollout
    changes = {"min_correct": MIN_CORRECT, "per_device_train_batch_size": 20, "num_generations": GROUP} | changes
    args = SelectingConfig(**settings(folder, **changes))
    return trainer(model=new_model(0), reward_funcs=reward, args=args, **(standard | (extra or {})))


def train(folder, *, resume=None, **changes):
    run = selecting(folder, **changes)
    run.train(resume_from_checkpoint=resume)
    return run


def groups_of(batch):
    """Prompts of a recorded batch with the (completion, advantage) pairs of each."""
    found = {}
    for prompt, completion, advantage in zip(
        batch.prompt_ids, batch.completion_ids, batch.advantages.tolist(), strict=True
    ):
        found.setdefault(text_of(prompt), []).append((tuple(completion), advantage))
    return found


def assert_group_is_cores(prompt, rows):
    """Each rollout of the group once, with the advantage of the plain formula."""
    rewards = [reward_of(prompt, number) for number in range(GROUP)]
    baseline = max(MIN_CORRECT, sum(rewards) / GROUP)
    expected = {tuple(completion_of(prompt, number)): rewards[number] - baseline for number in range(GROUP)}
    assert len(rows) == len(expected) == GROUP
    assert dict(rows) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("rule", RULES)
def test_a_dropped_group_reaches_the_loss_neither_with_an_advantage_nor_with_a_token(tmp_path, rule):
    run = train(tmp_path, group_selection=rule)
    assert len(run.losses) == 2
    seen = Counter()
    for step, batch in enumerate(run.losses, start=1):
        for prompt, rows in groups_of(batch).items():
            seen[class_of(prompt)] += 1
            if class_of(prompt) in KEPT[rule]:
                assert_group_is_cores(prompt, rows)
            else:
                assert rows == [((), 0.0)] * GROUP
        if rule != "all":
            n_kept = sum(class_of(prompt) in KEPT[rule] for prompt in groups_of(batch))
            entry = logged(run, step)
            assert entry["corpo/selected_groups"] == n_kept
            assert entry["corpo/dropped_groups"] == 5 - n_kept
            assert entry["corpo/resampled_groups"] == 0
            assert entry["corpo/generated_rollouts"] == 20
            for name in CLASSES:
                n_there = sum(class_of(prompt) == name for prompt in groups_of(batch))
                assert entry[f"corpo/deselected/{name}"] == (0 if name in KEPT[rule] else n_there)
    assert set(seen) == set(CLASSES), "the batches must hold a group of each class"


def gradient(run, batch):
    """Gradient of TRL's loss at this batch, with the model as it is."""
    run.model.zero_grad()
    run.model.train()
    run._compute_loss(run.model, batch).backward()
    return torch.cat([weight.grad.flatten() for weight in run.model.parameters() if weight.grad is not None]).double()


@pytest.fixture(scope="module")
def dropped(tmp_path_factory):
    """A run that drops, and a batch of it as it entered the loss."""
    run = train(tmp_path_factory.mktemp("dropped"), group_selection="mixed", max_steps=1, loss_type="dapo")
    return run, run.entered[0]


def without_the_dropped(batch):
    """The batch had it never held the dropped rollouts, for TRL's own loss."""
    kept = batch["completion_mask"].any(dim=1)
    assert 0 < kept.sum() < len(kept)
    rows = {name: value[kept] if value.ndim else value for name, value in batch.items()}
    return rows | {"num_items_in_batch": rows["completion_mask"].sum(), "corpo_loss_scale": torch.tensor(1.0)}


@pytest.mark.parametrize("loss_type", [*COUNT_ROWS, *COUNT_TOKENS])
def test_the_loss_is_that_of_a_batch_that_never_held_the_dropped(dropped, loss_type, monkeypatch):
    run, batch = dropped
    monkeypatch.setattr(run, "loss_type", loss_type)
    whole, alone = gradient(run, batch), gradient(run, without_the_dropped(batch))
    assert alone.norm() > 0
    torch.testing.assert_close(whole, alone, rtol=1e-4, atol=1e-7)
    if loss_type in COUNT_ROWS:
        unscaled = gradient(run, batch | {"corpo_loss_scale": torch.tensor(1.0)})
        assert unscaled.norm() < 0.9 * alone.norm(), "the rows must matter"


def test_dr_grpo_divides_by_the_kept_rollouts_times_the_longest_completion(dropped, monkeypatch):
    run, batch = dropped
    monkeypatch.setattr(run, "loss_type", "dr_grpo")
    kept = batch["completion_mask"].any(dim=1)
    advantages, mask = batch["advantages"].double(), batch["completion_mask"].double()
    # on policy every ratio is 1, so the loss of a token is -A
    by_hand = -(advantages[:, None] * mask).sum() / (kept.sum() * run.max_completion_length)
    assert run._compute_loss(run.model, batch).item() == pytest.approx(by_hand.item(), rel=1e-4)


@pytest.mark.parametrize("loss_type", ["grpo", "dr_grpo", "dapo"])
def test_micro_batches_add_up_to_the_whole_batch(tmp_path, loss_type):
    common = {"group_selection": "mixed", "max_steps": 1, "loss_type": loss_type, "max_grad_norm": 0.0}
    whole = train(tmp_path / "1", **common)
    parts = train(tmp_path / "4", **common, per_device_train_batch_size=5, gradient_accumulation_steps=4)
    assert len(parts.losses) == 4
    for one, other in zip(whole.model.parameters(), parts.model.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_a_batch_without_a_kept_group_moves_nothing(tmp_path, caplog):
    failing = prompts(40).filter(lambda row: class_of(row["prompt"]) == "all_failed_equal")
    with caplog.at_level(logging.WARNING, logger="corpo_rl"):
        run = train(tmp_path, group_selection="varying", extra={"train_dataset": failing}, weight_decay=0.0)
    assert [entry["loss"] for entry in run.state.log_history if "loss" in entry] == [0.0, 0.0]
    for one, other in zip(run.model.parameters(), new_model(0).parameters(), strict=True):
        assert torch.equal(one, other)
    said = [record.getMessage() for record in caplog.records if "no group of a batch is kept" in record.getMessage()]
    assert len(said) == 1


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


def weights(run):
    return torch.cat([weight.detach().flatten() for weight in run.model.parameters()])


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


class DieOnceSaved(TrainerCallback):
    """The last process kills itself at the step after STEP, the way a lost machine does, once STEP is saved whole."""

    def __init__(self, step):
        self.step = step

    def on_step_begin(self, args, state, control, **_):
        if state.global_step == self.step and args.process_index == args.world_size - 1:
            saved = Path(args.output_dir) / f"checkpoint-{self.step}"
            while not all((saved / name).exists() for name in ("trainer_state.json", "rng_state_0.pth")):
                time.sleep(0.05)  # the first process saves what is not a process's own
            os.kill(os.getpid(), signal.SIGKILL)


def main(folder, *options):
    world, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    die_at = int(options[options.index("--die-at") + 1]) if "--die-at" in options else None
    run = train(
        folder / "run",
        n_prompts=50,
        group_selection="varying",
        on_deselected="resample",
        per_device_train_batch_size=20 // world,  # five groups: with two processes the third lies on both
        max_steps=STEPS,
        loss_type="dapo",
        ddp_backend="gloo" if world > 1 else None,
        save_strategy="steps",
        save_steps=1,
        resume="--resume" in options,
        extra={"callbacks": [] if die_at is None else [DieOnceSaved(die_at)]},
    )
    assert run.accelerator.num_processes == world
    rows = [
        [batch.step, text_of(prompt), completion, advantage]
        for batch in run.losses
        for prompt, completion, advantage in zip(
            batch.prompt_ids, batch.completion_ids, batch.advantages.tolist(), strict=True
        )
    ]
    entries = {str(entry["step"]): entry for entry in run.state.log_history if "loss" in entry}
    seen = {
        "rows": rows,
        "weights": [weight.detach().double().abs().sum().item() for weight in run.model.parameters()],
        "entries": {
            step: {name: value for name, value in entry.items() if name == "loss" or name.startswith("corpo/")}
            for step, entry in entries.items()
        },
        "position": run._spare.position,
    }
    (folder / f"rank{rank}.json").write_text(json.dumps(seen), encoding="utf-8")


def launch(folder, n, *options):
    return subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(n)),
            *("-m", "tests.training.test_selection", str(folder), *options),
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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"group_selection": "dapo"}, "group_selection: expected one of all, varying, mixed, keep_failed, got 'dapo'"),
        ({"on_deselected": "keep"}, "on_deselected: expected one of drop, resample, got 'keep'"),
        ({"max_resamples": 0}, "max_resamples: expected at least 1, got 0"),
        ({"min_correct": None}, "min_correct: expected the least reward that counts as correct"),
        (
            {"advantage_estimator": "dr_grpo+batch_std", "on_deselected": "resample"},
            r"advantage_estimator: dr_grpo\+batch_std divides by a figure of the whole batch",
        ),
    ],
)
def test_settings_that_do_not_go_together_are_refused(tmp_path, changes, message):
    with pytest.raises(UsageError, match=message):
        SelectingConfig(**settings(tmp_path, **({"min_correct": MIN_CORRECT} | changes)))


def test_an_entropy_bonus_would_be_scaled_with_a_loss_that_counts_rollouts(tmp_path):
    if not hasattr(SelectingConfig, "entropy_coef"):
        pytest.skip("this version of TRL has no entropy bonus")
    common = settings(tmp_path, min_correct=MIN_CORRECT, entropy_coef=0.01)
    with pytest.raises(UsageError, match="loss_type: 'dr_grpo' counts rollouts"):
        SelectingConfig(**common)
    SelectingConfig(**(common | {"loss_type": "dapo"}))
    SelectingConfig(**common, group_selection="all")


def test_the_trainer_wants_its_own_settings_and_a_data_set_with_places(tmp_path):
    with pytest.raises(UsageError, match="args: expected a SelectingConfig, got NoneType"):
        SelectingTrainer(model=new_model(0), reward_funcs=graded)
    stream = Dataset.from_dict({"prompt": ["1+1?"] * 8}).to_iterable_dataset()
    with pytest.raises(UsageError, match="on_deselected: 'resample' picks further prompts by their place"):
        selecting(tmp_path, reward=graded, on_deselected="resample", extra={"train_dataset": stream})


def test_with_every_group_kept_it_is_the_trainer_it_derives_from(tmp_path):
    class RecordedCorpo(Recorded, CorpoTrainer):
        pass

    ours = train(tmp_path / "ours", group_selection="all", on_deselected="resample", reward=graded)
    theirs = train(tmp_path / "theirs", trainer=RecordedCorpo, group_selection="all", reward=graded)
    assert torch.equal(weights(ours), weights(theirs))
    assert logged(ours, 2).keys() == logged(theirs, 2).keys()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
