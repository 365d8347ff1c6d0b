"""TRL: what a script or a settings file says of the estimator. Scripts are parsed, never run."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from corpo_rl.core.advantages import ESTIMATORS, FLOORED_ESTIMATORS
from corpo_rl.doctor.finding import ERROR, NOTE, WARNING, Finding
from corpo_rl.errors import DataError

OURS, THEIRS = "CorpoConfig", "GRPOConfig"
TRAINERS = {"CorpoTrainer": OURS, "GRPOTrainer": THEIRS}
UNKNOWN = object()
"""A value that only running the script would tell."""

_SIGN_LOSSES = ("sapo", "vespo")


def check_script(path: Path, source: str) -> list[Finding]:
    """What a Python script that trains with TRL does to the estimator.

    Raises:
        DataError: It is no Python.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: expected Python ({error})") from None
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    configs = [(node, name) for node in calls if (name := _name(node.func)) in (OURS, THEIRS)]
    trainers = [(node, name) for node in calls if (name := _name(node.func)) in TRAINERS]
    found: list[Finding] = []
    for node, name in trainers:
        if name == "GRPOTrainer":
            found.append(
                Finding(
                    ERROR,
                    f"{path}:{node.lineno}",
                    "GRPOTrainer trains with the mean of the group as baseline: CoRPO is not on",
                    "from corpo_rl.training.trl import CorpoConfig, CorpoTrainer, and use them in its place",
                )
            )
    for node, name in configs:
        found += check_settings(_keywords(node), where=f"{path}:{node.lineno}", config=str(name))
    if not configs and not trainers:
        found.append(Finding(NOTE, str(path), "no trainer or configuration of TRL is made here"))
    return found


def check_settings(settings: Mapping[str, Any], *, where: str, config: str = OURS) -> list[Finding]:
    """What is wrong with the settings of a `CorpoConfig`, or of a `GRPOConfig`.

    Args:
        settings: Field -> value, `UNKNOWN` where it cannot be told.
        where: File and line of the settings.
        config: Which of the two they are for.
    """
    return list(_settings(settings, where, config))


def _settings(settings: Mapping[str, Any], where: str, config: str) -> Iterator[Finding]:
    if config == THEIRS:
        if "min_correct" in settings or "advantage_estimator" in settings:
            yield Finding(ERROR, where, "GRPOConfig knows no min_correct: CoRPO is not on", "CorpoConfig(...)")
        return
    estimator = settings.get("advantage_estimator", "corpo")
    if estimator is not UNKNOWN and estimator not in ESTIMATORS:
        yield Finding(ERROR, where, f"advantage_estimator={estimator!r} is unknown", f"one of {', '.join(ESTIMATORS)}")
        return
    min_correct = settings.get("min_correct")
    if "**" not in settings and (min_correct is None or isinstance(min_correct, bool | str)):
        yield Finding(
            ERROR,
            where,
            f"min_correct is {min_correct!r}; it is the least total reward that counts as correct, and has no default",
            "min_correct=...",
        )
    scale = settings.get("scale_rewards")
    wanted = "group" if estimator == "grpo" else "none"
    spelled = {True: "group", False: "none"}.get(scale, scale) if isinstance(scale, bool) else scale
    if scale is not UNKNOWN and spelled is not None and spelled != wanted and estimator is not UNKNOWN:
        why = (
            "a group of equal failures has standard deviation 0, and dividing by it explodes"
            if estimator in FLOORED_ESTIMATORS
            else "the estimator decides it"
        )
        yield Finding(
            ERROR, where, f"scale_rewards={scale!r} contradicts {estimator}: {why}", f"scale_rewards={wanted!r}"
        )
    if settings.get("multi_objective_aggregation") == "normalize_then_sum":
        yield Finding(
            ERROR,
            where,
            "multi_objective_aggregation='normalize_then_sum' rescales rewards by their batch, and takes the mean away "
            "again: min_correct no longer means correctness",
            "multi_objective_aggregation='sum_then_normalize'",
        )
    if settings.get("loss_type") in _SIGN_LOSSES:
        yield Finding(
            NOTE,
            where,
            f"loss_type={settings['loss_type']!r} treats positive and negative advantages differently, and CoRPO makes "
            "more negative ones",
        )
    if settings.get("off_policy_mask_threshold") not in (None, UNKNOWN):
        yield Finding(
            WARNING,
            where,
            "off_policy_mask_threshold drops rollouts with a negative advantage only, which carry CoRPO's signal",
            "off_policy_mask_threshold=None",
        )
    if settings.get("reward_weights") not in (None, UNKNOWN) and "reward_weights" in settings:
        yield Finding(NOTE, where, "reward_weights scale what is summed: min_correct is in units of the weighted sum")
    if settings.get("num_generations") == 1:
        yield Finding(ERROR, where, "num_generations=1 makes groups of one, which have no peers", "num_generations=8")


def _name(node: ast.expr) -> str | None:
    """The last part of what is called."""
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else None


def _keywords(call: ast.Call) -> dict[str, Any]:
    """Keyword arguments with the values that are written out."""
    found: dict[str, Any] = {}
    for keyword in call.keywords:
        if keyword.arg is None:
            found["**"] = UNKNOWN
            continue
        try:
            found[keyword.arg] = ast.literal_eval(keyword.value)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            found[keyword.arg] = UNKNOWN
    return found
