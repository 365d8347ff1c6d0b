"""Demo logs in tables: TRL's completions, and plain CSV, JSON lines and parquet."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from corpo_rl.demologs.lines import as_float32
from corpo_rl.demologs.simulate import MISSING, Rollouts, SimulatedRun

Contents = Mapping[str, bytes]
"""What each file holds, by its path inside the log's folder."""


def trl(run: SimulatedRun, *, chat: bool = False) -> Contents:
    """`completions_{step:05d}.parquet` as TRL writes them with log_completions=True.

    In a dirty run the last batch comes once more under the next step, as reused generations do, and the file of a step
    half way holds the evaluation's rows instead of training's, as TRL's shared buffer has it. A broken reward is null:
    a parquet column of numbers holds no text.
    """
    files: dict[str, bytes] = {}
    evaluation = run.evaluation
    for step in np.unique(run.train.step_N).tolist():
        rollouts, rows = run.train, np.flatnonzero(run.train.step_N == step).tolist()
        if evaluation is not None and step == int(evaluation.step_N[0]):
            rollouts, rows = evaluation, list(range(len(evaluation.step_N)))
        files[f"completions_{step:05d}.parquet"] = _parquet(_trl_columns(rollouts, rows, step, chat=chat))
    if run.repeated:  # the last batch, trained on once more
        last = int(run.train.step_N[-1])
        rows = np.flatnonzero(run.train.step_N == last).tolist()
        files[f"completions_{last + 1:05d}.parquet"] = _parquet(_trl_columns(run.train, rows, last + 1, chat=chat))
    return files


def _trl_columns(rollouts: Rollouts, rows: Sequence[int], step: int, *, chat: bool) -> dict[str, Any]:
    prompts = [rollouts.prompts[rollouts.prompt_N[row]] for row in rows]
    completions = [rollouts.completions[row] for row in rows]
    rewards = [as_float32(rollouts.reward_values[row]) for row in rows]
    return {
        "step": pa.array([step] * len(rows), pa.int64()),
        "prompt": [[{"role": "user", "content": text}] for text in prompts] if chat else prompts,
        "completion": [[{"role": "assistant", "content": text}] for text in completions] if chat else completions,
        "checks_passed": pa.array([value if isinstance(value, float) else None for value in rewards], pa.float64()),
        "advantage": pa.array([as_float32(float(rollouts.advantages_N[row])) for row in rows], pa.float64()),
    }


def _parquet(columns: Mapping[str, Any]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(dict(columns)), sink)
    return sink.getvalue()


COLUMNS = ("step", "group_id", "prompt", "completion", "reward", "advantage", "length")


def rows_of(run: SimulatedRun) -> list[dict[str, Any]]:
    """The run's training rollouts as rows of a plain table."""
    train = run.train
    rows = []
    for row in range(len(train.step_N)):
        value = train.reward_values[row]
        cells = {
            "step": int(train.step_N[row]),
            "group_id": f"g{train.group_N[row]}",
            "prompt": train.prompts[train.prompt_N[row]],
            "completion": train.completions[row],
            "reward": value,
            "advantage": float(train.advantages_N[row]),
            "length": int(train.lengths_N[row]),
        }
        if value is MISSING:
            del cells["reward"]
        rows.append(cells)
    return rows


def csv_table(run: SimulatedRun) -> Contents:
    """One file with a header; what is missing is an empty cell."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS, restval="")
    writer.writeheader()
    writer.writerows(rows_of(run))
    return {"rollouts.csv": text.getvalue().encode()}


def json_lines(run: SimulatedRun) -> Contents:
    """One object a line; a dirty run's last line is cut off."""
    data = "".join(json.dumps(row) + "\n" for row in rows_of(run)).encode()
    return {"rollouts.jsonl": data[:-40] if run.torn else data}


def parquet_table(run: SimulatedRun) -> Contents:
    """One table; a broken reward is null."""
    rows = rows_of(run)
    columns: dict[str, Any] = {name: [row.get(name) for row in rows] for name in COLUMNS}
    columns["reward"] = pa.array(
        [value if isinstance(value, float) else None for value in columns["reward"]], pa.float64()
    )
    return {"rollouts.parquet": _parquet(columns)}
