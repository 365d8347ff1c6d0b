"""Sweeps for the tests of their reports: made up, of several kinds, with hostile names."""

import copy
import json

import numpy as np

from corpo_rl.report.sweep_schema import SWEEP_VERSION, check_sweep, sweep_json

from .audits import HOSTILE

RANGE = {"name": "learning_rate", "low": 1e-4, "high": 1e-2, "log": True}


def interval(value, half=0.03):
    return {"value": value, "low": value - half, "high": value + half}


NOTHING = {"selection": None, "held_out": None, "by_seed": [], "tied": False}


def document_of(
    n_trials=6,
    *,
    dimensions=None,
    failed=(),
    repeated=(),
    confirmed=True,
    seeds=(0, 1),
    jobs=1,
    direction="maximize",
    hold="rollouts",
    importances=None,
    seed=0,
):
    """A sweep whose trial 1 is the best one, and in which every second other trial ties with it."""
    rng = np.random.default_rng(seed)
    dimensions = dimensions or [
        {"name": "method", "choices": ["corpo", "static"]},
        RANGE,
        {"name": "group_size", "choices": [4, 8, 16]},
        {"name": "min_correct", "choices": [0.2]},
    ]
    sign = 1 if direction == "maximize" else -1
    trials = []
    for number in range(n_trials):
        params = {}
        for one in dimensions:
            if "choices" in one:
                params[one["name"]] = one["choices"][number % len(one["choices"])]
            else:
                params[one["name"]] = float(one["low"] * (one["high"] / one["low"]) ** ((number + 0.5) / n_trials))
        value = 0.5 + sign * (0.2 if number == 1 else float(rng.uniform(-0.1, 0.1)))
        trial = {
            "number": number,
            "state": "finished",
            "params": params,
            "prompts_per_step": 32,
            "same_as": None,
            "reason": None,
            "selection": interval(value),
            "held_out": interval(value - sign * 0.05),
            "by_seed": [value] * len(seeds),
            "tied": number == 1 or number % 2 == 0,
        }
        if number in failed:
            trial |= {"state": "failed", "reason": "corpo-s0: RuntimeError: probability tensor", **NOTHING}
        if number in repeated:
            trial |= {**copy.deepcopy(trials[0]), "number": number, "same_as": 0}
        trials.append(trial)
    best = 1 if any(trial["state"] == "finished" for trial in trials) else None
    titles = {"selection": "in domain, half that chooses", "held_out": "in domain, held out", "ood": "out of domain"}
    document = {
        "schema": SWEEP_VERSION,
        "corpo_rl_version": "0.1.0",
        "created": "2026-01-01T00:00:00+00:00",
        "command": "corpo-rl sweep --learning-rate 1e-4:1e-2:log",
        "settings": {
            "task": "mini",
            "steps": 100,
            "objective": "pass@1",
            "direction": direction,
            "split": "in_domain",
            "judged_by": 0.2,
            "sampler": "tpe",
            "sampler_seed": 0,
            "seeds": list(seeds),
            "hold": hold,
            "jobs": jobs,
            "n_trials": n_trials,
            "level": 0.95,
            "dimensions": dimensions,
        },
        "environment": {"python": "3.11", "torch": None},
        "splits": {
            name: {"title": title, "description": "one right, one wrong", "n_items": 98, "n_problems": 97}
            for name, title in titles.items()
        },
        "trials": trials,
        "start": {name: interval(0.3) for name in titles},
        "best": best,
        "confirmation": {
            "seeds": [8, 9],
            "reason": None,
            "parts": {name: interval(0.61 + place / 100) for place, name in enumerate(titles)},
            "over_start": {name: interval(0.31 + place / 100, 0.04) for place, name in enumerate(titles)},
        }
        if confirmed and best is not None
        else None,
        "importances": importances,
    }
    document = json.loads(sweep_json(document))
    check_sweep(document)
    return document


def hostile():
    """Every text that comes from outside is an attack on the page."""
    names = [*HOSTILE, "corpo"]
    document = document_of(len(names), dimensions=[{"name": "method", "choices": names}, RANGE], failed=(3,))
    document["trials"][3]["reason"] = "".join(HOSTILE)
    document["command"] = document["settings"]["task"] = "".join(HOSTILE)
    for part, text in zip(document["splits"].values(), HOSTILE, strict=False):
        part["title"] = part["description"] = text
    document["environment"] |= {text: text for text in HOSTILE}
    return document


SWEEPS = {
    "usual": document_of(8, failed=(5,), importances={"method": 0.1, "learning_rate": 0.7, "group_size": 0.2}),
    "plain": document_of(3, confirmed=False, seeds=(0,), jobs=2, hold="prompts"),
    "many": document_of(70, failed=(3, 44), repeated=(9, 50)),
    "least": document_of(6, direction="minimize"),
    "all failed": document_of(3, failed=(0, 1, 2)),
    "hostile": hostile(),
}
