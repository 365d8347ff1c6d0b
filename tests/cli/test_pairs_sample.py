import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
import tqdm
from click.testing import CliRunner

from corpo_rl.cli.main import cli
from tests.policies.fake_server import chat, echo, fake_server, slowly


@pytest.fixture
def problems(tmp_path):
    path = tmp_path / "problems.jsonl"
    rows = [
        {"problem_id": f"p{number}", "text": f"What is {number}+1?", "tests": {"answer": str(number + 1)}}
        for number in range(6)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def invoke(*arguments):
    return CliRunner().invoke(cli, ["pairs", "sample", *map(str, arguments)])


def rows(out):
    return [json.loads(line) for line in out.read_text().splitlines()]


def test_answers_of_an_endpoint(problems, tmp_path):
    out = tmp_path / "c.jsonl"
    with fake_server(lambda body, number: (200, {}, chat("\\boxed{4}", "length"))) as server:
        result = invoke(f"{server.url}#fake", problems, "--n", 2, "--out", out)
    assert result.exit_code == 0, result.output
    counts = r"12 of 12 answers: 12 cut by --max-new-tokens, 0 empty, 6 that repeat another; \d+ s\."
    assert re.search(counts, result.stdout)
    assert "Half of them or more repeat another answer" in result.stdout
    assert {row["source"] for row in rows(out)} == {"fake"}


def test_a_budget_is_kept_and_said(problems, tmp_path):
    out = tmp_path / "c.jsonl"
    with fake_server(echo) as server:
        result = invoke(f"{server.url}#fake", problems, "--n", 2, "--out", out, "--max-requests", 5)
        assert "5 of 12 answers" in result.stdout
        assert "The budget is used up" in result.stdout
        result = invoke(f"{server.url}#fake", problems, "--n", 2, "--out", out)
    assert "12 of 12 answers, 5 of them before" in result.stdout
    assert len(server.bodies) == 12


def test_the_speed_shown_is_that_of_this_call(problems, tmp_path, monkeypatch):
    bars = []

    class Bar(tqdm.tqdm):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            bars.append(self)

    monkeypatch.setattr("tqdm.tqdm", Bar)
    with fake_server(echo) as server:
        for _ in range(2):
            invoke(f"{server.url}#fake", problems, "--n", 2, "--out", tmp_path / "c.jsonl", "--max-requests", 4)
    assert [(bar.initial, bar.n, bar.total) for bar in bars] == [(0, 4, 12), (4, 8, 12)]


def test_a_budget_of_tokens_is_kept_and_said(problems, tmp_path):
    out = tmp_path / "c.jsonl"

    def script(body, number):
        return 200, {}, chat(f"answer {number}") | {"usage": {"completion_tokens": 10}}

    with fake_server(script) as server:
        command = (f"{server.url}#fake", problems, "--n", 2, "--out", out, "--max-new-tokens", 10, "--max-tokens", 45)
        assert "4 of 12 answers: " in (first := invoke(*command)).stdout
        assert "The budget is used up; the same command goes on." in first.stdout
        assert "8 of 12 answers, 4 of them before" in invoke(*command).stdout
        assert "12 of 12 answers, 8 of them before" in (last := invoke(*command)).stdout
    assert "The budget is used up" not in last.stdout
    assert "repeat another answer" not in last.stdout
    refused = invoke(*command[:-1], 9, "--n", 3)
    assert "a budget of 9 tokens: one answer may take 10" in str(refused.exception)


def test_an_endpoint_that_fails_is_one_line_and_nothing_is_lost(problems, tmp_path):
    out = tmp_path / "c.jsonl"

    def script(body, number):
        return (200, {}, "<html>") if "What is 3" in body["messages"][0]["content"] else echo(body, number)

    with fake_server(script) as server:
        result = invoke(f"{server.url}#fake", problems, "--n", 1, "--out", out, "--retries", 0)
    assert str(result.exception).startswith(f"{server.url}: 1 of 6 requests failed")
    assert f"5 of 6 answers are in {out}; the same command goes on." in result.stderr
    assert len(rows(out)) == 5


def test_killed_in_the_middle_the_same_command_finishes(problems, tmp_path):
    out = tmp_path / "c.jsonl"
    with fake_server(slowly(echo, 0.1)) as server:
        command = [sys.executable, "-m", "corpo_rl", "pairs", "sample", f"{server.url}#fake", str(problems)]
        command += ["--n", "8", "--out", str(out), "--concurrency", "2"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not (out.exists() and out.stat().st_size):
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        n_before = len(out.read_bytes().split(b"\n")) - 1
        assert 0 < n_before < 48
        result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    assert f"48 of 48 answers, {n_before} of them before" in result.stdout
    assert len({(row["problem_id"], row["candidate_id"]) for row in rows(out)}) == len(rows(out)) == 48


def test_ctrl_c_is_one_line_and_the_same_command_finishes(problems, tmp_path):
    out = tmp_path / "c.jsonl"
    with fake_server(lambda body, number: echo(body, number) if number < 5 else None) as server:
        command = [sys.executable, "-m", "corpo_rl", "pairs", "sample", f"{server.url}#fake", str(problems)]
        command += ["--n", "8", "--out", str(out)]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # a test run in the background hands on an ignored SIGINT, and there would be no Ctrl-C to test
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        try:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and not (out.exists() and out.read_bytes().count(b"\n") == 5):
                time.sleep(0.05)
            os.kill(process.pid, signal.SIGINT)
            _, error = process.communicate(timeout=20)
        finally:
            process.kill()
    assert process.returncode == 130
    assert error.splitlines()[-3:] == [f"5 of 48 answers are in {out}; the same command goes on.", "", "interrupted"]
    assert len(rows(out)) == 5


def test_a_local_job_that_was_stopped_gives_what_it_would_have_given(problems, tmp_path):
    whole, parts = tmp_path / "whole.jsonl", tmp_path / "parts.jsonl"
    command = ("mini", problems, "--n", 3, "--max-new-tokens", 6, "--temperature", 1)
    invoke(*command, "--out", whole)
    for options in (("--max-requests", 4), ("--max-tokens", 24), ()):
        assert invoke(*command, "--out", parts, *options).exit_code == 0
    assert len(rows(whole)) == 18
    assert sorted(map(str, rows(parts))) == sorted(map(str, rows(whole)))


def test_several_greedy_answers_are_refused(problems, tmp_path):
    result = invoke("mini", problems, "--n", 2, "--temperature", 0, "--out", tmp_path / "c.jsonl")
    assert "n 2 at temperature 0: all answers would be the same" in str(result.exception)


def test_without_a_progress_bar_the_install_line_is_told(problems, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    result = invoke("mini", problems, "--out", tmp_path / "c.jsonl")
    assert "run: pip install 'corpo-rl[train]'" in str(result.exception)


def test_a_local_policy(problems, tmp_path):
    out = tmp_path / "c.jsonl"
    result = invoke("mini", problems, "--n", 1, "--limit", 2, "--max-new-tokens", 4, "--out", out)
    assert result.exit_code == 0, result.output
    assert len(rows(out)) == 2
    assert rows(out)[0]["source"] == "mini"
