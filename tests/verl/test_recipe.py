"""The verl recipe: its command line against verl's own configuration, and its settings in verl's own functions."""

import os
import re
import subprocess
from pathlib import Path

import datasets
import numpy as np
import pytest
import torch
from click.testing import CliRunner
from omegaconf import OmegaConf
from transformers import Qwen3Config, Qwen3ForCausalLM
from verl import DataProto
from verl.trainer.ppo.core_algos import compute_policy_loss_vanilla
from verl.trainer.ppo.ray_trainer import compute_advantage
from verl.trainer.ppo.reward import load_reward_manager
from verl.trainer.ppo.utils import create_rl_dataset, need_critic, need_reference_policy
from verl.utils.config import omega_conf_to_dataclass, validate_config

from corpo_rl import corpo_advantages
from corpo_rl.cli.main import cli
from corpo_rl.pairs.verl_data import write_verl_data
from corpo_rl.training.verl_settings import check_config, warnings_about

from .test_reward_and_data import ITEMS, answered, tokenizer  # noqa: F401  # a fixture

RECIPE = Path(__file__).parents[2] / "recipes" / "paper-verl"


def overrides(folder, *more):
    """What run.sh gives verl, from a `python` that only writes its arguments down."""
    stub = folder / "bin" / "python"
    stub.parent.mkdir(exist_ok=True)
    stub.write_text('#!/usr/bin/env bash\nfor argument in "$@"; do printf "%s\\0" "$argument"; done\n')
    stub.chmod(0o755)
    environment = {**os.environ, "PATH": f"{stub.parent}:{os.environ['PATH']}"}
    done = subprocess.run([RECIPE / "run.sh", folder, *more], capture_output=True, env=environment, check=True)
    module, name, *found = done.stdout.decode().split("\0")[:-1]
    assert (module, name) == ("-m", "verl.trainer.main_ppo")
    return found


@pytest.fixture
def config(tmp_path, composed):
    return composed(*overrides(tmp_path))


@pytest.mark.parametrize("nodes", [1, 2, 4])
def test_the_command_line_passes_verls_checks_and_ours(nodes, tmp_path, composed):
    config = composed(*overrides(tmp_path, f"trainer.nnodes={nodes}"))
    validate_config(config=config, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config))
    assert (need_reference_policy(config), need_critic(config)) == (False, False)
    assert config.trainer.nnodes == nodes
    assert check_config(config.algorithm) == 0.2
    assert warnings_about(config) == []


def test_every_figure_of_the_page_is_in_the_configuration(config):
    rows = re.findall(r"^\| `([\w.]+)` \| ([^|]+?) \|", (RECIPE / "README.md").read_text(), flags=re.MULTILINE)
    assert len(rows) >= 15
    for key, value in rows:
        assert str(OmegaConf.select(config, key)) == value, key
    assert config.data.train_batch_size * config.actor_rollout_ref.rollout.n == 512
    longest = config.data.max_prompt_length + config.data.max_response_length
    assert longest == 16_384 == config.actor_rollout_ref.rollout.max_model_len
    assert config.actor_rollout_ref.actor.ppo_max_token_len_per_gpu >= longest


def test_the_doctor_finds_nothing():
    result = CliRunner().invoke(cli, ["doctor", "--strict", str(RECIPE / "run.sh")])
    assert result.exit_code == 0, result.output


def test_without_a_data_folder_it_says_how(tmp_path):
    done = subprocess.run([RECIPE / "run.sh"], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "usage: run.sh DATA" in done.stderr


def test_two_steps_of_the_recipe_on_a_tiny_model(tmp_path, config, tokenizer, monkeypatch):  # noqa: F811
    """Data set, reward manager, advantages and loss are verl's; the rollouts are scripted, the model is random."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    files = write_verl_data(ITEMS, tmp_path / "data", force=True)
    rows = create_rl_dataset(str(files["train"]), config.data, tokenizer, None)
    assert len(rows) == 2, "the recipe's length filter keeps both"
    manager = load_reward_manager(config, tokenizer)

    torch.manual_seed(0)
    sizes = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "num_hidden_layers": 2}
    model = Qwen3ForCausalLM(Qwen3Config(vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, **sizes))
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.actor_rollout_ref.actor.optim.lr)
    actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)
    mode = config.actor_rollout_ref.actor.loss_agg_mode

    for step in range(2):
        texts = [f"A: {(3 * place + step) % 11}\nB: {(7 * place) % 11}" for place in range(7)] + ["I cannot say."]
        asked = [(row, text) for row in rows for text in texts]
        answers = [answered(row, text, tokenizer) for row, text in asked]
        scores = [manager.loop.run_until_complete(manager.run_single(one))["reward_score"] for one in answers]
        uids = [str(row["index"]) for row, _ in asked]
        ids, mask = _padded([tokenizer(text)["input_ids"] for _, text in asked])
        rewards = torch.zeros(mask.shape)
        rewards[torch.arange(len(scores)), mask.sum(dim=1).long() - 1] = torch.tensor(scores)
        data = DataProto.from_dict(
            tensors={"token_level_rewards": rewards, "response_mask": mask},
            non_tensors={"uid": np.array(uids, dtype=object)},
        )
        advantages = compute_advantage(data, config.algorithm.adv_estimator, config=config.algorithm).batch[
            "advantages"
        ]
        expected = corpo_advantages(scores, uids, min_correct=0.2)
        np.testing.assert_allclose(advantages[:, 0], expected, atol=1e-6)
        assert (expected < 0).any()
        assert len(set(expected.round(6))) > 3

        log_probs = torch.log_softmax(model(input_ids=ids).logits[:, :-1], dim=-1)
        log_probs = torch.gather(log_probs, 2, ids[:, 1:].unsqueeze(2)).squeeze(2)
        kept = mask[:, 1:]
        loss, _ = compute_policy_loss_vanilla(
            log_probs.detach(), log_probs, advantages[:, 1:], kept, loss_agg_mode=mode, config=actor
        )
        # on-policy the ratio is 1: the value is the mean over rollouts of -A times its tokens, as the paper's loss
        by_hand = -(advantages[:, 1:] * kept).sum(dim=1).mean()
        torch.testing.assert_close(loss, by_hand)
        before = [parameter.detach().clone() for parameter in model.parameters()]
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        assert any((old != new).any() for old, new in zip(before, model.parameters(), strict=True))


def _padded(ids):
    width = max(map(len, ids))
    return (
        torch.tensor([row + [0] * (width - len(row)) for row in ids]),
        torch.tensor([[1.0] * len(row) + [0.0] * (width - len(row)) for row in ids]),
    )
