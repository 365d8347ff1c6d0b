import math

import pytest

from corpo_rl.errors import DataError, ParseFailure, Unscorable
from corpo_rl.records import Graded
from corpo_rl.tasks.base import grade, grade_all
from corpo_rl.tasks.mini import MiniTask


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


class Unreachable(Fixed):
    """A task whose server does not answer for "down"."""

    def reward(self, item, answer):
        if answer == "down":
            raise Unscorable("no_answer")
        return self._reward


def test_what_nothing_is_known_of_is_no_failure_with_a_reward():
    one = grade(Unreachable(0.5), None, "down")
    assert math.isnan(one.reward)
    assert (one.correct, one.failure, one.measures, one.scorable) == (False, "no_answer", {}, False)
    assert grade(Unreachable(0.5), None, "up").scorable
    assert grade(Unreachable(0.5), None, "").scorable, "an answer that does not parse has a reward"


def test_a_batch_is_graded_as_each_by_itself():
    task = MiniTask()
    items = [*task.items("in_domain")[:3], task.items("ood")[0]] * 2
    completions = ["83;9,1", "", "83;11,1", "1;5,5", "x", "83;1,9", "83;0,10", "83;"]
    expected = [grade(task, item, completion) for item, completion in zip(items, completions, strict=True)]
    assert grade_all(task, items, completions) == expected
    assert len({one.reward for one in expected}) > 3
    assert grade_all(task, [], []) == []


class Batched(Fixed):
    """Grades by the batch, as it was told."""

    def __init__(self, *graded):
        super().__init__(0.0)
        self._graded = graded
        self.asked = []

    def grade_many(self, items, completions):
        self.asked.append((list(items), list(completions)))
        return iter(self._graded)


def test_a_task_that_grades_batches_is_asked_once():
    known, unknown = Graded(0.5, correct=True, failure=None), Graded(math.nan, correct=False, failure="no_answer")
    task = Batched(known, unknown)
    assert grade_all(task, [1, 1], ["a", "b"]) == [known, unknown]
    assert task.asked == [([1, 1], ["a", "b"])]


@pytest.mark.parametrize(
    ("graded", "message"),
    [
        ([], "expected 1 grades from grade_many, got 0"),
        ([Graded(math.nan, correct=False, failure=None)], "or NaN with the reason as failure, got nan for .* 'abc'"),
        ([Graded(math.nan, correct=True, failure="why")], "got nan for the completion 'abc'"),
        ([Graded(math.inf, correct=True, failure="why")], "got inf"),
        ([Graded(None, correct=False, failure="why")], "got None"),
    ],
)
def test_grades_of_a_batch_that_are_none_are_refused(graded, message):
    with pytest.raises(DataError, match=f"task fixed: .*{message}"):
        grade_all(Batched(*graded), [None], ["abc"])


@pytest.mark.parametrize("task", [MiniTask(), Batched()])
def test_as_many_completions_as_items(task):
    with pytest.raises(DataError, match="expected a completion of each item, got 2 of 1"):
        grade_all(task, [None], ["a", "b"])
