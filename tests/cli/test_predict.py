import json

import numpy as np
import pytest
from click.testing import CliRunner

from corpo_rl.cli.main import cli
from corpo_rl.core.advantages import estimate_advantages
from corpo_rl.errors import DataError, UsageError

REWARDS = "-1:0.8,-0.4:0.15,0.5:0.03,1:0.02"


def run(*arguments):
    return CliRunner().invoke(cli, ["predict", *map(str, arguments)])


def test_the_figures_of_one_policy():
    result = run("--rewards", REWARDS, "--min-correct", 0, "--group-size", 4)
    assert result.exit_code == 0, result.output
    assert "4 reward levels; 95.0 % of rollouts fail (reward under 0)." in result.stdout
    lines = {line.split()[0]: line for line in result.stdout.splitlines() if line}
    assert "14.4 %" in lines["grpo"]
    assert " 0.0 %" in lines["corpo"]


def test_json_has_a_row_for_each_size_and_estimator():
    document = json.loads(
        run("--rewards", REWARDS, "--min-correct", 0, "--group-size", 4, "--group-size", 16, "--json").stdout
    )
    assert len(document["predictions"]) == 2 * 6
    assert document["levels"] == [-1, -0.4, 0.5, 1]
    corpo = next(row for row in document["predictions"] if row["estimator"] == "corpo" and row["group_size"] == 4)
    assert corpo["gradient"][1] == pytest.approx(0.0637, abs=5e-5)


def test_a_log_is_described_by_its_rewards(tmp_path):
    rng = np.random.default_rng(0)
    rewards = np.round(rng.choice([0.0, 0.25, 0.5, 1.0], p=[0.5, 0.2, 0.2, 0.1], size=4000), 2)
    log = tmp_path / "log.jsonl"
    rows = [
        {"step": place // 80, "prompt_id": place // 8, "reward": reward}
        for place, reward in enumerate(rewards.tolist())
    ]
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    predicted = {
        row["estimator"]: row for row in json.loads(run(log, "--min-correct", 0.8, "--json").stdout)["predictions"]
    }
    groups = np.arange(4000) // 8
    for name in ("grpo", "corpo", "static"):
        advantages = estimate_advantages(name, rewards, groups, min_correct=0.8)
        share = (advantages[rewards < 0.8] > 1e-9).mean()
        # every prompt has the same distribution here: what is predicted is what came
        assert predicted[name]["reinforced_failure_share"] == pytest.approx(share, abs=0.02)


def test_rewards_that_went_through_float32_are_the_decimals_they_came_from(tmp_path):
    levels_K, n_K = np.array([0.0, 0.1, 0.3, 0.7]), [10, 5, 4, 1]
    rewards_N = np.repeat(levels_K, n_K)
    rows = [{"prompt": str(i // 4), "reward": float(np.float32(reward))} for i, reward in enumerate(rewards_N)]
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = run(log, "--min-correct", 0.7, "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["levels"] == levels_K.tolist()
    assert document["shares"] == pytest.approx([0.5, 0.25, 0.2, 0.05])
    assert document["min_correct"] == 0.7


def test_the_made_up_log_of_the_package_can_be_described(tmp_path):
    assert CliRunner().invoke(cli, ["demo-log", str(tmp_path / "demo")]).exit_code == 0
    result = run(tmp_path / "demo", "--min-correct", 0.8)
    assert result.exit_code == 0, result.output
    assert "90.4 % of rollouts fail" in result.stdout  # 2,313 of 2,560, as the audit says


def test_without_failures_a_share_of_them_is_undefined():
    result = run("--rewards", "1:0.5,2:0.5", "--min-correct", 1)
    assert "n/a" in result.stdout
    document = json.loads(run("--rewards", "1:0.5,2:0.5", "--min-correct", 1, "--json").stdout)
    assert document["predictions"][0]["reinforced_failure_share"] is None


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ([], UsageError, "expected a log or --rewards, one of the two"),
        (["--rewards", "a:b"], UsageError, "expected LEVEL:SHARE"),
        (["--rewards", "1:0.5:3,2:0.5"], UsageError, "expected LEVEL:SHARE"),
        (
            ["--rewards", "1:0.5,2:0.4"],
            UsageError,
            "--rewards: expected shares of at least 0 that sum to 1, found '1:0.",
        ),
        (["--rewards", "1:1.5,2:-0.5"], UsageError, "--rewards: expected shares of at least 0 that sum to 1"),
    ],
)
def test_what_cannot_be(arguments, error, message):
    result = run(*arguments, "--min-correct", 1)
    assert isinstance(result.exception, error)
    assert message in str(result.exception)


def test_a_curve_says_where_corpo_hands_over():
    document = json.loads(run("--rewards", REWARDS, "--min-correct", 0, "--group-size", 4, "--curve", "--json").stdout)
    (curve,) = document["curves"]
    first, last = curve["rows"][0], curve["rows"][-1]
    assert (first["success_rate"], last["success_rate"]) == (0.05, 0.95)
    # 5 % is the policy's own success rate: its figures are those of the table above
    plain, cured = (
        next(row for row in document["predictions"] if row["estimator"] == name) for name in ("dr_grpo", "corpo")
    )
    assert first["reinforced_failure_share"] == pytest.approx(plain["reinforced_failure_share"], abs=1e-12)
    assert first["floored_group_share"] == pytest.approx(cured["floored_group_share"], abs=1e-12)
    assert first["reinforced_failure_share"] > 0.1 > last["reinforced_failure_share"]
    # failures average (-1 * .8 - .4 * .15) / .95, successes (.5 * .03 + .02) / .05 = .7
    failed = -0.86 / 0.95
    assert curve["handover"]["by_mean"] == pytest.approx(-failed / (0.7 - failed))

    text = run("--rewards", REWARDS, "--min-correct", 0, "--group-size", 4, "--curve").stdout
    assert "CoRPO hands over to preference at a success rate of 54.7 % (half of the groups), 56.4 %" in text
    assert run("--rewards", "0:0.5,1:0.5", "--min-correct", 5, "--curve").exit_code == 1


def test_later_steps_are_foretold_from_the_first(tmp_path):
    rng = np.random.default_rng(0)
    rows = []
    for step, shares in enumerate(([0.5, 0.2, 0.2, 0.1], [0.5, 0.2, 0.2, 0.1], [0.25, 0.1, 0.1, 0.55])):
        for place, reward in enumerate(rng.choice([0.0, 0.25, 0.5, 1.0], p=shares, size=4000).tolist()):
            rows.append({"step": step, "prompt_id": 1000 * step + place // 8, "reward": reward})
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    document = json.loads(run(log, "--min-correct", 0.8, "--first-steps", 1, "--json").stdout)
    assert [row["step"] for row in document["steps"]] == [1, 2]
    assert document["reinforced_error_abs_mean"] < 0.02
    assert document["floored_error_abs_mean"] < 0.02
    assert document["steps"][0]["reinforced_seen"] > document["steps"][1]["reinforced_seen"] + 0.1
    text = run(log, "--min-correct", 0.8, "--first-steps", 1).stdout
    assert "Over 2 steps seen minus foretold is" in text


def test_first_steps_need_a_log_with_steps(tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps({"prompt_id": place // 4, "reward": place % 2}) + "\n" for place in range(16)))
    result = run(log, "--min-correct", 0.8, "--first-steps", 1)
    assert isinstance(result.exception, DataError) or "expected a log with training steps" in result.output
    result = run("--rewards", REWARDS, "--min-correct", 0, "--first-steps", 1)
    assert isinstance(result.exception, UsageError) or "--first-steps: expected a log" in result.output
