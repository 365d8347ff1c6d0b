import numpy as np
import pytest

from corpo_rl.audit.document import audit_rollouts
from tests.audit.logs import graded, rollout_log


def findings(rollouts, *, min_correct=0.7, estimator="grpo", **fields):
    log = rollout_log(rollouts, **fields)
    return {one["id"]: one for one in audit_rollouts(log, min_correct=min_correct, estimator=estimator)["findings"]}


def binary(n_groups, *, seed):
    rng = np.random.default_rng(seed)
    return [
        {"group": group, "step": group // 10, "reward": float(rng.random() < skill)}
        for group, skill in enumerate(rng.uniform(0.05, 0.95, n_groups))
        for _ in range(8)
    ]


def test_a_healthy_binary_run_is_left_in_peace():
    # with rewards 0 and 1 and a threshold of 1 a failure is never over its group's mean
    found = findings(binary(200, seed=0), min_correct=1.0)
    assert [name for name, one in found.items() if one["status"] == "WARN"] == []
    assert found["floor"]["status"] == "NOTE"  # CoRPO at 1 could only punish; between 0 and 1 it could not
    assert findings(binary(200, seed=0), min_correct=1.0, estimator="grpo")["floor"]["title"].startswith("SATURATED")
    assert found["reinforced_failures"]["status"] == "OK"
    assert found["unsolved_groups"]["status"] == "OK"


def test_the_fault_is_told_with_its_numbers():
    found = findings(graded(200, seed=0))
    assert found["reinforced_failures"]["status"] == "WARN"
    assert found["unsolved_groups"]["status"] == "WARN"
    assert "failed rollouts (" in found["reinforced_failures"]["evidence"]
    assert "intended shaping" in found["reinforced_failures"]["evidence"]
    assert {"trl", "verl", "general"} == set(found["reinforced_failures"]["action"])


@pytest.mark.parametrize("estimator", ["static", "corpo", "loo_corpo"])
def test_a_floored_run_reinforces_none(estimator):
    found = findings(graded(200, seed=0), estimator=estimator)
    assert found["reinforced_failures"]["status"] == "OK"


def test_one_constant_reward_is_no_signal():
    found = findings([{"group": row // 8, "reward": 0.35} for row in range(800)])
    assert found["signal"]["status"] == "WARN"
    assert found["signal"]["title"].startswith("NO SIGNAL")
    assert "dynamic-sampling" in found["zero_variance_filter"]["title"]


def test_groups_of_one_compare_nothing():
    found = findings([{"group": row, "reward": row % 3 / 2} for row in range(30)])
    assert found["signal"]["title"].startswith("NO GROUPS")
    assert found["signal"]["status"] == "WARN"


def test_inert_and_saturated_thresholds_are_loud():
    rollouts = [{"group": row // 4, "reward": row % 4 / 4} for row in range(400)]
    inert = findings(rollouts, min_correct=0.0)
    assert inert["floor"]["status"] == "WARN"
    assert inert["floor"]["title"].startswith("INERT THRESHOLD")
    assert inert["reinforced_failures"]["status"] == "NOT CHECKED"  # nothing is under 0, so nothing failed
    saturated = findings(rollouts, min_correct=0.75)
    assert saturated["floor"]["title"].startswith("SATURATED THRESHOLD")
    assert findings(rollouts, min_correct=0.5)["floor"]["status"] == "OK"


def test_what_is_missing_is_named():
    found = findings(graded(20, seed=1), min_correct=None)
    not_checked = {name: one["needs"] for name, one in found.items() if one["status"] == "NOT CHECKED"}
    assert not_checked["correctness"] == "--min-correct, or --correct-column"
    assert not_checked["logged_estimator"] == "advantage"
    assert not_checked["reward_ordering"] == "--correct-column"
    assert not_checked["components"] == "several reward columns"
    bare = findings([{"group": 0, "reward": 0.1}, {"group": 0, "reward": 0.9}])
    assert bare["coverage"]["needs"] == "--step-column"
    assert bare["token_mass"]["needs"] == "--length-column"


def test_a_warning_says_what_to_do():
    for rollouts, fields in (
        (graded(100, seed=2, nulls=0.05), {"unscorable": {"null": 40}, "warnings": ("12 groups are twice as large",)}),
        ([{"group": row, "reward": 0.5, "label": row % 2} for row in range(8)], {}),
        ([{"group": 0, "reward": 0.5}] * 8, {"dropped": {"broken line": 3}}),
    ):
        found = findings(rollouts, **fields)
        for one in found.values():
            if one["status"] == "WARN":
                assert one["action"], one


def test_gaps_between_steps_are_told():
    rollouts = [{"group": step, "step": step, "reward": reward} for step in (10, 20, 30) for reward in (0.1, 0.9)]
    found = findings(rollouts)
    assert found["coverage"]["status"] == "NOTE"
    assert "3 of the 21 steps from 10 to 30" in found["coverage"]["evidence"]
    assert "logging_steps=1" in found["coverage"]["action"]["trl"]


def test_rows_lost_are_told():
    found = findings(graded(20, seed=3), unscorable={"null": 2, "text": 1}, dropped={"broken line": 1, "duplicate": 8})
    assert found["rows"]["status"] == "WARN"  # 4 of 160 is more than one in a hundred
    for told in ("2 null", "1 text", "1 dropped: broken line", "8 dropped: duplicate"):
        assert told in found["rows"]["evidence"]
    fine = findings(graded(20, seed=3), dropped={"duplicate": 8})
    assert fine["rows"]["status"] == "OK"


def test_the_component_that_lifts_failures_is_named():
    # correctness is 0 throughout; the format reward alone tells the group's rollouts apart
    rollouts = [{"group": row // 4, "reward": 0.2 * (row % 2)} for row in range(80)]
    log_fields = {
        "components": {"correct": np.zeros(80), "format": np.array([float(row % 2) for row in range(80)])},
        "weights": {"correct": 1.0, "format": 0.2},
    }
    found = audit_rollouts(rollout_log(rollouts, **log_fields), min_correct=1.0)
    rows = {row["name"]: row for row in found["components"]}
    assert (rows["format"]["n_reinforced_by_it"], rows["correct"]["n_reinforced_by_it"]) == (40, 0)
    assert rows["format"]["share_of_positive_mass"] == 1.0
    # two of 0.2 and two of 0: variance 4 x 0.01 / 3
    assert rows["format"]["std_all_failed"] == pytest.approx((0.04 / 3) ** 0.5)
    assert rows["format"]["std_other"] is None
    assert rows["format"]["n_all_failed_groups_varying"] == 20
    told = next(one for one in found["findings"] if one["id"] == "components")
    assert "'format'" in told["evidence"]
    assert "reward_weights" in told["action"]["trl"]
