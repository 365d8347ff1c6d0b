"""CoRPO and its kin for slime, as its reward post-process function. Imports no slime.

    --advantage-estimator grpo --custom-reward-post-process-path corpo_rl.training.slime.post_process

With that estimator slime takes the second list that the function returns for the advantages, and gives each to all
tokens of its response. The least correct reward is read from the environment:

    CORPO_MIN_CORRECT=0.2 CORPO_ESTIMATOR=corpo

Written for slime 0.3.1 from its documented interface; not run with slime itself.
"""

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from corpo_rl.core.advantages import ESTIMATORS
from corpo_rl.core.rounding import as_decimals, threshold_as_read
from corpo_rl.errors import CorpoError, FloorWarning, UsageError
from corpo_rl.training.figures import batch_advantages

MIN_CORRECT_VARIABLE = "CORPO_MIN_CORRECT"
ESTIMATOR_VARIABLE = "CORPO_ESTIMATOR"

_warned: set[str] = set()


def post_process(args: Any, samples: Sequence[Any], **_: Any) -> tuple[list[float | None], list[float]]:
    """Rewards as they are, and advantages in their place.

    Args:
        args: slime's arguments.
        samples: One generation of rollouts, slime's `Sample`s: `reward` (a number, or what `args.reward_key` names in
            it) and `group_index`. A reward of None or NaN is unscorable: it is in no baseline and gets advantage 0.

    Returns:
        The rewards and the advantages, in the order of the samples.

    Raises:
        UsageError: The variable is missing or no number, or an argument undoes the estimator.
        CorpoError: The samples are not as slime 0.3.1 makes them.

    Example:
        >>> from types import SimpleNamespace as Sample
        >>> os.environ["CORPO_MIN_CORRECT"] = "0.5"
        >>> args = Sample(advantage_estimator="grpo", normalize_advantages=False)
        >>> post_process(args, [Sample(reward=0.1, group_index=0), Sample(reward=0.3, group_index=0)])
        ([0.1, 0.3], [-0.4, -0.2])
        >>> del os.environ["CORPO_MIN_CORRECT"]
    """
    min_correct, estimator = _settings(args)
    rewards = [_reward(sample, getattr(args, "reward_key", None)) for sample in samples]
    try:
        groups = [sample.group_index for sample in samples]
    except AttributeError:
        raise CorpoError("slime's samples have no group_index: this slime is not as 0.3.1") from None
    if any(group is None for group in groups):
        raise CorpoError("a sample has no group_index, so that groups cannot be told")
    rewards_N = as_decimals(np.array([np.nan if reward is None else reward for reward in rewards], dtype=np.float64))
    group_N = np.unique(np.array(groups), return_inverse=True)[1]
    advantages_N = batch_advantages(estimator, rewards_N, group_N, min_correct=min_correct)
    return rewards, [float(value) for value in np.round(advantages_N, 12)]


def _settings(args: Any) -> tuple[float, str]:
    given = os.environ.get(MIN_CORRECT_VARIABLE)
    try:
        min_correct = float(given or "")
    except ValueError:
        min_correct = float("nan")
    if not np.isfinite(min_correct):
        raise UsageError(
            f"{MIN_CORRECT_VARIABLE}: expected the least reward that counts as correct, found {given!r}; set it in the "
            "environment of every node"
        )
    estimator = os.environ.get(ESTIMATOR_VARIABLE, "corpo")
    if estimator not in ESTIMATORS:
        raise UsageError(f"{ESTIMATOR_VARIABLE}: expected one of {', '.join(ESTIMATORS)}, found {estimator!r}")
    if getattr(args, "advantage_estimator", "grpo") != "grpo":
        raise UsageError(
            f"--advantage-estimator {args.advantage_estimator}: only with grpo does slime take what this function "
            "returns for the advantages; set --advantage-estimator grpo"
        )
    if getattr(args, "normalize_advantages", False):
        raise UsageError(
            "--normalize-advantages whitens over the batch, which takes a mean away and undoes the floor; leave it out"
        )
    if getattr(args, "kl_coef", 0):
        raise UsageError(
            "--kl-coef puts the KL penalty into the reward, so that the threshold no longer means correctness; use "
            "--use-kl-loss"
        )
    if getattr(args, "dynamic_sampling_filter_path", None) and "nonzero_std" in args.dynamic_sampling_filter_path:
        _warn_once(
            f"--dynamic-sampling-filter-path {args.dynamic_sampling_filter_path} drops groups of equal rewards; the "
            "equal failures among them carry CoRPO's signal: leave it out"
        )
    return threshold_as_read(min_correct), estimator


def _reward(sample: Any, key: str | None) -> float | None:
    try:
        reward = sample.reward
    except AttributeError:
        raise CorpoError("slime's samples have no reward: this slime is not as 0.3.1") from None
    if key and isinstance(reward, Mapping):
        reward = reward.get(key)
    if reward is None:
        return None
    if isinstance(reward, bool) or not isinstance(reward, int | float | np.number):
        raise CorpoError(
            f"a sample's reward: expected a number or None, found {reward!r}; name its part with --reward-key"
        )
    return float(reward)


def _warn_once(message: str) -> None:
    if message not in _warned:
        _warned.add(message)
        warnings.warn(message, FloorWarning, stacklevel=4)
