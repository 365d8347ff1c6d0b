"""What a sweep varies: its dimensions as the command line gives them, and the settings that one trial trains under."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from corpo_rl.errors import UsageError
from corpo_rl.experiment.settings import Settings, check_methods

Value = str | int | float
"""One setting of a dimension."""

NAMES = ("method", "learning_rate", "group_size", "min_correct")
"""What can be varied, in the order in which it is drawn. Scales and floors are part of a method's name."""

HOLDS = ("rollouts", "prompts")
"""What a step keeps when the group size changes."""


@dataclass(frozen=True)
class Dimension:
    """One thing that trials differ in: a list of values, or a range of numbers."""

    name: str
    """One of `NAMES`."""
    choices: tuple[Value, ...] = ()
    """The values of a list, each once; empty for a range."""
    low: float = math.nan
    """Lower end of a range, included."""
    high: float = math.nan
    """Upper end of a range, included."""
    log: bool = False
    """Whether a range is drawn evenly in the logarithm."""

    @property
    def ends(self) -> tuple[Value, ...]:
        """Values that stand for all: every one of a list, both ends of a range."""
        return self.choices or (self.low, self.high)

    def to_json(self) -> dict[str, Any]:
        """As plain values for a file: a list has `choices`, a range has `low`, `high` and `log`."""
        if self.choices:
            return {"name": self.name, "choices": list(self.choices)}
        return {"name": self.name, "low": self.low, "high": self.high, "log": self.log}


def parse_dimension(name: str, text: str) -> Dimension:
    """Read one dimension.

    Three forms: values with commas between them; LOW:HIGH, a range that holds both ends; LOW:HIGH:log, one that is
    drawn evenly in the logarithm. Methods and group sizes are lists.

    Args:
        name: One of `NAMES`.
        text: What the option was given.

    Raises:
        UsageError: It cannot be read, a value comes twice, or a range is empty.

    Example:
        >>> parse_dimension("group_size", "4,8").choices
        (4, 8)
        >>> found = parse_dimension("learning_rate", "1e-4:1e-3:log")
        >>> found.low, found.high, found.log
        (0.0001, 0.001, True)
    """
    flag = f"--{name.replace('_', '-')}"
    if ":" in text and name in ("learning_rate", "min_correct"):
        return _range(name, flag, text)
    parts = [part.strip() for part in text.split(",")]
    choices = tuple(_value(name, flag, part) for part in parts if part)
    if not choices or len(set(choices)) < len(choices):
        raise UsageError(f"{flag}: expected at least one value, each once, with commas between them, got {text!r}")
    return Dimension(name, choices)


def dimension_from_json(data: Mapping[str, Any]) -> Dimension:
    """The dimension that `Dimension.to_json` wrote."""
    return Dimension(**{**data, "choices": tuple(data.get("choices", ()))})


def _range(name: str, flag: str, text: str) -> Dimension:
    low_text, high_text, *rest = text.split(":")
    if rest not in ([], ["log"]):
        raise UsageError(f"{flag}: expected LOW:HIGH or LOW:HIGH:log, got {text!r}")
    low, high = _number(flag, low_text), _number(flag, high_text)
    if not low < high:
        raise UsageError(f"{flag}: expected a range LOW:HIGH with LOW under HIGH, got {text!r}")
    if rest and low <= 0:
        raise UsageError(f"{flag}: a logarithmic range begins above 0, got {text!r}")
    return Dimension(name, low=low, high=high, log=bool(rest))


def _value(name: str, flag: str, text: str) -> Value:
    if name == "method":
        return text
    if name == "group_size":
        try:
            return int(text)
        except ValueError:
            raise UsageError(f"{flag}: expected whole numbers with commas between them, got {text!r}") from None
    return _number(flag, text)


def _number(flag: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UsageError(f"{flag}: expected a finite number, a list A,B or a range LOW:HIGH[:log], got {text!r}")
    return number


def trial_settings(settings: Settings, params: Mapping[str, Value], *, hold: str) -> tuple[str, Settings]:
    """The method and the settings of one trial.

    With another group size a step keeps its number of rollouts, so that larger groups mean fewer prompts and no trial
    samples more than another; with `hold` "prompts" it keeps its prompts instead, and larger groups cost more. A micro
    batch that no longer divides the step's rollouts becomes the largest divisor under it: it changes memory and the
    last digits, not the gradient.

    Args:
        settings: What all trials share, with the group size and prompts that the rollouts are counted from.
        params: A value for each of `NAMES` that is not as in `settings`; the method is always among them.
        hold: One of `HOLDS`.

    Returns:
        The method, and the settings of its training.

    Raises:
        UsageError: A value is out of range, or a step's rollouts do not divide by the group size.
    """
    changed: dict[str, Any] = {name: value for name, value in params.items() if name != "method"}
    group_size = int(changed.get("group_size", settings.group_size))
    if group_size < 2:
        raise UsageError(f"--group-size: expected at least 2, got {group_size}; a group of one has no peers")
    rollouts = settings.group_size * settings.prompts_per_step
    if hold == "prompts":
        rollouts = group_size * settings.prompts_per_step
    elif rollouts % group_size:
        raise UsageError(
            f"--group-size: {group_size} does not divide the {rollouts} rollouts of a step; choose a divisor, other "
            "--prompts-per-step, or --hold prompts"
        )
    micro_batch = max(size for size in range(1, settings.micro_batch + 1) if rollouts % size == 0)
    changed |= {"prompts_per_step": rollouts // group_size, "micro_batch": micro_batch}
    return str(params["method"]), replace(settings, **changed)


def check_space(settings: Settings, dimensions: Sequence[Dimension], *, hold: str) -> None:
    """Refuse values that some trial could not be trained with, before anything is trained.

    Raises:
        UsageError: As the value's own check says.
    """
    names = [dimension.name for dimension in dimensions]
    assert "method" in names, "every trial needs a method"
    for dimension in dimensions:
        if dimension.name == "method":
            check_methods(tuple(str(value) for value in dimension.choices))
    first = {dimension.name: dimension.ends[0] for dimension in dimensions}
    for dimension in dimensions:
        for value in dimension.ends:
            trial_settings(settings, {**first, dimension.name: value}, hold=hold)


def grid(dimensions: Sequence[Dimension]) -> Iterator[dict[str, Value]]:
    """Every combination of the lists, the last dimension changing fastest.

    Raises:
        UsageError: A dimension is a range, which has no end of values.

    Example:
        >>> list(grid([Dimension("method", ("grpo",)), Dimension("group_size", (4, 8))]))
        [{'method': 'grpo', 'group_size': 4}, {'method': 'grpo', 'group_size': 8}]
    """
    for dimension in dimensions:
        if not dimension.choices:
            flag = f"--{dimension.name.replace('_', '-')}"
            raise UsageError(f"{flag}: a grid needs values with commas between them, got a range; or use --sampler tpe")
    names = [dimension.name for dimension in dimensions]
    yield from (
        dict(zip(names, values, strict=True)) for values in product(*(dimension.choices for dimension in dimensions))
    )
