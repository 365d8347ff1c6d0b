import numpy as np
import pytest

from corpo_rl.errors import UsageError
from corpo_rl.training.verl_settings import VERL_NAMES, check_config, warnings_about

RIGHT = {
    "algorithm": {
        "adv_estimator": "corpo",
        "corpo_min_correct": 0.2,
        "use_kl_in_reward": False,
        "filter_groups": {"enable": False},
    },
    "actor_rollout_ref": {"rollout": {"n": 8}},
    "custom_reward_function": {"path": None, "name": None},
    "reward_model": {"reward_manager": None},
    "reward": {"reward_manager": {"name": "naive"}, "custom_reward_function": {"path": "pkg://mine"}},
}


def changed(**changes):
    """RIGHT with values at dotted keys, written with __ for the dots."""
    import copy

    config = copy.deepcopy(RIGHT)
    for key, value in changes.items():
        *parents, last = key.split("__")
        place = config
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    return config


@pytest.mark.parametrize(("given", "read"), [(0.2, 0.2), (1, 1.0), (-0.5, -0.5), (np.float64(0.7), 0.7)])
def test_min_correct_is_read(given, read):
    assert check_config({"corpo_min_correct": given}) == read


def test_a_threshold_no_decimal_can_say_is_rounded_as_rewards_are():
    assert check_config({"corpo_min_correct": 5 / 6}) == np.float64(np.float32(5 / 6))


@pytest.mark.parametrize(
    "algorithm", [None, {}, *({"corpo_min_correct": value} for value in (None, "0.2", True, np.nan, np.inf))]
)
def test_a_missing_or_unusable_min_correct_is_refused(algorithm):
    found = None if not algorithm else algorithm["corpo_min_correct"]
    with pytest.raises(UsageError) as refused:
        check_config(algorithm)
    assert str(refused.value).startswith("algorithm.corpo_min_correct: expected the least reward that counts as")
    assert f"found {found!r}; add +algorithm.corpo_min_correct=0.2" in str(refused.value)


def test_kl_in_the_reward_is_refused():
    with pytest.raises(UsageError, match=r"algorithm\.use_kl_in_reward: it shifts rewards.*use_kl_loss=True"):
        check_config({"corpo_min_correct": 0.2, "use_kl_in_reward": True})


def test_a_right_configuration_is_not_warned_of():
    assert warnings_about(RIGHT) == []
    assert warnings_about({"algorithm": {"adv_estimator": "corpo"}}) == [], "absent parts are no fault"


@pytest.mark.parametrize(
    ("changes", "start", "cure"),
    [
        (
            {"algorithm__filter_groups": {"enable": True}},
            "algorithm.filter_groups drops",
            "algorithm.filter_groups.enable=False",
        ),
        (
            {"actor_rollout_ref__rollout__n": 1},
            "actor_rollout_ref.rollout.n=1 makes groups of one",
            "actor_rollout_ref.rollout.n=8",
        ),
        (
            {"custom_reward_function__path": "reward.py"},
            "custom_reward_function.path=reward.py is ignored",
            "reward.custom_reward_function.path instead",
        ),
        (
            {"reward_model__reward_manager": "dapo"},
            "reward_model.reward_manager=dapo is ignored",
            "reward.reward_manager.name instead",
        ),
        (
            {
                "reward__reward_manager": {"name": "dapo"},
                "reward__reward_kwargs": {"overlong_buffer_cfg": {"enable": True}},
            },
            "reward.reward_kwargs.overlong_buffer_cfg takes a penalty",
            "enable=False",
        ),
        (
            {"reward__reward_manager": {"name": "rate_limited"}, "algorithm__corpo_min_correct": 0.0},
            "reward.reward_manager.name=rate_limited gives reward 0",
            "reward.reward_manager.name=naive",
        ),
    ],
)
def test_each_fault_is_told_alone_with_its_cure(changes, start, cure):
    (message,) = warnings_about(changed(**changes))
    assert message.startswith(start)
    assert cure in message
    assert warnings_about(changed(**changes, algorithm__adv_estimator="grpo")) == [], "not our estimator"


@pytest.mark.parametrize(
    "changes",
    [
        # a penalty that no manager applies; a failed scoring that counts as failed; a baseline without own reward
        {"reward__reward_kwargs": {"overlong_buffer_cfg": {"enable": True}}},
        {"reward__reward_manager": {"name": "rate_limited"}},
        {"algorithm__adv_estimator": "loo_corpo", "actor_rollout_ref__rollout__n": 1},
        {"algorithm__adv_estimator": "corpo_static", "actor_rollout_ref__rollout__n": 1},
    ],
)
def test_near_misses_are_not_told(changes):
    assert warnings_about(changed(**changes)) == []


def test_names_do_not_take_verls_own():
    assert not set(VERL_NAMES) & {"gae", "grpo", "rloo", "opo", "gpg", "gdpo", "remax", "grpo_passk"}
