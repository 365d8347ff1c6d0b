"""Small logs for the tests of the readers, and what is known about them."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from corpo_rl.rollouts.files import Findings, find_files
from corpo_rl.rollouts.options import ReadOptions
from corpo_rl.rollouts.read import read_rollouts

REWARDS = [0.0, 0.25, 0.5, 1.0]


def table_rows(n_groups=4, rewards=REWARDS):
    """Groups of a plain table, two a step, whose rewards are those given plus a hundredth for each group."""
    return [
        {
            "step": group // 2,
            "group_id": f"g{group}",
            "prompt": f"question {group}",
            "completion": f"answer {group}.{place}",
            "reward": reward + group / 100,
        }
        for group in range(n_groups)
        for place, reward in enumerate(rewards)
    ]


def lines(rows):
    """Rows as JSON lines."""
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def write(path: Path, content):
    """A file of text, bytes or rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, list):
        content = lines(content)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def write_parquet(path: Path, rows_or_columns):
    """A parquet file of rows, or of columns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    is_rows = isinstance(rows_or_columns, list)
    pq.write_table(pa.Table.from_pylist(rows_or_columns) if is_rows else pa.table(rows_or_columns), path)
    return path


def read(path, **options):
    """The log of one path."""
    return read_rollouts([path], ReadOptions(**options))


def the_file(path):
    """A `LogFile` and findings to go with it."""
    (file,) = find_files([path])
    return file, Findings()


def groups_of(log):
    """Multisets of rewards by group: what two logs of one run share, in whatever order they are."""
    members = {}
    for group, reward in zip(log.group_N.tolist(), log.rewards_N.tolist(), strict=True):
        members.setdefault(group, []).append(round(reward, 9))
    return Counter(tuple(sorted(rewards)) for rewards in members.values())


def sizes(log):
    """How many groups have which size."""
    return dict(Counter(np.bincount(log.group_N).tolist()))
