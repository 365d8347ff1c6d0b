"""What a step costs under GRPO, CoRPO and a learned value baseline: time, peak memory, and the estimator's own share.

The same model, completions of the same length, and the same TRL; each method runs in processes of its own, in turn,
several rounds, so that a slow spell of the machine hits all alike. A step is generation, scoring, loss, update and
logging. The value baseline adds to GRPO what PPO has beside it: a critic of the policy's own architecture and size with
a scalar head, one forward pass for the values of every token, generalised advantages (gamma 1, lambda 0.95) in
the place of group means, one forward and backward pass and one AdamW step on the squared error to the returns.

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
from trl import GRPOTrainer

import corpo_rl.training.trl as ours
from corpo_rl.policies.mini import build_tokenizer
from corpo_rl.training.trl import CorpoConfig, CorpoTrainer

METHODS = ("grpo", "corpo", "value")
WARM_UP = 1
NEW_TOKENS = 24
LAMBDA = 0.95


class Clock(TrainerCallback):
    """Seconds of each step, and of the estimator within it."""

    def __init__(self):
        self.steps, self.estimator, self._started = [], [], None

    def on_step_begin(self, args, state, control, **_):
        """End the last step, logging included, and begin the next."""
        self._end()
        self._started = time.perf_counter()
        self.estimator.append(0.0)

    def on_train_end(self, args, state, control, **_):
        """End the last step."""
        self._end()

    def _end(self):
        if self._started is not None:
            self.steps.append(time.perf_counter() - self._started)
            self._started = None

    def watch(self, function):
        """The function, its seconds counted as the estimator's."""

        def timed(*arguments, **settings):
            started = time.perf_counter()
            try:
                return function(*arguments, **settings)
            finally:
                self.estimator[-1] += time.perf_counter() - started

        return timed


class ValueTrainer(GRPOTrainer):
    """GRPO's trainer with a critic in the place of the group's mean."""

    def __init__(self, critic, clock, **settings):
        super().__init__(**settings)
        self._critic = critic
        self._head = torch.nn.Linear(critic.config.hidden_size, 1)
        self._optimizer = torch.optim.AdamW([*critic.parameters(), *self._head.parameters()], lr=1e-4)
        self._advantages = clock.watch(self._with_values)

    def _calculate_rewards(self, *arguments):
        self._rewards = super()._calculate_rewards(*arguments)
        return self._rewards

    def _generate_and_score_completions(self, inputs):
        output = super()._generate_and_score_completions(inputs)
        output["advantages"] = self._advantages(output)
        return output

    def _with_values(self, output):
        rewards = self._rewards.nansum(dim=1)
        ids = torch.cat([output["prompt_ids"], output["completion_ids"]], dim=1)
        attention = torch.cat([output["prompt_mask"], output["completion_mask"]], dim=1)
        mask = output["completion_mask"].float()
        with torch.no_grad():
            values = self._values(ids, attention, mask.size(1)) * mask
        advantages, running = torch.zeros_like(values), torch.zeros(len(values))
        last = mask.cumsum(dim=1).argmax(dim=1)
        for token in reversed(range(values.size(1))):
            after = values[:, token + 1] if token + 1 < values.size(1) else torch.zeros(len(values))
            reward = torch.where(last == token, rewards, 0.0)
            running = (reward + after - values[:, token]) * mask[:, token] + LAMBDA * running
            advantages[:, token] = running
        returns = advantages + values
        loss = ((self._values(ids, attention, mask.size(1)) - returns) ** 2 * mask).sum() / mask.sum()
        loss.backward()
        self._optimizer.step()
        self._optimizer.zero_grad()
        return advantages * mask

    def _values(self, ids, attention, n_tokens):
        hidden = self._critic.model(input_ids=ids, attention_mask=attention).last_hidden_state
        # the value of a token is that of the state before it
        return self._head(hidden[:, -n_tokens - 1 : -1]).squeeze(-1)


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
    kind, extra = {
        "grpo": (CorpoTrainer, {}),
        "corpo": (CorpoTrainer, {}),
        "value": (ValueTrainer, {"critic": model(hidden, layers), "clock": clock}),
    }[method]
    ours.batch_advantages = clock.watch(ours.batch_advantages)
    with tempfile.TemporaryDirectory() as folder:
        trainer = kind(
            model=model(hidden, layers),
            reward_funcs=graded,
            args=CorpoConfig(
                output_dir=folder,
                advantage_estimator="grpo" if method == "value" else method,
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
            **extra,
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    n_parameters = sum(parameter.numel() for parameter in trainer.model.parameters())
    seconds = {"steps": clock.steps[WARM_UP:], "estimator": clock.estimator[WARM_UP:]}
    click.echo(json.dumps({**seconds, "peak_mb": peak, "n_parameters": n_parameters}))


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
    for _ in range(rounds):
        for method in METHODS:
            command = [sys.executable, __file__, "--only", method, "--hidden", str(hidden), "--layers", str(layers)]
            done = subprocess.run([*command, "--steps", str(steps)], capture_output=True, text=True, check=True)
            found[method].append(json.loads(done.stdout.strip().splitlines()[-1]))
    base = median(seconds for one in found["grpo"] for seconds in one["steps"])
    base_peak = max(one["peak_mb"] for one in found["grpo"])
    click.echo(
        f"{found['grpo'][0]['n_parameters'] / 1e6:.1f} M parameters, 2 prompts x 8 rollouts x {NEW_TOKENS} tokens"
    )
    for method, runs in found.items():
        step = median(seconds for one in runs for seconds in one["steps"])
        estimator = median(seconds for one in runs for seconds in one["estimator"])
        peak = max(one["peak_mb"] for one in runs)
        click.echo(
            f"{method:<6} step {step:6.3f} s ({step / base:.2f} x grpo), baseline {1e3 * estimator:8.2f} ms = "
            f"{estimator / step:6.2%} of it, peak {peak:6.0f} MB ({peak / base_peak:.2f} x)"
        )


if __name__ == "__main__":
    main()
