"""Records of runs -> one document of results, small enough to keep: counts of some steps together, a digit an item."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from corpo_rl.study.plan import Plan

SCHEMA = "corpo-rl.study/1"

COUNTED = ("up", "down")
COUNTED_BY_THRESHOLD = ("failed", "failed_up", "floored")

CLIPPED_AT = 1.0
"""Gradient norm above which the trainer clips."""

Results = dict[str, Any]
"""What `collect` returns."""


def collect(plan: Plan, records: Sequence[Mapping[str, Any]], *, rates: Mapping[str, float], n_planned: int) -> Results:
    """The results of a study, whole or in part.

    Args:
        plan: What was to be run.
        records: Records of the runs there are, in the plan's order.
        rates: Learning rates, as `plan.matched_rates` gave them.
        n_planned: Runs that the plan holds.

    Returns:
        schema, plan, rates, n_planned, environments (each once), and runs: of each its identity, learning rate,
        seconds, the number of its environment, `series` (counts added up and sizes averaged over `bin` steps), and
        `evaluation` as `execution.split_counts` made it. Everything else is computed from these.
    """
    environments: list[Any] = []
    runs = []
    for record in records:
        if record["environment"] not in environments:
            environments.append(record["environment"])
        runs.append(_compact(record, environments.index(record["environment"])))
    return {
        "schema": SCHEMA,
        "plan": {
            "sizes": asdict(plan.sizes),
            "thresholds": {reward: list(values) for reward, values in plan.thresholds.items()},
            **{name: list(getattr(plan, name)) for name in ("methods", "seeds", "pilot_seeds", "few_seeds")},
        },
        "rates": dict(rates),
        "n_planned": n_planned,
        "environments": environments,
        "runs": runs,
    }


def _compact(record: Mapping[str, Any], environment: int) -> dict[str, Any]:
    run = {
        **record["run"],
        "learning_rate": record["learning_rate"],
        "seconds": record["seconds"]["all"],
        "environment": environment,
    }
    for name in ("base_sha256", "evaluation", "rounds"):
        if name in record:
            run[name] = record[name]
    if "series" in record:
        series, size = record["series"], record["sizes"]["bin"]
        run["series"] = {
            "reward": _averaged(series["reward"], size),
            "update": _averaged(series["update"], size),
            **{name: _added(series[name], size) for name in COUNTED},
            **{
                name: {threshold: _added(values, size) for threshold, values in series[name].items()}
                for name in COUNTED_BY_THRESHOLD
            },
        }
        run["n_clipped"] = sum(norm is not None and norm > CLIPPED_AT for norm in series["gradient"])
    return run


def _added(values: Sequence[int], size: int) -> list[int]:
    return [sum(values[start : start + size]) for start in range(0, len(values), size)]


def _averaged(values: Sequence[float | None], size: int) -> list[float | None]:
    """Means to four digits; None where a value is undefined."""
    found: list[float | None] = []
    for start in range(0, len(values), size):
        part = [value for value in values[start : start + size] if value is not None]
        found.append(float(f"{math.fsum(part) / len(part):.4g}") if len(part) == size else None)
    return found


def results_text(results: Results) -> str:
    """The results as a file: a run a line, so that a change of one shows as one."""
    head = {name: value for name, value in results.items() if name != "runs"}
    runs = ",\n".join(json.dumps(run, separators=(",", ":"), allow_nan=False) for run in results["runs"])
    return json.dumps(head, indent=1, allow_nan=False)[:-2] + ',\n "runs": [\n' + runs + "\n ]\n}\n"
