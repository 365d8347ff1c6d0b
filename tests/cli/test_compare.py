import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner

from corpo_rl.cli.compare import DEFAULT_METHODS, compare
from corpo_rl.errors import MissingExtraError, UsageError
from corpo_rl.experiment.settings import SCALES, check_methods
from corpo_rl.report.schema import check_results
from corpo_rl.tasks.verifier import REWARDS

needs_train = pytest.mark.skipif(find_spec("trl") is None, reason="trains: needs corpo-rl[train]")

QUICK = ["--steps=2", "--prompts-per-step=2", "--micro-batch=16", "--samples=2", "--eval-items=4"]
QUICK += ["--curve-every=2", "--checkpoint-every=1", "--device=cpu"]


def test_choices_written_out_for_a_quick_help_are_the_real_ones():
    (scale,) = (option for option in compare.params if option.name == "scale")
    assert list(scale.type.choices) == list(SCALES)
    check_methods(tuple(DEFAULT_METHODS.split(",")))
    (reward,) = (option for option in compare.params if option.name == "reward")
    assert list(reward.type.choices) == list(REWARDS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "x.jsonl"], "--data: the task 'mini' takes no file, found x.jsonl"),
        (["--scale=small", "--data", "x.jsonl"], "--data: the task pairs takes its file by --pairs"),
        (["--task=pairs", "--data", "x.jsonl"], "--data: the task pairs takes its file by --pairs"),
        (["--task=code"], "--data: expected the path of a file of problems with tests for the task code"),
        (["--task=code", "--data", "x.jsonl", "--reward=brier"], "--reward: the task 'code' has a reward of its own"),
        (["--task=nonsense"], "--task: expected mini, pairs, rubric, code"),
        (["--task=absent.py:Task"], "--task: expected a Python file with a Task class, found no file /.*/absent.py;"),
    ],
)
def test_a_task_that_cannot_be_had_is_told_before_anything_is_made(tmp_path, arguments, message):
    result = CliRunner().invoke(compare, ["--out", str(tmp_path / "out"), *arguments])
    assert isinstance(result.exception, UsageError)
    assert re.search(message, str(result.exception)), result.exception
    assert not (tmp_path / "out").exists()


@needs_train
def test_a_gpu_that_is_not_there_is_told_before_anything_is_made(tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    result = CliRunner().invoke(compare, ["--out", str(tmp_path / "out"), "--device", "cuda"])
    assert "--device: expected a CUDA device that torch can use, found none" in str(result.exception)
    assert not (tmp_path / "out").exists()


def start(out, *arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "corpo_rl", "compare", "--out", str(out), *QUICK, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        # A test run that is itself in the background hands on an ignored SIGINT, and there would be no Ctrl-C to test.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def run(out, *arguments):
    process = start(out, *arguments)
    stdout, stderr = process.communicate(timeout=280)
    assert process.returncode == 0, stderr
    return stdout, stderr


def workers_of(out):
    """Command lines of living processes that work in a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes()
        except OSError:
            continue
        if b"corpo_rl.experiment.worker" in command and str(out).encode() in command:
            found.append(command)
    return found


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("compare") / "out"
    stdout, _ = run(out, "--methods", "corpo")
    return out, stdout


@needs_train
def test_a_comparison_leaves_a_table_results_and_a_report(finished):
    out, stdout = finished
    results = json.loads((out / "results.json").read_text())
    check_results(results)
    assert "corpo" in stdout
    assert str(out / "report.html") in stdout
    assert max(map(len, stdout.splitlines()[:-2])) <= 80
    assert (out / "report.html").read_text().startswith("<!DOCTYPE html>")
    assert json.loads((out / "experiment.json").read_text())["settings"]["device"] is None, "the CPU is the default"
    assert results["splits"].keys() == {"in_domain", "ood", "other_domain"}
    (only,) = results["runs"]
    assert only["curves"]["step"] == [1, 2]
    assert only["evaluation_curves"]["step"] == [0, 2]
    for name in ("r_count", "r_loss", "reinforced_failure_share_grpo", "floored_group_share", "class_mixed"):
        assert len(only["curves"][name]) == 2
    folder = out / "runs" / "corpo-s0"
    for name in ("config.json", "environment.json", "metrics.jsonl", "policy/model.safetensors", "evaluation/ood.json"):
        assert (folder / name).exists(), name
    assert len(list((folder / "completions").glob("*.parquet"))) == 2


@needs_train
def test_what_is_finished_is_not_redone_and_methods_can_be_added(finished):
    out, _ = finished
    before = (out / "runs" / "corpo-s0" / "finished.json").stat().st_mtime_ns
    stdout, stderr = run(out, "--methods", "corpo,grpo", "--json")
    assert "corpo-s0: finished before" in stderr
    assert (out / "runs" / "corpo-s0" / "finished.json").stat().st_mtime_ns == before
    results = json.loads(stdout)
    assert [one["method"] for one in results["runs"]] == ["corpo", "grpo"]
    assert {(one["method"], one["reference"]) for one in results["comparisons"]} == {
        ("corpo", "base"),
        ("grpo", "base"),
        ("corpo", "grpo"),
    }


@needs_train
def test_ctrl_c_ends_the_workers_and_the_same_command_goes_on(tmp_path):
    out = tmp_path / "out"
    process = start(out, "--methods", "corpo", "--steps", "40")
    metrics = out / "runs" / "corpo-s0" / "metrics.jsonl"
    deadline = time.monotonic() + 200
    while not (metrics.exists() and metrics.read_text()):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in stderr
    assert "interrupted" in stderr
    assert workers_of(out) == []
    assert not (out / "results.json").exists()


@pytest.mark.parametrize(("package", "extra"), [("trl", "train"), ("plotly", "report")])
def test_a_missing_extra_is_its_install_line_and_leaves_nothing(monkeypatch, tmp_path, package, extra):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == package else object())
    result = CliRunner().invoke(compare, ["--out", str(tmp_path / "out")])
    assert isinstance(result.exception, MissingExtraError)
    assert str(result.exception).endswith(f"run: pip install 'corpo-rl[{extra}]'")
    assert not (tmp_path / "out").exists()
