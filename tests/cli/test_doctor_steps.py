"""What the doctor says of step rewards in verl."""

import json

import pytest
from click.testing import CliRunner

from corpo_rl.cli.main import cli

RIGHT = """python3 -m verl.trainer.main_ppo \\
    algorithm.adv_estimator=corpo_steps \\
    +algorithm.corpo_min_correct=1 \\
    '+algorithm.corpo_step_min_correct=[0.5, 1]' \\
    reward.reward_manager.name=corpo_steps \\
    actor_rollout_ref.rollout.n=8
"""


def found(tmp_path, text):
    path = tmp_path / "run.sh"
    path.write_text(text)
    return json.loads(CliRunner().invoke(cli, ["doctor", "--json", str(path)]).stdout)["findings"]


def test_a_right_command_is_met_with_silence(tmp_path):
    assert found(tmp_path, RIGHT) == []


@pytest.mark.parametrize(
    ("old", "new", "severity", "message"),
    [
        ("[0.5, 1]", "[0.5, x]", "error", "expected the least reward with which a step counts as correct"),
        ("'+algorithm.corpo_step_min_correct=[0.5, 1]'", "", "error", "algorithm.corpo_step_min_correct: expected"),
        ("'+algorithm.corpo_step", "'algorithm.corpo_step", "error", "is no key of verl's own: without a +"),
        ("corpo_step_min", "corpo_steps_min", "error", "algorithm.corpo_step_min_correct: expected"),
        ("    actor", "    +algorithm.corpo_step_form=all actor", "error", "corpo_step_form: expected one of both"),
        ("    actor", "    algorithm.use_kl_in_reward=True actor", "error", "use_kl_in_reward: it shifts rewards"),
        (
            "    actor",
            "    actor_rollout_ref.actor.policy_loss.loss_mode=geo_mean actor",
            "error",
            "'geo_mean' averages the advantages",
        ),
        ("manager.name=corpo_steps", "manager.name=naive", "warning", "name=naive hands no steps on"),
        ("rollout.n=8", "rollout.n=1", "warning", "makes groups of one"),
        (
            "adv_estimator=corpo_steps",
            "adv_estimator=corpo",
            "warning",
            "algorithm.corpo_step_min_correct, reward.reward_manager.name=corpo_steps does nothing under corpo",
        ),
    ],
)
def test_planted_in_a_command(old, new, severity, message, tmp_path):
    assert old in RIGHT
    (one,) = found(tmp_path, RIGHT.replace(old, new))
    assert one["severity"] == severity
    assert message in one["what"]
    assert one["change"]
