"""The same run with 1, 2 and 4 processes, and one that loses a process and goes on."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from corpo_rl.core.advantages import estimate_advantages
from corpo_rl.policies.mini import build_tokenizer

from .equal_run import BATCH, GROUP, STEPS, completion_of, reward
from .support import MIN_CORRECT

ROOT = Path(__file__).parents[2]


def launch(folder, n, *options):
    folder.mkdir(exist_ok=True)
    return subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(n)),
            *("-m", "tests.training.equal_run", str(folder), *options),
        ],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def read(folder, n):
    return [json.loads((folder / f"rank{rank}.json").read_text(encoding="utf-8")) for rank in range(n)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """What the processes of each run saw, by their number."""
    found = {}
    for n in (1, 2, 4):
        folder = tmp_path_factory.mktemp(f"processes{n}")
        done = launch(folder, n)
        assert done.returncode == 0, done.stderr[-4000:]
        found[n] = read(folder, n)
    return found


def advantages(ranks):
    """Advantage of each rollout by step, prompt and completion, over all processes."""
    return {
        (step, tuple(prompt), tuple(completion)): advantage
        for rank in ranks
        for step, prompt, completion, advantage in rank["rows"]
    }


@pytest.mark.parametrize("n", [2, 4])
def test_advantages_do_not_depend_on_the_number_of_processes(runs, n):
    alone = advantages(runs[1])
    assert advantages(runs[n]) == alone
    assert sum(len(rank["rows"]) for rank in runs[n]) == STEPS * BATCH


@pytest.mark.parametrize("n", [1, 2, 4])
def test_advantages_are_those_of_core_on_the_whole_group(runs, n):
    tokenizer = build_tokenizer()
    found = advantages(runs[n])
    for step, prompt in {(step, prompt) for step, prompt, _ in found}:
        text = tokenizer.decode(prompt, skip_special_tokens=True).replace(" ", "")
        completions = [completion_of(text, number) for number in range(GROUP)]
        rewards = np.array(reward(completions), dtype=float)
        expected = estimate_advantages(
            "corpo", rewards, np.zeros(GROUP, int), min_correct=MIN_CORRECT, unscorable="exclude"
        )
        for completion, advantage in zip(completions, expected, strict=True):
            assert found[step, prompt, tuple(completion)] == pytest.approx(advantage, abs=1e-6)


@pytest.mark.parametrize("n", [2, 4])
def test_losses_and_weights_are_equal(runs, n):
    assert runs[n][0]["losses"].keys() == {str(step) for step in range(1, STEPS + 1)}
    for step, loss in runs[1][0]["losses"].items():
        assert runs[n][0]["losses"][step] == pytest.approx(loss, abs=1e-6)
    assert runs[n][0]["weights"] == pytest.approx(runs[1][0]["weights"], rel=1e-5)
    assert len(set(runs[1][0]["losses"].values())) == STEPS, "losses that never change would prove nothing"


def test_material_has_unscorable_rollouts_and_groups_on_both_sides_of_the_floor(runs):
    tokenizer = build_tokenizer()
    prompts = {tuple(row[1]) for row in runs[1][0]["rows"]}
    texts = [tokenizer.decode(prompt, skip_special_tokens=True).replace(" ", "") for prompt in prompts]
    rewards = [np.array(reward([completion_of(text, number) for number in range(GROUP)]), float) for text in texts]
    assert any(np.isnan(group).any() for group in rewards)
    means = [np.nanmean(group) for group in rewards]
    assert min(means) < MIN_CORRECT < max(means)


def test_a_prompt_that_fills_no_batch_is_left_out_whole(runs):
    by_step = {}
    for step, prompt, _ in advantages(runs[2]):
        by_step.setdefault(step, set()).add(prompt)
    assert [len(prompts) for prompts in by_step.values()] == [BATCH // GROUP] * STEPS
    assert len(set().union(*by_step.values())) == 8  # of nine


def test_after_the_loss_of_a_process_the_same_command_goes_on(runs, tmp_path):
    died = launch(tmp_path, 2, "--die-at", "2")
    assert died.returncode != 0
    assert sorted(path.name for path in (tmp_path / "run").glob("checkpoint-*")) == ["checkpoint-1", "checkpoint-2"]
    resumed = launch(tmp_path, 2, "--resume")
    assert resumed.returncode == 0, resumed.stderr[-4000:]
    ranks = read(tmp_path, 2)
    whole = advantages(runs[2])
    assert advantages(ranks) == {key: value for key, value in whole.items() if key[0] >= 2}
    assert ranks[0]["weights"] == pytest.approx(runs[2][0]["weights"], rel=1e-5)
    for step in ("3", "4"):
        assert ranks[0]["losses"][step] == pytest.approx(runs[2][0]["losses"][step], abs=1e-6)
