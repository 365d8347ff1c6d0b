"""A task and a sampling callable -> what the policy can do, item by item, with counts of what was left out."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpo_rl.core.intervals import crossed_bootstrap_interval
from corpo_rl.core.passk import pass_at_k
from corpo_rl.errors import DataError
from corpo_rl.records import Graded
from corpo_rl.tasks.base import Task, grade_all

Sampler = Callable[[Sequence[str], int], list[list[str]]]
"""Prompts and n -> n completions of each prompt."""


@dataclass(frozen=True)
class ItemTable:
    """What n completions of each item of a split were worth. Lists run over the items, in the task's order."""

    split: str
    n_samples: list[int]
    """Completions sampled, but for those that could not be judged: these are in `unscorable` and in nothing else."""
    n_correct: list[int]
    """Completions whose reward reached the task's `min_correct`."""
    n_parsed: list[int]
    """Completions that held an answer; the others are counted in `parse_failures`."""
    reward_sum: list[float]
    """Sum of the rewards, in task units, the task's `unparsable_reward` included."""
    measure_sums: dict[str, list[float]]
    """Sums of the task's own measures over the parsed completions."""
    parse_failures: dict[str, int]
    """Completions that did not parse, by kind, over all items."""
    unscorable: dict[str, int] = field(default_factory=dict)
    """Completions of which nothing can be said, by reason, over all items."""


def evaluate(
    task: Task, split: str, sample: Sampler, *, n_samples: int, items: Sequence[Any] | None = None
) -> ItemTable:
    """Sample `n_samples` completions of every item of a split and grade them.

    Args:
        task: The task; its prompts go to `sample` as they are.
        split: Name of the split.
        sample: Where completions come from.
        n_samples: Completions per item, at least 1.
        items: The items to use; by default all of `task.items(split)`.

    Raises:
        DataError: The split has no items, or `sample` returned another number of completions than asked for.
    """
    items = task.items(split) if items is None else items
    if not items:
        raise DataError(f"split {split!r}: expected at least one item, found none")
    completions = sample([task.prompt(item) for item in items], n_samples)
    if len(completions) != len(items) or any(len(row) != n_samples for row in completions):
        raise DataError(f"split {split!r}: the sampler did not return {n_samples} completions for each item")

    graded = _graded_rows(task, items, completions)
    unscorable = Counter(one.failure for row in graded for one in row if one.failure is not None and not one.scorable)
    graded = [[one for one in row if one.scorable] for row in graded]
    names = sorted({name for row in graded for one in row for name in one.measures})
    return ItemTable(
        split=split,
        n_samples=[len(row) for row in graded],
        n_correct=[sum(one.correct for one in row) for row in graded],
        n_parsed=[sum(one.failure is None for one in row) for row in graded],
        reward_sum=[math.fsum(one.reward for one in row) for row in graded],
        measure_sums={name: [_sum_of(name, row) for row in graded] for name in names},
        parse_failures=dict(Counter(one.failure for row in graded for one in row if one.failure is not None)),
        unscorable=dict(unscorable),
    )


def _graded_rows(task: Task, items: Sequence[Any], completions: Sequence[Sequence[str]]) -> list[list[Graded]]:
    asked = [(item, text) for item, row in zip(items, completions, strict=True) for text in row]
    graded = iter(grade_all(task, [item for item, _ in asked], [text for _, text in asked]))
    return [[next(graded) for _ in row] for row in completions]


def summarize(tables: Sequence[ItemTable], *, ks: Sequence[int], level: float = 0.95, seed: int = 0) -> dict[str, Any]:
    """The figures of one split: values with intervals by item and, given several tables, by training seed.

    Args:
        tables: One table per training seed, all over the same items.
        ks: The k of each pass@k.
        level: Coverage of the intervals.
        seed: Seed of the bootstrap.

    Returns:
        `n_items`, `n_samples` (over all tables), `measures` (name -> value, low, high; NaN where undefined),
        `parse_failures` (kind -> count) and, where there are any, `unscorable` (reason -> count).
    """
    measures = {
        name: asdict(crossed_bootstrap_interval(values_SI, rng=np.random.default_rng(seed), level=level))
        for name, values_SI in measure_values(tables, ks=ks).items()
    }
    failures: Counter[str] = Counter()
    unscorable: Counter[str] = Counter()
    for table in tables:
        failures.update(table.parse_failures)
        unscorable.update(table.unscorable)
    return {
        "n_items": len(tables[0].n_samples),
        "n_samples": sum(sum(table.n_samples) for table in tables),
        "measures": measures,
        "parse_failures": dict(sorted(failures.items())),
        **({"unscorable": dict(sorted(unscorable.items()))} if unscorable else {}),
    }


def measure_values(tables: Sequence[ItemTable], *, ks: Sequence[int]) -> dict[str, NDArray[np.float64]]:
    """Each figure of each seed at each item, NaN where undefined. Shape [S, I] each.

    pass@k (unbiased, NaN where fewer than k were judged), mean_reward, parse_failure_rate, and the task's measures
    over the parsed completions of the item (the verifier's `hedge` under the name `hedge_rate`).
    """
    columns: dict[str, list[NDArray[np.float64]]] = {}
    for table in tables:
        n_I, parsed_I = np.array(table.n_samples), np.array(table.n_parsed)
        for k in ks:
            columns.setdefault(f"pass@{k}", []).append(pass_at_k(np.array(table.n_correct), n_I, k=k))
        with np.errstate(invalid="ignore"):  # an item of which no completion was judged: 0 / 0
            reward_I, failed_I = np.array(table.reward_sum) / n_I, 1 - parsed_I / n_I
        columns.setdefault("mean_reward", []).append(reward_I)
        for name, sums in table.measure_sums.items():
            with np.errstate(invalid="ignore"):
                rate_I = np.where(parsed_I > 0, np.array(sums) / np.maximum(parsed_I, 1), np.nan)
            columns.setdefault("hedge_rate" if name == "hedge" else name, []).append(rate_I)
        columns.setdefault("parse_failure_rate", []).append(failed_I)
    # A seed whose completions never parsed has no measures of its own: undefined there, not absent for all.
    n_items = len(tables[0].n_samples)
    return {
        name: np.stack(rows) if len(rows) == len(tables) else _with_undefined(name, tables, n_items)
        for name, rows in columns.items()
    }


def _with_undefined(name: str, tables: Sequence[ItemTable], n_items: int) -> NDArray[np.float64]:
    rows = [measure_values([table], ks=()).get(name, np.full((1, n_items), np.nan)) for table in tables]
    return np.concatenate(rows)


def _sum_of(name: str, row: Sequence[Graded]) -> float:
    return math.fsum(one.measures[name] for one in row if one.failure is None)


def table_to_json(table: ItemTable) -> Mapping[str, Any]:
    """The table as plain lists and numbers, for a file."""
    return asdict(table)


def table_from_json(data: Mapping[str, Any]) -> ItemTable:
    """The table that `table_to_json` wrote."""
    return ItemTable(**data)
