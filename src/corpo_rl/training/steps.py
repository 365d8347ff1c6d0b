"""Step rewards for TRL: `StepConfig` and `StepTrainer`, a floor under every step of a rollout.

    def judge(completions, texts, answer, **_):
        return [[(0, 12, 1.0), (12, 30, 0.25)], ...]  # for each completion its steps: start, end, reward

    args = StepConfig(min_correct=0.5, step_min_correct=[0.5], ...)
    StepTrainer(model, reward_funcs=outcome, step_reward_func=judge, args=args, ...).train()

The rule, and what it promises, is `corpo_rl.core.steps.step_corpo_advantages`. Tested on TRL 1.9.2 and 1.16.0, both of
which take one advantage for each token.
"""

import json
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from trl import GRPOTrainer

from corpo_rl.core.dynamics import reinforced_failure_share
from corpo_rl.core.floorwatch import FloorWatch
from corpo_rl.core.groups import index_groups
from corpo_rl.core.rounding import under
from corpo_rl.core.steps import (
    NO_STEP,
    outcome_step_advantages,
    rewards_to_go,
    spread_over_tokens,
    step_corpo_advantages,
    step_margins,
    step_numbers,
)
from corpo_rl.errors import DataError, FloorWarning, UsageError
from corpo_rl.training.memory import gathered
from corpo_rl.training.step_spans import (
    UNITS,
    Steps,
    steps_of_characters,
    steps_of_tokens,
    steps_of_turns,
    token_text,
    turns,
)
from corpo_rl.training.trl import CorpoConfig, CorpoTrainer, ScoredBatch

FORMS: tuple[str, ...] = ("both", "steps", "outcome")
"""What a step is credited with: its own reward and the outcome, its own reward alone, or the outcome alone."""

StepRewardFunction = Callable[..., Sequence[Any]]
"""From a batch of completions to the steps of each."""


@dataclass
class StepConfig(CorpoConfig):
    """`CorpoConfig` for rollouts whose steps are rewarded. `advantage_estimator` and `min_correct` are the outcome's.

    Raises:
        UsageError: No `step_min_correct`, a setting out of range, or one of TRL's that wants one advantage for each
            rollout; or as `CorpoConfig`.
    """

    step_min_correct: list[float] | None = field(
        default=None,
        metadata={"help": "Least reward with which a step counts as correct: one, or one for each step number."},
    )
    """In units of the step rewards; with several, at least as many as a rollout can have steps. Always given."""
    step_form: str = field(
        default="both",
        metadata={"help": f"What a step is credited with: one of {', '.join(FORMS)}."},
    )
    """"both": its own reward over its floor, and the rollout's advantage, of which a failed step gets the negative part
    only. "steps": its own reward alone. "outcome": the rollout's advantage on every token, exactly as `CorpoTrainer`;
    the steps are then logged and not trained on."""
    outcome_weight: float = field(
        default=1.0,
        metadata={"help": "What the rollout's advantage is multiplied by beside that of a step, in the form 'both'."},
    )
    """0 or more. Ours: 1, for step and outcome rewards of one scale."""
    step_discount: float = field(
        default=0.0,
        metadata={"help": "How much of the rewards of later steps an earlier one is credited with, 0 to 1."},
    )
    """0 credits a step with its own reward alone; otherwise it is `rewards_to_go` that has the floor and the
    baseline, and `step_min_correct` is in its units."""
    step_unit: str = field(
        default="characters",
        metadata={"help": f"What the ranges of steps count: one of {', '.join(UNITS)}."},
    )
    """"characters" of the text, "tokens" of the completion, or "turns", which have no ranges: a reward for each."""

    def __post_init__(self) -> None:
        if isinstance(self.step_min_correct, int | float):
            self.step_min_correct = [self.step_min_correct]
        _check(self)
        super().__post_init__()
        _check_trl(self)


def _check(config: StepConfig) -> None:
    thresholds = config.step_min_correct
    if not thresholds or not all(math.isfinite(threshold) for threshold in thresholds):
        raise UsageError(
            f"step_min_correct: expected the least reward with which a step counts as correct, got {thresholds}; pass "
            "StepConfig(step_min_correct=[...]), in units of your step rewards"
        )
    for name, known in (("step_form", FORMS), ("step_unit", UNITS)):
        if getattr(config, name) not in known:
            raise UsageError(f"{name}: expected one of {', '.join(known)}, got {getattr(config, name)!r}")
    if not 0.0 <= config.outcome_weight < math.inf:
        raise UsageError(f"outcome_weight: expected 0 or more, got {config.outcome_weight}")
    if not 0.0 <= config.step_discount <= 1.0:
        raise UsageError(f"step_discount: expected 0 to 1, got {config.step_discount}")


def _check_trl(config: StepConfig) -> None:
    """Refuse what TRL cannot do with one advantage for each token."""
    by_rollout = {
        "loss_type": config.loss_type in ("luspo", "vespo"),
        "off_policy_mask_threshold": config.off_policy_mask_threshold is not None,
        # gone from later versions of TRL, where use_liger_kernel no longer touches the loss
        "use_liger_kernel": config.use_liger_kernel and hasattr(GRPOTrainer, "compute_liger_loss"),
    }
    for name, refused in by_rollout.items():
        if refused and config.step_form != "outcome":
            raise UsageError(
                f"{name}: {getattr(config, name)!r} wants one advantage for each rollout, step_form="
                f"{config.step_form!r} gives one for each token; leave {name} out"
            )


class StepTrainer(CorpoTrainer):
    """`CorpoTrainer` under which the steps of a rollout have advantages of their own.

    `step_reward_func` is called for each batch of this process with `prompts`, `completions`, `completion_ids`, `texts`
    and the columns of the data set by keyword, as reward functions are (but without `log_extra` and `log_metric`). It
    returns for each completion the list of its steps in order, each `(start, end, reward)`: a half-open range of
    characters of its text, or with `step_unit="tokens"` of its tokens. `texts` are the completions as plain text, of a
    conversation too: its turns, and what tools wrote, one after the other. A reward of None is one that nobody could
    give: the step is left out of its baseline and has no advantage but the outcome's. None for a whole completion is
    no steps.

    With `step_unit="turns"` a step is a turn of the policy, between what tools or an environment wrote. The function
    gets the text of each as `turns`, and returns a reward for each.

    A token belongs to the step that holds its first character; a special token, such as the end of the sequence, closes
    the step before it (`corpo_rl.training.step_spans`). A token of no step gets the weighted outcome in the form
    "both", and 0 in the form "steps". What the policy did not write gets 0.

    Logged beside the figures of `CorpoTrainer`, for each generated batch, over all processes:
        steps/reinforced_failure_share: failed steps with advantage > 0, over all failed ones. 0 but for "outcome".
        steps/reinforced_failure_share_outcome: the same had every step its rollout's advantage.
        steps/correct_share, steps/correct_share/<number>: scorable steps that are correct; those of each number from 0.
        steps/per_rollout: steps of a rollout, on average; steps/without: rollouts that have none.
        steps/unscorable: steps without a reward.
        steps/token_share: tokens trained on that belong to a step.
    Where the steps have a `step_discount`, they are correct or failed by their reward to go.

    Where a figure or the completion log wants one advantage for a rollout (reinforced_failure_share, r_count, ...), it
    is the mean over its tokens. A failed rollout may well be above 0 there: it had correct steps.

    The completion log also holds `corpo_step_rewards` and `corpo_step_advantages`, a JSON list for each rollout.

    Raises:
        UsageError: `args` is not a `StepConfig`, or there is no `step_reward_func`.
        DataError: The function did not return what it should.
    """

    def __init__(
        self,
        model: Any,
        reward_funcs: Any = None,
        args: StepConfig | None = None,
        *others: Any,
        step_reward_func: StepRewardFunction | None = None,
        **kwargs: Any,
    ) -> None:
        if not isinstance(args, StepConfig):
            raise UsageError(
                f"args: expected a StepConfig, got {type(args).__name__}; it adds step_min_correct to CorpoConfig"
            )
        if not callable(step_reward_func):
            raise UsageError(
                f"step_reward_func: expected a function that rewards steps, got {type(step_reward_func).__name__}"
            )
        assert args.step_min_correct is not None, "StepConfig has checked it"
        self._step_reward_func = step_reward_func
        self._step_watches = [FloorWatch(one, window=args.floor_check_steps) for one in args.step_min_correct]
        self._generated: _Generated | None = None
        self._outcome_N: NDArray[np.float64] = np.zeros(0)
        self._step_columns: dict[str, list[str]] = {}
        super().__init__(model, reward_funcs, args, *others, **kwargs)

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any) -> torch.Tensor:
        self._generated = _Generated(inputs, prompts, completions, completion_ids_list)
        return super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)

    def _estimate(self, batch: ScoredBatch) -> NDArray[np.float64]:
        self._outcome_N = super()._estimate(batch)
        return self._outcome_N

    def _token_advantages(
        self, output: dict[str, Any], advantages_B: torch.Tensor, batch: ScoredBatch, local: slice
    ) -> torch.Tensor:
        args, generated = self.args, self._generated
        assert generated is not None, "TRL has scored the batch"
        self._generated = None
        mask_BT = ((output["completion_mask"] * output.get("tool_mask", 1)) > 0).cpu().numpy()
        steps_B = self._steps(generated, output)
        table = _Table.of(gathered([steps.rewards for steps in steps_B]), discount=args.step_discount)

        outcome_M = outcome_step_advantages(self._outcome_N, table.rollout_M)
        advantages_M = outcome_M
        if args.step_form != "outcome":
            advantages_M = step_corpo_advantages(
                table.rewards_M,
                table.rollout_M,
                batch.group_N,
                min_correct=self._thresholds(table),
                outcome_advantages=self._outcome_N if args.step_form == "both" else None,
                outcome_weight=args.outcome_weight,
                unscorable="exclude",
            )
        first_step = sum(table.count_N[: local.start])
        step_BT = np.full(mask_BT.shape, NO_STEP)
        for row, steps in enumerate(steps_B):
            of_token_T = np.array(steps.step_of_token, dtype=np.int64)
            step_BT[row, : len(of_token_T)] = np.where(of_token_T == NO_STEP, NO_STEP, of_token_T + first_step)
            first_step += len(steps.rewards)
        self._log_steps(table, advantages_M, outcome_M, batch)
        self._log_share_of_tokens(step_BT[mask_BT] != NO_STEP, batch.mode)
        if args.step_form == "outcome":
            return advantages_B

        outside_B = self._outcome_N[local] * (args.outcome_weight if args.step_form == "both" else 0.0)
        advantages_BT = np.where(mask_BT, spread_over_tokens(advantages_M, step_BT, outside=outside_B), 0.0)
        return torch.as_tensor(advantages_BT).to(advantages_B)

    def _steps(self, generated: "_Generated", output: dict[str, Any]) -> list[Steps]:
        """Steps of each completion of this process."""
        tokenizer = getattr(self.processing_class, "tokenizer", self.processing_class)
        ids_B = [[int(token) for token in ids] for ids in generated.completion_ids]
        texts_B = [token_text(ids, tokenizer) for ids in ids_B]
        keys = [key for key in generated.inputs[0] if key not in ("prompt", "completion", "completion_ids")]
        given = {key: [row[key] for row in generated.inputs] for key in keys}
        given |= {
            "prompts": generated.prompts,
            "completions": generated.completions,
            "completion_ids": ids_B,
            "texts": [found.text for found in texts_B],
            "trainer_state": self.state,
        }
        if getattr(self, "environments", None) is not None:
            given["environments"] = self.environments
        unit = self.args.step_unit
        own_B = [[1] * len(ids) for ids in ids_B]
        if output.get("tool_mask") is not None:
            own_B = [mask[: len(ids)] for mask, ids in zip(output["tool_mask"].tolist(), ids_B, strict=True)]
        if unit == "turns":
            given["turns"] = [
                [token_text(ids[start:end], tokenizer).text for start, end in turns(own)]
                for ids, own in zip(ids_B, own_B, strict=True)
            ]
        returned = list(self._step_reward_func(**given))
        if len(returned) != len(ids_B):
            raise DataError(
                f"step_reward_func: expected steps for each of {len(ids_B)} completions, got {len(returned)}"
            )

        found = []
        for row, steps in enumerate(returned):
            where = f"step_reward_func, completion {row}"
            if steps is None:
                found.append(Steps([NO_STEP] * len(ids_B[row]), []))
            elif unit == "turns":
                found.append(steps_of_turns(own_B[row], steps, where=where))
            elif unit == "tokens":
                found.append(steps_of_tokens(len(ids_B[row]), steps, where=where))
            else:
                found.append(steps_of_characters(texts_B[row], steps, where=where))
        return found

    def _thresholds(self, table: "_Table") -> float | list[float]:
        """One for all step numbers, or one for each."""
        thresholds: list[float] = self.args.step_min_correct
        if len(thresholds) == 1:
            return thresholds[0]
        if max(table.count_N, default=0) > len(thresholds):
            raise DataError(
                f"step_min_correct: a rollout has {max(table.count_N)} steps, got thresholds for {len(thresholds)}; "
                "give one for all, or as many as a rollout can have steps"
            )
        return thresholds

    def _log_steps(
        self, table: "_Table", advantages_M: NDArray[np.float64], outcome_M: NDArray[np.float64], batch: ScoredBatch
    ) -> None:
        margin_M = step_margins(table.rewards_M, table.rollout_M, min_correct=self._thresholds(table))
        number_M = step_numbers(table.rollout_M)
        metrics = self._metrics[batch.mode]
        figures = {
            "reinforced_failure_share": reinforced_failure_share(margin_M, advantages_M, min_correct=0.0),
            "reinforced_failure_share_outcome": reinforced_failure_share(margin_M, outcome_M, min_correct=0.0),
            "correct_share": _correct_share(margin_M),
            "per_rollout": float(np.mean(table.count_N)),
            "without": float(sum(count == 0 for count in table.count_N)),
            "unscorable": float(np.isnan(margin_M).sum()),
        }
        for number in range(max(table.count_N, default=0)):
            figures[f"correct_share/{number}"] = _correct_share(margin_M[number_M == number])
        for name, value in figures.items():
            metrics[f"corpo/steps/{name}"].append(value)
        if batch.mode == "train" and self.args.step_form != "outcome":
            self._watch_steps(margin_M, number_M, batch.group_N[table.rollout_M])
        self._step_columns = {
            "corpo_step_rewards": table.as_json(table.given_M),
            "corpo_step_advantages": table.as_json(advantages_M),
        }

    def _watch_steps(
        self, margin_M: NDArray[np.float64], number_M: NDArray[np.intp], group_M: NDArray[np.int64]
    ) -> None:
        cells = index_groups(group_M * (number_M.max(initial=0) + 1) + number_M, n=len(margin_M))
        floored_M = cells.per_rollout(under(cells.mean(margin_M), 0.0))
        for number, watch in enumerate(self._step_watches):
            of_watch_M = np.isfinite(margin_M) & ((number_M == number) | (len(self._step_watches) == 1))
            if not of_watch_M.any():  # no such step, or none that could be scored: that says nothing about the floor
                continue
            message = watch.see(
                floored=bool(floored_M[of_watch_M].any()), exceeded=bool((margin_M[of_watch_M] > 0).any())
            )
            if message and self.accelerator.is_main_process:
                name = "steps" if len(self._step_watches) == 1 else f"step {number}"
                warnings.warn(f"{name}: {message}", FloorWarning, stacklevel=2)

    def _log_share_of_tokens(self, in_step: NDArray[np.bool_], mode: str) -> None:
        counts = gathered([(int(in_step.sum()), len(in_step))])
        n_in, n = (sum(count) for count in zip(*counts, strict=True))
        self._metrics[mode]["corpo/steps/token_share"].append(n_in / n if n else float("nan"))

    def _log_rows(self, scored: ScoredBatch, advantages_N: NDArray[np.float64]) -> None:
        super()._log_rows(scored, advantages_N)
        for name, column in self._step_columns.items():
            self._logs["extra"][name].extend(column)


class _Generated(NamedTuple):
    """A batch of this process, as TRL hands it to reward functions."""

    inputs: Any
    prompts: Any
    completions: Any
    completion_ids: Any


class _Table(NamedTuple):
    """Steps of all processes, row by row."""

    given_M: NDArray[np.float64]  # noqa: N815
    """Rewards as the function gave them, NaN where it gave none. Shape [M]."""
    rewards_M: NDArray[np.float64]  # noqa: N815
    """What the steps are credited with. Shape [M]."""
    rollout_M: NDArray[np.intp]  # noqa: N815
    """Shape [M]."""
    count_N: list[int]  # noqa: N815
    """Steps of each rollout. Shape [N]."""

    @classmethod
    def of(cls, rewards: list[list[float]], *, discount: float) -> "_Table":
        count_N = [len(row) for row in rewards]
        given_M = np.array([reward for row in rewards for reward in row], dtype=np.float64)
        rollout_M = np.repeat(np.arange(len(rewards)), count_N)
        return cls(given_M, rewards_to_go(given_M, rollout_M, discount=discount), rollout_M, count_N)

    def as_json(self, values_M: NDArray[np.float64]) -> list[str]:
        """A JSON list for each rollout, null for NaN. Shape [N]."""
        rows = np.split(values_M, np.cumsum(self.count_N)[:-1])
        return [json.dumps([None if np.isnan(value) else value for value in row.tolist()]) for row in rows]


def _correct_share(margin_M: NDArray[np.float64]) -> float:
    known_M = margin_M[np.isfinite(margin_M)]
    return float((known_M >= 0).mean()) if len(known_M) else float("nan")
