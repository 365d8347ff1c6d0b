from dataclasses import fields

import pytest

from corpo_rl.errors import UsageError
from corpo_rl.training import steps as in_trl
from corpo_rl.training.verl_settings import VERL_NAMES
from corpo_rl.training.verl_step_settings import (
    FORMS,
    STEP_NAME,
    StepSettings,
    check_step_config,
    check_step_run,
    step_warnings_about,
)

RIGHT = {"adv_estimator": STEP_NAME, "corpo_min_correct": 0.5, "corpo_step_min_correct": 0.2}


def run(manager=STEP_NAME, loss=None, rollouts=8, **algorithm):
    """A whole configuration of verl."""
    return {
        "algorithm": {**RIGHT, **algorithm},
        "actor_rollout_ref": {
            "actor": {"policy_loss": {"loss_mode": loss or "vanilla"}},
            "rollout": {"n": rollouts},
        },
        "reward": {"reward_manager": {"source": "register", "name": manager}},
    }


def test_the_settings_and_their_defaults_are_those_of_trl():
    assert check_step_config(RIGHT) == StepSettings(0.5, (0.2,), "both", 1.0, 0.0, "characters")
    trl = {field.name: field.default for field in fields(in_trl.StepConfig)}
    assert trl["step_form"] == "both"
    assert (trl["outcome_weight"], trl["step_discount"], trl["step_unit"]) == (1.0, 0.0, "characters")
    assert FORMS == in_trl.FORMS


def test_every_setting_is_read():
    given = {
        "corpo_step_min_correct": [0.2, 1],
        "corpo_step_form": "steps",
        "corpo_outcome_weight": 2,
        "corpo_step_discount": 0.5,
        "corpo_step_unit": "turns",
        "corpo_dynamics_file": "/x.jsonl",
        "gamma": 1.0,
    }
    settings = check_step_config({**RIGHT, **given})
    assert settings == StepSettings(0.5, (0.2, 1.0), "steps", 2.0, 0.5, "turns")
    assert settings.threshold == (0.2, 1.0)
    assert check_step_config(RIGHT).threshold == 0.2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"corpo_min_correct": None}, r"algorithm\.corpo_min_correct: expected the least reward"),
        ({"use_kl_in_reward": True}, r"algorithm\.use_kl_in_reward: it shifts rewards"),
        ({"corpo_step_min_correct": None}, r"algorithm\.corpo_step_min_correct: .* found None; add \+algorithm"),
        ({"corpo_step_min_correct": []}, r"algorithm\.corpo_step_min_correct: .* found \[\]"),
        ({"corpo_step_min_correct": "0.2"}, r"algorithm\.corpo_step_min_correct: .* found '0.2'"),
        ({"corpo_step_min_correct": [0.2, None]}, r"algorithm\.corpo_step_min_correct: .* found \[0.2, None\]"),
        ({"corpo_step_min_correct": float("nan")}, r"algorithm\.corpo_step_min_correct: .* found nan"),
        ({"corpo_step_min_correct": True}, r"algorithm\.corpo_step_min_correct: .* found True"),
        ({"corpo_step_form": "dense"}, r"corpo_step_form: expected one of both, steps, outcome, found 'dense'"),
        ({"corpo_step_unit": "words"}, r"corpo_step_unit: expected one of characters, tokens, turns, found 'words'"),
        ({"corpo_outcome_weight": -1}, r"corpo_outcome_weight: expected 0 or more, found -1; by default it is 1"),
        ({"corpo_step_discount": 1.5}, r"corpo_step_discount: expected 0 to 1, found 1.5; by default it is 0"),
        ({"corpo_step_from": "steps"}, r"algorithm\.corpo_step_from: expected one of corpo_min_correct, .* its name"),
        (
            {"corpo_step_unit": "turns", "rollout_correction": {"rollout_rs": "token_k1"}},
            r"algorithm\.rollout_correction\.rollout_rs: it takes tokens out of the mask",
        ),
    ],
)
def test_wrong_settings_are_refused_with_the_cure(change, message):
    with pytest.raises(UsageError, match=message):
        check_step_config({**RIGHT, **change})


def test_no_settings_at_all_are_refused():
    with pytest.raises(UsageError, match=r"algorithm\.corpo_min_correct"):
        check_step_config(None)


def test_ranges_go_with_a_mask_that_loses_tokens():
    check_step_config({**RIGHT, "rollout_correction": {"rollout_rs": "token_k1"}})


def test_a_loss_of_one_advantage_for_each_rollout_is_refused():
    check_step_run(run())
    check_step_run({"algorithm": RIGHT})
    with pytest.raises(UsageError, match=r"policy_loss\.loss_mode: 'geo_mean' averages .*loss_mode=vanilla"):
        check_step_run(run(loss="geo_mean"))
    check_step_run(run(loss="geo_mean", corpo_step_form="outcome"))  # which has one for each rollout


def test_a_right_run_is_met_with_silence():
    assert step_warnings_about(run()) == []
    mine = run(manager="MyManager")
    mine["reward"]["reward_manager"]["source"] = "importlib"
    assert step_warnings_about(mine) == [], "a manager of one's own may hand steps on"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (run(manager="naive"), "reward.reward_manager.name=naive hands no steps on"),
        ({"algorithm": RIGHT}, "reward.reward_manager.name=naive hands no steps on"),
        (run(rollouts=1), "actor_rollout_ref.rollout.n=1 makes groups of one"),
        (run(filter_groups={"enable": True}), "algorithm.filter_groups drops groups of equal rewards"),
        (
            run(adv_estimator="corpo"),
            "algorithm.corpo_step_min_correct, reward.reward_manager.name=corpo_steps does no",
        ),
        (run(adv_estimator="grpo", manager="naive"), "algorithm.corpo_step_min_correct does nothing under grpo"),
    ],
)
def test_each_fault_is_told_alone_with_its_cure(config, message):
    (found,) = step_warnings_about(config)
    assert found.startswith(message)
    assert "; set " in found


def test_other_estimators_are_not_spoken_of():
    assert step_warnings_about({"algorithm": {"adv_estimator": "grpo"}}) == []
    assert STEP_NAME not in VERL_NAMES
