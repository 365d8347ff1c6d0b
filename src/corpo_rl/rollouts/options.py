"""How a log is to be read: what the command line passes to the readers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """What is known about a log beyond its files. Everything left out is found in the log, or asked for."""

    format: str | None = None
    """Name of the log format; None detects it."""
    reward_columns: tuple[str, ...] = ()
    """Columns whose weighted sum is the reward; empty finds the one there is."""
    reward_weights: Mapping[str, float] | tuple[float, ...] | None = None
    """Weight of each reward column, by name or in the order of `reward_columns`; None: 1 each."""
    group_columns: tuple[str, ...] = ()
    """Columns that together name a group."""
    step_column: str | None = None
    """Column with the training step."""
    correct_column: str | None = None
    """Column that says whether a rollout is correct: 0 or 1, true or false."""
    advantage_column: str | None = None
    """Column with the advantage the run used."""
    length_column: str | None = None
    """Column with the length of the completion, in tokens."""
    prompt_column: str | None = None
    """Column with the prompt, as text, messages or an id."""
    completion_column: str | None = None
    """Column with the completion, read only to show examples."""
    split_column: str | None = None
    """Column that tells training rows from evaluation rows."""
    split: str = "train"
    """Value of the split column whose rows are read."""
    group_size: int | None = None
    """Rollouts of a group, for logs without group ids whose groups are consecutive rows."""
    unscorable: Literal["exclude", "refuse"] = "exclude"
    """What to do with a rollout without a usable reward: count it and leave it out, or refuse the log."""
    progress: Callable[[int, int], None] | None = None
    """Called with the bytes read so far and in all."""
