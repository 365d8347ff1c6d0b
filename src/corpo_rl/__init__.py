"""Advantage estimators for graded rewards, and what they do to failed rollouts.

The names here need NumPy only. Training is in `corpo_rl.training`, and needs `pip install 'corpo-rl[train]'`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from corpo_rl._version import __version__
from corpo_rl.errors import CorpoError, DataError, EstimatorError, MissingExtraError, ParseFailure, UsageError

if TYPE_CHECKING:
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

# Imported when first asked for: NumPy takes longer to load than all the rest of `corpo-rl --help`.
_HOMES = {
    "compose_advantages": "corpo_rl.core.composition",
    "corpo_advantages": "corpo_rl.core.advantages",
    "dr_grpo_advantages": "corpo_rl.core.advantages",
    "estimate_advantages": "corpo_rl.core.advantages",
    "floor_state": "corpo_rl.core.dynamics",
    "floored_group_share": "corpo_rl.core.dynamics",
    "group_class_counts": "corpo_rl.core.dynamics",
    "grpo_advantages": "corpo_rl.core.advantages",
    "loo_corpo_advantages": "corpo_rl.core.advantages",
    "n_reinforced_failures": "corpo_rl.core.dynamics",
    "pass_at_k": "corpo_rl.core.passk",
    "r_count": "corpo_rl.core.dynamics",
    "r_loss": "corpo_rl.core.dynamics",
    "reinforced_failure_share": "corpo_rl.core.dynamics",
    "rloo_advantages": "corpo_rl.core.advantages",
    "static_advantages": "corpo_rl.core.advantages",
}

if not TYPE_CHECKING:  # a type checker that saw it would take any name for one of ours

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
