import json
import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpo_rl.core.dynamics import group_class_counts
from corpo_rl.curation.rates import (
    ABOVE,
    BELOW,
    CLASSES,
    IN,
    REASONS,
    TOO_FEW,
    PromptRates,
    chosen_groups,
    judge_band,
    prompt_rates,
    wilson_intervals,
)
from corpo_rl.errors import DataError, UsageError
from corpo_rl.rollouts.options import ReadOptions
from corpo_rl.rollouts.read import read_rollouts

FLOOR = 0.7


def write_log(folder, rows, name="run.jsonl"):
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def random_rows(seed, *, n_prompts=6, n_steps=5, group_size=4, missing=0.1):
    """Two groups a step of prompts that come back, with rewards in tenths and some without one."""
    rng = np.random.default_rng(seed)
    rows = []
    for step in range(n_steps):
        for prompt in rng.choice(n_prompts, size=2, replace=False).tolist():
            top = 1 + prompt * 2
            for _ in range(group_size):
                reward = None if rng.random() < missing else int(rng.integers(0, top + 1)) / 10
                rows.append({"step": step, "prompt_id": f"p{prompt}", "reward": reward})
    return [rows[place] for place in rng.permutation(len(rows))]


def by_loop(rows, *, first=-math.inf, last=math.inf, min_correct=FLOOR):
    """Figures of each prompt by plain counting, in order of first appearance in the file."""
    found = {}
    for row in rows:
        one = found.setdefault(row["prompt_id"], {"n": 0, "scorable": 0, "correct": 0, "total": 0.0, "groups": {}})
        if not first <= row["step"] <= last:
            continue
        one["n"] += 1
        one["groups"].setdefault(row["step"], []).append(math.nan if row["reward"] is None else row["reward"])
        if row["reward"] is not None:
            one["scorable"] += 1
            one["correct"] += row["reward"] >= min_correct
            one["total"] += row["reward"]
    return found


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("options", "span"), [({}, (0, 99)), ({"last_steps": 2}, (3, 4)), ({"steps": (1, 2)}, (1, 2))])
def test_figures_are_those_of_a_plain_loop(tmp_path, seed, options, span):
    rows = random_rows(seed)
    log = read_rollouts([write_log(tmp_path, rows)])
    rates = prompt_rates(log, min_correct=FLOOR, chosen_G=chosen_groups(log, **options))
    expected = by_loop(rows, first=span[0], last=span[1])
    assert len(rates.rate_P) == len(expected)
    for place, one in enumerate(expected.values()):
        assert rates.rollouts_P[place] == one["n"]
        assert rates.scorable_P[place] == one["scorable"]
        assert rates.correct_P[place] == one["correct"]
        if one["scorable"]:
            assert rates.rate_P[place] == one["correct"] / one["scorable"]
            assert rates.reward_P[place] == pytest.approx(one["total"] / one["scorable"])
        else:
            assert math.isnan(rates.rate_P[place])
            assert math.isnan(rates.reward_P[place])
            assert math.isnan(rates.low_P[place])
        rewards = [reward for group in one["groups"].values() for reward in group]
        groups = [step for step, group in one["groups"].items() for _ in group]
        counts = group_class_counts(rewards, groups, min_correct=FLOOR)
        assert dict(zip(CLASSES, rates.classes_PC[place].tolist(), strict=True)) == counts


def test_the_first_row_of_a_prompt_is_in_the_log_though_its_step_is_not_looked_at(tmp_path):
    rows = [{"step": step, "prompt_id": p, "reward": 0.0} for step, p in [(0, "a"), (0, "b"), (1, "b"), (1, "c")]]
    log = read_rollouts([write_log(tmp_path, rows)])
    rates = prompt_rates(log, min_correct=FLOOR, chosen_G=chosen_groups(log, last_steps=1))
    assert rates.first_row_P.tolist() == [0, 1, 3]
    assert rates.rollouts_P.tolist() == [0, 1, 1]


def test_labels_say_what_is_correct_where_no_threshold_does(tmp_path):
    rows = [
        {"prompt_id": "a", "reward": 0.1, "label": 1},
        {"prompt_id": "a", "reward": 0.9, "label": 0},
        {"prompt_id": "a", "reward": 0.5, "label": None},
        {"prompt_id": "a", "reward": None, "label": 1},
    ]
    log = read_rollouts([write_log(tmp_path, rows)], ReadOptions(correct_column="label"))
    by_label, by_reward = prompt_rates(log), prompt_rates(log, min_correct=0.5)
    assert (by_label.rollouts_P[0], by_label.scorable_P[0], by_label.correct_P[0]) == (4, 2, 1)
    assert (by_reward.scorable_P[0], by_reward.correct_P[0]) == (3, 2)


def test_a_reward_of_the_threshold_is_correct_though_it_went_through_float32(tmp_path):
    rewards = [float(np.float32(0.7)), float(np.float32(0.1)), float(np.float32(5 / 6))]
    rows = [{"prompt_id": "a", "reward": reward} for reward in rewards]
    log = read_rollouts([write_log(tmp_path, rows)])
    assert log.float32
    assert max(rewards) < 5 / 6, "float32 rounds it down"
    assert prompt_rates(log, min_correct=0.7).correct_P.tolist() == [2]
    assert prompt_rates(log, min_correct=5 / 6).correct_P.tolist() == [1]


@settings(deadline=None)
@given(st.integers(1, 300), st.floats(0, 1), st.sampled_from([0.5, 0.9, 0.95]))
def test_a_wilson_interval_ends_where_the_normal_test_just_accepts(n, share, level):
    """Its ends are the p with |c/n - p| = z sqrt(p (1 - p) / n), 0 or 1 at the edges."""
    c = round(share * n)
    low, high = (ends[0] for ends in wilson_intervals([c], [n], level=level))
    z = NormalDist().inv_cdf((1 + level) / 2)
    assert 0 <= low <= c / n <= high <= 1
    for end in (low, high):
        assert abs(c / n - end) == pytest.approx(z * math.sqrt(end * (1 - end) / n), abs=1e-9)
    assert (low == 0) == (c == 0)
    assert (high == 1) == (c == n)


def test_no_trials_have_no_interval_and_impossible_counts_none_either():
    low, high = wilson_intervals([0, 1], [0, 2])
    assert np.isnan([low[0], high[0]]).all()
    assert not np.isnan([low[1], high[1]]).any()
    with pytest.raises(DataError, match="correct: expected counts from 0 to those of scorable"):
        wilson_intervals([3], [2])
    with pytest.raises(UsageError, match="level: expected a number between 0 and 1, got 1"):
        wilson_intervals([1], [2], level=1)


def rates_of(pairs):
    """Figures of prompts with these (correct, scorable) counts."""
    correct_P, scorable_P = (np.array(column, dtype=np.intp) for column in zip(*pairs, strict=True))
    low_P, high_P = wilson_intervals(correct_P, scorable_P)
    with np.errstate(invalid="ignore"):
        rate_P = correct_P / scorable_P
    n = len(pairs)
    return PromptRates(
        scorable_P, scorable_P, correct_P, rate_P, low_P, high_P, np.zeros(n), np.zeros((n, 6), int), np.arange(n)
    )


@pytest.mark.parametrize("keep", [True, False])
def test_a_band_by_hand(keep):
    # 0/8, 2/10 at the low end, 5/10, 8/10 at the high end, 9/10, 3 of 7: too few, none at all, 50 of 100
    rates = rates_of([(0, 8), (2, 10), (5, 10), (8, 10), (9, 10), (3, 7), (0, 0), (50, 100)])
    found = judge_band(rates, band=(0.2, 0.8), min_rollouts=8, keep_uncertain=keep)
    expected = [BELOW, IN, IN, IN, ABOVE, TOO_FEW, TOO_FEW, IN]
    assert [REASONS[number] for number in found.reason_P] == expected
    assert found.kept_P.tolist() == [False, True, True, True, False, keep, keep, True]
    # 95 % of 0/8 reach to 0.32, of 5/10 from 0.24 to 0.76, of 9/10 from 0.60, of 50/100 from 0.40 to 0.60
    assert found.settled_P.tolist() == [False, False, True, False, False, False, False, True]


def test_what_is_surely_outside_a_band():
    found = judge_band(rates_of([(0, 40), (40, 40)]), band=(0.2, 0.8), min_rollouts=8, keep_uncertain=True)
    assert found.settled_P.tolist() == [True, True]


@pytest.mark.parametrize("band", [(0.8, 0.2), (-0.1, 0.5), (0.5, 1.1), (math.nan, 1.0)])
def test_a_band_is_within_0_and_1(band):
    with pytest.raises(UsageError, match="--band: expected LOW,HIGH with 0 <= LOW <= HIGH <= 1"):
        judge_band(rates_of([(1, 2)]), band=band, min_rollouts=8, keep_uncertain=True)


def test_what_cannot_be_told_is_refused(tmp_path):
    rows = [{"group_id": "g", "reward": 0.5}, {"group_id": "g", "reward": 1.0}]
    log = read_rollouts([write_log(tmp_path, rows)])
    with pytest.raises(DataError, match=r"run\.jsonl: the log does not tell its prompts"):
        prompt_rates(log, min_correct=0.5)
    with pytest.raises(UsageError, match="nothing says which rollouts are correct; pass --min-correct"):
        prompt_rates(log)
    with pytest.raises(UsageError, match="min_correct: expected a finite number"):
        prompt_rates(log, min_correct=math.inf)
    with pytest.raises(UsageError, match="--min-rollouts: expected at least 1, got 0"):
        judge_band(rates_of([(1, 2)]), band=(0, 1), min_rollouts=0, keep_uncertain=True)
    with pytest.raises(DataError, match="the log has no training steps to choose from; name them with --step-column"):
        chosen_groups(log, last_steps=3)
    stepped = read_rollouts([write_log(tmp_path, random_rows(0), "stepped.jsonl")])
    with pytest.raises(DataError, match="no group of steps 7 to 9; the log has 0 to 4"):
        chosen_groups(stepped, steps=(7, 9))
