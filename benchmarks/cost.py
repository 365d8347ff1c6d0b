"""What a step costs under GRPO, CoRPO and a learned value: time, peak memory, and the estimator's own share.

The same model, completions of the same length, and the same TRL; each method runs in processes of its own, in turn,
several rounds, in the other order every other round, so that a slow spell of the machine hits all alike. A step is
generation, scoring, loss, update and logging. Its seconds are the processor's: other work on the machine adds
less to them than to those of the wall, but it does, so run this on a quiet one.

The estimator is what turns rewards into advantages: for grpo and corpo arithmetic on the rewards, for the two learned
values (`corpo_rl.training.value`) the critic's forward pass, GAE, and the critic's own training. `docs/cost.md` has a
table of it and what it means.

    OMP_NUM_THREADS=1 python benchmarks/cost.py
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from statistics import median

import click
import torch
from datasets import Dataset
from transformers import PrinterCallback, Qwen3Config, Qwen3ForCausalLM, TrainerCallback
from transformers.utils import logging

from corpo_rl.policies.mini import build_tokenizer
from corpo_rl.training.trl import CorpoConfig, CorpoTrainer
from corpo_rl.training.value import ValueConfig, ValueTrainer

METHODS = {
    "grpo": (CorpoTrainer, CorpoConfig, {"advantage_estimator": "grpo"}),
    "corpo": (CorpoTrainer, CorpoConfig, {"advantage_estimator": "corpo"}),
    "value head": (ValueTrainer, ValueConfig, {"critic": "head", "gae_trace": 0.95}),
    "value model": (ValueTrainer, ValueConfig, {"critic": "model", "gae_trace": 0.95}),
}
WARM_UP = 1
NEW_TOKENS = 24


class Clock(TrainerCallback):
    """Seconds of each step, by the wall and of the processor's work, and the work of the estimator within it."""

    def __init__(self):
        self.wall, self.steps, self.estimator, self._started = [], [], [], None

    def on_step_begin(self, args, state, control, **_):
        """End the last step, logging included, and begin the next."""
        self._end()
        self._started = time.perf_counter(), time.process_time()
        self.estimator.append(0.0)

    def on_train_end(self, args, state, control, **_):
        """End the last step."""
        self._end()

    def _end(self):
        if self._started is not None:
            self.wall.append(time.perf_counter() - self._started[0])
            self.steps.append(time.process_time() - self._started[1])
            self._started = None

    def watch(self, function):
        """The function, its work counted as the estimator's."""

        def timed(*arguments, **settings):
            started = time.process_time()
            try:
                return function(*arguments, **settings)
            finally:
                self.estimator[-1] += time.process_time() - started

        return timed


def model(hidden, layers):
    torch.manual_seed(0)
    tokenizer = build_tokenizer()
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        intermediate_size=3 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=hidden // 8,
        max_position_embeddings=128,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    return Qwen3ForCausalLM(config)


def graded(completions, **_):
    return [sum(map(ord, text)) % 11 / 10 for text in completions]


def run(method, hidden, layers, steps):
    warnings.simplefilter("ignore")
    logging.set_verbosity_error()
    clock = Clock()
    kind, config, settings = METHODS[method]
    with tempfile.TemporaryDirectory() as folder:
        trainer = kind(
            model=model(hidden, layers),
            reward_funcs=graded,
            args=config(
                output_dir=folder,
                **settings,
                min_correct=0.6,
                num_generations=8,
                per_device_train_batch_size=16,
                max_completion_length=NEW_TOKENS,
                generation_kwargs={"min_new_tokens": NEW_TOKENS},
                learning_rate=1e-5,
                bf16=False,
                use_cpu=True,
                gradient_checkpointing=False,
                dataloader_pin_memory=False,
                logging_steps=1,
                max_steps=WARM_UP + steps,
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
            ),
            train_dataset=Dataset.from_dict({"prompt": [f"{number}+{number}?" for number in range(10, 90)]}),
            processing_class=build_tokenizer(),
            callbacks=[clock],
        )
        trainer._estimate = clock.watch(trainer._estimate)
        trainer._token_advantages = clock.watch(trainer._token_advantages)
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    seconds = {name: getattr(clock, name)[WARM_UP:] for name in ("wall", "steps", "estimator")}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    trained = {"policy": size(trainer.model), "critic": size(getattr(trainer, "critic", None))}
    click.echo(json.dumps({**seconds, "peak_mb": peak, **trained}))


def size(module):
    return sum(parameter.numel() for parameter in module.parameters()) if module is not None else 0


@click.command()
@click.option("--hidden", default=384, show_default=True)
@click.option("--layers", default=8, show_default=True)
@click.option("--steps", default=5, show_default=True, help="Timed steps of a process.")
@click.option("--rounds", default=2, show_default=True)
@click.option("--only", type=click.Choice(METHODS), hidden=True)
def main(hidden, layers, steps, rounds, only):
    if only:
        run(only, hidden, layers, steps)
        return
    found = {method: [] for method in METHODS}
    for number in range(rounds):
        for method in list(METHODS)[:: 1 if number % 2 == 0 else -1]:
            command = [sys.executable, __file__, "--only", method, "--hidden", str(hidden), "--layers", str(layers)]
            done = subprocess.run([*command, "--steps", str(steps)], capture_output=True, text=True, check=True)
            found[method].append(json.loads(done.stdout.strip().splitlines()[-1]))

    policy = found["grpo"][0]["policy"]
    click.echo(
        f"{policy / 1e6:.1f} M parameters, 2 prompts x 8 rollouts x {NEW_TOKENS} tokens, {rounds} rounds of {steps}"
    )
    base = median(seconds for one in found["grpo"] for seconds in one["steps"])
    base_peak = median(one["peak_mb"] for one in found["grpo"])
    for method, runs in found.items():
        taken = sorted(seconds for one in runs for seconds in one["steps"])
        step, estimator = median(taken), median(seconds for one in runs for seconds in one["estimator"])
        wall = median(seconds for one in runs for seconds in one["wall"])
        peaks = sorted(one["peak_mb"] for one in runs)
        click.echo(
            f"{method:<11} step {step:6.3f} s ({taken[0]:.3f} to {taken[-1]:.3f}), {step / base:.2f} x grpo; "
            f"by the wall {wall:.3f} s; "
            f"estimator {1e3 * estimator:7.2f} ms, {estimator / step:6.2%} of it; "
            f"peak {median(peaks):5.0f} MB ({peaks[0]:.0f} to {peaks[-1]:.0f}), {median(peaks) - base_peak:+.0f} MB; "
            f"critic of {runs[0]['critic']:,} weights"
        )


if __name__ == "__main__":
    main()
