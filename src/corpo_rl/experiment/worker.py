"""One job of an experiment in its own process: prepare and judge the base, or train and judge one run.

Started as `python -m corpo_rl.experiment.worker EXPERIMENT JOB`, JOB being "base" or "METHOD-sSEED". It may be killed
at any moment and started again: what is finished is not redone, and training goes on from the last whole checkpoint.
"""

import errno
import math
import os
import platform
import shutil
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corpo_rl._version import __version__
from corpo_rl.errors import CorpoError
from corpo_rl.evaluation import evaluate, summarize, table_to_json
from corpo_rl.experiment.curated import CURATED_FILE, keep_curated
from corpo_rl.experiment.folder import append_row, is_full, keep_rows, locked, read_json, write_json
from corpo_rl.experiment.inputs import Items, fitting_items, load_base, load_task, on_device, sampler
from corpo_rl.experiment.settings import VALUE_METHODS, Settings, settings_from_json
from corpo_rl.records import EVALUATION_SPLITS, TRAIN
from corpo_rl.tasks.base import Task

if TYPE_CHECKING:
    from corpo_rl.policies.local import LocalPolicy

BASE = "base"
NO_SPACE = "{folder}: no space left on the disk; free some, then run the same command again"
EVALUATION_SEED = 20_251_106
"""Seeds the draws of every evaluation, so that all methods meet the same noise."""


@dataclass(frozen=True)
class Job:
    """Where one job keeps its files, and what it is made of."""

    folder: Path
    settings: Settings
    task: Task

    def status(self, stage: str, done: int, total: int) -> None:
        """Tell whoever watches how far the job is."""
        write_json(self.folder / "status.json", {"stage": stage, "done": done, "total": total})


def job_name(method: str, seed: int) -> str:
    """Name of a run, and of its folder."""
    return f"{method}-s{seed}"


def is_finished(folder: Path) -> bool:
    """Whether the job in this folder ended well."""
    return (folder / "finished.json").exists()


def run_base(job: Job) -> None:
    """Warm-start the base where the settings ask for it, then evaluate it."""
    settings = job.settings
    if settings.warmup_steps and not (job.folder / "policy").exists():
        from corpo_rl.policies.local import load_policy
        from corpo_rl.training.format_warmstart import warm_start_format

        policy = on_device(load_policy(settings.policy), settings)
        items = fitting_items(job.task, policy, settings)
        warm_start_format(
            policy,
            job.task,
            items.by_split[TRAIN],
            output_dir=job.folder,
            steps=settings.warmup_steps,
            seed=0,
            use_cpu=settings.device is None,
            on_step=lambda step: job.status("warm start", step, settings.warmup_steps),
        )
    policy = load_base(settings, job.folder)
    items = fitting_items(job.task, policy, settings)
    write_json(
        job.folder / "items.json",
        {split: {"used": len(items.by_split[split]), "too_long": items.left_out[split]} for split in items.by_split},
    )
    _evaluate(job, policy, items)


def run_method(experiment: Path, job: Job, *, method: str, seed: int) -> None:
    """Train one method under one seed, then evaluate what came of it."""
    settings, folder = job.settings, job.folder
    if not (folder / "policy").exists():
        from corpo_rl.training.runs import checkpoint_step, newest_complete_checkpoint, train_on_task

        policy = load_base(settings, experiment / BASE)
        items = fitting_items(job.task, policy, settings)
        training: Sequence[Any] = items.by_split[TRAIN]
        if settings.curated is not None:
            training = keep_curated(job.task, training, experiment / CURATED_FILE).items
        checkpoint = newest_complete_checkpoint(folder)
        for name in ("metrics.jsonl", "curve.jsonl"):
            keep_rows(folder / name, last_step=-1 if checkpoint is None else checkpoint_step(checkpoint))
        job.status("train", 0 if checkpoint is None else checkpoint_step(checkpoint), settings.steps)

        def on_log(step: int, metrics: Mapping[str, float | None]) -> None:
            append_row(folder / "metrics.jsonl", {**metrics, "step": step})
            job.status("train", step, settings.steps)

        def on_step(step: int, current: "LocalPolicy") -> None:
            if settings.curve_every and (step % settings.curve_every == 0 or step == settings.steps):
                append_row(folder / "curve.jsonl", {"step": step, **_curve_point(job, current, items)})

        trained = train_on_task(
            policy,
            job.task,
            training,
            method=method,
            critic=VALUE_METHODS.get(method),
            min_correct_schedule=settings.min_correct_schedule,
            group_selection=settings.group_selection,
            on_deselected=settings.on_deselected,
            seed=seed,
            output_dir=folder,
            steps=settings.steps,
            group_size=settings.group_size,
            prompts_per_step=settings.prompts_per_step,
            micro_batch=settings.micro_batch,
            learning_rate=settings.learning_rate,
            temperature=settings.temperature,
            max_new_tokens=settings.max_new_tokens,
            lora_rank=settings.lora_rank,
            checkpoint_every=settings.checkpoint_every,
            on_log=on_log,
            on_step=on_step,
        )
        _save_policy(trained, folder / "policy")
    from corpo_rl.policies.local import load_policy

    # Always judged as read back from disk, so that a killed and resumed run is judged exactly as any other.
    policy = on_device(load_policy(str(folder / "policy")), settings)
    _evaluate(job, policy, fitting_items(job.task, policy, settings))
    for checkpoint_folder in folder.glob("checkpoint-*"):
        shutil.rmtree(checkpoint_folder)


def _evaluate(job: Job, policy: "LocalPolicy", items: Items) -> None:
    splits = [split for split in EVALUATION_SPLITS if items.by_split[split]]
    for number, split in enumerate(splits):
        job.status("evaluate", number, len(splits))
        table = evaluate(
            job.task,
            split,
            sampler(policy, job.settings, seed=EVALUATION_SEED),
            n_samples=job.settings.samples_per_item,
            items=items.by_split[split],
        )
        write_json(job.folder / "evaluation" / f"{split}.json", table_to_json(table))


def _curve_point(job: Job, policy: "LocalPolicy", items: Items) -> dict[str, Any]:
    """pass@1 and mean reward on each split, with few samples: a point of a learning curve."""
    point: dict[str, Any] = {}
    for split in EVALUATION_SPLITS:
        if items.by_split[split]:
            table = evaluate(
                job.task,
                split,
                sampler(policy, job.settings, seed=EVALUATION_SEED + 1),
                n_samples=job.settings.curve_samples,
                items=items.by_split[split],
            )
            measures = summarize([table], ks=(1,), level=job.settings.level)["measures"]
            point[split] = {
                name: {end: None if math.isnan(value) else value for end, value in measures[name].items()}
                for name in ("pass@1", "mean_reward")
            }
    return point


def _save_policy(policy: "LocalPolicy", folder: Path) -> None:
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    policy.model.save_pretrained(part)
    policy.tokenizer.save_pretrained(part)
    os.replace(part, folder)


def environment() -> dict[str, Any]:
    """Versions and machine, as far as the numbers may depend on them."""
    packages: dict[str, Any] = {}
    for name in ("torch", "trl", "transformers", "accelerate", "peft", "datasets", "numpy"):
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = None
    return {
        "corpo_rl": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cpu_count": os.cpu_count(),
        **packages,
    }


def _gpu() -> str | None:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else None


def main(arguments: Sequence[str]) -> int:
    """Run one job; 0 when it is finished, else the reason is in the job's error.json."""
    experiment, name = Path(arguments[0]), arguments[1]
    folder = experiment / (BASE if name == BASE else f"runs/{name}")
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    try:
        # A worker whose parent was killed needs a moment to notice; the next one waits for it.
        with locked(folder, wait_seconds=30):
            (folder / "error.json").unlink(missing_ok=True)
            if is_finished(folder):
                return 0
            _run(experiment, folder, name)
    except CorpoError as error:
        return _failed(folder, str(error), error.exit_code)
    except Exception as error:
        # safetensors and torch report a full disk as errors of their own, and not always by that name
        if not (getattr(error, "errno", None) == errno.ENOSPC or "No space left" in str(error) or is_full(folder)):
            raise
        traceback.print_exc()
        return _failed(folder, NO_SPACE.format(folder=folder), 1)
    return 0


def _run(experiment: Path, folder: Path, name: str) -> None:
    stored = read_json(experiment / "experiment.json")
    settings = settings_from_json(stored["settings"])
    if settings.device is not None:  # one: the trainer would spread a run over all that it sees
        os.environ["CUDA_VISIBLE_DEVICES"] = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    import torch

    torch.set_num_threads(settings.threads)
    job = Job(folder, settings, load_task(settings, experiment))
    started = time.monotonic()
    used = {"threads": settings.threads} if settings.device is None else {"threads": settings.threads, "gpu": _gpu()}
    write_json(folder / "environment.json", {**environment(), **used})
    if name == BASE:
        write_json(folder / "config.json", stored["settings"])
        run_base(job)
    else:
        method, _, seed = name.rpartition("-s")
        write_json(folder / "config.json", {"method": method, "seed": int(seed), **stored["settings"]})
        run_method(experiment, job, method=method, seed=int(seed))
    write_json(folder / "finished.json", {"seconds_of_last_process": round(time.monotonic() - started, 1)})
    job.status("finished", 1, 1)


def _failed(folder: Path, message: str, exit_code: int) -> int:
    with suppress(OSError):  # where there is no space even for this, the parent sees that for itself
        write_json(folder / "error.json", {"message": message, "exit_code": exit_code})
    return exit_code


def _end_with_parent(parent: int) -> None:
    """End this process soon after the parent is gone, however it went: an orphan must not write into its folders."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
