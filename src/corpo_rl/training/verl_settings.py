"""What verl's settings mean for our estimators: which are refused, and which are warned of. Imports no verl.

Keys are named as verl 0.9.1 has them.
"""

from typing import Any

import numpy as np

from corpo_rl.core.rounding import threshold_as_read
from corpo_rl.errors import UsageError

VERL_NAMES = {"corpo": "corpo", "loo_corpo": "loo_corpo", "corpo_static": "static", "dr_grpo": "dr_grpo"}
"""Names in verl's registry, and the estimators they stand for. verl has a grpo and an rloo of its own."""

MIN_CORRECT_KEY = "corpo_min_correct"
DYNAMICS_KEY = "corpo_dynamics_file"

_GROUP_RELATIVE = ("corpo", "dr_grpo")
"""Names whose baseline is the group's mean, own reward included, so that a group of one reinforces nothing."""


def check_config(algorithm: Any) -> float:
    """`corpo_min_correct` of verl's `algorithm` settings, when nothing in them undoes the estimator.

    Args:
        algorithm: verl's settings of that name, anything with `get`; None where verl passed none.

    Returns:
        Least reward that counts as correct, read as rewards are that went through float32.

    Raises:
        UsageError: It is missing or no finite number, or the KL penalty is put into the reward.

    Example:
        >>> check_config({"adv_estimator": "corpo", "corpo_min_correct": 0.2})
        0.2
    """
    given = None if algorithm is None else algorithm.get(MIN_CORRECT_KEY)
    if isinstance(given, bool) or not isinstance(given, int | float) or not np.isfinite(given):
        raise UsageError(
            f"algorithm.{MIN_CORRECT_KEY}: expected the least reward that counts as correct, found {given!r}; add "
            f"+algorithm.{MIN_CORRECT_KEY}=0.2 with the value that suits your reward"
        )
    if algorithm.get("use_kl_in_reward"):
        raise UsageError(
            "algorithm.use_kl_in_reward: it shifts rewards, so that corpo_min_correct no longer means correctness; set "
            "algorithm.use_kl_in_reward=False and actor_rollout_ref.actor.use_kl_loss=True"
        )
    return threshold_as_read(float(given))


def warnings_about(config: Any) -> list[str]:
    """What in verl's whole configuration weakens or misleads one of our estimators, a sentence each, with the cure.

    Args:
        config: The configuration of `verl.trainer.main_ppo`, anything with `get`; parts may be absent.

    Returns:
        Nothing when the estimator is not ours.

    Example:
        >>> warnings_about({"algorithm": {"adv_estimator": "grpo", "filter_groups": {"enable": True}}})
        []
    """
    name = _value(config, "algorithm.adv_estimator")
    if name not in VERL_NAMES:
        return []
    found = []
    if _value(config, "algorithm.filter_groups.enable"):
        found.append(
            "algorithm.filter_groups drops groups of equal rewards before the estimator sees them, and the equal "
            "failures among them carry CoRPO's signal; set algorithm.filter_groups.enable=False"
        )
    if name in _GROUP_RELATIVE and _value(config, "actor_rollout_ref.rollout.n") == 1:
        found.append(
            f"actor_rollout_ref.rollout.n=1 makes groups of one, in which {name} never has an advantage above 0; set "
            "actor_rollout_ref.rollout.n=8, or whatever size your groups are to have"
        )
    for legacy, current in (
        ("custom_reward_function.path", "reward.custom_reward_function.path"),
        ("reward_model.reward_manager", "reward.reward_manager.name"),
    ):
        if _value(config, legacy):
            found.append(
                f"{legacy}={_value(config, legacy)} is ignored by verl's main_ppo since 0.9.0; set {current} instead"
            )
    manager = _value(config, "reward.reward_manager.name")
    if manager == "dapo" and _value(config, "reward.reward_kwargs.overlong_buffer_cfg.enable"):
        found.append(
            "reward.reward_kwargs.overlong_buffer_cfg takes a penalty off the reward of a long answer, so that a "
            "correct one may fall under corpo_min_correct; set enable=False, or let your reward function decide"
        )
    min_correct = _value(config, f"algorithm.{MIN_CORRECT_KEY}")
    if manager == "rate_limited" and isinstance(min_correct, int | float) and min_correct <= 0:
        found.append(
            f"reward.reward_manager.name=rate_limited gives reward 0 to an answer it could not score, and with "
            f"corpo_min_correct={min_correct:g} that counts as correct; set reward.reward_manager.name=naive"
        )
    return found


def _value(config: Any, key: str) -> Any:
    """The value at a dotted key, None where any part of it is absent."""
    for part in key.split("."):
        if config is None:
            return None
        config = config.get(part)
    return config
