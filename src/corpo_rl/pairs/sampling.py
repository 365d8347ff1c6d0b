"""Candidates sampled by us: n answers a problem, written as they come, so that a killed job goes on."""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

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
    or when `most` has been reached, the same call goes on, and every answer is there once. `OUT.settings.json` beside
    it says how they were sampled; under other settings a call refuses.

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
        on_sample: Called with the number of answers done so far and of all.

    Raises:
        UsageError: `n` or `most` is under 1, or `out` was begun under other settings.
        DataError: `out` holds what this job has not written, or cannot be written; or the policy failed, after all
            that it gave has been written.
    """
    for name, value in (("n", n), ("most", most)):
        if value is not None and value < 1:
            raise UsageError(f"{name}: expected at least 1, found {value}")
    wanted = {
        f"{problem.problem_id}/{number}": (problem, number, request_seed(seed, problem.problem_id, number))
        for problem in problems
        for number in range(n)
    }
    asked = {"source": source, "seed": seed, **asdict(settings), **inputs}
    rows = _resume(out, settings=asked, force=force)
    done = {f"{row['problem_id']}/{row['candidate_id']}" for row in rows} & wanted.keys()
    counts = Counter(_kinds((row["text"], row["finish_reason"]) for row in rows))
    n_resumed = len(done)
    todo = [
        SampleRequest(key, request_text(problem), request)
        for key, (problem, _, request) in wanted.items()
        if key not in done
    ][:most]
    if todo:
        with Appended(out) as file:
            for sample in stream(todo, settings):
                problem, number, request = wanted[sample.key]
                file.write(
                    {
                        "problem_id": problem.problem_id,
                        "candidate_id": str(number),
                        "text": sample.text,
                        "source": source,
                        "continues_prompt": False,
                        "finish_reason": sample.finish_reason,
                        "seed": request,
                    }
                )
                done.add(sample.key)
                counts.update(_kinds([(sample.text, sample.finish_reason)]))
                if on_sample:
                    on_sample(len(done), len(wanted))
    return SampledSet(
        n_wanted=len(wanted), n_done=len(done), n_resumed=n_resumed, n_empty=counts["empty"], n_cut=counts["cut"]
    )


def request_seed(seed: int, problem_id: str, number: int) -> int:
    """The seed of one request: its own whatever else is sampled, under 2**31 as servers want it."""
    digest = hashlib.sha256(f"{seed}/{number}/{problem_id}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def _kinds(samples: Iterable[tuple[str, str]]) -> Iterator[str]:
    for text, reason in samples:
        if not text.strip():
            yield "empty"
        if reason == "length":
            yield "cut"


def _resume(out: Path, *, settings: Mapping[str, Any], force: bool) -> list[Mapping[str, Any]]:
    """Rows of earlier calls; a torn last line is dropped. Writes the settings file when there is none."""
    beside = out.with_name(f"{out.name}.settings.json")
    try:
        if force:
            out.unlink(missing_ok=True)
            beside.unlink(missing_ok=True)
        before = json.loads(beside.read_text(encoding="utf-8")) if beside.exists() else None
        lines = out.read_bytes().split(b"\n") if out.exists() else [b""]
    except (OSError, ValueError) as error:
        raise DataError(f"{beside}: could not be read ({error}); begin anew with --force") from error
    if before is None:
        if lines != [b""]:
            raise UsageError(f"{out}: this file exists; name another or replace it with --force")
        with written_whole(beside) as file:
            file.write(json.dumps(settings, indent=2) + "\n")
        return []
    for name in sorted(settings.keys() | before.keys()):
        if settings.get(name) != before.get(name):
            raise UsageError(
                f"{out}: was begun with {name} {before.get(name)!r}, not {settings.get(name)!r}; go on with the same "
                "settings, or begin anew with --force"
            )
    if lines[-1]:
        os.truncate(out, out.stat().st_size - len(lines[-1]))
    rows = []
    for number, line in enumerate(lines[:-1], start=1):
        try:
            row = json.loads(line)
            assert {"problem_id", "candidate_id", "text", "finish_reason"} <= row.keys()
        except (ValueError, AttributeError, AssertionError):
            raise DataError(
                f"{out}:{number}: expected a sampled answer, found another row; --force begins anew"
            ) from None
        rows.append(row)
    return rows
