"""Methods beyond the six, and the options that change which groups and thresholds are trained on, reach the trainer."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from corpo_rl.core.methods import method_advantages
from corpo_rl.experiment.runner import prepare, run_all
from corpo_rl.experiment.settings import MINI

QUICK = replace(MINI, steps=2, prompts_per_step=4, micro_batch=32, samples_per_item=2, k=2, eval_items=4, curve_every=0)


def metrics(out, name):
    return [json.loads(line) for line in (out / "runs" / name / "metrics.jsonl").read_text().splitlines()]


def train(out, settings, *methods):
    run_all(out, prepare(out, settings), methods=methods, seeds=[0], jobs=2, progress=lambda *_: None)


def test_a_composed_method_and_a_learned_value(tmp_path):
    train(tmp_path, QUICK, "qae=0.4+floor", "value")
    log = pd.read_parquet(tmp_path / "runs" / "qae=0.4+floor-s0" / "completions" / "completions_00001.parquet")
    expected = method_advantages("qae=0.4+floor", log["corpo_reward"], log["corpo_group"].tolist(), min_correct=0.2)
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(log["advantage"], expected, atol=1e-6)
    assert all(row["corpo/value_loss"] > 0 for row in metrics(tmp_path, "value-s0"))
    assert not any("corpo/value_loss" in row for row in metrics(tmp_path, "qae=0.4+floor-s0"))


def test_selection_and_a_rising_threshold(tmp_path):
    settings = replace(
        QUICK,
        min_correct=0.2,
        min_correct_schedule="ramp:-0.6:0.2:2",
        group_selection="keep_failed",
        on_deselected="resample",
    )
    train(tmp_path, settings, "corpo")
    first, second = metrics(tmp_path, "corpo-s0")[:2]
    assert (first["corpo/min_correct"], second["corpo/min_correct"]) == pytest.approx((-0.6, -0.2))
    assert first["corpo/generated_rollouts"] >= 32
    assert first["corpo/selected_groups"] + first["corpo/dropped_groups"] == 4
