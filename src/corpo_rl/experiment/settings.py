"""What one comparison is: every setting that decides its numbers, and the presets of its scales."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from corpo_rl.core.methods import BASES, parse_method
from corpo_rl.core.schedule import parse_schedule
from corpo_rl.core.selection import RULES
from corpo_rl.errors import UsageError

VALUE_METHODS: Mapping[str, str] = {"value": "head", "value_model": "model"}
"""Methods whose baseline is learned, and the kind of their critic: see `training.value`."""


@dataclass(frozen=True)
class Settings:
    """Settings shared by every run of a comparison. Runs differ in method and seed, and in nothing else."""

    task: str
    """"mini", "pairs", "rubric", "code", "puzzles:NAME[,NAME...]", or "FILE.py:NAME", a task of the user's."""
    pairs: str | None
    """Pairs file of the task "pairs"; its content is fingerprinted, its place is not."""
    data: str | None
    """File of the tasks "rubric" and "code", fingerprinted as the pairs are."""
    reward: str | None
    """Reward of the tasks "mini" and "pairs", of `tasks.verifier.REWARDS`; None is the task's own."""
    policy: str
    """"mini", "smollm2", a local folder, or a hub id."""
    device: str | None
    """"cuda", or None for the CPU. Training and evaluation alike; in the type of number that the weights are in."""
    steps: int
    """Optimizer steps of each run."""
    group_size: int
    """Completions per prompt while training."""
    prompts_per_step: int
    """Prompts of one optimizer step; times `group_size` is the global batch in rollouts."""
    micro_batch: int
    """Rollouts of one forward and backward pass."""
    learning_rate: float
    """Constant; AdamW without weight decay."""
    temperature: float
    """Of training and evaluation alike."""
    max_new_tokens: int
    """Completion length limit, and the constant that the token sum is divided by."""
    max_prompt_tokens: int
    """Items with a longer rendered prompt are left out, and counted."""
    min_correct: float | None
    """Least reward that counts as correct; None is the task's own."""
    min_correct_schedule: str | None
    """While training, a threshold that rises to `min_correct`, as `core.schedule` reads it; None for a fixed one."""
    curated: str | None
    """List of training prompts to keep or drop, made by `corpo-rl curate --out`; its content is fingerprinted."""
    group_selection: str | None
    """Rule of `core.selection` for the groups that are trained on; None for all of them."""
    on_deselected: str | None
    """"drop" or "resample"; None with no selection."""
    warmup_steps: int
    """Supervised steps that teach the base the answer's form before anything is compared; 0 for none."""
    lora_rank: int
    """Rank of LoRA adapters on all linear layers; 0 trains all weights."""
    samples_per_item: int
    """Completions per item in the final evaluation."""
    k: int
    """The k of pass@k beside pass@1."""
    eval_items: int
    """Items per split in the final evaluation, the first ones; 0 for all."""
    curve_every: int
    """Steps between evaluations while training; 0 for none."""
    curve_samples: int
    """Completions per item in those."""
    checkpoint_every: int
    """Steps between checkpoints."""
    eval_batch: int
    """Completions generated at once while evaluating; part of what the sampled numbers depend on."""
    threads: int
    """Torch threads of a run."""
    level: float
    """Coverage of the intervals."""

    def __post_init__(self) -> None:
        positive = (
            "steps group_size prompts_per_step micro_batch max_new_tokens max_prompt_tokens samples_per_item k "
            "curve_samples checkpoint_every eval_batch threads"
        )
        for name in positive.split():
            if getattr(self, name) < 1:
                raise UsageError(f"--{name.replace('_', '-')}: expected at least 1, got {getattr(self, name)}")
        if self.group_size < 2:
            raise UsageError("--group-size: expected at least 2, got 1; a group of one has no peers to compare with")
        if (self.group_size * self.prompts_per_step) % self.micro_batch:
            raise UsageError(
                f"--micro-batch: expected a divisor of group size x prompts per step = "
                f"{self.group_size * self.prompts_per_step}, got {self.micro_batch}"
            )
        if self.learning_rate <= 0 or self.temperature <= 0:
            raise UsageError("--learning-rate and --temperature: expected numbers above 0")
        if self.min_correct is not None and not math.isfinite(self.min_correct):
            raise UsageError(f"--min-correct: expected a finite number, got {self.min_correct}")
        if self.min_correct_schedule is not None:
            last = parse_schedule(self.min_correct_schedule).last
            if self.min_correct != last:
                raise UsageError(
                    f"--min-correct-schedule: {self.min_correct_schedule!r} ends at {last:g}, by which all are "
                    f"judged; add --min-correct {last:g}"
                )
        if self.device not in (None, "cuda"):
            raise UsageError(f"--device: expected cpu or cuda, got {self.device!r}")
        if self.group_selection not in (None, *RULES):
            raise UsageError(f"--group-selection: expected one of {', '.join(RULES)}, got {self.group_selection!r}")
        if self.on_deselected not in (None, "drop", "resample"):
            raise UsageError(f"--on-deselected: expected drop or resample, got {self.on_deselected!r}")
        if self.on_deselected is not None and self.group_selection is None:
            raise UsageError("--on-deselected: nothing is deselected without --group-selection")
        if self.k > self.samples_per_item:
            raise UsageError(
                f"--k: pass@{self.k} needs at least {self.k} samples per item, got --samples {self.samples_per_item}"
            )


MINI = Settings(
    task="mini",
    pairs=None,
    data=None,
    reward=None,
    policy="mini",
    device=None,
    steps=100,
    group_size=8,
    prompts_per_step=32,
    micro_batch=256,
    learning_rate=3e-4,
    temperature=1.0,
    max_new_tokens=12,
    max_prompt_tokens=64,
    min_correct=None,
    min_correct_schedule=None,
    curated=None,
    group_selection=None,
    on_deselected=None,
    warmup_steps=0,
    lora_rank=0,
    samples_per_item=16,
    k=16,
    eval_items=0,
    curve_every=20,
    curve_samples=4,
    checkpoint_every=25,
    eval_batch=512,
    threads=1,
    level=0.95,
)
"""The embedded policy on sums: minutes on a CPU."""

SMALL = Settings(
    task="pairs",
    pairs=None,
    data=None,
    reward=None,
    policy="smollm2",
    device=None,
    steps=30,
    group_size=8,
    prompts_per_step=2,
    micro_batch=4,
    learning_rate=5e-4,
    temperature=1.0,
    max_new_tokens=12,
    max_prompt_tokens=304,
    min_correct=None,
    min_correct_schedule=None,
    curated=None,
    group_selection=None,
    on_deselected=None,
    warmup_steps=16,
    lora_rank=16,
    samples_per_item=4,
    k=4,
    eval_items=12,
    curve_every=0,
    curve_samples=2,
    checkpoint_every=1,
    eval_batch=16,
    threads=2,
    level=0.95,
)
"""A real language model of 135 M parameters on real pairs, on a CPU."""

LATER = ("data", "reward", "device", "min_correct_schedule", "curated", "group_selection", "on_deselected")
"""Settings that experiments of earlier versions do not have; there they were as None is now."""

SCALES: Mapping[str, Settings] = {"mini": MINI, "small": SMALL}


def check_methods(methods: tuple[str, ...]) -> None:
    """Refuse unknown, repeated or missing methods."""
    for name in methods:
        if name in VALUE_METHODS:
            continue
        try:
            parse_method(name)
        except UsageError as error:
            message = str(error)
            if message.startswith("estimator:"):
                message = f"expected names among {', '.join((*BASES, *VALUE_METHODS))}, got {name}"
            raise UsageError(f"--methods: {message}") from None
    if not methods or len(set(methods)) < len(methods):
        raise UsageError(f"--methods: expected at least one name, each once, got {','.join(methods) or 'nothing'}")


def check_together(settings: Settings, methods: tuple[str, ...]) -> None:
    """Refuse methods that cannot be had under the settings, before anything is trained."""
    learned = [name for name in methods if name in VALUE_METHODS]
    if settings.group_selection is not None and learned:
        raise UsageError(f"--group-selection: a learned value takes every group; leave {', '.join(learned)} out")


def settings_from_json(data: Mapping[str, Any]) -> Settings:
    """The settings that `dataclasses.asdict` wrote."""
    known = {field.name for field in fields(Settings)}
    return Settings(**{**dict.fromkeys(LATER), **{name: value for name, value in data.items() if name in known}})


def first_difference(old: Mapping[str, Any], new: Settings) -> str | None:
    """One line on the first setting in which a stored experiment differs, or None when they are the same."""
    for name, value in asdict(new).items():
        if (name not in old and name not in LATER) or old.get(name) != value:
            return f"{name} is {old.get(name)!r} there and {value!r} here"
    return None
