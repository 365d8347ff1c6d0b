"""A run with a learned value that keeps what it saw; as a script, one process of runs whose completions do not depend
on the number of processes:

    torchrun --nproc_per_node N -m tests.training.value_run FOLDER [--only CRITIC] [--die-at STEP] [--resume]
"""

import copy
import json
import os
import sys
from pathlib import Path

import torch

from corpo_rl.policies.mini import build_tokenizer, new_model
from corpo_rl.training.value import CRITICS, ValueConfig, ValueTrainer

from .equal_run import BATCH, GROUP, STEPS, Die, reward, rollout
from .support import MIN_CORRECT, Recorded, graded, prompts, settings

GAE = {"gae_discount": 0.9, "gae_trace": 0.7}


class RecordedValue(Recorded, ValueTrainer):
    """Keeps copies of the policy and of the critic as they were before each batch."""

    def __init__(self, **settings_):
        self.before = []
        super().__init__(**settings_)

    def _token_advantages(self, output, advantages, batch, local):
        self.before.append((copy.deepcopy(self.model).eval(), copy.deepcopy(self.critic).eval()))
        return super()._token_advantages(output, advantages, batch, local)


def value_trainer(folder, *, reward=graded, n_prompts=16, trainer=RecordedValue, extra=None, **changes):
    torch.set_num_threads(1)
    extra = {"train_dataset": prompts(n_prompts), "processing_class": build_tokenizer()} | (extra or {})
    args = ValueConfig(**settings(folder, **({"min_correct": MIN_CORRECT} | changes)))
    return trainer(model=new_model(0), reward_funcs=reward, args=args, **extra)


def train(folder, *, resume=None, **changes):
    run = value_trainer(folder, **changes)
    run.train(resume_from_checkpoint=resume)
    return run


def by_rollout(batch):
    """Advantages of the tokens of each rollout, without those of the padding, which must be 0."""
    rows = {}
    for prompt, completion, advantages in zip(batch.prompt_ids, batch.completion_ids, batch.advantages, strict=True):
        assert not advantages[len(completion) :].any()
        rows[tuple(prompt), tuple(completion)] = advantages[: len(completion)].tolist()
    return rows


def main(folder, *options):
    """The run of `equal_run` with each critic; what this process saw goes to FOLDER/CRITIC/rankR.json."""
    world, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    die_at = int(options[options.index("--die-at") + 1]) if "--die-at" in options else None
    for critic in CRITICS:
        if "--only" in options and critic != options[options.index("--only") + 1]:
            continue
        run = train(
            folder / critic / "run",
            reward=reward,
            n_prompts=9,
            critic=critic,
            num_generations=GROUP,
            per_device_train_batch_size=BATCH // world,
            max_steps=STEPS,
            loss_type="dapo",
            ddp_backend="gloo" if world > 1 else None,
            save_strategy="steps",
            save_steps=1,
            resume="--resume" in options,
            extra={"rollout_func": rollout, "callbacks": [] if die_at is None else [Die(die_at)]},
            **GAE,
        )
        assert run.accelerator.num_processes == world
        (folder / critic / f"rank{rank}.json").write_text(json.dumps(seen(run)), encoding="utf-8")


def seen(run):
    """Advantages of every rollout of this process, figures by step, and sums over the weights it ended with."""
    entries = {str(entry["step"]): entry for entry in run.state.log_history if "loss" in entry}
    names = ("loss", "corpo/value_loss", "corpo/value_explained_variance")
    weights = [*run.model.parameters(), *run.critic.parameters()]
    return {
        "rows": [
            [batch.step, prompt, completion, advantages]
            for batch in run.generations
            for (prompt, completion), advantages in by_rollout(batch).items()
        ],
        "figures": {step: {name: entry[name] for name in names} for step, entry in entries.items()},
        "head": [weight.tolist() for weight in run.critic.head.parameters()],
        "weights": [weight.detach().double().abs().sum().item() for weight in weights],
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
