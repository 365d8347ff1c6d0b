"""PPO's baseline for TRL: `ValueConfig` and `ValueTrainer`, a learned value in the place of a group's mean.

To compare CoRPO with: everything but the baseline is as in `CorpoTrainer`, the loss, the rewards and the figures.
Tested on TRL 1.9.2 and 1.16.0, both of which take one advantage for each token.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from accelerate.utils import broadcast, gather_object
from numpy.typing import NDArray
from peft import PeftModel
from trl import GRPOTrainer

from corpo_rl.core.gae import gae_advantages
from corpo_rl.core.rounding import ROUNDING
from corpo_rl.errors import DataError, UsageError
from corpo_rl.training.trl import CorpoConfig, CorpoTrainer, ScoredBatch

NAME = "value"
"""What `advantage_estimator` is in a run with a learned value."""

CRITICS: tuple[str, ...] = ("head", "model")
"""Kinds of critic: a linear head on the policy's own last hidden state, or a model of the policy's size beside it."""

CRITIC_LEARNING_RATE = 1e-5
"""Of a separate critic's trunk, as in verl 0.9.1 (critic.optim.lr)."""

CRITIC_FILE = "critic.pt"
"""The critic and its optimizer in the folder of a checkpoint."""


@dataclass
class ValueConfig(CorpoConfig):
    """`CorpoConfig` for a run whose baseline is learned. `min_correct` is for the figures only: nothing is floored.

    Raises:
        UsageError: A setting out of range, one that means nothing without a floor or a group's mean, or one of TRL's
            that wants one advantage for each rollout; or as `CorpoConfig`.
    """

    advantage_estimator: str = field(default=NAME, metadata={"help": f"Always {NAME!r}."})
    """"value"; another is refused, `CorpoConfig` is for those."""
    critic: str = field(
        default="head",
        metadata={"help": f"What estimates the values: one of {', '.join(CRITICS)}."},
    )
    """"head": d + 1 weights on the policy's last hidden state, which they do not train. "model": a copy of the policy's
    trunk in float32 with such a head, all of it trained: PPO's own way, and four times the weights in memory."""
    gae_discount: float = field(default=1.0, metadata={"help": "GAE's gamma, 0 to 1."})
    """Gamma; 1 as in verl 0.9.1: a reward at the end is worth as much to the first token as to the last."""
    gae_trace: float = field(default=1.0, metadata={"help": "GAE's lambda, 0 to 1."})
    """Lambda; 1 as in verl 0.9.1: whatever the critic, the expected update is the true policy gradient's."""
    critic_head_learning_rate: float = field(
        default=0.05,
        metadata={"help": "AdamW's step for the critic's head."},
    )
    """One step moves a value by at most about twice this, in task units, whatever the model's width. Ours: on the mini
    model it learns a reward that the prompt foretells within 50 batches."""
    critic_learning_rate: float | None = field(
        default=None,
        metadata={"help": f"AdamW's step for the trunk of critic='model'; left out, {CRITIC_LEARNING_RATE}."},
    )
    """AdamW's step for the trunk of a separate critic. Constant, without weight decay, as the head's."""
    critic_updates: int = field(default=1, metadata={"help": "AdamW steps of the critic on each generated batch."})
    """AdamW steps of the critic on each generated batch, all of its rows in each, towards the same returns."""

    def __post_init__(self) -> None:
        _check(self)
        # Neither a scale nor a threshold: dr_grpo's rules are those of a learned value, whose name core does not know.
        self.advantage_estimator = "dr_grpo"
        super().__post_init__()
        self.advantage_estimator = NAME
        _check_trl(self)


def _check(config: ValueConfig) -> None:
    if config.advantage_estimator != NAME:
        raise UsageError(
            f"advantage_estimator: ValueConfig has {NAME!r} alone, got {config.advantage_estimator!r}; use CorpoConfig"
        )
    if config.scale_rewards not in (None, "none", False):
        raise UsageError(
            f"scale_rewards: a learned value divides by nothing, got {config.scale_rewards!r}; leave scale_rewards out"
        )
    if config.floor_check_steps != CorpoConfig.floor_check_steps:
        raise UsageError(
            f"floor_check_steps: a learned value has no floor to watch, got {config.floor_check_steps}; leave it out"
        )
    if config.critic not in CRITICS:
        raise UsageError(f"critic: expected one of {', '.join(CRITICS)}, got {config.critic!r}")
    for name in ("gae_discount", "gae_trace"):
        if not 0.0 <= getattr(config, name) <= 1.0:
            raise UsageError(f"{name}: expected 0 to 1, got {getattr(config, name)}")
    for name in ("critic_head_learning_rate", "critic_learning_rate"):
        value = getattr(config, name)
        if value is not None and not 0.0 < value < np.inf:
            raise UsageError(f"{name}: expected more than 0, got {value}")
    if config.critic == "head" and config.critic_learning_rate is not None:
        raise UsageError(
            f"critic_learning_rate: critic='head' trains no trunk, got {config.critic_learning_rate}; set "
            "critic_head_learning_rate, or critic='model'"
        )
    if config.critic_updates < 1:
        raise UsageError(f"critic_updates: expected at least 1, got {config.critic_updates}")


def _check_trl(config: ValueConfig) -> None:
    """Refuse what TRL cannot do with one advantage for each token, or we cannot with the critic."""
    by_rollout = {
        "loss_type": config.loss_type in ("luspo", "vespo"),
        "off_policy_mask_threshold": config.off_policy_mask_threshold is not None,
        # gone from later versions of TRL, where use_liger_kernel no longer touches the loss
        "use_liger_kernel": config.use_liger_kernel and hasattr(GRPOTrainer, "compute_liger_loss"),
    }
    for name, refused in by_rollout.items():
        if refused:
            raise UsageError(
                f"{name}: {getattr(config, name)!r} wants one advantage for each rollout, a learned value gives one "
                f"for each token; leave {name} out"
            )
    if config.fp16:
        raise UsageError("fp16: the critic's loss is not scaled for float16; use bf16=True")


class ValueTrainer(CorpoTrainer):
    """`CorpoTrainer` whose baseline is a critic's value of the state before each token: PPO's, in TRL's loss.

    The reward of a rollout is received at its last token that the policy wrote. Advantages are those of
    `corpo_rl.core.gae`, by the values from before the batch was seen; then the critic makes `critic_updates` steps of
    AdamW on the mean over all tokens of (V_t - return_t)^2, its gradients clipped to the norm `max_grad_norm`. It
    trains once for each generated batch, however often the policy uses that, and never in evaluation. A rollout without
    a reward has advantage 0 and trains nothing. The critic starts at value 0.

    With several processes each trains its copy of the critic on its own rows and on the gradients of all, so that the
    copies stay equal. The critic and its optimizer lie in every checkpoint (`critic.pt`), and a run resumed from one
    goes on as if never stopped, as far as TRL does: it generates anew where it stood between two uses of a batch.

    Logged beside the figures of `CorpoTrainer`, over all processes, by the values from before the batch was seen:
        value_loss: mean over tokens of (V_t - return_t)^2, in task units squared.
        value_explained_variance: 1 - variance of (return_t - V_t) / variance of return_t, over tokens: 1 for a perfect
            critic, 0 for a constant, negative for a harmful one. Not logged where all returns are equal.

    Where a figure or the completion log wants one advantage for a rollout (reinforced_failure_share, r_count, ...), it
    is the mean over its tokens. r_loss is over tokens, each by the sign of its own advantage.

    Raises:
        UsageError: `args` is not a `ValueConfig`, the run shards the policy (DeepSpeed, FSDP), its policy reads images,
            or `critic="model"` is asked for beside a PEFT adapter.
        DataError: A checkpoint to resume from holds no critic, or one of another kind.
    """

    def __init__(
        self, model: Any, reward_funcs: Any = None, args: ValueConfig | None = None, *others: Any, **kwargs: Any
    ) -> None:
        if not isinstance(args, ValueConfig):
            raise UsageError(f"args: expected a ValueConfig, got {type(args).__name__}")
        super().__init__(model, reward_funcs, args, *others, **kwargs)
        self.critic = self._new_critic(args)
        self._critic_optimizer = torch.optim.AdamW(
            [
                {"params": self.critic.head.parameters(), "lr": args.critic_head_learning_rate},
                {"params": self.critic.trunk_parameters(), "lr": args.critic_learning_rate or CRITIC_LEARNING_RATE},
            ],
            weight_decay=0.0,
        )

    def _new_critic(self, args: ValueConfig) -> "Critic":
        if self.is_deepspeed_enabled or self.is_fsdp_enabled:
            raise UsageError(
                "ValueTrainer: expected a policy whole on every device, got one that DeepSpeed or FSDP shards; at that "
                "size train PPO in verl, algorithm.adv_estimator=gae"
            )
        policy = self.accelerator.unwrap_model(self.model)
        trunk = None
        if args.critic == "model":
            if isinstance(policy, PeftModel):
                raise UsageError(
                    "critic: 'model' would train all the weights that a PEFT adapter leaves alone; use critic='head'"
                )
            trunk = copy.deepcopy(policy.base_model).float().requires_grad_(True)  # noqa: FBT003  # torch's own signature
            if args.gradient_checkpointing:
                trunk.gradient_checkpointing_enable(args.gradient_checkpointing_kwargs)
        critic = Critic(trunk, policy.config.get_text_config().hidden_size).to(self.accelerator.device)
        for parameter in critic.parameters():  # a policy with random weights may start differently on each process
            broadcast(parameter.data)
        return critic

    def _estimate(self, batch: ScoredBatch) -> NDArray[np.float64]:
        """Zeros: here a rollout has no advantage of its own, only its tokens have. Shape [N]."""
        return np.zeros(len(batch.rewards_N))

    def _token_advantages(
        self, output: dict[str, Any], advantages_B: torch.Tensor, batch: ScoredBatch, local: slice
    ) -> torch.Tensor:
        """GAE of the local rows by the critic as it is; in training the critic then takes its steps. Shape [B, T]."""
        if "pixel_values" in output:
            raise UsageError("ValueTrainer: expected prompts of text alone, got images; the critic does not read them")
        args, trained = self.args, batch.mode == "train"
        tokens = _tokens(output, batch.rewards_N[local])
        n_tokens = sum(gather_object([int(tokens.mask_BT.sum())]))
        values_BT, advantages_BT, returns_BT = (np.zeros(tokens.mask_BT.shape) for _ in range(3))

        for update in range(args.critic_updates if trained else 1):
            self.critic.train(trained)
            for rows in self._chunks(len(values_BT), trained=trained):
                with torch.set_grad_enabled(trained):
                    values = self._values(output, rows)
                if update == 0:
                    values_BT[rows] = values.detach().double().cpu().numpy()
                    advantages_BT[rows], returns_BT[rows] = gae_advantages(
                        tokens.rewards_BT[rows],
                        values_BT[rows],
                        tokens.mask_BT[rows],
                        discount=args.gae_discount,
                        trace=args.gae_trace,
                    )
                if trained:
                    returns = torch.as_tensor(returns_BT[rows]).to(values)
                    mask = torch.as_tensor(tokens.mask_BT[rows]).to(values)
                    (((values - returns) ** 2 * mask).sum() / max(n_tokens, 1)).backward()
            if trained:
                self._step_critic()

        self._log_values(values_BT[tokens.mask_BT], returns_BT[tokens.mask_BT], batch.mode)
        return torch.as_tensor(advantages_BT).to(advantages_B)

    def _chunks(self, n: int, *, trained: bool) -> Iterator[slice]:
        """Rows in as many as TRL puts through the policy at a time: a generated batch may hold many times more."""
        size = self.args.per_device_train_batch_size if trained else self.args.per_device_eval_batch_size
        return (slice(start, start + size) for start in range(0, n, size))

    def _values(self, output: dict[str, Any], rows: slice) -> torch.Tensor:
        """Critic's value of the state before each completion token. Shape [rows, T], float32."""
        ids = torch.cat([output["prompt_ids"][rows], output["completion_ids"][rows]], dim=1)
        attention_mask = torch.cat([output["prompt_mask"][rows], output["completion_mask"][rows]], dim=1)
        if self.critic.trunk is not None:
            hidden = self._last_hidden(self.critic.trunk, ids, attention_mask)
        else:
            policy = self.accelerator.unwrap_model(self.model)
            trunk = (policy.get_base_model() if isinstance(policy, PeftModel) else policy).base_model
            was_training = trunk.training
            trunk.eval()  # no dropout in what a value is read from
            with torch.no_grad():
                hidden = self._last_hidden(trunk, ids, attention_mask)
            trunk.train(was_training)
        n_tokens = output["completion_ids"].size(1)
        values: torch.Tensor = self.critic(hidden[:, -n_tokens - 1 : -1])  # the state before a token holds it not yet
        return values

    def _last_hidden(self, trunk: Any, ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        with self.accelerator.autocast():
            hidden: torch.Tensor = trunk(
                input_ids=ids, attention_mask=attention_mask, use_cache=False
            ).last_hidden_state
        return hidden

    def _step_critic(self) -> None:
        """A step of AdamW on the sum of all processes' gradients, the same on each of them."""
        parameters = [parameter for parameter in self.critic.parameters() if parameter.grad is not None]
        for parameter in parameters:
            parameter.grad = self.accelerator.reduce(parameter.grad, reduction="sum")
        if self.args.max_grad_norm:
            torch.nn.utils.clip_grad_norm_(parameters, self.args.max_grad_norm)
        self._critic_optimizer.step()
        self._critic_optimizer.zero_grad()

    def _log_values(self, values: NDArray[np.float64], returns: NDArray[np.float64], mode: str) -> None:
        errors = _merged(gather_object([_moments(returns - values)]))
        targets = _merged(gather_object([_moments(returns)]))
        equal = targets.variance <= (ROUNDING * targets.mean) ** 2
        figures = {
            "value_loss": errors.variance + errors.mean**2,
            "value_explained_variance": float("nan") if equal else 1.0 - errors.variance / targets.variance,
        }
        for name, value in figures.items():
            self._metrics[mode][f"corpo/{name}"].append(value)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        """Save the critic and its optimizer with the policy's, before the state that makes a checkpoint whole."""
        super()._save_optimizer_and_scheduler(output_dir)
        if self.args.should_save:
            state = {"critic": self.critic.state_dict(), "optimizer": self._critic_optimizer.state_dict()}
            torch.save(state, Path(output_dir) / CRITIC_FILE)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is None:
            return
        path = Path(checkpoint) / CRITIC_FILE
        if not path.is_file():
            raise DataError(
                f"{path}: no critic in this checkpoint; resume from one of a ValueTrainer without save_only_model"
            )
        state = torch.load(path, map_location="cpu", weights_only=True)  # what is loaded goes to the critic's device
        if state["critic"].keys() != self.critic.state_dict().keys():
            raise DataError(f"{path}: a critic of another kind than critic={self.args.critic!r}; resume with its own")
        self.critic.load_state_dict(state["critic"])
        self._critic_optimizer.load_state_dict(state["optimizer"])


class Critic(torch.nn.Module):
    """Values from hidden states, V = w . h / (|h| sqrt(d)) + b, and the critic's own trunk if it has one.

    The state is brought to unit mean square and the product divided by the width d, so that one learning rate suits
    models of any width and any scale of their states. w and b start at 0.
    """

    def __init__(self, trunk: Any, hidden_size: int) -> None:
        super().__init__()
        self.trunk = trunk
        self.head = torch.nn.Linear(hidden_size, 1)
        torch.nn.init.zeros_(self.head.weight)
        torch.nn.init.zeros_(self.head.bias)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Hidden states of shape [..., d] to values of shape [...], in float32."""
        width = hidden.size(-1)
        scaled = torch.nn.functional.rms_norm(hidden.float(), (width,))
        return torch.nn.functional.linear(scaled / width, self.head.weight, self.head.bias).squeeze(-1)

    def trunk_parameters(self) -> list[torch.nn.Parameter]:
        """Those of the critic's own trunk; none where it reads the policy's."""
        return [] if self.trunk is None else list(self.trunk.parameters())


class _Tokens(NamedTuple):
    """Where the policy wrote, and what it got for it. Shape [B, T] each."""

    rewards_BT: NDArray[np.float64]  # noqa: N815
    mask_BT: NDArray[np.bool_]  # noqa: N815


def _tokens(output: dict[str, Any], rewards_B: NDArray[np.float64]) -> _Tokens:
    """The reward of each rollout at its last token of the policy; no token counts of one without a reward."""
    mask = output["completion_mask"] * output.get("tool_mask", 1)
    mask_BT = (mask.cpu().numpy() > 0) & np.isfinite(rewards_B)[:, np.newaxis]
    last_B = mask_BT.shape[1] - 1 - np.argmax(mask_BT[:, ::-1], axis=1)
    at_last_BT = (np.arange(mask_BT.shape[1]) == last_B[:, np.newaxis]) & mask_BT
    return _Tokens(np.where(at_last_BT, rewards_B[:, np.newaxis], 0.0), mask_BT)


class _Moments(NamedTuple):
    """Number of values, their mean, and their variance over n; NaN where there are none."""

    n: int
    mean: float
    variance: float


def _moments(values: NDArray[np.float64]) -> _Moments:
    if not len(values):
        return _Moments(0, float("nan"), float("nan"))
    return _Moments(len(values), float(values.mean()), float(values.var()))


def _merged(parts: list[_Moments]) -> _Moments:
    """Moments of all values together, from those of each process."""
    known = [part for part in parts if part.n]
    n = sum(part.n for part in known)
    if not n:
        return _moments(np.zeros(0))
    mean = sum(part.n * part.mean for part in known) / n
    return _Moments(n, mean, sum(part.n * (part.variance + (part.mean - mean) ** 2) for part in known) / n)
