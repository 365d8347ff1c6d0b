"""Where trials run: in threads here, each waiting for the processes of its runs, or as tasks of a Ray cluster."""

import logging
import socket
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any, Protocol

from corpo_rl.errors import CorpoError, MissingExtraError, UsageError
from corpo_rl.sweep.plan import FILE, Plan, plan_from_json
from corpo_rl.sweep.trial import Outcome, Work, run_work

_DEATHS = 2
"""Times that the process of a trial may die on a cluster before the sweep gives up."""


class Engine(Protocol):
    """Runs trials side by side."""

    slots: int
    """Trials at a time."""

    def submit(self, work: Work) -> None:
        """Start a trial, or whatever else there is to run."""

    def finished(self, *, wait_seconds: float) -> list[tuple[Work, Outcome]]:
        """What ended since the last call, waiting for one at most so long. Raises what ended the sweep."""


class _Here:
    """Trials in threads of this process."""

    def __init__(self, out: Path, plan: Plan, *, slots: int, seed_jobs: int, keep_policies: bool) -> None:
        self.slots = slots
        self._options: dict[str, Any] = {"seed_jobs": seed_jobs, "keep_policies": keep_policies}
        self._out, self._plan = out, plan
        self._stop = Event()
        self._pool = ThreadPoolExecutor(slots)
        self._running: dict[Future[Outcome], Work] = {}

    def submit(self, work: Work) -> None:
        future = self._pool.submit(run_work, self._out, self._plan, work, stopped=self._stop.is_set, **self._options)
        self._running[future] = work

    def finished(self, *, wait_seconds: float) -> list[tuple[Work, Outcome]]:
        done, _ = wait(self._running, timeout=wait_seconds, return_when=FIRST_COMPLETED)
        ended = [(self._running.pop(future), future) for future in done]
        return [(work, future.result()) for work, future in sorted(ended, key=lambda one: one[0].number)]

    def close(self) -> None:
        """End what still runs, and its processes."""
        self._stop.set()
        self._pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def here(out: Path, plan: Plan, *, slots: int, seed_jobs: int, keep_policies: bool) -> Iterator[Engine]:
    """Run trials on this machine.

    Args:
        out: Folder of the sweep.
        plan: Its plan.
        slots: Trials at a time.
        seed_jobs: Seeds of a trial at a time.
        keep_policies: Leave the trained weights of the trials.

    Raises:
        UsageError: `slots` or `seed_jobs` is under 1.
    """
    for flag, count in (("--jobs", slots), ("--seed-jobs", seed_jobs)):
        if count < 1:
            raise UsageError(f"{flag}: expected at least 1, got {count}")
    engine = _Here(out, plan, slots=slots, seed_jobs=seed_jobs, keep_policies=keep_policies)
    try:
        yield engine
    finally:
        engine.close()


class _OnRay:
    """Trials as tasks of a Ray cluster."""

    def __init__(self, out: Path, plan: Plan, *, slots: int, cores: int, options: Mapping[str, Any]) -> None:
        import ray

        self.slots = slots
        self._out, self._plan, self._options = out.resolve(), plan, dict(options)
        # tried again by us, not by Ray: a task that dies for lack of memory would be tried for ever
        self._task = ray.remote(num_cpus=cores, max_retries=0)(_run_on_node)
        self._running: dict[Any, Work] = {}
        self._deaths: dict[int, int] = {}

    def submit(self, work: Work) -> None:
        self._running[self._task.remote(str(self._out), self._plan.to_json(), work, self._options)] = work

    def finished(self, *, wait_seconds: float) -> list[tuple[Work, Outcome]]:
        import ray
        from ray.exceptions import RayError, RayTaskError

        done, _ = ray.wait(list(self._running), timeout=wait_seconds)
        ended = []
        for reference in done:
            work = self._running.pop(reference)
            try:
                ended.append((work, ray.get(reference)))
            except RayTaskError as error:
                raise (error.cause if isinstance(error.cause, CorpoError) else error) from None
            except RayError as error:  # its process, or its node, died
                self._deaths[work.number] = self._deaths.get(work.number, 0) + 1
                if self._deaths[work.number] == _DEATHS:
                    told = " ".join(str(error).split())[:200]
                    raise CorpoError(
                        f"trial {work.number}: its process on the Ray cluster died {_DEATHS} times ({told}); see "
                        "Ray's logs, then run the same command again"
                    ) from None
                self.submit(work)  # goes on from its checkpoints
        return sorted(ended, key=lambda one: one[0].number)

    def close(self) -> None:
        """End what still runs: the processes of a trial's runs end with it."""
        import ray

        for reference in self._running:
            ray.cancel(reference, force=True)


def ray_is_connected() -> bool:
    """Whether this process is connected to a Ray cluster already."""
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())


@contextmanager
def on_ray(
    out: Path, plan: Plan, *, address: str | None, slots: int | None, seed_jobs: int, keep_policies: bool
) -> Iterator[Engine]:
    """Run trials on a Ray cluster; every node needs this package, and the sweep's folder under the same path.

    Args:
        out: Folder of the sweep.
        plan: Its plan.
        address: The cluster, as `ray.init` takes it; "local" for one of our own; None for the one that is connected.
        slots: Trials at a time; as many as the cluster has cores for when None.
        seed_jobs: Seeds of a trial at a time.
        keep_policies: Leave the trained weights of the trials.

    Raises:
        CorpoError: Ray is not installed, or the cluster is not there.
        UsageError: The cluster has too few cores for one trial.
    """
    try:
        import ray
    except ImportError:
        raise MissingExtraError("--ray", "ray") from None
    cores = plan.settings.threads * min(seed_jobs, len(plan.seeds))
    started = not ray.is_initialized()
    if started:
        _connect(str(address), cores=cores * (slots or 1))
    try:
        n_cores = int(ray.cluster_resources().get("CPU", 0))
        if n_cores < cores:
            raise UsageError(f"--ray: a trial needs {cores} cores, the cluster has {n_cores}; lower --threads")
        options = {"seed_jobs": seed_jobs, "keep_policies": keep_policies}
        engine = _OnRay(out, plan, slots=slots or n_cores // cores, cores=cores, options=options)
        try:
            yield engine
        finally:
            engine.close()
    finally:
        if started:
            ray.shutdown()


def _connect(address: str, *, cores: int) -> None:
    import ray

    own = {"num_cpus": cores, "include_dashboard": False} if address == "local" else {}
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        if host and port.isdigit():  # Ray itself would try for minutes
            socket.create_connection((host, int(port)), timeout=10).close()
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **own)
    except (OSError, OverflowError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise CorpoError(f"--ray {address}: no Ray cluster answers there ({reason})") from error


def _run_on_node(out: str, plan: Mapping[str, Any], work: Work, options: Mapping[str, Any]) -> Outcome:
    """Run on whichever node Ray chose; files go to the sweep's folder, which all nodes share."""
    if not (Path(out) / FILE).exists():
        raise CorpoError(f"{out}: not there on a node of the Ray cluster; give --out in a folder that all nodes share")
    try:
        return run_work(Path(out), plan_from_json(plan), work, **options)
    except CorpoError as error:
        # of the base class, since not all of ours can be pickled
        raise CorpoError(str(error)) from None
