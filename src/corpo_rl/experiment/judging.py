"""What a policy wrote to code problems -> verdicts: each distinct program once, on several sandboxes side by side."""

import atexit
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

from corpo_rl.pairs.cut import answer_text, program_of
from corpo_rl.pairs.engines import Judges, JudgingJob
from corpo_rl.records import Candidate, Limits, Problem, Verdict
from corpo_rl.sandbox.judge import available_cores

MOST_WORKERS = 8
"""Sandboxes side by side, however many cores there are: the worst programs take 1.2 GB each."""


class ProgramJudges:
    """Judges code, as `tasks.code.JudgesCode`. Sandboxes are started when they are first needed, and kept.

    What is judged of an answer is what `pairs label` judges: the last fenced Python block that defines the function,
    or the text; a text that begins inside the body of a prompt's function goes on with it.

    Use it from one thread. Sandboxes end with `close`, with the context, or with the process.

    Args:
        limits: What a program may use. Time is wall time: on a machine with more to do than it has cores for, a slow
            program may be in time once and not another time.
        workers: Sandboxes side by side; by default as many as there are cores, up to `MOST_WORKERS`.
        new_judges: Makes the judges of a worker.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        workers: int | None = None,
        new_judges: Callable[[], Judges] | None = None,
    ) -> None:
        limits = limits or Limits()
        self._new_judges = new_judges or (lambda: Judges(limits))
        self._workers = workers or min(available_cores(), MOST_WORKERS)
        self._pool: ThreadPoolExecutor | None = None
        self._own = threading.local()
        self._all: list[Judges] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def __call__(self, answers: Sequence[tuple[Problem, str]]) -> list[Verdict]:
        """The verdict on each answer, in order.

        Raises:
            CorpoError: bubblewrap or libseccomp is missing, or the sandbox does not start here.
        """
        keys = [(problem.problem_id, program(problem, text)) for problem, text in answers]
        jobs = {key: JudgingJob(key[0], problem.tests, key[1]) for key, (problem, _) in zip(keys, answers, strict=True)}
        if not jobs:
            return []
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._workers, thread_name_prefix="judge")
            atexit.register(self.close)
        # those of one problem together: a judge that has its tests already need not be told them again
        ordered = sorted(jobs)
        running = [self._pool.submit(self._judge, jobs[key]) for key in ordered]
        try:
            verdicts = {key: future.result() for key, future in zip(ordered, running, strict=True)}
        finally:
            for future in running:
                future.cancel()
        return [verdicts[key] for key in keys]

    def close(self) -> None:
        """End the sandboxes; the next answers start new ones."""
        if self._pool is not None:
            atexit.unregister(self.close)
            self._pool.shutdown(wait=True, cancel_futures=True)
        for judges in self._all:
            judges.close()
        self._pool, self._own, self._all = None, threading.local(), []

    def _judge(self, job: JudgingJob) -> Verdict:
        # a sandbox lives no longer than the thread that started it, so each thread has its own
        judges: Judges | None = getattr(self._own, "judges", None)
        if judges is None:
            judges = self._own.judges = self._new_judges()
            self._all.append(judges)
        return judges.judge(job.tests, job.answer)


def program(problem: Problem, text: str) -> str:
    """The program that is judged for an answer to a problem of code.

    One space before an answer is how many tokenizers begin a text, and says nothing of a body that goes on.
    """
    first_line = next((line for line in text.splitlines() if line.strip()), "")
    if first_line.startswith(" ") and not first_line[1].isspace():
        text = text.lstrip()
    candidate = Candidate(problem.problem_id, "0", text, "policy", continues_prompt=problem.prompt != "")
    code, continues = answer_text(problem, candidate)
    return program_of(problem, code, continues_prompt=continues)
