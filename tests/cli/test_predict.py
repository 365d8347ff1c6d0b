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
        (["--rewards", "1:0.5,2:0.4"], DataError, "a sum of 0.9"),
    ],
)
def test_what_cannot_be(arguments, error, message):
    result = run(*arguments, "--min-correct", 1)
    assert isinstance(result.exception, error)
    assert message in str(result.exception)
