"""Tiny runs of the TRL adapter, and what they leave behind to check it by."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from corpo_rl.policies.mini import build_tokenizer, new_model
from corpo_rl.training.audit_callback import watch
from corpo_rl.training.trl import CorpoConfig, CorpoTrainer

GROUP_SIZE = 4
MAX_NEW_TOKENS = 8
MIN_CORRECT = 0.4


def graded(completions, **_):
    """A reward from 0.0 to 1.0 in tenths, a fixed function of the text: group means lie on both sides of 0.4."""
    return [tenths(text) / 10 for text in completions]


def tenths(completion):
    text = completion if isinstance(completion, str) else completion[0]["content"]
    return sum(ord(character) * place for place, character in enumerate(text, start=1)) % 11


def prompts(n, *, first=0):
    """Distinct prompts, so that a prompt names its group within a batch."""
    return Dataset.from_dict({"prompt": [f"{index}+{index}?" for index in range(first, first + n)]})


@dataclass
class Generation:
    """A batch on this process as it left the scoring, or as it entered the loss. Token ids without padding."""

    mode: str
    step: int
    advantages: np.ndarray
    prompt_ids: list
    completion_ids: list


class Recorded:
    """Mixed in before a trainer: keeps what leaves the scoring and what enters the loss."""

    def __init__(self, **settings):
        self.generations, self.losses = [], []
        super().__init__(**settings)

    def _generate_and_score_completions(self, inputs):
        output = super()._generate_and_score_completions(inputs)
        self.generations.append(self._snapshot(output))
        return output

    def _compute_loss(self, model, inputs):
        self.losses.append(self._snapshot(inputs))
        return super()._compute_loss(model, inputs)

    def _snapshot(self, batch):
        return Generation(
            mode="train" if self.model.training else "eval",
            step=self.state.global_step,
            advantages=batch["advantages"].clone().numpy(),
            prompt_ids=[
                ids[mask.bool()].tolist() for ids, mask in zip(batch["prompt_ids"], batch["prompt_mask"], strict=True)
            ],
            completion_ids=[
                ids[mask.bool()].tolist()
                for ids, mask in zip(batch["completion_ids"], batch["completion_mask"], strict=True)
            ],
        )


class RecordedCorpo(Recorded, CorpoTrainer):
    pass


class RecordedGRPO(Recorded, GRPOTrainer):
    pass


def settings(folder, **changes):
    """Settings of a run of a second: two prompts of four completions a batch."""
    return {
        "output_dir": str(folder),
        "max_steps": 2,
        "num_generations": GROUP_SIZE,
        "per_device_train_batch_size": 8,
        "max_completion_length": MAX_NEW_TOKENS,
        "learning_rate": 1e-3,
        "loss_type": "dr_grpo",
        "bf16": False,
        "use_cpu": True,
        "gradient_checkpointing": False,
        "dataloader_pin_memory": False,
        "logging_steps": 1,
        "log_completions": True,
        "num_completions_to_print": 0,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "seed": 3,
    } | changes


def train(
    folder, *, reward=graded, n_prompts=16, trainer=RecordedCorpo, resume=None, extra=None, watched=None, **changes
):
    """Train the untrained mini model of seed 0, with `watched` for min_correct watched; the trainer afterwards."""
    torch.set_num_threads(1)
    extra = {"train_dataset": prompts(n_prompts), "processing_class": build_tokenizer()} | (extra or {})
    if issubclass(trainer, CorpoTrainer):
        args = CorpoConfig(**settings(folder, **({"min_correct": MIN_CORRECT} | changes)))
    else:
        args = GRPOConfig(**settings(folder, **changes))
    run = trainer(model=new_model(0), reward_funcs=reward, args=args, **extra)
    if watched is not None:
        watch(run, min_correct=watched)
    run.train(resume_from_checkpoint=resume)
    return run


def completion_log(folder, step):
    """TRL's table of the completions logged at a step."""
    return pd.read_parquet(f"{folder}/completions/completions_{step:05d}.parquet")


def logged(run, step, prefix=""):
    """The metrics of a step: those of training, or with "eval_" of evaluation."""
    (entry,) = [
        entry for entry in run.state.log_history if entry["step"] == step and f"{prefix}loss" in entry
    ]  # the summary at the end of training has no loss
    return entry


def log_prob(model, prompt_ids, completion_ids):
    """Summed log-probability of one completion, in a forward pass of its own without padding."""
    with torch.no_grad():
        logits = model(torch.tensor([prompt_ids + completion_ids])).logits[0]
    log_probs = torch.log_softmax(logits.double(), dim=-1)
    first = len(prompt_ids) - 1
    return float(sum(log_probs[first + place, token] for place, token in enumerate(completion_ids)))


def r_loss_by_hand(rows, model=None):
    """The ratio of losses of (prompt_ids, completion_ids, advantage) rows; by default under the policy of step 1."""
    model = (new_model(0) if model is None else model).eval()
    positive = negative = 0.0
    for prompt_ids, completion_ids, advantage in rows:
        loss = -advantage * log_prob(model, prompt_ids, completion_ids)
        if advantage > 1e-9:
            positive += loss
        elif advantage < -1e-9:
            negative += loss
    return positive / negative
