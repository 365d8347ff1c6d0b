"""NeMo RL's training data: a batch of one rollout a line, without a word on which prompt it answers."""

import re

import pytest

from corpo_rl.errors import DataError
from corpo_rl.rollouts.options import ReadOptions
from corpo_rl.rollouts.read import read_rollouts, read_with_texts
from tests.rollouts.logs import lines, write

REWARDS = [0.0, 0.25, 0.5, 1.0]


def batch_of_one(reward, advantage, n_tokens=3):
    return {
        "content": [f"an answer worth {reward}"],
        "rewards": [reward],
        "input_lengths": [n_tokens + 2],
        "token_ids": [list(range(n_tokens + 2))],
        "token_loss_mask": [[0, 0] + [1] * n_tokens],
        "sample_loss_mask": [1.0],
        "advantages": [[0.0, 0.0] + [advantage] * n_tokens],
        "idx": 0,
    }


def written(tmp_path):
    rows = [batch_of_one(reward, reward - 0.4, n_tokens=place + 1) for place, reward in enumerate(REWARDS)]
    return write(tmp_path / "train_data_step7.jsonl", lines(rows))


def test_without_a_group_size_the_log_is_refused_with_the_reason(tmp_path):
    path = written(tmp_path)
    expected = f"{re.escape(str(path))}: NeMo RL logs one rollout a line and not which rollouts answer one prompt"
    with pytest.raises(DataError, match=expected):
        read_rollouts([path])


def test_with_it_consecutive_rows_are_groups(tmp_path):
    log, read_texts = read_with_texts([written(tmp_path)], ReadOptions(group_size=2))
    assert log.format == "nemo_rl"
    assert log.rewards_N.tolist() == REWARDS
    assert log.group_N.tolist() == [0, 0, 1, 1]
    assert log.step_G.tolist() == [7, 7]
    assert log.advantages_N.tolist() == [reward - 0.4 for reward in REWARDS]
    assert log.lengths_N.tolist() == [1, 2, 3, 4]
    assert read_texts([3])[0].completion == "an answer worth 1.0"


def test_a_line_of_two_rollouts_is_broken(tmp_path):
    rows = [batch_of_one(0.5, 0.1), batch_of_one(1.0, 0.2), batch_of_one(0.0, -0.1) | {"rewards": [0.0, 1.0]}]
    log = read_rollouts([write(tmp_path / "train_data_step1.jsonl", lines(rows))], ReadOptions(group_size=2))
    assert log.rewards_N.tolist() == [0.5, 1.0]
    assert sum(log.dropped.values()) == 1


def test_older_logs_without_token_ids_are_known_too(tmp_path):
    older = ("content", "rewards", "input_lengths", "idx")
    rows = [{name: batch_of_one(reward, 0.0)[name] for name in older} for reward in REWARDS]
    log = read_rollouts([write(tmp_path / "train_data_step3.jsonl", lines(rows))], ReadOptions(group_size=4))
    assert (log.format, log.advantages_N, log.lengths_N) == ("nemo_rl", None, None)
    assert log.step_G.tolist() == [3]
