"""Which problems go to which split, before any pair is drawn."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from corpo_rl.errors import UsageError
from corpo_rl.records import TRAIN


@dataclass(frozen=True)
class PairSizes:
    """How many pairs a split should get; it gets fewer when the data allow no more."""

    train: int | None
    """None for as many as the problems left to it give."""
    in_domain: int
    ood: int
    other_domain: int = 0

    def check(self) -> None:
        """Refuse sizes that cannot be.

        Raises:
            UsageError: One is negative.
        """
        for name in (TRAIN, "in_domain", "ood", "other_domain"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise UsageError(f"{name}: expected at least 0, found {value}")


@dataclass(frozen=True)
class ClusterKinds:
    """Clusters of problems by what pairs they can give; each is in one of the three rows."""

    both: Sequence[int]
    """One right and one wrong answer, and twins of two right and of two wrong ones."""
    mixed: Sequence[int]
    """One right and one wrong answer, but no such twins."""
    one_sided: Sequence[int]
    """No pair of one right and one wrong answer."""


def allot_clusters(
    kinds: ClusterKinds, *, sizes: PairSizes, held_out: float, rng: np.random.Generator
) -> Mapping[str, tuple[int, ...]]:
    """Clusters for each split of the domain trained on.

    - Validation asks for two clusters a pair in `in_domain`, and for one a pair in `ood`: twice as many as it has a use
      for, because pairs of some find no twin; train is given back what is left. It gets them if they are no more than
      the share `held_out`, and else that share, divided as the square roots of the sizes: between equal parts, which
      would favour the small split, and parts by size, which would starve it.
    - Clusters of one kind of answer are of use to `ood` alone, and go there.
    - Train gets the others, but no more than it wants pairs.

    Args:
        kinds: The clusters.
        sizes: Pairs wanted.
        held_out: Largest share of the clusters with right and wrong answers that validation may take, in [0, 1). It may
            take more where train has no use for them, and gets at least one for each split that wants any while train
            keeps one.
        rng: Decides which.

    Raises:
        UsageError: `held_out` is out of range.

    Source:
        The division is power allocation with exponent 1/2: Bankier, "Power allocations", The American Statistician
        42(3), 1988.

    Example:
        >>> kinds = ClusterKinds(both=range(100), mixed=(), one_sided=range(100, 120))
        >>> sizes = PairSizes(train=4890, in_domain=196, ood=98)
        >>> allotted = allot_clusters(kinds, sizes=sizes, held_out=0.3, rng=np.random.default_rng(0))
        >>> {split: len(clusters) for split, clusters in allotted.items()}
        {'train': 70, 'in_domain': 18, 'ood': 32}
    """
    if not 0 <= held_out < 1:
        raise UsageError(f"held-out share: expected a number from 0 up to but not 1, found {held_out}")
    both = rng.permutation(np.asarray(kinds.both, dtype=np.intp)).tolist()
    mixed = rng.permutation(np.asarray(kinds.mixed, dtype=np.intp)).tolist()
    n = len(both) + len(mixed)
    wanted = {"in_domain": 2 * sizes.in_domain, "ood": sizes.ood}
    n_train = n if sizes.train is None else sizes.train
    least = sum(count > 0 for count in wanted.values())
    room = max(int(n * held_out), n - n_train, min(least, n - min(n_train, 1)))
    share = _shares(wanted, sizes={"in_domain": sizes.in_domain, "ood": sizes.ood}, room=room)
    ood = (both + mixed)[: share["ood"]]
    rest = rng.permutation(np.asarray((both + mixed)[share["ood"] :], dtype=np.intp)).tolist()
    in_domain, left = rest[: share["in_domain"]], rest[share["in_domain"] :]
    return {
        TRAIN: tuple(left[:n_train]),
        "in_domain": tuple(in_domain),
        "ood": tuple(ood + list(kinds.one_sided)) if sizes.ood else (),
    }


def _shares(wanted: Mapping[str, int], *, sizes: Mapping[str, int], room: int) -> dict[str, int]:
    """Divide room as the square roots of the sizes, one by one, nobody getting more than wanted."""
    share = dict.fromkeys(wanted, 0)
    for _ in range(min(room, sum(wanted.values()))):
        open_to = [name for name in wanted if share[name] < wanted[name]]
        share[min(open_to, key=lambda name: (share[name] + 1) / math.sqrt(sizes[name]))] += 1
    return share
