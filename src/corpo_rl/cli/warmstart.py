"""`corpo-rl warmstart`: rebuild the embedded base policy from a seed, and measure it."""

import math
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from corpo_rl.errors import DataError, MissingExtraError, UsageError

if TYPE_CHECKING:
    from corpo_rl.evaluation import ItemTable
    from corpo_rl.policies.local import LocalPolicy

SAMPLES_PER_ITEM = 16
GROUP_SIZE = 8
TRAIN_ITEMS = 640
"""As many groups as 20 steps of 32 prompts meet."""

README = """\
# A base policy for the mini task

Written by

    {command}

A Qwen3-architecture model of 3 layers and width 128 over single characters, 0.5 million parameters in float32. It
verifies sums and differences with partial skill, for RL to start from. Sampled at temperature 1:

{skill}

A problem is easy with two-digit operands and hard with three-digit ones. Correct means a reward of at least 0.2. The
hedge rate is the share of the parsed completions that score both candidates 5.
"""


@click.command()
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="Folder for the policy.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Decides all of it.")
@click.option("--clean-steps", type=click.IntRange(min=1), help="Steps on right completions.  [default: as shipped]")
@click.option("--soft-steps", type=click.IntRange(min=1), help="Steps on softened ones.  [default: as shipped]")
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True, help="Torch threads.")
@click.option("--force", is_flag=True, help="Replace a policy that lies in --out.")
def warmstart(out: Path, seed: int, clean_steps: int | None, soft_steps: int | None, threads: int, force: bool) -> None:
    """Rebuild the embedded base policy of the mini task, and print its skill.

    The base can verify, but not well: that is where RL starts from. Building it takes about six minutes on one core.
    --out receives weights, tokenizer, configuration and a README.md with the numbers printed.

    \b
    Examples:
      corpo-rl warmstart --out my-base --seed 1
      corpo-rl compare --policy my-base
    """
    if out.exists() and any(out.iterdir()) and not force:
        raise UsageError(f"--out {out}: expected a new or empty folder, found files; choose another or pass --force")
    try:
        import torch
        from tqdm import tqdm

        from corpo_rl.policies.local import load_policy
        from corpo_rl.training.warmstart import CLEAN, SOFT, build_mini_base
    except ImportError as error:
        raise MissingExtraError("corpo-rl warmstart", "train") from error

    try:
        out.mkdir(parents=True, exist_ok=True)  # now, and not after minutes of training
    except OSError as error:
        raise DataError(f"--out {out}: expected a folder that can be written, got: {error.strerror}") from error
    torch.set_num_threads(threads)
    phases = (replace(CLEAN, steps=clean_steps or CLEAN.steps), replace(SOFT, steps=soft_steps or SOFT.steps))
    with tqdm(total=sum(phase.steps for phase in phases), desc="training the base", unit="step") as bar:
        build_mini_base(out, seed=seed, phases=phases, on_step=lambda done: bar.update(done - bar.n))

    skill = _skill_text(_measure(load_policy(str(out)), seed))
    command = (
        f"corpo-rl warmstart --out {shlex.quote(str(out))} --seed {seed} --clean-steps {phases[0].steps} "
        f"--soft-steps {phases[1].steps} --threads {threads}"
    )
    (out / "README.md").write_text(README.format(command=command, skill=skill), encoding="utf-8")
    click.echo(skill)


def _measure(policy: "LocalPolicy", seed: int) -> list["ItemTable"]:
    """What the policy makes of the evaluation splits and, in groups as RL meets them, of the first training items."""
    from tqdm import tqdm

    from corpo_rl.evaluation import evaluate
    from corpo_rl.records import EVALUATION_SPLITS, TRAIN
    from corpo_rl.tasks.mini import MiniTask

    task = MiniTask()
    plan = [(split, SAMPLES_PER_ITEM, task.items(split)) for split in EVALUATION_SPLITS]
    plan.append((TRAIN, GROUP_SIZE, task.items(TRAIN)[:TRAIN_ITEMS]))
    tables = []
    with tqdm(total=sum(n * len(items) for _, n, items in plan), desc="measuring it", unit="completion") as bar:
        for split, n_samples, items in plan:
            before = bar.n

            def sample(prompts: Sequence[str], n: int, before: int = before) -> list[list[str]]:
                return policy.sample(
                    prompts,
                    n,
                    max_new_tokens=12,
                    temperature=1.0,
                    seed=seed,
                    batch_size=512,
                    on_batch=lambda done: bar.update(before + done - bar.n),
                )

            tables.append(evaluate(task, split, sample, n_samples=n_samples, items=items))
    return tables


def _skill_text(tables: Sequence["ItemTable"]) -> str:
    import numpy as np

    rows = [_skill_row(table) for table in tables]
    in_groups = np.array(tables[-1].n_correct)
    return "\n".join(
        [
            "| split | items | pass@1 | of easy ones | of hard ones | mean reward | hedge rate | parse failures |",
            "|---|---|---|---|---|---|---|---|",
            *rows,
            "",
            f"Of {len(in_groups)} training items in groups of {GROUP_SIZE}: all failed {(in_groups == 0).mean():.2f}, "
            f"mixed {((in_groups > 0) & (in_groups < GROUP_SIZE)).mean():.2f}, "
            f"all correct {(in_groups == GROUP_SIZE).mean():.2f}.",
        ]
    )


def _skill_row(table: "ItemTable") -> str:
    import numpy as np

    n_I, correct_I = np.array(table.n_samples), np.array(table.n_correct)
    n, n_parsed = sum(table.n_samples), sum(table.n_parsed)
    # the task puts easy and hard problems in turn
    passes = [part_I.mean() for part_I in (correct_I / n_I, (correct_I / n_I)[::2], (correct_I / n_I)[1::2])]
    hedge = sum(table.measure_sums["hedge"]) / n_parsed if n_parsed else math.nan
    cells = [f"{value:.3f}" for value in (*passes, sum(table.reward_sum) / n, hedge, 1 - n_parsed / n)]
    return f"| {table.split} | {len(n_I)} | {' | '.join(cells)} |"
