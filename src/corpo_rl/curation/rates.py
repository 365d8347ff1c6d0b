"""How often each prompt of a log was answered correctly, and whether that lies in a band."""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corpo_rl.core.dynamics import GROUP_CLASSES
from corpo_rl.core.rounding import FLOAT32_ROUNDING, ROUNDING, as_decimals, threshold_as_read
from corpo_rl.core.selection import UNSCORABLE, select_groups
from corpo_rl.errors import DataError, UsageError
from corpo_rl.records import RolloutLog

IN, BELOW, ABOVE, TOO_FEW = "in band", "below band", "above band", "too few rollouts"
REASONS = (IN, BELOW, ABOVE, TOO_FEW)
"""Why a prompt is kept or dropped."""

CLASSES = (*GROUP_CLASSES, UNSCORABLE)
"""Classes of groups, in the order of `PromptRates.classes_PC`."""

LARGEST = 1e100
"""Of thresholds, as of the rewards that readers accept."""


@dataclass(frozen=True)
class PromptRates:
    """Figures of each prompt. P prompts, in order of first appearance in the log; C classes."""

    rollouts_P: NDArray[np.intp]  # noqa: N815
    """Rollouts looked at."""
    scorable_P: NDArray[np.intp]  # noqa: N815
    """Those of which it is known whether they are correct."""
    correct_P: NDArray[np.intp]  # noqa: N815
    rate_P: NDArray[np.float64]  # noqa: N815
    """Correct over scorable; NaN where none is scorable."""
    low_P: NDArray[np.float64]  # noqa: N815
    """Lower end of the rate's Wilson interval."""
    high_P: NDArray[np.float64]  # noqa: N815
    reward_P: NDArray[np.float64]  # noqa: N815
    """Mean of the rewards known, in task units; NaN for none."""
    classes_PC: NDArray[np.intp]  # noqa: N815
    """Groups of each of `CLASSES`."""
    first_row_P: NDArray[np.intp]  # noqa: N815
    """First row of the prompt in the log, be it looked at or not."""


@dataclass(frozen=True)
class Verdicts:
    """What a band says of each prompt."""

    kept_P: NDArray[np.bool_]  # noqa: N815
    reason_P: NDArray[np.intp]  # noqa: N815
    """Place in `REASONS`."""
    settled_P: NDArray[np.bool_]  # noqa: N815
    """Whether the rate's whole interval is on the same side of the band's ends as the rate. False for too few."""


def wilson_intervals(
    correct: ArrayLike, scorable: ArrayLike, *, level: float = 0.95
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Interval of each share c / n, within [0, 1] and never of length 0.

        (c + z^2 / 2 -+ z * sqrt(c (n - c) / n + z^2 / 4)) / (n + z^2),        z the normal quantile of (1 + level) / 2

    Args:
        correct: Successes c. Shape [P].
        scorable: Trials n. Shape [P].
        level: Coverage aimed at, in (0, 1).

    Returns:
        Lower and upper ends, NaN for n = 0. Each of shape [P].

    Raises:
        DataError: There are more successes than trials, or a count is negative.
        UsageError: `level` is out of range.

    Source:
        Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22(158), 1927.

    Example:
        >>> low, high = wilson_intervals([0, 4], [8, 8])
        >>> low.round(3), high.round(3)
        (array([0.   , 0.215]), array([0.324, 0.785]))
    """
    if not 0 < level < 1:
        raise UsageError(f"level: expected a number between 0 and 1, got {level!r}")
    c_P, n_P = np.asarray(correct, dtype=np.float64), np.asarray(scorable, dtype=np.float64)
    if (c_P < 0).any() or (c_P > n_P).any():
        raise DataError("correct: expected counts from 0 to those of scorable")
    z = NormalDist().inv_cdf((1 + level) / 2)
    trials_P = np.where(n_P > 0, n_P, np.nan)
    centre_P = c_P + z**2 / 2
    spread_P = z * np.sqrt(c_P * (trials_P - c_P) / trials_P + z**2 / 4)
    low_P, high_P = (centre_P - spread_P) / (trials_P + z**2), (centre_P + spread_P) / (trials_P + z**2)
    # exactly 0 and 1 at the ends, where the two terms are equal but for rounding
    known_P = n_P > 0
    return np.where(known_P & (c_P == 0), 0.0, low_P), np.where(known_P & (c_P == n_P), 1.0, high_P)


def chosen_groups(
    log: RolloutLog, *, last_steps: int | None = None, steps: tuple[int, int] | None = None
) -> NDArray[np.bool_]:
    """Groups of the training steps asked for; all groups when none are. Shape [G].

    Args:
        log: Rollouts as read.
        last_steps: So many of the log's distinct steps, from its end.
        steps: First and last step, both included.

    Raises:
        DataError: The log has no steps, or none of those asked for.
    """
    n_groups = int(log.group_N.max(initial=-1)) + 1
    if last_steps is None and steps is None:
        return np.ones(n_groups, dtype=np.bool_)
    where = log.sources[0]
    if log.step_G is None:
        raise DataError(f"{where}: the log has no training steps to choose from; name them with --step-column")
    distinct = np.unique(log.step_G)
    if steps is None:
        assert last_steps is not None, "one of the two is given"
        steps = int(distinct[-last_steps:][0]), int(distinct[-1])
    chosen_G: NDArray[np.bool_] = (log.step_G >= steps[0]) & (log.step_G <= steps[1])
    if not chosen_G.any():
        raise DataError(
            f"{where}: no group of steps {steps[0]} to {steps[1]}; the log has {distinct[0]} to {distinct[-1]}"
        )
    return chosen_G


def prompt_rates(
    log: RolloutLog,
    *,
    min_correct: float | None = None,
    chosen_G: NDArray[np.bool_] | None = None,
    level: float = 0.95,
) -> PromptRates:
    """Figures of each prompt of a log, over all of its groups that are chosen.

    A rollout is correct when its reward is at least `min_correct`; without one, when the log's label says so. Rewards
    that went through float32 are read as the short decimals they came from.

    Args:
        log: Rollouts as read.
        min_correct: Least reward that counts as correct, in task units.
        chosen_G: Groups to look at; None for all. Shape [G]. A prompt without one has no rollouts and no rate.
        level: Coverage of the intervals.

    Raises:
        UsageError: Nothing says which rollouts are correct, or `min_correct` is no finite number.
        DataError: The log does not tell its prompts.
    """
    if min_correct is None and log.labels_N is None:
        raise UsageError(
            f"{log.sources[0]}: nothing says which rollouts are correct; pass --min-correct, or name a label with "
            "--correct-column"
        )
    if min_correct is not None and not abs(min_correct) <= LARGEST:
        raise UsageError(f"min_correct: expected a finite number of at most {LARGEST:g} in size, got {min_correct}")
    if log.prompt_G is None:
        raise DataError(
            f"{log.sources[0]}: the log does not tell its prompts, as not every group has an id or a text; name a "
            "column with --prompt-column, or take a log that has them"
        )
    n_prompts = int(log.prompt_G.max(initial=-1)) + 1
    rewards_N = as_decimals(log.rewards_N) if log.float32 else log.rewards_N
    verdict_N = _verdicts(log, rewards_N, min_correct)
    chosen_G = np.ones(len(log.prompt_G), dtype=np.bool_) if chosen_G is None else chosen_G
    seen_N = chosen_G[log.group_N]
    prompt_N = log.prompt_G[log.group_N]

    def per_prompt(flag_N: NDArray[np.bool_], weights_N: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        weights = None if weights_N is None else weights_N[flag_N]
        return np.bincount(prompt_N[flag_N], weights=weights, minlength=n_prompts).astype(np.float64)

    known_N, scored_N = seen_N & ~np.isnan(verdict_N), seen_N & ~np.isnan(rewards_N)
    rollouts_P, scorable_P = per_prompt(seen_N), per_prompt(known_N)
    correct_P, scored_P = per_prompt(known_N & (verdict_N == 1)), per_prompt(scored_N)
    low_P, high_P = wilson_intervals(correct_P, scorable_P, level=level)
    first_row_P = np.full(n_prompts, len(prompt_N), dtype=np.intp)
    np.minimum.at(first_row_P, prompt_N, np.arange(len(prompt_N)))
    return PromptRates(
        rollouts_P=rollouts_P.astype(np.intp),
        scorable_P=scorable_P.astype(np.intp),
        correct_P=correct_P.astype(np.intp),
        rate_P=_share(correct_P, scorable_P),
        low_P=low_P,
        high_P=high_P,
        reward_P=_share(per_prompt(scored_N, rewards_N), scored_P),
        classes_PC=_classes(log, rewards_N, verdict_N, chosen_G, n_prompts),
        first_row_P=first_row_P,
    )


def judge_band(rates: PromptRates, *, band: tuple[float, float], min_rollouts: int, keep_uncertain: bool) -> Verdicts:
    """Which prompts a band keeps: low <= rate <= high, both ends included.

    Args:
        rates: Figures of each prompt.
        band: Low and high end, in [0, 1].
        min_rollouts: Scorable rollouts under which a prompt is uncertain, at least 1.
        keep_uncertain: What becomes of uncertain prompts.

    Raises:
        UsageError: The band or `min_rollouts` is out of range.
    """
    low, high = band
    if not 0 <= low <= high <= 1:
        raise UsageError(f"--band: expected LOW,HIGH with 0 <= LOW <= HIGH <= 1, got {low:g},{high:g}")
    if min_rollouts < 1:
        raise UsageError(f"--min-rollouts: expected at least 1, got {min_rollouts}")
    few_P = rates.scorable_P < min_rollouts
    below_P, above_P = rates.rate_P < low, rates.rate_P > high
    reason_P = np.select(
        [few_P, below_P, above_P],
        [REASONS.index(TOO_FEW), REASONS.index(BELOW), REASONS.index(ABOVE)],
        default=REASONS.index(IN),
    )
    settled_P = np.select(
        [few_P, below_P, above_P],
        [np.zeros_like(few_P), rates.high_P < low, rates.low_P > high],
        default=(rates.low_P >= low) & (rates.high_P <= high),
    )
    kept_P = (reason_P == REASONS.index(IN)) | (few_P & keep_uncertain)
    return Verdicts(kept_P=kept_P, reason_P=reason_P, settled_P=settled_P.astype(np.bool_))


def _verdicts(log: RolloutLog, rewards_N: NDArray[np.float64], min_correct: float | None) -> NDArray[np.float64]:
    """1 correct, 0 failed, NaN unknown. Shape [N]."""
    if min_correct is None:
        assert log.labels_N is not None, "checked before"
        return np.where(np.isnan(rewards_N), np.nan, log.labels_N)
    threshold = threshold_as_read(min_correct) if log.float32 else min_correct
    return np.where(np.isnan(rewards_N), np.nan, rewards_N >= threshold)


def _classes(
    log: RolloutLog,
    rewards_N: NDArray[np.float64],
    verdict_N: NDArray[np.float64],
    chosen_G: NDArray[np.bool_],
    n_prompts: int,
) -> NDArray[np.intp]:
    """Groups of each class for each prompt. Shape [P, C]."""
    assert log.prompt_G is not None, "checked before"
    tolerance = FLOAT32_ROUNDING if log.float32 else ROUNDING
    varying_G = select_groups(rewards_N, log.group_N, rule="varying", tolerance=tolerance).kept_G
    n_groups = len(varying_G)
    failing_G = np.bincount(log.group_N[verdict_N == 0], minlength=n_groups) > 0
    passing_G = np.bincount(log.group_N[verdict_N == 1], minlength=n_groups) > 0
    equal, graded = ("all_failed_equal", "all_correct_equal"), ("all_failed_graded", "all_correct_graded")
    class_G = np.select(
        [failing_G & passing_G, failing_G & varying_G, failing_G, passing_G & varying_G, passing_G],
        [CLASSES.index(name) for name in ("mixed", graded[0], equal[0], graded[1], equal[1])],
        default=CLASSES.index(UNSCORABLE),
    )
    code_G = log.prompt_G * len(CLASSES) + class_G
    counted = np.bincount(code_G[chosen_G], minlength=n_prompts * len(CLASSES))
    return counted.reshape(n_prompts, len(CLASSES))


def _share(part_P: NDArray[np.float64], whole_P: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(whole_P > 0, part_P / np.maximum(whole_P, 1), np.nan)
