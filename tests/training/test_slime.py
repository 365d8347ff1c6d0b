"""slime is not installed here: its arguments and samples are stood in for by what its documentation says they are."""

from types import SimpleNamespace

import numpy as np
import pytest

from corpo_rl.core.advantages import ESTIMATORS, estimate_advantages
from corpo_rl.errors import CorpoError, FloorWarning, UsageError
from corpo_rl.training import slime

ARGS = {"advantage_estimator": "grpo", "normalize_advantages": False, "kl_coef": 0.0, "reward_key": None}


@pytest.fixture(autouse=True)
def threshold(monkeypatch):
    monkeypatch.setenv("CORPO_MIN_CORRECT", "0.5")
    monkeypatch.delenv("CORPO_ESTIMATOR", raising=False)
    slime._warned.clear()


def samples(rewards, groups):
    return [SimpleNamespace(reward=reward, group_index=group) for reward, group in zip(rewards, groups, strict=True)]


def process(rewards, groups, **changes):
    return slime.post_process(SimpleNamespace(**{**ARGS, **changes}), samples(rewards, groups))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_advantages_are_those_of_core_on_ragged_groups_in_any_order(monkeypatch, estimator):
    monkeypatch.setenv("CORPO_ESTIMATOR", estimator)
    rng = np.random.default_rng(0)
    rewards = rng.integers(0, 11, size=40) / 10
    groups = rng.integers(0, 7, size=40)
    raw, advantages = process(rewards.tolist(), groups.tolist())
    assert raw == rewards.tolist()
    expected = estimate_advantages(estimator, rewards, groups, min_correct=0.5)
    assert advantages == pytest.approx(expected, abs=1e-9)


def test_a_rollout_without_a_reward_is_in_no_baseline():
    raw, advantages = process([0.9, None, 0.7], [3, 3, 3])
    assert raw == [0.9, None, 0.7]
    assert advantages == pytest.approx([0.1, 0.0, -0.1])


def test_a_part_of_the_reward_is_named_by_its_key():
    rewards = [{"score": 0.2, "length": 4}, {"score": 0.4, "length": 9}]
    assert process(rewards, [0, 0], reward_key="score")[1] == pytest.approx([-0.3, -0.1])
    with pytest.raises(CorpoError, match="name its part with --reward-key"):
        process(rewards, [0, 0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"normalize_advantages": True}, "--normalize-advantages whitens over the batch"),
        ({"advantage_estimator": "gspo"}, "--advantage-estimator gspo: only with grpo"),
        ({"kl_coef": 0.1}, "--kl-coef puts the KL penalty into the reward"),
    ],
)
def test_what_undoes_it_is_refused(changes, message):
    with pytest.raises(UsageError, match=message):
        process([0.1], [0], **changes)


def test_a_filter_of_equal_groups_is_warned_of_once():
    path = "slime.rollout.filter_hub.dynamic_sampling_filters.check_reward_nonzero_std"
    with pytest.warns(FloorWarning, match="drops groups of equal rewards"):
        process([0.1], [0], dynamic_sampling_filter_path=path)
    process([0.1], [0], dynamic_sampling_filter_path=path)


@pytest.mark.parametrize("value", [None, "", "high", "nan", "inf"])
def test_the_threshold_has_to_be_given(monkeypatch, value):
    if value is None:
        monkeypatch.delenv("CORPO_MIN_CORRECT")
    else:
        monkeypatch.setenv("CORPO_MIN_CORRECT", value)
    with pytest.raises(UsageError, match="CORPO_MIN_CORRECT: expected the least reward"):
        process([0.1], [0])


def test_another_slime_is_refused(monkeypatch):
    with pytest.raises(CorpoError, match="no group_index: this slime is not as"):
        slime.post_process(SimpleNamespace(**ARGS), [SimpleNamespace(reward=1.0)])
    with pytest.raises(CorpoError, match="no reward: this slime is not as"):
        slime.post_process(SimpleNamespace(**ARGS), [SimpleNamespace(group_index=1)])
    with pytest.raises(CorpoError, match="a sample has no group_index"):
        process([0.1], [None])
    monkeypatch.setenv("CORPO_ESTIMATOR", "ppo")
    with pytest.raises(UsageError, match="CORPO_ESTIMATOR: expected one of"):
        process([0.1], [0])
