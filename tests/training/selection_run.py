"""Runs that select groups, on prompts of every class; as a script, one process of a run that resamples:

torchrun --nproc_per_node N -m tests.training.selection_run FOLDER [--die-at STEP] [--resume]
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest
import torch
from transformers import TrainerCallback

from corpo_rl.policies.mini import build_tokenizer, new_model
from corpo_rl.training.selection import SelectingConfig, SelectingTrainer

from .equal_run import completion_of
from .support import MIN_CORRECT, Recorded, prompts, settings

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


def weights(run):
    return torch.cat([weight.detach().flatten() for weight in run.model.parameters()])


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


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
