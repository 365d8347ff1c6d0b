"""From packed steps to advantages of tokens, against plain loops; within verl itself in tests/verl."""

import json

import numpy as np
import pytest

from corpo_rl.core.steps import NO_STEP
from corpo_rl.errors import DataError
from corpo_rl.training.verl_step_batch import StepFloor, StepTable, estimate_steps
from corpo_rl.training.verl_step_carrier import NO_STEPS
from corpo_rl.training.verl_step_settings import FORMS, StepSettings

NAN = float("nan")


def settings(*thresholds, form="both", weight=1.0, discount=0.0, unit="characters"):
    return StepSettings(0.5, thresholds or (0.5,), form, weight, discount, unit)


def packed(n_tokens, *steps):
    return json.dumps({"n_tokens": n_tokens, "steps": steps})


def ragged(seed):
    """Packed steps, masks, outcome advantages and groups of up to 12 rollouts of up to 10 tokens and 4 steps."""
    rng = np.random.default_rng(seed)
    n, width = int(rng.integers(1, 13)), int(rng.integers(1, 11))
    group_N = rng.integers(0, 3, size=n)
    mask_NT = np.zeros((n, width), dtype=bool)
    rows = []
    for row in range(n):
        length = int(rng.integers(1, width + 1))
        mask_NT[row, :length] = rng.random(length) < 0.8  # tools wrote the rest
        edges = np.sort(rng.choice(length + 1, size=2 * int(rng.integers(0, 5)))).tolist()
        rewards = [None if rng.random() < 0.2 else float(rng.integers(0, 11)) / 10 for _ in edges[::2]]
        rows.append((length, list(zip(edges[::2], edges[1::2], rewards, strict=True))))
    return rows, mask_NT, rng.integers(-4, 5, size=n) / 4, group_N


def by_plain_loop(rows, mask_NT, outcome_N, group_N, *, thresholds, form, weight, discount):
    """The rule of docs/steps.md, written out token by token."""

    def worth(row, number):
        """Reward to go of a step, None where any of it is unknown."""
        later = [reward for _, _, reward in rows[row][1][number:]]
        if discount == 0.0:
            return later[0]
        return None if None in later else sum(reward * discount**place for place, reward in enumerate(later))

    expected = np.zeros(mask_NT.shape)
    for row, (_, steps) in enumerate(rows):
        outcome = outcome_N[row] * {"both": weight, "steps": 0.0, "outcome": 1.0}[form]
        for token in np.flatnonzero(mask_NT[row]):
            expected[row, token] = outcome
            for number, (start, end, _) in enumerate(steps):
                if form == "outcome" or not start <= token < end or worth(row, number) is None:
                    continue
                threshold = thresholds[0] if len(thresholds) == 1 else thresholds[number]
                peers = [
                    worth(other, number)
                    for other, (_, theirs) in enumerate(rows)
                    if group_N[other] == group_N[row] and len(theirs) > number and worth(other, number) is not None
                ]
                own = worth(row, number) - max(threshold, sum(peers) / len(peers))
                failed = worth(row, number) < threshold
                expected[row, token] = own + (min(outcome, 0.0) if failed else outcome)
    return expected


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(25))
def test_equal_to_a_plain_loop_on_ragged_batches(form, seed):
    rows, mask_NT, outcome_N, group_N = ragged(seed)
    rule = {"form": form, "weight": (0.5, 1.0)[seed % 2], "discount": (0.0, 0.5)[seed % 2]}
    thresholds = ((0.5,), (0.5, 0.3, 0.8, 0.45))[seed // 2 % 2]
    found = estimate_steps(
        [packed(length, *steps) for length, steps in rows], outcome_N, group_N, mask_NT, settings(*thresholds, **rule)
    )
    expected = by_plain_loop(rows, mask_NT, outcome_N, group_N, thresholds=thresholds, **rule)
    np.testing.assert_allclose(found.advantages_NT, expected, atol=1e-12)
    assert found.advantages_NT.shape == mask_NT.shape


def test_the_batches_hold_what_could_go_wrong():
    rows = [row for seed in range(25) for row in ragged(seed)[0]]
    steps = [step for _, steps in rows for step in steps]
    assert any(reward is None for *_, reward in steps)
    assert any(reward == 0.0 for *_, reward in steps), "a reward of 0 is a reward"
    assert any(not steps for _, steps in rows)
    assert any(start == end for start, end, _ in steps)
    assert any(not mask_NT.any(axis=1).all() for _, mask_NT, *_ in map(ragged, range(25)))


def test_worked_by_hand():
    # two rollouts of a prompt, threshold 0.5. Step 0: rewards 0 and 1, mean 0.5, baseline 0.5. Step 1: 0.75 alone, the
    # baseline is itself. Rollout 0: its failed step -0.5, and min(0.25, 0); its right one 0 + 0.25; a token of no step
    # 0.25. Rollout 1: 0.5 - 0.25; what a tool wrote 0.
    found = estimate_steps(
        [packed(4, (0, 2, 0.0), (2, 3, 0.75)), packed(3, (0, 3, 1.0))],
        np.array([0.25, -0.25]),
        np.array([0, 0]),
        np.array([[1, 1, 1, 1], [1, 0, 1, 0]], dtype=bool),
        settings(),
    )
    assert found.advantages_NT.tolist() == [[-0.5, -0.5, 0.25, 0.25], [0.25, 0.0, 0.25, 0.0]]
    assert found.figures == pytest.approx(
        {
            "steps/reinforced_failure_share": 0.0,
            "steps/reinforced_failure_share_outcome": 1.0,  # the one failed step, in a rollout of +0.25
            "steps/correct_share": 2 / 3,
            "steps/correct_share/0": 0.5,
            "steps/correct_share/1": 1.0,
            "steps/per_rollout": 1.5,
            "steps/without": 0.0,
            "steps/unscorable": 0.0,
            "steps/token_share": 5 / 6,  # of four tokens and of two
        }
    )


def test_zero_is_a_reward_and_unknown_is_none():
    def advantages(reward):
        rows = [packed(1, (0, 1, reward)), packed(1, (0, 1, 1.0)), packed(1, (0, 1, 1.0))]
        found = estimate_steps(rows, np.zeros(3), np.zeros(3, int), np.ones((3, 1), bool), settings())
        return found.advantages_NT[:, 0].tolist(), found.figures["steps/unscorable"]

    # the mean of 0, 1 and 1 is 2/3; without the first it is 1
    assert advantages(0.0)[0] == pytest.approx([-2 / 3, 1 / 3, 1 / 3])
    assert advantages(0.0)[1] == 0
    assert advantages(None) == ([0.0, 0.0, 0.0], 1)


def test_rows_without_a_token_are_in_no_figure():
    rows = [packed(2, (0, 2, 1.0)), NO_STEPS, packed(2, (0, 2, 0.0))]
    mask_NT = np.array([[1, 1], [0, 0], [0, 0]], dtype=bool)  # filled up with, and rejected by verl
    found = estimate_steps(rows, np.zeros(3), np.array([0, 1, 0]), mask_NT, settings())
    assert found.advantages_NT[0].tolist() == [0.5, 0.5], "what is rejected still counts in its group: 1 - (1 + 0) / 2"
    assert found.figures["steps/per_rollout"] == 1.0
    assert found.figures["steps/without"] == 0.0
    assert found.figures["steps/correct_share"] == 1.0


def test_nothing_at_all():
    found = estimate_steps([], np.zeros(0), np.zeros(0, int), np.zeros((0, 3), bool), settings())
    assert found.advantages_NT.shape == (0, 3)
    assert np.isnan(found.figures["steps/token_share"])
    found = estimate_steps([NO_STEPS], np.array([0.5]), np.array([0]), np.ones((1, 2), bool), settings())
    assert found.advantages_NT.tolist() == [[0.5, 0.5]]
    assert found.figures["steps/without"] == 1.0
    assert found.floors == []


def test_floors_by_threshold():
    rows = [packed(3, (0, 1, 0.0), (1, 2, 1.0), (2, 3, None)), packed(3, (0, 1, 0.25), (1, 2, 0.5), (2, 3, None))]
    given = rows, np.zeros(2), np.zeros(2, int), np.ones((2, 3), bool)
    assert estimate_steps(*given, settings(0.5)).floors == [StepFloor("steps", 0.5, floored=True, exceeded=True)]
    assert estimate_steps(*given, settings(0.5, 0.5, 0.5)).floors == [
        StepFloor("step 0", 0.5, floored=True, exceeded=False),
        StepFloor("step 1", 0.5, floored=False, exceeded=True),
    ]
    assert estimate_steps(*given, settings(0.5, form="outcome")).floors == []


def test_fewer_thresholds_than_steps_are_refused():
    rows = [packed(3, (0, 1, 0.0), (1, 2, 1.0), (2, 3, 1.0))]
    given = rows, np.zeros(1), np.zeros(1, int), np.ones((1, 3), bool)
    for form in FORMS:
        with pytest.raises(DataError, match="a rollout has 3 steps, got thresholds for 2; give one for all"):
            estimate_steps(*given, settings(0.5, 0.5, form=form))


def test_an_error_names_the_rollout():
    with pytest.raises(DataError, match="corpo_steps, rollout 1: no steps came with its reward"):
        StepTable.of([NO_STEPS, None], np.ones((2, 1), bool), unit="characters", discount=0.0)


def test_turns_have_the_tokens_between_what_others_wrote():
    mask_NT = np.array([[1, 1, 0, 1], [1, 0, 0, 0]], dtype=bool)
    rows = ['{"turns": [0.0, 1.0]}', '{"turns": [1.0]}']
    table = StepTable.of(rows, mask_NT, unit="turns", discount=0.0)
    assert table.step_NT.tolist() == [[0, 0, NO_STEP, 1], [2, NO_STEP, NO_STEP, NO_STEP]]
    found = estimate_steps(rows, np.zeros(2), np.zeros(2, int), mask_NT, settings(form="steps", unit="turns"))
    assert found.advantages_NT.tolist() == [[-0.5, -0.5, 0.0, 0.0], [0.5, 0.0, 0.0, 0.0]]
