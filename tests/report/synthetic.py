"""Results made up from a seed: several methods and seeds, with the gaps and the hostile text real ones may hold."""

import math
import random
from itertools import combinations
from typing import Any

CLASSES = (
    "class_all_failed_equal",
    "class_all_failed_graded",
    "class_mixed",
    "class_all_correct_graded",
    "class_all_correct_equal",
)
SPLITS = {
    "in_domain": {
        "title": "in domain",
        "description": "one right and one wrong answer, training domain",
        "n_items": 196,
    },
    "ood": {
        "title": "out of domain",
        "description": "both answers right or both wrong, training domain",
        "n_items": 98,
    },
    "other_domain": {
        "title": "other domain",
        "description": "one right and one wrong answer, another domain",
        "n_items": 157,
    },
}
GOAL = {"grpo": 0.72, "dr_grpo": 0.76, "static": 0.84, "corpo": 0.86, "loo_corpo": 0.85}
"""Pass@1 in domain each method ends at; the other splits are set below it."""

HOSTILE = [
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    '"><svg onload=window.hacked=1>',
    "\u2028window.hacked = 1\u2029 {{7*7}} ${7*7} %{y} \x1b[2J",
]


def make_results(
    methods: tuple[str, ...] = ("grpo", "dr_grpo", "static", "corpo", "loo_corpo"),
    seeds: tuple[int, ...] = (0,),
    *,
    steps: int = 100,
    random_seed: int = 0,
) -> dict[str, Any]:
    """Results as `compare` writes them; every call with the same arguments gives the same."""
    rng = random.Random(random_seed)
    runs = [_run(rng, method, seed, steps) for method in methods for seed in seeds]
    reference = methods[0]
    pairs = [(method, "base") for method in methods]
    pairs += [(b, a) if a == reference else (a, b) for a, b in combinations(methods, 2)]
    comparisons = [
        _comparison(split, measure, method, other, len(seeds))
        for split in SPLITS
        for method, other in pairs
        for measure in ("pass@1", "mean_reward")
    ]
    return {
        "schema": "corpo-rl.compare/1",
        "corpo_rl_version": "0.1.0",
        "created": "2026-12-01T03:00:00+00:00",
        "command": f"corpo-rl compare --methods {','.join(methods)} --steps {steps} --out runs/demo",
        "settings": {
            "task": "mini",
            "policy": "mini",
            "methods": list(methods),
            "reference": reference,
            "seeds": list(seeds),
            "steps": steps,
            "group_size": 8,
            "prompts_per_step": 32,
            "learning_rate": 0.0003,
            "min_correct": 0.2,
            "k": 16,
            "samples_per_item": 16,
            "temperature": 1.0,
            "level": 0.95,
            "resume": True,
            "pairs": None,
        },
        "environment": {
            "python": "3.11.7",
            "platform": "Linux-6.1.0-x86_64-with-glibc2.36",
            "cpu_count": 2,
            "torch": "2.13.0",
            "trl": "1.16.0",
        },
        "splits": {name: dict(about) for name, about in SPLITS.items()},
        "base": {"evaluation": {split: _evaluation(split, _start(split)) for split in SPLITS}},
        "runs": runs,
        "methods": {
            method: {
                "seeds": list(seeds),
                "evaluation": {split: _evaluation(split, _goal(method, split)) for split in SPLITS},
            }
            for method in methods
        },
        "comparisons": comparisons,
    }


def make_hostile() -> dict[str, Any]:
    """Results whose every free text tries to leave its place, with nulls and missing parts besides."""
    bad, image, quote, lines = HOSTILE
    results = make_results((bad, image, quote), (0, 1), steps=30)
    results["command"] = f"corpo-rl compare --out '{bad}{quote}'"
    results["settings"] |= {bad: image, "note": lines}
    results["environment"] |= {quote: bad, "gpu": None}
    results["splits"]["ood"] |= {"title": bad, "description": quote + lines}
    results["runs"][0]["warnings"] = [bad, image, quote, lines]
    results["runs"][1]["status"] = quote
    del results["runs"][2]["curves"]["r_loss"]
    results["runs"][3]["curves"]["r_count"] = [None] * 30
    results["runs"][4] |= {"curves": {"step": []}, "evaluation_curves": {"step": []}, "evaluation": {}}
    results["methods"][image]["evaluation"]["ood"]["measures"]["pass@1"] = {"value": None, "low": None, "high": None}
    del results["methods"][image]["evaluation"]["other_domain"]
    for row in results["comparisons"][:10]:
        row |= {"difference": {"value": None, "low": None, "high": None}, "verdict": "no difference found"}
    return results


def _goal(method: str, split: str) -> float:
    return GOAL.get(method, 0.6) - {"in_domain": 0.0, "ood": 0.18, "other_domain": 0.32}[split]


def _comparison(split: str, measure: str, method: str, other: str, n_seeds: int) -> dict[str, Any]:
    gap = _goal(method, split) - (_start(split) if other == "base" else _goal(other, split))
    low, high = gap - 0.06, gap + 0.06
    return {
        "split": split,
        "measure": measure,
        "method": method,
        "reference": other,
        "difference": {"value": gap, "low": low, "high": high},
        "n_items": SPLITS[split]["n_items"],
        "n_seeds": n_seeds,
        "verdict": "higher" if low > 0 else "lower" if high < 0 else "no difference found",
    }


def _start(split: str) -> float:
    return {"in_domain": 0.38, "ood": 0.31, "other_domain": 0.24}[split]


def _evaluation(split: str, level: float) -> dict[str, Any]:
    n_items = SPLITS[split]["n_items"]
    values = {
        "pass@1": level,
        "pass@16": min(1.0, 0.9 + level / 8),
        "mean_reward": 1.6 * level - 0.8,
        "brier": 0.35 - level / 4,
        "score_accuracy": (1 + level) / 2,
        "hedge_rate": 0.004 if level > 0.5 else 0.12,
        "parse_failure_rate": 0.02,
    }
    half = 1.3 / math.sqrt(n_items) / 2
    return {
        "n_items": n_items,
        "n_samples": 16 * n_items,
        "measures": {
            name: {
                "value": value,
                "low": max(value - half / 2, -1.0 if name == "mean_reward" else 0.0),
                "high": min(value + half / 2, 1.0),
            }
            for name, value in values.items()
        },
        "parse_failures": {"out_of_range": 3, "no_scores": 1},
    }


def _run(rng: random.Random, method: str, seed: int, steps: int) -> dict[str, Any]:
    every = max(1, steps // 5)
    marks = list(range(0, steps + 1, every))
    evaluation_curves: dict[str, Any] = {"step": marks}
    for split in SPLITS:
        points = []
        for mark in marks:
            value = _start(split) + (_goal(method, split) - _start(split)) * (1 - math.exp(-4 * mark / steps))
            value += rng.gauss(0, 0.012)
            points.append({"value": value, "low": value - 0.045, "high": value + 0.045})
        evaluation_curves[split] = {"pass@1": points, "mean_reward": [dict(point) for point in points]}
    warnings = [f"the floor was saturated in steps 1 to {steps // 5}"] if method == "static" else []
    return {
        "method": method,
        "seed": seed,
        "status": "finished",
        "steps": steps,
        "train_seconds": 61.2 + rng.random(),
        "evaluation": {split: _evaluation(split, _goal(method, split)) for split in SPLITS},
        "curves": _curves(rng, method, steps),
        "evaluation_curves": evaluation_curves,
        "warnings": warnings,
    }


def _curves(rng: random.Random, method: str, steps: int) -> dict[str, list[Any]]:
    curves: dict[str, list[Any]] = {"step": list(range(1, steps + 1))}
    floored = method in {"static", "corpo", "loo_corpo"}
    for step in curves["step"]:
        progress = 1 - math.exp(-3 * step / steps)
        noise = rng.gauss(0, 0.03)
        reinforced = max(0.0, 0.34 * (1 - progress) + noise)
        failed = 0.5 * (1 - progress)
        classes = [0.3 * failed, 0.7 * failed, 0.4, (0.6 - failed) * 0.5, (0.6 - failed) * 0.5]
        values = {
            "reward": -0.4 + 1.1 * progress + noise,
            "reinforced_failure_share": 0.0 if floored else reinforced,
            "reinforced_failure_share_grpo": reinforced,
            "r_count": (0.3 if floored else 0.9) + progress + noise,
            "r_loss": -(0.2 if floored else 0.7) - progress / 2 + noise,
            "floored_group_share": max(0.0, min(1.0, 0.95 - 0.6 * progress + noise)),
            **dict(zip(CLASSES, classes, strict=True)),
            "unscorable": 0,
            "grad_norm": 1.2 - progress + abs(noise),
            "loss": noise,
            "entropy": 1.1 - 0.8 * progress + noise,
            "completion_length": 6 + 4 * noise,
        }
        if method == "static" and step == steps // 2:  # a step in which nothing could be scored
            values = dict.fromkeys(values, None)
        for name, value in values.items():
            curves.setdefault(name, []).append(value)
    return curves
