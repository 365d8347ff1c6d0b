"""The verifier's rewards, over every pair of scores and labels there is."""

from fractions import Fraction
from itertools import product

import pytest

from corpo_rl.errors import UsageError
from corpo_rl.records import VerifierItem
from corpo_rl.tasks.mini import MiniTask
from corpo_rl.tasks.pairs import PairsTask
from corpo_rl.tasks.verifier import REWARDS, Scores, brier_reward, min_margin_reward, verifier_measures, verifier_reward

EVERY = list(product((0, 1), (0, 1), range(11), range(11)))


def item_of(label_a, label_b):
    return VerifierItem("1", "1+1", "2", "3", label_a, label_b, domain="sums", split="train")


def right_side(score, label):
    """Points by which a score is on its label's side of 5."""
    return score - 5 if label else 5 - score


def test_brier_is_one_less_twice_the_mean_square_in_exact_arithmetic():
    for label_a, label_b, a, b in EVERY:
        squares = [(Fraction(a, 10) - label_a) ** 2, (Fraction(b, 10) - label_b) ** 2]
        expected = 1 - 2 * sum(squares) / 2
        assert brier_reward(item_of(label_a, label_b), Scores(a, b)) == float(expected)


def test_brier_goes_with_the_brier_measure():
    for label_a, label_b, a, b in EVERY:
        item, scores = item_of(label_a, label_b), Scores(a, b)
        assert brier_reward(item, scores) == pytest.approx(1 - 2 * verifier_measures(item, scores)["brier"])


def test_what_reaches_the_threshold_of_brier():
    # 4 points off each: 1 - (16 + 16) / 100 = 0.68. One at the fence and one 2 off: 1 - (25 + 4) / 100 = 0.71;
    # 3 off: 1 - (25 + 9) / 100 = 0.66. One on the wrong side, 6 off, and the other perfect: 1 - 36 / 100 = 0.64.
    for label_a, label_b, a, b in EVERY:
        sides = sorted((right_side(a, label_a), right_side(b, label_b)))
        both_right, fence_and_sure = sides[0] >= 1, sides[0] == 0 and sides[1] >= 3
        correct = brier_reward(item_of(label_a, label_b), Scores(a, b)) >= REWARDS["brier"].min_correct
        assert correct == (both_right or fence_and_sure), (label_a, label_b, a, b)


def test_what_reaches_the_threshold_of_min_margin():
    for label_a, label_b, a, b in EVERY:
        both_right = right_side(a, label_a) >= 1 and right_side(b, label_b) >= 1
        reward = min_margin_reward(item_of(label_a, label_b), Scores(a, b))
        assert (reward >= REWARDS["min_margin"].min_correct) == both_right


def test_brier_is_proper_and_the_minimum_of_margins_is_not():
    # a candidate that is right with chance p, the other surely wrong: the best score is 10 p, rounded to a point
    def best(reward, p):
        def expected(a):
            return p * reward(item_of(1, 0), Scores(a, 0)) + (1 - p) * reward(item_of(0, 0), Scores(a, 0))

        return max(range(11), key=expected)

    for tenths in range(11):
        assert best(brier_reward, Fraction(tenths, 10)) == tenths
    assert best(min_margin_reward, Fraction(6, 10)) == 10


@pytest.mark.parametrize("name", REWARDS)
def test_rewards_end_at_one_and_at_minus_one(name):
    for label_a, label_b in product((0, 1), (0, 1)):
        item = item_of(label_a, label_b)
        of = REWARDS[name].of
        values = {of(item, Scores(a, b)) for a, b in product(range(11), range(11))}
        assert (min(values), max(values)) == (-1.0, 1.0)
        assert of(item, Scores(10 * label_a, 10 * label_b)) == 1.0


def test_tasks_take_a_reward_and_its_threshold():
    item = item_of(1, 0)
    for make in (MiniTask, lambda **given: PairsTask([item], **given)):
        plain, margin, brier = make(), make(reward="min_margin"), make(reward="brier")
        assert (plain.min_correct, margin.min_correct, brier.min_correct) == (0.2, 0.2, 0.68)
        for a, b in product(range(11), range(11)):
            scores = Scores(a, b)
            assert plain.reward(item, scores) == margin.reward(item, scores) == min_margin_reward(item, scores)
            assert brier.reward(item, scores) == brier_reward(item, scores)
        brier.min_correct = 0.9
        assert make(reward="brier").min_correct == 0.68, "a threshold set on one task must not reach another"


def test_an_unknown_reward_is_named():
    for make in (
        verifier_reward,
        lambda name: MiniTask(reward=name),
        lambda name: PairsTask([item_of(1, 0)], reward=name),
    ):
        with pytest.raises(UsageError, match="reward: expected one of min_margin, brier, got 'log'"):
            make("log")
