"""Demo logs of the frameworks that write JSON Lines: which file holds which line, in each framework's own fields."""

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from corpo_rl.demologs.simulate import MISSING, SCENARIOS, Rollouts, SimulatedRun


@dataclass(frozen=True)
class Line:
    """One line of a log."""

    record: Mapping[str, Any]
    rows: tuple[int, ...]
    """The training rollouts it holds, as rows of `SimulatedRun.train`; none for a line of the evaluation."""


Files = Mapping[str, list[Line]]
"""Lines of each file, by its path inside the log's folder."""


def as_float32(value: object) -> object:
    """The number as a framework logs it that keeps rewards in float32; anything else as it is.

    Example:
        >>> as_float32(0.1), as_float32(None)
        (0.10000000149011612, None)
    """
    return float(np.float32(value)) if isinstance(value, float) else value


def verl(run: SimulatedRun, rng: np.random.Generator) -> Files:
    """A dump of `trainer.rollout_data_dir`, V1: `uid` is the key of a row, `{uid}_{session}_{index}`."""
    uids = [_hex(rng, dashes=True) for _ in range(int(run.train.group_N.max()) + 1)]
    files: dict[str, list[Line]] = {}
    for row in _rows(run):
        record = _verl_record(run.train, row)
        record["uid"] = f"{uids[run.train.group_N[row]]}_{run.train.sample_N[row]}_0"
        files.setdefault(f"{run.train.step_N[row]}.jsonl", []).append(Line(record, (row,)))
    return {name: sorted(lines, key=lambda line: str(line.record["uid"])) for name, lines in files.items()}


def verl_legacy(run: SimulatedRun, rng: np.random.Generator) -> Files:
    """The same dump of the older trainer: no ids, rows balanced over the workers and so out of order, a label `acc`."""
    label_at = SCENARIOS[run.scenario].label_at
    files: dict[str, list[Line]] = {}
    for row in range(len(run.train.step_N)):  # nothing tells a repeated row from an equal one, so none is repeated
        record = _verl_record(run.train, row)
        reward = float(run.train.rewards_N[row])
        record["acc"] = None if np.isnan(reward) else float(reward >= label_at)
        files.setdefault(f"{run.train.step_N[row]}.jsonl", []).append(Line(record, (row,)))
    for lines in files.values():
        order = rng.permutation(len(lines))
        lines[:] = [lines[i] for i in order]
    return files


def _verl_record(rollouts: Rollouts, row: int) -> dict[str, Any]:
    return {
        "input": f"user\n{rollouts.prompts[rollouts.prompt_N[row]]}\nassistant\n",
        "output": rollouts.completions[row],
        "gts": "all checks pass",
        **_reward("score", as_float32(rollouts.reward_values[row])),
        "step": int(rollouts.step_N[row]),
    }


def open_instruct(run: SimulatedRun, rng: np.random.Generator) -> Files:
    """Traces of `save_traces`: token ids, reward and advantage; the group is step and prompt_idx."""
    batch = _first_row_of_step(run.train)
    lines = []
    for row in _rows(run):
        sample_idx = row - batch[int(run.train.step_N[row])]
        record = {
            "step": int(run.train.step_N[row]),
            "sample_idx": sample_idx,
            "prompt_idx": sample_idx // run.group_size,
            "prompt_tokens": _tokens(rng, len(run.train.prompts[run.train.prompt_N[row]].split())),
            "response_tokens": _tokens(rng, run.train.lengths_N[row]),
            **_reward("reward", run.train.reward_values[row]),
            "advantage": float(run.train.advantages_N[row]),
            "finish_reason": "stop",
            "dataset": "demo",
            "ground_truth": "all checks pass",
            "request_info": {"num_calls": 0, "timeouts": 0, "tool_errors": ""},
            "logprobs": None,
        }
        lines.append(Line(record, (row,)))
    return {
        f"demo_rollouts_{shard:06d}.jsonl": lines[shard * 10_000 : (shard + 1) * 10_000]
        for shard in range(-(-len(lines) // 10_000))
    }


def tinker(run: SimulatedRun, rng: np.random.Generator) -> Files:
    """Rollout summaries, one folder an iteration; no texts and no advantages."""
    files: dict[str, list[Line]] = {}
    for row in _rows(run):
        name = f"iteration_{run.train.step_N[row] - 1:06d}/train_rollout_summaries.jsonl"
        record = _tinker_record(run.train, row, split="train", first=_first_row_of_step(run.train), size=run.group_size)
        files.setdefault(name, []).append(Line(record, (row,)))
    if run.evaluation is not None:
        name = f"iteration_{run.evaluation.step_N[0] - 1:06d}/eval_demo_rollout_summaries.jsonl"
        first = _first_row_of_step(run.evaluation)
        files[name] = [
            Line(_tinker_record(run.evaluation, row, split="eval/demo", first=first, size=2), ())
            for row in range(len(run.evaluation.step_N))
        ]
    return files


def _tinker_record(rollouts: Rollouts, row: int, *, split: str, first: Mapping[int, int], size: int) -> dict[str, Any]:
    step = int(rollouts.step_N[row])
    value = rollouts.reward_values[row]
    turn = {
        "step_idx": 0,
        "ob_len": len(rollouts.prompts[rollouts.prompt_N[row]].split()),
        "ac_len": int(rollouts.lengths_N[row]),
        "reward": None if value is MISSING else value,
        "episode_done": True,
        "stop_reason": "stop",
        "metrics": {},
        "logs": {},
    }
    return {
        "schema_version": 1,
        "split": split,
        "iteration": step - 1,
        "group_idx": (row - first[step]) // size,
        "traj_idx": int(rollouts.sample_N[row]),
        "tags": ["demo"],
        "sampling_client_step": step - 1,
        **_reward("total_reward", value),
        "final_reward": 0.0,
        "trajectory_metrics": {},
        "steps": [turn],
        "final_ob_len": 0,
    }


def verifiers(run: SimulatedRun, rng: np.random.Generator) -> Files:
    """Results of an evaluation: no steps, so only the first group of each prompt."""
    lines = []
    for row in _rows_of_first_groups(run.train):
        value = run.train.reward_values[row]
        record = {
            "example_id": int(run.train.prompt_N[row]),
            "prompt": [{"role": "user", "content": run.train.prompts[run.train.prompt_N[row]]}],
            "completion": [{"role": "assistant", "content": run.train.completions[row]}],
            "task": "default",
            "generation_ms": round(float(rng.uniform(500, 5000)), 4),
            "scoring_ms": round(float(rng.uniform(1, 50)), 4),
            "info": {},
            "answer": "all checks pass",
            **_reward("reward", value),
            "checks_passed": None if value is MISSING else value,
            "num_turns": 1.0,
        }
        lines.append(Line(record, (row,)))
    return {"results.jsonl": lines}


def atropos(run: SimulatedRun, rng: np.random.Generator) -> Files:
    """Scored groups as sent to the trainer, one a line; masks are -100 over the prompt."""
    lines = []
    for rows in np.split(np.arange(len(run.train.group_N)), np.flatnonzero(np.diff(run.train.group_N)) + 1):
        prompt = run.train.prompts[run.train.prompt_N[rows[0]]]
        prompt_tokens = _tokens(rng, len(prompt.split()))
        answers = [_tokens(rng, run.train.lengths_N[row]) for row in rows]
        values = [run.train.reward_values[row] for row in rows]
        record = {
            "tokens": [prompt_tokens + answer for answer in answers],
            "masks": [[-100] * len(prompt_tokens) + answer for answer in answers],
            "scores": [None if value is MISSING else value for value in values],
            "advantages": None,
            "ref_logprobs": None,
            "messages": [
                [{"role": "user", "content": prompt}, {"role": "assistant", "content": run.train.completions[row]}]
                for row in rows
            ],
            "generation_params": None,
            "group_overrides": {},
            "overrides": None,
            "images": None,
        }
        lines.append(Line(record, tuple(rows.tolist())))
    return {"demo_rollouts.jsonl": lines}


def nemo_gym(run: SimulatedRun, rng: np.random.Generator) -> Files:
    """Collected rollouts of an environment: no steps, so only the first group of each prompt."""
    lines = []
    for row in _rows_of_first_groups(run.train):
        prompt, n_tokens = run.train.prompts[run.train.prompt_N[row]], int(run.train.lengths_N[row])
        answer: dict[str, Any] = {
            "annotations": [],
            "text": run.train.completions[row],
            "type": "output_text",
            "logprobs": None,
        }
        record = {
            "responses_create_params": {"input": [{"role": "user", "content": prompt, "type": "message"}]},
            "response": {
                "id": f"resp_{_hex(rng)}",
                "object": "response",
                "output": [{"type": "message", "role": "assistant", "status": "completed", "content": [answer]}],
                "usage": {
                    "input_tokens": len(prompt.split()),
                    "output_tokens": n_tokens,
                    "total_tokens": len(prompt.split()) + n_tokens,
                },
            },
            **_reward("reward", run.train.reward_values[row]),
            "_ng_task_index": int(run.train.prompt_N[row]),
            "_ng_rollout_index": int(run.train.sample_N[row]),
            "agent_ref": {"name": "demo_agent"},
        }
        lines.append(Line(record, (row,)))
    return {"rollouts.jsonl": lines}


def areal(run: SimulatedRun, rng: np.random.Generator) -> Files:
    """Dumped trajectories: a file for each task, in a folder for each version of the weights."""
    files: dict[str, list[Line]] = {}
    for row in _rows(run):
        record = _areal_record(run.train, row)
        name = f"rollout/{record['tail_version']}/{record['task_id']}.jsonl"
        files.setdefault(name, []).append(Line(record, (row,)))
    for row in range(0 if run.evaluation is None else len(run.evaluation.step_N)):
        record = _areal_record(run.evaluation, row)  # type: ignore[arg-type]  # the range is empty without one
        name = f"eval-rollout/{record['tail_version']}/{record['task_id']}.jsonl"
        files.setdefault(name, []).append(Line(record, ()))
    return files


def _areal_record(rollouts: Rollouts, row: int) -> dict[str, Any]:
    version, n_tokens = int(rollouts.step_N[row]) - 1, int(rollouts.lengths_N[row])
    prompt = rollouts.prompts[rollouts.prompt_N[row]]
    return {
        "task_id": int(rollouts.group_N[row]),
        "sample_idx": int(rollouts.sample_N[row]),
        "seqlen": len(prompt.split()) + n_tokens,
        "prompt_len": len(prompt.split()),
        "head_version": version,
        "tail_version": version,
        "version_rle": [[version, n_tokens]],
        **_reward("reward", as_float32(rollouts.reward_values[row])),
        "prompt": prompt,
        "completion": rollouts.completions[row],
    }


def ms_swift(run: SimulatedRun, rng: np.random.Generator) -> Files:
    """`completions.jsonl`: one object of columns for each log."""
    lines = []
    for step in np.unique(run.train.step_N).tolist():
        rows = np.flatnonzero(run.train.step_N == step).tolist()
        values = [as_float32(run.train.reward_values[row]) for row in rows]
        record = {
            "step": [str(step)] * len(rows),
            "prompt": [run.train.prompts[run.train.prompt_N[row]] for row in rows],
            "completion": [run.train.completions[row] for row in rows],
            "checks_passed": [None if value is MISSING else value for value in values],
            "advantages": [as_float32(float(run.train.advantages_N[row])) for row in rows],
        }
        lines.append(Line(record, tuple(rows)))
    return {"completions.jsonl": lines}


def prime_rl(run: SimulatedRun, rng: np.random.Generator) -> Files:
    """Episodes of an orchestrator: all of them, and again those of groups whose advantages are not all 0."""
    files: dict[str, list[Line]] = {}
    groups = [_hex(rng) for _ in range(int(run.train.group_N.max()) + 1)]
    moved = np.bincount(run.train.group_N, weights=np.abs(run.train.advantages_N)) > 0
    episodes: dict[int, dict[str, Any]] = {}
    for row in _rows(run):
        group = int(run.train.group_N[row])
        if row not in episodes:  # a repeated row is the same episode, id and all
            episodes[row] = _episode(run.train, row, rng, group=groups[group], kind="train")
        record = episodes[row]
        folder = f"rollouts/step_{run.train.step_N[row]}/train"
        files.setdefault(f"{folder}/all/traces.jsonl", []).append(Line(record, (row,)))
        if moved[group]:
            files.setdefault(f"{folder}/effective/traces.jsonl", []).append(Line(record, (row,)))
    if run.evaluation is not None:
        name = f"rollouts/step_{run.evaluation.step_N[0]}/eval/all/traces.jsonl"
        groups = [_hex(rng) for _ in range(int(run.evaluation.group_N.max()) + 1)]
        files[name] = [
            Line(_episode(run.evaluation, row, rng, group=groups[run.evaluation.group_N[row]], kind="eval"), ())
            for row in range(len(run.evaluation.step_N))
        ]
    return files


def _episode(rollouts: Rollouts, row: int, rng: np.random.Generator, *, group: str, kind: str) -> dict[str, Any]:
    step, prompt_number = int(rollouts.step_N[row]), int(rollouts.prompt_N[row])
    prompt, n_tokens = rollouts.prompts[prompt_number], int(rollouts.lengths_N[row])
    n_prompt_tokens = len(prompt.split())
    task = {"type": "DemoTask", "data": {"idx": prompt_number, "prompt": prompt}, "key": f"demo/{prompt_number}"}
    value = rollouts.reward_values[row]
    scored = isinstance(value, float)
    question = {
        "message": {"role": "user", "content": prompt},
        "sampled": False,
        "token_ids": _tokens(rng, n_prompt_tokens),
        "mask": [False] * n_prompt_tokens,
    }
    answer: dict[str, Any] = {
        "parent": 0,
        "message": {"role": "assistant", "content": rollouts.completions[row]},
        "sampled": True,
        "token_ids": _tokens(rng, n_tokens),
        "mask": [True] * n_tokens,
    }
    if kind == "train":
        answer["advantages"] = [float(rollouts.advantages_N[row])] * n_tokens
    trace = {
        "version": 1,
        "id": _hex(rng),
        "task": task,
        "agent": {"name": "solver", "trainable": True},
        "nodes": [question, answer],
        "rewards": {} if value is MISSING else {"checks": {"score": value, "weight": 1.0} if scored else None},
        "metrics": {},
        "info": {},
        "is_completed": True,
        "ok": scored,
    }
    return {
        "id": _hex(rng),
        "env": {"id": "demo", "name": "demo"},
        "task": task,
        "group": {"id": group},
        "run": {"type": "train", "id": "demo", "work": {"type": kind, "step": step}},
        "ok": scored,
        "errors": [],
        "traces": [trace],
    }


LINE_FORMATS: Mapping[str, Callable[[SimulatedRun, np.random.Generator], Files]] = {
    "verl": verl,
    "verl-legacy": verl_legacy,
    "open_instruct": open_instruct,
    "tinker": tinker,
    "verifiers": verifiers,
    "atropos": atropos,
    "nemo_gym": nemo_gym,
    "areal": areal,
    "ms_swift": ms_swift,
    "prime_rl": prime_rl,
}


def _rows(run: SimulatedRun) -> Iterator[int]:
    """Every training row, and right after the last row of a group its repeated rows again."""
    groups = run.train.group_N
    repeats: dict[int, list[int]] = {}
    for row in run.repeated:
        repeats.setdefault(int(groups[row]), []).append(row)
    for row in range(len(groups)):
        yield row
        if row + 1 == len(groups) or groups[row + 1] != groups[row]:
            yield from repeats.get(int(groups[row]), [])


def _rows_of_first_groups(rollouts: Rollouts) -> list[int]:
    _, first = np.unique(rollouts.prompt_N, return_index=True)
    return np.flatnonzero(np.isin(rollouts.group_N, rollouts.group_N[first])).tolist()


def _first_row_of_step(rollouts: Rollouts) -> dict[int, int]:
    steps, first = np.unique(rollouts.step_N, return_index=True)
    return dict(zip(steps.tolist(), first.tolist(), strict=True))


def _reward(name: str, value: object) -> dict[str, object]:
    return {} if value is MISSING else {name: value}


def _tokens(rng: np.random.Generator, n: int | np.integer[Any]) -> list[int]:
    tokens: list[int] = rng.integers(100, 32_000, size=int(n)).tolist()
    return tokens


def _hex(rng: np.random.Generator, *, dashes: bool = False) -> str:
    value = uuid.UUID(bytes=rng.bytes(16), version=4)
    return str(value) if dashes else value.hex
