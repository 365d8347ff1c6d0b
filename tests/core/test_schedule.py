import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpo_rl.core.schedule import Fixed, Ramp, ScheduleState, Target, parse_schedule
from corpo_rl.errors import DataError, UsageError


def followed(schedule, shares, state=None):
    """Threshold of each batch, and the state after the last."""
    state = state or ScheduleState()
    values = []
    for step, share in enumerate(shares):
        values.append(schedule.at(state, step=step).min_correct)
        state = schedule.after(state, correct_share=share)
    return values, state


def test_fixed_stays():
    values, state = followed(Fixed(0.2), [0.0, 1.0, np.nan])
    assert values == [0.2] * 3
    assert state == ScheduleState()
    assert Fixed(0.2).last == 0.2


def test_ramp_worked_by_hand():
    # -0.2 + 0.4 * t / 4, and 0.2 from step 4 on
    ramp = Ramp(-0.2, 0.2, steps=4)
    values, state = followed(ramp, [1.0] * 7)
    np.testing.assert_allclose(values, [-0.2, -0.1, 0.0, 0.1, 0.2, 0.2, 0.2], atol=1e-12)
    assert values[4:] == [0.2] * 3, "the end is the value given, to the last digit"
    assert state == ScheduleState()
    assert ramp.at(state, step=3).why == "step 3 of 4 from -0.2 to 0.2"
    assert ramp.at(state, step=9).why == "end of the ramp, reached at step 4"


def test_target_worked_by_hand():
    # window 2: level 1 sees 0.1, 0.4 (mean 0.25), then 0.5: 0.25 + (0.5 - 0.25) / 2 = 0.375 >= 0.3 -> level 2,
    # level 2 sees 0.9 (one batch is not enough), 0.0: mean 0.45 -> level 3, where nothing moves any more
    schedule = Target(0.3, (-0.6, -0.2, 0.2), window=2)
    values, state = followed(schedule, [0.1, 0.4, 0.5, 0.9, 0.0, 1.0, 1.0, 1.0])
    assert values == [-0.6, -0.6, -0.6, -0.2, -0.2, 0.2, 0.2, 0.2]
    assert state == ScheduleState(level=2)
    assert schedule.at(state, step=8).why == "level 3 of 3, the last"

    _, state = followed(schedule, [0.1, 0.4])
    assert state == ScheduleState(level=0, n_batches=2, share=0.25)
    why = "level 1 of 3: share of correct 0.250 over 2 batches, next at 0.3 over 2 or more"
    assert schedule.at(state, step=2).why == why
    why = "level 1 of 3: no batch seen, next at 0.3 over 2 or more"
    assert schedule.at(ScheduleState(), step=0).why == why


def test_exactly_the_target_moves_it():
    for share in (0.3, 0.7, 0.1):  # the mean of nine such shares rounds
        schedule = Target(share, (0.0, 1.0), window=9)
        values, _ = followed(schedule, [share] * 10)
        assert values == [0.0] * 9 + [1.0]
        assert followed(schedule, [share - 1e-3] * 100)[0] == [0.0] * 100


def loop_target(share, levels, window, shares):
    """The level of each batch, from the whole history of its level."""
    values, history, place = [], [], 0
    for one in shares:
        values.append(levels[place])
        if np.isnan(one) or place == len(levels) - 1:
            continue
        history.append(one)
        smoothed = float(np.mean(history[:window]))
        for later in history[window:]:
            smoothed = (1 - 1 / window) * smoothed + later / window
        if len(history) >= window and smoothed >= share - 1e-9:
            place, history = place + 1, []
    return values


def test_target_plain_loop():
    rng = np.random.default_rng(0)
    n_moves = 0
    for _ in range(200):
        share, window = rng.uniform(0.05, 0.9), int(rng.integers(1, 8))
        levels = tuple(np.sort(rng.choice(np.arange(-10, 11), size=rng.integers(2, 6), replace=False)) / 10)
        shares = np.clip(rng.normal(share, 0.2, 60), 0, 1)
        shares[rng.random(60) < 0.1] = np.nan
        values, _ = followed(Target(share, levels, window), shares)
        assert values == loop_target(share, levels, window, shares)
        n_moves += len(set(values)) - 1
    assert n_moves > 300


@st.composite
def schedules(draw):
    number = st.floats(-1e6, 1e6)
    kind = draw(st.sampled_from(["fixed", "ramp", "target"]))
    if kind == "fixed":
        return Fixed(draw(number))
    if kind == "ramp":
        start, end = sorted(draw(st.lists(number, min_size=2, max_size=2, unique=True)))
        return Ramp(start, end, draw(st.integers(1, 40)))
    levels = sorted(draw(st.lists(number, min_size=2, max_size=5, unique=True)))
    return Target(draw(st.floats(0.01, 1)), tuple(levels), draw(st.integers(1, 5)))


SHARES = st.lists(st.one_of(st.floats(0, 1), st.just(float("nan"))), max_size=60)


@settings(max_examples=300, deadline=None)
@given(schedules(), SHARES)
def test_it_never_falls_and_never_passes_its_last_value(schedule, shares):
    values, _ = followed(schedule, shares)
    assert values == sorted(values)
    assert all(value <= schedule.last for value in values)
    if isinstance(schedule, Target):
        assert set(values) <= set(schedule.levels)


@settings(max_examples=100, deadline=None)
@given(schedules(), SHARES, st.integers(0, 60))
def test_a_run_resumed_goes_on_as_if_it_had_not_stopped(schedule, shares, stop):
    whole, end = followed(schedule, shares)
    _, kept = followed(schedule, shares[:stop])
    state = ScheduleState.restored(json.loads(json.dumps(kept._asdict())))
    for step in range(min(stop, len(shares)), len(shares)):
        assert schedule.at(state, step=step).min_correct == whole[step]
        state = schedule.after(state, correct_share=shares[step])
    assert state == end


@pytest.mark.parametrize("schedule", [Fixed(0.2), Ramp(0.0, 1.0, 5), Target(0.5, (0.0, 1.0), 2)])
def test_a_batch_without_a_scorable_rollout_is_no_news(schedule):
    _, state = followed(schedule, [0.4])
    assert schedule.after(state, correct_share=float("nan")) == state


@pytest.mark.parametrize(
    ("text", "schedule"),
    [
        (0.2, Fixed(0.2)),
        (1, Fixed(1.0)),
        ("0.2", Fixed(0.2)),
        (" -1e-1 ", Fixed(-0.1)),
        ("ramp:-0.2:0.2:50", Ramp(-0.2, 0.2, 50)),
        ("ramp: 0 : 1 : 5", Ramp(0.0, 1.0, 5)),
        ("target:0.3:-0.6,-0.2,0.2", Target(0.3, (-0.6, -0.2, 0.2), 10)),
        ("target:0.3:-0.6, 0.2:25", Target(0.3, (-0.6, 0.2), 25)),
    ],
)
def test_texts(text, schedule):
    assert parse_schedule(text) == schedule


@pytest.mark.parametrize(
    "text",
    [
        "", "high", "0.2:0.3", "ramp", "ramp:0:1", "ramp:0:1:2.5", "ramp:0:1:2:3", "ramp:0:x:2", "target:0.3",
        "target:0.3:", "target:0.3:0,1:", "target:0.3:0,1:2:3", "target:0.3:0,,1", "target:x:0,1", "step:0:1:2",
        "1_000", True, None, [0.2],
    ],
)  # fmt: skip
def test_what_is_no_schedule_is_shown_the_forms(text):
    with pytest.raises(UsageError, match=r'^min_correct: expected a number, "ramp:.*" or "target:.*", got ') as caught:
        parse_schedule(text)
    assert repr(text) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nan", "expected a finite number for the value, got nan"),
        (float("inf"), "expected a finite number for the value, got inf"),
        ("ramp:-inf:1:2", "expected a finite number for FROM of the ramp, got -inf"),
        ("ramp:0:nan:2", "expected a finite number for TO of the ramp, got nan"),
        ("ramp:0.2:-0.2:50", "expected a ramp that rises, got 0.2 to -0.2; .* stricter, never laxer"),
        ("ramp:0.2:0.2:50", "expected a ramp that rises, got 0.2 to 0.2"),
        ("ramp:0:1:0", "expected at least 1 step for the ramp, got 0"),
        ("target:0:0,1", "expected a target share over 0 and up to 1, got 0"),
        ("target:30:0,1", "expected a target share over 0 and up to 1, got 30"),
        ("target:nan:0,1", "expected a target share over 0 and up to 1, got nan"),
        ("target:0.3:0.2", "expected two levels or more for the target, each over the one before, got 0.2"),
        ("target:0.3:0.2,-0.2", "expected two levels or more .*, got 0.2, -0.2"),
        ("target:0.3:0,0,1", "expected two levels or more .*, got 0, 0, 1"),
        ("target:0.3:0,inf", "expected a finite number for a level of the target, got inf"),
        ("target:0.3:0,1:0", "expected at least 1 batch for the target, got 0"),
    ],
)
def test_nonsense_is_refused(text, message):
    with pytest.raises(UsageError, match=f"^min_correct: {message}") as caught:
        parse_schedule(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("schedule", [Fixed(0.2), Ramp(0.0, 1.0, 5), Target(0.5, (0.0, 1.0))])
def test_bad_steps_and_shares_are_refused(schedule):
    with pytest.raises(DataError, match="step: expected 0 or more, got -1"):
        schedule.at(ScheduleState(), step=-1)
    for share in (-0.1, 1.1, float("inf")):
        with pytest.raises(DataError, match=r"correct_share: expected a share from 0 to 1, .*, got"):
            schedule.after(ScheduleState(), correct_share=share)


@pytest.mark.parametrize(
    "kept",
    [
        {},
        {"level": 1, "n_batches": 0},
        {"level": -1, "n_batches": 0, "share": None},
        {"level": 1.0, "n_batches": 0, "share": None},
        {"level": 1, "n_batches": 0, "share": 1.5},
        {"level": 1, "n_batches": 0, "share": "0.5"},
        {"level": 1, "n_batches": 0, "share": None, "more": 1},
    ],
)
def test_a_state_that_is_none_is_refused(kept):
    with pytest.raises(DataError, match=r"schedule state: expected level and n_batches as counts, .*, got"):
        ScheduleState.restored(kept)


def test_the_state_of_a_longer_schedule_is_refused():
    state = ScheduleState(level=2)
    for use in (lambda one: one.at(state, step=0), lambda one: one.after(state, correct_share=0.5)):
        with pytest.raises(DataError, match="expected one of 2 levels, got level 3; the run was begun with another"):
            use(Target(0.3, (0.0, 1.0)))
