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
class Phase:
    """What one phase of the mini warm start trains on."""

    steps: int
    """Optimiser steps, of `BATCH_SIZE` examples each."""
    learning_rate: float
    """Peak, after a short rise; it falls to 0 along a cosine."""
    hard: float
    """Share of problems with three-digit operands; the others have two digits."""
    differences: float
    """Share of differences; the others are sums."""
    kinds: Mapping[tuple[int, int], float]
    """Share of each kind of pair, by the labels of its candidates."""
    own_errors: Mapping[int, float]
    """Share of wrong own answers, by the digits of the operands."""
    fooled: float
    """Share of those that equal a wrong candidate, where there is one; the others are a slip of their own."""
    score_flips: float
    """Share of scores on the wrong side of 5, given the own answer."""
    hedges: float
    """Share of scores that are 5."""
    spread: bool
    """Whether the other scores are spread over 6..10 and 0..4, and not all 9 or 1."""


BATCH_SIZE = 64
MOST_EXAMPLES = 60_000
"""Distinct examples of a phase; a longer one repeats them."""

# Both wrong is the commonest kind: only there does no candidate give the answer away, so that it must be worked out.
CLEAN = Phase(
    steps=2400,
    learning_rate=1.5e-3,
    hard=0.0,
    differences=0.0,
    kinds={(0, 0): 0.5, (1, 0): 0.2, (0, 1): 0.2, (1, 1): 0.1},
    own_errors={EASY: 0.0, HARD: 0.0},
    fooled=0.0,
    score_flips=0.0,
    hedges=0.0,
    spread=False,
)
"""First phase: easy sums and judging, on completions that are right. With a quarter of hard sums and a quarter of
differences, an earlier trial (another width and initialisation) saw as many examples and learnt no arithmetic."""

SOFT = Phase(
    steps=300,
    learning_rate=7e-4,
    hard=0.4,
    differences=0.5,
    kinds={(0, 0): 0.25, (1, 0): 0.25, (0, 1): 0.25, (1, 1): 0.25},
    own_errors={EASY: 0.0, HARD: 0.97},
    fooled=0.1,
    score_flips=0.01,
    hedges=0.04,
    spread=True,
)
"""Second phase: it unlearns some of both. Ours, by trial; the README beside the weights has the skill it leaves."""


def build_mini_base(
    output_dir: Path,
    *,
    seed: int,
    phases: Sequence[Phase] = (CLEAN, SOFT),
    on_step: Callable[[int], None] | None = None,
) -> None:
    """Build the embedded mini base: a policy that verifies sums and differences with partial skill.

    RL needs a base between two failures: one without skill collapses to the hedge (5, 5) under every estimator, one
    with full skill leaves nothing to learn. So the model first learns the task, and then unlearns some of it.

    The same seed gives the same weights, to the last bit, on the same machine with the same libraries and number of
    torch threads; elsewhere the same skill, within sampling error.

    Args:
        output_dir: Folder that receives weights, tokenizer and configuration; made if it is not there.
        seed: Decides the first weights, the examples and their order.
        phases: What to train on, in order.
        on_step: Called after each step with the number of steps done, over all phases.
    """
    tokenizer, model = build_tokenizer(), new_model(seed)
    steps_before = 0
    for number, phase in enumerate(phases):

        def count(step: int, steps_before: int = steps_before) -> None:
            if on_step:
                on_step(steps_before + step)

        train_phase(model, tokenizer, phase, rng=np.random.default_rng([seed, number]), on_step=count)
        steps_before += phase.steps
    with no_progress_bars():
        model.save_pretrained(output_dir)
        tokenizer.save_pretrained(output_dir)
    (output_dir / "model.safetensors").chmod(0o644)


def train_phase(
    model: Any, tokenizer: Any, phase: Phase, *, rng: np.random.Generator, on_step: Callable[[int], None] | None
) -> None:
    """Train `model` in place on one phase, on the CPU."""
    examples = mini_examples(rng, min(phase.steps * BATCH_SIZE, MOST_EXAMPLES), phase)
    with TemporaryDirectory() as scratch:
        train_supervised(
            model,
            tokenizer,
            examples,
            output_dir=scratch,
            steps=phase.steps,
            batch_size=BATCH_SIZE,
            learning_rate=phase.learning_rate,
            seed=0,  # the examples are random already
            max_length=MAX_POSITIONS,
            warmup_steps=min(50, phase.steps // 10),
            lr_scheduler_type="cosine",
            use_cpu=True,
            on_step=on_step,
        )


def mini_examples(rng: np.random.Generator, n: int, phase: Phase) -> list[tuple[str, str]]:
    """Prompts and completions of the mini task as a phase describes them, none of them about a held-out problem.

    Example:
        >>> mini_examples(np.random.default_rng(3), 1, CLEAN)
        [('39+48?76|97:', '87;1,1')]
    """
    task = MiniTask()
    labels_K, shares_K = list(phase.kinds), list(phase.kinds.values())
    examples: list[tuple[str, str]] = []
    while len(examples) < n:
        domain = DIFFERENCES if rng.random() < phase.differences else SUMS
        digits = HARD if rng.random() < phase.hard else EASY
        first, second = (int(value) for value in rng.integers(10 ** (digits - 1), 10**digits, size=2))
        if domain == DIFFERENCES:
            first, second = max(first, second), min(first, second)
        if f"{first}{SIGNS[domain]}{second}" in held_out_problems():
            continue
        labels = labels_K[rng.choice(len(labels_K), p=shares_K)]
        item = make_item(rng, first, second, domain=domain, labels=labels, split=TRAIN, item_id="warmstart")
        right = first + second if domain == SUMS else first - second
        examples.append((task.prompt(item), _completion(rng, item, right, digits, phase)))
    return examples


def _completion(rng: np.random.Generator, item: VerifierItem, right: int, digits: int, phase: Phase) -> str:
    candidates = (int(item.answer_a), int(item.answer_b))
    own = right
    if rng.random() < phase.own_errors[digits]:
        wrong = [candidate for candidate in candidates if candidate != right]
        is_fooled = bool(wrong) and rng.random() < phase.fooled
        own = int(rng.choice(wrong if is_fooled else wrong_answers(rng, right)))
    scores = []
    for candidate in candidates:
        looks_right = (candidate == own) != (rng.random() < phase.score_flips)
        margin = int(rng.integers(1, 6)) if phase.spread else 4
        if rng.random() < phase.hedges:
            margin = 0
        scores.append(5 + margin if looks_right else 5 - margin)
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
