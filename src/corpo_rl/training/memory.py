"""What a run remembers from batch to batch, and a kill must not lose: prompts' rewards, the threshold's schedule."""

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from accelerate.utils import gather_object
from numpy.typing import NDArray

from corpo_rl.core.groups import index_groups
from corpo_rl.core.kin import ema_update
from corpo_rl.core.schedule import ScheduleState
from corpo_rl.errors import DataError

FILE = "corpo_memory.json"
"""Name of the file in a checkpoint's folder."""

_Value = TypeVar("_Value")


@dataclass
class Memory:
    """The moving average of each prompt's rewards, and where the schedule of `min_correct` stands."""

    averages: dict[str, float] = field(default_factory=dict)
    """By `prompt_key`, in task units."""
    schedule: ScheduleState = field(default_factory=ScheduleState)

    def recall(self, keys: Sequence[str]) -> NDArray[np.float64]:
        """Average of each key's prompt, NaN where it has not been seen. Shape [N]."""
        return np.array([self.averages.get(key, math.nan) for key in keys])

    def learn(
        self, keys: Sequence[str], rewards_N: NDArray[np.float64], group_N: NDArray[np.intp], *, decay: float
    ) -> None:
        """Take in a batch, group by group; two groups of one prompt count one after the other."""
        groups = index_groups(group_N, n=len(rewards_N))
        mean_G = groups.mean(rewards_N)
        key_of = dict(zip(groups.index_N.tolist(), keys, strict=True))
        for group in sorted(key_of):
            key = key_of[group]
            average = ema_update(self.averages.get(key, math.nan), float(mean_G[group]), decay=decay)
            if not math.isnan(average):
                self.averages[key] = average

    def save(self, folder: Path) -> None:
        """Write the file into a checkpoint's folder."""
        kept = {"averages": self.averages, "schedule": self.schedule._asdict()}
        (folder / FILE).write_text(json.dumps(kept), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> "Memory":
        """Read it back; a checkpoint from before there was one remembers nothing.

        Raises:
            DataError: The file is not what `save` writes.
        """
        path = folder / FILE
        if not path.exists():
            return cls()
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            averages = {str(key): float(value) for key, value in kept["averages"].items()}
            return cls(averages, ScheduleState.restored(kept["schedule"]))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise DataError(f"{path}: expected what a checkpoint of CorpoTrainer holds, got {error}") from None


def prompt_key(prompt: Any) -> str:
    """A short digest of a prompt, text or messages; the same on every machine."""
    text = prompt if isinstance(prompt, str) else json.dumps(prompt, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def gathered(values: list[_Value]) -> list[_Value]:
    """The values of all processes, in the order of their ranks."""
    everything: list[_Value] = gather_object(values)
    return everything
