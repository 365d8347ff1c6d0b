"""CoRPO and its kin for SkyRL, in its registry of advantage estimators.

Call `register()` in the script that starts the run, before the trainer is made; SkyRL carries its registry to the
workers. Then:

    trainer.algorithm.advantage_estimator=corpo +trainer.algorithm.corpo_min_correct=0.2

Written from SkyRL's documented interface (August 2026); not run with SkyRL itself. Steps of one trajectory are told
apart by SkyRL, which hands an estimator one row for each.
"""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from corpo_rl.core.rounding import as_decimals
from corpo_rl.errors import CorpoError, UsageError
from corpo_rl.training.figures import batch_advantages
from corpo_rl.training.verl_settings import VERL_NAMES, check_config

_MODULE = "skyrl.backends.skyrl_train.utils.ppo_utils"


def register() -> None:
    """Put `corpo`, `loo_corpo`, `corpo_static` and `dr_grpo` into SkyRL's registry.

    Raises:
        CorpoError: SkyRL is not installed, or its registry is not as documented.
    """
    try:
        registry = importlib.import_module(_MODULE).AdvantageEstimatorRegistry
    except (ImportError, AttributeError) as error:
        raise CorpoError(f"SkyRL's registry was not found ({error}); this SkyRL is not as documented") from None
    if not callable(getattr(registry, "register", None)):
        raise CorpoError("SkyRL's registry has no register(name, function); this SkyRL is not as documented")
    for name, estimator in VERL_NAMES.items():
        registry.register(name, _estimator(estimator))


def _estimator(estimator: str) -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    def estimate(
        token_level_rewards: torch.Tensor,
        response_mask: torch.Tensor,
        index: Any = None,
        config: Any = None,
        **_: Any,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        min_correct = check_config(config)
        if index is None:
            raise UsageError(f"{estimator}: SkyRL gave no index, so that groups cannot be told")
        if getattr(config, "zero_variance_filter", False):
            raise UsageError(
                "trainer.algorithm.zero_variance_filter drops groups of equal rewards; the equal failures among them "
                "carry CoRPO's signal: set it to false"
            )
        rewards_N = as_decimals(token_level_rewards.sum(dim=-1).double().cpu().numpy())
        group_N = np.unique(np.asarray(index, dtype=str), return_inverse=True)[1]
        advantages_N = batch_advantages(estimator, rewards_N, group_N, min_correct=min_correct)
        advantages_NT = torch.as_tensor(advantages_N).to(token_level_rewards).unsqueeze(-1) * response_mask
        return advantages_NT, advantages_NT

    estimate.__name__ = f"{estimator}_advantages"
    return estimate
