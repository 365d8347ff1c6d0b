"""Dynamic rollout selection for TRL: `SelectingConfig` and `SelectingTrainer` train on the groups that a rule keeps.

A group is deselected once its rewards are known. It is dropped, or replaced: further prompts are generated from until
the batch is full. Tested on TRL 1.9.2 and 1.16.0.
"""

import logging
import math
from collections import defaultdict, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from trl import GRPOTrainer

from corpo_rl.core.methods import Method, parse_method
from corpo_rl.core.rounding import FLOAT32_ROUNDING
from corpo_rl.core.selection import RULES, Selection, select_groups
from corpo_rl.errors import UsageError
from corpo_rl.training.memory import gathered, prompt_key
from corpo_rl.training.selection_rows import pack_rows, put_rows
from corpo_rl.training.spare_prompts import SparePrompts
from corpo_rl.training.trl import CorpoConfig, CorpoTrainer, ScoredBatch

logger = logging.getLogger(__name__)

ON_DESELECTED: tuple[str, ...] = ("drop", "resample")
"""What can become of the places of deselected groups."""

COUNT_ROWS = ("grpo", "sapo", "dr_grpo", "luspo")
"""Loss types of TRL that divide by the number of rollouts in a micro-batch, masked or not."""

COUNT_TOKENS = ("dapo", "cispo", "vespo", "bnpo")
"""Those that divide by the tokens that are not masked: the first three by the batch's, bnpo by a micro-batch's."""


@dataclass
class SelectingConfig(CorpoConfig):
    """`CorpoConfig` with a rule for which groups are trained on.

    Raises:
        UsageError: An unknown rule, or a setting of TRL or of the estimator that does not go with it; or as
            `CorpoConfig`.
    """

    group_selection: str = field(
        default="keep_failed",
        metadata={"help": f"Groups to train on: one of {', '.join(RULES)}."},
    )
    """Rule of `corpo_rl.core.selection.select_groups`. The default drops only what CoRPO gives no advantage."""
    on_deselected: str = field(
        default="drop",
        metadata={"help": f"What becomes of the places of the others: one of {', '.join(ON_DESELECTED)}."},
    )
    """"drop" trains on a smaller batch; "resample" generates from further prompts until the batch is full."""
    max_resamples: int = field(
        default=3,
        metadata={"help": "With 'resample', how often further prompts may be generated from for a batch."},
    )
    """Each time for as many groups as are missing. Ours: where half of the groups are deselected, three times leave one
    place in sixteen empty. What is then still empty is dropped."""

    def __post_init__(self) -> None:
        if self.group_selection not in RULES:
            raise UsageError(f"group_selection: expected one of {', '.join(RULES)}, got {self.group_selection!r}")
        if self.on_deselected not in ON_DESELECTED:
            raise UsageError(f"on_deselected: expected one of {', '.join(ON_DESELECTED)}, got {self.on_deselected!r}")
        if self.max_resamples < 1:
            raise UsageError(
                f"max_resamples: expected at least 1, got {self.max_resamples}; on_deselected='drop' never resamples"
            )
        super().__post_init__()
        if self.group_selection != "all":
            _check_trl(self)
            _check_method(parse_method(self.advantage_estimator), self.on_deselected)


def _check_trl(config: SelectingConfig) -> None:
    """Refuse what would let a deselected rollout into the loss, or scale more than the loss."""
    if config.loss_type not in (*COUNT_ROWS, *COUNT_TOKENS):
        raise UsageError(
            f"loss_type: what {config.loss_type!r} divides by is not known here; use one of "
            f"{', '.join((*COUNT_ROWS, *COUNT_TOKENS))}, or group_selection='all'"
        )
    entropy = getattr(config, "entropy_coef", 0.0) or getattr(config, "use_adaptive_entropy", False)
    if entropy and config.loss_type in COUNT_ROWS:
        raise UsageError(
            f"loss_type: {config.loss_type!r} counts rollouts, which selection makes up for by scaling the whole loss, "
            "the entropy bonus too; use loss_type='dapo' or leave the bonus out"
        )
    # gone from later versions of TRL, where use_liger_kernel no longer touches the loss
    if config.use_liger_kernel and hasattr(GRPOTrainer, "compute_liger_loss"):
        raise UsageError("use_liger_kernel: its loss divides by rollouts that are not trained on; leave it out")


def _check_method(method: Method, on_deselected: str) -> None:
    if on_deselected == "resample" and method.scale in ("batch_std", "phase"):
        raise UsageError(
            f"advantage_estimator: {method.name} divides by a figure of the whole batch, but a resampled batch comes "
            "from several; use +fixed=C, or on_deselected='drop'"
        )


class SelectingTrainer(CorpoTrainer):
    """`CorpoTrainer` that trains on the groups `args.group_selection` keeps, and on nothing else.

    A dropped group is in no part of the loss: its advantages are 0 and its tokens masked, as TRL masks truncated
    completions, so that they count for no normaliser, KL or entropy. The loss is then that of a batch which never held
    the group, with N rollouts in the batch and M of them kept:

        dapo, cispo, vespo    divide by the tokens of the M
        bnpo                  divides by those of the M within each micro-batch; one without any counts as a loss of 0
        grpo, sapo, dr_grpo, luspo
                              divide by rollouts, masked or not: the loss is multiplied by N / M, over all processes
                              and micro-batches. For dr_grpo it is the sum over the M, divided by
                              M * max_completion_length and not by N * max_completion_length: each kept rollout weighs
                              N / M times what it would weigh in `CorpoTrainer`.

    With M = 0 the loss is 0; an optimizer with momentum still moves.

    With `on_deselected="resample"` deselected groups are replaced, at most `max_resamples` times for a batch, by
    groups of further prompts; each time as many prompts are generated from as places are empty (rounded up to what the
    processes can share). Places that stay empty are dropped. Further prompts come from the training set in an order of
    their own, seeded by `seed`, without those already in the batch; the place in it lies in every checkpoint
    (`corpo_selection.json`), so that a resumed run goes on as if never stopped. TRL's own order of prompts is not
    touched, so a prompt can be a further one in one batch and come by itself in another. Every generated rollout is
    scored, logged and remembered; only the schedule of `min_correct` waits for the first ones of a batch. Each
    generation is estimated by itself, of which a method with the std of the batch therefore knows the deselected too.

    Evaluation selects nothing.

    Logged beside the figures of `CorpoTrainer`, which are for each generation, for each batch trained on:
        selected_groups, dropped_groups: groups in the loss, and places of the batch without one.
        resampled_groups: those of selected_groups that come from further prompts.
        generated_rollouts: rollouts generated for the batch, those of the first generation included.
        deselected/<class>: groups generated that the rule did not keep, by class.

    The completion log also holds `corpo_kept`: whether a rollout is in the loss; none in evaluation. It has every
    rollout generated for the last batch, so that success rates taken from it are not those of the selected.

    Raises:
        UsageError: `args` is not a `SelectingConfig`, or the data set has no length and "resample" is asked for.
    """

    def __init__(
        self, model: Any, reward_funcs: Any = None, args: SelectingConfig | None = None, *others: Any, **kwargs: Any
    ) -> None:
        if not isinstance(args, SelectingConfig):
            raise UsageError(
                f"args: expected a SelectingConfig, got {type(args).__name__}; it adds group_selection to CorpoConfig"
            )
        self._rule = args.group_selection
        self._resamples = self._rule != "all" and args.on_deselected == "resample"
        self._empty: int | None = None
        self._selection: Selection | None = None
        self._used_G = np.zeros(0, dtype=np.bool_)
        self._spare = SparePrompts(seed=0, n_prompts=1)
        self._said: set[str] = set()
        super().__init__(model, reward_funcs, args, *others, **kwargs)
        if self._rule != "all" and args.loss_type in COUNT_ROWS and getattr(self, "aux_loss_enabled", False):
            raise UsageError(
                f"loss_type: {args.loss_type!r} counts rollouts, which selection makes up for by scaling the whole "
                "loss, the router's too; use loss_type='dapo'"
            )
        if self._resamples:
            if not hasattr(self.train_dataset, "__len__"):
                raise UsageError(
                    "on_deselected: 'resample' picks further prompts by their place, which an iterable data set does "
                    "not have; use 'drop'"
                )
            self._spare = SparePrompts(seed=args.seed, n_prompts=len(self.train_dataset))
            _widen(self._logs, args.generation_batch_size * (1 + args.max_resamples))

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        if not self.model.training or self._rule == "all":
            self._selection = None
            return super()._generate_and_score_completions(inputs)
        if self._resamples:
            _clear(self._logs)  # what is logged is this batch, however often it was generated for
        output = super()._generate_and_score_completions(inputs)
        schedule = self._memory.schedule
        first, kept_G = self._taken()
        tally = _Tally(n_rollouts=len(first.kept_N), dropped=dict(first.dropped or {}))
        group_size = len(first.kept_N) // len(kept_G)
        if self._resamples and not kept_G.all():
            in_batch = set(gathered([prompt_key(row.get("prompt")) for row in inputs]))
            for _ in range(self.args.max_resamples):
                further = self._further_inputs(int((~kept_G).sum()), group_size, in_batch)
                if further is None:
                    self._say("the data set has no prompt left that is not in the batch")
                    break
                output, kept_G = self._refill(output, kept_G, further, tally)
                if kept_G.all():
                    break
        self._empty = None
        self._memory.schedule = schedule
        return self._finish(output, kept_G, tally, group_size=group_size)

    def _estimate(self, batch: ScoredBatch) -> NDArray[np.float64]:
        """Advantages of the rollouts that go into the batch, 0 for the others. Shape [N]."""
        advantages_N = super()._estimate(batch)
        if batch.mode != "train" or self._rule == "all":
            self._selection = None
            return advantages_N
        selection = select_groups(
            batch.rewards_N,
            batch.group_N,
            rule=self._rule,
            min_correct=self._min_correct,
            tolerance=FLOAT32_ROUNDING,
        )
        # group_N runs from 0, so that its groups are numbered as it numbers them
        assert np.array_equal(selection.index_N, batch.group_N), "TRL's groups are consecutive rows"
        used_G = selection.kept_G
        if self._empty is not None:  # no more than there is room for, the first ones
            used_G = used_G & (np.cumsum(used_G) <= self._empty)
        self._selection, self._used_G = selection, used_G
        return np.where(used_G[selection.index_N], advantages_N, 0.0)

    def _threshold(self, mode: str) -> float:
        return super()._threshold(mode) if self._empty is None else self._min_correct  # one for the whole batch

    def _log_rows(self, scored: ScoredBatch, advantages_N: NDArray[np.float64]) -> None:
        super()._log_rows(scored, advantages_N)
        if self._rule == "all":
            return
        kept = [None] * len(advantages_N) if self._selection is None else self._used_G[self._selection.index_N].tolist()
        self._logs["extra"]["corpo_kept"].extend(kept)

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        loss = super()._compute_loss(model, inputs)
        scale = inputs.get("corpo_loss_scale")
        return loss if scale is None or self.loss_type not in COUNT_ROWS else loss * scale

    def _taken(self) -> tuple[Selection, NDArray[np.bool_]]:
        """What `_estimate` selected in the generation that has just ended, and the groups that have a place."""
        assert self._selection is not None, "_estimate runs in every generation"
        return self._selection, self._used_G

    def _further_inputs(self, n_groups: int, group_size: int, in_batch: set[str]) -> list[Any] | None:
        """Rows of this process for groups of further prompts; None where there is none. The same prompts everywhere."""
        world = self.accelerator.num_processes
        together = world // math.gcd(world, group_size)  # groups whose rollouts the processes can share equally
        n_wanted = -(-n_groups // together) * together
        dataset = self.train_dataset
        if self.args.remove_unused_columns:
            dataset = self._remove_unused_columns(dataset, description="training")
        rows: list[Any] = []
        for place in self._spare.once_round():
            row = dataset[place]
            key = prompt_key(row.get("prompt"))
            if key not in in_batch:
                in_batch.add(key)
                rows.append(row)
            if len(rows) == n_wanted:
                break
        rows = rows[: len(rows) // together * together]
        if not rows:
            return None
        repeated = [dict(row) for row in rows for _ in range(group_size)]  # TRL writes into them
        n_local = len(repeated) // world
        start = self.accelerator.process_index * n_local
        inputs: list[Any] = self.data_collator(repeated[start : start + n_local])
        return inputs

    def _refill(
        self, output: dict[str, Any], kept_G: NDArray[np.bool_], further: list[Any], tally: "_Tally"
    ) -> tuple[dict[str, Any], NDArray[np.bool_]]:
        """Generate from further prompts, and put the groups that are kept into the places that are empty."""
        self._empty = int((~kept_G).sum())
        more = super()._generate_and_score_completions(further)
        selection, used_G = self._taken()
        tally.add(selection, n_used=int(used_G.sum()))

        group_size = len(selection.kept_N) // len(used_G)
        n_local = len(output["prompt_ids"])
        filled_G = np.flatnonzero(~kept_G)[: used_G.sum()]
        places = (filled_G[:, None] * group_size + np.arange(group_size)).ravel() - n_local * self._rank
        n_more = len(more["prompt_ids"])
        used_B = used_G[selection.index_N][n_more * self._rank : n_more * (self._rank + 1)]
        packed = gathered(pack_rows(more, np.flatnonzero(used_B)))
        mine = {int(place): row for place, row in zip(places, packed, strict=True) if 0 <= place < n_local}
        kept_G = kept_G.copy()
        kept_G[filled_G] = True
        return put_rows(output, mine, padding=self._padding), kept_G

    def _finish(
        self, output: dict[str, Any], kept_G: NDArray[np.bool_], tally: "_Tally", *, group_size: int
    ) -> dict[str, Any]:
        """Take what is still deselected out of the loss, and log what became of the batch."""
        n_local = len(output["prompt_ids"])
        kept_B = np.repeat(kept_G, group_size)[n_local * self._rank : n_local * (self._rank + 1)]
        mask = output["completion_mask"]
        output["completion_mask"] = mask * torch.as_tensor(kept_B, device=mask.device).to(mask.dtype)[:, None]
        counted = output["completion_mask"] * output.get("tool_mask", 1)
        output["num_items_in_batch"] = self.accelerator.gather(counted.sum()).sum()
        n_kept = int(kept_G.sum())
        scale = len(kept_G) / n_kept if n_kept else 1.0
        output["corpo_loss_scale"] = torch.tensor(scale, dtype=torch.float32, device=mask.device)

        figures = {
            "selected_groups": n_kept,
            "dropped_groups": len(kept_G) - n_kept,
            "resampled_groups": tally.n_resampled,
            "generated_rollouts": tally.n_rollouts,
            **{f"deselected/{name}": count for name, count in tally.dropped.items()},
        }
        for name, value in figures.items():
            self._metrics["train"][f"corpo/{name}"].append(float(value))
        if self._resamples and n_kept < len(kept_G):
            self._say(f"a batch is not full after max_resamples={self.args.max_resamples} further generations")
        if not n_kept:
            self._say("no group of a batch is kept, its loss is 0")
        return output

    def _say(self, what: str) -> None:
        """Say it once; how often it comes is logged as corpo/dropped_groups."""
        if what not in self._said and self.accelerator.is_main_process:
            step = self.state.global_step
            logger.warning("group_selection=%s: %s (step %d); see corpo/dropped_groups", self._rule, what, step)
        self._said.add(what)

    @property
    def _rank(self) -> int:
        return int(self.accelerator.process_index)

    @property
    def _padding(self) -> int:
        tokenizer: Any = getattr(self.processing_class, "tokenizer", self.processing_class)
        return int(tokenizer.pad_token_id)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        super()._save_optimizer_and_scheduler(output_dir)
        if self.args.should_save and self._resamples:
            self._spare.save(Path(output_dir))

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None and self._resamples:
            self._spare.load(Path(checkpoint))


@dataclass
class _Tally:
    """What was generated for one batch."""

    n_rollouts: int
    dropped: dict[str, int]
    n_resampled: int = 0

    def add(self, selection: Selection, *, n_used: int) -> None:
        self.n_rollouts += len(selection.kept_N)
        self.n_resampled += n_used
        for name, count in (selection.dropped or {}).items():
            self.dropped[name] = self.dropped.get(name, 0) + count


def _widen(logs: dict[str, Any], n_rows: int) -> None:
    """Give TRL's buffers of the completion log room for more rows."""
    for name, column in logs.items():
        plain = isinstance(column, deque)
        logs[name] = deque(maxlen=n_rows) if plain else defaultdict(lambda: deque(maxlen=n_rows))


def _clear(logs: dict[str, Any]) -> None:
    for column in logs.values():
        column.clear()
