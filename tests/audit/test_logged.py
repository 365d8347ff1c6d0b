import numpy as np
import pytest

from corpo_rl.audit.document import audit_rollouts
from corpo_rl.core.advantages import ESTIMATORS, estimate_advantages
from tests.audit.logs import graded, rollout_log
from tests.audit.test_document import rounded

FLOOR = 0.7


def logged(rollouts, estimator=None, *, advantages=None, **fields):
    """The log with advantages of an estimator, in float32 as trainers have them."""
    log = rollout_log(rollouts)
    if advantages is None:
        advantages = estimate_advantages(estimator, log.rewards_N, log.group_N, min_correct=FLOOR, unscorable="exclude")
    return rollout_log(rollouts, advantages_N=np.float64(np.float32(advantages)), **fields)


def statuses(found):
    return {one["id"]: one["status"] for one in found["findings"]}


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_estimator_of_a_log_is_named(estimator):
    found = audit_rollouts(logged(graded(200, seed=1, nulls=0.02), estimator), min_correct=FLOOR)
    assert found["logged_estimator"]["name"] == estimator == found["estimator"]
    assert found["logged_estimator"]["precision"] < 1e-5
    assert found["advantages_from"] == "logged"
    assert statuses(found)["logged_estimator"] == "OK"


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_logged_advantages_give_the_figures_of_recomputed_ones(estimator):
    rollouts = graded(200, seed=2, nulls=0.02)
    of_log = audit_rollouts(logged(rollouts, estimator), min_correct=FLOOR)
    recomputed = audit_rollouts(rollout_log(rollouts), min_correct=FLOOR, estimator=estimator)
    for key in ("n_reinforced_failures", "r_count", "in_all_failed_groups_share", "reinforced_failure_share"):
        assert of_log[key] == recomputed[key], key
    assert of_log["table"]["failed"]["rollouts"] == recomputed["table"]["failed"]["rollouts"]
    assert of_log["r_loss_proxy"] == pytest.approx(recomputed["r_loss_proxy"], rel=1e-5)
    assert rounded(of_log["estimators"]) == rounded(recomputed["estimators"])


def test_standard_deviations_of_other_frameworks():
    rollouts = graded(100, seed=3)
    log = rollout_log(rollouts)
    rewards = log.rewards_N.reshape(100, 8)
    centred = rewards - rewards.mean(1, keepdims=True)
    std, spread = rewards.std(1, keepdims=True, ddof=1), np.ptp(rewards, axis=1) > 1e-9
    with np.errstate(invalid="ignore", divide="ignore"):
        population = np.where(spread[:, None], centred / (rewards.std(1, keepdims=True) + 1e-8), 0.0)
    for name, advantages in {
        "grpo, population std": population,
        "grpo, batch std": np.concatenate(
            [
                part / (rewards[10 * step : 10 * step + 10].std(ddof=1) + 1e-4)
                for step, part in enumerate(np.split(centred, 10))
            ]
        ),
    }.items():
        found = audit_rollouts(logged(rollouts, advantages=advantages.ravel()), min_correct=FLOOR)
        assert found["logged_estimator"]["name"] == name
        assert found["n_reinforced_failures"] == audit_rollouts(log, min_correct=FLOOR)["n_reinforced_failures"]
    assert (std > 0).any()


def test_rounding_in_groups_of_equal_rewards_is_no_signal():
    # what a standard deviation of float32 residues makes of six rewards of 0.1; nothing here reproduces it
    rollouts = [{"group": g, "reward": r} for g, r in [(0, 0.1)] * 6 + [(1, 0.0), (1, 0.2)]]
    found = audit_rollouts(logged(rollouts, advantages=[7e-3] * 6 + [-3.0, 1.0]), min_correct=FLOOR)
    assert found["logged_estimator"]["status"] == "not reproduced"
    assert found["estimator"] == "logged"
    assert found["table"]["failed"]["rollouts"] == {"positive": 1, "zero": 6, "negative": 1}
    assert statuses(found)["logged_estimator"] == "WARN"


def test_advantages_of_wrongly_told_groups_are_not_reproduced():
    rollouts = graded(100, seed=4)
    advantages = logged(rollouts, "grpo").advantages_N
    for row, one in enumerate(rollouts):
        one["group"] = row // 16
    found = audit_rollouts(rollout_log(rollouts, advantages_N=advantages), min_correct=FLOOR)
    assert found["logged_estimator"]["status"] == "not reproduced"


def test_a_claim_that_the_log_contradicts_is_told():
    found = audit_rollouts(logged(graded(100, seed=5), "grpo"), min_correct=FLOOR, claimed="corpo")
    finding = next(one for one in found["findings"] if one["id"] == "logged_estimator")
    assert finding["status"] == "WARN"
    assert finding["title"] == "The logged advantages are not those of corpo"
    kept = audit_rollouts(logged(graded(100, seed=5), "grpo"), min_correct=FLOOR, claimed="grpo")
    assert statuses(kept)["logged_estimator"] == "OK"


def test_the_run_that_was_called_corpo_and_never_had_a_floor():
    # a threshold of 0 under rewards of at least 0: the logged advantages are corpo's, and the group mean's
    rollouts = [{**one, "reward": abs(one["reward"])} for one in graded(100, seed=6)]
    log = rollout_log(rollouts)
    advantages = estimate_advantages("corpo", log.rewards_N, log.group_N, min_correct=0.0)
    found = audit_rollouts(logged(rollouts, advantages=advantages), min_correct=0.0, claimed="corpo")
    assert found["logged_estimator"]["name"] == "dr_grpo"
    assert "corpo" in found["logged_estimator"]["also"]
    assert found["threshold"]["floor_state"] == "inert"
    told = {one["id"]: one for one in found["findings"]}
    assert told["floor"]["title"].startswith("INERT THRESHOLD")
    assert "its floor did nothing" in told["logged_estimator"]["title"]


def test_the_floor_a_run_was_trained_with_is_read_from_its_advantages():
    log = logged(graded(200, seed=7), "corpo")
    found = audit_rollouts(log, min_correct=0.5)
    assert found["logged_estimator"]["inferred_floor"] == FLOOR
    assert statuses(found)["trained_floor"] == "WARN"
    assert (
        audit_rollouts(logged(graded(200, seed=7), "grpo"), min_correct=0.5)["logged_estimator"]["inferred_floor"]
        is None
    )


def test_rollouts_without_a_logged_advantage_are_counted_and_in_no_cell():
    rollouts = graded(50, seed=8)
    advantages = logged(rollouts, "dr_grpo").advantages_N.copy()
    advantages[:3] = np.nan
    found = audit_rollouts(rollout_log(rollouts, advantages_N=advantages), min_correct=FLOOR)
    assert found["n_without_advantage"] == 3
    cells = [n for verdict in found["table"].values() for n in verdict["rollouts"].values()]
    assert sum(cells) == len(rollouts) - 3


def test_a_column_of_no_advantages_is_none():
    rollouts = graded(20, seed=9)
    found = audit_rollouts(rollout_log(rollouts, advantages_N=np.full(len(rollouts), np.nan)), min_correct=FLOOR)
    assert found["advantages_from"] == "recomputed"
    assert statuses(found)["logged_estimator"] == "NOT CHECKED"


def test_groups_of_one_tell_no_floor():
    # verl gives a rollout alone in its group its bare reward as advantage: a baseline of 0 over the reward of -1
    rollouts = graded(60, seed=10) + [
        {"group": 1000 + row, "step": 0, "prompt": "p", "reward": -1.0} for row in range(5)
    ]
    log = rollout_log(rollouts)
    advantages = estimate_advantages("dr_grpo", log.rewards_N, log.group_N)
    advantages[-3:] = -1.0
    found = audit_rollouts(rollout_log(rollouts, advantages_N=advantages), min_correct=FLOOR)
    assert found["logged_estimator"]["inferred_floor"] is None
    assert found["logged_estimator"]["name"] == "dr_grpo"
