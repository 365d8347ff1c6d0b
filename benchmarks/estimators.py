"""Time `corpo_advantages` beside a loop over rollouts and beside two bare `np.bincount` passes.

The loop is the published form of verl's GRPO advantage (verl 0.9.1, core_algos.compute_grpo_outcome_advantage, without
its token axis and its std): a dictionary of lists of torch scalars, one Python step for each rollout. Two bincount
passes, a sum and a count for each group, are the least that any group mean has to do.

All three run in turn in one process, so that a slow spell of the machine hits them alike. Run with one thread:

    OMP_NUM_THREADS=1 python benchmarks/estimators.py
"""

import time
from collections import defaultdict
from collections.abc import Callable

import click
import numpy as np
import torch
from numpy.typing import NDArray

from corpo_rl import corpo_advantages

MIN_CORRECT = 0.2


def ragged_batch(rng: np.random.Generator, *, n: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Rewards and integer group ids of n rollouts in groups of 1 to 16, rows shuffled."""
    size_G = rng.integers(1, 17, size=n)
    group_N = np.repeat(np.arange(n), size_G)[:n]
    return rng.uniform(-1.0, 1.0, size=n), rng.permutation(group_N)


def loop_advantages(scores: torch.Tensor, index: NDArray[np.int64]) -> torch.Tensor:
    """CoRPO's advantages the way verl's loop computes GRPO's."""
    id2score: dict[int, list[torch.Tensor]] = defaultdict(list)
    id2baseline = {}
    with torch.no_grad():
        for i in range(len(scores)):
            id2score[index[i]].append(scores[i])
        for idx in id2score:
            id2baseline[idx] = torch.clamp(torch.mean(torch.stack(id2score[idx])), min=MIN_CORRECT)
        for i in range(len(scores)):
            scores[i] = scores[i] - id2baseline[index[i]]
    return scores


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


@click.command()
@click.option("--rollouts", default=1_000_000, show_default=True, help="Rollouts in the batch.")
@click.option("--rounds", default=5, show_default=True, help="Turns of the loop; the others get ten in each.")
def main(rollouts: int, rounds: int) -> None:
    """Print how many times faster than the loop we are, and how many bincount passes we cost."""
    torch.set_num_threads(1)
    rewards_N, group_N = ragged_batch(np.random.default_rng(0), n=rollouts)
    scores = torch.from_numpy(rewards_N)
    ours = corpo_advantages(rewards_N, group_N, min_correct=MIN_CORRECT)
    np.testing.assert_allclose(loop_advantages(scores.clone(), group_N).numpy(), ours, atol=1e-12)

    times: dict[str, list[float]] = {"loop": [], "two bincount passes": [], "corpo_advantages": []}
    for _ in range(rounds):
        times["loop"].append(seconds(lambda: loop_advantages(scores.clone(), group_N)))
        for _ in range(10):
            times["two bincount passes"].append(
                seconds(lambda: (np.bincount(group_N, weights=rewards_N), np.bincount(group_N)))
            )
            times["corpo_advantages"].append(
                seconds(lambda: corpo_advantages(rewards_N, group_N, min_correct=MIN_CORRECT))
            )

    click.echo(f"{rollouts:,} rollouts, {len(np.unique(group_N)):,} groups; median (least to most) of each")
    for name, taken in times.items():
        low, middle, high = np.quantile(taken, [0, 0.5, 1]) * 1e3
        click.echo(f"{name:20} {middle:10.1f} ms   ({low:.1f} to {high:.1f}, {len(taken)} runs)")
    median = {name: float(np.median(taken)) for name, taken in times.items()}
    click.echo(f"faster than the loop: {median['loop'] / median['corpo_advantages']:.0f} times (aim: at least 100)")
    click.echo(
        f"cost in pairs of bincount passes: {median['corpo_advantages'] / median['two bincount passes']:.1f} "
        "(aim: at most 10)"
    )


if __name__ == "__main__":
    main()
