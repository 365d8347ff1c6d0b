"""A sweep killed with SIGKILL, in a trial and between two, finds what one left alone on a local Ray found."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from importlib.util import find_spec

import pytest

from corpo_rl.report.sweep_schema import check_sweep
from corpo_rl.report.sweep_text import sweep_text

pytest.importorskip("trl", reason="trains: needs corpo-rl[train]")
pytest.importorskip("optuna", reason="needs corpo-rl[sweep]")

# with this seed all three are drawn once, the one that diverges last
SWEEP = ["--learning-rate=3e-4,3e-3,1e30", "--sampler-seed=10", "--trials=3", "--objective=mean_reward"]
QUICK = ["--steps=2", "--prompts-per-step=2", "--samples=2", "--eval-items=4", "--checkpoint-every=1"]


def start(out, *more):
    return subprocess.Popen(
        [sys.executable, "-m", "corpo_rl", "sweep", "--out", str(out), *SWEEP, *QUICK, *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def finish(out, *more):
    process = start(out, *more)
    stdout, stderr = process.communicate(timeout=280)
    assert process.returncode == 0, stderr
    return stdout, stderr


def kill_when(out, reached):
    with start(out, "--confirm-seeds=none") as process:
        deadline = time.monotonic() + 240
        while not reached():
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    on_ray = ["--ray=local", "--jobs=2"] if find_spec("ray") else []
    finish(out, "--confirm-seeds=none", *on_ray)
    return out, json.loads((out / "results.json").read_text())


def test_a_diverged_trial_is_failed_and_has_no_value(undisturbed):
    _, results = undisturbed
    check_sweep(results)
    failed = results["trials"][2]
    assert failed["params"]["learning_rate"] == 1e30
    assert (failed["state"], failed["selection"], failed["tied"]) == ("failed", None, False)
    assert "RuntimeError" in failed["reason"]
    assert results["best"] in (0, 1)
    assert results["confirmation"] is None


def test_killed_in_a_trial_and_between_two_it_finds_the_same(undisturbed, tmp_path):
    whole, expected = undisturbed
    out = tmp_path / "out"
    shutil.copytree(whole / "start", out / "start")  # the policy that trials start from: made once is enough
    shutil.copyfile(whole / "sweep.json", out / "sweep.json")
    trial = out / "trials" / "0000"
    metrics = trial / "runs" / "corpo-s0" / "metrics.jsonl"
    kill_when(out, lambda: metrics.exists() and metrics.read_text().count("\n") >= 1)
    assert not (trial / "outcome.json").exists()
    kill_when(out, lambda: (trial / "outcome.json").exists())
    assert not (out / "trials" / "0001" / "outcome.json").exists()

    stdout, stderr = finish(out, "--confirm-seeds=none")
    results = json.loads((out / "results.json").read_text())
    assert results["trials"] == expected["trials"]
    assert (results["best"], results["start"], results["splits"]) == (
        expected["best"],
        expected["start"],
        expected["splits"],
    )
    check_sweep(results)
    assert stdout.startswith(sweep_text(results))
    assert str(out / "report.html") in stdout
    assert "trial 2 of 3: failed: corpo-s0: RuntimeError" in stderr
    assert (out / "report.html").read_text().startswith("<!DOCTYPE html>")
