"""Formats of many rollouts a line, on records written by hand."""

import pytest

from corpo_rl.errors import DataError
from tests.rollouts.logs import REWARDS, read, sizes, write


def test_atropos_lengths_are_the_tokens_trained_on(tmp_path):
    group = {
        "tokens": [[1, 2, 3, 4]] * 4,
        "masks": [[-100, -100, 3, 4], [-100, 2, 3, 4], [-100] * 4, [1, 2, 3, 4]],
        "scores": REWARDS,
        "advantages": [[0.0, 0.0, -0.5, -0.5], [0.0] * 4, 0.25, None],
        "messages": [[{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]] * 4,
    }
    log = read(write(tmp_path / "groups.jsonl", [group, group]))
    assert (log.format, log.grouped_by, sizes(log)) == ("atropos", "line", {4: 2})
    assert log.lengths_N.tolist() == [2, 3, 0, 4] * 2
    assert log.advantages_N[:3].tolist() == [-0.5, 0.0, 0.25]
    assert str(log.advantages_N[3]) == "nan"


def test_lists_of_rewards_are_groups_of_any_size(tmp_path):
    rows = [{"prompt_id": "p", "rewards": REWARDS}, {"prompt_id": "q", "rewards": [-1, 5, None]}]
    log = read(write(tmp_path / "groups.jsonl", rows))
    assert (log.format, sizes(log)) == ("group_lists", {4: 1, 3: 1})
    assert log.rewards_N[:6].tolist() == [*REWARDS, -1.0, 5.0]
    assert log.unscorable == {"null": 1}


def test_ms_swift_logs_hold_a_column_of_each(tmp_path):
    row = {
        "step": ["3"] * 4,
        "prompt": ["q"] * 4,
        "completion": list("abcd"),
        "passed": REWARDS,
        "advantages": [reward - 0.4375 for reward in REWARDS],
    }
    log = read(write(tmp_path / "completions.jsonl", [row]))
    assert (log.format, sizes(log), log.step_G.tolist()) == ("ms_swift", {4: 1}, [3])
    assert log.rewards_N.tolist() == REWARDS
    assert log.advantages_N.tolist() == row["advantages"]


def episode(group, place, work="train"):
    nodes = [
        {"sampled": False, "message": {"role": "user", "content": "q"}, "token_ids": [1, 2]},
        {"sampled": True, "message": {"role": "assistant", "content": "a"}, "token_ids": [3] * (place + 1),
         "advantages": [REWARDS[place] - 0.4375] * (place + 1)},
    ]  # fmt: skip
    rewards = {"tests": {"score": REWARDS[place], "weight": 2.0}, "style": {"score": 0.5, "weight": 0.0}}
    judge = {"id": "judge", "agent": {"trainable": False}, "nodes": [], "rewards": {}}
    trace = {"id": f"{work}{group}{place}", "task": {"key": f"t{group}"}, "nodes": nodes, "rewards": rewards}
    return {"group": {"id": f"g{group}"}, "run": {"work": {"type": work, "step": 4}}, "traces": [trace, judge]}


def test_prime_rl_rewards_are_weighted_and_other_agents_left_out(tmp_path):
    rows = [episode(group, place) for group in (0, 1) for place in range(4)]
    path = tmp_path / "rollouts" / "step_4" / "train" / "all" / "traces.jsonl"
    log = read(write(path, [*rows, episode(0, 0, work="eval")]))
    assert (log.format, sizes(log), log.step_G.tolist()) == ("prime_rl", {4: 2}, [4, 4])
    assert log.rewards_N.tolist() == [2 * reward for reward in REWARDS] * 2
    assert log.advantages_N.tolist() == [reward - 0.4375 for reward in REWARDS] * 2
    assert log.lengths_N.tolist() == [1, 2, 3, 4] * 2
    assert log.dropped == {"row of another split than 'train'": 1}


def test_the_effective_subset_of_prime_rl_alone_is_warned_of(tmp_path):
    path = tmp_path / "step_4" / "train" / "effective" / "traces.jsonl"
    log = read(write(path, [episode(0, place) for place in range(4)]))
    assert any("groups without a signal were filtered out" in warning for warning in log.warnings)


def test_slime_dumps_are_refused(tmp_path):
    path = write(tmp_path / "0.pt", b"PK\x03\x04")
    with pytest.raises(DataError, match=r"0\.pt"):
        read(path)
