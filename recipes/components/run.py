"""Correctness, form and length: a floor on correctness against the plain weighted sum of the three, on the mini task.

    python recipes/components/run.py --out runs/components

Trains the embedded policy under each rule and seed, audits every completion log with `corpo-rl audit`, evaluates, and
writes numbers.json and a table. No model and no data are fetched.
"""

import json
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

from corpo_rl.core.intervals import crossed_bootstrap_interval
from corpo_rl.errors import ParseFailure
from corpo_rl.evaluation import evaluate, measure_values
from corpo_rl.tasks.base import grade
from corpo_rl.tasks.mini import MiniTask

RULES = {"floor": "corpo", "dr_grpo": "dr_grpo", "grpo": "grpo"}
"""The floor on correctness, and the plain weighted sum under two estimators: names for `advantage_estimator`."""

WEIGHTS = {"correct": 1.0, "form": 1.0, "short": 0.5}
"""correct: the task's reward, -1 to 1, at least 0.2 for a correct judgement. form: 1 where the two scores add up to 10.
short: minus the characters of the completion. Form is worth half of what lies between the worst and the best judgement,
and a character a quarter of it: enough for a weighted sum to notice."""

MAX_NEW_TOKENS = 12
SAMPLES = 8
"""Completions of each evaluation item."""


@dataclass(frozen=True)
class Judged:
    """A parsed completion with what the two free components say of it."""

    scores: object
    form: float
    characters: float


class FormTask(MiniTask):
    """The mini task, whose evaluation also tells form and length."""

    def parse(self, completion):
        """The scores, with the form and length of their text."""
        scores = super().parse(completion)
        return Judged(scores, float(scores.a + scores.b == 10), float(len(completion)))

    def reward(self, item, answer):
        """The mini task's own."""
        return super().reward(item, answer.scores)

    def measures(self, item, answer):
        """Form and length of a completion that parsed."""
        return {"form": answer.form, "characters": answer.characters}


TASK = FormTask()
ITEMS = TASK.items("train")


def correct(completions, item, **_):
    """The component that means correctness: the reward of the mini task."""
    return [grade(TASK, ITEMS[index], text).reward for index, text in zip(item, completions, strict=True)]


def form(completions, **_):
    """1 for scores that add up to 10, 0 for others and for no scores at all."""
    return [_form(text) for text in completions]


def short(completions, **_):
    """Minus the characters."""
    return [-float(len(text)) for text in completions]


def _form(text):
    try:
        return TASK.parse(text).form
    except ParseFailure:
        return 0.0


def train(rule, seed, folder, *, steps, prompts):
    """Train the embedded policy; the policy, and what each step logged."""
    import torch
    from datasets import Dataset
    from transformers import PrinterCallback, ProgressCallback

    from corpo_rl.policies.local import load_policy
    from corpo_rl.training.components import ComponentsConfig, ComponentsTrainer

    torch.set_num_threads(1)
    policy = load_policy("mini")
    config = ComponentsConfig(
        output_dir=str(folder),
        correctness="correct",  # the rule: this function has the floor ...
        min_correct=TASK.min_correct,  # ... in its own units
        reward_weights=list(WEIGHTS.values()),
        advantage_estimator=RULES[rule],
        max_steps=steps,
        num_generations=8,
        per_device_train_batch_size=8 * prompts,
        learning_rate=3e-4,
        lr_scheduler_type="constant",
        temperature=1.0,
        max_completion_length=MAX_NEW_TOKENS,
        loss_type="dr_grpo",
        beta=0.0,
        seed=seed,
        bf16=False,
        use_cpu=True,
        gradient_checkpointing=False,
        dataloader_pin_memory=False,
        logging_steps=1,
        log_completions=True,
        num_completions_to_print=0,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    trainer = ComponentsTrainer(
        model=policy.model,
        reward_funcs=[correct, form, short],
        args=config,
        train_dataset=Dataset.from_dict(
            {"prompt": [TASK.prompt(item) for item in ITEMS], "item": list(range(len(ITEMS)))}
        ),
        processing_class=policy.tokenizer,
    )
    for callback in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(callback)
    trainer.train()
    return policy, [entry for entry in trainer.state.log_history if "loss" in entry]


def audit(folder):
    """What `corpo-rl audit` finds in the completion log of a run."""
    weights = ",".join(f"{name}={weight}" for name, weight in WEIGHTS.items())
    command = [sys.executable, "-m", "corpo_rl", "audit", str(folder / "completions"), "--reward-weights", weights]
    command += ["--correct-column", "corpo_correct", "--format", "json"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {
        "n_failed": found["n_failed"],
        "n_reinforced_failures": found["n_reinforced_failures"],
        "reinforced_failure_share": found["reinforced_failure_share"],
        "n_reinforced_by": {row["name"]: row["n_reinforced_by_it"] for row in found["components"]},
    }


def judge(policy, *, n_items):
    """Evaluation of a policy on held-out sums: one value for each item and measure."""
    table = evaluate(
        TASK,
        "in_domain",
        lambda prompts, n: policy.sample(
            prompts, n, max_new_tokens=MAX_NEW_TOKENS, temperature=1.0, seed=0, batch_size=512
        ),
        n_samples=SAMPLES,
        items=TASK.items("in_domain")[: n_items or None],
    )
    values = measure_values([table], ks=(1,))
    names = {"correct": "pass@1", "form": "form", "characters": "characters", "unparsed": "parse_failure_rate"}
    return {name: values[measure][0] for name, measure in names.items()}


def interval(values_SI):
    """Mean over seeds and items with its 95 % interval."""
    found = crossed_bootstrap_interval(values_SI, rng=np.random.default_rng(0))
    return {"value": found.value, "low": found.low, "high": found.high}


def text_of(numbers):
    """The table of the page."""
    lines = [
        "failed rollouts with a positive advantage, in training",
        f"{'':9}{'failed':>9}{'reinforced':>12}{'by seed':>16}   only through" + "".join(f"{n:>9}" for n in WEIGHTS),
    ]
    for rule, found in numbers["rules"].items():
        audits = [run["audit"] for run in found["runs"]]
        n_failed, n_up = (sum(one[name] for one in audits) for name in ("n_failed", "n_reinforced_failures"))
        shares = [100 * one["n_reinforced_failures"] / one["n_failed"] for one in audits]
        by = [sum(one["n_reinforced_by"][name] for one in audits) for name in WEIGHTS]
        by_seed = f"{min(shares):.1f} to {max(shares):.1f} %"
        lines.append(f"{rule:9}{n_failed:>9,}{n_up:>12,}{by_seed:>16}{'':15}" + "".join(f"{n:>9,}" for n in by))
    lines += ["", "after training, held-out sums", f"{'':9}{'correct':>24}{'form':>24}{'characters':>24}"]
    for rule, found in [("base", numbers["base"]), *numbers["rules"].items()]:
        cells = (
            "{value:.2f} [{low:.2f}, {high:.2f}]".format(**found["evaluation"][name])
            for name in ("correct", "form", "characters")
        )
        lines.append(f"{rule:9}" + "".join(f"{cell:>24}" for cell in cells))
    lines += ["", "floor less the others on the same items and seeds"]
    for rule, difference in numbers["floor_less"].items():
        cells = ("{value:+.3f} [{low:+.3f}, {high:+.3f}]".format(**difference[name]) for name in difference)
        lines.append(f"{rule:9}" + "".join(f"{cell:>24}" for cell in cells))
    return "\n".join(line.rstrip() for line in lines)


@click.command()
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder of the runs.")
@click.option("--seeds", default="0,1,2", show_default=True, help="Training seeds, with commas between them.")
@click.option("--steps", type=click.IntRange(min=1), default=100, show_default=True, help="Optimizer steps of a run.")
@click.option("--prompts", type=click.IntRange(min=1), default=32, show_default=True, help="Prompts of a step.")
@click.option("--items", type=click.IntRange(min=0), default=0, help="Evaluation items.  [default: all 196]")
def main(out, seeds, steps, prompts, items):
    """Run it all and write OUT/numbers.json."""
    if out.exists() and any(out.iterdir()):
        raise click.UsageError(f"--out: {out} is not empty; name a new folder")
    from transformers import logging

    from corpo_rl.policies.local import load_policy

    logging.set_verbosity_error()
    warnings.filterwarnings("ignore", message=".*gradient_checkpointing.*", category=FutureWarning)
    seeds = [int(seed) for seed in seeds.split(",")]
    evaluations = {"base": [judge(load_policy("mini"), n_items=items)]}
    rules = {}
    for rule in RULES:
        runs, evaluations[rule] = [], []
        for seed in seeds:
            click.echo(f"{rule}, seed {seed}", err=True)
            folder, start = out / f"{rule}-{seed}", time.monotonic()
            policy, steps_logged = train(rule, seed, folder, steps=steps, prompts=prompts)
            seconds = time.monotonic() - start
            evaluations[rule].append(judge(policy, n_items=items))
            lifted = sum(entry["corpo/components/plain_lifted"] for entry in steps_logged)
            runs.append(
                {"seed": seed, "seconds": round(seconds, 1), "audit": audit(folder), "n_plain_lifted": int(lifted)}
            )
        rules[rule] = {"runs": runs}
    stacked = {
        rule: {name: np.stack([one[name] for one in found]) for name in found[0]} for rule, found in evaluations.items()
    }
    described = {
        rule: {name: interval(values_SI) for name, values_SI in values.items()} for rule, values in stacked.items()
    }
    numbers = {
        "command": f"python recipes/components/run.py --out {out}",
        "steps": steps,
        "prompts_per_step": prompts,
        "seeds": seeds,
        "weights": WEIGHTS,
        "base": {"evaluation": described["base"]},
        "rules": {rule: {**rules[rule], "evaluation": described[rule]} for rule in RULES},
        "floor_less": {
            rule: {
                name: interval(stacked["floor"][name] - stacked[rule][name])
                for name in ("correct", "form", "characters")
            }
            for rule in RULES
            if rule != "floor"
        },
    }
    (out / "numbers.json").write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    click.echo(text_of(numbers))


if __name__ == "__main__":
    main()
