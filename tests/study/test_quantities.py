import math

import numpy as np
import pytest

from corpo_rl.core.passk import pass_at_k
from corpo_rl.study.quantities import (
    Study,
    failed_share,
    floored_share,
    log_r_count,
    paired,
    reinforced_share,
    solved,
    total,
    updates,
)

from .made_up import PLAN, record, results_of, study_of

STUDY = study_of()


def test_windows_are_the_first_the_last_and_those_before():
    # 24 steps in bins of 2, early 4, late 8: steps 1-4, 9-16, 17-24
    windows = {which: STUDY.window(which) for which in ("early", "middle", "late", "all")}
    assert windows == {"early": slice(0, 2), "middle": slice(4, 8), "late": slice(8, 12), "all": slice(0, 12)}


def test_runs_are_found_by_condition():
    assert list(STUDY.runs("min_margin", "corpo", 0.6)) == list(PLAN.seeds)
    assert STUDY.runs("min_margin", "grpo", 0.2) == STUDY.runs("min_margin", "grpo", 0.6) != {}
    assert STUDY.runs("min_margin", "corpo", 0.5) == {}
    assert list(STUDY.runs("brier", "static", 1.0, part="failing")) == [0, 1, 2]
    assert list(STUDY.runs("brier", "none", 0.68, part="base", base="hedge")) == [0]
    assert STUDY.cells() == [("min_margin", 0.2), ("min_margin", 0.6), ("brier", 0.68)]


def one_run(**series):
    """Runs of a single seed with 12 bins of what is given, zeros else."""
    zeros = [0] * 12
    by_threshold = {name: {"0.2": zeros} for name in ("failed", "failed_up", "floored")}
    return {7: {"series": {"up": zeros, "down": zeros, "update": [0.1] * 12, **by_threshold, **series}}}


def test_ratios_are_pooled_over_the_window():
    runs = one_run(up=[1, 3] + [0] * 8 + [5, 5], down=[2, 6] + [0] * 8 + [5, 5])
    assert total(STUDY, runs[7], "down", "early") == 8
    assert log_r_count(STUDY, runs, "early") == pytest.approx([math.log(4.5 / 8.5)])
    assert log_r_count(STUDY, runs, "late") == pytest.approx([0.0])
    assert np.isnan(log_r_count(STUDY, runs, "middle")).all(), "nothing was pushed at all"
    assert log_r_count(STUDY, {}, "early").shape == (0,)


def test_shares():
    runs = one_run(failed={"0.2": [10, 30] + [0] * 10}, failed_up={"0.2": [1, 9] + [0] * 10}, floored={"0.2": [4] * 12})
    assert reinforced_share(STUDY, runs, 0.2, "early") == pytest.approx([10 / 40])
    assert np.isnan(reinforced_share(STUDY, runs, 0.2, "late")).all(), "no share of nothing"
    # 8 prompts a step and 2 steps a bin: 4 of 16 groups; 8 rollouts each, 4 early steps: 40 of 256
    assert floored_share(STUDY, runs, 0.2, "all") == pytest.approx([0.25])
    assert failed_share(STUDY, runs, 0.2, "early") == pytest.approx([40 / 256])


def test_solved_reads_the_digits():
    runs = {3: {"evaluation": {"ood": {"n_samples": 12, "correct": {"0.2": "0ac1"}}}}}
    assert solved(runs, "ood", 0.2, k=1)[0] == pytest.approx([0.0, 10 / 12, 1.0, 1 / 12])
    np.testing.assert_allclose(solved(runs, "ood", 0.2, k=4)[0], pass_at_k([0, 10, 12, 1], 12, k=4))


def test_what_is_read_is_what_was_recorded():
    run = next(run for run in PLAN.runs("main") if run.method == "corpo" and run.threshold == 0.6 and run.seed == 2)
    made = record(PLAN, run, results_of()["rates"])
    runs = {2: STUDY.runs("min_margin", "corpo", 0.6)[2]}
    up, down = (sum(made["series"][name][16:24]) for name in ("up", "down"))
    assert log_r_count(STUDY, runs, "late") == pytest.approx([math.log((up + 0.5) / (down + 0.5))])
    assert reinforced_share(STUDY, runs, 0.6, "early") == [0.0]
    assert updates(runs) == pytest.approx([np.mean(made["series"]["update"])], rel=1e-3)


def test_pairs_have_the_same_seeds_in_the_same_order():
    ones, others = paired({3: {"a": 1}, 1: {"a": 2}, 9: {}}, {1: {"b": 1}, 3: {"b": 2}})
    assert (list(ones), list(others)) == ([1, 3], [1, 3])
    assert Study({"runs": []}).runs("brier", "grpo", None) == {}
