"""Logs for the tests, in memory: as lists of rollouts, and as what a reader would hand over."""

import numpy as np

from corpo_rl.records import RolloutLog


def rollout_log(rollouts, **fields):
    """A `RolloutLog` of dicts with group, reward (None: unscorable), maybe step, prompt, length, advantage, label."""
    numbers = {}
    group_N = np.array([numbers.setdefault(one["group"], len(numbers)) for one in rollouts], dtype=np.intp)
    first = {int(group): row for row, group in reversed(list(enumerate(group_N)))}
    prompts = {}

    def column(key):
        if not any(key in one for one in rollouts):
            return None
        return np.array([np.nan if one.get(key) is None else float(one[key]) for one in rollouts])

    def by_group(key, number):
        if key != "step" and not any(key in one for one in rollouts):
            return None
        if key not in rollouts[0]:
            return None
        return np.array([number(rollouts[first[group]][key]) for group in range(len(numbers))], dtype=np.int64)

    return RolloutLog(
        **{
            "format": "table",
            "title": "table",
            "sources": ("run.jsonl",),
            "grouped_by": "group",
            "rewards_N": column("reward"),
            "group_N": group_N,
            "file_N": np.zeros(len(rollouts), dtype=np.int32),
            "row_N": np.arange(1, len(rollouts) + 1),
            "step_G": by_group("step", int),
            "prompt_G": by_group("prompt", lambda name: prompts.setdefault(name, len(prompts))),
            "advantages_N": column("advantage"),
            "lengths_N": column("length"),
            "labels_N": column("label"),
            "label_column": "acc" if column("label") is not None else "",
            "n_rows": len(rollouts),
            **fields,
        }
    )


def graded(n_groups, *, seed, sizes=(8,), nulls=0.0, lengths=True):
    """Rollouts of a policy that fails often, rewards in tenths; steps of 10 groups."""
    rng = np.random.default_rng(seed)
    rollouts = []
    for group in range(n_groups):
        skill = rng.beta(0.5, 1.5)
        for _ in range(int(rng.choice(sizes))):
            reward = round(float(np.clip(skill + rng.normal(0, 0.25), -0.2, 1.0)), 1)
            rollouts.append(
                {
                    "group": group,
                    "prompt": f"p{group % max(n_groups // 2, 1)}",
                    "step": group // 10,
                    "reward": None if rng.random() < nulls else reward,
                    **({"length": int(rng.integers(5, 200))} if lengths else {}),
                }
            )
    return rollouts
