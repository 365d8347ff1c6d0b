"""Watch a plain TRL run: the figures of `CorpoTrainer` during training, without a change to the training.

    watch(GRPOTrainer(...), min_correct=0.5).train()

TRL's trainer keeps the rewards and advantages of the batch it generated last, for its completion log. After every
micro-batch the callback looks whether there is a new one and adds its figures to the metrics that TRL averages and
reports to whatever tracker is set up. Tested on TRL 1.9.2 and 1.16.0.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from transformers import TrainerCallback

from corpo_rl.core.rounding import threshold_as_read
from corpo_rl.errors import UsageError
from corpo_rl.training.figures import batch_figures, logged_advantages, total_rewards

_Trainer = TypeVar("_Trainer")

_OF_EACH_BATCH = "frac_reward_zero_std"
"""A metric to which TRL adds one value for each generated batch, and reward functions hardly would."""


def watch(trainer: _Trainer, *, min_correct: float) -> _Trainer:
    """Make a TRL `GRPOTrainer` log under `audit/` what its advantages do to failed rollouts.

    Logged for each batch generated in training: all figures that `CorpoTrainer` logs under `corpo/`, r_loss apart,
    which needs the log-probabilities of the loss. They are about the advantages that TRL logs, and the total reward is
    the weighted sum over the reward functions. Evaluation is left out: TRL keeps the last rows of it only.

    With several processes each has the rewards and advantages of all of them, so nothing is sent between processes.

    Args:
        trainer: A `GRPOTrainer`, `RLOOTrainer` or subclass that is yet to train.
        min_correct: Least total reward that counts as correct, in task units.

    Returns:
        The trainer.

    Raises:
        UsageError: `min_correct` is not a finite number, two reward functions share a name, so that TRL keeps one of
            them only, or the trainer keeps its rewards in a way that is not known here.
    """
    callback = AuditCallback(trainer, min_correct=min_correct)
    trainer.add_callback(callback)  # type: ignore[attr-defined]
    return trainer


class AuditCallback(TrainerCallback):
    """What `watch` adds to the trainer.

    Raises:
        UsageError: See `watch`.
    """

    def __init__(self, trainer: Any, *, min_correct: float) -> None:
        if not np.isfinite(min_correct):
            raise UsageError(
                f"min_correct: expected the least total reward that counts as correct, got {min_correct}; pass "
                "watch(trainer, min_correct=...)"
            )
        _check(trainer)
        self._trainer = trainer
        self._min_correct = threshold_as_read(min_correct)
        self._has_seen_a_batch = False

    def on_substep_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Look for a new batch: with more accumulation than steps per generation, one step generates several."""
        self._look()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Look for a new batch, before TRL logs, evaluates and forgets."""
        self._look()

    def _look(self) -> None:
        metrics = self._trainer._metrics["train"]
        n_generated, n_seen = len(metrics.get(_OF_EACH_BATCH, ())), len(metrics.get("audit/unscorable", ()))
        # Both lists are emptied at each log: a batch that is trained on again adds to neither.
        if n_generated == n_seen and self._has_seen_a_batch:
            return
        if n_generated != n_seen + 1:
            raise _unknown(self._trainer, f"{n_generated} values of {_OF_EACH_BATCH} after {n_seen} generated batches")
        self._has_seen_a_batch = True
        for name, value in self._figures().items():
            metrics[f"audit/{name}"].append(value)

    def _figures(self) -> dict[str, float]:
        trainer, logs = self._trainer, self._trainer._logs
        columns = [*(logs["rewards"][name] for name in trainer.reward_func_names), logs["advantages"]]
        n = trainer.args.generation_batch_size
        if any(len(column) != n for column in columns):
            found = ", ".join(str(len(column)) for column in columns)
            raise _unknown(trainer, f"logs of {found} rows where a generated batch has {n}")

        rewards_N = total_rewards(np.array(columns[:-1], dtype=np.float64).T, trainer.reward_weights.cpu())
        group_N = np.arange(n) // trainer.num_generations
        advantages_N = logged_advantages(np.array(columns[-1], dtype=np.float64), rewards_N, group_N)
        return batch_figures(rewards_N, group_N, advantages_N, min_correct=self._min_correct)


def _check(trainer: Any) -> None:
    """Whether the trainer has all that is read later, in the form in which it is read."""
    metrics, logs = getattr(trainer, "_metrics", None), getattr(trainer, "_logs", None)
    if not isinstance(metrics, Mapping) or not isinstance(metrics.get("train"), dict):
        raise _unknown(trainer, "no _metrics['train']")
    if not isinstance(logs, Mapping) or not {"rewards", "advantages"} <= set(logs):
        raise _unknown(trainer, "no _logs of rewards and advantages")
    for owner, name in (
        (trainer, "add_callback"),
        (trainer, "reward_func_names"),
        (trainer, "reward_weights"),
        (trainer, "num_generations"),
        (getattr(trainer, "args", None), "generation_batch_size"),
    ):
        if not hasattr(owner, name):
            raise _unknown(trainer, f"no {name}")
    names = trainer.reward_func_names
    if len(set(names)) < len(names):
        raise UsageError(
            f"reward functions: expected a name of its own for each, got {', '.join(names)}: TRL keeps the rewards of "
            "one of them only; set __name__"
        )


def _unknown(trainer: Any, found: str) -> UsageError:
    return UsageError(
        f"trainer: expected a GRPOTrainer of TRL as corpo-rl knows it (1.9.2 to 1.16.0), got a "
        f"{type(trainer).__name__} with {found}; without watch() it trains as before"
    )
