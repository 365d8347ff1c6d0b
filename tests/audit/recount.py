"""The audit's figures once more, in plain Python over one group at a time; nothing is shared with the package."""

import math
from collections import defaultdict
from fractions import Fraction


def recount(rollouts, *, min_correct, estimator):
    """Figures of a list of rollouts, each a dict with group, reward (None: unscorable), and maybe step and length.

    Rewards are taken as exact decimals, so that nothing here rounds but the square root.
    """
    groups = defaultdict(list)
    for rollout in rollouts:
        groups[rollout["group"]].append(rollout)
    floor = Fraction(str(min_correct))

    counts = {f"{verdict} {sign}": 0 for verdict in ("failed", "correct") for sign in ("up", "level", "down")}
    mass = dict.fromkeys(counts, 0.0)
    tokens = dict.fromkeys(counts, 0.0)
    classes = dict.fromkeys(
        ("all_failed_equal", "all_failed_graded", "mixed", "all_correct_graded", "all_correct_equal", "unscorable"), 0
    )
    found = {
        "n_groups": len(groups),
        "seeking": 0,
        "not seeking": 0,
        "zero variance": 0,
        "alone": 0,
        "silent": 0,
        "down only": 0,
    }
    steps = defaultdict(lambda: {"failed": 0, "reinforced": 0})
    for members in groups.values():
        scored = [one for one in members if one["reward"] is not None]
        rewards = [Fraction(str(one["reward"])) for one in scored]
        if not rewards:
            classes["unscorable"] += 1
            continue
        verdicts = ["correct" if reward >= floor else "failed" for reward in rewards]
        equal = len(set(rewards)) == 1
        kind = "mixed" if len(set(verdicts)) == 2 else f"all_{verdicts[0]}_{'equal' if equal else 'graded'}"
        classes[kind] += 1
        found["seeking" if sum(rewards) / len(rewards) < floor else "not seeking"] += 1
        found["zero variance"] += equal and len(rewards) > 1
        signs = []
        for one, verdict, advantage in zip(scored, verdicts, advantages(rewards, floor, estimator), strict=True):
            sign = "up" if advantage > 0 else "down" if advantage < 0 else "level"
            signs.append(sign)
            counts[f"{verdict} {sign}"] += 1
            mass[f"{verdict} {sign}"] += abs(float(advantage))
            tokens[f"{verdict} {sign}"] += abs(float(advantage)) * (one.get("length") or 0)
            if verdict == "failed":
                steps[one.get("step")]["failed"] += 1
                steps[one.get("step")]["reinforced"] += sign == "up"
                found["alone"] += sign == "up" and "correct" not in verdicts
        found["silent"] += set(signs) == {"level"}
        found["down only"] += "down" in signs and "up" not in signs
    return {**found, "counts": counts, "mass": mass, "tokens": tokens, "classes": classes, "steps": dict(steps)}


def advantages(rewards, floor, estimator):
    """Advantages of one group, exact but for GRPO's standard deviation."""
    n, total = len(rewards), sum(rewards)
    mean = total / n
    others = [(total - reward) / (n - 1) if n > 1 else None for reward in rewards]
    if estimator == "grpo":
        if len(set(rewards)) == 1:
            return [0] * n
        std = math.sqrt(sum((reward - mean) ** 2 for reward in rewards) / (n - 1))
        return [float(reward - mean) / (std + 1e-4) for reward in rewards]
    if estimator == "dr_grpo":
        return [reward - mean for reward in rewards]
    if estimator == "rloo":
        return [0 if other is None else reward - other for reward, other in zip(rewards, others, strict=True)]
    if estimator == "static":
        return [reward - floor for reward in rewards]
    if estimator == "corpo":
        return [reward - max(floor, mean) for reward in rewards]
    return [
        reward - max(floor, floor if other is None else other) for reward, other in zip(rewards, others, strict=True)
    ]
