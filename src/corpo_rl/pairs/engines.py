"""Where candidates are judged: in threads here, or by Ray on a cluster. Both keep one judge a worker, and stream."""

from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Self

from corpo_rl.errors import CorpoError, MissingExtraError, one_line
from corpo_rl.pairs.final_answers import FinalAnswerJudge
from corpo_rl.records import NOT_JUDGED, CallTests, FinalAnswer, FunctionTests, Limits, ProgramTests, Verdict
from corpo_rl.sandbox.boxes import SYSTEM_PYTHON
from corpo_rl.sandbox.judge import Judge

_IN_FLIGHT = 4
"""Jobs waiting at each worker: enough that none is idle, few enough that a million stream through."""
_BATCH = 16
"""Jobs sent to a Ray worker at a time; one takes some milliseconds, a message nearly as long."""


@dataclass(frozen=True)
class JudgingJob:
    """A program, or a math answer, and the tests it is to be judged by."""

    key: str
    tests: FunctionTests | CallTests | ProgramTests | FinalAnswer
    answer: str
    """A whole program; for `FinalAnswer` a solution in words."""


class Judges:
    """A judge of programs and a judge of final answers, each started when it is first needed.

    Use it as a context manager, from one thread.
    """

    def __init__(self, limits: Limits, *, python: Path = SYSTEM_PYTHON) -> None:
        self._limits = limits
        self._python = python
        self._open = ExitStack()
        self._programs: Judge | None = None
        self._answers: FinalAnswerJudge | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def judge(self, tests: FunctionTests | CallTests | ProgramTests | FinalAnswer, answer: str) -> Verdict:
        """The verdict on an answer; see `Judge.judge` and `FinalAnswerJudge.judge`."""
        if isinstance(tests, FinalAnswer):
            if self._answers is None:
                self._answers = self._open.enter_context(FinalAnswerJudge())
            return self._answers.judge(tests, answer)
        if self._programs is None:
            self._programs = self._open.enter_context(Judge(self._limits, python=self._python))
        return self._programs.judge(tests, answer)

    def close(self) -> None:
        """End both."""
        self._open.close()
        self._programs = self._answers = None


def judge_locally(
    jobs: Iterable[JudgingJob], *, limits: Limits, workers: int, python: Path = SYSTEM_PYTHON
) -> Iterator[tuple[str, Verdict]]:
    """Verdicts as they are found, in any order, from judges in threads: these only wait for their sandboxes.

    Args:
        jobs: What to judge; read as far as there are workers for it.
        limits: What a candidate may use.
        workers: Judges at a time.
        python: Interpreter of candidates.

    Raises:
        CorpoError: The sandbox does not start.
    """
    with ExitStack() as stack:
        free = [stack.enter_context(Judges(limits, python=python)) for _ in range(workers)]
        # the threads end before the judges they use are closed
        pool = stack.enter_context(ThreadPoolExecutor(workers))
        stack.callback(pool.shutdown, wait=True, cancel_futures=True)

        def judge_one(job: JudgingJob) -> tuple[str, Verdict]:
            judges = free.pop()
            try:
                return job.key, judges.judge(job.tests, job.answer)
            finally:
                free.append(judges)

        waiting: set[Future[tuple[str, Verdict]]] = set()
        coming = iter(jobs)
        while True:
            waiting |= {pool.submit(judge_one, job) for job in islice(coming, _IN_FLIGHT * workers - len(waiting))}
            if not waiting:
                return
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()


def judge_on_ray(
    jobs: Iterable[JudgingJob],
    *,
    limits: Limits,
    workers: int,
    address: str | None = None,
    python: Path = SYSTEM_PYTHON,
) -> Iterator[tuple[str, Verdict]]:
    """The same on a Ray cluster, each judge an actor on one core; Ray decides where.

    Every node needs this package, bubblewrap and the interpreter. A job whose actor dies is tried once more on a new
    one; if that dies as well, its answers could not be judged.

    Args:
        jobs: As in `judge_locally`.
        limits: What a candidate may use.
        workers: Actors at a time.
        address: The cluster, as `ray.init` takes it; None for the one that is connected, or else a local one.
        python: Interpreter of candidates, on every node.

    Raises:
        CorpoError: Ray is not installed, or the sandbox does not start on a node.
    """
    try:
        import ray
        from ray.exceptions import RayActorError, RayTaskError
    except ImportError:
        raise MissingExtraError("--engine ray", "ray") from None
    started = not ray.is_initialized()
    if started:
        ray.init(address=address, num_cpus=None if address else workers, include_dashboard=False, log_to_driver=False)
    try:
        actor = ray.remote(num_cpus=1, max_restarts=-1, max_task_retries=1)(_RayJudges)
        idle = [actor.remote(limits, python) for _ in range(workers)] * 2  # one batch at work, one on its way
        batches = _batches(jobs)
        again: list[list[JudgingJob]] = []
        running: dict[Any, tuple[Any, list[JudgingJob]]] = {}
        while True:
            while idle and (batch := again.pop() if again else next(batches, None)):
                judges = idle.pop()
                running[judges.judge_all.remote(batch)] = judges, batch
            if not running:
                return
            for done in ray.wait(list(running))[0]:
                judges, batch = running.pop(done)
                idle.append(judges)
                try:
                    yield from ray.get(done)
                except RayActorError as error:
                    if len(batch) > 1:  # which of them it was is found by trying each alone
                        again += [[job] for job in batch]
                        continue
                    yield (
                        batch[0].key,
                        Verdict(NOT_JUDGED, 0, 0, detail=f"its worker died: {one_line(str(error))[:200]}"),
                    )
                except RayTaskError as error:
                    raise (error.cause if isinstance(error.cause, CorpoError) else error) from None
    finally:
        if started:
            ray.shutdown()


def _batches(jobs: Iterable[JudgingJob]) -> Iterator[list[JudgingJob]]:
    coming = iter(jobs)
    while batch := list(islice(coming, _BATCH)):
        yield batch


class _RayJudges:
    """The judges of one actor."""

    def __init__(self, limits: Limits, python: Path) -> None:
        self._judges = Judges(limits, python=python)

    def judge_all(self, jobs: list[JudgingJob]) -> list[tuple[str, Verdict]]:
        return [(job.key, self._judges.judge(job.tests, job.answer)) for job in jobs]
