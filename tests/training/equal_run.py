"""One process of a run whose completions do not depend on how many processes there are.

    torchrun --nproc_per_node N -m tests.training.equal_run FOLDER [--die-at STEP] [--resume]

Every process writes what it saw to FOLDER/rankR.json. With --die-at the last process kills itself at that step, the way
a machine that is lost does.
"""

import hashlib
import json
import os
import signal
import sys
from pathlib import Path

from transformers import TrainerCallback

from .support import logged, train

GROUP = 8
BATCH = 16
STEPS = 4


def completion_of(prompt, number):
    """Token ids of the number-th rollout of a prompt: of every length, a fixed function of both."""
    digest = hashlib.sha256(f"{prompt}/{number}".encode()).digest()
    return [5 + byte % 16 for byte in digest[: 2 + digest[-1] % 7]]


def rollout(prompts, trainer):
    """What TRL calls instead of generating: the rows of this process are its slice of the global batch."""
    first = trainer.accelerator.process_index * len(prompts)
    prompt_ids = [trainer.processing_class(prompt)["input_ids"] for prompt in prompts]
    completion_ids = [completion_of(prompt, (first + place) % GROUP) for place, prompt in enumerate(prompts)]
    return {"prompt_ids": prompt_ids, "completion_ids": completion_ids, "logprobs": None}


def reward(completion_ids, **_):
    """Tenths from the tokens; none for a few, wherever they lie."""
    sums = [sum(ids) % 12 for ids in completion_ids]
    return [None if total == 11 else total / 10 for total in sums]


class Die(TrainerCallback):
    def __init__(self, step):
        self.step = step

    def on_step_begin(self, args, state, control, **_):
        if state.global_step == self.step and args.process_index == args.world_size - 1:
            os.kill(os.getpid(), signal.SIGKILL)


def main(folder, *options):
    world, rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
    die_at = int(options[options.index("--die-at") + 1]) if "--die-at" in options else None
    run = train(
        folder / "run",
        reward=reward,
        n_prompts=9,  # four batches of two: the ninth is left over
        num_generations=GROUP,
        per_device_train_batch_size=BATCH // world,
        max_steps=STEPS,
        loss_type="dapo",
        ddp_backend="gloo",
        save_strategy="steps",
        save_steps=1,
        resume="--resume" in options,
        extra={"rollout_func": rollout, "callbacks": [] if die_at is None else [Die(die_at)]},
    )
    assert run.accelerator.num_processes == world
    rows = [
        [batch.step, prompt, completion, advantage]
        for batch in run.generations
        for prompt, completion, advantage in zip(
            batch.prompt_ids, batch.completion_ids, batch.advantages.tolist(), strict=True
        )
    ]
    weights = [parameter.detach().double().abs().sum().item() for parameter in run.model.parameters()]
    losses = {entry["step"]: entry["loss"] for entry in run.state.log_history if "loss" in entry}
    reported = logged(run, STEPS)
    (folder / f"rank{rank}.json").write_text(
        json.dumps({"rows": rows, "weights": weights, "losses": losses, "reward": reported["reward"]}), encoding="utf-8"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
