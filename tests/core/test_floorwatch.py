import pytest

from corpo_rl.core.floorwatch import FloorWatch

FINE, ALL_OVER, NONE_OVER = (True, True), (False, True), (True, False)


def told(batches, *, window=2):
    """The first words of what is said after each (floored, exceeded) batch."""
    watch = FloorWatch(0.5, window=window)
    messages = [watch.see(floored=floored, exceeded=exceeded) for floored, exceeded in batches]
    return [" ".join(message.split()[:4]).rstrip(":") for message in messages]


INERT, PAST, SATURATED = "floor is inert: min_correct", "floor no longer binds", "floor is saturated: no"


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        ([FINE] * 4, ["", "", "", ""]),
        ([ALL_OVER] * 4, ["", INERT, "", ""]),  # said once, not every batch
        ([NONE_OVER] * 4, ["", SATURATED, "", ""]),
        ([FINE, ALL_OVER, ALL_OVER, ALL_OVER], ["", "", PAST, ""]),
        ([ALL_OVER, NONE_OVER], ["", ""]),  # neither state filled the window
        ([NONE_OVER, FINE, NONE_OVER, NONE_OVER], ["", "", "", SATURATED]),
        # A state that ends and comes back is told again, under its name of then.
        ([ALL_OVER, ALL_OVER, FINE, ALL_OVER, ALL_OVER], ["", INERT, "", "", PAST]),
        ([NONE_OVER, NONE_OVER, FINE, NONE_OVER, NONE_OVER], ["", SATURATED, "", "", SATURATED]),
        # Straight from one to the other.
        ([NONE_OVER, NONE_OVER, ALL_OVER, ALL_OVER], ["", SATURATED, "", PAST]),
    ],
)
def test_each_state_is_told_once_when_it_fills_the_window(batches, expected):
    assert told(batches) == expected


def test_every_group_at_the_floor_and_nothing_above_is_inert_first():
    # All rewards equal min_correct: the floor binds in no group, and nothing exceeds it.
    assert told([(False, False)] * 2) == ["", INERT]


@pytest.mark.parametrize("window", [1, 3, 10])
def test_nothing_is_told_before_the_window_is_full(window):
    assert told([ALL_OVER] * window, window=window) == [""] * (window - 1) + [INERT]


@pytest.mark.parametrize(
    ("batch", "parts"),
    [
        (ALL_OVER, ("min_correct 0.25 ", "in the last 1 batches", "plain group-mean baseline", "raise min_correct")),
        (NONE_OVER, ("min_correct 0.25 ", "in the last 1 batches", "only punished", "lower min_correct")),
    ],
)
def test_messages_say_what_was_seen_and_what_to_do(batch, parts):
    floored, exceeded = batch
    message = FloorWatch(0.25, window=1).see(floored=floored, exceeded=exceeded)
    assert all(part in message for part in parts), message
    assert "\n" not in message
