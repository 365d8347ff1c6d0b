"""What verl's settings mean for step rewards: which are refused, and which are warned of. Imports no verl.

The keys are those of `corpo_rl.training.steps.StepConfig` with `corpo_` before them, under verl's `algorithm`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from corpo_rl.errors import UsageError
from corpo_rl.training.step_spans import UNITS
from corpo_rl.training.verl_settings import DYNAMICS_KEY, MIN_CORRECT_KEY, check_config, warnings_about

STEP_NAME = "corpo_steps"
"""The estimator in verl's registry, the reward manager that brings it the steps, and the column they travel in."""

FORMS: tuple[str, ...] = ("both", "steps", "outcome")
"""What a step is credited with: its own reward and the outcome, its own reward alone, or the outcome alone."""

_THRESHOLD = "corpo_step_min_correct"
_OWN_KEYS = (_THRESHOLD, "corpo_step_form", "corpo_outcome_weight", "corpo_step_discount", "corpo_step_unit")
_ONE_ADVANTAGE = ("geo_mean",)
"""Losses of verl that average the advantages of a rollout."""


@dataclass(frozen=True)
class StepSettings:
    """The `algorithm` settings of an estimator with step rewards, as `StepConfig` describes them for TRL."""

    min_correct: float
    """Least outcome reward that counts as correct, in task units."""
    step_min_correct: tuple[float, ...]
    """Least reward with which a step counts as correct: one for all, or one for each step number."""
    form: str
    """One of `FORMS`."""
    outcome_weight: float
    """What the rollout's advantage is multiplied by in the form "both", 0 or more."""
    discount: float
    """How much of the rewards of later steps an earlier one is credited with, 0 to 1."""
    unit: str
    """What the ranges of steps count, one of `UNITS`."""

    @property
    def threshold(self) -> float | tuple[float, ...]:
        """`step_min_correct` as `corpo_rl.core.steps` takes it."""
        return self.step_min_correct[0] if len(self.step_min_correct) == 1 else self.step_min_correct


def step_unit(algorithm: Any) -> str:
    """`corpo_step_unit` of verl's `algorithm` settings.

    Raises:
        UsageError: It is none of `UNITS`.

    Example:
        >>> step_unit({})
        'characters'
    """
    return _choice(algorithm, "corpo_step_unit", UNITS)


def check_step_config(algorithm: Any) -> StepSettings:
    """The settings for step rewards, when nothing in verl's `algorithm` settings undoes them.

    Args:
        algorithm: verl's settings of that name, anything with `get`; None where verl passed none.

    Raises:
        UsageError: As `check_config`; there is no `corpo_step_min_correct`, a setting is out of range or of no known
            name, or turns are to be told from a mask that verl takes tokens out of.

    Example:
        >>> check_step_config({"corpo_min_correct": 0.5, "corpo_step_min_correct": 0.25, "corpo_step_form": "steps"})
        StepSettings(min_correct=0.5, step_min_correct=(0.25,), form='steps', outcome_weight=1.0, discount=0.0,
            unit='characters')
    """
    min_correct = check_config(algorithm)
    given = algorithm.get(_THRESHOLD)
    several = isinstance(given, Sequence) and not isinstance(given, str)
    thresholds = list(given) if several else [given]
    if not thresholds or not all(_is_number(one) for one in thresholds):
        raise UsageError(
            f"algorithm.{_THRESHOLD}: expected the least reward with which a step counts as correct, or a list of one "
            f"for each step number, found {given!r}; add +algorithm.{_THRESHOLD}=0.2 with the value that suits your "
            "step rewards"
        )
    known = (MIN_CORRECT_KEY, DYNAMICS_KEY, *_OWN_KEYS)
    for key in algorithm.keys() if hasattr(algorithm, "keys") else ():
        if str(key).startswith("corpo_") and key not in known:
            raise UsageError(f"algorithm.{key}: expected one of {', '.join(known)}; take it out or correct its name")
    settings = StepSettings(
        min_correct,
        tuple(float(one) for one in thresholds),
        form=_choice(algorithm, "corpo_step_form", FORMS),
        outcome_weight=_number(algorithm, "corpo_outcome_weight", 1.0, most=np.inf),
        discount=_number(algorithm, "corpo_step_discount", 0.0, most=1.0),
        unit=step_unit(algorithm),
    )
    if settings.unit == "turns" and _value(algorithm, "rollout_correction.rollout_rs"):
        raise UsageError(
            "algorithm.rollout_correction.rollout_rs: it takes tokens out of the mask that tells the turns apart; set "
            "it to null, or give the steps as ranges with another corpo_step_unit"
        )
    return settings


def check_step_run(config: Any) -> StepSettings:
    """`check_step_config`, and what else in verl's whole configuration cannot train on an advantage for each token.

    Args:
        config: The configuration of `verl.trainer.main_ppo`, anything with `get`; parts may be absent.

    Raises:
        UsageError: As `check_step_config`, or a policy loss averages the advantages of a rollout.
    """
    settings = check_step_config(config.get("algorithm"))
    key = "actor_rollout_ref.actor.policy_loss.loss_mode"
    mode = _value(config, key)
    if mode in _ONE_ADVANTAGE and settings.form != "outcome":
        raise UsageError(
            f"{key}: {mode!r} averages the advantages of a rollout, corpo_step_form={settings.form!r} gives one for "
            f"each token; set {key}=vanilla"
        )
    return settings


def step_warnings_about(config: Any) -> list[str]:
    """What in verl's whole configuration weakens or misleads the estimator of steps, a sentence each, with the cure.

    Args:
        config: As for `check_step_run`.

    Returns:
        For another estimator only that it makes nothing of settings for steps.

    Example:
        >>> step_warnings_about({"algorithm": {"adv_estimator": "corpo", "corpo_step_min_correct": 0.2}})
        ['algorithm.corpo_step_min_correct does nothing under corpo; set algorithm.adv_estimator=corpo_steps']
    """
    algorithm = config.get("algorithm") or {}
    name = algorithm.get("adv_estimator")
    manager = _value(config, "reward.reward_manager.name")
    if name != STEP_NAME:
        unused = [f"algorithm.{key}" for key in _OWN_KEYS if algorithm.get(key) is not None]
        unused += [f"reward.reward_manager.name={STEP_NAME}"] * (manager == STEP_NAME)
        cure = f"set algorithm.adv_estimator={STEP_NAME}"
        return [f"{', '.join(unused)} does nothing under {name}; {cure}"] if unused else []

    found = warnings_about({**config, "algorithm": {**algorithm, "adv_estimator": "corpo"}})
    if manager != STEP_NAME and _value(config, "reward.reward_manager.source") != "importlib":
        found.append(
            f"reward.reward_manager.name={manager or 'naive'} hands no steps on, so that the first batch is refused "
            f"unless your agent loop gives them; set reward.reward_manager.name={STEP_NAME}"
        )
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and bool(np.isfinite(value))


def _number(algorithm: Any, key: str, default: float, *, most: float) -> float:
    value = algorithm.get(key)
    if value is None:
        return default
    if not _is_number(value) or not 0.0 <= value <= most:
        wanted = "0 or more" if most == np.inf else f"0 to {most:g}"
        raise UsageError(f"algorithm.{key}: expected {wanted}, found {value!r}; by default it is {default:g}")
    return float(value)


def _choice(algorithm: Any, key: str, known: tuple[str, ...]) -> str:
    value = algorithm.get(key) or known[0]
    if value not in known:
        raise UsageError(
            f"algorithm.{key}: expected one of {', '.join(known)}, found {value!r}; take it out for {known[0]!r}"
        )
    return str(value)


def _value(config: Any, key: str) -> Any:
    """The value at a dotted key, None where any part of it is absent."""
    for part in key.split("."):
        if config is None:
            return None
        config = config.get(part)
    return config
