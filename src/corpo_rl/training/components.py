"""Several reward functions in TRL, one of which means correctness: `ComponentsConfig` and `ComponentsTrainer`.

    args = ComponentsConfig(correctness="solved", min_correct=0.5, reward_weights=[1.0, 0.2, 0.1], ...)
    ComponentsTrainer(model, reward_funcs=[solved, well_formed, short], args=args, ...).train()

The reward functions are the components, `reward_weights` their weights. The rule, and what it promises, is
`corpo_rl.core.components.component_advantages`.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpo_rl.core.components import component_advantages, missing_components, plain_lifts
from corpo_rl.core.groups import index_groups
from corpo_rl.core.rounding import FLOAT32_ROUNDING, as_decimals
from corpo_rl.errors import UsageError
from corpo_rl.training.trl import CorpoConfig, CorpoTrainer, ScoredBatch

PLAIN = ("grpo", "dr_grpo", "rloo")
"""Estimators that `ComponentsConfig` takes beside "corpo", to compare: they see the plain weighted sum."""


@dataclass
class ComponentsConfig(CorpoConfig):
    """`CorpoConfig` for several reward functions, one of which means correctness.

    `min_correct` is in units of that function, before its weight. `advantage_estimator` is "corpo", the floor on
    correctness with the other functions free, or one of `PLAIN`: that estimator on the plain weighted sum, judged by
    the same correctness.

    Raises:
        UsageError: No `correctness`, no `min_correct`, another estimator, or as `CorpoConfig`.
    """

    correctness: str | None = field(
        default=None,
        metadata={"help": "Name of the reward function that means correctness. Always given."},
    )
    """A rollout is correct when the reward of this function is at least `min_correct`, whatever the others say."""

    def __post_init__(self) -> None:
        if not self.correctness:
            raise UsageError(
                "correctness: expected the name of the reward function that means correctness, got none; pass "
                "ComponentsConfig(correctness=...)"
            )
        if self.min_correct is None:
            raise UsageError(
                f"min_correct: expected the least reward of {self.correctness} that counts as correct, got none; pass "
                "ComponentsConfig(min_correct=...), in units of that function"
            )
        if self.advantage_estimator != "corpo" and self.advantage_estimator not in PLAIN:
            raise UsageError(
                f"advantage_estimator: expected corpo, or to compare one of {', '.join(PLAIN)} on the plain weighted "
                f"sum, got {self.advantage_estimator!r}"
            )
        super().__post_init__()


class ComponentsTrainer(CorpoTrainer):
    """`CorpoTrainer` under which no reward function but that of correctness can lift a failed rollout.

    All that `CorpoTrainer` logs under `corpo/` is about correctness, in its units; `reinforced_failure_share_grpo` is
    what GRPO would do with the plain weighted sum. Logged besides, for each generated batch:
        components/plain_lifted: failures whose plain weighted sum is over their group's mean.
        components/plain_lifted_by/<function>: those that would not be without this function.
        components/missing/<function>: rollouts for which it returned None, unscorable ones left out.

    A rollout whose correctness is None is unscorable. None of another function says nothing: the rollout is neither
    better nor worse for it. (The plain weighted sum adds 0 for it, as TRL does.)

    The completion log also holds `corpo_correct`, 1.0 or 0.0, for `corpo-rl audit --correct-column corpo_correct`.

    Raises:
        UsageError: `args` is not a `ComponentsConfig`, no reward function or more than one has the name of
            `correctness`, or its weight is not above 0.
    """

    def __init__(
        self, model: Any, reward_funcs: Any = None, args: ComponentsConfig | None = None, *others: Any, **kwargs: Any
    ) -> None:
        if not isinstance(args, ComponentsConfig):
            raise UsageError(
                f"args: expected a ComponentsConfig, got {type(args).__name__}; it says which reward function means "
                "correctness"
            )
        super().__init__(model, reward_funcs, args, *others, **kwargs)
        names, weights_F = list(self.reward_func_names), as_decimals(self.reward_weights.cpu().double().numpy())
        if names.count(args.correctness) != 1 or len(set(names)) < len(names):
            raise UsageError(
                f"correctness: expected one of the reward functions, each with a name of its own, got "
                f"{args.correctness!r} with functions {', '.join(names)}"
            )
        self._names, self._weights_F = names, weights_F
        self._correctness_at = names.index(str(args.correctness))
        if not weights_F[self._correctness_at] > 0:
            raise UsageError(
                f"reward_weights: expected a weight above 0 for {args.correctness}, which means correctness, got "
                f"{weights_F[self._correctness_at]:g}"
            )

    def _estimate(self, batch: ScoredBatch) -> NDArray[np.float64]:
        if self._estimator in PLAIN:
            return super()._estimate(batch)
        rewards_NF = _rewards(batch)
        advantages_N = component_advantages(
            rewards_NF,
            batch.group_N,
            weights=self._weights_F,
            correctness=self._correctness_at,
            min_correct=self._min_correct,
            unscorable="exclude",
        )
        # A correct rollout at its baseline gets no sign from the rounding of rewards such as 1/12. A failure keeps
        # its own: it is under the threshold by as much as float32 can tell.
        groups = index_groups(batch.group_N, n=len(batch.group_N))
        largest_G = np.zeros(len(groups.size_G))
        np.maximum.at(largest_G, groups.index_N, np.abs(np.nan_to_num(rewards_NF * self._weights_F)).max(axis=1))
        at_baseline_N = np.abs(advantages_N) <= FLOAT32_ROUNDING * groups.per_rollout(largest_G)
        failed_N = self._correctness(batch) < self._min_correct
        return np.where(at_baseline_N & ~failed_N, 0.0, advantages_N)

    def _correctness(self, batch: ScoredBatch) -> NDArray[np.float64]:
        return _rewards(batch)[:, self._correctness_at]

    def _log_dynamics(self, batch: ScoredBatch, advantages_N: NDArray[np.float64]) -> None:
        super()._log_dynamics(batch, advantages_N)
        rewards_NF = _rewards(batch)
        lifts = plain_lifts(
            rewards_NF,
            batch.group_N,
            weights=self._weights_F,
            correctness=self._correctness_at,
            min_correct=self._min_correct,
            unscorable="exclude",
            rounding=FLOAT32_ROUNDING,
        )
        missing = missing_components(rewards_NF, correctness=self._correctness_at)
        metrics = self._metrics[batch.mode]
        metrics["corpo/components/plain_lifted"].append(float(lifts.n_lifted))
        for place, name in enumerate(self._names):
            metrics[f"corpo/components/plain_lifted_by/{name}"].append(float(lifts.n_lifted_by_C[place]))
            metrics[f"corpo/components/missing/{name}"].append(float(missing.n_missing_C[place]))

    def _log_rows(self, scored: ScoredBatch, advantages_N: NDArray[np.float64]) -> None:
        super()._log_rows(scored, advantages_N)
        correctness_N = self._correctness(scored)
        correct_N = np.where(np.isnan(correctness_N), np.nan, correctness_N >= self._min_correct)
        self._logs["extra"]["corpo_correct"].extend(correct_N.tolist())


def _rewards(batch: ScoredBatch) -> NDArray[np.float64]:
    """Reward of each function, read like every reward that went through float32. Shape [N, F]."""
    return as_decimals(batch.rewards_NF.double().numpy())
