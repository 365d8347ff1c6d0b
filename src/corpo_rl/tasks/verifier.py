"""The verifier's reward: how well two scores from 0 to 10 fit two labels.

The reward is ours. The paper (https://arxiv.org/abs/2511.04439) rates two candidates from 0 to 10 against binary
labels, but its own formula is not public to us.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from corpo_rl.records import VerifierItem

MIN_CORRECT = 0.2
"""Least reward at which both scores are on the right side of 5, by a point or more."""

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


def verifier_measures(item: VerifierItem, scores: Scores) -> Mapping[str, float]:
    """Figures beside the reward: `brier`, `score_accuracy` and `hedge`.

    brier: mean of (v_k / 10 - y_k)^2 over the two candidates, 0 best, 1 worst.
    score_accuracy: share of the two scores on the right side of 5; a 5 is on neither side.
    hedge: 1 when both scores are 5.
    """
    pairs = ((scores.a, item.label_a), (scores.b, item.label_b))
    return {
        "brier": sum((score / 10 - label) ** 2 for score, label in pairs) / 2,
        "score_accuracy": sum(_margin(score, label) > 0 for score, label in pairs) / 2,
        "hedge": float(scores.a == 5 and scores.b == 5),
    }


def _margin(score: int, label: int) -> float:
    return (2 * label - 1) * (score - 5) / 5
