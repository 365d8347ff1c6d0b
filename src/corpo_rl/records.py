"""Frozen records passed between the parts."""

import math
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
class FunctionTests:
    """Python statements that call the candidate's function, as HumanEval and MBPP have them."""

    entry_point: str
    """Name of the function under test."""
    source: str
    """Test code: either a function `check(candidate)`, whose statements are the tests, or statements at top level that
    name the entry point. Each statement with an `assert` in it is one test."""
    preamble: str = ""
    """The problem's own code for its tests: imports, and helpers that the prompt defines. Never the candidate's."""


@dataclass(frozen=True)
class CallTests:
    """Calls of a function (or of a method of `class Solution`) with the results expected: LeetCode's kind."""

    entry_point: str
    calls: tuple[tuple[str, str], ...]
    """For each test a JSON array of arguments and the JSON of the result."""


@dataclass(frozen=True)
class ProgramTests:
    """Whole programs judged by what they print for what they read: the CodeForces kind."""

    cases: tuple[tuple[str, str], ...]
    """For each test the text on standard input and the text expected on standard output."""
    time_limit: float | None = None
    """Seconds the problem allows for one test; None when it names none."""


@dataclass(frozen=True)
class FinalAnswer:
    """A math problem: an answer is right when its final expression equals this one."""

    answer: str


@dataclass(frozen=True)
class Problem:
    """A problem whose answers can be judged by machine."""

    problem_id: str
    text: str
    """What a solver, and a verifier, reads."""
    tests: FunctionTests | CallTests | ProgramTests | FinalAnswer
    prompt: str = ""
    """Code that a completion continues, e.g. HumanEval's signature and docstring; empty where answers stand alone."""
    reference: str | None = None
    """The problem's own solution as a whole program or answer, if it ships one: it has to be judged right."""
    split: str | None = None
    """Part of the data set that its row names, if it names one; the task `code` goes by it, `pairs build` does not."""


@dataclass(frozen=True)
class Candidate:
    """An answer to a problem, as somebody wrote it."""

    problem_id: str
    candidate_id: str
    """Unique within its problem and source; the place among them, from 0, when the file names none."""
    text: str
    source: str
    """Who wrote it: the name of a model."""
    continues_prompt: bool = False
    """Whether the text continues the problem's `prompt` instead of standing alone."""


@dataclass(frozen=True)
class Limits:
    """What one run of a candidate may use."""

    seconds: float = 3.0
    """Wall time of a candidate over all tests of a function, or over each case of a program. 3 is HumanEval's own."""
    memory_mb: int = 1024
    """Address space of its process, the interpreter's included."""
    output_bytes: int = 1_000_000
    """Most bytes it may print for a case, or return from a call."""
    disk_mb: int = 16
    """Size of its private /tmp, which holds at most 256 files."""
    threads: int = 16


OK, WRONG, TIMEOUT, MEMORY = "ok", "wrong", "timeout", "memory"
LOAD_ERROR, MISSING_MODULE, NOT_JUDGED = "load_error", "missing_module", "not_judged"
STATUSES = (OK, WRONG, TIMEOUT, MEMORY, LOAD_ERROR, MISSING_MODULE, NOT_JUDGED)
"""What can become of a candidate. The last two say nothing of whether it is right."""


@dataclass(frozen=True)
class Verdict:
    """What the tests said of one candidate."""

    status: str
    """One of `STATUSES`."""
    passed: int
    """Tests passed. A test that was not reached is not passed."""
    total: int
    """Tests there are."""
    detail: str = ""
    """The first thing that went wrong, on one line: "test 3: AssertionError"."""
    seconds: float = 0.0
    """Wall time of the judging."""

    @property
    def correct(self) -> bool | None:
        """True when every test passed, False when one did not, None when that could not be judged."""
        return None if self.status in (MISSING_MODULE, NOT_JUDGED) else self.status == OK


@dataclass(frozen=True)
class LabelledCandidate:
    """A candidate with its verdict: one row of a labels file."""

    problem_id: str
    candidate_id: str
    source: str
    text: str
    """The answer as judged and as a verifier will read it: cut at stop sequences, for code without the prompt."""
    correct: bool | None
    passed: int
    total: int
    status: str
    detail: str = ""


@dataclass(frozen=True)
class SampleRequest:
    """One completion to be drawn."""

    key: str
    """Unique among the requests of a job; the answer carries it."""
    prompt: str
    """What the user's message says; the policy puts it into its chat template."""
    seed: int
    """Decides the draw, as far as the policy can be held to it."""


@dataclass(frozen=True)
class Sample:
    """One completion drawn."""

    key: str
    text: str
    finish_reason: str
    """"stop" when the policy ended by itself, "length" when it was cut."""


@dataclass(frozen=True)
class SamplingSettings:
    """How completions are drawn."""

    max_new_tokens: int
    temperature: float
    """0 for greedy decoding; 1 samples from the policy itself."""
    top_p: float = 1.0


@dataclass(frozen=True)
class Graded:
    """Verdict of a task on one completion."""

    reward: float
    """In task units; the task's `unparsable_reward` when the completion could not be parsed, NaN when it could not be
    judged."""
    correct: bool
    """Whether `reward >= min_correct`; False when that is not known."""
    failure: str | None
    """Kind of parse failure, or why nothing could be said of it; None when the completion parsed and was judged."""
    measures: Mapping[str, float] = field(default_factory=dict)
    """Task-specific figures of a parsed completion (for the verifier: brier, score_accuracy, hedge)."""

    @property
    def scorable(self) -> bool:
        """Whether anything is known of what the completion is worth."""
        return not math.isnan(self.reward)


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
