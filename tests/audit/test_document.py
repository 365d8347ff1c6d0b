import json

import numpy as np
import pytest

from corpo_rl.audit.blocks import Layout, blocks
from corpo_rl.audit.document import audit_rollouts
from corpo_rl.audit.patterns import find_patterns
from corpo_rl.core.advantages import ESTIMATORS, estimate_advantages
from corpo_rl.core.dynamics import (
    floor_state,
    floored_group_share,
    group_class_counts,
    r_count,
    reinforced_failure_share,
)
from corpo_rl.errors import DataError, UsageError
from tests.audit.logs import graded, rollout_log
from tests.audit.recount import recount

SIGNS = {"up": "positive", "level": "zero", "down": "negative"}


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize(("sizes", "nulls"), [((8,), 0.0), ((1, 2, 5, 8, 16), 0.1)])
def test_every_figure_equals_a_plain_recount(estimator, sizes, nulls):
    rollouts = graded(400, seed=3, sizes=sizes, nulls=nulls)
    found = audit_rollouts(rollout_log(rollouts), min_correct=0.7, estimator=estimator)
    expected = recount(rollouts, min_correct=0.7, estimator=estimator)
    counts = expected["counts"]
    n_failed = sum(counts[f"failed {sign}"] for sign in SIGNS)
    assert min(counts["failed down"], counts["correct up"], expected["classes"]["all_failed_graded"]) > 0

    for verdict in ("failed", "correct"):
        for sign, name in SIGNS.items():
            cell = f"{verdict} {sign}"
            row = found["table"][verdict]
            assert row["rollouts"][name] == counts[cell]
            assert row["mass"][name] == pytest.approx(expected["mass"][cell], rel=1e-9, abs=1e-9)
            assert row["token_mass"][name] == pytest.approx(expected["tokens"][cell], rel=1e-9, abs=1e-9)
    assert (found["n_rollouts"], found["n_groups"]) == (len(rollouts), 400)
    assert found["n_unscorable"] == sum(one["reward"] is None for one in rollouts)
    assert (found["n_failed"], found["n_reinforced_failures"]) == (n_failed, counts["failed up"])
    assert found["reinforced_failure_share"]["value"] == counts["failed up"] / n_failed
    if counts["failed up"]:
        assert found["in_all_failed_groups_share"] == expected["alone"] / counts["failed up"]
    assert found["group_classes"] == expected["classes"]
    assert found["phases"] == {
        "correctness_seeking": expected["seeking"],
        "preference_seeking": expected["not seeking"],
    }
    assert found["zero_variance_groups"] == expected["zero variance"]
    down = counts["failed down"] + counts["correct down"]
    assert found["r_count"] == (counts["failed up"] + counts["correct up"]) / down

    curves = found["curves"]
    for place, step in enumerate(curves["step"]):
        of_step = expected["steps"].get(step, {"failed": 0, "reinforced": 0})
        share = of_step["reinforced"] / of_step["failed"] if of_step["failed"] else None
        assert curves["reinforced_failure_share"][place] == share


def test_the_counterfactual_of_each_estimator_equals_a_plain_recount():
    rollouts = graded(300, seed=5, sizes=(2, 5, 8), nulls=0.05)
    found = audit_rollouts(rollout_log(rollouts), min_correct=0.7)["estimators"]
    for estimator in ESTIMATORS:
        expected = recount(rollouts, min_correct=0.7, estimator=estimator)
        counts = expected["counts"]
        assert found[estimator]["n_reinforced_failures"] == counts["failed up"]
        assert found[estimator]["positive"] == counts["failed up"] + counts["correct up"]
        assert found[estimator]["zero"] == counts["failed level"] + counts["correct level"]
        assert found[estimator]["negative"] == counts["failed down"] + counts["correct down"]
        assert found[estimator]["zero_signal_groups"] == expected["silent"]
        assert found[estimator]["negative_only_groups"] == expected["down only"]
    assert found["grpo"]["sign_flips"] == 0
    assert found["corpo"]["sign_flips"] > found["dr_grpo"]["sign_flips"] == 0


def test_sign_flips_by_hand():
    # group mean 0.3: 0.4 is pushed up by a group mean and down by CoRPO at 0.5; 0.2 is pushed down by both
    found = audit_rollouts(rollout_log([{"group": 0, "reward": 0.2}, {"group": 0, "reward": 0.4}]), min_correct=0.5)
    assert found["estimators"]["corpo"]["sign_flips"] == 1
    assert found["in_all_failed_groups_share"] == 1.0


def test_the_figures_are_those_of_the_core():
    rollouts = graded(200, seed=1, nulls=0.05)
    log = rollout_log(rollouts)
    found = audit_rollouts(log, min_correct=0.6)
    rewards, groups = log.rewards_N, log.group_N
    advantages = estimate_advantages("grpo", rewards, groups, unscorable="exclude")
    assert found["reinforced_failure_share"]["value"] == reinforced_failure_share(rewards, advantages, min_correct=0.6)
    assert found["r_count"] == r_count(advantages)
    assert found["group_classes"] == group_class_counts(rewards, groups, min_correct=0.6)
    share = floored_group_share(rewards, groups, min_correct=0.6)
    assert found["phases"]["correctness_seeking"] / found["n_groups"] == share
    for row in found["threshold"]["levels"]:
        level = row["min_correct"]
        assert row["floored_group_share"] == floored_group_share(rewards, groups, min_correct=level)
        assert row["floor_state"] == floor_state(rewards, groups, min_correct=level)
        share = reinforced_failure_share(rewards, advantages, min_correct=level)
        assert row["reinforced_failure_share"] == (None if np.isnan(share) else share)


def test_order_of_rows_and_of_groups_changes_nothing():
    rollouts = graded(300, seed=2, sizes=(3, 8), nulls=0.02)
    shuffled = [rollouts[place] for place in np.random.default_rng(0).permutation(len(rollouts))]
    a, b = (audit_rollouts(rollout_log(rows), min_correct=0.7, created="now") for rows in (rollouts, shuffled))
    del a["examples"], b["examples"]  # of equally strong ones, those read first
    assert rounded(a) == rounded(b)


def rounded(value):
    """Sums in another order differ in their last digits."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return float(f"{value:.10g}") if isinstance(value, float) else value


def test_blocks_hold_whole_groups_whatever_their_size():
    rollouts = graded(100, seed=4, sizes=(1, 3, 8))
    log = rollout_log(rollouts)
    for size in (1, 2, 7, 100, 10_000):
        seen = list(blocks(log, size=size))
        assert sum(block.n_groups for block in seen) == 100
        np.testing.assert_array_equal(np.concatenate([block.rewards_N for block in seen]), log.rewards_N)
        assert [block.first_group for block in seen] == list(np.cumsum([0, *(b.n_groups for b in seen[:-1])]))
        assert all((np.unique(b.group_N) == np.arange(b.n_groups)).all() for b in seen)


def test_many_blocks_give_the_figures_of_one(monkeypatch):
    log = rollout_log(graded(300, seed=6, sizes=(4, 8), nulls=0.03))
    whole = audit_rollouts(log, min_correct=0.7, created="now")
    monkeypatch.setattr("corpo_rl.audit.document.blocks", lambda *a, **kw: blocks(*a, **(kw | {"size": 50})))
    parts = audit_rollouts(log, min_correct=0.7, created="now")
    assert rounded(parts) == rounded(whole)


def test_the_interval_is_over_prompts_and_does_not_depend_on_row_order():
    # every prompt's failures are all reinforced or none: over prompts the share is known badly, over rollouts well
    rollouts = [
        {"group": group, "prompt": f"p{group % 4}", "reward": reward}
        for group in range(400)
        for reward in ((0.0, 0.1, 0.1, 0.1) if group % 4 < 2 else (0.1, 0.1, 0.1, 0.1))
    ]
    found = audit_rollouts(rollout_log(rollouts), min_correct=0.5)
    share = found["reinforced_failure_share"]
    assert (found["resampled"], found["n_prompts"]) == ("prompts", 4)
    assert share["value"] == 3 * 200 / 1600
    assert share["low"] == 0.0
    assert share["high"] == 0.75


def test_without_a_threshold_only_the_table_of_levels_speaks():
    found = audit_rollouts(rollout_log(graded(50, seed=0)))
    for key in ("min_correct", "correct_by", "n_failed", "n_reinforced_failures", "table", "group_classes", "phases"):
        assert found[key] is None, key
    assert found["reinforced_failure_share"] == {"value": None, "low": None, "high": None}
    assert [name for name, figures in found["estimators"].items() if figures is None] == [
        "static",
        "corpo",
        "loo_corpo",
    ]
    assert len(found["threshold"]["levels"]) > 3
    statuses = {one["id"]: one["status"] for one in found["findings"]}
    assert statuses["correctness"] == statuses["reinforced_failures"] == statuses["floor"] == "NOT CHECKED"
    assert set(found["curves"]["correct_share"]) == {None}


def test_a_label_says_what_is_correct_where_no_threshold_does():
    rollouts = [
        {"group": 0, "reward": 0.9, "label": 0},
        {"group": 0, "reward": 0.5, "label": 1},
        {"group": 0, "reward": 0.1, "label": None},
    ]
    found = audit_rollouts(rollout_log(rollouts))
    assert (found["correct_by"], found["n_failed"], found["n_correct"]) == ("label acc", 1, 1)
    assert found["n_reinforced_failures"] == 1  # 0.9 is over the mean of 0.5
    assert found["threshold"]["ordering"]["n_groups_inverted"] == 1
    statuses = {one["id"]: one["status"] for one in found["findings"]}
    assert statuses["reward_ordering"] == "WARN"


def test_label_and_threshold_that_disagree_are_counted():
    rollouts = [{"group": 0, "reward": 0.4, "label": 1}, {"group": 0, "reward": 0.6, "label": 0}]
    found = audit_rollouts(rollout_log(rollouts), min_correct=0.5)
    ordering = found["threshold"]["ordering"]
    assert ordering["n_label_correct_under_min_correct"] == ordering["n_label_failed_over_min_correct"] == 1
    assert {one["id"]: one["status"] for one in found["findings"]}["label_agreement"] == "WARN"


def test_six_equal_rewards_of_a_tenth_have_no_variance():
    found = audit_rollouts(rollout_log([{"group": 0, "reward": 0.1}] * 6), min_correct=0.5)
    assert found["zero_variance_groups"] == 1
    assert found["table"]["failed"]["rollouts"] == {"positive": 0, "zero": 6, "negative": 0}


def test_float32_rewards_are_read_as_their_decimals():
    rewards = [float(np.float32(value)) for value in (0.1, 0.2, 0.3, 0.7)]
    rollouts = [{"group": g, "reward": r} for g, r in zip((0, 0, 0, 1), rewards, strict=True)]
    found = audit_rollouts(rollout_log(rollouts, float32=True), min_correct=0.7)
    assert (found["n_failed"], found["n_correct"]) == (3, 1)
    assert found["table"]["failed"]["rollouts"] == {"positive": 1, "zero": 1, "negative": 1}


def test_many_distinct_rewards_give_a_grid_of_thresholds():
    rng = np.random.default_rng(0)
    rollouts = [{"group": row // 8, "reward": float(rng.normal())} for row in range(4000)]
    threshold = audit_rollouts(rollout_log(rollouts), min_correct=0.0)["threshold"]
    assert threshold["grid"]
    assert 5 < len(threshold["levels"]) < 20


def test_the_document_is_json_and_holds_no_nan():
    for min_correct in (None, 0.7, 5.0, -5.0):
        for rollouts in (graded(5, seed=0), [{"group": 0, "reward": None}], [{"group": 0, "reward": 1.0}]):
            json.dumps(audit_rollouts(rollout_log(rollouts), min_correct=min_correct), allow_nan=False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"estimator": "gae"}, "estimator: expected one of grpo, .* got 'gae'"),
        ({"claimed": "ppo"}, "claimed: expected one of"),
        ({"estimator": "corpo"}, "corpo needs the least reward that counts as correct"),
        ({"min_correct": float("nan")}, "min_correct: expected a finite number"),
    ],
)
def test_a_wrong_call_is_one_line(arguments, message):
    with pytest.raises(UsageError, match=message):
        audit_rollouts(rollout_log(graded(2, seed=0)), **arguments)


def test_an_empty_log_is_refused():
    log = rollout_log(graded(1, seed=0))
    empty = np.zeros(0)
    with pytest.raises(DataError, match="expected rollouts, found none"):
        audit_rollouts(rollout_log(graded(1, seed=0), rewards_N=empty, group_N=log.group_N[:0]), min_correct=1.0)


@pytest.mark.parametrize("many", [0, 10**9])
@pytest.mark.parametrize("shuffled", [False, True])
def test_counting_like_groups_once_changes_nothing(monkeypatch, shuffled, many):
    monkeypatch.setattr("corpo_rl.audit.patterns.MANY_GROUPS", many)
    rollouts = graded(600, seed=7, sizes=(2, 3), nulls=0.05, lengths=False)
    rollouts += rollouts[:2]  # so that the rows of the first group do not stand together

    if shuffled:
        np.random.default_rng(1).shuffle(rollouts)
    log = rollout_log(rollouts)
    each = audit_rollouts(log, min_correct=0.7, created="now")
    monkeypatch.setattr("corpo_rl.audit.patterns.FEW_GROUPS", 0)
    patterns = find_patterns(log, Layout.of(log))
    assert len(patterns.weight_P) < 300
    assert patterns.weight_P.sum() == 600
    assert len(patterns.pattern_G) == 600
    for group in range(600):
        like = patterns.log.rewards_N[patterns.log.group_N == patterns.pattern_G[group]]
        np.testing.assert_array_equal(np.sort(like), np.sort(log.rewards_N[log.group_N == group]))
    once = audit_rollouts(log, min_correct=0.7, created="now")
    assert rounded(once) == rounded(each)


def test_groups_that_differ_in_more_than_rewards_are_counted_each(monkeypatch):
    monkeypatch.setattr("corpo_rl.audit.patterns.FEW_GROUPS", 0)
    for field in ("advantage", "length", "label"):
        log = rollout_log([{"group": row // 2, "reward": row % 2, field: 1.0} for row in range(40)])
        assert find_patterns(log, Layout.of(log)) is None
    plain = rollout_log([{"group": row // 2, "reward": row % 2} for row in range(40)])
    assert len(find_patterns(plain, Layout.of(plain)).weight_P) == 1
