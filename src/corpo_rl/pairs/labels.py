"""Candidates -> labels: cut, judged once each, and written as they come, so that a killed job goes on."""

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpo_rl.errors import DataError, UsageError
from corpo_rl.pairs.cut import answer_text, program_of
from corpo_rl.pairs.engines import JudgingJob
from corpo_rl.pairs.files import Appended, written_whole
from corpo_rl.records import OK, Candidate, FinalAnswer, LabelledCandidate, Problem, Verdict

Engine = Callable[[Iterable[JudgingJob]], Iterator[tuple[str, Verdict]]]
"""Jobs -> their keys and verdicts, in any order; see `corpo_rl.pairs.engines`."""


@dataclass(frozen=True)
class LabelRow(LabelledCandidate):
    """One row of a labels file."""

    program_sha256: str = ""
    """Of the whole program that ran, or of the math answer; equal programs of a problem are judged once."""
    seconds: float = 0.0
    """Wall time of the judging."""


@dataclass(frozen=True)
class LabelledSet:
    """Labels of all candidates, with what was judged on the way."""

    rows: tuple[LabelRow, ...]
    """In the order of the problems, then of the candidates."""
    n_judged: int
    """Programs judged: equal ones of a problem count once."""
    n_resumed: int
    """Of those, judged by an earlier call that was interrupted."""
    n_references: int
    """Problems that ship a solution of their own, which was judged too."""
    failed_references: Mapping[str, Verdict]
    """Problems whose own solution is not judged right: their tests, or our running of them, are not to be trusted."""


def label_candidates(
    problems: Sequence[Problem],
    candidates: Sequence[Candidate],
    *,
    engine: Engine,
    out: Path,
    stops: Sequence[str],
    settings: Mapping[str, Any],
    check_references: bool = True,
    force: bool = False,
    on_verdict: Callable[[int, int], None] | None = None,
) -> LabelledSet:
    """Judge every candidate and write a labels file, JSON Lines with the fields of `LabelRow`.

    Verdicts are appended to `OUT.partial` as they come. After a kill, the same call goes on from there; under other
    settings it refuses. The labels file itself is written whole, at the end, and the partial one is removed.

    Args:
        problems: The problems, ids unique.
        candidates: Their answers, in any order.
        engine: Where they are judged.
        out: File to write.
        stops: Sequences at which completions of a prompt end; empty for none.
        settings: What else decides the verdicts, and the hashes of the inputs; plain JSON values.
        check_references: Judge the problems' own solutions too.
        force: Replace `out`, and begin anew whatever a partial file holds.
        on_verdict: Called with the number of programs judged so far and of all.

    Raises:
        UsageError: `out` exists, or a partial file was made with other settings.
        DataError: A candidate's problem is not among the problems, or a file cannot be read or written.
    """
    if out.exists() and not force:
        raise UsageError(f"{out}: this file exists; name another or replace it with --force")
    problem_of = {problem.problem_id: problem for problem in problems}
    planned = _plan(problem_of, candidates, stops=stops)
    references = _reference_jobs(problems) if check_references else {}
    jobs = {one.job.key: one.job for one in planned} | {job.key: job for job in references.values()}

    partial = out.with_name(f"{out.name}.partial")
    if force:
        partial.unlink(missing_ok=True)
    verdicts = _resume(partial, settings={**settings, "stops": list(stops)})
    verdicts = {key: verdict for key, verdict in verdicts.items() if key in jobs}
    n_resumed = len(verdicts)
    with Appended(partial) as file:
        todo = (job for key, job in jobs.items() if key not in verdicts)
        for key, verdict in engine(list(todo)):
            verdicts[key] = verdict
            file.write({"key": key, **dataclasses.asdict(verdict)})
            if on_verdict:
                on_verdict(len(verdicts), len(jobs))

    place = {problem.problem_id: number for number, problem in enumerate(problems)}
    planned.sort(key=lambda one: place[one.candidate.problem_id])
    rows = tuple(one.row(verdicts[one.job.key]) for one in planned)
    with written_whole(out) as whole:
        for row in rows:
            whole.write(json.dumps(dataclasses.asdict(row), ensure_ascii=False) + "\n")
    partial.unlink(missing_ok=True)
    return LabelledSet(
        rows=rows,
        n_judged=len(jobs),
        n_resumed=n_resumed,
        n_references=len(references),
        failed_references={
            problem_id: verdicts[job.key] for problem_id, job in references.items() if verdicts[job.key].status != OK
        },
    )


@dataclass(frozen=True)
class _Planned:
    """A candidate, and the job whose verdict is its."""

    candidate: Candidate
    text: str
    job: JudgingJob

    def row(self, verdict: Verdict) -> LabelRow:
        return LabelRow(
            problem_id=self.candidate.problem_id,
            candidate_id=self.candidate.candidate_id,
            source=self.candidate.source,
            text=self.text,
            correct=verdict.correct,
            passed=verdict.passed,
            total=verdict.total,
            status=verdict.status,
            detail=verdict.detail,
            program_sha256=self.job.key.rpartition("/")[2],
            seconds=round(verdict.seconds, 6),
        )


def _plan(
    problem_of: Mapping[str, Problem], candidates: Sequence[Candidate], *, stops: Sequence[str]
) -> list[_Planned]:
    planned = []
    for candidate in candidates:
        problem = problem_of.get(candidate.problem_id)
        if problem is None:
            raise DataError(
                f"candidate {candidate.candidate_id} is to problem {candidate.problem_id!r}, which is not given"
            )
        text, continues = answer_text(problem, candidate, stops=stops)
        if isinstance(problem.tests, FinalAnswer):
            answer = text
        else:
            answer = program_of(problem, text, continues_prompt=continues)
        planned.append(_Planned(candidate, text, _job(problem, answer)))
    return planned


def _reference_jobs(problems: Sequence[Problem]) -> dict[str, JudgingJob]:
    jobs = {}
    for problem in problems:
        if problem.reference is not None:
            jobs[problem.problem_id] = _job(problem, problem.reference)
    return jobs


def _job(problem: Problem, answer: str) -> JudgingJob:
    # half a surrogate pair can stand in a JSON file, but not in a program
    digest = hashlib.sha256(answer.encode("utf-8", "surrogatepass")).hexdigest()
    return JudgingJob(f"{problem.problem_id}/{digest}", problem.tests, answer)


def _resume(partial: Path, *, settings: Mapping[str, Any]) -> dict[str, Verdict]:
    """Verdicts of an earlier call; starts the file when there is none. A torn last line is dropped."""
    try:
        lines = partial.read_bytes().split(b"\n") if partial.exists() else [b""]
    except OSError as error:
        raise DataError(f"{partial}: could not be read ({error.strerror or error})") from error
    whole, verdicts = lines[:-1], {}
    if not whole:
        with written_whole(partial) as file:
            file.write(json.dumps(settings) + "\n")
        return {}
    try:
        before = json.loads(whole[0])
        for line in whole[1:]:
            row = json.loads(line)
            verdicts[row.pop("key")] = Verdict(**row)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise DataError(f"{partial}: expected the verdicts of an interrupted call, found others; delete it") from None
    for name in sorted(settings.keys() | before.keys()):
        if settings.get(name) != before.get(name):
            raise UsageError(
                f"{partial}: was begun with {name} {before.get(name)!r}, not {settings.get(name)!r}; go on with the same "
                "settings, or begin anew with --force"
            )
    if lines[-1]:
        os.truncate(partial, partial.stat().st_size - len(lines[-1]))
    return verdicts
