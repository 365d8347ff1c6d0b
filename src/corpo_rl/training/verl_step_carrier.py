"""The step rewards of verl's rollouts, on their way from a reward to the estimator.

verl has one number for the reward of a rollout, at its last token, and hands an estimator nothing else. A step reward
of 0 in that tensor would look like no step at all. So the steps travel beside it, as text in `reward_extra_info`, which
verl keeps with every rollout:

    {"n_tokens": 17, "steps": [[0, 9, 1.0], [9, 17, null]]}      ranges of tokens, and null where nobody could tell
    {"turns": [1.0, null]}                                       a reward for each turn

Imports no verl.
"""

import functools
import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpo_rl.errors import DataError
from corpo_rl.training.step_spans import Steps, steps_of_tokens, steps_of_turns
from corpo_rl.training.verl_step_settings import STEP_NAME

NO_STEPS = '{"n_tokens": 0, "steps": []}'
"""For a rollout without steps, such as one with which verl fills a batch up."""

_at_hand: list[Callable[[], Sequence[Any]]] = []
"""Where to get the packed steps of the batch that verl is at, the innermost call last."""


def packed_steps(steps: Steps) -> str:
    """The steps of one completion as text.

    Example:
        >>> packed_steps(Steps([0, 0, -1, 1], [1.0, float("nan")]))
        '{"n_tokens": 4, "steps": [[0, 2, 1.0], [3, 4, null]]}'
    """
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for token, step in enumerate(steps.step_of_token):
        first.setdefault(step, token)
        last[step] = token
    ranges, done = [], 0
    for step, reward in enumerate(steps.rewards):
        start = first.get(step, done)
        done = last.get(step, start - 1) + 1
        ranges.append([start, done, None if math.isnan(reward) else reward])
    return json.dumps({"n_tokens": len(steps.step_of_token), "steps": ranges})


def packed_turns(rewards: Sequence[Any], *, where: str) -> str:
    """The rewards of the turns of one completion as text; None or NaN where nobody could tell.

    Raises:
        DataError: A reward is not a finite number or None.

    Example:
        >>> packed_turns([1, None], where="completion 0")
        '{"turns": [1.0, null]}'
    """
    checked = steps_of_turns([1, 0] * len(rewards), rewards, where=where).rewards
    return json.dumps({"turns": [None if math.isnan(reward) else reward for reward in checked]})


def packed_error(error: Exception) -> str:
    """What was wrong with the steps of one completion, for the estimator to refuse.

    verl goes on without a rollout whose reward raises, and says so in its log only.

    Example:
        >>> packed_error(DataError("completion 0: no steps"))
        '{"error": "completion 0: no steps"}'
    """
    return json.dumps({"error": str(error)})


def unpacked(packed: Any, mask_T: NDArray[np.bool_], *, unit: str, where: str) -> Steps:
    """The steps of one completion.

    Args:
        packed: As above.
        mask_T: Whether each token of the response was written by the policy. Shape [T].
        unit: `corpo_step_unit`: rewards of turns are only read as such when that is what was asked for.
        where: How an error names the rollout.

    Raises:
        DataError: There are no steps, they are not in this form, they are for another completion than the mask, or
            something was wrong with them from the start.

    Example:
        >>> unpacked('{"turns": [1.0, null]}', np.array([1, 1, 0, 1], bool), unit="turns", where="rollout 0")
        Steps(step_of_token=[0, 0, -1, 1], rewards=[1.0, nan])
    """
    if packed is None:
        raise DataError(
            f"{where}: no steps came with its reward; set reward.reward_manager.name={STEP_NAME}, or have the agent "
            f"loop put them into reward_extra_info[{STEP_NAME!r}]"
        )
    try:
        found = json.loads(packed)
    except (TypeError, ValueError):
        found = None
    if not isinstance(found, dict):
        raise DataError(f"{where}: expected steps as JSON, of the form {NO_STEPS}, found {packed!r:.80}")
    if "error" in found:
        raise DataError(f"{where}: {found['error']}")
    if "turns" in found:
        if unit != "turns":
            raise DataError(f"{where}: found rewards of turns; add +algorithm.corpo_step_unit=turns")
        return steps_of_turns(mask_T.astype(int).tolist(), found["turns"], where=where)
    n_tokens, steps = found.get("n_tokens"), found.get("steps")
    if not isinstance(n_tokens, int) or not isinstance(steps, list):
        raise DataError(f"{where}: expected steps of the form {NO_STEPS}, found {packed!r:.80}")
    n_own = int(np.flatnonzero(mask_T)[-1]) + 1 if mask_T.any() else 0
    if steps and not n_own <= n_tokens <= len(mask_T):
        raise DataError(
            f"{where}: its steps are for a completion of {n_tokens} tokens, its response has {n_own} to {len(mask_T)}; "
            "give those of this response"
        )
    return steps_of_tokens(n_tokens, steps, where=where)


@contextmanager
def steps_at_hand(packed_steps_of_batch: Callable[[], Sequence[Any]]) -> Iterator[None]:
    """For the time of the block, where to get the packed steps of the batch, should an estimator ask for them."""
    _at_hand.append(packed_steps_of_batch)
    try:
        yield
    finally:
        _at_hand.pop()


def packed_at_hand(n: int) -> Sequence[Any]:
    """The packed steps of a batch of n rollouts, None for each where verl handed none on."""
    found = _at_hand[-1]() if _at_hand else []
    return found if len(found) == n else [None] * n


def stored_steps(batch: Any, kv_batch_get: Callable[..., Any]) -> list[Any]:
    """The packed steps of a batch of verl's V1 trainer, from where it stores rollouts; None where there are none.

    Args:
        batch: Keys and tags of the rollouts, a `KVBatchMeta`.
        kv_batch_get: Of `transfer_queue`.
    """
    stored = kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=["extra_fields"])
    fields = list(stored["extra_fields"]) if "extra_fields" in stored else [None] * len(batch.keys)
    # a list, an array or a stack of NonTensorData, by what stores them
    infos = [(getattr(one, "data", one) or {}).get("reward_extra_info") or {} for one in fields]
    return [
        NO_STEPS if tag.get("is_padding", False) else info.get(STEP_NAME)
        for tag, info in zip(batch.tags, infos, strict=True)
    ]


def refuse_several_outputs(batch_keys: Sequence[str], n_sessions: int) -> None:
    """Refuse a batch in which a rollout has several outputs, each a row with the steps of the last one.

    Args:
        batch_keys: verl's keys of the rows.
        n_sessions: How many rollouts they are of.

    Raises:
        DataError: There are more rows than rollouts.
    """
    if n_sessions != len(batch_keys):
        raise DataError(
            f"{STEP_NAME}: an agent loop returned several outputs for one rollout, {len(batch_keys)} for {n_sessions}, "
            "and verl keeps the steps of the last only; return one output, whose response_mask tells its turns apart"
        )


def hand_on_steps(module: ModuleType) -> None:
    """Wrap the function through which every trainer of verl calls an estimator, which sees no column but `uid`.

    Args:
        module: `verl.trainer.ppo.ray_trainer`. Nothing is done where it has no such function.
    """
    original = getattr(module, "compute_advantage", None)
    if original is None or getattr(original, "hands_on_steps", False):
        return

    @functools.wraps(original)
    def with_steps(data: Any, *args: Any, **settings: Any) -> Any:
        column = data.non_tensor_batch.get(STEP_NAME)
        if column is None:  # V1's are where it stores rollouts
            return original(data, *args, **settings)
        with steps_at_hand(lambda: column):
            return original(data, *args, **settings)

    with_steps.hands_on_steps = True  # type: ignore[attr-defined]
    module.compute_advantage = with_steps  # type: ignore[attr-defined]
