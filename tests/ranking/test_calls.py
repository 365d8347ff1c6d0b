import json
import os
import re
import signal
import subprocess
import sys

import pytest

from corpo_rl.errors import DataError, UsageError
from corpo_rl.ranking.calls import kept_calls
from corpo_rl.ranking.rank import rank
from corpo_rl.ranking.result import RankingSettings
from corpo_rl.records import Sample, SampleRequest, SamplingSettings
from tests.ranking.verifiers import GREEDY, by_quality

REQUESTS = [SampleRequest(f"key {number}", f"prompt {number}", number) for number in range(4)]


class Echo:
    """Gives back each prompt, and counts what it was asked."""

    def __init__(self):
        self.n_asked = 0

    def __call__(self, requests, sampling):
        for request in requests:
            self.n_asked += 1
            yield Sample(request.key, f"{request.prompt}\nat {sampling.temperature} \U0001f600 é", "stop")


def taken(stream, requests=REQUESTS, sampling=GREEDY):
    return sorted(stream(requests, sampling), key=lambda sample: sample.key)


def test_what_was_asked_is_not_asked_again(tmp_path):
    path, echo = tmp_path / "new" / "calls.jsonl", Echo()
    stream = kept_calls(echo, path, policy="echo")
    first = taken(stream, REQUESTS[:3])
    assert echo.n_asked == 3
    assert taken(stream, REQUESTS)[:3] == first
    assert echo.n_asked == 4
    assert taken(kept_calls(echo, path, policy="echo")) == taken(Echo())
    assert echo.n_asked == 4
    assert len(path.read_text().splitlines()) == 4


def test_another_policy_or_another_way_to_sample_is_asked(tmp_path):
    path, echo = tmp_path / "calls.jsonl", Echo()
    taken(kept_calls(echo, path, policy="echo"))
    taken(kept_calls(echo, path, policy="other"))
    assert echo.n_asked == 8
    warm = taken(kept_calls(echo, path, policy="echo"), sampling=SamplingSettings(16, temperature=1.0))
    assert echo.n_asked == 12
    assert warm[0].text.startswith("prompt 0\nat 1.0")
    taken(kept_calls(echo, path, policy="echo"), sampling=SamplingSettings(17, temperature=0.0))
    assert echo.n_asked == 16


def test_a_torn_last_line_is_dropped_and_the_file_goes_on_whole(tmp_path):
    path, echo = tmp_path / "calls.jsonl", Echo()
    taken(kept_calls(echo, path, policy="echo"))
    whole = path.read_bytes()
    path.write_bytes(whole[:-7])
    assert taken(kept_calls(echo, path, policy="echo")) == taken(Echo())
    assert echo.n_asked == 5
    assert len([json.loads(line) for line in path.read_text().splitlines()]) == 4


def test_what_came_before_an_error_is_kept(tmp_path):
    path, echo = tmp_path / "calls.jsonl", Echo()

    def failing(requests, sampling):
        yield from list(echo(requests[:2], sampling))
        raise DataError("the endpoint hung up")

    with pytest.raises(DataError, match="hung up"):
        taken(kept_calls(failing, path, policy="echo"))
    assert taken(kept_calls(echo, path, policy="echo")) == taken(Echo())
    assert echo.n_asked == 4


@pytest.mark.parametrize(
    "line", ["[]", "{}", "oops", '{"key": 1, "text": "", "finish_reason": "stop"}', '{"key": "a"}']
)
def test_a_strange_file_is_named_and_left_alone(tmp_path, line):
    path, echo = tmp_path / "calls.jsonl", Echo()
    taken(kept_calls(echo, path, policy="echo"), REQUESTS[:1])
    before = path.read_text() + line + "\n"
    path.write_text(before)
    with pytest.raises(DataError, match=re.escape(f"{path}:2: expected a kept completion")):
        taken(kept_calls(echo, path, policy="echo"))
    assert path.read_text() == before


def test_a_file_in_use_and_a_place_that_cannot_be_written_are_refused(tmp_path):
    path = tmp_path / "calls.jsonl"
    busy = kept_calls(Echo(), path, policy="echo")(REQUESTS, GREEDY)
    next(busy)
    with pytest.raises(UsageError, match="another ranking is using this file"):
        taken(kept_calls(Echo(), path, policy="echo"))
    busy.close()
    assert len(taken(kept_calls(Echo(), path, policy="echo"))) == 4
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="could not be written"):
        taken(kept_calls(Echo(), tmp_path / "file" / "calls.jsonl", policy="echo"))


def test_a_ranking_is_the_same_with_kept_calls(tmp_path):
    answers = [f"answer {number}" for number in range(9)]
    quality = {answer: number for number, answer in enumerate(answers)}

    def ranked(stream, method):
        return rank("Why?", answers, stream, sampling=GREEDY, settings=RankingSettings(method=method))

    verifier = by_quality(quality.get)
    plain = {method: ranked(by_quality(quality.get), method) for method in ("swiss", "round-robin")}
    kept = kept_calls(verifier, tmp_path / "calls.jsonl", policy="scripted")
    assert {method: ranked(kept, method) for method in ("swiss", "round-robin")} == plain
    assert verifier.n_calls == 9 * 8, "the round-robin needs every pair, and no pair of the swiss again"


SLOW = """
import sys, time
from pathlib import Path
from corpo_rl.ranking.calls import kept_calls
from corpo_rl.records import Sample, SampleRequest, SamplingSettings

def slow(requests, sampling):
    for request in requests:
        time.sleep(0.02)
        yield Sample(request.key, request.prompt, "stop")

requests = [SampleRequest(f"key {n}", "x" * n, n) for n in range(60)]
for sample in kept_calls(slow, Path(sys.argv[1]), policy="slow")(requests, SamplingSettings(16, 0.0)):
    print(sample.key, flush=True)
"""


def test_killed_in_the_middle_the_same_command_finishes(tmp_path):
    path = tmp_path / "calls.jsonl"
    command = [sys.executable, "-c", SLOW, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for _ in range(10):
            process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    kept = path.read_text().count("\n")
    assert 10 <= kept < 60
    finished = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert sorted(finished.stdout.splitlines()) == sorted(f"key {n}" for n in range(60))
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(rows) == len({row["key"] for row in rows}) == 60
