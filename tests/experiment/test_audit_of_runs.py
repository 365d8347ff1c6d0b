"""The audit of our own completion logs is, figure by figure, what the trainer logged while it trained."""

import json
from dataclasses import replace

import pytest

from corpo_rl.audit.document import audit_rollouts
from corpo_rl.experiment.runner import prepare, run_all
from corpo_rl.experiment.settings import MINI
from corpo_rl.rollouts.read import read_with_texts

STEPS = 3
SAME = {
    "reinforced_failure_share": "corpo/reinforced_failure_share",
    "r_count": "corpo/r_count",
    "floored_group_share": "corpo/floored_group_share",
    "correct_share": "corpo/correct_share",
    "unscorable": "corpo/unscorable",
    "class_all_failed_equal": "corpo/groups/all_failed_equal",
    "class_all_failed_graded": "corpo/groups/all_failed_graded",
    "class_mixed": "corpo/groups/mixed",
    "class_all_correct_graded": "corpo/groups/all_correct_graded",
    "class_all_correct_equal": "corpo/groups/all_correct_equal",
}
"""Curve of the audit -> metric of the trainer."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    out = tmp_path_factory.mktemp("experiment")
    settings = replace(
        MINI, steps=STEPS, prompts_per_step=8, micro_batch=32, samples_per_item=2, k=2, eval_items=4, curve_every=0
    )
    prepared = prepare(out, settings)
    run_all(out, prepared, methods=["grpo", "corpo"], seeds=[0], jobs=1, progress=lambda *_: None)
    return out / "runs"


@pytest.mark.parametrize("method", ["grpo", "corpo"])
def test_every_figure_of_every_step(runs, method):
    log, read_texts = read_with_texts([runs / f"{method}-s0" / "completions"])
    found = audit_rollouts(log, min_correct=0.2, claimed=method, read_texts=read_texts)
    assert (log.format, log.grouped_by) == ("trl", "corpo_group")
    assert found["n_groups"] == 8 * STEPS
    assert found["logged_estimator"]["name"] == method
    assert found["logged_estimator"]["precision"] < 1e-5

    logged = [json.loads(line) for line in (runs / f"{method}-s0" / "metrics.jsonl").read_text().splitlines()]
    logged = {row["step"]: row for row in logged if "corpo/r_count" in row}
    assert found["curves"]["step"] == sorted(logged) == list(range(1, STEPS + 1))
    for place, step in enumerate(found["curves"]["step"]):
        for curve, metric in SAME.items():
            assert found["curves"][curve][place] == logged[step].get(metric), (step, curve)
        assert found["curves"]["reward"][place] == pytest.approx(logged[step]["reward"], abs=1e-6)
    for example in found["examples"]:
        assert example["prompt"]
        assert example["completion"] is not None
        assert example["reward"] < 0.2
    assert bool(found["examples"]) == (method == "grpo")
