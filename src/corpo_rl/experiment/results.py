"""Finished runs on disk -> one dict of results: values with intervals, curves, paired differences."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from corpo_rl._version import __version__
from corpo_rl.core.floorwatch import FloorWatch
from corpo_rl.core.intervals import crossed_bootstrap_interval
from corpo_rl.core.methods import parse_method
from corpo_rl.evaluation import ItemTable, measure_values, summarize, table_from_json
from corpo_rl.experiment.folder import read_json, read_rows
from corpo_rl.experiment.inputs import load_task
from corpo_rl.experiment.settings import VALUE_METHODS, Settings, settings_from_json
from corpo_rl.experiment.worker import BASE, job_name
from corpo_rl.records import EVALUATION_SPLITS, Interval, VerifierItem
from corpo_rl.report.schema import VERSION
from corpo_rl.tasks.base import Task

FLOOR_WINDOW = 20
"""Steps in a row after which an inert or saturated floor is told."""

SPLIT_TEXTS = {
    "in_domain": ("in domain", "one right and one wrong answer, the domain trained on"),
    "ood": ("out of domain", "both answers right or both wrong, the domain trained on"),
    "other_domain": ("other domain", "one right and one wrong answer, another kind of problem"),
}
"""Titles of the splits, and what those of a verifier's pairs hold."""

OTHER_SPLITS = {
    "in_domain": "held out of training, the kind trained on",
    "ood": "held out of training, unlike what was trained on",
    "other_domain": "held out of training, of another domain",
}
"""What those of any other task hold, as far as that can be told."""

CURVES = {
    "reward": "reward",
    "loss": "loss",
    "grad_norm": "grad_norm",
    "entropy": "entropy",
    "completions/mean_length": "completion_length",
    "parse_failure_rate": "parse_failure_rate",
    "task/hedge": "hedge_rate",
    **{
        f"corpo/{name}": name
        for name in (
            "reinforced_failure_share",
            "reinforced_failure_share_grpo",
            "r_count",
            "r_loss",
            "floored_group_share",
            "correct_share",
            "exceeding_share",
            "unscorable",
            "advantage_mean",
            "advantage_abs_mean",
        )
    },
    **{
        f"corpo/groups/{name}": f"class_{name}"
        for name in ("all_failed_equal", "all_failed_graded", "mixed", "all_correct_graded", "all_correct_equal")
    },
}
"""Metric as TRL logs it -> name of its curve in the results."""


def collect(out: Path, *, methods: Sequence[str], seeds: Sequence[int], command: str) -> dict[str, Any]:
    """Everything a report needs, from the finished runs of an experiment.

    Args:
        out: Folder of the experiment.
        methods: Methods to compare, all finished.
        seeds: Their seeds.
        command: The command line, for the record.

    Returns:
        The results, in the schema that docs/results-schema.md describes. Undefined values are None.

    Raises:
        DataError: A file of a run is missing or broken.
    """
    settings = settings_from_json(read_json(out / "experiment.json")["settings"])
    ks = (1,) if settings.k == 1 else (1, settings.k)
    task = load_task(settings, out)
    base = _tables(out / BASE)
    tables = {method: [_tables(out / "runs" / job_name(method, seed)) for seed in seeds] for method in methods}
    reference = "grpo" if "grpo" in methods else methods[0]
    results = {
        "schema": VERSION,
        "corpo_rl_version": __version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command,
        "settings": {
            **asdict(settings),
            "task": task.name if ".py:" in settings.task else settings.task,
            "min_correct": task.min_correct,
            "methods": list(methods),
            "seeds": list(seeds),
            "reference": reference,
        },
        "environment": read_json(out / BASE / "environment.json"),
        "splits": {split: _split(split, len(table.n_samples), task, out) for split, table in base.items()},
        "base": {"evaluation": {split: _summary([table], ks, settings) for split, table in base.items()}},
        "runs": [_run(out, method, seed, ks, settings, task.min_correct) for seed in seeds for method in methods],
        "methods": {
            method: {
                "seeds": list(seeds),
                "evaluation": {split: _summary([table[split] for table in per_seed], ks, settings) for split in base},
            }
            for method, per_seed in tables.items()
        },
        "comparisons": _comparisons(base, tables, reference=reference, ks=ks, level=settings.level),
    }
    return {name: _nan_to_none(part) for name, part in results.items()}


def _tables(folder: Path) -> dict[str, ItemTable]:
    return {
        split: table_from_json(read_json(folder / "evaluation" / f"{split}.json"))
        for split in EVALUATION_SPLITS
        if (folder / "evaluation" / f"{split}.json").exists()
    }


def _split(split: str, n_items: int, task: Task, out: Path) -> dict[str, Any]:
    title, description = SPLIT_TEXTS[split]
    if not all(isinstance(item, VerifierItem) for item in task.items(split)):
        description = OTHER_SPLITS[split]
    too_long = read_json(out / BASE / "items.json")[split]["too_long"]
    return {"title": title, "description": description, "n_items": n_items, "n_too_long": too_long}


def _summary(tables: Sequence[ItemTable], ks: Sequence[int], settings: Settings) -> dict[str, Any]:
    return summarize(tables, ks=ks, level=settings.level)


def _run(
    out: Path, method: str, seed: int, ks: Sequence[int], settings: Settings, min_correct: float
) -> dict[str, Any]:
    folder = out / "runs" / job_name(method, seed)
    rows = read_rows(folder / "metrics.jsonl")
    points = read_rows(folder / "curve.jsonl")
    seconds = [row["step_time"] for row in rows if row.get("step_time") is not None]
    tables = _tables(folder)
    return {
        "method": method,
        "seed": seed,
        "status": "finished",
        "steps": len(rows),
        "train_seconds": round(sum(seconds), 1),
        "evaluation": {split: _summary([table], ks, settings) for split, table in tables.items()},
        "curves": {
            "step": [row["step"] for row in rows],
            **{
                name: [row.get(metric) for row in rows]
                for metric, name in CURVES.items()
                if any(metric in row for row in rows)
            },
        },
        "evaluation_curves": {
            "step": [point["step"] for point in points],
            **{
                split: {measure: [point[split][measure] for point in points] for measure in ("pass@1", "mean_reward")}
                for split in EVALUATION_SPLITS
                if points and split in points[0]
            },
        },
        "warnings": [
            *(floor_warnings(rows, min_correct) if _is_floored(method) else []),
            *unscorable_warnings(rows, tables),
        ],
    }


def _is_floored(method: str) -> bool:
    return method not in VALUE_METHODS and parse_method(method).floored


def floor_warnings(rows: Sequence[Mapping[str, Any]], min_correct: float) -> list[str]:
    """What the trainer's watch over the floor said, told again from the logged steps."""
    watch = FloorWatch(min_correct, window=FLOOR_WINDOW)
    warnings = []
    for row in rows:
        floored, exceeding = row.get("corpo/floored_group_share"), row.get("corpo/exceeding_share")
        if floored is not None and exceeding is not None:
            message = watch.see(floored=floored > 0, exceeded=exceeding > 0)
            if message:
                warnings.append(f"step {row['step']}: {message}")
    return warnings


def unscorable_warnings(rows: Sequence[Mapping[str, Any]], tables: Mapping[str, ItemTable]) -> list[str]:
    """How many completions could not be judged, while training and on each split; nothing where all were."""
    warnings = []
    n_trained = sum(row.get("corpo/unscorable") or 0 for row in rows)
    if n_trained:
        warnings.append(f"{n_trained:g} training completions could not be judged, and nothing was learnt from them")
    for split, table in tables.items():
        missing = sum(table.unscorable.values())
        if missing:
            asked = missing + sum(table.n_samples)
            kinds = ", ".join(sorted(table.unscorable))
            warnings.append(
                f"{SPLIT_TEXTS[split][0]}: {missing:,} of {asked:,} completions could not be judged ({kinds}) and are "
                "in no figure"
            )
    return warnings


def _comparisons(
    base: Mapping[str, ItemTable],
    tables: Mapping[str, Sequence[Mapping[str, ItemTable]]],
    *,
    reference: str,
    ks: Sequence[int],
    level: float,
) -> list[dict[str, Any]]:
    """Paired differences, item by item and seed by seed: each method against the base, and every two methods."""
    pairs = [(method, BASE) for method in tables]
    pairs += [(b, a) if a == reference else (a, b) for a, b in combinations(tables, 2)]
    measures = [f"pass@{k}" for k in ks] + ["mean_reward", "brier"]
    comparisons = []
    for split in base:
        for method, other in pairs:
            mine = measure_values([table[split] for table in tables[method]], ks=ks)
            others = [base[split]] if other == BASE else [table[split] for table in tables[other]]
            theirs = measure_values(others, ks=ks)
            for measure in measures:
                if measure in mine and measure in theirs:
                    difference_SI = mine[measure] - theirs[measure]
                    interval = crossed_bootstrap_interval(difference_SI, rng=np.random.default_rng(0), level=level)
                    comparisons.append(
                        {
                            "split": split,
                            "measure": measure,
                            "method": method,
                            "reference": other,
                            "difference": asdict(interval),
                            "n_items": int(np.isfinite(difference_SI).any(axis=0).sum()),
                            "n_seeds": len(difference_SI),
                            "verdict": _verdict(interval),
                        }
                    )
    return comparisons


def _verdict(interval: Interval) -> str:
    if interval.low > 0:
        return "higher"
    return "lower" if interval.high < 0 else "no difference found"


def _nan_to_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _nan_to_none(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_nan_to_none(part) for part in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
