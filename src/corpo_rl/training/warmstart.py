"""Supervised warm starts on TRL's SFTTrainer: a format for any policy, and the embedded mini base's partial skill."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import datasets
import numpy as np
import torch
from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback
from trl import SFTConfig, SFTTrainer

from corpo_rl.errors import DataError
from corpo_rl.policies.local import no_progress_bars
from corpo_rl.policies.mini import MAX_POSITIONS, build_tokenizer, new_model
from corpo_rl.records import TRAIN, VerifierItem
from corpo_rl.tasks.mini import (
    DIFFERENCES,
    EASY,
    HARD,
    SIGNS,
    SUMS,
    MiniTask,
    held_out_problems,
    make_item,
    wrong_answers,
)


def train_supervised(
    model: Any,
    tokenizer: Any,
    examples: Sequence[tuple[str, str]],
    *,
    output_dir: Path | str,
    steps: int,
    batch_size: int,
    learning_rate: float,
    seed: int,
    max_length: int,
    warmup_steps: int = 0,
    lr_scheduler_type: str = "constant",
    use_cpu: bool = False,
    on_step: Callable[[int], None] | None = None,
) -> None:
    """Train `model` in place to write each completion, and then to stop, after its prompt.

    The loss is the mean negative log-likelihood of the completion's tokens; those of the prompt do not count. The
    tokenizer's end-of-sequence token is appended to every completion. TRL's SFTTrainer does the training, in float32
    and without checkpoints: save the model afterwards.

    Args:
        model: A causal language model of transformers.
        tokenizer: Its tokenizer, with an end-of-sequence token.
        examples: (prompt, completion) pairs, the prompt as the policy will see it, any chat template already applied.
        output_dir: Folder that the trainer may write to.
        steps: Optimiser steps; the examples are shuffled and repeated as often as needed.
        batch_size: Examples per step.
        learning_rate: Peak learning rate of AdamW.
        seed: Orders the examples.
        max_length: Most tokens of prompt, completion and end token together.
        warmup_steps: Steps over which the learning rate rises from 0.
        lr_scheduler_type: A schedule name of transformers, e.g. "constant", "constant_with_warmup" or "cosine".
        use_cpu: Stay on the CPU even where there is an accelerator.
        on_step: Called after each step with the number of steps done.

    Raises:
        DataError: There is no example, or one is longer than `max_length`: cut off, it would teach the policy not to
            stop.
    """
    _check_lengths(tokenizer, examples, max_length)
    rows = [{"prompt": prompt, "completion": completion} for prompt, completion in examples]
    with _quiet_libraries():
        config = SFTConfig(
            output_dir=str(output_dir),
            max_steps=steps,
            per_device_train_batch_size=batch_size,
            learning_rate=learning_rate,
            lr_scheduler_type=lr_scheduler_type,
            warmup_steps=warmup_steps,
            max_length=max_length,
            completion_only_loss=True,
            seed=seed,
            bf16=False,
            use_cpu=use_cpu,
            gradient_checkpointing=False,
            dataloader_pin_memory=False,
            report_to="none",
            logging_strategy="no",
            save_strategy="no",
            disable_tqdm=True,
        )
        trainer = SFTTrainer(
            model=model,
            args=config,
            train_dataset=Dataset.from_list(rows),
            processing_class=tokenizer,
            callbacks=[_StepCounter(on_step)] if on_step else None,
        )
        # without a progress bar of its own, the trainer prints its summary to stdout, which is for our results
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    # the trainer leaves its last gradients behind: as large as the model, and of no use to anybody
    model.zero_grad(set_to_none=True)
    # it also turns the key-value cache off, which the next sampling would miss
    model.config.use_cache = True
    if use_cpu or not torch.cuda.is_available():
        model.to("cpu")


@dataclass(frozen=True)
class Softening:
    """The ways in which the completions of the second phase are wrong, and how often."""

    own_errors: Mapping[int, float]
    """Share of wrong own answers, by the digits of the operands."""
    fooled: float
    """Share of those that equal a wrong candidate, where there is one; the others are a slip of their own."""
    score_flips: float
    """Share of scores on the wrong side of 5, given the own answer."""


BATCH_SIZE = 256
MOST_EXAMPLES = 60_000
"""Distinct examples of a phase; longer phases repeat them."""
CLEAN_STEPS = 700
CLEAN_LEARNING_RATE = 2e-3
SOFT_STEPS = 150
SOFT_LEARNING_RATE = 5e-4
SOFTENING = Softening(own_errors={EASY: 0.1, HARD: 0.8}, fooled=0.5, score_flips=0.1)
"""Ours, found by trial: the README beside the weights has the skill it leaves."""


def build_mini_base(
    output_dir: Path,
    *,
    seed: int,
    clean_steps: int = CLEAN_STEPS,
    soft_steps: int = SOFT_STEPS,
    on_step: Callable[[int], None] | None = None,
) -> None:
    """Build the embedded mini base: a policy that verifies sums and differences with partial skill.

    Two phases, for RL needs a base between two failures: one without skill collapses to the hedge (5, 5) under every
    estimator, one with full skill leaves nothing to learn. First the model learns arithmetic and judging on right
    completions, then it unlearns some of it on completions that miscalculate and misjudge as `SOFTENING` says.

    The same seed gives the same weights, to the last bit, on the same machine with the same libraries and number of
    torch threads; elsewhere the same skill, within sampling error.

    Args:
        output_dir: Folder that receives weights, tokenizer and configuration; made if it is not there.
        seed: Decides the first weights, the examples and their order.
        clean_steps: Optimiser steps of the first phase.
        soft_steps: Optimiser steps of the second.
        on_step: Called after each step with the number of steps done, over both phases.
    """
    tokenizer, model = build_tokenizer(), new_model(seed)
    rng = np.random.default_rng(seed)
    phases = (
        (clean_steps, CLEAN_LEARNING_RATE, None, 0),
        (soft_steps, SOFT_LEARNING_RATE, SOFTENING, clean_steps),
    )
    for steps, learning_rate, softening, done_before in phases:

        def count(step: int, done_before: int = done_before) -> None:
            if on_step:
                on_step(done_before + step)

        with TemporaryDirectory() as scratch:
            train_supervised(
                model,
                tokenizer,
                mini_examples(rng, min(steps * BATCH_SIZE, MOST_EXAMPLES), softening=softening),
                output_dir=scratch,
                steps=steps,
                batch_size=BATCH_SIZE,
                learning_rate=learning_rate,
                seed=seed,
                max_length=MAX_POSITIONS,
                warmup_steps=min(50, steps // 10),
                lr_scheduler_type="cosine",
                use_cpu=True,
                on_step=count,
            )
    with no_progress_bars():
        model.save_pretrained(output_dir)
        tokenizer.save_pretrained(output_dir)
    (output_dir / "model.safetensors").chmod(0o644)


def mini_examples(rng: np.random.Generator, n: int, *, softening: Softening | None) -> list[tuple[str, str]]:
    """Prompts and completions of the mini task for a warm start, none of them about a held-out problem.

    Sums and differences, easy and hard, and the four kinds of pair come equally often, in random order. Without
    `softening` every completion is right: the right own answer, then 9 for a right candidate and 1 for a wrong one.
    With it, own answers are wrong now and then, the scores follow the own answer, most of the time, and are spread
    evenly over 5..10 or 0..5.

    Example:
        >>> mini_examples(np.random.default_rng(3), 1, softening=None)
        [('31-26?15|5:', '5;1,9')]
    """
    task = MiniTask()
    examples: list[tuple[str, str]] = []
    while len(examples) < n:
        domain = (SUMS, DIFFERENCES)[rng.integers(2)]
        digits = (EASY, HARD)[rng.integers(2)]
        first, second = (int(value) for value in rng.integers(10 ** (digits - 1), 10**digits, size=2))
        if domain == DIFFERENCES:
            first, second = max(first, second), min(first, second)
        if f"{first}{SIGNS[domain]}{second}" in held_out_problems():
            continue
        labels = (int(rng.integers(2)), int(rng.integers(2)))
        item = make_item(rng, first, second, domain=domain, labels=labels, split=TRAIN, item_id="warmstart")
        right = first + second if domain == SUMS else first - second
        completion = _soft_completion(rng, item, right, digits, softening) if softening else _clean(item, right)
        examples.append((task.prompt(item), completion))
    return examples


def _clean(item: VerifierItem, right: int) -> str:
    return f"{right};{9 if item.label_a else 1},{9 if item.label_b else 1}"


def _soft_completion(
    rng: np.random.Generator, item: VerifierItem, right: int, digits: int, softening: Softening
) -> str:
    candidates = (int(item.answer_a), int(item.answer_b))
    own = right
    if rng.random() < softening.own_errors[digits]:
        wrong = [candidate for candidate in candidates if candidate != right]
        is_fooled = bool(wrong) and rng.random() < softening.fooled
        own = int(rng.choice(wrong if is_fooled else wrong_answers(rng, right)))
    scores = []
    for candidate in candidates:
        looks_right = (candidate == own) != (rng.random() < softening.score_flips)
        low, high = (5, 10) if looks_right else (0, 5)
        scores.append(int(rng.integers(low, high + 1)))
    return f"{own};{scores[0]},{scores[1]}"


@contextmanager
def _quiet_libraries() -> Iterator[None]:
    """Hides what is not for our users to act on: deprecations inside the libraries, and a bar per preparation step."""
    bars_were_off = datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            yield
    finally:
        if not bars_were_off:
            datasets.enable_progress_bars()


class _StepCounter(TrainerCallback):
    """Tells a function how many steps are done."""

    def __init__(self, on_step: Callable[[int], None]) -> None:
        self._on_step = on_step

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Called by the trainer after each optimiser step."""
        self._on_step(state.global_step)


def _check_lengths(tokenizer: Any, examples: Sequence[tuple[str, str]], max_length: int) -> None:
    if not examples:
        raise DataError("examples: expected at least one (prompt, completion) pair, found none")
    lengths = [len(ids) + 1 for ids in tokenizer([prompt + completion for prompt, completion in examples]).input_ids]
    longest = max(lengths)
    if longest > max_length:
        n_long = sum(length > max_length for length in lengths)
        raise DataError(
            f"examples: {n_long} of {len(lengths)} are longer than max_length={max_length} tokens, the longest has "
            f"{longest}; raise max_length or leave them out"
        )
