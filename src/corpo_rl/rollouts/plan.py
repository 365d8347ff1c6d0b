"""What a log format is: how to recognise it and which column plays which part.

To add a format, write a file with a `Format` and add it to `FORMATS` in `detect.py`. Most formats are only a `Plan`:

- One row per rollout: name the columns. `rewards`, `group` (with `step_in_group=True` where an id could come back at
  another step), `step`, `advantage`, `length`, `label`, `prompt`, `split`, and `texts` for the examples.
- One record holding many rollouts, or nested fields: give `explode(record) -> rows`. It gets a record as a dict and
  returns flat dicts, one per rollout; the column names of the plan are then those of the flat dicts. Name in `fields`
  the top-level fields it looks at, so that the others are never built. A field that is not there is left out of the
  row, which is then counted as "no field"; an explode must not invent values, and may raise KeyError, TypeError,
  ValueError, AttributeError or IndexError on a record it cannot read, which is then counted as broken.
- Columns to be rewritten in bulk (an id to be taken apart): `transform(columns) -> columns`, lists in, lists out.
- Rows to be dropped or groups to be told by more than equal keys: `prepare(table, plan, options) -> plan`, which may
  drop rows of the table, add key columns to it and name them in the plan it returns.

`matches(sample)` sees the columns of one file with a first value each. A log whose files match two formats goes to the
one that stands first in `FORMATS`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corpo_rl.rollouts.options import ReadOptions

if TYPE_CHECKING:
    from corpo_rl.rollouts.load import Table

Columns = dict[str, list[Any]]

MADE_HERE = "\N{MIDDLE DOT}"
"""How the names of columns begin that no log has, but a format makes of others."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The columns of one file, or of all files together, as seen in their first rows."""

    kind: str
    """ "json", "csv" or "parquet"."""
    name: str
    """Path of the (first) file."""
    columns: Mapping[str, Any]
    """First value that is not null of each column, or None."""
    numeric: frozenset[str] = frozenset()
    """Columns that hold numbers or bools, as far as seen."""
    asked_for: bool = True
    """Whether the user named this very file, rather than its folder."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Which column of a log plays which part. Column names are those of the rows, after `explode` or `transform`."""

    rewards: tuple[str, ...]
    """Reward columns; the reward is their weighted sum."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Weight of each reward column; 1 where left out."""
    none_adds_zero: bool = False
    """Whether a missing component adds 0 as long as another is there, as in TRL; else the rollout is unscorable."""
    group: tuple[str, ...] = ()
    """Key columns that together name a group; empty when `prepare` adds them, or with `group_size`."""
    title: str = ""
    """The kind of log in words, where the format knows it more closely than its own title says."""
    grouped_by: str = ""
    """How groups are told, in words; empty: the names of the columns."""
    step: str | None = None
    step_in_group: bool = False
    """Whether the step is part of the group's name."""
    step_of_path: Callable[[Path], int | None] | None = None
    """The step as told by the name of a file, where no column holds it."""
    advantage: str | None = None
    length: str | None = None
    length_unit: str = "tokens"
    label: str | None = None
    prompt: str | None = None
    """Key column that names the prompt: an id, a text or messages."""
    split: str | None = None
    """Key column whose value must be the wanted split."""
    texts: tuple[str | None, str | None] = (None, None)
    """Columns with the prompt and the completion, read only to show examples."""
    numbers: tuple[str, ...] = ()
    """Further columns that `prepare` reads as numbers."""
    row_key: tuple[str, ...] = ()
    """Columns that together name a row: a row that is there already is dropped, and counted."""
    keys: tuple[str, ...] = ()
    """Further columns that `prepare` reads as keys."""
    explode: Callable[[dict[str, Any]], list[dict[str, Any]]] | None = None
    fields: tuple[str, ...] = ()
    """Top-level fields that `explode` or `transform` looks at; empty for explode: all."""
    transform: Callable[[Columns], Columns] | None = None
    prepare: "Callable[[Table, Plan, ReadOptions], Plan] | None" = None
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Format:
    """A log format."""

    name: str
    """As `--format-in` takes it."""
    title: str
    """In words: "verl V1 rollouts"."""
    matches: Callable[[Sample], bool]
    plan: Callable[[Sample, ReadOptions], Plan]
    """The plan for a log of which the sample shows all columns. Raises DataError or UsageError with what to pass."""
