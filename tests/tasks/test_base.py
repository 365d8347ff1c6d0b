import pytest

from corpo_rl.errors import DataError, ParseFailure
from corpo_rl.records import Graded
from corpo_rl.tasks.base import grade


class Fixed:
    """Gives every completion the reward it was made with, but cannot parse an empty one."""

    name = "fixed"
    min_correct = 0.5
    unparsable_reward = -1.0

    def __init__(self, reward):
        self._reward = reward

    def parse(self, completion):
        if not completion:
            raise ParseFailure("empty")
        return completion

    def reward(self, item, answer):
        return self._reward

    def measures(self, item, answer):
        return {"length": len(answer)}


def test_the_least_correct_reward_is_correct():
    assert grade(Fixed(0.5), None, "abc") == Graded(0.5, correct=True, failure=None, measures={"length": 3})
    assert not grade(Fixed(0.4999), None, "abc").correct


def test_what_does_not_parse_has_a_kind_and_no_measures():
    assert grade(Fixed(0.5), None, "") == Graded(-1.0, correct=False, failure="empty")


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), None, "1"])
def test_a_reward_that_is_no_number_is_refused_not_counted_as_failure(reward):
    with pytest.raises(
        DataError, match=r"task fixed: expected a finite number as reward, got .* 'abc'; raise ParseFai"
    ):
        grade(Fixed(reward), None, "abc")
