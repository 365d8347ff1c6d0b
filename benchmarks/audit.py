"""Time reading and auditing a log beside a bare parse of the same file, in turn in one process, and its peak memory.

JSON Lines with 80-word completions are parsed by the faster of orjson and msgspec; parquet is read by pyarrow, the same
columns. Memory is that of a fresh `corpo-rl audit` process. The logs are made up from a seed.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median

import click
import msgspec
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from corpo_rl.audit.document import audit_rollouts
from corpo_rl.demologs.simulate import GradedLog, synthetic_graded
from corpo_rl.rollouts.read import read_rollouts

PARQUET_ROWS = (100_000, 1_000_000, 10_000_000)
COLUMNS = ("step", "prompt_id", "reward")
MIN_CORRECT = 0.8
MB = 1e6

# From a small process, so that the audit's figure holds nothing of the benchmark's own memory.
PEAK = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def write_jsonl(path: Path, log: GradedLog, *, n_words: int = 80) -> None:
    rng = np.random.default_rng(1)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = ["".join(rng.choice(letters, size=size)) for size in rng.integers(2, 10, size=2000)]
    with path.open("w", encoding="utf-8") as file:
        for step, prompt, reward in zip(
            log.step_N.tolist(), log.prompt_N.tolist(), log.rewards_N.tolist(), strict=True
        ):
            text = " ".join([words[place] for place in rng.integers(len(words), size=n_words).tolist()])
            file.write(f'{{"step": {step}, "prompt_id": {prompt}, "reward": {reward}, "completion": "{text}"}}\n')


def write_parquet(path: Path, log: GradedLog, *, text_ids: bool) -> None:
    prompts = pa.array(log.prompt_N)
    if text_ids:
        names = pa.array([f"prompt-{number:05d}" for number in range(int(log.prompt_N.max()) + 1)])
        prompts = names.take(prompts)
    pq.write_table(pa.table([pa.array(log.step_N), prompts, pa.array(log.rewards_N)], names=COLUMNS), path)


def with_orjson(path: Path) -> None:
    with path.open("rb") as file:
        for line in file:
            orjson.loads(line)


def with_msgspec(path: Path) -> None:
    decode = msgspec.json.Decoder().decode
    with path.open("rb") as file:
        for line in file:
            decode(line)


def with_pyarrow(path: Path) -> None:
    pq.read_table(path, columns=list(COLUMNS))


def audit(path: Path) -> None:
    audit_rollouts(read_rollouts([path]), min_correct=MIN_CORRECT)


def seconds_of(candidates: Mapping[str, Callable[[Path], None]], path: Path, *, rounds: int) -> dict[str, float]:
    """Median seconds of each, after one run of each that does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for number in range(rounds + 1):
        for name, run in candidates.items():
            started = time.perf_counter()
            run(path)
            if number:
                seconds[name].append(time.perf_counter() - started)
    return {name: median(times) for name, times in seconds.items()}


def peak_bytes(path: Path) -> int:
    command = [sys.executable, "-m", "corpo_rl", "audit", str(path), "--min-correct", str(MIN_CORRECT)]
    done = subprocess.run([sys.executable, "-c", PEAK, *command], check=True, capture_output=True, text=True)
    return int(done.stdout) * 1024


def told(what: str, n_rows: int, path: Path, seconds: Mapping[str, float], peak: int) -> float:
    """Print a row of the table; the audit's seconds over those of the fastest bare parse."""
    ours = seconds["audit"]
    name, bare = min(((name, value) for name, value in seconds.items() if name != "audit"), key=lambda pair: pair[1])
    others = "".join(f", {other} {value:.3f} s" for other, value in seconds.items() if other not in ("audit", name))
    print(
        f"{what:<20}{n_rows:>11,}{path.stat().st_size / MB:>9.1f}{ours:>9.3f}{bare:>9.3f}{ours / bare:>8.2f}"
        f"{peak / MB:>10.0f}   {name}{others}",
        flush=True,
    )
    return ours / bare


@click.command()
@click.option("--rows", default=PARQUET_ROWS[-1], show_default=True, help="Rows of the largest parquet log.")
@click.option("--rounds", default=7, show_default=True, help="Timed runs of each.")
@click.option("--folder", type=click.Path(path_type=Path), help="Where the logs are kept; a temporary folder if not.")
def main(rows: int, rounds: int, folder: Path | None) -> None:
    """Print seconds, ratios and peak memory, and the aims beside them."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = folder or Path(temporary)
        print(f"{'log':<20}{'rows':>11}{'MB':>9}{'audit s':>9}{'bare s':>9}{'ratio':>8}{'peak MB':>10}   bare parse by")

        n_rows = min(rows, PARQUET_ROWS[0])
        path = folder / f"{n_rows}.jsonl"
        if not path.exists():
            write_jsonl(path, synthetic_graded(n_rows))
        seconds = seconds_of({"orjson": with_orjson, "msgspec": with_msgspec, "audit": audit}, path, rounds=rounds)
        peak = peak_bytes(path)
        ratio = told("JSON Lines", n_rows, path, seconds, peak)
        verdicts = [f"JSON Lines: ratio {ratio:.2f} (aim: at most 2), peak {peak / MB:.0f} MB (aim: at most 120)"]

        for text_ids in (False, True):
            what = "parquet, text ids" if text_ids else "parquet"
            of_a_million = []
            for n_rows in [size for size in PARQUET_ROWS if size <= rows]:
                path = folder / f"{n_rows}{'-text' * text_ids}.parquet"
                if not path.exists():
                    write_parquet(path, synthetic_graded(n_rows), text_ids=text_ids)
                seconds = seconds_of({"pyarrow": with_pyarrow, "audit": audit}, path, rounds=rounds)
                peak = peak_bytes(path)
                ratio = told(what, n_rows, path, seconds, peak)
                of_a_million.append(seconds["audit"] * 1e6 / n_rows)
            verdicts.append(
                f"{what}: ratio {ratio:.2f} (aim: at most 3), peak {peak / MB:.0f} MB (aim: at most 2,000), seconds a "
                f"million {' -> '.join(f'{value:.3f}' for value in of_a_million)} (aim: no growth)"
            )
    print("\n".join(verdicts))


if __name__ == "__main__":
    main()
