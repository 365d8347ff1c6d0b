"""verl: what a configuration, or the overrides on a command line, say of the estimator."""

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from corpo_rl.doctor.finding import ERROR, NOTE, WARNING, Finding
from corpo_rl.errors import UsageError
from corpo_rl.training.verl_settings import MIN_CORRECT_KEY, VERL_NAMES, check_config, warnings_about
from corpo_rl.training.verl_step_settings import STEP_NAME, check_step_run, step_warnings_about

MAIN = "verl.trainer.main_ppo"
_OVERRIDE = re.compile(r"(\+{0,2}|~)([A-Za-z_][\w.@/]*)=(.*)", re.DOTALL)


def check_config_file(path: Path, config: Mapping[str, Any]) -> list[Finding]:
    """What is wrong with a whole configuration of verl, as Hydra composed it."""
    return list(_check(config, where=str(path)))


def check_command(path: Path, text: str) -> list[Finding]:
    """What is wrong with a shell script that starts verl, from its overrides and the variables that it sets."""
    found: list[Finding] = []
    for line, words in _commands(text):
        where = f"{path}:{line}"
        config: dict[str, Any] = {}
        plus = {}
        for word in words:
            if match := _OVERRIDE.fullmatch(word):
                sign, key, value = match.groups()
                plus[key] = sign
                _put(config, key, _value(value))
        for key in plus:
            if key.startswith("algorithm.corpo_") and not plus[key]:
                what = f"{key} is no key of verl's own: without a + Hydra refuses it"
                found.append(Finding(ERROR, where, what, f"+{key}=..."))
        found += _check(config, where=where)
    for number, content in enumerate(text.splitlines(), start=1):
        match = re.search(r"VERL_USE_EXTERNAL_PLUGINS=[\"']?([\w,-]*)", content)
        if match and match[1] != "auto" and "corpo" not in match[1].split(","):
            if "VERL_USE_EXTERNAL_MODULES" in text and "corpo_rl.training.verl" in text:
                continue
            found.append(
                Finding(
                    ERROR,
                    f"{path}:{number}",
                    f"VERL_USE_EXTERNAL_PLUGINS={match[1]} keeps corpo-rl from being loaded",
                    "VERL_USE_EXTERNAL_PLUGINS=corpo",
                )
            )
    return found


def _check(config: Mapping[str, Any], *, where: str) -> Iterator[Finding]:
    algorithm = config.get("algorithm") or {}
    name = algorithm.get("adv_estimator")
    if name not in (*VERL_NAMES, STEP_NAME):
        if MIN_CORRECT_KEY in algorithm:
            yield Finding(
                ERROR,
                where,
                f"algorithm.adv_estimator is {name!r}, which knows no {MIN_CORRECT_KEY}: CoRPO is not on",
                "algorithm.adv_estimator=corpo",
            )
        else:
            yield Finding(
                ERROR,
                where,
                f"algorithm.adv_estimator is {name!r}: CoRPO is not on",
                f"algorithm.adv_estimator=corpo +algorithm.{MIN_CORRECT_KEY}=...",
            )
        return
    try:
        if name == STEP_NAME:
            check_step_run(config)
        else:
            check_config(algorithm)
    except UsageError as error:
        what, _, change = str(error).rpartition("; ")
        yield Finding(ERROR, where, what, change)
    for sentence in warnings_about(config) + step_warnings_about(config):
        what, _, change = sentence.rpartition("; ")
        yield Finding(WARNING, where, what, change)
    if "norm_adv_by_std_in_grpo" in algorithm:
        yield Finding(NOTE, where, f"algorithm.norm_adv_by_std_in_grpo does nothing under {name}, which never divides")


def _commands(text: str) -> Iterator[tuple[int, list[str]]]:
    """Words of each command that starts verl, with the line it begins in; continued lines are joined."""
    joined, start = "", 1
    for number, line in enumerate(text.splitlines(), start=1):
        if not joined:
            start = number
        joined += line.rstrip("\\") + " " if line.endswith("\\") else line
        if line.endswith("\\"):
            continue
        if MAIN in joined:
            try:
                yield start, shlex.split(joined, comments=True)
            except ValueError:  # a quote that the next line closes
                yield start, joined.split()
        joined = ""
    if MAIN in joined:
        yield start, joined.split()


def _value(text: str) -> Any:
    lowered = text.strip().strip("'\"").lower()
    if lowered in ("true", "false"):
        return lowered == "true"
    if lowered in ("null", "none"):
        return None
    if lowered.startswith("[") and lowered.endswith("]"):
        return [_value(part) for part in lowered[1:-1].split(",") if part.strip()]
    try:
        number = float(lowered)
    except ValueError:
        return text.strip().strip("'\"")
    return int(number) if number.is_integer() and "." not in lowered and "e" not in lowered else number


def _put(config: dict[str, Any], key: str, value: Any) -> None:
    *folders, last = key.split(".")
    for folder in folders:
        inner = config.setdefault(folder, {})
        if not isinstance(inner, dict):
            return
        config = inner
    config[last] = value
