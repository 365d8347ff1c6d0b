import json
import os
import signal
import subprocess
import sys
import time

import pytest
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
    assert "12 of 12 answers: 12 cut by --max-new-tokens, 0 empty." in result.stdout
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


def test_an_endpoint_that_fails_is_one_line_and_nothing_is_lost(problems, tmp_path):
    out = tmp_path / "c.jsonl"

    def script(body, number):
        return (200, {}, "<html>") if "What is 3" in body["messages"][0]["content"] else echo(body, number)

    with fake_server(script) as server:
        result = invoke(f"{server.url}#fake", problems, "--n", 1, "--out", out, "--retries", 0)
    assert str(result.exception).startswith(f"{server.url}: 1 of 6 requests failed")
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


def test_a_local_policy(problems, tmp_path):
    out = tmp_path / "c.jsonl"
    result = invoke("mini", problems, "--n", 1, "--limit", 2, "--max-new-tokens", 4, "--out", out)
    assert result.exit_code == 0, result.output
    assert len(rows(out)) == 2
    assert rows(out)[0]["source"] == "mini"
