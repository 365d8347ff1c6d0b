"""With several rewards added up: which of them makes a failed rollout's advantage positive."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpo_rl.audit.blocks import Block
from corpo_rl.audit.tally import FAILED, Scored
from corpo_rl.core.rounding import as_decimals
from corpo_rl.records import RolloutLog


@dataclass
class Components:
    """Sums over a log's blocks, one entry for each component. C components."""

    names: tuple[str, ...]
    weights_C: NDArray[np.float64]  # noqa: N815
    n_decisive_C: NDArray[np.int64] = field(init=False)  # noqa: N815
    """Reinforced failures that would not be over their group's mean without this component."""
    lift_C: NDArray[np.float64] = field(init=False)  # noqa: N815
    """Sum over the reinforced failures of the component's distance over its group mean, where positive."""
    std_sum_2C: NDArray[np.float64] = field(init=False)  # noqa: N815
    """Sum of the standard deviations within groups: all-failed ones, others. Shape [2, C]."""
    n_groups_2: NDArray[np.int64] = field(init=False)
    n_varying_C: NDArray[np.int64] = field(init=False)  # noqa: N815
    """All-failed groups in which the component varies."""

    @classmethod
    def of(cls, log: RolloutLog) -> "Components":
        """Nothing seen yet."""
        names = tuple(log.components)
        return cls(names, np.array([log.weights.get(name, 1.0) for name in names]))

    def __post_init__(self) -> None:
        n = len(self.names)
        self.n_decisive_C, self.n_varying_C = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
        self.lift_C, self.std_sum_2C = np.zeros(n), np.zeros((2, n))
        self.n_groups_2 = np.zeros(2, dtype=np.int64)

    def add(self, log: RolloutLog, block: Block, headline: Scored, verdict_N: NDArray[np.intp]) -> None:
        """Take a block in. A component that is missing adds nothing to the total, as in TRL."""
        scorable_N = ~np.isnan(block.rewards_N)
        groups = block.groups
        parts_CN = []
        for name, weight in zip(self.names, self.weights_C, strict=True):
            part_N = log.components[name][block.rows_N]
            part_N = as_decimals(part_N) if log.float32 else part_N
            parts_CN.append(np.where(scorable_N, weight * np.nan_to_num(part_N), np.nan))
        centred_CN = np.stack([part_N - groups.per_rollout(groups.mean(part_N)) for part_N in parts_CN])

        reinforced_N = (verdict_N == FAILED) & (headline.sign_N > 0)
        without_CN = centred_CN.sum(axis=0) - centred_CN
        self.n_decisive_C += (reinforced_N & (without_CN <= block.rounding_N)).sum(axis=1)
        self.lift_C += np.maximum(centred_CN[:, reinforced_N], 0.0).sum(axis=1)

        failed_G = np.bincount(block.group_N, weights=verdict_N == FAILED, minlength=block.n_groups)
        count_G = groups.count(block.rewards_N)
        all_failed_G = (failed_G == count_G) & (count_G > 1)
        other_G = ~all_failed_G & (count_G > 1)
        self.n_groups_2 += [int(all_failed_G.sum()), int(other_G.sum())]
        for place, part_N in enumerate(parts_CN):
            std_G = groups.std(part_N)
            varying_G = all_failed_G & ~groups.all_equal(part_N)
            self.std_sum_2C[:, place] += [std_G[all_failed_G].sum(), std_G[other_G].sum()]
            self.n_varying_C[place] += int(varying_G.sum())

    def rows(self) -> list[dict[str, Any]]:
        """A row for each component."""
        total = float(self.lift_C.sum())
        n_failed, n_other = self.n_groups_2.tolist()
        return [
            {
                "name": name,
                "weight": float(self.weights_C[place]),
                "n_reinforced_by_it": int(self.n_decisive_C[place]),
                "share_of_positive_mass": float(self.lift_C[place]) / total if total else None,
                "std_all_failed": float(self.std_sum_2C[0, place]) / n_failed if n_failed else None,
                "std_other": float(self.std_sum_2C[1, place]) / n_other if n_other else None,
                "n_all_failed_groups_varying": int(self.n_varying_C[place]),
            }
            for place, name in enumerate(self.names)
        ]
