import numpy as np

from corpo_rl.audit.document import audit_rollouts
from corpo_rl.records import Texts
from tests.audit.logs import graded, rollout_log


def test_the_most_strongly_reinforced_failures_in_order():
    log = rollout_log(graded(300, seed=0))
    found = audit_rollouts(log, min_correct=0.7, estimator="dr_grpo")["examples"]
    advantages = [one["advantage"] for one in found]
    assert len(found) == 10
    assert advantages == sorted(advantages, reverse=True)
    assert len({one["group"] for one in found}) == 10
    failed = log.rewards_N < 0.7
    means = np.bincount(log.group_N, weights=log.rewards_N) / np.bincount(log.group_N)
    assert advantages[0] == (log.rewards_N - means[log.group_N])[failed].max()
    for one in found:
        place = int(one["where"].removeprefix("run.jsonl:")) - 1
        assert log.rewards_N[place] == one["reward"] < 0.7
        assert log.group_N[place] == one["group"]
        rewards = [sibling["reward"] for sibling in one["siblings"]]
        assert rewards == sorted(rewards, reverse=True)
        assert len(rewards) + one["n_siblings_left_out"] == 7


def test_texts_are_fetched_for_the_examples_alone_and_cut():
    asked = []

    def read_texts(rows):
        asked.extend(rows)
        return [Texts(prompt=f"prompt {row}", completion="x" * 5000) for row in rows]

    log = rollout_log(graded(300, seed=0))
    found = audit_rollouts(log, min_correct=0.7, read_texts=read_texts)["examples"]
    assert len(asked) == 80
    row = int(found[0]["where"].split(":")[1]) - 1
    assert found[0]["prompt"] == f"prompt {row}"
    assert found[0]["completion"].endswith("[... 1,000 more characters]")
    assert all(sibling["completion"] for sibling in found[0]["siblings"])


def test_rows_of_a_shuffled_log_are_found():
    rollouts = graded(100, seed=1)
    order = np.random.default_rng(0).permutation(len(rollouts))
    shuffled = [rollouts[place] for place in order]
    found = audit_rollouts(rollout_log(shuffled), min_correct=0.7)["examples"]
    for one in found:
        assert shuffled[int(one["where"].split(":")[1]) - 1]["reward"] == one["reward"]


def test_no_failure_no_example():
    assert audit_rollouts(rollout_log([{"group": 0, "reward": 1.0}] * 4), min_correct=1.0)["examples"] == []
