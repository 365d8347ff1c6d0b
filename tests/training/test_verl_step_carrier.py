import json
import types

import numpy as np
import pytest

from corpo_rl.core.steps import NO_STEP
from corpo_rl.errors import DataError
from corpo_rl.training.step_spans import Steps, steps_of_tokens
from corpo_rl.training.verl_step_carrier import (
    NO_STEPS,
    packed_at_hand,
    packed_error,
    packed_steps,
    packed_turns,
    refuse_several_outputs,
    steps_at_hand,
    stored_steps,
    unpacked,
)

NAN = float("nan")


def mask(*flags):
    return np.array(flags, dtype=bool)


def read(packed, mask_T, unit="characters"):
    return unpacked(packed, mask_T, unit=unit, where="rollout 3")


@pytest.mark.parametrize("seed", range(30))
def test_what_is_packed_is_unpacked(seed):
    rng = np.random.default_rng(seed)
    n_tokens = int(rng.integers(1, 12))
    edges = np.sort(rng.integers(0, n_tokens + 1, size=2 * int(rng.integers(0, 5)))).tolist()
    rewards = [None if rng.random() < 0.3 else float(rng.integers(-3, 4)) / 3 for _ in edges[::2]]
    given = list(zip(edges[::2], edges[1::2], rewards, strict=True))
    steps = steps_of_tokens(n_tokens, given, where="")
    back = read(packed_steps(steps), np.ones(n_tokens, dtype=bool))
    assert back.step_of_token == (steps.step_of_token if given else [NO_STEP] * n_tokens)
    np.testing.assert_array_equal(
        back.rewards, steps.rewards
    )  # float for float: NaN where it was, and thirds are thirds


def test_a_step_of_no_token_keeps_its_place():
    steps = Steps([0, 0, 2], [1.0, 0.5, 0.0])
    assert json.loads(packed_steps(steps))["steps"] == [[0, 2, 1.0], [2, 2, 0.5], [2, 3, 0.0]]
    assert read(packed_steps(steps), mask(1, 1, 1)) == steps


def test_unknown_is_null_and_nothing_that_json_does_not_know():
    assert "NaN" not in packed_steps(Steps([0], [NAN])) + packed_turns([NAN, None], where="")
    assert np.isnan(read(packed_steps(Steps([0], [NAN])), mask(1)).rewards[0])


def test_turns_are_told_by_the_gaps_of_the_mask():
    # a turn of two tokens, a tool's answer, a turn of one, padding
    found = read(packed_turns([0.5, None], where=""), mask(1, 1, 0, 0, 1, 0), unit="turns")
    assert found.step_of_token == [0, 0, NO_STEP, NO_STEP, 1, NO_STEP]
    assert found.rewards[0] == 0.5
    assert np.isnan(found.rewards[1])


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        (None, r"rollout 3: no steps came with its reward; set reward\.reward_manager\.name=corpo_steps"),
        ("half a li", "rollout 3: expected steps as JSON"),
        (7.5, "rollout 3: expected steps as JSON"),
        ("[1, 2]", "rollout 3: expected steps as JSON"),
        ('{"steps": []}', "rollout 3: expected steps of the form"),
        ('{"n_tokens": 3, "steps": 1}', "rollout 3: expected steps of the form"),
        ('{"n_tokens": 3, "steps": [[0, 4, 1.0]]}', "rollout 3, step 0: expected a range within 0 and 3 tokens"),
        ('{"n_tokens": 3, "steps": [[0, 1, Infinity]]}', "rollout 3, step 0: expected a finite reward or None"),
        ('{"n_tokens": 2, "steps": [[0, 2, 1.0]]}', "are for a completion of 2 tokens, its response has 3 to 4"),
        ('{"n_tokens": 5, "steps": [[0, 2, 1.0]]}', "are for a completion of 5 tokens, its response has 3 to 4"),
        ('{"turns": [1.0]}', r"rollout 3: found rewards of turns; add \+algorithm\.corpo_step_unit=turns"),
        (packed_error(DataError("the reward function: oh")), "rollout 3: the reward function: oh"),
    ],
)
def test_what_is_not_steps_of_this_response_is_refused(packed, message):
    with pytest.raises(DataError, match=message):
        read(packed, mask(1, 0, 1, 0))


def test_another_number_of_turns_is_refused():
    with pytest.raises(DataError, match="rollout 3: expected a reward for each of 2 turns, got 1"):
        read('{"turns": [1.0]}', mask(1, 0, 1, 0), unit="turns")


def test_a_turn_of_infinite_reward_is_refused_where_it_is_packed():
    with pytest.raises(DataError, match="here, step 1: expected a finite reward or None, got inf"):
        packed_turns([1.0, float("inf")], where="here")


def test_steps_are_at_hand_for_a_batch_of_their_size_and_no_longer_than_the_call():
    assert packed_at_hand(2) == [None, None]
    with steps_at_hand(lambda: ["a", "b"]):
        assert packed_at_hand(2) == ["a", "b"]
        assert packed_at_hand(1) == [None]
        with steps_at_hand(lambda: ["c", "d"]):
            assert packed_at_hand(2) == ["c", "d"]
        with pytest.raises(ZeroDivisionError), steps_at_hand(lambda: ["c", "d"]):
            _ = 1 / 0
        assert packed_at_hand(2) == ["a", "b"]
    assert packed_at_hand(2) == [None, None]


def test_steps_are_not_fetched_for_an_estimator_that_asks_for_none():
    with steps_at_hand(lambda: pytest.fail("fetched")):
        pass


def test_stored_steps_are_found_with_their_rollouts_and_not_with_filling_rows():
    packed = '{"n_tokens": 1, "steps": [[0, 1, 1.0]]}'
    own = {"reward_extra_info": {"corpo_steps": packed}}
    fields = np.array([own, {"reward_extra_info": {"acc": 1}}, {}, None, own], dtype=object)
    batch = types.SimpleNamespace(keys=list("abcde"), partition_id="train", tags=[{}] * 4 + [{"is_padding": True}])

    def get(keys, partition_id, select_fields):
        assert (keys, partition_id, select_fields) == (batch.keys, "train", ["extra_fields"])
        return {"extra_fields": fields}

    assert stored_steps(batch, get) == [packed, None, None, None, NO_STEPS]
    stacked = [types.SimpleNamespace(data=one) for one in fields]  # as TransferQueue gives them, by its backend
    assert stored_steps(batch, lambda **_: {"extra_fields": stacked}) == [packed, None, None, None, NO_STEPS]
    assert stored_steps(batch, lambda **_: {}) == [None] * 4 + [NO_STEPS]


def test_several_outputs_of_a_rollout_are_refused():
    refuse_several_outputs(["a_0_0", "a_1_0"], 2)
    with pytest.raises(DataError, match="several outputs for one rollout, 3 for 2, and verl keeps the"):
        refuse_several_outputs(["a_0_0", "a_0_1", "a_1_0"], 2)
