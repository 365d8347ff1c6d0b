"""The failures a run reinforced most strongly, with the rollouts they were compared with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpo_rl.audit.blocks import Block
from corpo_rl.audit.tally import CORRECT, FAILED, UNKNOWN, Judge, Scored
from corpo_rl.records import RolloutLog, Texts

N_EXAMPLES = 10
N_SIBLINGS = 7
LONGEST_TEXT = 4000
"""Characters of a prompt or completion that are kept."""

ReadTexts = Callable[[Sequence[int]], Sequence[Texts]]


@dataclass
class _Candidate:
    advantage: float
    row: int
    rows_N: NDArray[np.intp]  # noqa: N815
    advantages_N: NDArray[np.float64]  # noqa: N815
    rewards_N: NDArray[np.float64]  # noqa: N815
    verdict_N: NDArray[np.intp]  # noqa: N815
    group: int


@dataclass
class Strongest:
    """The most strongly reinforced failures seen so far, at most one of each group."""

    found: list[_Candidate] = field(default_factory=list)

    def add(self, block: Block, headline: Scored, judge: Judge) -> None:
        """Take a block in."""
        verdict_N = judge.verdicts(block)
        pushed_N = np.where((verdict_N == FAILED) & (headline.sign_N > 0), headline.advantages_N, -np.inf)
        best_G: NDArray[np.float64] = np.maximum.reduceat(pushed_N, block.start_G)
        least = self.found[-1].advantage if len(self.found) == N_EXAMPLES else -np.inf
        hopeful = np.flatnonzero(best_G > least)
        if not len(hopeful):
            return
        hopeful = hopeful[np.argsort(-best_G[hopeful], kind="stable")][:N_EXAMPLES]
        bounds = np.append(block.start_G, len(pushed_N))
        for group in hopeful.tolist():
            span = slice(int(bounds[group]), int(bounds[group + 1]))
            rows_N = (
                np.arange(block.rows_N.start + span.start, block.rows_N.start + span.stop)
                if isinstance(block.rows_N, slice)
                else block.rows_N[span]
            )
            self.found.append(
                _Candidate(
                    advantage=float(best_G[group]),
                    row=int(np.argmax(pushed_N[span])),
                    rows_N=rows_N,
                    advantages_N=headline.advantages_N[span],
                    rewards_N=block.rewards_N[span],
                    verdict_N=verdict_N[span],
                    group=block.first_group + group,
                )
            )
        self.found.sort(key=lambda one: -one.advantage)  # stable: of equal ones, the first seen
        del self.found[N_EXAMPLES:]

    def rows(self, log: RolloutLog, read_texts: ReadTexts | None) -> list[dict[str, Any]]:
        """The examples as they are reported; prompts and completions are None without `read_texts`."""
        shown = [_shown(candidate) for candidate in self.found]
        rows = [
            int(candidate.rows_N[place]) for candidate, order in zip(self.found, shown, strict=True) for place in order
        ]
        texts = dict(zip(rows, read_texts(rows), strict=True)) if read_texts is not None and rows else {}
        return [_example(log, candidate, order, texts) for candidate, order in zip(self.found, shown, strict=True)]


def _shown(candidate: _Candidate) -> list[int]:
    """The example's place in its group, then its siblings' from the best reward to the worst; unknown ones last."""
    places = np.argsort(-np.nan_to_num(candidate.rewards_N, nan=-np.inf), kind="stable").tolist()
    places.remove(candidate.row)
    return [candidate.row, *places[:N_SIBLINGS]]


def _example(log: RolloutLog, candidate: _Candidate, order: Sequence[int], texts: dict[int, Texts]) -> dict[str, Any]:
    def rollout(place: int) -> dict[str, Any]:
        row = int(candidate.rows_N[place])
        verdict = candidate.verdict_N[place]
        reward = float(candidate.rewards_N[place])
        return {
            "reward": None if np.isnan(reward) else reward,
            "advantage": float(candidate.advantages_N[place]),
            "correct": None if verdict == UNKNOWN else bool(verdict == CORRECT),
            "completion": _cut(texts[row].completion) if row in texts else None,
        }

    row = int(candidate.rows_N[candidate.row])
    first = rollout(order[0])
    return {
        "step": None if log.step_G is None else int(log.step_G[candidate.group]),
        "group": candidate.group,
        "where": f"{log.sources[log.file_N[row]]}:{int(log.row_N[row])}",
        "reward": first["reward"],
        "advantage": first["advantage"],
        "prompt": _cut(texts[row].prompt) if row in texts else None,
        "completion": first["completion"],
        "siblings": [rollout(place) for place in order[1:]],
        "n_siblings_left_out": len(candidate.rows_N) - len(order),
    }


def _cut(text: str | None) -> str | None:
    if text is None or len(text) <= LONGEST_TEXT:
        return text
    return f"{text[:LONGEST_TEXT]} [... {len(text) - LONGEST_TEXT:,} more characters]"
