"""Finished trials on disk -> one dict of results: the best setting, what ties with it, what fresh seeds say of it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpo_rl._version import __version__
from corpo_rl.experiment.folder import read_json
from corpo_rl.experiment.results import SPLIT_TEXTS
from corpo_rl.experiment.worker import BASE
from corpo_rl.records import EVALUATION_SPLITS, Interval
from corpo_rl.report.sweep_schema import HELD_OUT, SELECTION, SWEEP_VERSION
from corpo_rl.sweep.plan import START, Plan
from corpo_rl.sweep.space import NAMES, Value
from corpo_rl.sweep.statistics import best_trial, intervals, selection_half, tied_with_best
from corpo_rl.sweep.study import FINISHED, Study, Trial
from corpo_rl.sweep.trial import (
    OUTCOME,
    confirm_folder,
    objective_values,
    problems,
    run_tables,
    start_table,
    trial_folder,
)


def chosen_trial(trials: Sequence[Trial], *, minimize: bool) -> Trial | None:
    """The finished trial with the best value, the first of equals; None when none finished."""
    finished = [trial for trial in trials if trial.state == FINISHED and trial.same_as is None]
    if not finished:
        return None
    sign = -1.0 if minimize else 1.0
    return finished[best_trial([sign * (np.nan if trial.value is None else trial.value) for trial in finished])]


def collect(
    out: Path,
    plan: Plan,
    study: Study,
    *,
    n_trials: int,
    confirm_seeds: Sequence[int],
    jobs: int,
    command: str,
) -> dict[str, Any]:
    """Everything a report needs, from the finished trials of a sweep.

    Args:
        out: Folder of the sweep.
        plan: Its plan.
        study: Its trials, all finished or failed.
        n_trials: Trials that were asked for.
        confirm_seeds: Seeds under which the chosen setting was trained again; empty for none.
        jobs: Trials that ran side by side.
        command: The command line, for the record.

    Returns:
        The results, in the schema that docs/sweep.md describes. Undefined values are NaN.

    Raises:
        DataError: A file is missing or broken.
    """
    trials = study.trials()
    chosen = chosen_trial(trials, minimize=plan.minimize)
    items = {split: problems(out, split) for split in EVALUATION_SPLITS if split in read_json(out / "problems.json")}
    half_I = selection_half(items[plan.split])
    own = [trial for trial in trials if trial.state == FINISHED and trial.same_as is None]
    values_TSI = np.array([_values(out, plan, trial) for trial in own])
    about = _about(plan, own, values_TSI, items[plan.split], half_I)
    shared = {**asdict(plan.settings), **{name: value for name, value in plan.to_json().items() if name != "settings"}}
    return {
        "schema": SWEEP_VERSION,
        "corpo_rl_version": __version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command,
        "settings": {**shared, "n_trials": n_trials, "jobs": jobs, "fixed": plan.fixed},
        "environment": read_json(out / START / BASE / "environment.json"),
        "splits": _splits(plan, items, half_I),
        "trials": [_trial(out, plan, trial, about) for trial in trials],
        "start": {name: asdict(interval) for name, interval in _start(out, plan, items, half_I).items()},
        "best": None if chosen is None else chosen.number,
        "confirmation": None
        if chosen is None or not confirm_seeds
        else _confirmation(out, plan, chosen, items, half_I),
        "importances": study.importances(),
    }


def _values(out: Path, plan: Plan, trial: Trial) -> NDArray[np.float64]:
    method, _ = plan.trial(trial.params, out)
    tables = run_tables(trial_folder(out, trial.number), plan, method=method, seeds=plan.seeds, split=plan.split)
    return objective_values(plan, tables)


def _about(
    plan: Plan,
    own: Sequence[Trial],
    values_TSI: NDArray[np.float64],
    problem_I: NDArray[np.int64],
    half_I: NDArray[np.bool_],
) -> dict[int, dict[str, Any]]:
    """Trial -> its intervals on both halves, its mean under each seed, and whether it ties with the best."""
    if not own:
        return {}
    level = plan.settings.level
    chosen_TSI, held_TSI = values_TSI[:, :, half_I], values_TSI[:, :, ~half_I]
    selection = intervals(chosen_TSI, problem_I[half_I], level=level)
    held_out = intervals(held_TSI, problem_I[~half_I], level=level)
    tied = tied_with_best(chosen_TSI, problem_I[half_I], minimize=plan.minimize, level=level)
    found = {}
    for place, trial in enumerate(own):
        found[trial.number] = {
            SELECTION: asdict(selection[place]),
            HELD_OUT: asdict(held_out[place]),
            "by_seed": [_mean(values_I) for values_I in chosen_TSI[place]],
            "tied": tied[place],
        }
    return found


def _mean(values: NDArray[np.float64]) -> float:
    defined = values[np.isfinite(values)]
    return float(defined.mean()) if len(defined) else float("nan")


def _trial(out: Path, plan: Plan, trial: Trial, about: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    source = trial.number if trial.same_as is None else trial.same_as
    nothing: dict[str, Any] = {SELECTION: None, HELD_OUT: None, "by_seed": [], "tied": False}
    _, settings = plan.trial(trial.params, out)
    params: dict[str, Value] = {**plan.fixed, **trial.params}
    return {
        "number": trial.number,
        "state": trial.state,
        "params": {name: params[name] for name in NAMES if name in params},
        "prompts_per_step": settings.prompts_per_step,
        "same_as": trial.same_as,
        "reason": trial.reason,
        **about.get(source, nothing),
    }


def _splits(plan: Plan, items: Mapping[str, NDArray[np.int64]], half_I: NDArray[np.bool_]) -> dict[str, Any]:
    """The parts that figures are over: both halves of the split that chooses, then the splits that nobody chose by."""
    title, description = SPLIT_TEXTS[plan.split]
    parts = {
        SELECTION: (f"{title}, half that chooses", description, items[plan.split][half_I]),
        HELD_OUT: (f"{title}, held out", description, items[plan.split][~half_I]),
        **{split: (*SPLIT_TEXTS[split], problem_I) for split, problem_I in items.items() if split != plan.split},
    }
    return {
        name: {
            "title": title,
            "description": about,
            "n_items": len(problem_I),
            "n_problems": len(np.unique(problem_I)),
        }
        for name, (title, about, problem_I) in parts.items()
    }


def _parts(
    plan: Plan,
    values: Mapping[str, NDArray[np.float64]],
    items: Mapping[str, NDArray[np.int64]],
    half_I: NDArray[np.bool_],
) -> dict[str, Interval]:
    """Figures over each part, from values of each split in shape [S, I]."""
    found = {}
    for split, values_SI in values.items():
        problem_I = items[split]
        everything = np.ones(len(problem_I), dtype=bool)
        halves = {SELECTION: half_I, HELD_OUT: ~half_I} if split == plan.split else {split: everything}
        for name, part_I in halves.items():
            (found[name],) = intervals(values_SI[None, :, part_I], problem_I[part_I], level=plan.settings.level)
    return found


def _start(
    out: Path, plan: Plan, items: Mapping[str, NDArray[np.int64]], half_I: NDArray[np.bool_]
) -> dict[str, Interval]:
    values = {split: objective_values(plan, [start_table(out, split)]) for split in items}
    return _parts(plan, values, items, half_I)


def _confirmation(
    out: Path, plan: Plan, chosen: Trial, items: Mapping[str, NDArray[np.int64]], half_I: NDArray[np.bool_]
) -> dict[str, Any]:
    folder = confirm_folder(out, chosen.number)
    told = read_json(folder / OUTCOME)
    confirmed: dict[str, Any] = {"seeds": told["seeds"], "reason": told["reason"], "parts": {}, "over_start": {}}
    if told["reason"] is not None:
        return confirmed
    method, _ = plan.trial(chosen.params, out)
    values, over = {}, {}
    for split in items:
        tables = run_tables(folder, plan, method=method, seeds=told["seeds"], split=split)
        values[split] = objective_values(plan, tables)
        over[split] = values[split] - objective_values(plan, [start_table(out, split)])
    confirmed["parts"] = {name: asdict(found) for name, found in _parts(plan, values, items, half_I).items()}
    confirmed["over_start"] = {name: asdict(found) for name, found in _parts(plan, over, items, half_I).items()}
    return confirmed
