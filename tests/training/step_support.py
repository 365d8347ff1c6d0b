"""Tiny runs of the step trainer, whose steps a fixed function of the text rewards."""

import torch

from corpo_rl.policies.mini import build_tokenizer, new_model
from corpo_rl.training.steps import StepConfig, StepTrainer

from .support import MIN_CORRECT, Recorded, graded, prompts, settings, tenths

THRESHOLDS = [0.4, 0.6, 0.4, 0.4]
"""For up to four steps: completions have up to 8 characters, and steps 2."""


def steps_of(text):
    """Steps of two characters with one left out between them, worth 0.0 to 1.0; None for a few."""
    pieces = [(start, min(start + 2, len(text))) for start in range(0, len(text), 3)]
    worth = [tenths(text[start:end]) for start, end in pieces]
    return [(start, end, None if one == 7 else one / 10) for (start, end), one in zip(pieces, worth, strict=True)]


def judge(completions, texts, **_):
    assert list(completions) == texts, "without a conversation the text is the completion"
    return [steps_of(text) for text in texts]


class RecordedSteps(Recorded, StepTrainer):
    pass


def trainer(folder, *, judge=judge, reward=graded, extra=None, kind=RecordedSteps, n_prompts=16, **changes):
    torch.set_num_threads(1)
    extra = {"train_dataset": prompts(n_prompts), "processing_class": build_tokenizer()} | (extra or {})
    given = {"min_correct": MIN_CORRECT, "step_min_correct": THRESHOLDS} | changes
    args = StepConfig(**settings(folder, **given))
    return kind(model=new_model(0), reward_funcs=reward, args=args, step_reward_func=judge, **extra)


def train(folder, **changes):
    run = trainer(folder, **changes)
    run.train()
    return run
