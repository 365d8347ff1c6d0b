"""The verifier's rewards: how well two scores from 0 to 10 fit two labels.

The rewards are ours. The paper (https://arxiv.org/abs/2511.04439) rates two candidates from 0 to 10 against binary
labels, but its own formula is not public to us.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from corpo_rl.errors import UsageError
from corpo_rl.records import VerifierItem

MIN_CORRECT = 0.2
"""Least `min_margin_reward` at which both scores are on the right side of 5, by a point or more."""

BRIER_MIN_CORRECT = 0.68
"""Least `brier_reward` at which both scores are on the right side of 5, by a point or more."""

UNPARSABLE_REWARD = -1.0


@dataclass(frozen=True)
class Scores:
    """The verifier's confidence that each candidate is correct, each an integer from 0 (surely wrong) to 10."""

    a: int
    b: int


def min_margin_reward(item: VerifierItem, scores: Scores) -> float:
    """Signed margin of the worse of the two scores, in [-1, 1].

        s_k = (2 y_k - 1) (v_k - 5) / 5          R = min(s_A, s_B)

    With the minimum, and not a mean, one good score cannot pay for a bad one: R >= 0.2 exactly when both scores are on
    the right side of 5. The hedge (5, 5) gets 0, a failure.

    Example:
        >>> item = VerifierItem("1", "1+1", "2", "3", label_a=1, label_b=0, domain="sums", split="train")
        >>> [min_margin_reward(item, scores) for scores in (Scores(9, 4), Scores(5, 5), Scores(9, 9))]
        [0.2, 0.0, -0.8]
    """
    return min(_margin(scores.a, item.label_a), _margin(scores.b, item.label_b))


def brier_reward(item: VerifierItem, scores: Scores) -> float:
    """Two times the Brier score of both scores, taken from 1: in [-1, 1].

        R = 1 - 2 * mean over k of (v_k / 10 - y_k)^2

    A proper scoring rule: over many items it is highest for the scores that equal the chance of being right, so a
    policy in doubt gains by saying so. What it thinks of three pairs of scores, written as points off the label:

        4 and 4: 0.68, the least reward of two scores on their right sides, and `BRIER_MIN_CORRECT`.
        5 and 2: 0.71. So correct at 0.68 are also one score at the fence with the other sure, 2 points off or less;
            nothing else is: a score on the wrong side leaves 0.64 at the most.
        5 and 5: 0.5, a failure, and yet more than half of what is to be had: unlike the minimum of the margins this
            reward pays the hedge well.

    Source:
        Brier, "Verification of forecasts expressed in terms of probability", Monthly Weather Review 78(1), 1950; the
        scale is ours.

    Example:
        >>> item = VerifierItem("1", "1+1", "2", "3", label_a=1, label_b=0, domain="sums", split="train")
        >>> [brier_reward(item, scores) for scores in (Scores(6, 4), Scores(8, 5), Scores(5, 5), Scores(0, 10))]
        [0.68, 0.71, 0.5, -1.0]
    """
    # in whole points, so that no rounding decides who reaches the threshold
    squares = (scores.a - 10 * item.label_a) ** 2 + (scores.b - 10 * item.label_b) ** 2
    return (100 - squares) / 100


@dataclass(frozen=True)
class VerifierReward:
    """A reward of the verifier, with the least of it that counts as correct."""

    of: Callable[[VerifierItem, Scores], float]
    """Reward of two scores, in [-1, 1]."""
    min_correct: float
    """Correct is `reward >= min_correct`."""


REWARDS: Mapping[str, VerifierReward] = MappingProxyType(
    {
        "min_margin": VerifierReward(min_margin_reward, MIN_CORRECT),
        "brier": VerifierReward(brier_reward, BRIER_MIN_CORRECT),
    }
)
"""Rewards by the names under which tasks take them. Both have `UNPARSABLE_REWARD` as their lowest."""


def verifier_reward(name: str) -> VerifierReward:
    """The reward of a name.

    Raises:
        UsageError: There is none of that name.

    Example:
        >>> verifier_reward("brier").min_correct
        0.68
    """
    if name not in REWARDS:
        raise UsageError(f"reward: expected one of {', '.join(REWARDS)}, got {name!r}")
    return REWARDS[name]


def verifier_measures(item: VerifierItem, scores: Scores) -> Mapping[str, float]:
    """Figures beside the reward: `brier`, `score_accuracy` and `hedge`.

    - brier: mean of (v_k / 10 - y_k)^2 over the two candidates, 0 best, 1 worst.
    - score_accuracy: share of the two scores on the right side of 5; a 5 is on neither side.
    - hedge: 1 when both scores are 5.
    """
    pairs = ((scores.a, item.label_a), (scores.b, item.label_b))
    return {
        "brier": sum((score / 10 - label) ** 2 for score, label in pairs) / 2,
        "score_accuracy": sum(_margin(score, label) > 0 for score, label in pairs) / 2,
        "hedge": float(scores.a == 5 and scores.b == 5),
    }


def _margin(score: int, label: int) -> float:
    return (2 * label - 1) * (score - 5) / 5
