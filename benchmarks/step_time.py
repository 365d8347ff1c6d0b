"""Time a training step of `CorpoTrainer` beside one of TRL's `GRPOTrainer`.

Two trainers on copies of one model take single steps in turn, so that a slow spell of the machine hits them alike.
Every completion has the same length and the learning rate is 0, so that both do the same work in every step. A step is
generation, scoring, loss, update and logging. CPU seconds are those of the trainer's own thread, which other programs
on the machine disturb less than the clock. Run with one thread:

    OMP_NUM_THREADS=1 python benchmarks/step_time.py
"""

import tempfile
import threading
import time
import warnings
from typing import Any

import click
import numpy as np
import torch
from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback
from transformers.utils import logging
from trl import GRPOConfig, GRPOTrainer

from corpo_rl.policies.mini import build_tokenizer, new_model
from corpo_rl.training.trl import CorpoConfig, CorpoTrainer

WARM_UP = 2
NEW_TOKENS = 12


class Turns(TrainerCallback):
    """Lets one of two trainers take a step, then the other; keeps the clock and CPU seconds of each step."""

    def __init__(self, mine: threading.Semaphore, other: threading.Semaphore) -> None:
        self.mine, self.other = mine, other
        self.steps: list[tuple[float, float]] = []
        self._started: tuple[float, float] | None = None

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """End the last step, logging included, and wait for the turn to do the next."""
        self._end_step()
        self.mine.acquire()
        self._started = (time.perf_counter(), time.thread_time())

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """End the last step."""
        self._end_step()

    def _end_step(self) -> None:
        if self._started is not None:
            self.steps.append((time.perf_counter() - self._started[0], time.thread_time() - self._started[1]))
            self._started = None
            self.other.release()


def graded(completions: list[str], **_: Any) -> list[float]:
    return [sum(map(ord, text)) % 11 / 10 for text in completions]


def trainer(kind: type[GRPOTrainer], config: type[GRPOConfig], folder: str, turns: Turns, **settings: Any) -> Any:
    args = config(
        output_dir=folder,
        num_generations=8,
        max_completion_length=NEW_TOKENS,
        generation_kwargs={"min_new_tokens": NEW_TOKENS},
        learning_rate=0.0,
        loss_type="dr_grpo",
        scale_rewards="none",
        bf16=False,
        use_cpu=True,
        gradient_checkpointing=False,
        dataloader_pin_memory=False,
        logging_steps=1,
        num_completions_to_print=0,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        **settings,
    )
    made = kind(
        model=new_model(0),
        reward_funcs=graded,
        args=args,
        train_dataset=Dataset.from_dict({"prompt": [f"{number}+{number}?" for number in range(10, 90)]}),
        processing_class=build_tokenizer(),
        callbacks=[turns],
    )
    made.remove_callback(PrinterCallback)
    return made


def compare(*, rollouts: int, steps: int, log_completions: bool) -> None:
    first, second = threading.Semaphore(1), threading.Semaphore(0)
    ours, theirs = Turns(first, second), Turns(second, first)
    settings = {
        "per_device_train_batch_size": rollouts,
        "max_steps": WARM_UP + steps,
        "log_completions": log_completions,
    }
    with tempfile.TemporaryDirectory() as folder:
        corpo = trainer(CorpoTrainer, CorpoConfig, f"{folder}/corpo", ours, min_correct=0.7, **settings)
        grpo = trainer(GRPOTrainer, GRPOConfig, f"{folder}/grpo", theirs, **settings)
        threads = [threading.Thread(target=one.train) for one in (corpo, grpo)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    ours_S2, theirs_S2 = (np.array(turns.steps[WARM_UP:]) for turns in (ours, theirs))
    assert len(ours_S2) == len(theirs_S2) == steps
    table = "with" if log_completions else "without"
    click.echo(f"{rollouts} rollouts, {steps} steps of each, {table} completion log")
    for column, name in enumerate(("clock", "CPU")):
        ratio_S = ours_S2[:, column] / theirs_S2[:, column]
        low, median, high = np.quantile(ratio_S, (0.25, 0.5, 0.75))
        seconds = np.median(theirs_S2[:, column])
        click.echo(
            f"  {name:5} seconds, CorpoTrainer / GRPOTrainer: median {median:.3f}, "
            f"middle half {low:.3f} to {high:.3f} (GRPOTrainer's step: {seconds:.3f} s)"
        )


@click.command()
@click.option("--rollouts", default=256, show_default=True, help="Rollouts in a step, in groups of 8.")
@click.option("--steps", default=25, show_default=True, help="Steps of each trainer that are timed.")
def main(rollouts: int, steps: int) -> None:
    """Print the ratio of step times, with and without TRL's completion log."""
    warnings.simplefilter("ignore")
    logging.set_verbosity_error()
    torch.set_num_threads(1)
    for log_completions in (False, True):
        compare(rollouts=rollouts, steps=steps, log_completions=log_completions)


if __name__ == "__main__":
    main()
