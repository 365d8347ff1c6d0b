"""CoRPO and its kin for TRL: `CorpoConfig` and `CorpoTrainer` in the place of `GRPOConfig` and `GRPOTrainer`.

TRL generates, scores, and trains. Two of its methods are wrapped, none is copied: `_calculate_rewards`, where the
rewards of all processes are together, and `_generate_and_score_completions`, whose advantages are replaced in the batch
and in TRL's completion log. Tested on TRL 1.9.2 and 1.16.0.
"""

import logging
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from trl import GRPOConfig, GRPOTrainer

from corpo_rl.core.floorwatch import FloorWatch
from corpo_rl.core.methods import ALREADY_DIVIDED, BASES, Method, parse_method
from corpo_rl.core.rounding import ROUNDING, SMALLEST, threshold_as_read
from corpo_rl.core.schedule import FORMS, Fixed, parse_schedule
from corpo_rl.errors import FloorWarning, UsageError
from corpo_rl.training.figures import batch_advantages, batch_figures, total_rewards
from corpo_rl.training.memory import Memory, gathered, prompt_key

logger = logging.getLogger(__name__)


@dataclass
class CorpoConfig(GRPOConfig):
    """`GRPOConfig` with an advantage estimator and the reward from which a rollout counts as correct.

    Raises:
        UsageError: An unknown estimator, no `min_correct`, or a TRL setting that would undo the estimator.
    """

    advantage_estimator: str = field(
        default="corpo",
        metadata={
            "help": f"How rewards become advantages: one of {', '.join(BASES)}, with +floor, +gate, +batch_std, "
            "+fixed=C or +phase behind it."
        },
    )
    """Name of a method, as `corpo_rl.core.methods.parse_method` reads it."""
    min_correct: float | None = field(
        default=None,
        metadata={"help": "Least total reward that counts as correct. Always given: no value suits every reward."},
    )
    """R_min_correct, in units of the weighted sum of the reward functions; a rollout is correct when reward >= it."""
    min_correct_schedule: str | None = field(
        default=None,
        metadata={"help": f"In the place of min_correct, a threshold that rises as training goes on: {FORMS}."},
    )
    """As `corpo_rl.core.schedule.parse_schedule` reads it; `min_correct` is then its last value, by which every
    evaluation goes."""
    floor_check_steps: int = field(
        default=20,
        metadata={"help": "Warn when min_correct separated nothing during this many generations in a row."},
    )
    """Length of the window, in generated batches, over which the floor is called inert or saturated."""
    scale_rewards: str | None = field(  # not bool too: HfArgumentParser knows no such union; True and False do work
        default=None,
        metadata={"help": "Left out, it follows the estimator: 'group' for grpo, 'none' for the others."},
    )
    """TRL's scaling. The estimator decides it; a value that contradicts the estimator is refused."""

    def __post_init__(self) -> None:
        self.min_correct = _last_threshold(self.min_correct, self.min_correct_schedule)
        _check_threshold(self.min_correct, self.floor_check_steps)
        self.scale_rewards = _scale_for(_method(self.advantage_estimator), self.scale_rewards)
        super().__post_init__()
        if self.multi_objective_aggregation == "normalize_then_sum":
            raise UsageError(
                "multi_objective_aggregation: 'normalize_then_sum' rescales every reward function by its batch, so "
                "min_correct would no longer mean correctness; use 'sum_then_normalize' with reward_weights"
            )


def _method(name: str) -> Method:
    try:
        return parse_method(name)
    except UsageError as error:
        raise UsageError(f"advantage_estimator: {str(error).removeprefix('estimator: ')}") from None


def _last_threshold(min_correct: float | None, schedule: str | None) -> float | None:
    if schedule is None:
        return min_correct
    last = parse_schedule(schedule).last
    if min_correct is not None and min_correct != last:
        raise UsageError(
            f"min_correct_schedule: {schedule!r} ends at {last:g}, but min_correct is {min_correct:g}; leave "
            "min_correct out or make both the same"
        )
    return last


def _check_threshold(min_correct: float | None, floor_check_steps: int) -> None:
    if min_correct is None or not np.isfinite(min_correct):
        raise UsageError(
            f"min_correct: expected the least reward that counts as correct, got {min_correct}; pass "
            "CorpoConfig(min_correct=...), on a command line --min_correct, in units of your total reward"
        )
    if floor_check_steps < 1:
        raise UsageError(f"floor_check_steps: expected at least 1, got {floor_check_steps}")


def _scale_for(method: Method, given: str | bool | None) -> str:  # noqa: FBT001  # TRL allows both
    wanted = "group" if method.base == "grpo" else "none"
    spelled = {True: "group", False: "none", None: wanted}.get(given, given) if not isinstance(given, str) else given
    if spelled != wanted:
        plain = method.scale == "none" and method.base not in ALREADY_DIVIDED
        divides_by = "the group std" if wanted == "group" else "nothing" if plain else "a scale of its own"
        raise UsageError(
            f"scale_rewards: {method.name} divides by {divides_by}, got {given!r}; leave scale_rewards out or set it "
            f"to {wanted!r}"
            + (
                " (a group of equal failures has std 0, and the floor's advantage would explode)"
                if method.floored
                else ""
            )
        )
    return wanted


class CorpoTrainer(GRPOTrainer):
    """`GRPOTrainer` whose advantages come from `args.advantage_estimator`.

    Everything else is TRL's: the arguments and their order, models, PEFT, generation, loss types, logging. Rewards of
    one group may be spread over processes; a rollout for which every reward function returned None is left out of the
    baseline and gets advantage 0.

    Logged beside TRL's own metrics under `corpo/`, for each generated batch, r_loss for each step:
        reinforced_failure_share: failed rollouts with advantage > 0, over all failed ones; NaN values are not logged.
        reinforced_failure_share_grpo: the same had the advantages been GRPO's.
        r_count: number of rollouts with advantage > 0 over number with advantage < 0.
        r_loss: sum of the loss over rollouts with advantage > 0 over the sum where it is < 0, the loss of a rollout
            being -A times its summed log-probability in this step's forward pass. At most 0 by this definition.
        floored_group_share: share of groups whose mean reward is under `min_correct`.
        groups/<class>: share of groups that are all failed (equal, graded), mixed, or all correct (graded, equal).
        correct_share, exceeding_share: share of scorable rollouts with reward >= and > `min_correct`.
        unscorable: number of rollouts without a reward; advantage_mean, advantage_abs_mean: over all rollouts.

    The completion log (`log_completions=True`) also holds `corpo_group`, `corpo_reward` and `corpo_split`.

    Raises:
        UsageError: `args` is not a `CorpoConfig`.
    """

    _tag_names: ClassVar = ["trl", "grpo", "corpo"]

    def __init__(
        self, model: Any, reward_funcs: Any = None, args: CorpoConfig | None = None, *others: Any, **kwargs: Any
    ) -> None:
        if not isinstance(args, CorpoConfig):
            raise UsageError(
                f"args: expected a CorpoConfig, got {type(args).__name__}; it adds min_correct to GRPOConfig"
            )
        assert args.min_correct is not None, "CorpoConfig has checked it"
        self._estimator = args.advantage_estimator
        self._is_floored = _is_floored(self._estimator)
        self._schedule = parse_schedule(args.min_correct_schedule or args.min_correct)
        self._memory = Memory()
        self._last_min_correct = threshold_as_read(self._schedule.last)
        self._min_correct = self._last_min_correct
        self._scored: ScoredBatch | None = None
        self._log_probs: torch.Tensor | None = None
        self._loss_sums: dict[str, torch.Tensor | None] = {"train": None, "eval": None}
        self._batch_of_step = (-1, "", 0)
        self._floor_watch = FloorWatch(self._min_correct, window=args.floor_check_steps)
        super().__init__(model, reward_funcs, args, *others, **kwargs)

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any) -> torch.Tensor:
        rewards_per_func: torch.Tensor = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        mode = "train" if self.model.training else "eval"
        rewards_N = total_rewards(rewards_per_func.cpu(), self.reward_weights.cpu())
        group_size = self.num_generations if mode == "train" else self.num_generations_eval
        group_N = np.arange(len(rewards_N)) // group_size
        self._scored = ScoredBatch(
            rewards_per_func.cpu(),
            rewards_N,
            group_N,
            mode,
            lambda: np.array(gathered([max(len(ids), 1) for ids in completion_ids_list]), dtype=np.int64),
            lambda: gathered([prompt_key(prompt) for prompt in prompts]),
        )
        return rewards_per_func

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        self._scored = None
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        scored, self._scored = self._scored, None
        if scored is None or output["advantages"].ndim != 1:
            raise RuntimeError("this version of TRL computes advantages in a way that corpo-rl does not know")

        n_local = len(output["advantages"])
        start = self.accelerator.process_index * n_local
        local = slice(start, start + n_local)
        self._min_correct = self._threshold(scored.mode)
        advantages_N = self._estimate(scored)
        advantages_B = torch.as_tensor(advantages_N[local]).to(output["advantages"])
        output["advantages"] = self._token_advantages(output, advantages_B, scored, local)
        if output["advantages"].ndim == 2:
            means_B = _token_means(output["advantages"], output["completion_mask"] * output.get("tool_mask", 1))
            advantages_N = self.accelerator.gather(means_B).double().cpu().numpy()
        self._log_dynamics(scored, advantages_N)
        self._log_rows(scored, advantages_N)
        if scored.mode == "train" and not isinstance(self._schedule, Fixed):
            correct_share = self._metrics["train"]["corpo/correct_share"][-1]
            self._memory.schedule = self._schedule.after(self._memory.schedule, correct_share=correct_share)
        return output

    def _threshold(self, mode: str) -> float:
        """`min_correct` for the batch at hand; evaluations go by the last one, so that they can be compared."""
        if mode == "eval" or isinstance(self._schedule, Fixed):
            return self._last_min_correct
        floor = self._schedule.at(self._memory.schedule, step=self.state.global_step)
        value = threshold_as_read(floor.min_correct)
        self._metrics[mode]["corpo/min_correct"].append(value)
        if value != self._floor_watch.floor:
            logger.info("corpo/min_correct is now %g: %s", value, floor.why)
            self._floor_watch.floor = value
        return value

    def _estimate(self, batch: "ScoredBatch") -> NDArray[np.float64]:
        """Advantage of each rollout of all processes. Shape [N]. Subclasses may take another rule."""
        method = parse_method(self._estimator)
        keys = batch.prompt_keys() if method.needs_history else None
        advantages_N = batch_advantages(
            method,
            batch.rewards_N,
            batch.group_N,
            min_correct=self._min_correct,
            length_N=batch.lengths() if method.needs_lengths else None,
            history_N=None if keys is None else self._memory.recall(keys),
        )
        if keys is not None and batch.mode == "train":
            assert method.number is not None, "parse_method gives ema a decay"
            self._memory.learn(keys, batch.rewards_N, batch.group_N, decay=method.number)
        return advantages_N

    def _token_advantages(
        self, output: dict[str, Any], advantages_B: torch.Tensor, batch: "ScoredBatch", local: slice
    ) -> torch.Tensor:
        """What the loss multiplies each token with: shape [B], one for a rollout, or [B, T], one for a token.

        Subclasses override it. A rollout is then logged, and counted as reinforced or not, by the mean over its tokens.

        Args:
            output: TRL's batch of this process, with `completion_ids` and `completion_mask` of shape [B, T].
            advantages_B: Result of `_estimate` for the rollouts of this process. Shape [B].
            batch: Rewards and groups of all processes.
            local: Rows of this process among those of all.
        """
        return advantages_B

    def _correctness(self, batch: "ScoredBatch") -> NDArray[np.float64]:
        """Reward in whose units `min_correct` is, for the figures logged: the total. Shape [N]."""
        return batch.rewards_N

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
        result = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        self._log_probs = result[0].detach()
        return result

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        self._log_probs = None
        loss: torch.Tensor = super()._compute_loss(model, inputs)
        log_probs, self._log_probs = self._log_probs, None
        if log_probs is not None:
            mask = inputs["completion_mask"] * inputs.get("tool_mask", 1)
            advantages = inputs["advantages"]
            weighted = log_probs * mask
            losses = -advantages * (weighted if advantages.ndim == 2 else weighted.sum(dim=1))
            rounding = (ROUNDING * advantages.abs().max()).clamp(min=SMALLEST)  # as everywhere in core.dynamics
            sums = torch.stack([losses[advantages > rounding].sum(), losses[advantages < -rounding].sum()])
            mode = "train" if self.model.training else "eval"
            so_far = self._loss_sums[mode]
            self._loss_sums[mode] = sums if so_far is None else so_far + sums
        return loss

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        """Save what the run remembers of prompts and thresholds with the optimizer, before a checkpoint is whole."""
        super()._save_optimizer_and_scheduler(output_dir)
        if self.args.should_save:
            self._memory.save(Path(output_dir))

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None:
            self._memory = Memory.load(Path(checkpoint))

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log as TRL does, with `corpo/r_loss` over all rollouts since the last log."""
        mode = "train" if self.model.training else "eval"
        sums, self._loss_sums[mode] = self._loss_sums[mode], None
        if sums is not None:
            positive, negative = self.accelerator.reduce(sums, reduction="sum").tolist()
            self._metrics[mode]["corpo/r_loss"].append(positive / negative if negative else float("nan"))
        super().log(logs, start_time)

    def _log_dynamics(self, batch: "ScoredBatch", advantages_N: NDArray[np.float64]) -> None:
        figures = batch_figures(
            self._correctness(batch),
            batch.group_N,
            advantages_N,
            min_correct=self._min_correct,
            grpo_N=batch_advantages("grpo", batch.rewards_N, batch.group_N, min_correct=self._min_correct),
        )
        for name, value in figures.items():
            self._metrics[batch.mode][f"corpo/{name}"].append(value)
        if batch.mode == "train" and self._is_floored:
            self._watch_floor()

    def _watch_floor(self) -> None:
        metrics = self._metrics["train"]
        floored_share, exceeding_share = (
            metrics[f"corpo/{name}"][-1] for name in ("floored_group_share", "exceeding_share")
        )
        if np.isnan(floored_share):  # nothing could be scored: that says nothing about the floor
            return
        message = self._floor_watch.see(floored=floored_share > 0, exceeded=exceeding_share > 0)
        if message and self.accelerator.is_main_process:
            warnings.warn(f"{self._estimator}: {message}", FloorWarning, stacklevel=2)

    def _log_rows(self, scored: "ScoredBatch", advantages_N: NDArray[np.float64]) -> None:
        """Put ours into TRL's completion log, whose last rows TRL has just written. Every process holds every row."""
        step, mode = self.state.global_step, scored.mode
        batch = self._batch_of_step[2] + 1 if self._batch_of_step[:2] == (step, mode) else 0
        self._batch_of_step = (step, mode, batch)

        logged = self._logs["advantages"]
        for _ in range(min(len(advantages_N), len(logged))):
            logged.pop()
        logged.extend(np.float32(advantages_N).tolist())
        extra = self._logs["extra"]
        extra["corpo_group"].extend([f"{mode}-{step}-{batch}-{group}" for group in scored.group_N])
        extra["corpo_reward"].extend(scored.rewards_N.tolist())
        extra["corpo_split"].extend([mode] * len(scored.rewards_N))


class ScoredBatch(NamedTuple):
    """One generated batch over all processes."""

    rewards_NF: torch.Tensor  # noqa: N815
    """Reward of each function as TRL holds it, NaN for None, on the CPU. Shape [N, F]."""
    rewards_N: NDArray[np.float64]  # noqa: N815
    """Total reward of each rollout, in task units; NaN where unscorable. Shape [N]."""
    group_N: NDArray[np.int64]  # noqa: N815
    """Group of each rollout, 0 to G-1. Shape [N]."""
    mode: str
    """"train" or "eval"."""
    lengths: Callable[[], NDArray[np.int64]]
    """Tokens of each completion, at least 1. Shape [N]. All processes have to ask, as it asks all of them."""
    prompt_keys: Callable[[], list[str]]
    """Something that is the same for equal prompts and differs for others, for each rollout; as `lengths`."""


def _is_floored(name: str) -> bool:
    """False too for the names of subclasses, which `parse_method` does not know."""
    try:
        return parse_method(name).floored
    except UsageError:
        return False


def _token_means(advantages_BT: torch.Tensor, mask_BT: torch.Tensor) -> torch.Tensor:
    """Mean advantage over the tokens that are trained on, 0 where there is none. Shape [B]."""
    return (advantages_BT * mask_BT).sum(dim=1) / mask_BT.sum(dim=1).clamp(min=1)
