"""Audit thousands of broken logs: each must give a document that is valid, or one line that says what is wrong.

    python fuzz/audit.py --seeds 0:20000 --out failures

A case is told by its seed alone. Found to be wrong: any other exception, a warning, a message of several lines, a
document that does not validate or loses count of a row, or more than `--limit` seconds. Such an input is saved with its
traceback.
"""

import faulthandler
import json
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import click
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from corpo_rl.audit.document import audit_rollouts
from corpo_rl.core.advantages import ESTIMATORS
from corpo_rl.demologs.lines import LINE_FORMATS
from corpo_rl.demologs.simulate import SCENARIOS, SimulatedRun, simulate_run
from corpo_rl.errors import CorpoError
from corpo_rl.report.audit_html import audit_html
from corpo_rl.report.audit_markdown import audit_markdown
from corpo_rl.report.audit_schema import audit_json, check_audit
from corpo_rl.report.audit_text import audit_text
from corpo_rl.rollouts.detect import FORMATS
from corpo_rl.rollouts.options import ReadOptions
from corpo_rl.rollouts.read import read_with_texts

sys.path.insert(0, str(Path(__file__).parent))
from mutate import STRANGE_NAMES, mutate, packed

LONGEST_MESSAGE = 4000


class OutOfTime(BaseException):
    """Raised into a case by the alarm; no Exception, so that no handler of ours can take it for a broken row."""


class Wrong(Exception):
    """An outcome that is no exception, and wrong all the same."""


@dataclass(frozen=True)
class SeedLog:
    """A valid log: its files by path."""

    name: str
    files: Mapping[str, bytes]
    options: ReadOptions = field(default_factory=ReadOptions)
    """What has to be told about it."""

    @staticmethod
    def kind(path: str) -> str:
        """What a file holds: "json", "csv" or "parquet"."""
        return {"parquet": "parquet", "csv": "csv"}.get(path.rpartition(".")[2], "json")


def seed_logs() -> list[SeedLog]:
    """A small log of every format, healthy, graded and dirty."""
    logs = []
    for scenario in SCENARIOS:
        run = simulate_run(scenario, seed=0, n_steps=3)
        for name, write in LINE_FORMATS.items():
            files = write(run, np.random.default_rng(0))
            logs.append(
                SeedLog(
                    f"{name} {scenario}",
                    {
                        path: "".join(f"{json.dumps(line.record)}\n" for line in lines).encode()
                        for path, lines in files.items()
                    },
                )
            )
        logs += [_trl(run, scenario), *_tables(run, scenario)]
    return logs


def _trl(run: SimulatedRun, scenario: str) -> SeedLog:
    rollouts, files = run.train, {}
    for step in np.unique(rollouts.step_N).tolist():
        rows = np.flatnonzero(rollouts.step_N == step).tolist()
        chats = [[{"role": "user", "content": rollouts.prompts[rollouts.prompt_N[row]]}] for row in rows]
        table = pa.table(
            {
                "step": [step] * len(rows),
                "prompt": chats if scenario == "dirty" else [chat[0]["content"] for chat in chats],
                "completion": [rollouts.completions[row] for row in rows],
                "graded": np.float32(rollouts.rewards_N[rows]).astype(np.float64),
                "format_reward": np.float32(rollouts.lengths_N[rows] % 2 / 10).astype(np.float64),
                "advantage": np.float32(rollouts.advantages_N[rows]).astype(np.float64),
            }
        )
        files[f"completions/completions_{step:05d}.parquet"] = _parquet(table)
    return SeedLog(f"trl {scenario}", files, ReadOptions(reward_weights={"graded": 1.0, "format_reward": 0.2}))


def _tables(run: SimulatedRun, scenario: str) -> list[SeedLog]:
    rollouts = run.train
    rows = list(range(len(rollouts.step_N)))
    table = pa.table(
        {
            "step": rollouts.step_N,
            "group_id": rollouts.group_N,
            "prompt": [rollouts.prompts[rollouts.prompt_N[row]] for row in rows],
            "completion": rollouts.completions,
            "reward": rollouts.rewards_N,
            "advantage": rollouts.advantages_N,
            "length": rollouts.lengths_N,
            "acc": rollouts.rewards_N >= SCENARIOS[scenario].label_at,
        }
    )
    lines = "".join(f"{json.dumps(record)}\n" for record in table.to_pylist()).encode()
    text = pa.BufferOutputStream()
    pa.csv.write_csv(table, text)
    return [
        SeedLog(f"csv {scenario}", {"run.csv": text.getvalue().to_pybytes()}),
        SeedLog(f"jsonl {scenario}", {"run.jsonl": lines}),
        SeedLog(f"parquet {scenario}", {"run.parquet": _parquet(table)}, ReadOptions(reward_columns=("reward",))),
    ]


def _parquet(table: pa.Table) -> bytes:
    out = pa.BufferOutputStream()
    pq.write_table(table, out)
    return bytes(out.getvalue().to_pybytes())


def write_case(seed: int, logs: list[SeedLog], folder: Path) -> tuple[str, list[Path], ReadOptions, dict[str, Any]]:
    """Write the case's files; its log's name, the paths to read, and how."""
    rng = random.Random(seed)
    log = rng.choice(logs)
    hit = set(rng.sample(sorted(log.files), rng.choice([1, 1, len(log.files)])))
    for path, data in log.files.items():
        suffix = ""
        if path in hit:
            data = mutate(log.kind(path), data, rng)
            if log.kind(path) != "parquet":
                data, suffix = packed(data, rng)
        if rng.random() < 0.02:
            suffix += rng.choice([".parquet", ".csv", ".jsonl", ".json", ".gz", ".txt", ".pt"])
        target = folder / (path + suffix)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    if rng.random() < 0.05:
        (folder / rng.choice(["a.jsonl", "z.csv", "m.parquet"])).write_bytes(rng.choice([b"", b"\n", b"{}", b"a,b\n"]))
    paths = [folder] if len(log.files) > 1 or rng.random() < 0.3 else sorted(folder.rglob("*.*"))
    return log.name, paths, log.options if rng.random() < 0.7 else _options(rng), _settings(rng)


def _options(rng: random.Random) -> ReadOptions:
    names = ["reward", "score", "step", "prompt", "group_id", "acc", "graded", "advantage", "length", "uid"]

    def name(chance: float) -> str | None:
        return rng.choice([*names, *STRANGE_NAMES]) if rng.random() < chance else None

    columns = tuple(filter(None, (name(0.2), name(0.1))))
    return ReadOptions(
        format=rng.choice(FORMATS).name if rng.random() < 0.3 else None,
        reward_columns=columns,
        reward_weights=rng.choice([None, None, (1.0, 0.2), {"reward": 2.0}, (float("nan"),), (0.0,)]),
        group_columns=tuple(filter(None, (name(0.2), name(0.1)))),
        group_size=rng.choice([None, None, None, 1, 2, 8, 1000]),
        step_column=name(0.1),
        correct_column=rng.choice([None, None, "acc", "reward"]),
        advantage_column=name(0.1),
        length_column=name(0.1),
        prompt_column=name(0.1),
        completion_column=name(0.1),
        split_column=name(0.05),
        unscorable=rng.choice(["exclude", "exclude", "exclude", "refuse"]),
    )


def _settings(rng: random.Random) -> dict[str, Any]:
    return {
        "min_correct": rng.choice([0.8, 0.8, 0.8, 1.0, 0.0, None, None, -1e308, 1e308, float("nan")]),
        "estimator": rng.choice(["grpo", "grpo", "grpo", *ESTIMATORS]),
        "claimed": rng.choice([None, None, *ESTIMATORS]),
    }


def run_case(paths: list[Path], options: ReadOptions, settings: Mapping[str, Any]) -> str:
    """The kind of outcome.

    Raises:
        Wrong: A message of several lines, or JSON that is none.
    """
    try:
        log, read_texts = read_with_texts(paths, options)
        document = audit_rollouts(log, command="corpo-rl audit", created="now", read_texts=read_texts, **settings)
        check_audit(document)
        check_sums(document)
        json.loads(audit_json(document), parse_constant=_no_constant)
        for write in (audit_text, audit_markdown, audit_html):
            write(document).encode("utf-8")
    except CorpoError as error:
        message = str(error)
        if not 10 < len(message) <= LONGEST_MESSAGE or len(message.splitlines()) != 1:
            raise Wrong(f"a message of {len(message)} characters: {message}") from error
        return type(error).__name__
    return "document"


def check_sums(document: Mapping[str, Any]) -> None:
    """Every row is accounted for.

    Raises:
        Wrong: Counts that should agree do not.
    """
    log, n_rollouts = document["log"], document["n_rollouts"]
    pairs = {
        "rows": (log["n_rows"], n_rollouts + sum(log["dropped"].values())),
        "unscorable": (document["n_unscorable"], sum(log["unscorable"].values())),
        "groups": (document["n_groups"], sum(log["group_sizes"].values())),
        "rollouts": (n_rollouts, sum(int(size) * n for size, n in log["group_sizes"].items())),
    }
    if document["group_classes"] is not None:
        pairs["classes"] = (document["n_groups"], sum(document["group_classes"].values()))
    if document["min_correct"] is not None:
        known = n_rollouts - document["n_unscorable"] - document["n_without_advantage"]
        pairs["failed and correct"] = (known, document["n_failed"] + document["n_correct"])
    for name, (one, other) in pairs.items():
        if one != other:
            raise Wrong(f"{name}: {one} and {other}")


def _no_constant(name: str) -> None:
    raise Wrong(f"{name} in the JSON")


def _alarm(signum: int, frame: FrameType | None) -> None:
    raise OutOfTime


def fuzz(seeds: range, *, out: Path, limit: int, told: Callable[[str], None]) -> Counter[str]:
    """Run the cases; how many ended how. Inputs of wrong ones are kept in `out`."""
    logs = seed_logs()
    outcomes: Counter[str] = Counter()
    slowest = (0.0, 0, "")
    signal.signal(signal.SIGALRM, _alarm)
    for seed in seeds:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary, "log")
            folder.mkdir()
            name, paths, options, settings = write_case(seed, logs, folder)
            faulthandler.dump_traceback_later(3 * limit, exit=True)  # for what no alarm can interrupt
            signal.alarm(limit)
            started = time.perf_counter()
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    outcome = run_case(paths, options, settings)
            except (Exception, OutOfTime) as error:
                outcome = f"WRONG: {type(error).__name__}"
                kept = out / f"{seed}"
                shutil.copytree(folder, kept, dirs_exist_ok=True)
                (kept / "why.txt").write_text(
                    f"{name}\n{options}\n{settings}\n{traceback.format_exc()}", encoding="utf-8", errors="replace"
                )
                told(f"seed {seed} ({name}): {type(error).__name__}: {' '.join(str(error).split())[:200]}")
            finally:
                signal.alarm(0)
                faulthandler.cancel_dump_traceback_later()
            slowest = max(slowest, (time.perf_counter() - started, seed, name))
            outcomes[outcome] += 1
    told(f"slowest: {slowest[0]:.2f} s, seed {slowest[1]} ({slowest[2]})")
    return outcomes


def _range(text: str) -> range:
    first, _, last = text.partition(":")
    return range(int(first), int(last) if last else int(first) + 1)


@click.command()
@click.option("--seeds", default="0:1000", show_default=True, help="First seed and the one after the last.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("fuzz-failures"), show_default=True)
@click.option("--limit", default=20, show_default=True, help="Seconds a case may take.")
def main(seeds: str, out: Path, limit: int) -> None:
    """Exit with 1 when a case ended wrong."""
    started = time.perf_counter()
    cases = _range(seeds)
    outcomes = fuzz(cases, out=out, limit=limit, told=click.echo)
    click.echo(f"{len(cases):,} cases in {time.perf_counter() - started:.0f} s")
    for outcome, count in outcomes.most_common():
        click.echo(f"{count:>8,}  {outcome}")
    sys.exit(any(outcome.startswith("WRONG") for outcome in outcomes))


if __name__ == "__main__":
    main()
