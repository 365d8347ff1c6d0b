"""Runs of a study, some at a time, each in a process with one thread; what is on record already is not run again."""

import json
import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from corpo_rl.errors import CorpoError, UsageError
from corpo_rl.experiment.folder import read_json
from corpo_rl.study.execution import job_as_json
from corpo_rl.study.plan import Job, record_path

Say = Callable[[str], None]
"""Takes a line for whoever watches."""

MOST_RUNS = 40
"""Runs of a process before a fresh one takes its place, so that nothing can pile up."""


class StudyError(CorpoError):
    """A run failed; what others finished is kept."""

    exit_code = 1


def read_record(out: Path, job: Job) -> dict[str, Any] | None:
    """The record of a run, or None where there is none yet.

    Raises:
        UsageError: The run was made with other settings.
        DataError: The file is broken.
    """
    path = record_path(out, job.run)
    if not path.exists():
        return None
    record = read_json(path)
    for name, value in job_as_json(job).items():
        if record.get(name) != value:
            raise UsageError(
                f"{path}: {name} is {record.get(name)} there and {value} here; name a new folder, or bring the "
                "records of the pilot along, which decide the learning rates"
            )
    return record


def run_jobs(out: Path, jobs: Sequence[Job], *, side_by_side: int, n_later: int, say: Say) -> None:
    """Carry out what is not on record yet.

    Args:
        out: Folder of the study.
        jobs: Runs, in the order in which to begin them.
        side_by_side: Processes.
        n_later: Runs that are still to come after these, for the time that is left.
        say: Told after each run how much is left.

    Raises:
        StudyError: A run failed.
        UsageError: A record in the folder was made with other settings.
    """
    waiting = deque(job for job in jobs if read_record(out, job) is None)
    if waiting:
        _Crew(out, waiting, n_before=len(jobs) - len(waiting), n_later=n_later, say=say).work(side_by_side)


class _Crew:
    """Processes that share a list of jobs."""

    def __init__(self, out: Path, waiting: deque[Job], *, n_before: int, n_later: int, say: Say) -> None:
        self._out, self._waiting, self._say = out, waiting, say
        self._n_before, self._n_here, self._n_later = n_before, len(waiting), n_later
        self._n_done = 0
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self._failure: str | None = None
        self._processes: dict[int, subprocess.Popen[str]] = {}

    def work(self, side_by_side: int) -> None:
        """Until all is done or one failed; on the way out no process is left."""
        numbers = range(min(side_by_side, self._n_here))
        threads = [threading.Thread(target=self._serve, args=(number,), daemon=True) for number in numbers]
        for thread in threads:
            thread.start()
        try:
            while any(thread.is_alive() for thread in threads) and self._failure is None:
                time.sleep(0.05)
        finally:
            self._waiting.clear()
            for process in list(self._processes.values()):
                process.kill()  # records are written whole or not at all
                process.wait()
        if self._failure is not None:
            raise StudyError(self._failure)

    def _serve(self, number: int) -> None:
        """Hand jobs to one process after another, `MOST_RUNS` to each."""
        while self._waiting and self._failure is None:
            process = self._processes[number] = _start(self._out, number)
            for _ in range(MOST_RUNS):
                job = self._next()
                if job is None or not self._done(job, process, number):
                    break
            process.communicate()  # closes its input, at which it ends
            del self._processes[number]

    def _next(self) -> Job | None:
        with self._lock:
            return self._waiting.popleft() if self._waiting else None

    def _done(self, job: Job, process: subprocess.Popen[str], number: int) -> bool:
        """Whether the process carried the job out; tells of it either way."""
        answer = _asked(job, process)
        with self._lock:
            if "error" in answer:
                if self._failure is None:  # later ones were ended because of the first
                    log = _log_path(self._out, number)
                    self._failure = f"{job.run.name}: {answer['error']}; see {log}. The same command goes on from here"
                return False
            self._n_done += 1
            left = self._n_here - self._n_done + self._n_later
            seconds = (time.monotonic() - self._started) / self._n_done * left
            done, total = self._n_before + self._n_done, self._n_before + self._n_here
            self._say(f"[{done}/{total}] {job.run.name}: {answer['seconds']:.0f} s; {_left(left, seconds)}")
            return True


def _asked(job: Job, process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(job_as_json(job)) + "\n")
        process.stdin.flush()
        answer: dict[str, Any] = json.loads(process.stdout.readline())
    except (OSError, ValueError):
        return {"error": f"its process ended with exit code {process.wait()}"}
    return answer


def _left(n_runs: int, seconds: float) -> str:
    if not n_runs:
        return "that was the last one"
    hours, minutes = divmod(round(seconds / 60), 60)
    about = f"{hours} h {minutes} min" if hours else f"{minutes} min"
    return f"{n_runs} to go, about {about}"


def _log_path(out: Path, number: int) -> Path:
    return out / "logs" / f"worker-{number}.log"


def _start(out: Path, number: int) -> subprocess.Popen[str]:
    path = _log_path(out, number)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "corpo_rl.study.worker", str(out), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={
                **os.environ,
                "HF_HUB_OFFLINE": "1",
                "HF_HUB_DISABLE_TELEMETRY": "1",
                "OMP_NUM_THREADS": "1",
                "MKL_NUM_THREADS": "1",
                "TOKENIZERS_PARALLELISM": "false",
                "PYTHONUNBUFFERED": "1",
            },
            start_new_session=True,  # Ctrl-C reaches the parent alone, which then ends its workers
        )
