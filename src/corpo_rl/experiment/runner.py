"""Methods x seeds -> finished runs on disk: starts the jobs, shows their progress, survives kills."""

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from corpo_rl.errors import CorpoError, DataError, UsageError
from corpo_rl.experiment.curated import CURATED_FILE, keep_curated
from corpo_rl.experiment.folder import is_full, locked, read_json, write_json
from corpo_rl.experiment.inputs import PAIRS_FILE, check_spec, data_file, task_from_spec
from corpo_rl.experiment.settings import Settings, check_methods, first_difference
from corpo_rl.experiment.worker import BASE, NO_SPACE, is_finished, job_name
from corpo_rl.records import TRAIN

SCHEMA = "corpo-rl.experiment/1"

Progress = Callable[[str, str, int, int], None]
"""Called with job, stage, units done, units in all."""


class RunError(CorpoError):
    """A job of the experiment failed; what the others finished is kept."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def prepare(out: Path, settings: Settings) -> Settings:
    """Make the experiment's folder, or find it already there with the same settings.

    Args:
        out: Folder of the experiment.
        settings: With `pairs`, `data` and `curated` as paths of files.

    Returns:
        The settings as stored, with fingerprints of the files in the place of their paths.

    Raises:
        UsageError: The folder holds something else, or the settings name no task.
        DataError: The task's file, the list of prompts, or the user's task, is broken.
    """
    spec, reward = settings.task, settings.reward
    given = settings.pairs if spec == "pairs" else settings.data
    source = None if given is None else Path(given)
    check_spec(spec, data=source, reward=reward)
    if source is not None and spec == "pairs":
        settings = replace(settings, pairs=f"sha256:{_fingerprint(source, 'pairs file')}")
    elif source is not None:
        settings = replace(settings, data=f"sha256:{_fingerprint(source, 'data file')}")
    curated = None if settings.curated is None else Path(settings.curated)
    if curated is not None:
        settings = replace(settings, curated=f"sha256:{_fingerprint(curated, 'list of prompts')}")
    stored = out / "experiment.json"
    if stored.exists():
        difference = first_difference(read_json(stored).get("settings", {}), settings)
        if difference:
            raise UsageError(
                f"{out}: holds another experiment ({difference}); give another --out, or --force to replace it"
            )
        return settings
    if out.exists() and any(path.name != ".lock" for path in out.iterdir()):
        raise UsageError(f"{out}: expected a new or empty folder, or one of this experiment; give another --out")
    # A broken file is told now and by its own name, before anything is made, and not by the first worker.
    task = task_from_spec(spec, data=source, reward=reward)
    if settings.warmup_steps and not hasattr(task, "format_example"):
        raise UsageError(
            f"--warmup-steps: the task {task.name} shows no example of its answers' form to warm a policy up with, got "
            f"{settings.warmup_steps} steps; add --warmup-steps 0"
        )
    if curated is not None:
        keep_curated(task, task.items(TRAIN), curated)
    out.mkdir(parents=True, exist_ok=True)
    if source is not None:
        shutil.copyfile(source, out / PAIRS_FILE if spec == "pairs" else data_file(out, source))
    if curated is not None:
        shutil.copyfile(curated, out / CURATED_FILE)
    write_json(stored, {"schema": SCHEMA, "settings": asdict(settings)})
    return settings


def _fingerprint(path: Path, what: str) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise DataError(f"{path}: expected a readable {what}, found {error.strerror}") from error


def run_all(
    out: Path,
    settings: Settings,
    *,
    methods: Sequence[str],
    seeds: Sequence[int],
    jobs: int,
    progress: Progress,
) -> None:
    """Finish the base and every run of methods x seeds; what is finished already is left as it is.

    Args:
        out: Folder that `prepare` made.
        settings: As `prepare` returned them.
        methods: Estimator names.
        seeds: Training seeds.
        jobs: Runs side by side, each with `settings.threads` threads.
        progress: Told of every job's progress.

    Raises:
        RunError: A job failed.
        UsageError: An unknown method, or another process is at work in `out`.
    """
    check_methods(tuple(methods))
    if jobs < 1:
        raise UsageError(f"--jobs: expected at least 1, got {jobs}")
    with locked(out):
        _run_jobs(out, [BASE], jobs=1, progress=progress, settings=settings)
        names = [job_name(method, seed) for seed in seeds for method in methods]
        _run_jobs(out, names, jobs=jobs, progress=progress, settings=settings)


@dataclass(frozen=True)
class _Worker:
    name: str
    folder: Path
    process: subprocess.Popen[bytes]


def _run_jobs(out: Path, names: Sequence[str], *, jobs: int, progress: Progress, settings: Settings) -> None:
    folders = {name: out / (BASE if name == BASE else f"runs/{name}") for name in names}
    waiting = [name for name in names if not is_finished(folders[name])]
    for name in names:
        if name not in waiting:
            progress(name, "finished before", 1, 1)
    running: list[_Worker] = []
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                name = waiting.pop(0)
                running.append(_start(out, name, folders[name], settings))
            time.sleep(0.2)
            for worker in list(running):
                _tell(worker, progress)
                if worker.process.poll() is not None:
                    running.remove(worker)
                    _check(worker)
    finally:
        for worker in running:
            worker.process.terminate()
        for worker in running:
            try:
                worker.process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.process.wait()


def _start(out: Path, name: str, folder: Path, settings: Settings) -> _Worker:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "status.json").unlink(missing_ok=True)
    with (folder / "worker.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "corpo_rl.experiment.worker", str(out), name],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=_worker_environment(settings),
            start_new_session=True,  # Ctrl-C reaches this process alone, which then ends its workers
        )
    return _Worker(name, folder, process)


def _worker_environment(settings: Settings) -> dict[str, str]:
    threads = str(settings.threads)
    offline = {"HF_HUB_OFFLINE": "1"} if settings.policy in ("mini", "smollm2") else {}
    return {
        **os.environ,
        **offline,
        # Threads that wait by spinning make two runs side by side several times slower.
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "OMP_WAIT_POLICY": "PASSIVE",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }


def _tell(worker: _Worker, progress: Progress) -> None:
    try:
        status: Mapping[str, Any] = read_json(worker.folder / "status.json")
    except DataError:  # not written yet
        return
    progress(worker.name, status["stage"], status["done"], status["total"])


def _check(worker: _Worker) -> None:
    code = worker.process.returncode
    if code == 0 and is_finished(worker.folder):
        return
    error = worker.folder / "error.json"
    if error.exists():
        told = read_json(error)
        raise RunError(f"{worker.name}: {told['message']}", told["exit_code"])
    if is_full(worker.folder):
        raise RunError(f"{worker.name}: {NO_SPACE.format(folder=worker.folder)}", 1)
    ended = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    raise RunError(
        f"{worker.name}: its process {ended}; see the end of {worker.folder / 'worker.log'}. "
        "The same command goes on from the last checkpoint",
        1,
    )
