"""Runs killed with SIGKILL at different points finish later with the very numbers of a run left alone."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from corpo_rl.experiment.folder import read_json, read_rows
from corpo_rl.experiment.runner import prepare
from corpo_rl.experiment.settings import MINI
from corpo_rl.experiment.worker import is_finished

pytest.importorskip("trl", reason="trains: needs corpo-rl[train]")

SETTINGS = replace(
    MINI,
    steps=5,
    prompts_per_step=2,
    micro_batch=8,
    samples_per_item=2,
    k=2,
    eval_items=6,
    curve_every=2,
    curve_samples=1,
    checkpoint_every=2,
)
TIMINGS = {"step_time", "train_runtime"}


def start_worker(out: Path, job: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "corpo_rl.experiment.worker", str(out), job],
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def finish(out: Path, job: str) -> None:
    assert start_worker(out, job).wait(timeout=240) == 0


def kill_when(out: Path, job: str, reached) -> None:
    process = start_worker(out, job)
    deadline = time.monotonic() + 240
    while not reached():
        assert process.poll() is None, "the worker ended before the moment at which to kill it"
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()


def numbers_of(folder: Path) -> dict:
    """Every figure of a run that a report may show, timings aside."""
    rows = [
        {name: value for name, value in row.items() if name not in TIMINGS}
        for row in read_rows(folder / "metrics.jsonl")
    ]
    evaluation = {path.name: json.loads(path.read_text()) for path in sorted((folder / "evaluation").glob("*.json"))}
    return {"metrics": rows, "curve": read_rows(folder / "curve.jsonl"), "evaluation": evaluation}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    prepare(out, SETTINGS)
    finish(out, "base")
    finish(out, "corpo-s0")
    return numbers_of(out / "runs" / "corpo-s0")


def test_a_run_killed_at_three_points_ends_with_the_same_numbers(undisturbed, tmp_path):
    out, job = tmp_path / "run", "corpo-s0"
    prepare(out, SETTINGS)
    finish(out, "base")
    folder = out / "runs" / job

    kill_when(out, job, lambda: len(read_rows(folder / "metrics.jsonl")) >= 1)  # before any checkpoint
    kill_when(out, job, lambda: len(read_rows(folder / "metrics.jsonl")) >= 3)  # after one, in the next stretch
    kill_when(out, job, lambda: (folder / "evaluation" / "in_domain.json").exists())  # trained, half evaluated
    assert not is_finished(folder)
    finish(out, job)

    assert is_finished(folder)
    assert numbers_of(folder) == undisturbed
    assert len(undisturbed["metrics"]) == SETTINGS.steps


def test_a_checkpoint_cut_short_is_not_used(undisturbed, tmp_path):
    out, job = tmp_path / "run", "corpo-s0"
    prepare(out, SETTINGS)
    finish(out, "base")
    folder = out / "runs" / job
    kill_when(out, job, lambda: len(read_rows(folder / "metrics.jsonl")) >= 4)
    torn = folder / "checkpoint-400"
    torn.mkdir()
    (torn / "model.safetensors").write_bytes(b"half a file")
    finish(out, job)
    assert numbers_of(folder) == undisturbed


def test_a_finished_run_is_not_run_again(undisturbed, tmp_path):
    out = tmp_path / "run"
    prepare(out, SETTINGS)
    finish(out, "base")
    before = (out / "base" / "evaluation" / "ood.json").stat().st_mtime_ns
    finish(out, "base")
    assert (out / "base" / "evaluation" / "ood.json").stat().st_mtime_ns == before
    assert read_json(out / "base" / "finished.json")
