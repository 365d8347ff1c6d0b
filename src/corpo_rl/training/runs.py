"""One training run of a task on TRL: builds the trainer, records every step, continues from a checkpoint."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset
from peft import LoraConfig
from transformers import PrinterCallback, ProgressCallback, TrainerCallback

from corpo_rl.policies.local import LocalPolicy
from corpo_rl.tasks.base import Task, grade_all
from corpo_rl.training.selection import SelectingConfig, SelectingTrainer
from corpo_rl.training.trl import CorpoConfig, CorpoTrainer
from corpo_rl.training.value import ValueConfig, ValueTrainer

COMPLETE = "complete"
"""Name of the mark in a checkpoint folder that was written to its end."""


def train_on_task(
    policy: LocalPolicy,
    task: Task,
    items: Sequence[Any],
    *,
    method: str,
    critic: str | None,
    min_correct_schedule: str | None,
    group_selection: str | None,
    on_deselected: str | None,
    seed: int,
    output_dir: Path,
    steps: int,
    group_size: int,
    prompts_per_step: int,
    micro_batch: int,
    learning_rate: float,
    temperature: float,
    max_new_tokens: int,
    lora_rank: int,
    checkpoint_every: int,
    on_log: Callable[[int, Mapping[str, float | None]], None],
    on_step: Callable[[int, LocalPolicy], None],
) -> LocalPolicy:
    """Train `policy` on `items` under one estimator; continues from the newest complete checkpoint in `output_dir`.

    The loss is the paper's: strictly on-policy, no KL, no ratio clipping in effect, token sum over a constant (TRL's
    "dr_grpo" form, whose constant is rollouts x `max_new_tokens`). The optimizer is ours: AdamW at a constant rate,
    gradient norm clipped at 1.

    Args:
        policy: Where training starts; its model is trained in place.
        task: Grades the completions.
        items: Training items of the task.
        method: Name of the advantage estimator; unused with a critic.
        critic: For a learned value as baseline, the kind of its critic, as in `training.value`; None for `method`.
        min_correct_schedule: A threshold that rises to the task's, as in `CorpoConfig`; None for the task's throughout.
        group_selection: Rule for the groups that are trained on, as in `training.selection`; None for all of them.
        on_deselected: What becomes of the places of the others; None with no rule.
        seed: Orders the items, and draws the completions.
        output_dir: Checkpoints and the completion log go here.
        steps: Optimizer steps.
        group_size: Completions per prompt.
        prompts_per_step: Prompts per optimizer step.
        micro_batch: Rollouts per forward and backward pass; divides group size x prompts.
        learning_rate: Constant.
        temperature: Of sampling.
        max_new_tokens: Completion length limit.
        lora_rank: Rank of LoRA adapters on all linear layers; 0 trains all weights.
        checkpoint_every: Steps between checkpoints.
        on_log: Called after each step with its number and metrics; None where a metric is undefined.
        on_step: Called with 0 before the first step and with the number of steps done after each, and the policy as it
            is then. It must leave torch's random state as it was.

    Returns:
        The trained policy, adapters merged.

    Source:
        The loss: Garg and Venkatesh, https://arxiv.org/abs/2511.04439v1, as its public summaries give it.
    """
    rollouts = group_size * prompts_per_step
    kind: type[CorpoConfig] = CorpoConfig
    trainer_kind: type[CorpoTrainer] = CorpoTrainer
    estimator: dict[str, Any] = {"advantage_estimator": method}
    if critic is not None:
        kind, trainer_kind, estimator = ValueConfig, ValueTrainer, {"critic": critic}
    elif group_selection is not None:
        kind, trainer_kind = SelectingConfig, SelectingTrainer
        estimator |= {"group_selection": group_selection, "on_deselected": on_deselected}
    config = kind(
        **estimator,
        output_dir=str(output_dir),
        min_correct=task.min_correct,
        min_correct_schedule=min_correct_schedule,
        max_steps=steps,
        num_generations=group_size,
        per_device_train_batch_size=micro_batch,
        gradient_accumulation_steps=rollouts // micro_batch,
        learning_rate=learning_rate,
        lr_scheduler_type="constant",
        temperature=temperature,
        max_completion_length=max_new_tokens,
        loss_type="dr_grpo",
        beta=0.0,
        num_iterations=1,
        seed=seed,
        bf16=False,
        use_cpu=policy.model.device.type == "cpu",
        gradient_checkpointing=False,
        dataloader_pin_memory=False,
        logging_steps=1,
        log_completions=True,
        num_completions_to_print=0,
        save_strategy="steps",
        save_steps=checkpoint_every,
        save_total_limit=2,
        report_to="none",
        disable_tqdm=True,
    )
    trainer = trainer_kind(
        model=policy.model,
        reward_funcs=_reward_function(task, items),
        args=config,
        train_dataset=Dataset.from_dict(
            {"prompt": [_trl_prompt(policy, task.prompt(item)) for item in items], "item": list(range(len(items)))}
        ),
        processing_class=policy.tokenizer,
        peft_config=LoraConfig(r=lora_rank, lora_alpha=2 * lora_rank, target_modules="all-linear")
        if lora_rank
        else None,
    )
    for callback in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(callback)

    def current() -> LocalPolicy:
        return LocalPolicy(trainer.accelerator.unwrap_model(trainer.model), policy.tokenizer, policy.name)

    trainer.add_callback(_Recorder(on_log=on_log, on_step=lambda step: on_step(step, current())))
    checkpoint = newest_complete_checkpoint(output_dir)
    trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
    model = current().model
    return LocalPolicy(model.merge_and_unload() if lora_rank else model, policy.tokenizer, policy.name)


def newest_complete_checkpoint(output_dir: Path) -> Path | None:
    """The checkpoint to go on from; one that a kill cut short does not count."""
    marks = [mark for mark in output_dir.glob(f"checkpoint-*/{COMPLETE}") if mark.parent.name[11:].isdigit()]
    return max((mark.parent for mark in marks), key=checkpoint_step, default=None)


def checkpoint_step(checkpoint: Path) -> int:
    """Optimizer steps done when the checkpoint was written."""
    return int(checkpoint.name.removeprefix("checkpoint-"))


def _trl_prompt(policy: LocalPolicy, prompt: str) -> Any:
    """The prompt in the form in which TRL applies the chat template itself, where there is one."""
    return prompt if policy.tokenizer.chat_template is None else [{"role": "user", "content": prompt}]


def _text(completion: Any) -> str:
    return completion if isinstance(completion, str) else str(completion[0]["content"])


def _reward_function(task: Task, items: Sequence[Any]) -> Callable[..., list[float | None]]:
    """Grades as TRL takes them: None for what could not be judged, which the trainer counts and learns nothing from."""

    def reward(
        completions: list[Any],
        item: list[int],
        log_extra: Callable[[str, list[Any]], None],
        log_metric: Callable[[str, float], None],
        **_: Any,
    ) -> list[float | None]:
        graded = grade_all(task, [items[index] for index in item], [_text(completion) for completion in completions])
        log_extra("item", list(item))
        log_extra("parse_failure", [one.failure for one in graded])
        scorable = [one for one in graded if one.scorable]
        if scorable:
            log_metric("parse_failure_rate", sum(one.failure is not None for one in scorable) / len(scorable))
        totals: Counter[str] = Counter()
        n_parsed = sum(one.failure is None for one in graded)
        for one in graded:
            totals.update(one.measures)
        for name, total in totals.items():
            log_metric(f"task/{name}", total / n_parsed)
        return [one.reward if one.scorable else None for one in graded]

    return reward


class _Recorder(TrainerCallback):
    """Hands each step's metrics on, and marks each checkpoint that is whole."""

    def __init__(
        self, *, on_log: Callable[[int, Mapping[str, float | None]], None], on_step: Callable[[int], None]
    ) -> None:
        self._on_log = on_log
        self._on_step = on_step

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == 0:
            self._on_step(0)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._on_step(state.global_step)

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any], **_: Any) -> None:
        if "loss" in logs:  # the summary at the end of training has none
            self._on_log(state.global_step, {name: _finite(value) for name, value in logs.items()})

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        (Path(args.output_dir) / f"checkpoint-{state.global_step}" / COMPLETE).touch()


def _finite(value: Any) -> float | None:
    """A metric as a number, or None where it is undefined."""
    number = float(value) if isinstance(value, int | float) else float("nan")
    return number if math.isfinite(number) else None
