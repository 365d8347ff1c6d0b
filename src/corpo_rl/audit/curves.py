"""The audit's figures step by step."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpo_rl.audit.blocks import weighted_counts
from corpo_rl.audit.tally import CLASS_NAMES, Judge, Tally
from corpo_rl.core.rounding import under


def curves(step_G: NDArray[np.int64] | None, tally: Tally, judge: Judge) -> dict[str, Any] | None:
    """One list for each figure, in step order; None where a figure is undefined, and in all when there are no steps.

    Args:
        step_G: Training step of each group. Shape [G].
        tally: Counts of the same groups.
        judge: What makes a rollout correct.
    """
    if step_G is None:
        return None
    step_S, place_G = numbered_steps(step_G)

    def total(values_G: NDArray[Any]) -> NDArray[np.float64]:
        return weighted_counts(place_G, tally.spread(values_G), len(step_S))

    n_groups_S, scorable_S = np.bincount(place_G), total(tally.scorable_G)
    cells_GC = tally.cells_GC
    failed_S, correct_S = total(cells_GC[:, :3].sum(axis=1)), total(cells_GC[:, 3:6].sum(axis=1))
    n_known_means_S = total(~np.isnan(tally.mean_G))
    n_comparable_S = total(tally.scorable_G > 1)

    found: dict[str, Any] = {
        "step": step_S.tolist(),
        "n_rollouts": total(tally.size_G).astype(int).tolist(),
        "reward": _over(total(tally.reward_G), scorable_S),
        "r_count": _over(total(tally.signs_G3[:, 2]), total(tally.signs_G3[:, 0])),
        "r_loss_proxy": _over(total(tally.signed_mass_G2[:, 1]), total(tally.signed_mass_G2[:, 0])),
        "zero_variance_share": _over(total(tally.equal_G), n_comparable_S),
        "unscorable": (total(tally.size_G) - scorable_S).astype(int).tolist(),
    }
    undefined = [None] * len(step_S)
    found["correct_share"] = _over(correct_S, failed_S + correct_S)
    found["reinforced_failure_share"] = _over(total(cells_GC[:, 2]), failed_S)
    found["floored_group_share"] = (
        undefined
        if judge.min_correct is None
        else _over(total(under(tally.mean_G, judge.min_correct)), n_known_means_S)
    )
    for code, name in enumerate(CLASS_NAMES[:-1]):
        found[f"class_{name}"] = _over(total(tally.class_G == code), n_groups_S) if judge.known else undefined
    return found


def numbered_steps(step_G: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """The distinct steps in order, and the place of each group's among them."""
    if (step_G[1:] >= step_G[:-1]).all():  # as most logs have it: no sorting
        new_G = np.concatenate([[True], step_G[1:] != step_G[:-1]])
        return step_G[new_G], np.cumsum(new_G) - 1
    return np.unique(step_G, return_inverse=True)


def _over(numerator_S: NDArray[Any], denominator_S: NDArray[Any]) -> list[float | None]:
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios: list[float | None] = (numerator_S / denominator_S).tolist()
    for place in np.flatnonzero(~(denominator_S > 0)).tolist():
        ratios[place] = None
    return ratios
