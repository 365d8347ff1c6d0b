"""Rollouts of one generated batch put into another: TRL's tensors row by row, whatever their lengths."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from numpy.typing import NDArray

from corpo_rl.errors import DataError

Row = dict[str, torch.Tensor]
"""The values of one rollout by the name of TRL's tensor, on the CPU."""

_LEFT = ("prompt_ids", "prompt_mask")
"""Tensors that TRL pads in front; all others behind."""

_FILL = {"tool_mask": 1}
"""With what, where it is not 0; ids are padded with the tokenizer's own."""

_KNOWN = (
    "prompt_ids",
    "prompt_mask",
    "completion_ids",
    "completion_mask",
    "tool_mask",
    "advantages",
    "old_per_token_logps",
    "ref_per_token_logps",
    "sampling_per_token_logps",
    "importance_sampling_ratio",
)
"""What a batch of text holds."""


def pack_rows(batch: Mapping[str, torch.Tensor], places: Sequence[int] | NDArray[Any]) -> list[Row]:
    """Rollouts of a batch of this process, ready to be sent to another.

    Args:
        batch: TRL's batch: tensors of shape [B], [B, 1] or [B, T], and scalars, which belong to no rollout.
        places: Rows wanted, 0 to B-1.

    Raises:
        DataError: The batch holds something beside text.
    """
    tensors = {name: value.cpu() for name, value in batch.items() if value.ndim > 0}
    _check(tensors)
    return [{name: value[int(place)].clone() for name, value in tensors.items()} for place in places]


def put_rows(batch: Mapping[str, torch.Tensor], rows: Mapping[int, Row], *, padding: int) -> dict[str, torch.Tensor]:
    """The batch with rows of others in some of its places, padded anew to the longest of what it then holds.

    Args:
        batch: TRL's batch of this process.
        rows: For each place that changes, 0 to B-1, what `pack_rows` made on any process.
        padding: Id of the padding token.

    Returns:
        A new batch; scalars as they were.

    Raises:
        DataError: The batch holds something beside text, or a row has other tensors than the batch.
    """
    _check({name: value for name, value in batch.items() if value.ndim > 0})
    changed = dict(batch)
    for name, value in batch.items():
        if value.ndim == 0:
            continue
        if any(name not in row for row in rows.values()):
            raise DataError(f"{name}: one generation of the batch holds it, another does not")
        if value.ndim == 1:
            changed[name] = value.clone()
        else:
            width = max([value.shape[1], *(len(row[name]) for row in rows.values())])
            fill = padding if name in ("prompt_ids", "completion_ids") else _FILL.get(name, 0)
            changed[name] = value.new_full((len(value), width), fill)
            changed[name][:, _span(name, value.shape[1], width)] = value
        for place, row in rows.items():
            if value.ndim == 1:
                changed[name][place] = row[name].to(value)
            else:
                changed[name][place] = fill
                changed[name][place, _span(name, len(row[name]), width)] = row[name].to(value)
    return changed


def _span(name: str, length: int, width: int) -> slice:
    return slice(width - length, width) if name in _LEFT else slice(0, length)


def _check(tensors: Mapping[str, torch.Tensor]) -> None:
    unknown = [name for name in tensors if name not in _KNOWN]
    if unknown:
        raise DataError(
            f"{unknown[0]}: rollouts are put into another batch only where they are text; use on_deselected='drop'"
        )
