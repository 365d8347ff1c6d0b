"""Frozen records passed between the parts."""

from collections.abc import Mapping
from dataclasses import dataclass, field

TRAIN = "train"
"""Split the policy is trained on: pairs with one right and one wrong answer."""

EVALUATION_SPLITS = ("in_domain", "ood", "other_domain")
"""Splits a policy is judged on, in report order: one right and one wrong answer in the training domain; both right or
both wrong in the training domain; one right and one wrong in another domain."""


@dataclass(frozen=True)
class VerifierItem:
    """A problem and two candidate answers with their labels: what a verifier is asked about."""

    item_id: str
    """Unique within its split."""
    problem: str
    answer_a: str
    answer_b: str
    label_a: int
    """1 if answer A is correct, else 0."""
    label_b: int
    """1 if answer B is correct, else 0."""
    domain: str
    """Kind of problem, e.g. "sums" or "gsm8k"."""
    split: str
    """`TRAIN` or one of `EVALUATION_SPLITS`."""


@dataclass(frozen=True)
class Graded:
    """Verdict of a task on one completion."""

    reward: float
    """In task units; the task's `unparsable_reward` when the completion could not be parsed."""
    correct: bool
    """Whether `reward >= min_correct`."""
    failure: str | None
    """Kind of parse failure, or None when the completion parsed."""
    measures: Mapping[str, float] = field(default_factory=dict)
    """Task-specific figures of a parsed completion (for the verifier: brier, score_accuracy, hedge)."""


@dataclass(frozen=True)
class Interval:
    """An estimate with its confidence interval; all three are NaN where the estimate is undefined."""

    value: float
    low: float
    high: float
