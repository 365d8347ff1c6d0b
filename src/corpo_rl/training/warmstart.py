"""Supervised warm starts on TRL's SFTTrainer: a format for any policy, and the embedded mini base's partial skill."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import datasets
import torch
from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback
from trl import SFTConfig, SFTTrainer

from corpo_rl.errors import DataError


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
    if use_cpu or not torch.cuda.is_available():
        model.to("cpu")


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


class _StepCounter(TrainerCallback):  # type: ignore[misc]  # transformers is untyped here
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
