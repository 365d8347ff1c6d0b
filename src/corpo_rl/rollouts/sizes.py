"""Sizes of groups that look as if groups had been told wrongly."""

import numpy as np
from numpy.typing import NDArray

USUAL = 0.8
"""Share of the groups that one size must have for other sizes to look odd."""


def size_warnings(size_G: NDArray[np.intp]) -> list[str]:
    """What looks wrong about the sizes, a sentence each.

    Example:
        >>> size_warnings(np.array([8] * 9 + [16]))
        ['1 of 10 groups has 16 rollouts, 2 times the usual 8: a prompt that was sampled 2 times may have been merged']
        >>> size_warnings(np.array([5, 8, 8]))
        []
    """
    groups_of = np.bincount(size_G)
    sizes = np.flatnonzero(groups_of)
    counts = groups_of[sizes]
    usual = int(sizes[np.argmax(counts)])
    n_groups = len(size_G)
    if len(sizes) == 1 and usual == 1:
        return ["every group has one rollout, so nothing is compared with anything; check --group-columns"]
    if counts.max() < USUAL * n_groups:
        return []
    told = []
    for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
        if size == usual:
            continue
        verb = "has" if count == 1 else "have"
        if size == 1:
            told.append(
                f"{count:,} of {n_groups:,} groups {verb} 1 rollout, where {usual} are usual: nothing to compare"
            )
        elif usual > 1 and size % usual == 0:
            times = size // usual
            told.append(
                f"{count:,} of {n_groups:,} groups {verb} {size} rollouts, {times} times the usual {usual}: a prompt "
                f"that was sampled {times} times may have been merged"
            )
    return told
