"""Rewards for every step against the outcome alone, on running sums that the embedded policy writes line by line.

    python recipes/mini-steps/run.py --out runs/mini-steps

Teaches the embedded policy the form, trains it under each rule and seed, evaluates, and writes numbers.json and a
table. The same command goes on where it was stopped. No model and no data are fetched.
"""

import json
import time
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import numpy as np

from corpo_rl.core.intervals import crossed_bootstrap_interval
from corpo_rl.evaluation import evaluate, measure_values, table_from_json, table_to_json
from corpo_rl.tasks.base import grade
from corpo_rl.tasks.mini_steps import MiniStepsTask, warm_start_examples

RULES = {
    "both": ("both", "corpo"),  # a floor under every step, and the rollout's advantage with it
    "steps": ("steps", "corpo"),  # the floor under every step alone: nobody says whether the total is right
    "outcome": ("outcome", "corpo"),  # CoRPO as it is: the rollout's advantage on every token
    "dr_grpo": ("outcome", "dr_grpo"),  # the same without a floor
}
"""For each rule its `step_form` and `advantage_estimator`."""

TASK = MiniStepsTask()
ITEMS = TASK.items("train")
MAX_NEW_TOKENS = 14
"""A whole answer takes up to 11 characters and the end."""
SAMPLES = 16
"""Completions of each evaluation item."""
WARM_UP_SEED = 0
MEASURES = {
    "solved": "pass@1",
    "lines": "right_lines",
    "unsound": "unsound",
    "unparsed": "parse_failure_rate",
}


def outcome(completions, item, **_):
    """The reward of the whole: how close the last line is to the total."""
    return [grade(TASK, ITEMS[index], text).reward for index, text in zip(item, completions, strict=True)]


def judge_steps(texts, item, **_):
    """The rewards of the steps: each line by what the line before it and the next number add up to."""
    return [TASK.step_rewards(ITEMS[index], text) for index, text in zip(item, texts, strict=True)]


def warm_start(folder, *, steps):
    """Teach the embedded policy the form and some skill; a folder that is there is whole and is kept."""
    from corpo_rl.policies.local import load_policy
    from corpo_rl.training.warmstart import train_supervised

    if folder.exists():
        return
    policy = load_policy("mini")
    with TemporaryDirectory(dir=folder.parent) as scratch:
        train_supervised(
            policy.model,
            policy.tokenizer,
            warm_start_examples(np.random.default_rng(WARM_UP_SEED), steps * 64),
            output_dir=Path(scratch) / "trainer",
            steps=steps,
            batch_size=64,
            learning_rate=1.5e-3,
            seed=WARM_UP_SEED,
            max_length=64,
            warmup_steps=min(30, steps // 10),
            lr_scheduler_type="cosine",
            use_cpu=True,
        )
        whole = Path(scratch) / "policy"
        policy.model.save_pretrained(whole)
        policy.tokenizer.save_pretrained(whole)
        whole.rename(folder)


def train(base, rule, seed, folder, *, steps, prompts, learning_rate):
    """Train the warm-started policy; the policy, and what each step logged."""
    from datasets import Dataset
    from transformers import PrinterCallback, ProgressCallback

    from corpo_rl.policies.local import load_policy
    from corpo_rl.training.steps import StepConfig, StepTrainer

    policy = load_policy(str(base))
    form, estimator = RULES[rule]
    config = StepConfig(
        output_dir=str(folder),
        advantage_estimator=estimator,
        min_correct=TASK.min_correct,
        step_form=form,
        step_min_correct=[TASK.step_min_correct],
        max_steps=steps,
        num_generations=8,
        per_device_train_batch_size=8 * prompts,
        learning_rate=learning_rate,
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
    trainer = StepTrainer(
        model=policy.model,
        reward_funcs=outcome,
        step_reward_func=judge_steps,
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


def pushed_up(folder):
    """From a run's completion log: failed steps and failed rollouts, and how many of each had an advantage above 0."""
    import pandas as pd

    found = {"n_failed_steps": 0, "n_steps_up": 0, "n_failed_rollouts": 0, "n_rollouts_up": 0}
    for path in sorted((folder / "completions").glob("*.parquet")):
        table = pd.read_parquet(path)
        for rewards, advantages in zip(table["corpo_step_rewards"], table["corpo_step_advantages"], strict=True):
            for reward, advantage in zip(json.loads(rewards), json.loads(advantages), strict=True):
                failed = reward is not None and reward < TASK.step_min_correct
                found["n_failed_steps"] += failed
                found["n_steps_up"] += failed and advantage > 1e-9
        failed_N = table["outcome"] < TASK.min_correct
        found["n_failed_rollouts"] += int(failed_N.sum())
        found["n_rollouts_up"] += int((failed_N & (table["advantage"] > 1e-6)).sum())
    return found


def judge(policy, *, n_items):
    """Evaluation of a policy on held-out sums."""
    return evaluate(
        TASK,
        "in_domain",
        lambda prompts, n: policy.sample(
            prompts, n, max_new_tokens=MAX_NEW_TOKENS, temperature=1.0, seed=0, batch_size=512
        ),
        n_samples=SAMPLES,
        items=TASK.items("in_domain")[: n_items or None],
    )


def run_once(base, rule, seed, folder, *, steps, prompts, learning_rate, items):
    """One run, from its file where it is done."""
    done = folder / "run.json"
    if not done.exists():
        start = time.monotonic()
        policy, logged = train(base, rule, seed, folder, steps=steps, prompts=prompts, learning_rate=learning_rate)
        seconds = time.monotonic() - start
        run = {
            "seed": seed,
            "seconds": round(seconds, 1),
            **pushed_up(folder),
            "solved_in_training": [entry["corpo/correct_share"] for entry in logged],
            "table": table_to_json(judge(policy, n_items=items)),
        }
        whole = folder / "run.json.part"
        whole.write_text(json.dumps(run) + "\n", encoding="utf-8")
        whole.rename(done)
    return json.loads(done.read_text(encoding="utf-8"))


def described(values_SI):
    """Mean over seeds and items with its 95 % interval."""
    found = crossed_bootstrap_interval(values_SI, rng=np.random.default_rng(0))
    return {"value": found.value, "low": found.low, "high": found.high}


def values_of(runs):
    """Each measure of each seed at each item; short and long problems apart too. Items take turns in length."""
    values = measure_values([table_from_json(run["table"]) for run in runs], ks=(1,))
    found = {name: values[measure] for name, measure in MEASURES.items()}
    return found | {"solved_short": found["solved"][:, 0::2], "solved_long": found["solved"][:, 1::2]}


def text_of(numbers):
    """The table of the page."""
    lines = [
        "pushed up in training, of all that failed",
        f"{'':9}{'steps':>22}{'':>9}{'rollouts':>26}",
    ]
    for rule, found in numbers["rules"].items():
        sums = {name: sum(run[name] for run in found["runs"]) for name in found["runs"][0] if name.startswith("n_")}
        cells = []
        for up, failed in (("n_steps_up", "n_failed_steps"), ("n_rollouts_up", "n_failed_rollouts")):
            share = 100 * sums[up] / sums[failed] if sums[failed] else float("nan")
            cells.append(f"{sums[up]:>9,} of {sums[failed]:>9,} {share:>6.1f} %")
        lines.append(f"{rule:9}" + "  ".join(cells))
    names = ("solved", "solved_short", "solved_long", "lines", "unsound")
    heads = ("solved", "two lines", "three lines", "right lines", "unsound")
    lines += ["", "after training, held-out sums", f"{'':9}" + "".join(f"{head:>21}" for head in heads)]
    for rule, found in [("base", numbers["base"]), *numbers["rules"].items()]:
        cells = ("{value:.3f} [{low:.3f}, {high:.3f}]".format(**found["evaluation"][name]) for name in names)
        lines.append(f"{rule:9}" + "".join(f"{cell:>21}" for cell in cells))
    lines += ["", "less the outcome alone, on the same items and seeds"]
    for rule, difference in numbers["less_outcome"].items():
        cells = ("{value:+.3f} [{low:+.3f}, {high:+.3f}]".format(**difference[name]) for name in names)
        lines.append(f"{rule:9}" + "".join(f"{cell:>24}" for cell in cells))
    return "\n".join(line.rstrip() for line in lines)


def settled(out, settings):
    """Refuse to go on in a folder of other settings."""
    path = out / "settings.json"
    if path.exists():
        found = json.loads(path.read_text(encoding="utf-8"))
        if found != settings:
            raise click.UsageError(f"--out: {out} holds runs with {found}, not {settings}; name a new folder")
    elif out.exists() and any(out.iterdir()):
        raise click.UsageError(f"--out: {out} is not empty and not of this recipe; name a new folder")
    else:
        out.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(settings) + "\n", encoding="utf-8")


@click.command()
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder of the runs.")
@click.option("--seeds", default="0,1,2,3,4", show_default=True, help="Training seeds, with commas between them.")
@click.option("--rules", default=",".join(RULES), show_default=True, help="Rules, with commas between them.")
@click.option("--warm-up", type=click.IntRange(min=1), default=700, show_default=True, help="Supervised steps.")
@click.option("--steps", type=click.IntRange(min=1), default=60, show_default=True, help="Optimizer steps of a run.")
@click.option("--prompts", type=click.IntRange(min=1), default=32, show_default=True, help="Prompts of a step.")
@click.option("--learning-rate", type=float, default=3e-4, show_default=True, help="Constant, of AdamW.")
@click.option("--items", type=click.IntRange(min=0), default=0, help="Evaluation items.  [default: all 200]")
def main(out, seeds, rules, warm_up, steps, prompts, learning_rate, items):
    """Run it all, or what is left of it, and write OUT/numbers.json."""
    unknown = [rule for rule in rules.split(",") if rule not in RULES]
    if unknown:
        raise click.UsageError(f"--rules: expected some of {', '.join(RULES)}, got {', '.join(unknown)}")
    settings = {
        "warm_up": warm_up, "steps": steps, "prompts": prompts, "learning_rate": learning_rate, "items": items,
    }  # fmt: skip
    settled(out, settings)
    import torch
    from transformers import logging

    from corpo_rl.policies.local import load_policy

    torch.set_num_threads(1)
    logging.set_verbosity_error()
    warnings.filterwarnings("ignore", message=".*gradient_checkpointing.*", category=FutureWarning)
    base, start = out / "base", time.monotonic()
    warm_start(base, steps=warm_up)
    click.echo(f"base: {time.monotonic() - start:.0f} s", err=True)
    runs = {"base": [{"table": table_to_json(judge(load_policy(str(base)), n_items=items))}]}
    for seed in map(int, seeds.split(",")):
        for rule in rules.split(","):
            click.echo(f"{rule}, seed {seed}", err=True)
            run = run_once(
                base, rule, seed, out / f"{rule}-{seed}",
                steps=steps, prompts=prompts, learning_rate=learning_rate, items=items,
            )  # fmt: skip
            runs.setdefault(rule, []).append(run)

    values = {rule: values_of(found) for rule, found in runs.items()}
    evaluations = {
        rule: {name: described(values_SI) for name, values_SI in found.items()} for rule, found in values.items()
    }
    trained = [rule for rule in runs if rule != "base"]
    numbers = {
        "command": f"python recipes/mini-steps/run.py --out {out}",
        **settings,
        "base": {"evaluation": evaluations["base"]},
        "rules": {
            rule: {
                "runs": [{name: value for name, value in run.items() if name != "table"} for run in runs[rule]],
                "evaluation": evaluations[rule],
            }
            for rule in trained
        },
        "less_outcome": {
            rule: {name: described(values_SI - values["outcome"][name]) for name, values_SI in values[rule].items()}
            for rule in trained
            if rule != "outcome" and "outcome" in trained
        },
    }
    (out / "numbers.json").write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    click.echo(text_of(numbers))


if __name__ == "__main__":
    main()
