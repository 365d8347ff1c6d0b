"""The TRL recipes: their settings pass the parsers of TRL and accelerate, and their scripts train on a CPU."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from accelerate.commands.config.config_args import load_config_from_file
from click.testing import CliRunner
from transformers import Qwen3Config, Qwen3ForCausalLM
from trl import ModelConfig, TrlParser

from corpo_rl.cli.main import cli
from corpo_rl.core.advantages import corpo_advantages
from corpo_rl.policies.mini import build_tokenizer
from corpo_rl.training.trl import CorpoConfig

ROOT = Path(__file__).parent.parent / "recipes"
RECIPES = ("paper-trl", "one-gpu")
CHAT = "{% for message in messages %}{{ message['content'] }}{% endfor %}"

pytestmark = pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*is deprecated:FutureWarning")


def settings_of(recipe):
    return yaml.safe_load((ROOT / recipe / "config.yaml").read_text())


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory):
    """A random Qwen3 of 60,000 weights, with a tokenizer of characters and a chat template."""
    folder = tmp_path_factory.mktemp("tiny")
    tokenizer = build_tokenizer()
    tokenizer.chat_template = CHAT
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=1024,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    Qwen3ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def pairs(tmp_path):
    """Pairs of sums, one right and one wrong; their answers name their problem, so that no two rows are alike."""
    path = tmp_path / "pairs.jsonl"
    rows = [
        {
            "problem": f"{number}+{number}",
            "answer_a": str(2 * number + number % 2),
            "answer_b": str(2 * number + 1 - number % 2),
            "label_a": 1 - number % 2,
            "label_b": number % 2,
            "domain": "sums",
            "split": "in_domain" if number % 4 == 0 else "train",
        }
        for number in range(10, 50)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def run(recipe, folder, *arguments):
    command = [sys.executable, ROOT / recipe / "train.py", "--config", ROOT / recipe / "config.yaml", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = list(map(str, command))
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=300, env=environment, check=False
    )


ON_CPU = {
    "use_cpu": "true",
    "bf16": "false",
    "dtype": "float32",
    "use_vllm": "false",
    "vllm_enable_sleep_mode": "false",
    "gradient_checkpointing": "false",
    "gradient_accumulation_steps": "2",
    "per_device_train_batch_size": "8",
    "max_completion_length": "8",
    "max_steps": "2",
    "eval_steps": "2",
    "save_steps": "2",
    "dataloader_pin_memory": "false",
}
"""What a CPU changes of a recipe; everything else is the recipe's own."""


def flags(changes):
    return [part for name, value in changes.items() for part in (f"--{name}", value)]


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_script_trains_for_two_steps_and_its_advantages_are_those_of_core(recipe, tiny_model, pairs, tmp_path):
    out = tmp_path / "out"
    done = run(
        recipe, tmp_path, "--pairs", pairs, "--model_name_or_path", tiny_model, "--output_dir", out, *flags(ON_CPU)
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "train: 30 pairs, 0 left out" in done.stderr
    assert "in_domain: 10 pairs, 0 left out" in done.stderr

    state = json.loads((out / "checkpoint-2" / "trainer_state.json").read_text())
    steps = [entry for entry in state["log_history"] if "loss" in entry]
    assert [entry["step"] for entry in steps] == [1, 2]
    for entry in steps:
        assert entry["corpo/reinforced_failure_share"] == 0.0
        assert "parse_failure_rate" in entry
        assert entry["grad_norm"] > 0
    assert any("eval_corpo/correct_share" in entry for entry in state["log_history"])
    assert (out / ("adapter_model.safetensors" if recipe == "one-gpu" else "model.safetensors")).exists()

    log = pd.read_parquet(out / "completions" / "completions_00001.parquet")
    log = log[log["corpo_split"] == "train"]
    assert len(log) == 16
    expected = corpo_advantages(log["corpo_reward"], log["corpo_group"].tolist(), min_correct=0.2)
    np.testing.assert_allclose(log["advantage"], expected, atol=1e-6)
    assert (log["advantage"] < 0).any()


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_settings_pass_trl_and_are_those_of_the_page(recipe, tmp_path):
    # on eight ranks TRL checks the same arithmetic; here the figures are checked by hand below
    changes = flags({"use_cpu": "true", "bf16": "false", "output_dir": str(tmp_path)})
    parser = TrlParser((CorpoConfig, ModelConfig))
    arguments = ["--config", str(ROOT / recipe / "config.yaml"), *changes]
    config, model, *_ = parser.parse_args_and_config(arguments, return_remaining_strings=True)

    page = (ROOT / recipe / "README.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+?) \|", page, flags=re.MULTILINE)
    assert len(rows) >= 12
    written = settings_of(recipe)
    for name, value in rows:
        assert str(written[name]) == value.strip("`"), name
        used = getattr(config, name, getattr(model, name, None))
        if name not in ("max_prompt_length", "bf16"):  # the script's own, and the one a CPU cannot have
            assert used == written[name] or str(used) == str(written[name]), name
    assert config.scale_rewards == "none"


def test_the_batch_is_the_papers():
    settings, machine = settings_of("paper-trl"), load_config_from_file(str(ROOT / "paper-trl" / "fsdp2.yaml"))
    ranks = machine.num_processes
    assert str(machine.distributed_type) == "DistributedType.FSDP"
    assert machine.fsdp_config["fsdp_version"] == 2
    assert ranks * settings["per_device_train_batch_size"] * settings["gradient_accumulation_steps"] == 512
    assert (
        settings["max_prompt_length"] + settings["max_completion_length"] == 16_384 == settings["vllm_max_model_length"]
    )
    assert (ranks * settings["per_device_eval_batch_size"]) % settings["num_generations"] == 0
    assert settings["learning_rate"] == 1e-6


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_doctor_finds_nothing(recipe):
    result = CliRunner().invoke(cli, ["doctor", str(ROOT / recipe / "config.yaml")])
    assert result.exit_code == 0, result.output


def test_bad_input_is_one_line(tiny_model, pairs, tmp_path):
    same = ["--model_name_or_path", tiny_model, "--output_dir", tmp_path / "out", *flags(ON_CPU)]
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"problem": "1+1"}\n')
    for arguments, message in (
        (["--pairs", broken], "broken.jsonl:1: "),
        (["--pairs", pairs, "--max_prompt_length", "3"], "train: no pair is left; raise --max_prompt_length"),
        (["--pairs", pairs, "--min_correct", "nan"], "min_correct: expected the least reward that counts as correct"),
    ):
        done = run("paper-trl", tmp_path, *arguments, *same)
        assert done.returncode == 1
        assert f"error: {message}" in done.stderr or message in done.stderr.splitlines()[-1]
        assert "Traceback" not in done.stderr, message
