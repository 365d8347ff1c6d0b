"""Advantage estimators for graded rewards, and what they do to failed rollouts.

The names here need NumPy only. Training is in `corpo_rl.training`, and needs `pip install 'corpo-rl[train]'`.
"""

from corpo_rl._version import __version__
from corpo_rl.core.advantages import (
    corpo_advantages,
    dr_grpo_advantages,
    estimate_advantages,
    grpo_advantages,
    loo_corpo_advantages,
    rloo_advantages,
    static_advantages,
)
from corpo_rl.core.composition import compose_advantages
from corpo_rl.core.dynamics import (
    floor_state,
    floored_group_share,
    group_class_counts,
    n_reinforced_failures,
    r_count,
    r_loss,
    reinforced_failure_share,
)
from corpo_rl.core.passk import pass_at_k
from corpo_rl.errors import CorpoError, DataError, EstimatorError, MissingExtraError, ParseFailure, UsageError

__all__ = [
    "CorpoError",
    "DataError",
    "EstimatorError",
    "MissingExtraError",
    "ParseFailure",
    "UsageError",
    "__version__",
    "compose_advantages",
    "corpo_advantages",
    "dr_grpo_advantages",
    "estimate_advantages",
    "floor_state",
    "floored_group_share",
    "group_class_counts",
    "grpo_advantages",
    "loo_corpo_advantages",
    "n_reinforced_failures",
    "pass_at_k",
    "r_count",
    "r_loss",
    "reinforced_failure_share",
    "rloo_advantages",
    "static_advantages",
]
