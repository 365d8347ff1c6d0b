"""What becomes of the step rewards of verl's rollouts: advantages of tokens, and figures. Imports no verl."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corpo_rl.core.dynamics import reinforced_failure_share
from corpo_rl.core.groups import index_groups
from corpo_rl.core.rounding import under
from corpo_rl.core.steps import (
    NO_STEP,
    outcome_step_advantages,
    rewards_to_go,
    spread_over_tokens,
    step_corpo_advantages,
    step_margins,
    step_numbers,
)
from corpo_rl.errors import DataError
from corpo_rl.training.verl_step_carrier import unpacked
from corpo_rl.training.verl_step_settings import STEP_NAME, StepSettings


class StepTable(NamedTuple):
    """Steps of a batch, row by row, and where their tokens are."""

    rewards_M: NDArray[np.float64]  # noqa: N815
    """What the steps are credited with, NaN where nobody could tell. Shape [M]."""
    rollout_M: NDArray[np.intp]  # noqa: N815
    """Shape [M]."""
    count_N: NDArray[np.intp]  # noqa: N815
    """Steps of each rollout. Shape [N]."""
    step_NT: NDArray[np.intp]  # noqa: N815
    """Step of each token, 0 to M-1, or `NO_STEP`. Shape [N, T]."""

    @classmethod
    def of(cls, packed_N: Sequence[Any], mask_NT: NDArray[np.bool_], *, unit: str, discount: float) -> "StepTable":
        """Read the packed steps of each rollout.

        Raises:
            DataError: As `unpacked`.
        """
        step_NT = np.full(mask_NT.shape, NO_STEP, dtype=np.intp)
        rewards: list[float] = []
        counts = []
        for row, (packed, mask_T) in enumerate(zip(packed_N, mask_NT, strict=True)):
            steps = unpacked(packed, mask_T, unit=unit, where=f"{STEP_NAME}, rollout {row}")
            of_token_T = np.array(steps.step_of_token, dtype=np.intp)
            step_NT[row, : len(of_token_T)] = np.where(of_token_T == NO_STEP, NO_STEP, of_token_T + len(rewards))
            rewards += steps.rewards
            counts.append(len(steps.rewards))
        count_N = np.array(counts, dtype=np.intp)
        rollout_M = np.repeat(np.arange(len(count_N)), count_N)
        given_M = np.array(rewards, dtype=np.float64)
        return cls(rewards_to_go(given_M, rollout_M, discount=discount), rollout_M, count_N, step_NT)


class StepEstimate(NamedTuple):
    """What the steps of a batch make of its tokens."""

    advantages_NT: NDArray[np.float64]  # noqa: N815
    """Advantage of each token, 0 for what the policy did not write. Shape [N, T]."""
    figures: dict[str, float]
    """As `step_figures`."""
    floors: list["StepFloor"]
    """As `step_floors`; none in the form "outcome", which has no floor for steps."""


class StepFloor(NamedTuple):
    """What a threshold of steps did in a batch."""

    name: str
    """"steps", or "step 1" of several thresholds."""
    threshold: float
    floored: bool
    """Whether the mean of any group's steps of one number was under it."""
    exceeded: bool
    """Whether any reward was over it."""


def estimate_steps(
    packed_N: Sequence[Any],
    outcome_N: NDArray[np.float64],
    group_N: NDArray[np.intp],
    mask_NT: NDArray[np.bool_],
    settings: StepSettings,
) -> StepEstimate:
    """Advantages of tokens from packed steps, and what is to be said of them.

    Args:
        packed_N: Steps of each rollout, as `verl_step_carrier` packs them. Shape [N].
        outcome_N: Advantage of each rollout. Shape [N].
        group_N: Group of each rollout. Shape [N].
        mask_NT: Whether each token was written by the policy. Shape [N, T].
        settings: Of verl's `algorithm`.

    Raises:
        DataError: The steps of a rollout are missing or wrong, or there are fewer thresholds than steps.
    """
    table = StepTable.of(packed_N, mask_NT, unit=settings.unit, discount=settings.discount)
    advantages_M = step_advantages(table, outcome_N, group_N, settings)
    return StepEstimate(
        token_advantages(table, advantages_M, outcome_N, mask_NT, settings),
        step_figures(table, advantages_M, outcome_N, mask_NT, settings),
        [] if settings.form == "outcome" else list(step_floors(table, group_N, settings)),
    )


def step_advantages(
    table: StepTable, outcome_N: NDArray[np.float64], group_N: NDArray[np.intp], settings: StepSettings
) -> NDArray[np.float64]:
    """Advantage of each step, in the form that the settings name.

    Args:
        table: The steps of the batch.
        outcome_N: Advantage of each rollout. Shape [N].
        group_N: Group of each rollout. Shape [N].
        settings: Of verl's `algorithm`.

    Returns:
        Shape [M].

    Raises:
        DataError: There are several thresholds, and fewer than a rollout has steps.
    """
    thresholds = settings.step_min_correct
    if 1 < len(thresholds) < table.count_N.max(initial=0):
        raise DataError(
            f"algorithm.corpo_step_min_correct: a rollout has {table.count_N.max()} steps, got thresholds for "
            f"{len(thresholds)}; give one for all, or as many as a rollout can have steps"
        )
    if settings.form == "outcome":
        return outcome_step_advantages(outcome_N, table.rollout_M)
    return step_corpo_advantages(
        table.rewards_M,
        table.rollout_M,
        group_N,
        min_correct=settings.threshold,
        outcome_advantages=outcome_N if settings.form == "both" else None,
        outcome_weight=settings.outcome_weight,
        unscorable="exclude",
    )


def token_advantages(
    table: StepTable,
    advantages_M: NDArray[np.float64],
    outcome_N: NDArray[np.float64],
    mask_NT: NDArray[np.bool_],
    settings: StepSettings,
) -> NDArray[np.float64]:
    """Advantage of each token: that of its step; without one, what the form has for it; 0 for what others wrote.

    Args:
        table: The steps of the batch.
        advantages_M: Advantage of each step. Shape [M].
        outcome_N: Advantage of each rollout. Shape [N].
        mask_NT: Whether each token was written by the policy. Shape [N, T].
        settings: Of verl's `algorithm`.

    Returns:
        Shape [N, T].
    """
    weight = {"both": settings.outcome_weight, "steps": 0.0, "outcome": 1.0}[settings.form]
    return np.where(mask_NT, spread_over_tokens(advantages_M, table.step_NT, outside=weight * outcome_N), 0.0)


def step_figures(
    table: StepTable,
    advantages_M: NDArray[np.float64],
    outcome_N: NDArray[np.float64],
    mask_NT: NDArray[np.bool_],
    settings: StepSettings,
) -> dict[str, float]:
    """What the advantages did to the steps, by the names that `StepTrainer` has for it; NaN where undefined.

    Rollouts without a token to train on are left out, as verl fills batches up with such.
    """
    shown_N = np.asarray(mask_NT.any(axis=1))
    shown_M = shown_N[table.rollout_M]
    margin_M = step_margins(table.rewards_M, table.rollout_M, min_correct=settings.threshold)[shown_M]
    number_M = step_numbers(table.rollout_M)[shown_M]
    outcome_M = outcome_step_advantages(outcome_N, table.rollout_M)[shown_M]
    count_N = table.count_N[shown_N]
    own = table.step_NT[mask_NT] != NO_STEP
    figures = {
        "reinforced_failure_share": reinforced_failure_share(margin_M, advantages_M[shown_M], min_correct=0.0),
        "reinforced_failure_share_outcome": reinforced_failure_share(margin_M, outcome_M, min_correct=0.0),
        "correct_share": _correct_share(margin_M),
        "per_rollout": float(count_N.mean()) if len(count_N) else math.nan,
        "without": float((count_N == 0).sum()),
        "unscorable": float(np.isnan(margin_M).sum()),
        "token_share": float(own.mean()) if len(own) else math.nan,
    }
    for number in range(count_N.max(initial=0)):
        figures[f"correct_share/{number}"] = _correct_share(margin_M[number_M == number])
    return {f"steps/{name}": value for name, value in figures.items()}


def step_floors(table: StepTable, group_N: NDArray[np.intp], settings: StepSettings) -> Iterator[StepFloor]:
    """What each threshold did that had steps to speak of."""
    margin_M = step_margins(table.rewards_M, table.rollout_M, min_correct=settings.threshold)
    number_M = step_numbers(table.rollout_M)
    cells = index_groups(group_N[table.rollout_M] * (number_M.max(initial=0) + 1) + number_M, n=len(margin_M))
    floored_M = cells.per_rollout(under(cells.mean(margin_M), 0.0))
    alone = len(settings.step_min_correct) == 1
    for number, threshold in enumerate(settings.step_min_correct):
        of_threshold_M = np.isfinite(margin_M) & np.isin(number_M, number_M if alone else number)
        if of_threshold_M.any():
            name = "steps" if alone else f"step {number}"
            floored, exceeded = floored_M[of_threshold_M].any(), (margin_M[of_threshold_M] > 0).any()
            yield StepFloor(name, threshold, floored=bool(floored), exceeded=bool(exceeded))


def _correct_share(margin_M: NDArray[np.float64]) -> float:
    known_M = margin_M[np.isfinite(margin_M)]
    return float((known_M >= 0).mean()) if len(known_M) else math.nan
