"""Broken logs: a few hundred of the fuzzer's cases, and what it once found."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from corpo_rl.audit.document import audit_rollouts
from corpo_rl.errors import DataError
from corpo_rl.report.audit_schema import check_audit
from corpo_rl.rollouts.options import ReadOptions
from corpo_rl.rollouts.read import read_rollouts

ROOT = Path(__file__).parents[1]
N_CASES = 400


def test_broken_logs_give_a_document_or_an_error_of_ours(tmp_path):
    done = subprocess.run(
        [sys.executable, str(ROOT / "fuzz" / "audit.py"), "--seeds", f"0:{N_CASES}", "--out", str(tmp_path / "wrong")],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    counts = {
        kind: int(count.replace(",", "")) for count, kind in re.findall(r"^ +([\d,]+)  (\S.*)$", done.stdout, re.M)
    }
    assert sum(counts.values()) == N_CASES
    assert counts["document"] > N_CASES / 10, "too few cases reach the audit"
    assert counts["DataError"] > N_CASES / 10


def audited(path, **settings):
    document = audit_rollouts(read_rollouts([path]), **({"min_correct": 0.5} | settings))
    check_audit(document)
    return document


def jsonl(path, rows):
    path.write_text("".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def rows(n=8, **more):
    return [{"step": 1, "group_id": row // 4, "reward": row % 4 / 4, **more} for row in range(n)]


def test_nan_among_the_first_rows(tmp_path):
    # the line is read by Python's own parser, also while the columns are looked for
    document = audited(jsonl(tmp_path / "run.jsonl", ['{"step": 1, "group_id": 0, "reward": NaN}\n', *rows()]))
    assert document["n_rollouts"] == 9
    assert document["log"]["unscorable"] == {"NaN": 1}


@pytest.mark.parametrize("min_correct", [1e90, -1e90])
def test_a_threshold_that_float32_cannot_hold(tmp_path, min_correct):
    as_float32 = [row | {"reward": 0.10000000149011612} for row in rows()]
    document = audited(jsonl(tmp_path / "run.jsonl", as_float32), min_correct=min_correct)
    assert document["log"]["float32"]
    assert document["min_correct"] == min_correct


def test_advantages_of_a_group_without_a_reward(tmp_path):
    with_advantages = [row | {"advantage": 0.1} for row in rows()]
    unscored = [{"step": 1, "group_id": 9, "reward": None, "advantage": 0.1}] * 2
    document = audited(jsonl(tmp_path / "run.jsonl", [*with_advantages, *unscored]))
    assert document["group_classes"]["unscorable"] == 1


@pytest.mark.parametrize("reward", [1e200, -1e308, 10**400])
def test_a_reward_beyond_measure(tmp_path, reward):
    document = audited(jsonl(tmp_path / "run.jsonl", [*rows(), {"step": 1, "group_id": 0, "reward": reward}]))
    assert document["log"]["unscorable"] == {"beyond 1e100": 1}


@pytest.mark.parametrize("weight", [float("nan"), float("inf"), 1e200])
def test_a_weight_that_is_no_weight(tmp_path, weight):
    log = jsonl(tmp_path / "run.jsonl", rows())
    with pytest.raises(DataError, match=r"--reward-weights: expected finite numbers .* got (nan|inf|1e\+200)$"):
        read_rollouts([log], ReadOptions(reward_columns=("reward",), reward_weights=(weight,)))


@pytest.mark.parametrize("tokens", [float("inf"), "9", None, []])
def test_a_count_of_tokens_that_is_none(tmp_path, tokens):
    summaries = [
        {
            "group_idx": row // 4,
            "traj_idx": row % 4,
            "iteration": 0,
            "total_reward": row % 4 / 4,
            "steps": [{"ac_len": 5}],
        }
        for row in range(8)
    ]
    summaries[0]["steps"] = [{"ac_len": tokens}]
    document = audited(jsonl(tmp_path / "train_rollout_summaries.jsonl", summaries))
    assert document["log"]["format"] == "tinker"
    assert document["n_without_length"] == (0 if tokens == "9" else 1)


def test_a_format_told_for_a_log_that_lacks_its_columns(tmp_path):
    log = jsonl(tmp_path / "run.jsonl", [row | {"task_id": row["group_id"]} for row in rows()])
    assert read_rollouts([log], ReadOptions(format="areal")).lengths_N is None


def test_a_told_format_whose_groups_are_not_there(tmp_path):
    groups = [{"scores": [0.0, 1.0], "masks": [[1], [1]], "tokens": [[1], [1]]}] * 4
    log = jsonl(tmp_path / "groups.jsonl", groups)
    with pytest.raises(DataError, match=r"groups.jsonl: no rollout is left of 4 rows \(4 no group id\)"):
        read_rollouts([log], ReadOptions(format="areal"))


def test_a_log_without_one_whole_record(tmp_path):
    step = {"step": 1, "prompt": ["1+1?"], "graded": [0.5], "advantages": [0.0]}
    log = jsonl(tmp_path / "completions.jsonl", [step | {"completion": []}, step | {"completion": "2"}])
    with pytest.raises(DataError, match=r"completions.jsonl: no rollout is left of 1 rows \(1 broken line\)"):
        read_rollouts([log])


def test_a_column_whose_name_is_half_a_character(tmp_path):
    log = jsonl(tmp_path / "run.jsonl", [row | {"\ud800": row["reward"]} for row in rows()])
    document = audit_rollouts(read_rollouts([log], ReadOptions(reward_columns=("\ud800",))), min_correct=0.5)
    assert document["n_correct"] == 4


def test_long_names_are_cut_in_messages(tmp_path):
    log = jsonl(tmp_path / "run.jsonl", [{"x" * 5000: 1.0, "y": 2.0}])
    with pytest.raises(DataError, match=r"no column 'reward' \(columns: x{60}\.\.\., y\)"):
        read_rollouts([log])
