"""Format warm start: a short supervised run after which a policy writes its answers in the form a task parses."""

import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from safetensors import SafetensorError

from corpo_rl.errors import DataError, UsageError
from corpo_rl.policies.local import LocalPolicy, load_policy
from corpo_rl.tasks.base import Task
from corpo_rl.training.warmstart import train_supervised

POLICY_FOLDER = "policy"
"""Folder of the warm-started policy, inside the folder given."""


@runtime_checkable
class TeachesFormat(Protocol):
    """What a task offers, beside `Task`, for a policy to be taught its form."""

    def format_example(self, item: Any, rng: np.random.Generator) -> str:
        """A completion for the item that parses; it should show the form and give away little of the answer."""


def warm_start_format(
    policy: LocalPolicy,
    task: Task,
    items: Sequence[Any],
    *,
    output_dir: Path,
    seed: int,
    steps: int,
    batch_size: int = 2,
    learning_rate: float = 1e-4,
    use_cpu: bool = False,
    on_step: Callable[[int], None] | None = None,
) -> LocalPolicy:
    """Teach a policy the form of a task's answers, once: later calls load what the first one wrote.

    Args:
        policy: Trained in place when nothing is there to load.
        task: Also a `TeachesFormat`.
        items: Training items; drawn in random order, again from the start when they run out.
        output_dir: The policy goes to `policy` in it, complete or not at all.
        seed: Orders the items and draws the completions.
        steps: Optimiser steps.
        batch_size: Examples per step. Ours: two, whose logits over a vocabulary of 49,152 fit any memory.
        learning_rate: Of AdamW, constant. Ours: with it SmolLM2-135M wrote 45 of 48 completions in form after 16 steps
            of 2 examples.
        use_cpu: Stay on the CPU even where there is an accelerator.
        on_step: Called after each step with the number of steps done; never when the policy is loaded.

    Returns:
        The warm-started policy, under the name of the one given.

    Raises:
        UsageError: The task has no `format_example`, or `steps` or `batch_size` is under 1.
        DataError: There is no item, or the policy cannot be written.
    """
    for name, value in (("steps", steps), ("batch_size", batch_size)):
        if value < 1:
            raise UsageError(f"{name}: expected at least 1, got {value}")
    folder = output_dir / POLICY_FOLDER
    if folder.is_dir():
        return replace(load_policy(str(folder)), name=policy.name)
    if not isinstance(task, TeachesFormat):
        raise UsageError(
            f"task {task.name}: a format warm start needs its method format_example(item, rng), found none; "
            "add it, or take no warm-up steps"
        )
    if not items:
        raise DataError(f"task {task.name}: expected training items for the format warm start, found none")

    rng = np.random.default_rng(seed)
    n_examples = steps * batch_size
    order = np.concatenate([rng.permutation(len(items)) for _ in range(-(-n_examples // len(items)))])[:n_examples]
    examples = [(policy.render(task.prompt(items[index])), task.format_example(items[index], rng)) for index in order]
    max_length = 1 + max(
        len(ids) for ids in policy.tokenizer([prompt + completion for prompt, completion in examples])["input_ids"]
    )
    try:
        output_dir.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=output_dir, prefix=".warmstart.") as trainer_dir:
            train_supervised(
                policy.model,
                policy.tokenizer,
                examples,
                output_dir=trainer_dir,
                steps=steps,
                batch_size=batch_size,
                learning_rate=learning_rate,
                seed=seed,
                max_length=max_length,
                use_cpu=use_cpu,
                on_step=on_step,
            )
        _save(policy, folder)
    except (OSError, SafetensorError) as error:  # the second: a full disk, as the weights' writer reports it
        reason = " ".join(str(error).split())
        raise DataError(f"{folder}: could not be written ({reason}); free space there") from error
    return policy


def _save(policy: LocalPolicy, folder: Path) -> None:
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        policy.tokenizer.save_pretrained(temporary)
        policy.model.save_pretrained(temporary)
        temporary.chmod(0o755)
        temporary.replace(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
