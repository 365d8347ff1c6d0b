"""One run of a study: train, count what the advantages did in each step, judge what came of it; or time some steps."""

import hashlib
import math
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq

from corpo_rl.core.dynamics import floored_group_share, n_reinforced_failures
from corpo_rl.errors import DataError
from corpo_rl.evaluation import Sampler
from corpo_rl.experiment.folder import locked
from corpo_rl.experiment.settings import VALUE_METHODS
from corpo_rl.records import EVALUATION_SPLITS, TRAIN, Graded
from corpo_rl.study.plan import HEDGE, UNTRAINED, Job, Sizes
from corpo_rl.tasks.base import grade
from corpo_rl.tasks.mini import EASY, HARD, MiniTask

if TYPE_CHECKING:
    from corpo_rl.policies.local import LocalPolicy

EVALUATION_SEED = 20_251_106
"""Seeds the draws of every evaluation, so that all policies meet the same noise."""

MAX_NEW_TOKENS = 12
TEMPERATURE = 1.0
EVALUATION_BATCH = 512
HEDGE_SEED = 1
"""Of the hedging base; every run from it starts from the same one."""

WARM_UP_STEPS = 2
"""First steps of a timed training that do not count."""

RATE_OF_TIMING = 1e-9
"""So small that the policy stays where it is: every method is timed on the same completions."""

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
"""Digit of each count, so that the counts of a split's items are one short text."""

Series = dict[str, Any]


def execute(job: Job, out: Path, scratch: Path) -> dict[str, Any]:
    """Carry a run out; nothing is written but in `scratch` and, for the hedging base, under `out`/bases.

    The numbers depend on the job alone, not on what the process did before, and are the same on every machine of one
    kind with the same libraries.

    Args:
        job: What to run.
        out: Folder of the study.
        scratch: Folder for the trainer's files; emptied first, and removed afterwards.

    Returns:
        The record: `run`, `sizes`, `learning_rate`, `judged`, `seconds`, and for a training `series` (a value of each
        step) and `evaluation`, for a timing `rounds`.
    """
    shutil.rmtree(scratch, ignore_errors=True)
    started = time.monotonic()
    record: dict[str, Any] = job_as_json(job)
    if job.run.part == "timing":
        record["rounds"] = _timed(job, scratch)
    else:
        task = _task(job)
        policy = _base(job, out)
        record["base_sha256"] = fingerprint(policy)
        if job.run.method != UNTRAINED:
            policy, record["series"] = _trained(job, task, policy, scratch)
        record["seconds"] = {"train": round(time.monotonic() - started, 1)}
        if job.run.part != "pilot":  # of the pilot only the size of its updates is used
            record["evaluation"] = judge(policy, task, job.judged, job.sizes)
    shutil.rmtree(scratch, ignore_errors=True)
    return {**record, "seconds": {**record.get("seconds", {}), "all": round(time.monotonic() - started, 1)}}


def job_as_json(job: Job) -> dict[str, Any]:
    """The part of a record that says what was run."""
    return {
        "run": asdict(job.run),
        "sizes": asdict(job.sizes),
        "learning_rate": job.learning_rate,
        "judged": list(job.judged),
    }


def _task(job: Job) -> MiniTask:
    task = MiniTask(reward=job.run.reward)
    if job.run.threshold is not None:
        task.min_correct = job.run.threshold
    return task


def _base(job: Job, out: Path) -> "LocalPolicy":
    from corpo_rl.policies.local import load_policy

    if job.run.base != HEDGE:
        return load_policy(job.run.base)
    folder = out / "bases" / HEDGE
    with locked(folder.parent, wait_seconds=600):
        if not folder.exists():
            _build_hedging_base(folder, steps=job.sizes.hedge_steps)
    return load_policy(str(folder))


def _build_hedging_base(folder: Path, *, steps: int) -> None:
    """The embedded policy, taught to write 5 nine times in ten, and any score else, whatever the answers are."""
    from corpo_rl.policies.local import load_policy, no_progress_bars
    from corpo_rl.training.warmstart import Phase, train_phase

    phase = Phase(
        steps=steps,
        learning_rate=1e-3,
        hard=0.5,
        differences=0.5,
        kinds={(0, 0): 0.25, (1, 0): 0.25, (0, 1): 0.25, (1, 1): 0.25},
        own_errors={EASY: 1.0, HARD: 1.0},
        fooled=0.5,
        score_flips=0.5,
        hedges=0.9,
        spread=True,
    )
    policy = load_policy("mini")
    train_phase(policy.model, policy.tokenizer, phase, rng=np.random.default_rng(HEDGE_SEED), on_step=None)
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    with no_progress_bars():
        policy.model.save_pretrained(part)
        policy.tokenizer.save_pretrained(part)
    part.rename(folder)


def fingerprint(policy: "LocalPolicy") -> str:
    """First digits of a digest of all weights: which base a run began from."""
    digest = hashlib.sha256()
    for name, tensor in sorted(policy.model.state_dict().items()):
        digest.update(name.encode() + tensor.detach().cpu().numpy().tobytes())
    return digest.hexdigest()[:16]


def _trained(job: Job, task: MiniTask, policy: "LocalPolicy", scratch: Path) -> "tuple[LocalPolicy, Series]":
    import torch

    last: list[Any] = []
    updates: list[float] = []
    metrics: list[Mapping[str, float | None]] = []

    def on_step(step: int, current: "LocalPolicy") -> None:
        weights = torch.cat([weight.detach().reshape(-1) for weight in current.model.parameters()]).clone()
        if last:
            updates.append(float((weights - last.pop()).norm()))
        last.append(weights)

    trained = _train(
        job,
        task,
        policy,
        method=job.run.method,
        steps=job.sizes.steps,
        learning_rate=job.learning_rate,
        output_dir=scratch,
        on_log=lambda step, row: metrics.append(row),
        on_step=on_step,
    )
    series: Series = step_counts(scratch / "completions", job.judged, n_steps=job.sizes.steps)
    series["update"] = [_rounded(value) for value in updates]
    for name, metric in (("gradient", "grad_norm"), ("hedge", "task/hedge"), ("unparsed", "parse_failure_rate")):
        series[name] = [_rounded(row.get(metric)) for row in metrics]
    return trained, series


def _train(job: Job, task: MiniTask, policy: "LocalPolicy", *, method: str, steps: int, **settings: Any) -> Any:
    from corpo_rl.training.runs import train_on_task

    sizes = job.sizes
    return train_on_task(
        policy,
        task,
        task.items(TRAIN),
        method=method,
        critic=VALUE_METHODS.get(method),
        min_correct_schedule=None,
        group_selection=None,
        on_deselected=None,
        seed=job.run.seed,
        steps=steps,
        group_size=sizes.group_size,
        prompts_per_step=sizes.prompts,
        micro_batch=sizes.prompts * sizes.group_size,
        temperature=TEMPERATURE,
        max_new_tokens=MAX_NEW_TOKENS,
        lora_rank=0,
        checkpoint_every=steps,
        **settings,
    )


def step_counts(completions: Path, judged: Sequence[float], *, n_steps: int) -> Series:
    """What the advantages of each step did, counted from the trainer's completion log.

    Args:
        completions: Folder of the log, a parquet file a step.
        judged: Thresholds by which a rollout failed: reward < threshold.
        n_steps: Steps there should be.

    Returns:
        reward: mean of each step; up, down: rollouts with an advantage above and below 0; and for each threshold, by
        its text, failed, failed_up (failed with an advantage above 0) and floored (groups whose mean is under it).

    Raises:
        DataError: The log has another number of steps.
    """
    files = sorted(completions.glob("*.parquet"))
    if len(files) != n_steps:
        raise DataError(f"{completions}: expected the completions of {n_steps} steps, found {len(files)}")
    names = [f"{threshold:g}" for threshold in judged]
    series: Series = {"reward": [], "up": [], "down": []}
    series |= {kind: {name: [] for name in names} for kind in ("failed", "failed_up", "floored")}
    for path in files:
        table = pq.read_table(path, columns=["corpo_reward", "advantage", "corpo_group"])
        rewards_N, advantages_N = (table[name].to_numpy() for name in ("corpo_reward", "advantage"))
        group_N = np.array(table["corpo_group"].to_pylist())
        n_groups = len(np.unique(group_N))
        every = math.nextafter(float(rewards_N.max()), math.inf)  # by which all rollouts fail
        series["reward"].append(_rounded(float(rewards_N.mean())))
        series["up"].append(n_reinforced_failures(rewards_N, advantages_N, min_correct=every))
        series["down"].append(n_reinforced_failures(rewards_N, -advantages_N, min_correct=every))
        for name, threshold in zip(names, judged, strict=True):
            series["failed"][name].append(int((rewards_N < threshold).sum()))
            series["failed_up"][name].append(n_reinforced_failures(rewards_N, advantages_N, min_correct=threshold))
            share = floored_group_share(rewards_N, group_N, min_correct=threshold)
            series["floored"][name].append(round(share * n_groups))
    return series


def judge(policy: "LocalPolicy", task: MiniTask, judged: Sequence[float], sizes: Sizes) -> dict[str, Any]:
    """What a policy can do on every evaluation split, by each threshold.

    Returns:
        For each split the counts that `split_counts` makes.
    """

    def sample(prompts: Sequence[str], n: int) -> list[list[str]]:
        return policy.sample(
            prompts,
            n,
            max_new_tokens=MAX_NEW_TOKENS,
            temperature=TEMPERATURE,
            seed=EVALUATION_SEED,
            batch_size=EVALUATION_BATCH,
        )

    return {split: split_counts(task, split, sample, judged, sizes) for split in EVALUATION_SPLITS}


def split_counts(task: MiniTask, split: str, sample: Sampler, judged: Sequence[float], sizes: Sizes) -> dict[str, Any]:
    """Completions of a split's items, graded.

    Args:
        task: Grades; its own threshold plays no part.
        split: Name of the split.
        sample: Where completions come from.
        judged: Thresholds by which a completion is correct: reward >= threshold.
        sizes: How many items and completions.

    Returns:
        n_samples of each item; correct: for each threshold, by its text, a digit of `DIGITS` for each item, the number
        of its correct completions; reward, brier, hedge, unparsed: means, the second and third over what parsed, None
        when nothing did.
    """
    items = task.items(split)[: sizes.items or None]
    completions = sample([task.prompt(item) for item in items], sizes.samples)
    graded = [[grade(task, item, text) for text in row] for item, row in zip(items, completions, strict=True)]
    every = [one for row in graded for one in row]
    parsed = [one for one in every if one.failure is None]
    return {
        "n_samples": sizes.samples,
        "correct": {
            f"{threshold:g}": "".join(DIGITS[sum(one.reward >= threshold for one in row)] for row in graded)
            for threshold in judged
        },
        "reward": _rounded(math.fsum(one.reward for one in every) / len(every)),
        "brier": _mean_measure("brier", parsed),
        "hedge": _mean_measure("hedge", parsed),
        "unparsed": _rounded(1 - len(parsed) / len(every)),
    }


def _mean_measure(name: str, parsed: Sequence[Graded]) -> float | None:
    return _rounded(math.fsum(one.measures[name] for one in parsed) / len(parsed)) if parsed else None


def _timed(job: Job, scratch: Path) -> list[dict[str, float]]:
    """Seconds of the processor's work of a step, for every method in each round: the median over its steps.

    The order turns from round to round. The processor's work and not the wall's clock is read, since another process
    beside this one would be timed as well.
    """
    from corpo_rl.policies.local import load_policy

    methods = job.run.method.split("+")
    rounds: list[dict[str, float]] = []
    for number in range(job.sizes.timing_rounds):
        turn = number % len(methods)
        seconds = {}
        for method in methods[turn:] + methods[:turn]:
            ends: list[float] = []
            _train(
                job,
                _task(job),
                load_policy(job.run.base),
                method=method,
                steps=job.sizes.timing_steps,
                learning_rate=RATE_OF_TIMING,
                output_dir=scratch,
                on_log=lambda step, row: None,
                on_step=lambda step, current, ends=ends: ends.append(time.process_time()),
            )
            steps = np.diff(ends)[WARM_UP_STEPS:]
            seconds[method] = round(float(median(steps)), 5)
            shutil.rmtree(scratch, ignore_errors=True)
        rounds.append({method: seconds[method] for method in methods})
    return rounds


def _rounded(value: float | None) -> float | None:
    """Four digits, as many as anything is read to; None where undefined."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.4g}")
