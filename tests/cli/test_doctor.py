"""Each misconfiguration is planted and found; the right one is met with silence."""

import json

import pytest
from click.testing import CliRunner

from corpo_rl.cli.main import cli
from corpo_rl.demologs.simulate import synthetic_graded
from corpo_rl.doctor.installed import check_versions, read_plugin
from corpo_rl.errors import DataError, UsageError

RIGHT_SCRIPT = """
from corpo_rl.training.trl import CorpoConfig, CorpoTrainer
args = CorpoConfig(output_dir="x", min_correct=0.5, num_generations=8)
CorpoTrainer(model="m", args=args, reward_funcs=[]).train()
"""
RIGHT_COMMAND = """#!/bin/sh
python3 -m verl.trainer.main_ppo \\
    algorithm.adv_estimator=corpo \\
    +algorithm.corpo_min_correct=0.2 \\
    actor_rollout_ref.rollout.n=8
"""
RIGHT_CONFIG = {
    "algorithm": {"adv_estimator": "corpo", "corpo_min_correct": 0.2},
    "actor_rollout_ref": {"rollout": {"n": 8}},
}
RIGHT_SETTINGS = {"min_correct": 0.5, "num_generations": 8}


def run(tmp_path, name, text, *options):
    path = tmp_path / name
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    return CliRunner().invoke(cli, ["doctor", str(path), *options])


def found(result):
    return json.loads(result.stdout)["findings"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("train.py", RIGHT_SCRIPT),
        ("run.sh", RIGHT_COMMAND),
        ("config.json", RIGHT_CONFIG),
        ("settings.json", RIGHT_SETTINGS),
        ("settings.yaml", "min_correct: 0.5\nnum_generations: 8\n"),
        ("config.yaml", "algorithm:\n  adv_estimator: loo_corpo\n  corpo_min_correct: 0.2\n"),
    ],
)
def test_the_right_one_is_met_with_silence(tmp_path, name, text):
    result = run(tmp_path, name, text, "--strict")
    assert result.exit_code == 0, result.output
    assert result.stdout == "Nothing is wrong.\n"


SCRIPTS = {
    "GRPOTrainer": (("CorpoTrainer(", "GRPOTrainer("), "GRPOTrainer trains with the mean"),
    "GRPOConfig": (("CorpoConfig(output", "GRPOConfig(output"), "GRPOConfig knows no min_correct"),
    "no min_correct": (("min_correct=0.5, ", ""), "min_correct is None"),
    "text for min_correct": (("min_correct=0.5", "min_correct='high'"), "min_correct is 'high'"),
    "group std": (
        ("min_correct=0.5", "min_correct=0.5, scale_rewards='group'"),
        "='group' contradicts corpo",
    ),
    "True is group": (("min_correct=0.5", "min_correct=0.5, scale_rewards=True"), "scale_rewards=True contradicts"),
    "batch std": (("min_correct=0.5", "min_correct=0.5, scale_rewards='batch'"), "scale_rewards='batch' contradicts"),
    "normalize then sum": (
        ("min_correct=0.5", "min_correct=0.5, multi_objective_aggregation='normalize_then_sum'"),
        "rescales rewards by their batch",
    ),
    "unknown estimator": (("min_correct=0.5", "min_correct=0.5, advantage_estimator='ppo'"), "'ppo' is unknown"),
    "group of one": (("num_generations=8", "num_generations=1"), "groups of one"),
}


@pytest.mark.parametrize("plant", SCRIPTS)
def test_planted_in_a_script(tmp_path, plant):
    (old, new), message = SCRIPTS[plant]
    assert old in RIGHT_SCRIPT
    result = run(tmp_path, "train.py", RIGHT_SCRIPT.replace(old, new), "--json")
    assert result.exit_code == 1
    (error,) = [one for one in found(result) if one["severity"] == "error"]
    assert message in error["what"]
    assert error["change"]
    line = next(number for number, content in enumerate(RIGHT_SCRIPT.replace(old, new).splitlines(), start=1)
                if ("Trainer(" if plant == "GRPOTrainer" else "Config(") in content)  # fmt: skip
    assert error["where"] == f"{tmp_path / 'train.py'}:{line}"


WARNED_SCRIPTS = {
    "off_policy_mask_threshold=0.5": ("warning", "drops rollouts with a negative advantage only"),
    "loss_type='sapo'": ("note", "treats positive and negative advantages differently"),
    "reward_weights=[1.0, 0.1]": ("note", "units of the weighted sum"),
}


@pytest.mark.parametrize("setting", WARNED_SCRIPTS)
def test_what_is_no_error_is_said(tmp_path, setting):
    severity, message = WARNED_SCRIPTS[setting]
    text = RIGHT_SCRIPT.replace("min_correct=0.5", f"min_correct=0.5, {setting}")
    result = run(tmp_path, "train.py", text, "--json")
    assert result.exit_code == 0
    (one,) = found(result)
    assert (one["severity"], message in one["what"]) == (severity, True)
    assert run(tmp_path, "train.py", text, "--strict").exit_code == (1 if severity == "warning" else 0)


def test_what_only_running_would_tell_is_not_guessed(tmp_path):
    text = RIGHT_SCRIPT.replace("min_correct=0.5", "min_correct=threshold(), scale_rewards=choice")
    assert run(tmp_path, "train.py", text).exit_code == 0
    assert run(tmp_path, "train.py", RIGHT_SCRIPT.replace("min_correct=0.5", "**settings")).exit_code == 0


COMMANDS = {
    "another estimator": (("adv_estimator=corpo", "adv_estimator=grpo"), "'grpo', which knows no corpo_min_correct"),
    "no threshold": (("+algorithm.corpo_min_correct=0.2", "trainer.nnodes=1"), "found None"),
    "no plus": (("+algorithm.corpo", "algorithm.corpo"), "without a + Hydra refuses it"),
    "KL in the reward": (("actor_rollout_ref.rollout.n=8", "algorithm.use_kl_in_reward=True"), "use_kl_in_reward"),
    "plug-ins off": (("#!/bin/sh", "export VERL_USE_EXTERNAL_PLUGINS=none"), "keeps corpo-rl from being loaded"),
}


@pytest.mark.parametrize("plant", COMMANDS)
def test_planted_in_a_command(tmp_path, plant):
    (old, new), message = COMMANDS[plant]
    assert old in RIGHT_COMMAND
    result = run(tmp_path, "run.sh", RIGHT_COMMAND.replace(old, new), "--json")
    assert result.exit_code == 1
    (error,) = [one for one in found(result) if one["severity"] == "error"]
    assert message in error["what"]
    assert error["change"]
    assert error["where"] == f"{tmp_path / 'run.sh'}:{1 if plant == 'plug-ins off' else 2}"


CONFIGS = {
    "filter": ({"algorithm": {"filter_groups": {"enable": True}}}, "drops groups of equal rewards"),
    "group of one": ({"actor_rollout_ref": {"rollout": {"n": 1}}}, "groups of one"),
    "legacy reward": ({"custom_reward_function": {"path": "r.py"}}, "is ignored by verl's main_ppo"),
    "overlong": (
        {"reward": {"reward_manager": {"name": "dapo"}, "reward_kwargs": {"overlong_buffer_cfg": {"enable": True}}}},
        "penalty off the reward of a long answer",
    ),
}


@pytest.mark.parametrize("plant", CONFIGS)
def test_planted_in_a_configuration(tmp_path, plant):
    change, message = CONFIGS[plant]
    config = {**RIGHT_CONFIG, **{name: {**RIGHT_CONFIG.get(name, {}), **part} for name, part in change.items()}}
    result = run(tmp_path, "config.json", config, "--json")
    assert result.exit_code == 0
    (warning,) = found(result)
    assert warning["severity"] == "warning"
    assert message in warning["what"]
    assert run(tmp_path, "config.json", config, "--strict").exit_code == 1


def write_log(tmp_path, *, estimator):
    """A log with the advantages of an estimator."""
    log = synthetic_graded(1600)
    from corpo_rl.core.advantages import estimate_advantages

    advantages = estimate_advantages(estimator, log.rewards_N, log.group_N, min_correct=0.8)
    rows = zip(log.step_N.tolist(), log.group_N.tolist(), log.rewards_N.tolist(), advantages.tolist(), strict=True)
    path = tmp_path / "log.jsonl"
    path.write_text("".join(
        json.dumps({"step": step, "prompt_id": group, "reward": reward, "advantage": advantage}) + "\n"
        for step, group, reward, advantage in rows
    ))  # fmt: skip
    return path


def check(path, *options):
    return CliRunner().invoke(cli, ["doctor", str(path), *options])


def test_logs_show_which_estimator_was_on(tmp_path):
    log = write_log(tmp_path, estimator="corpo")
    assert check(log, "--min-correct", "0.8", "--strict").stdout == "Nothing is wrong.\n"
    result = check(log, "--min-correct", "-5", "--json")
    assert result.exit_code == 1
    assert "INERT THRESHOLD" in found(result)[-1]["what"]
    assert "SATURATED" in found(check(log, "--min-correct", "7", "--json"))[-1]["what"]
    result = check(write_log(tmp_path, estimator="dr_grpo"), "--min-correct", "0.8", "--json")
    assert result.exit_code == 1
    assert "failed rollouts have an advantage above 0 (the advantages are those of dr_grpo)" in found(result)[0]["what"]


def test_versions():
    right = {"trl": "1.16.0", "verl": "0.9.1"}
    assert check_versions(right) == []
    for change, severity, message in (
        ({"trl": "1.15.0"}, "error", "does not train without a GPU"),
        ({"trl": "1.8.0"}, "error", "older than 1.9.2"),
        ({"verl": "0.8.0"}, "error", "older than 0.9.0"),
        ({"trl": "1.17.0"}, "note", "the newest that was tested"),
        ({"trl": None, "verl": None}, "warning", "neither TRL nor verl"),
    ):
        (one,) = check_versions(right | change)
        assert (one.severity, message in one.what) == (severity, True)


def test_the_plug_in():
    right = {
        "entry_point": "corpo_rl.training.verl",
        "error": None,
        "names": ["corpo"],
        "ray": ["corpo"],
        "policy": "auto",
    }
    assert read_plugin(right, in_ray=True) == []
    # loaded by VERL_USE_EXTERNAL_MODULES instead
    assert read_plugin(right | {"policy": "none", "entry_point": None}, in_ray=True) == []
    for change, message in (
        ({"error": "ImportError: no x (verl.py:3)"}, "which verl itself does not say: ImportError: no x (verl.py:3)"),
        ({"names": [], "entry_point": None}, "no entry point"),
        ({"names": [], "policy": "none"}, "keeps corpo-rl from being loaded"),
        ({"names": []}, "does not hold corpo"),
        ({"ray": []}, "a Ray worker does not know corpo"),
    ):
        (one,) = read_plugin(right | change, in_ray=True)
        assert one.severity == "error"
        assert message in one.what


def test_without_files_it_says_what_is_here():
    result = check_installed()
    assert result.exit_code == 0, result.output
    assert "Installed: python" in result.stdout
    assert "trl" in result.stdout


def check_installed():
    return CliRunner().invoke(cli, ["doctor"])


def test_what_cannot_be(tmp_path):
    for name, text, error, message in (
        ("broken.py", "def f(:", DataError, "expected Python"),
        ("other.yaml", "colour: red\n", DataError, "expected settings of TRL or of verl"),
        ("broken.yaml", "a: [", DataError, "expected YAML"),
        ("log.jsonl", '{"reward": 1}\n', UsageError, "say what counts as correct with --min-correct"),
    ):
        result = run(tmp_path, name, text)
        assert isinstance(result.exception, error)
        assert message in str(result.exception)
    assert "no trainer" in run(tmp_path, "empty.py", "x = 1\n").stdout
