"""Frozen records passed between the parts."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

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


@dataclass(frozen=True)
class Texts:
    """What one rollout was asked and what it answered, as shown in a report; None where the log does not hold it."""

    prompt: str | None
    completion: str | None


@dataclass(frozen=True)
class RolloutLog:
    """The rollouts of a run as read from its logs: numbers in columns, text left in the files.

    Rows that are no rollouts of this audit (broken lines, duplicates, evaluation rows) are not here, only counted.
    """

    format: str
    """Name of the log format, as `--format-in` takes it, e.g. "trl"."""
    title: str
    """The format in words, e.g. "verl V1 rollouts"."""
    sources: tuple[str, ...]
    """Files read, in step order."""
    grouped_by: str
    """How groups were told, in words, e.g. "uid without session and index"."""
    rewards_N: NDArray[np.float64]  # noqa: N815
    """Total reward of each rollout, in task units; NaN where unscorable. Shape [N]."""
    group_N: NDArray[np.intp]  # noqa: N815
    """Group of each rollout, 0 to G-1, in order of first appearance; its rows need not be together. Shape [N]."""
    file_N: NDArray[np.int32]  # noqa: N815
    """Index into `sources` of each rollout. Shape [N]."""
    row_N: NDArray[np.int64]  # noqa: N815
    """Line (text, from 1, the header included) or row (parquet, from 0) of each rollout in its file. Shape [N]."""
    part_N: NDArray[np.int32] | None = None  # noqa: N815
    """Place of each rollout among those of its line, for formats with many rollouts a line; else None. Shape [N]."""
    step_G: NDArray[np.int64] | None = None  # noqa: N815
    """Training step of each group; None when the log has no steps. Shape [G]."""
    prompt_G: NDArray[np.intp] | None = None  # noqa: N815
    """Prompt of each group, 0 to P-1, the same whenever it comes back; None when not known. Shape [G]."""
    advantages_N: NDArray[np.float64] | None = None  # noqa: N815
    """Advantage the run logged for each rollout; NaN where missing. None when the log has none. Shape [N]."""
    lengths_N: NDArray[np.float64] | None = None  # noqa: N815
    """Length of each completion, NaN where missing; None when the log has none. Shape [N]."""
    length_unit: str = "tokens"
    """What `lengths_N` counts: "tokens" or "characters"."""
    labels_N: NDArray[np.float64] | None = None  # noqa: N815
    """Whether each rollout is correct by a label: 1, 0, NaN where missing. None without labels. Shape [N]."""
    label_column: str = ""
    """Column of `labels_N`."""
    components: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    """Single rewards that add up to the total, by column name; NaN where missing. Each of shape [N]."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Weight of each component in the total."""
    float32: bool = False
    """Whether rewards or advantages went through float32, so that differences of 2.4e-7 of the values are rounding."""
    n_rows: int = 0
    """Rows seen in the files, whatever became of them."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Rows that are not in this log, by reason ("broken line", "duplicate", "evaluation row", ...)."""
    unscorable: Mapping[str, int] = field(default_factory=dict)
    """Rollouts of this log without a reward, by reason ("null", "NaN", "infinite", "beyond 1e100", "text", ...)."""
    problems: tuple[str, ...] = ()
    """The first of them with their places: "run.jsonl:212: ..."."""
    columns_used: Mapping[str, str] = field(default_factory=dict)
    """Role -> column ("reward" -> "score")."""
    columns_unused: tuple[str, ...] = ()
    """Columns of the log that nothing here looked at."""
    warnings: tuple[str, ...] = ()
    """What may be wrong with the log or its grouping, a sentence each, with what to do."""
    notes: tuple[str, ...] = ()
    """What was done and is worth knowing (bool rewards read as 0 and 1, files decoded from UTF-16, ...)."""
