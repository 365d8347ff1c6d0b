import pytest

from corpo_rl.audit.diff import diff_audits
from corpo_rl.audit.document import audit_rollouts
from tests.audit.logs import graded, rollout_log


def test_figures_differ_by_b_less_a():
    rollouts = graded(200, seed=0)
    a = audit_rollouts(rollout_log(rollouts), min_correct=0.7)
    b = audit_rollouts(rollout_log(rollouts), min_correct=0.7, estimator="corpo")
    found = diff_audits(a, b, names=("first", "second"))
    figures = {one["key"]: one for one in found["figures"]}
    share = figures["reinforced_failure_share"]
    assert share["b"] == 0.0
    assert share["difference"] == -share["a"] == -a["reinforced_failure_share"]["value"]
    assert share["low"] < share["difference"] < share["high"] < 0
    assert figures["class_mixed"]["difference"] == 0.0
    assert {one["id"] for one in found["findings"]} >= {"reinforced_failures"}
    assert found["comparable"] == []


def test_the_interval_of_a_difference_by_hand():
    # b - a = 0.2; below: hypot(0.03, 0.04) = 0.05; above: hypot(0.06, 0.08) = 0.1
    document = audit_rollouts(rollout_log(graded(10, seed=0)), min_correct=0.7)
    a = document | {"reinforced_failure_share": {"value": 0.3, "low": 0.22, "high": 0.34}}
    b = document | {"reinforced_failure_share": {"value": 0.5, "low": 0.47, "high": 0.56}}
    share = diff_audits(a, b, names=("a", "b"))["figures"][0]
    assert (share["low"], share["high"]) == pytest.approx((0.15, 0.3))


def test_what_cannot_be_compared_is_said():
    a = audit_rollouts(rollout_log(graded(10, seed=0)), min_correct=0.7)
    b = audit_rollouts(rollout_log(graded(10, seed=0, sizes=(4,))), min_correct=0.5)
    reasons = " ".join(diff_audits(a, b, names=("a", "b"))["comparable"])
    assert "reward >= 0.7 and reward >= 0.5" in reasons
    assert "groups have other sizes: 8 and 4" in reasons


def test_an_undefined_figure_has_no_difference():
    a = audit_rollouts(rollout_log(graded(10, seed=0)))
    share = diff_audits(a, a, names=("a", "b"))["figures"][0]
    assert (share["a"], share["difference"], share["low"]) == (None, None, None)
