"""CoRPO and its kin for verl, as advantage estimators in verl's own registry.

verl loads this module in every process, driver and Ray workers, through the entry point `verl.plugins` (0.9.0 and
newer) or `VERL_USE_EXTERNAL_MODULES=corpo_rl.training.verl` (before). Then the switch is two settings:

    algorithm.adv_estimator=corpo +algorithm.corpo_min_correct=0.2

Tested on verl 0.9.1. Importing this module registers; nothing else in the package imports it.
"""

import inspect
import json
import logging
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from verl.trainer.ppo import core_algos

from corpo_rl.core.advantages import FLOORED_ESTIMATORS
from corpo_rl.core.rounding import as_decimals, threshold_as_read
from corpo_rl.errors import CorpoError, FloorWarning, UsageError
from corpo_rl.training.figures import batch_advantages, batch_figures

VERL_NAMES = {"corpo": "corpo", "loo_corpo": "loo_corpo", "corpo_static": "static", "dr_grpo": "dr_grpo"}
"""Names in verl's registry, and the estimators they stand for. verl has a grpo and an rloo of its own."""

MIN_CORRECT_KEY = "corpo_min_correct"
DYNAMICS_KEY = "corpo_dynamics_file"

_MULTI_OUTPUT = "compute_advantage_for_multi_trajectories"
_logger = logging.getLogger(__name__)
_warned: set[str] = set()


def advantages_for_verl(
    estimator: str,
    token_level_rewards: torch.Tensor,
    response_mask: torch.Tensor,
    index: NDArray[Any] | None,
    config: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Advantages as verl wants them from an outcome estimator.

    The reward of a rollout is the sum of its token rewards, as for verl's own estimators. One that is NaN is
    unscorable: it is left out of its group's baseline and gets advantage 0 (verl's own make its whole group NaN). A
    group of one has no peers; its baseline is the larger of its own reward and the floor.

    Args:
        estimator: Name of the estimator, as in `corpo_rl.estimate_advantages`.
        token_level_rewards: Shape [N, T], in task units.
        response_mask: 1 for tokens of the response, 0 for padding. Shape [N, T].
        index: Prompt of each rollout, verl's `uid`. Shape [N].
        config: verl's `algorithm` settings, with `corpo_min_correct`.

    Returns:
        Advantages and returns, the same tensor: each rollout's advantage at the tokens of its response. Shape [N, T],
        of the rewards' type.

    Raises:
        UsageError: A setting is missing, or undoes the estimator; see `check_config`.
    """
    min_correct = check_config(config)
    if index is None:
        raise UsageError(f"{estimator}: verl gave no uid, so that groups cannot be told; a trainer of version 0.9 does")
    rewards_N = as_decimals(token_level_rewards.sum(dim=-1).double().cpu().numpy())
    advantages_N = _advantages(estimator, rewards_N, index, min_correct=min_correct)
    _log_dynamics(estimator, rewards_N, index, advantages_N, min_correct=min_correct, config=config)
    advantages_NT = _over_tokens(advantages_N, response_mask, like=token_level_rewards)
    return advantages_NT, advantages_NT


def check_config(config: Any) -> float:
    """`corpo_min_correct` of verl's `algorithm` settings, when nothing in them undoes the estimator.

    Warns once when groups without variance are filtered out: those of equal failures carry CoRPO's signal.

    Raises:
        UsageError: It is missing or no finite number, or the KL penalty is put into the reward.
    """
    given = None if config is None else config.get(MIN_CORRECT_KEY)
    if isinstance(given, bool) or not isinstance(given, int | float) or not np.isfinite(given):
        raise UsageError(
            f"algorithm.{MIN_CORRECT_KEY}: expected the least reward that counts as correct, found {given!r}; add "
            f"+algorithm.{MIN_CORRECT_KEY}=0.2 with the value that suits your reward"
        )
    if config.get("use_kl_in_reward"):
        raise UsageError(
            "algorithm.use_kl_in_reward: it shifts rewards, so that corpo_min_correct no longer means correctness; set "
            "algorithm.use_kl_in_reward=False and actor_rollout_ref.actor.use_kl_loss=True"
        )
    filters = config.get("filter_groups")
    if filters is not None and filters.get("enable"):
        _warn_once(
            "algorithm.filter_groups drops groups of equal rewards before the estimator sees them; the equal failures "
            "among them carry CoRPO's signal: set algorithm.filter_groups.enable=False"
        )
    return threshold_as_read(float(given))


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
    """Put the estimators into verl's registry, and see to it that sessions of several outputs count once.

    Raises:
        CorpoError: verl's function for sessions is not as tested. verl reports a plug-in's error at level DEBUG only,
            and then knows no estimator of these names: `corpo-rl doctor` shows why.
    """
    for name, estimator in VERL_NAMES.items():
        core_algos.register_adv_est(name)(_estimator(name, estimator))
    _count_sessions_once()


def _estimator(name: str, estimator: str) -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    registered = core_algos.ADV_ESTIMATOR_REGISTRY.get(name)
    if registered is not None and registered.__module__ == __name__:
        return registered  # type: ignore[no-any-return]  # imported twice under two names

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


def _count_sessions_once() -> None:
    """Wrap the function in which verl counts an agent loop's session once, which it does for its own grpo only."""
    try:
        from verl.trainer.ppo.v1 import utils
    except ImportError as error:
        # the trainer that has such sessions cannot be imported here either
        _logger.debug("verl's V1 trainer is not importable: %s", error)
        return
    original = getattr(utils, _MULTI_OUTPUT, None)
    if getattr(original, "counts_sessions_once", False):
        return
    known = ["data", "batch_keys", "adv_estimator"]
    if original is None or list(inspect.signature(original).parameters)[:3] != known:
        raise CorpoError(f"verl's {_MULTI_OUTPUT} is not as in 0.9.1, so that sessions could be counted twice")

    def counted_once(data: Any, batch_keys: list[str], adv_estimator: Any, **settings: Any) -> Any:
        estimator = VERL_NAMES.get(getattr(adv_estimator, "value", adv_estimator))
        if estimator is None:
            return original(data, batch_keys, adv_estimator, **settings)
        return _advantages_by_session(data, batch_keys, estimator, settings.get("config"))

    counted_once.counts_sessions_once = True  # type: ignore[attr-defined]
    setattr(utils, _MULTI_OUTPUT, counted_once)


def _advantages_by_session(data: Any, batch_keys: list[str], estimator: str, config: Any) -> Any:
    """Advantages from the last output of each session, given to all outputs of that session."""
    rows, session_N = final_rows(batch_keys)
    final_R, _ = advantages_for_verl(
        estimator,
        data.batch["token_level_rewards"][rows],
        torch.ones_like(data.batch["response_mask"][rows]),
        data.non_tensor_batch["uid"][rows],
        config,
    )
    advantages_NT = final_R[session_N, :1] * data.batch["response_mask"]
    data.batch["advantages"] = data.batch["returns"] = advantages_NT
    return data


def _advantages(
    estimator: str, rewards_N: NDArray[np.float64], index: NDArray[Any], *, min_correct: float
) -> NDArray[np.float64]:
    _, group_N = np.unique(np.asarray(index, dtype=str), return_inverse=True)
    return batch_advantages(estimator, rewards_N, group_N, min_correct=min_correct)


def _over_tokens(advantages_N: NDArray[np.float64], mask: torch.Tensor, *, like: torch.Tensor) -> torch.Tensor:
    return torch.as_tensor(advantages_N).to(like).unsqueeze(-1) * mask


def _log_dynamics(
    estimator: str,
    rewards_N: NDArray[np.float64],
    index: NDArray[Any],
    advantages_N: NDArray[np.float64],
    *,
    min_correct: float,
    config: Mapping[str, Any],
) -> None:
    """Append the figures of the batch to the file that the settings name: verl hands an estimator no metrics."""
    target = config.get(DYNAMICS_KEY)
    _, group_N = np.unique(np.asarray(index, dtype=str), return_inverse=True)
    figures = batch_figures(rewards_N, group_N, advantages_N, min_correct=min_correct, grpo_N=None)
    if estimator in FLOORED_ESTIMATORS and figures["floored_group_share"] == 0 and figures["correct_share"] == 1:
        _warn_once(
            f"corpo_min_correct={min_correct}: every reward of this batch is at or over it; is it on your scale?"
        )
    if target is None:
        return
    row = {name: None if np.isnan(value) else value for name, value in figures.items()}
    path = Path(target)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"time": time.time(), "estimator": estimator, "n": len(rewards_N), **row}) + "\n")


def _warn_once(message: str) -> None:
    if message not in _warned:
        _warned.add(message)
        warnings.warn(message, FloorWarning, stacklevel=3)


register()
