"""verl's own configuration files with our settings in them."""

import pytest
from hydra.errors import ConfigCompositionException
from omegaconf import OmegaConf
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import validate_config

from corpo_rl.training.verl_settings import VERL_NAMES, check_config, warnings_about

COMMON = (
    "+algorithm.corpo_min_correct=0.2",
    "actor_rollout_ref.rollout.n=8",
    "reward.custom_reward_function.path=pkg://corpo_rl.training.verl_reward",
)


@pytest.mark.parametrize("file", ["ppo_trainer", "ppo_megatron_trainer"])
@pytest.mark.parametrize("name", VERL_NAMES)
def test_our_settings_compose(name, file, composed):
    config = composed(f"algorithm.adv_estimator={name}", *COMMON, name=file)
    assert check_config(config.algorithm) == 0.2
    assert warnings_about(config) == []
    assert need_critic(config) is False
    assert need_reference_policy(config) is False


def test_the_plus_is_needed(composed):
    with pytest.raises(ConfigCompositionException, match=r"append to your config use \+algorithm\.corpo_min_correct"):
        composed("algorithm.adv_estimator=corpo", "algorithm.corpo_min_correct=0.2")


def test_verls_own_checks_pass(composed):
    config = composed(
        "algorithm.adv_estimator=corpo",
        *COMMON,
        "+algorithm.corpo_dynamics_file=/runs/dynamics.jsonl",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=1",
    )
    validate_config(config=config, use_reference_policy=False, use_critic=False)
    assert OmegaConf.to_container(config, resolve=True)["algorithm"]["corpo_dynamics_file"] == "/runs/dynamics.jsonl"


def test_the_keys_that_warnings_speak_of_are_verls(composed):
    config = composed()
    for key in (
        "algorithm.filter_groups.enable",
        "algorithm.use_kl_in_reward",
        "actor_rollout_ref.actor.use_kl_loss",
        "actor_rollout_ref.rollout.n",
        "reward.custom_reward_function.path",
        "reward.reward_manager.name",
        "custom_reward_function.path",
        "reward_model.reward_manager",
        "trainer.use_v1",
    ):
        place = config
        for part in key.split("."):
            assert part in place, key
            place = place[part]
