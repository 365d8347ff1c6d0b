"""Candidates sampled by us: n answers a problem, written as they come, so that a killed job goes on."""

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

from corpo_rl.errors import DataError, UsageError
from corpo_rl.pairs.files import Appended, written_whole
from corpo_rl.records import (
    CallTests,
    FinalAnswer,
    FunctionTests,
    Problem,
    ProgramTests,
    Sample,
    SampleRequest,
    SamplingSettings,
)

Stream = Callable[[Sequence[SampleRequest], SamplingSettings], Iterator[Sample]]
"""A policy: requests and settings -> completions in any order; see `corpo_rl.policies.opening.open_policy`."""


@dataclass(frozen=True)
class SampledSet:
    """What a job has written, this call and those before."""

    n_wanted: int
    n_done: int
    n_resumed: int
    """Of those done, by earlier calls."""
    n_empty: int
    n_cut: int
    """Ended by `max_new_tokens` instead of by the policy."""
    n_repeated: int
    """The same text as another answer to their problem, the first of each not counted."""


def request_text(problem: Problem) -> str:
    """What a policy is asked: the problem, and the form of the answer.

    Code is asked for in one block of Python, which `pairs label` takes out of the prose around it; math answers in a
    box.
    """
    tests = problem.tests
    if isinstance(tests, FinalAnswer):
        return f"{problem.text}\n\nReason step by step, and put the final answer in \\boxed{{}}."
    if isinstance(tests, ProgramTests):
        return (
            f"{problem.text}\n\nWrite a Python program that reads the input from standard input and prints the output. "
            "Answer with one block of Python code."
        )
    if problem.prompt:
        return (
            f"Complete this Python function. Answer with one block of Python code that holds the whole function.\n\n"
            f"```python\n{problem.prompt.rstrip()}\n```"
        )
    where = "a method of a class Solution" if isinstance(tests, CallTests) else "a function"
    assert isinstance(tests, FunctionTests | CallTests)
    return f"{problem.text}\n\nWrite {where} named {tests.entry_point} in Python. Answer with one block of Python code."


def sample_candidates(
    problems: Sequence[Problem],
    stream: Stream,
    *,
    n: int,
    settings: SamplingSettings,
    source: str,
    out: Path,
    seed: int,
    inputs: Mapping[str, Any],
    most: int | None = None,
    force: bool = False,
    on_sample: Callable[[int, int], None] | None = None,
) -> SampledSet:
    """Sample n answers to each problem into a candidates file, JSON Lines.

    Each row holds the fields of `Candidate`, `finish_reason` and `seed`. Rows are appended as they come; after a kill,
    or when `most` or the stream's own budget has been reached, the same call goes on, and every answer is there once.
    One process at a time has the file: the lock dies with its process. `OUT.settings.json` beside it says how they were
    sampled; under other settings a call refuses.

    Args:
        problems: The problems.
        stream: Where completions come from.
        n: Answers to each problem. A later call may ask for more.
        settings: How they are drawn.
        source: Name of the policy, written into each row.
        out: File to write.
        seed: Decides the seed of every request, as far as the policy can be held to it.
        inputs: What else decides the answers, e.g. the hash of the problems file; plain JSON values.
        most: Most answers to sample in this call; None for all.
        force: Begin anew, whatever `out` holds.
        on_sample: Called with the number of answers done so far and of all, first with those of earlier calls.

    Raises:
        UsageError: `n` or `most` is under 1, several answers are asked for at temperature 0, or `out` was begun under
            other settings or is in use by another process.
        DataError: `out` holds what this job has not written, or cannot be written; or the policy failed, after all
            that it gave has been written.
    """
    for name, value in (("n", n), ("most", most)):
        if value is not None and value < 1:
            raise UsageError(f"{name}: expected at least 1, found {value}")
    if n > 1 and settings.temperature == 0:
        raise UsageError(f"n {n} at temperature 0: all answers would be the same; take a temperature above 0, or n 1")
    wanted = {
        f"{problem.problem_id}/{number}": (problem, number, request_seed(seed, problem.problem_id, number))
        for problem in problems
        for number in range(n)
    }
    asked = {"source": source, "seed": seed, **asdict(settings), **inputs}
    with _held(out) as held:
        done = {
            key: _kind_of(row)
            for row in _resume(out, held, settings=asked, force=force)
            if (key := f"{row['problem_id']}/{row['candidate_id']}") in wanted
        }
        n_resumed = len(done)
        if on_sample:
            on_sample(n_resumed, len(wanted))
        todo = [
            SampleRequest(key, request_text(problem), request)
            for key, (problem, _, request) in wanted.items()
            if key not in done
        ][:most]
        with Appended(out) as file:
            for sample in stream(todo, settings) if todo else ():
                problem, number, request = wanted[sample.key]
                row = {
                    "problem_id": problem.problem_id,
                    "candidate_id": str(number),
                    "text": sample.text,
                    "source": source,
                    "continues_prompt": False,
                    "finish_reason": sample.finish_reason,
                    "seed": request,
                }
                file.write(row)
                done[sample.key] = _kind_of(row)
                if on_sample:
                    on_sample(len(done), len(wanted))
    told_apart = {one.problem_and_text for one in done.values() if not one.empty}
    n_empty = sum(one.empty for one in done.values())
    return SampledSet(
        n_wanted=len(wanted),
        n_done=len(done),
        n_resumed=n_resumed,
        n_empty=n_empty,
        n_cut=sum(one.cut for one in done.values()),
        n_repeated=len(done) - n_empty - len(told_apart),
    )


def request_seed(seed: int, problem_id: str, number: int) -> int:
    """The seed of one request: its own whatever else is sampled, under 2**31 as servers want it."""
    digest = hashlib.sha256(f"{seed}/{number}/{problem_id}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


class _Kind(NamedTuple):
    """What is kept in memory of an answer."""

    empty: bool
    cut: bool
    problem_and_text: int


def _kind_of(row: Mapping[str, Any]) -> _Kind:
    text = row["text"]
    return _Kind(not text.strip(), row["finish_reason"] == "length", hash((row["problem_id"], text)))


@contextmanager
def _held(out: Path) -> Iterator[IO[bytes]]:
    """The file, made when absent, for this process alone."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        file = out.open("a+b")
    except OSError as error:
        raise DataError(
            f"{out}: could not be written ({error.strerror or error}); free space or name another"
        ) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"{out}: another process is sampling into it; wait for it, or name another") from None
        yield file


def _resume(out: Path, held: IO[bytes], *, settings: Mapping[str, Any], force: bool) -> list[Mapping[str, Any]]:
    """Rows of earlier calls; a torn last line is dropped. Writes the settings file when there is none."""
    beside = out.with_name(f"{out.name}.settings.json")
    held.seek(0)
    *lines, torn = [b""] if force else held.read().split(b"\n")
    before = _settings_of(beside) if beside.exists() and not force else None
    if before is None:
        if lines or torn:
            raise UsageError(f"{out}: this file exists; name another or replace it with --force")
        held.truncate(0)
        with written_whole(beside) as whole:
            whole.write(json.dumps(settings, indent=2) + "\n")
        return []
    for name in sorted(settings.keys() | before.keys()):
        if settings.get(name) != before.get(name):
            raise UsageError(
                f"{out}: was begun with {name} {before.get(name)!r}, not {settings.get(name)!r}; go on with the same "
                "settings, or begin anew with --force"
            )
    if torn:
        held.truncate(os.fstat(held.fileno()).st_size - len(torn))
    return [_row(line, where=f"{out}:{number}") for number, line in enumerate(lines, start=1)]


def _settings_of(beside: Path) -> dict[str, Any]:
    try:
        before = json.loads(beside.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{beside}: could not be read ({error}); begin anew with --force") from None
    if not isinstance(before, dict):
        raise DataError(f"{beside}: expected the settings of a sampling, found another value; begin anew with --force")
    return before


def _row(line: bytes, *, where: str) -> Mapping[str, Any]:
    try:
        row = json.loads(line)
    except ValueError:
        row = None
    names = ("problem_id", "candidate_id", "text", "finish_reason")
    if not isinstance(row, dict) or not all(isinstance(row.get(name), str) for name in names):
        raise DataError(f"{where}: expected a sampled answer, found another row; --force begins anew")
    return row
