"""Which prompts of the training set are generated from when a batch has places to fill."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpo_rl.errors import DataError

FILE = "corpo_selection.json"
"""Name of the file in a checkpoint's folder."""

_SPARE = 7_345_231
"""Keeps this order apart from whatever else is drawn from the run's seed."""


class SparePrompts:
    """An endless order over the rows of a data set: one seeded permutation after the other.

    Args:
        seed: Seed of the run.
        n_prompts: Rows of the data set, at least 1.
    """

    def __init__(self, *, seed: int, n_prompts: int) -> None:
        self.seed, self.n_prompts = seed, n_prompts
        self.position = 0
        """Rows taken so far."""
        self._drawn: tuple[int, NDArray[np.int64]] | None = None

    def once_round(self) -> Iterator[int]:
        """The next rows, each of the data set at most once more than any other: as many as there are."""
        for _ in range(self.n_prompts):
            rounds, place = divmod(self.position, self.n_prompts)
            self.position += 1
            yield int(self._order(rounds)[place])

    def save(self, folder: Path) -> None:
        """Write the position into a checkpoint's folder."""
        kept = {"position": self.position, "n_prompts": self.n_prompts}
        (folder / FILE).write_text(json.dumps(kept), encoding="utf-8")

    def load(self, folder: Path) -> None:
        """Read the position back; a checkpoint of a run that did not resample has none, and it starts anew.

        Raises:
            DataError: The file is not what `save` writes, or the data set has another length.
        """
        path = folder / FILE
        if not path.exists():
            self.position = 0
            return
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            position, n_prompts = int(kept["position"]), int(kept["n_prompts"])
        except (ValueError, TypeError, KeyError) as error:
            raise DataError(f"{path}: expected what a checkpoint of SelectingTrainer holds, got {error}") from None
        if n_prompts != self.n_prompts:
            raise DataError(
                f"{path}: was written with a data set of {n_prompts:,} rows, this one has {self.n_prompts:,}; resume "
                "with the same data set"
            )
        self.position = position

    def _order(self, rounds: int) -> NDArray[np.int64]:
        if self._drawn is None or self._drawn[0] != rounds:
            order_N = np.random.default_rng([abs(self.seed), _SPARE, rounds]).permutation(self.n_prompts)
            self._drawn = (rounds, order_N)
        return self._drawn[1]
