"""One of two processes of a run, started by `test_trl_processes.py` with torchrun; writes what it saw to a folder."""

import json
import os
import sys
from pathlib import Path

from .support import MIN_CORRECT, logged, prompts, tenths, train


def main(folder):
    scored = []

    rank = int(os.environ["RANK"])

    def reward(completions, prompts, log_extra, **_):
        """Up to 0.5 on the first process, from there on on the second: a group over both has a mean of its own.

        The first of each process has none.
        """
        rewards = [(5 * rank + tenth / 2) / 10 for tenth in map(tenths, completions)]
        rewards[0] = None
        scored.append([prompts, completions, rewards])
        log_extra("length", [len(text) for text in completions])
        return rewards

    # Groups of 4 in batches of 6 a process: of the three groups, the second spans both.
    run = train(
        folder / "run",
        reward=reward,
        n_prompts=12,
        per_device_train_batch_size=6,
        ddp_backend="gloo",
        watched=MIN_CORRECT,
        extra={"eval_dataset": prompts(3, first=50)},
        eval_strategy="steps",
        eval_steps=2,
        num_generations_eval=2,
        per_device_eval_batch_size=3,
    )
    assert run.accelerator.num_processes == 2
    (folder / f"rank{rank}.json").write_text(
        json.dumps(
            {
                "scored": scored,
                "generations": [to_dict(batch) for batch in run.generations],
                "losses": [to_dict(batch) for batch in run.losses],
                "logged": [logged(run, 1), logged(run, 2)] if rank == 0 else None,
                "evaluated": logged(run, 2, "eval_") if rank == 0 else None,
            }
        ),
        encoding="utf-8",
    )


def to_dict(batch):
    return vars(batch) | {"advantages": batch.advantages.tolist()}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
