"""Where candidates are judged: in threads here, or by Ray on a cluster. Both keep one judge a worker, and stream."""

import logging
import socket
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Self

from corpo_rl.errors import CorpoError, MissingExtraError
from corpo_rl.pairs.final_answers import FinalAnswerJudge
from corpo_rl.records import NOT_JUDGED, CallTests, FinalAnswer, FunctionTests, Limits, ProgramTests, Verdict
from corpo_rl.sandbox.boxes import SYSTEM_PYTHON
from corpo_rl.sandbox.judge import Judge

_IN_FLIGHT = 4
"""Jobs waiting at each worker: enough that none is idle, few enough that a million stream through."""
_BATCH = 16
"""Jobs sent to a Ray worker at a time; one takes some milliseconds, a message nearly as long."""
_MOST_DEATHS = 8
"""Jobs in a row whose Ray worker died: more is no fault of the candidates."""


@dataclass(frozen=True)
class JudgingJob:
    """A program, or a math answer, and the tests it is to be judged by."""

    key: str
    tests: FunctionTests | CallTests | ProgramTests | FinalAnswer
    answer: str
    """A whole program; for `FinalAnswer` a solution in words."""


class Judges:
    """A judge of programs and a judge of final answers, each started when it is first needed.

    Use it as a context manager, from one thread at a time; the thread that started a judge has to live as long as that.

    Args:
        limits: What a program may use.
        python: Interpreter of programs.
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
    jobs: Iterable[JudgingJob], *, new_judges: Callable[[], Judges], workers: int
) -> Generator[tuple[str, Verdict], None, None]:
    """Verdicts as they are found, in any order, from judges in threads: these only wait for their sandboxes.

    Args:
        jobs: What to judge; read as far as there are workers for it.
        new_judges: Makes the judges of a worker.
        workers: Judges at a time.

    Raises:
        CorpoError: The sandbox does not start.
    """
    with ExitStack() as stack:
        free = [stack.enter_context(new_judges()) for _ in range(workers)]
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
    new_judges: Callable[[], Judges],
    workers: int | None = None,
    address: str | None = None,
) -> Generator[tuple[str, Verdict], None, None]:
    """The same on a Ray cluster, the judges of a worker in an actor on one core; Ray decides where, and restarts them.

    Every node needs this package, bubblewrap and the interpreter. When an actor dies, its jobs are tried once more, one
    by one; the one under which it dies again could not be judged.

    Args:
        jobs: As in `judge_locally`.
        new_judges: Makes the judges of an actor; travels there.
        workers: Actors at a time; as many as the cluster has cores when None.
        address: The cluster, as `ray.init` takes it; None for the one that is connected, or else one of our own.

    Raises:
        CorpoError: Ray is not installed, the cluster is not there, the sandbox does not start on a node, or the actors
            die again and again.
    """
    try:
        import ray
    except ImportError:
        raise MissingExtraError("--engine ray", "ray") from None
    started = not ray.is_initialized()
    if started and address:
        _check_answers(address)
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise _unreachable(address, error) from error
    elif started:
        ray.init(
            address="local",  # without one Ray would look for somebody else's cluster on this machine first
            num_cpus=workers,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    # not left to the garbage collector: a cluster that we share has these cores back at once
    with ExitStack() as stack:
        if started:
            stack.callback(ray.shutdown)
        n_actors = workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        # retries above 0, so that calls wait for an actor that is being restarted; each call overrides it
        actor = ray.remote(num_cpus=1, max_restarts=-1, max_task_retries=1)(_RayJudges)
        actors = []
        for _ in range(n_actors):
            actors.append(actor.remote(new_judges))
            stack.callback(ray.kill, actors[-1])
        yield from _on_actors(_batches(jobs), actors)


def _check_answers(address: str) -> None:
    """See whether anything listens there: Ray itself tries for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
        except (OSError, OverflowError) as error:
            raise _unreachable(address, error) from error


def _unreachable(address: str, error: Exception) -> CorpoError:
    return CorpoError(f"--ray-address {address}: no Ray cluster answers there ({' '.join(str(error).split())[:200]})")


def _on_actors(batches: Iterator[list[JudgingJob]], actors: Sequence[Any]) -> Iterator[tuple[str, Verdict]]:
    import ray
    from ray.exceptions import RayActorError, RayTaskError

    # a batch of nothing comes back when the actor has found a place: those that find none must not be given work
    running: dict[Any, tuple[Any, list[JudgingJob], bool]] = {
        judges.judge_all.remote([]): (judges, [], False) for judges in actors
    }
    idle: list[Any] = []
    again: list[JudgingJob] = []
    lost: list[tuple[str, Verdict]] = []
    while True:
        # one batch at an actor: were another waiting behind it, that would be charged with the actor's death too
        while idle and (batch := again[:1] or next(batches, [])):
            judges, alone = idle.pop(), bool(again)
            running[judges.judge_all.options(max_task_retries=0).remote(batch)] = judges, batch, alone
            del again[:1]
        if idle and not any(batch for _, batch, _ in running.values()):
            break
        for done in ray.wait(list(running))[0]:
            judges, batch, alone = running.pop(done)
            idle.append(judges)
            try:
                verdicts = ray.get(done)
            except RayActorError as error:
                reason = " ".join(str(error).split())[:200]
                if not batch:
                    raise CorpoError(
                        f"a worker does not start on a node of the Ray cluster ({reason}); install corpo-rl there"
                    ) from None
                if not alone:
                    # which of them it was is found by trying each by itself
                    again += batch
                    continue
                lost.append((batch[0].key, Verdict(NOT_JUDGED, 0, 0, detail=f"its worker died: {reason}")))
                if len(lost) == _MOST_DEATHS:
                    raise CorpoError(
                        f"Ray's workers died under {_MOST_DEATHS} candidates in a row ({reason}); see Ray's logs, then "
                        "run the same command again"
                    ) from None
            except RayTaskError as error:
                raise (error.cause if isinstance(error.cause, CorpoError) else error) from None
            else:
                if verdicts:
                    yield from lost
                    lost.clear()
                yield from verdicts
    yield from lost


def _batches(jobs: Iterable[JudgingJob]) -> Iterator[list[JudgingJob]]:
    coming = iter(jobs)
    while batch := list(islice(coming, _BATCH)):
        yield batch


class _RayJudges:
    """The judges of one actor."""

    def __init__(self, new_judges: Callable[[], Judges]) -> None:
        self._judges = new_judges()

    def judge_all(self, jobs: list[JudgingJob]) -> list[tuple[str, Verdict]]:
        try:
            return [(job.key, self._judges.judge(job.tests, job.answer)) for job in jobs]
        except CorpoError as error:
            # of the base class, since not all of ours can be pickled
            raise CorpoError(str(error)) from None
