"""CoRPO and its kin for verl, as advantage estimators in verl's own registry.

verl loads this module in every process, driver and Ray workers, through the entry point `verl.plugins` (0.9.0 and
newer) or `VERL_USE_EXTERNAL_MODULES=corpo_rl.training.verl` (before). Then the switch is two settings:

    algorithm.adv_estimator=corpo +algorithm.corpo_min_correct=0.2

`corpo_steps` is the estimator for rewards of steps, see `corpo_rl.training.verl_steps`.

Tested on verl 0.9.1. Importing this module registers; nothing else in the package imports it.
"""

import functools
import importlib
import inspect
import json
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from verl.trainer.ppo import core_algos

from corpo_rl.core.advantages import FLOORED_ESTIMATORS
from corpo_rl.core.floorwatch import FloorWatch
from corpo_rl.core.rounding import as_decimals
from corpo_rl.errors import CorpoError, DataError, FloorWarning, UsageError
from corpo_rl.training.after_import import after_import
from corpo_rl.training.figures import batch_advantages, batch_figures
from corpo_rl.training.verl_settings import DYNAMICS_KEY, VERL_NAMES, check_config, warnings_about
from corpo_rl.training.verl_step_batch import estimate_steps
from corpo_rl.training.verl_step_carrier import (
    hand_on_steps,
    packed_at_hand,
    refuse_several_outputs,
    steps_at_hand,
    stored_steps,
)
from corpo_rl.training.verl_step_settings import STEP_NAME, check_step_config, check_step_run, step_warnings_about

FLOOR_CHECK_STEPS = 20
"""Batches in a row over which the floor is called inert or saturated, as `CorpoConfig` has it for TRL."""

_TRAINER = "verl.trainer.ppo.v1.trainer_base"
_SESSIONS = "verl.trainer.ppo.v1.utils"
_BY_SESSION = "compute_advantage_for_multi_trajectories"
_ADVANTAGES = "verl.trainer.ppo.ray_trainer"
_REWARD_MANAGERS = "verl.experimental.reward_loop.reward_manager"

_warned: set[str] = set()
_floor_watches: dict[tuple[str, float], FloorWatch] = {}
_latest_figures: dict[str, float] = {}
"""Of the batch whose advantages were estimated last in this process: verl hands an estimator no metrics to fill."""


def advantages_for_verl(
    estimator: str,
    token_level_rewards: torch.Tensor,
    response_mask: torch.Tensor,
    index: NDArray[Any] | None,
    config: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Advantages as verl wants them from an outcome estimator.

    The reward of a rollout is the sum of its token rewards, masked or not, as for verl's own estimators. One that is
    NaN is unscorable: it is left out of its group's baseline and gets advantage 0 (verl's own make its whole group
    NaN). A rollout whose tokens are all masked counts in its group, as it does for verl's own, and gets no advantage. A
    group of one has no peers; its baseline is the larger of its own reward and the floor.

    Args:
        estimator: Name of the estimator, as in `corpo_rl.estimate_advantages`.
        token_level_rewards: Shape [N, T], in task units, float32 or float64.
        response_mask: 1 for tokens of the response, 0 for padding. Shape [N, T].
        index: Prompt of each rollout, verl's `uid`. Shape [N].
        config: verl's `algorithm` settings, with `corpo_min_correct`.

    Returns:
        Advantages and returns, the same tensor: each rollout's advantage at the tokens of its response. Shape [N, T],
        of the rewards' type and on their device.

    Raises:
        UsageError: A setting is missing or undoes the estimator, or verl passed no prompts.
        DataError: A reward is infinite, or rewards are of a type that rounds them.
        CorpoError: This verl would count a session of several outputs more than once.
    """
    _check_sessions_are_counted_once()
    trained_N = response_mask.bool().any(dim=-1).cpu().numpy()
    advantages_N = _estimate(estimator, token_level_rewards, index, config, trained_N=trained_N)
    advantages_NT = advantages_N.unsqueeze(-1) * response_mask.to(advantages_N)
    return advantages_NT, advantages_NT


def step_advantages_for_verl(
    token_level_rewards: torch.Tensor,
    response_mask: torch.Tensor,
    index: NDArray[Any] | None = None,
    config: Any = None,
    **_: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Advantages of tokens from the rewards of steps, and of the whole.

    The reward of the whole is read as `advantages_for_verl` reads it, and its advantage is that of corpo. The rule for
    steps is `corpo_rl.core.steps.step_corpo_advantages`.

    Args:
        token_level_rewards: As for `advantages_for_verl`. Shape [N, T].
        response_mask: Likewise. Shape [N, T].
        index: Likewise. Shape [N].
        config: verl's `algorithm` settings, as `check_step_config` reads them.

    Returns:
        Advantages and returns, the same tensor. Shape [N, T].

    Raises:
        UsageError, CorpoError: As `advantages_for_verl`; and for settings of steps.
        DataError: Likewise; and for a rollout whose steps are missing or wrong.
    """
    _check_sessions_are_counted_once()
    settings = check_step_config(config)
    rewards_N, group_N = _rewards_and_groups(STEP_NAME, token_level_rewards, index)
    outcome_N = batch_advantages("corpo", rewards_N, group_N, min_correct=settings.min_correct)
    mask_NT = response_mask.bool().cpu().numpy()
    found = estimate_steps(packed_at_hand(len(mask_NT)), outcome_N, group_N, mask_NT, settings)
    trained_N = mask_NT.any(axis=1)
    if trained_N.any():
        mean_N = found.advantages_NT[trained_N].sum(axis=1) / mask_NT[trained_N].sum(axis=1)
        shown = rewards_N[trained_N], group_N[trained_N], mean_N
        _note_figures(STEP_NAME, *shown, min_correct=settings.min_correct, config=config, more=found.figures)
        for floor in found.floors:
            name = f"{STEP_NAME}, {floor.name}"
            _watch_floor(name, floor.threshold, floored=floor.floored, exceeded=floor.exceeded)
    advantages = torch.as_tensor(found.advantages_NT).to(token_level_rewards)
    return advantages, advantages


def final_rows(batch_keys: Sequence[str]) -> tuple[list[int], list[int]]:
    """The last output of each session, from verl's row keys "{uid}_{session}_{output}".

    Returns:
        The rows of the last outputs, and for each row the place of its session among them.

    Raises:
        CorpoError: A key has another form: this verl is not the one that was tested.

    Example:
        >>> final_rows(["a_0_0", "a_0_1", "a_1_0"])
        ([1, 2], [0, 0, 1])
    """
    last: dict[str, tuple[int, int]] = {}
    sessions = []
    for row, key in enumerate(batch_keys):
        session, _, output = key.rpartition("_")
        if not output.isdigit() or "_" not in session:
            raise CorpoError(f"verl's row key {key!r} is not of the form uid_session_output; this verl is not known")
        sessions.append(session)
        if session not in last or last[session][0] < int(output):
            last[session] = (int(output), row)
    place = {session: number for number, session in enumerate(last)}
    return [row for _, row in last.values()], [place[session] for session in sessions]


def register() -> None:
    """Put the estimators into verl's registry, and prepare verl's V1 trainer for the time it is imported.

    verl reports a plug-in's error at level DEBUG only, and then knows no estimator of these names.
    """
    for name, estimator in VERL_NAMES.items():
        core_algos.register_adv_est(name)(_registered(name, estimator))
    core_algos.register_adv_est(STEP_NAME)(_own(STEP_NAME) or step_advantages_for_verl)
    after_import(_ADVANTAGES, hand_on_steps)
    after_import(_REWARD_MANAGERS, add_reward_manager)
    after_import(_SESSIONS, count_sessions_once)
    after_import(_TRAINER, prepare_trainer)


def count_sessions_once(module: ModuleType) -> None:
    """Wrap the function in which verl counts an agent loop's session once, which it does for its own grpo only.

    Where that function is not as tested it is left alone, and our estimators will refuse to run.

    Args:
        module: `verl.trainer.ppo.v1.utils`.
    """
    original = getattr(module, _BY_SESSION, None)
    if original is None or getattr(original, "counts_sessions_once", False):
        return
    if list(inspect.signature(original).parameters)[:3] != ["data", "batch_keys", "adv_estimator"]:
        return

    @functools.wraps(original)
    def counted_once(data: Any, batch_keys: list[str], adv_estimator: Any, *args: Any, **settings: Any) -> Any:
        name = getattr(adv_estimator, "value", adv_estimator)
        if name == STEP_NAME:
            refuse_several_outputs(batch_keys, len(final_rows(batch_keys)[0]))
        estimator = VERL_NAMES.get(name)
        if estimator is None:
            return original(data, batch_keys, adv_estimator, *args, **settings)
        return _advantages_by_session(data, batch_keys, estimator, settings.get("config"))

    counted_once.counts_sessions_once = True  # type: ignore[attr-defined]
    setattr(module, _BY_SESSION, counted_once)


def add_reward_manager(_module: ModuleType) -> None:
    """Register the reward manager of steps, unless this verl has no reward manager that it could be made from.

    Args:
        _module: verl's reward managers, imported.
    """
    try:
        importlib.import_module("corpo_rl.training.verl_steps")
    except ImportError as error:
        _warn_once(f"reward.reward_manager.name={STEP_NAME} is not there: {error}; install verl==0.9.1", UserWarning)


def prepare_trainer(module: ModuleType) -> None:
    """Have verl's V1 trainer check its configuration at the start, and log `corpo/...` among its metrics.

    Args:
        module: `verl.trainer.ppo.v1.trainer_base`. Nothing is done when its trainer is not as tested.
    """
    trainer = module.PPOTrainer
    start, compute = trainer.__init__, trainer._compute_advantage
    known = (["self", "config"], ["self", "batch", "metrics"])
    if tuple(list(inspect.signature(method).parameters) for method in (start, compute)) != known:
        return
    if getattr(compute, "logs_figures", False):
        return

    @functools.wraps(start)
    def checked_start(self: Any, config: Any) -> None:
        if config.algorithm.adv_estimator in VERL_NAMES:
            check_config(config.algorithm)
        if config.algorithm.adv_estimator == STEP_NAME:
            check_step_run(config)
        for message in warnings_about(config) + step_warnings_about(config):
            _warn_once(message, UserWarning)
        start(self, config)

    @functools.wraps(compute)
    def with_figures(self: Any, batch: Any, metrics: dict[str, Any]) -> Any:
        _latest_figures.clear()
        with steps_at_hand(lambda: stored_steps(batch, module.tq.kv_batch_get)):
            advantages = compute(self, batch, metrics)
        metrics.update({f"corpo/{name}": value for name, value in _latest_figures.items() if not np.isnan(value)})
        return advantages

    with_figures.logs_figures = True  # type: ignore[attr-defined]
    trainer.__init__, trainer._compute_advantage = checked_start, with_figures


def _own(name: str) -> Callable[..., tuple[torch.Tensor, torch.Tensor]] | None:
    """What this module registered under the name before it was reloaded."""
    known = core_algos.ADV_ESTIMATOR_REGISTRY.get(name)
    return known if known is not None and known.__module__ == __name__ else None


def _registered(name: str, estimator: str) -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    if known := _own(name):
        return known

    def estimate(
        token_level_rewards: torch.Tensor,
        response_mask: torch.Tensor,
        index: NDArray[Any] | None = None,
        config: Any = None,
        **_: Any,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return advantages_for_verl(estimator, token_level_rewards, response_mask, index, config)

    estimate.__name__ = estimate.__qualname__ = f"{name}_advantages"
    return estimate


def _check_sessions_are_counted_once() -> None:
    trainer = sys.modules.get(_TRAINER)
    if trainer is not None and not getattr(getattr(trainer, _BY_SESSION, None), "counts_sessions_once", False):
        raise CorpoError(
            f"verl's {_BY_SESSION} is not as in 0.9.1, so that a session of several outputs would count more than "
            "once; install verl==0.9.1 or set trainer.use_v1=False"
        )


def _advantages_by_session(data: Any, batch_keys: list[str], estimator: str, config: Any) -> Any:
    """Advantages from the last output of each session, given to all outputs of that session."""
    rows, session_N = final_rows(batch_keys)
    mask_NT = data.batch["response_mask"]
    trained_S = np.zeros(len(rows), dtype=np.bool_)
    np.logical_or.at(trained_S, session_N, mask_NT.bool().any(dim=-1).cpu().numpy())
    advantages_S = _estimate(
        estimator,
        data.batch["token_level_rewards"][rows],
        data.non_tensor_batch["uid"][rows],
        config,
        trained_N=trained_S,
    )
    data.batch["advantages"] = advantages_S[session_N].unsqueeze(-1) * mask_NT.to(advantages_S)
    data.batch["returns"] = data.batch["advantages"]
    return data


def _estimate(
    estimator: str,
    token_level_rewards: torch.Tensor,
    index: NDArray[Any] | None,
    config: Any,
    *,
    trained_N: NDArray[np.bool_],
) -> torch.Tensor:
    """Advantage of each rollout, of the rewards' type and on their device. Shape [N]. Notes the batch's figures."""
    min_correct = check_config(config)
    rewards_N, group_N = _rewards_and_groups(estimator, token_level_rewards, index)
    advantages_N = batch_advantages(estimator, rewards_N, group_N, min_correct=min_correct)
    if trained_N.any():  # the rows with which verl fills a batch up have no token to train on
        shown = rewards_N[trained_N], group_N[trained_N], advantages_N[trained_N]
        _note_figures(estimator, *shown, min_correct=min_correct, config=config)
    return torch.as_tensor(advantages_N).to(token_level_rewards)


def _rewards_and_groups(
    name: str, token_level_rewards: torch.Tensor, index: NDArray[Any] | None
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Reward of each rollout, and its group, numbered from 0. Shapes [N]."""
    if index is None:
        raise UsageError(f"{name}: verl gave no uid, so that groups cannot be told; a trainer of version 0.9 does")
    if token_level_rewards.dtype not in (torch.float32, torch.float64):
        raise DataError(
            f"token_level_rewards: expected float32, as verl makes them, found {token_level_rewards.dtype}, "
            "in which rewards and advantages would be rounded, over corpo_min_correct too; keep rewards in float32"
        )
    rewards_N = as_decimals(token_level_rewards.detach().double().sum(dim=-1).cpu().numpy())
    _, group_N = np.unique(np.asarray(index, dtype=str), return_inverse=True)
    return rewards_N, group_N


def _note_figures(
    estimator: str,
    rewards_N: NDArray[np.float64],
    group_N: NDArray[np.intp],
    advantages_N: NDArray[np.float64],
    *,
    min_correct: float,
    config: Any,
    more: Mapping[str, float] | None = None,
) -> None:
    _, group_N = np.unique(group_N, return_inverse=True)
    figures = batch_figures(rewards_N, group_N, advantages_N, min_correct=min_correct) | dict(more or {})
    _latest_figures.clear()
    _latest_figures.update(figures)
    if estimator in (*FLOORED_ESTIMATORS, STEP_NAME) and not np.isnan(figures["floored_group_share"]):
        floored, exceeded = figures["floored_group_share"] > 0, figures["exceeding_share"] > 0
        _watch_floor(estimator, min_correct, floored=floored, exceeded=exceeded)
    target = config.get(DYNAMICS_KEY)
    if target is not None:
        _append(Path(target), {"estimator": estimator, "min_correct": min_correct, "n": len(rewards_N), **figures})


def _watch_floor(name: str, threshold: float, *, floored: bool, exceeded: bool) -> None:
    watch = _floor_watches.setdefault((name, threshold), FloorWatch(threshold, window=FLOOR_CHECK_STEPS))
    message = watch.see(floored=floored, exceeded=exceeded)
    if message:
        warnings.warn(f"{name}: {message}", FloorWarning, stacklevel=2)


def _append(path: Path, row: dict[str, Any]) -> None:
    """Add a line to a file of JSON Lines. A run is not worth less for a full disk: that is warned of, once."""
    known = {name: None if isinstance(value, float) and np.isnan(value) else value for name, value in row.items()}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"time": time.time(), **known}) + "\n")
    except OSError as error:
        _warn_once(f"algorithm.{DYNAMICS_KEY}: {path} could not be written ({error.strerror or error})", UserWarning)


def _warn_once(message: str, category: type[Warning]) -> None:
    if message not in _warned:
        _warned.add(message)
        warnings.warn(message, category, stacklevel=3)


register()
