"""SkyRL does not install here: its registry is stood in for by what its documentation says it is."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

from corpo_rl.core.advantages import estimate_advantages
from corpo_rl.errors import CorpoError, UsageError
from corpo_rl.training.skyrl import register
from corpo_rl.training.verl_settings import VERL_NAMES

MODULE = "skyrl.backends.skyrl_train.utils.ppo_utils"


class Config(dict):
    """What SkyRL passes: keys as attributes too."""

    __getattr__ = dict.get


@pytest.fixture
def registry(monkeypatch):
    found = {}
    module = ModuleType(MODULE)
    module.AdvantageEstimatorRegistry = SimpleNamespace(register=found.__setitem__)
    monkeypatch.setitem(sys.modules, MODULE, module)
    for depth in range(1, 4):
        name = ".".join(MODULE.split(".")[:depth])
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    return found


def call(function, rewards, groups, mask, **config):
    """As SkyRL calls an estimator, by keyword."""
    return function(
        token_level_rewards=rewards,
        response_mask=mask,
        index=groups,
        values=None,
        grpo_norm_by_std=True,
        gamma=1.0,
        lambd=1.0,
        config=Config({"corpo_min_correct": 0.5, **config}),
    )


def test_every_estimator_gives_what_core_does_at_the_tokens_of_the_response(registry):
    register()
    assert registry.keys() == VERL_NAMES.keys()
    rng = np.random.default_rng(0)
    rewards = rng.integers(0, 11, size=12) / 10
    groups = np.array([f"p{number % 5}" for number in range(12)])
    mask = torch.tensor(rng.integers(0, 2, size=(12, 6)), dtype=torch.float32)
    tokens = torch.zeros(12, 6)
    tokens[:, 2] = torch.tensor(rewards, dtype=torch.float32)
    for name, estimator in VERL_NAMES.items():
        advantages, returns = call(registry[name], tokens, groups, mask)
        expected = estimate_advantages(estimator, rewards, groups, min_correct=0.5)
        assert torch.allclose(advantages, torch.tensor(expected, dtype=torch.float32)[:, None] * mask, atol=1e-6)
        assert returns is advantages


def test_what_undoes_it_is_refused(registry):
    register()
    tokens, mask, groups = torch.zeros(2, 3), torch.ones(2, 3), np.array(["a", "a"])
    for config, message in (
        ({"corpo_min_correct": None}, "expected the least reward"),
        ({"use_kl_in_reward": True}, "it shifts rewards"),
        ({"zero_variance_filter": True}, "drops groups of equal rewards"),
    ):
        with pytest.raises(UsageError, match=message):
            call(registry["corpo"], tokens, groups, mask, **config)
    with pytest.raises(UsageError, match="gave no index"):
        call(registry["corpo"], tokens, None, mask)


def test_another_skyrl_is_refused(monkeypatch):
    with pytest.raises(CorpoError, match="SkyRL's registry was not found"):
        register()
    for depth in range(1, 5):
        name = ".".join(MODULE.split(".")[:depth])
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    module = ModuleType(MODULE)
    module.AdvantageEstimatorRegistry = SimpleNamespace()
    monkeypatch.setitem(sys.modules, MODULE, module)
    with pytest.raises(CorpoError, match=r"has no register\(name, function\)"):
        register()
