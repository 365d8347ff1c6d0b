"""What docs/verl.md says of settings, held against verl's own configuration."""

import re
import shlex
from pathlib import Path

import pytest

from corpo_rl.training.verl_settings import VERL_NAMES, check_config, warnings_about

PAGE = Path(__file__).parents[2] / "docs" / "verl.md"


def commands():
    """Overrides of each `main_ppo` command on the page."""
    text = PAGE.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = re.findall(r"^    python -m verl\.trainer\.main_ppo (.*)$", text, flags=re.MULTILINE)
    return [[word for word in shlex.split(line) if word != "..."] for line in lines]


def test_the_page_has_the_switch_and_the_verifier():
    assert len(commands()) == 2
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE.read_text().split("## ")[0], flags=re.MULTILINE)) == set(VERL_NAMES)


@pytest.mark.parametrize("overrides", commands(), ids=len)
def test_commands_compose(overrides, composed):
    config = composed(*overrides)
    assert check_config(config.algorithm) == 0.2
    assert [message for message in warnings_about(config) if "rollout.n=1" not in message] == []


def test_single_settings_compose(composed):
    config = composed(
        "+ray_kwargs.ray_init.runtime_env.env_vars.VERL_USE_EXTERNAL_MODULES=corpo_rl.training.verl",
        "+algorithm.corpo_dynamics_file=/path/file.jsonl",
    )
    assert config.ray_kwargs.ray_init.runtime_env.env_vars.VERL_USE_EXTERNAL_MODULES == "corpo_rl.training.verl"
    assert config.data.max_prompt_length == 512
    assert config.actor_rollout_ref.rollout.n == 1
