"""Candidates -> labels: cut, judged once each, and kept as they come, so that a killed job goes on."""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpo_rl.errors import DataError, UsageError
from corpo_rl.pairs.cut import answer_text, program_of
from corpo_rl.pairs.engines import JudgingJob
from corpo_rl.pairs.files import written_whole
from corpo_rl.pairs.kept_verdicts import KeptVerdicts
from corpo_rl.records import NOT_JUDGED, OK, Candidate, FinalAnswer, LabelledCandidate, Problem, Verdict

Engine = Callable[[Iterable[JudgingJob]], Generator[tuple[str, Verdict], None, None]]
"""Jobs -> their keys and verdicts, in any order; see `corpo_rl.pairs.engines`. An error of it is no verdict."""


@dataclass(frozen=True)
class LabelRow(LabelledCandidate):
    """One row of a labels file."""

    program_sha256: str = ""
    """Of the whole program that ran, or of the math answer; equal programs of a problem are judged once."""
    seconds: float = 0.0
    """Wall time of the judging; equal programs share it."""


@dataclass(frozen=True)
class LabelledSet:
    """Labels of all candidates, with what was judged on the way."""

    rows: tuple[LabelRow, ...]
    """In the order of the problems, then of the candidates."""
    n_programs: int
    """Different programs, or math answers, of the candidates: equal ones to a problem count once."""
    n_judged: int
    """Judged by this call, references included."""
    n_resumed: int
    """Judged by an earlier call that was interrupted, references included."""
    n_references: int
    """Problems with candidates that ship a solution of their own, which was judged too."""
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
    distrust_failed_references: bool = False,
    force: bool = False,
    on_verdict: Callable[[int, int], None] | None = None,
    on_references: Callable[[Mapping[str, Verdict], int], None] | None = None,
) -> LabelledSet:
    """Judge every candidate and write a labels file, JSON Lines with the fields of `LabelRow`.

    Verdicts are appended to `OUT.partial` as they come. After a kill, the same call goes on from there; under other
    settings it refuses. The labels file itself is written whole, at the end, and the partial one is removed. An error
    of the engine ends the call, and what was judged is kept.

    Args:
        problems: The problems, ids unique.
        candidates: Their answers, in any order.
        engine: Where they are judged.
        out: File to write.
        stops: Sequences at which completions of a prompt end; empty for none.
        settings: What else decides the verdicts, and the hashes of the inputs; plain JSON values.
        check_references: Judge the own solutions of the problems that have candidates too, before these.
        distrust_failed_references: Count candidates of problems whose own solution is not judged right as not judged.
        force: Replace `out`, and begin anew whatever a partial file holds.
        on_verdict: Called with the number of programs judged so far and of all.
        on_references: Called when all references are judged, with those that are not right and the number of all.

    Raises:
        UsageError: `out` exists, a partial file was made with other settings, or another process is at work on it.
        DataError: A candidate's problem is not among the problems, or a file cannot be read or written.
    """
    partial = out.with_name(f"{out.name}.partial")
    # a kill between the last two steps leaves both files: the same call then still ends well
    if out.exists() and not partial.exists() and not force:
        raise UsageError(f"{out}: this file exists; name another or replace it with --force")
    plan = _plan(problems, candidates, stops=stops, check_references=check_references)
    with KeptVerdicts(partial, settings={**settings, "stops": stops}, force=force) as kept:
        n_resumed = _judge(plan, kept, engine, on_verdict=on_verdict, on_references=on_references)
        verdicts = kept.verdicts
        failed = plan.failed_references(verdicts)
        rows = tuple(plan.rows(verdicts, distrusted=failed if distrust_failed_references else {}))
        with written_whole(out) as whole:
            for row in rows:
                whole.write(json.dumps(dataclasses.asdict(row), ensure_ascii=False) + "\n")
        kept.remove()
    return LabelledSet(
        rows=rows,
        n_programs=len(set(plan.keys)),
        n_judged=len(plan.wanted) - n_resumed,
        n_resumed=n_resumed,
        n_references=len(plan.references),
        failed_references=failed,
    )


def _judge(
    plan: "_Plan",
    kept: KeptVerdicts,
    engine: Engine,
    *,
    on_verdict: Callable[[int, int], None] | None,
    on_references: Callable[[Mapping[str, Verdict], int], None] | None,
) -> int:
    """Judge what of a plan is not judged yet; returns how many were."""
    n_resumed = n_done = len(plan.wanted & kept.verdicts.keys())
    awaited = set(plan.references.values()) - kept.verdicts.keys()

    def tell_references() -> None:
        if on_references and plan.references and not awaited:
            on_references(plan.failed_references(kept.verdicts), len(plan.references))

    tell_references()
    if on_verdict:
        on_verdict(n_done, len(plan.wanted))
    # closed also when a verdict cannot be written: sandboxes do not outlive the call
    with closing(engine(plan.jobs(without=frozenset(kept.verdicts)))) as coming:
        for key, verdict in coming:
            kept.add(key, verdict)
            n_done += 1
            if key in awaited:
                awaited.remove(key)
                tell_references()
            if on_verdict:
                on_verdict(n_done, len(plan.wanted))
    return n_resumed


@dataclass(frozen=True)
class _Plan:
    """What is to be judged. Programs are made when their turn comes: a million need not be held at once."""

    problem_of: Mapping[str, Problem]
    candidates: Sequence[Candidate]
    """In the order of their problems."""
    keys: Sequence[str]
    """For each candidate the key of the verdict that is its."""
    references: Mapping[str, str]
    """For each problem with a reference to judge, the key of its verdict."""
    wanted: frozenset[str]
    """All keys."""
    stops: Sequence[str]

    def jobs(self, *, without: Collection[str]) -> Iterator[JudgingJob]:
        """A job for each key, references first, then in the order of the candidates; but for those judged already."""
        given = set(without)
        for problem_id, key in self.references.items():
            if key not in given:
                given.add(key)
                problem = self.problem_of[problem_id]
                assert problem.reference is not None
                yield JudgingJob(key, problem.tests, problem.reference)
        for candidate, key in zip(self.candidates, self.keys, strict=True):
            if key not in given:
                given.add(key)
                problem = self.problem_of[candidate.problem_id]
                yield JudgingJob(key, problem.tests, _prepared(problem, candidate, stops=self.stops)[1])

    def rows(self, verdicts: Mapping[str, Verdict], *, distrusted: Mapping[str, Verdict]) -> Iterator[LabelRow]:
        """The rows of the labels file, in the order of the candidates."""
        for candidate, key in zip(self.candidates, self.keys, strict=True):
            verdict = verdicts[key]
            if candidate.problem_id in distrusted:
                why = distrusted[candidate.problem_id]
                detail = f"the problem's own solution is not judged right: {why.status}, {why.detail}"
                verdict = dataclasses.replace(verdict, status=NOT_JUDGED, detail=detail)
            text, _ = _prepared(self.problem_of[candidate.problem_id], candidate, stops=self.stops)
            yield LabelRow(
                problem_id=candidate.problem_id,
                candidate_id=candidate.candidate_id,
                source=candidate.source,
                text=text,
                correct=verdict.correct,
                passed=verdict.passed,
                total=verdict.total,
                status=verdict.status,
                detail=verdict.detail,
                program_sha256=key.rpartition("/")[2],
                seconds=round(verdict.seconds, 6),
            )

    def failed_references(self, verdicts: Mapping[str, Verdict]) -> dict[str, Verdict]:
        """Verdicts of references that are not right, by problem."""
        return {name: verdicts[key] for name, key in self.references.items() if verdicts[key].status != OK}


def _plan(
    problems: Sequence[Problem], candidates: Sequence[Candidate], *, stops: Sequence[str], check_references: bool
) -> _Plan:
    problem_of = {problem.problem_id: problem for problem in problems}
    for candidate in candidates:
        if candidate.problem_id not in problem_of:
            raise DataError(
                f"candidate {candidate.candidate_id!r} of {candidate.source!r}: expected an answer to one of the "
                f"{len(problem_of)} problems, found problem {candidate.problem_id!r}"
            )
    place = {name: number for number, name in enumerate(problem_of)}
    ordered = sorted(candidates, key=lambda candidate: place[candidate.problem_id])
    keys = []
    for candidate in ordered:
        problem = problem_of[candidate.problem_id]
        keys.append(_key(problem, _prepared(problem, candidate, stops=stops)[1]))
    references = {}
    if check_references:
        for name in dict.fromkeys(candidate.problem_id for candidate in ordered):
            reference = problem_of[name].reference
            if reference is not None:
                references[name] = _key(problem_of[name], reference)
    return _Plan(problem_of, ordered, keys, references, frozenset({*keys, *references.values()}), stops)


def _prepared(problem: Problem, candidate: Candidate, *, stops: Sequence[str]) -> tuple[str, str]:
    """What of a candidate is read, and what is judged: for code a whole program."""
    text, continues = answer_text(problem, candidate, stops=stops)
    if isinstance(problem.tests, FinalAnswer):
        return text, text
    return text, program_of(problem, text, continues_prompt=continues)


def _key(problem: Problem, answer: str) -> str:
    # half a surrogate pair can stand in a JSON file, but not in a program
    return f"{problem.problem_id}/{hashlib.sha256(answer.encode('utf-8', 'surrogatepass')).hexdigest()}"
