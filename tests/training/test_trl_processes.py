"""Two gloo processes, one group spread over both."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from corpo_rl.core.advantages import corpo_advantages
from corpo_rl.core.dynamics import floored_group_share, r_count

from .support import MIN_CORRECT, r_loss_by_hand

ROOT = Path(__file__).parents[2]
STEPS = (1, 2)


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """What each process saw, and the folder of their run."""
    folder = tmp_path_factory.mktemp("two_processes")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"),
            *("-m", "tests.training.two_processes", str(folder)),
        ],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    ranks = [json.loads((folder / f"rank{rank}.json").read_text(encoding="utf-8")) for rank in (0, 1)]
    return ranks, folder / "run"


def rewards_of_step(ranks, step):
    """Rewards of both processes' reward functions, rank after rank: the order in which TRL lays groups out."""
    values = [value for rank in ranks for value in rank["scored"][step - 1][2]]
    return np.array(values, dtype=float)


def by_rollout(batch):
    rollouts = zip(batch["prompt_ids"], batch["completion_ids"], batch["advantages"], strict=True)
    return {(tuple(prompt), tuple(completion)): advantage for prompt, completion, advantage in rollouts}


def expected_advantages(rewards, *, group_size):
    """Core's on the whole batch; rows without a reward left out and given 0."""
    groups, known = np.arange(len(rewards)) // group_size, ~np.isnan(rewards)
    advantages = np.zeros(len(rewards))
    advantages[known] = corpo_advantages(rewards[known], groups[known], min_correct=MIN_CORRECT)
    return advantages


@pytest.mark.parametrize("step", STEPS)
def test_advantages_at_each_loss_are_those_of_core_on_the_whole_batch(seen, step):
    ranks, _ = seen
    rewards = rewards_of_step(ranks, step)
    prompts = [prompt for rank in ranks for prompt in rank["scored"][step - 1][0]]
    assert len(set(prompts[:4])) == len(set(prompts[4:8])) == len(set(prompts[8:])) == 1  # 4:8 spans ranks 0 and 1
    assert np.isnan(rewards).any()

    expected = expected_advantages(rewards, group_size=4)
    of_its_own = [expected_advantages(rewards[part], group_size=4) for part in (slice(0, 6), slice(6, 12))]
    assert not np.allclose(np.concatenate(of_its_own), expected), "the split group must matter"
    for rank, seen_by_rank in enumerate(ranks):
        scored, trained_on = seen_by_rank["generations"][step - 1], seen_by_rank["losses"][step - 1]
        assert scored["step"] == trained_on["step"] == step - 1
        np.testing.assert_allclose(scored["advantages"], expected[6 * rank : 6 * rank + 6], rtol=1e-6, atol=1e-7)
        assert by_rollout(trained_on) == by_rollout(scored)


def test_r_loss_is_over_both_processes(seen):
    ranks, _ = seen
    of_each = [
        list(zip(part["prompt_ids"], part["completion_ids"], part["advantages"], strict=True))
        for part in (rank["losses"][0] for rank in ranks)
    ]
    logged = ranks[0]["logged"][0]["corpo/r_loss"]
    assert logged == pytest.approx(r_loss_by_hand(of_each[0] + of_each[1]), rel=1e-5)
    assert logged != pytest.approx(r_loss_by_hand(of_each[0]), rel=1e-2)


@pytest.mark.parametrize("step", STEPS)
def test_metrics_are_over_both_processes(seen, step):
    ranks, _ = seen
    rewards, entry = rewards_of_step(ranks, step), ranks[0]["logged"][step - 1]
    assert entry["corpo/unscorable"] == np.isnan(rewards).sum()
    assert entry["corpo/r_count"] == pytest.approx(r_count(expected_advantages(rewards, group_size=4)))
    expected = floored_group_share(rewards, np.arange(12) // 4, min_correct=MIN_CORRECT)
    assert entry["corpo/floored_group_share"] == pytest.approx(expected)


@pytest.mark.parametrize("step", STEPS)
def test_a_watched_run_logs_the_same_over_both_processes(seen, step):
    entry = seen[0][0]["logged"][step - 1]
    watched = {name.removeprefix("audit/"): value for name, value in entry.items() if name.startswith("audit/")}
    assert len(watched) == 15
    assert watched == pytest.approx({name: entry[f"corpo/{name}"] for name in watched}, abs=1e-6)


def test_the_completion_log_is_whole_and_in_order(seen):
    ranks, folder = seen
    table = pd.read_parquet(folder / "completions" / "completions_00001.parquet")
    completions = [text for rank in ranks for text in rank["scored"][0][1]]
    rewards = rewards_of_step(ranks, 1)

    assert table["completion"].tolist() == completions
    assert table["length"].tolist() == [len(text) for text in completions]
    np.testing.assert_array_equal(table["corpo_reward"], rewards)
    np.testing.assert_allclose(table["advantage"], expected_advantages(rewards, group_size=4), rtol=1e-6, atol=1e-7)
    assert table["corpo_group"].tolist() == [f"train-0-0-{row // 4}" for row in range(12)]
    assert table["corpo_split"].tolist() == ["train"] * 12


def test_evaluation_spans_processes_too(seen):
    ranks, _ = seen
    evaluated = [rank["generations"][2] for rank in ranks]
    assert [(batch["mode"], len(batch["advantages"])) for batch in evaluated] == [("eval", 3), ("eval", 3)]
    rewards = np.array([value for rank in ranks for value in rank["scored"][2][2]], dtype=float)
    actual = np.concatenate([batch["advantages"] for batch in evaluated])
    np.testing.assert_allclose(actual, expected_advantages(rewards, group_size=2), rtol=1e-6, atol=1e-7)
    assert "eval_corpo/floored_group_share" in ranks[0]["evaluated"]
