"""The failures a run reinforced most strongly, with the rollouts they were compared with."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpo_rl.audit.blocks import Block, Layout, blocks, subset
from corpo_rl.audit.tally import CORRECT, FAILED, UNKNOWN, Judge, Scored
from corpo_rl.records import RolloutLog, Texts

N_EXAMPLES = 10
N_SIBLINGS = 7
LONGEST_TEXT = 4000
"""Characters of a prompt or completion that are kept."""

ReadTexts = Callable[[Sequence[int]], Sequence[Texts]]


@dataclass
class Strongest:
    """The groups with the most strongly reinforced failures seen so far."""

    found: list[tuple[float, int]] = field(default_factory=list)
    """Largest advantage of a failure, and the group: by falling advantage, then in the log's order."""

    def add(self, block: Block, headline: Scored, verdict_N: NDArray[np.intp]) -> None:
        """Take a block in."""
        pushed_N = np.where((verdict_N == FAILED) & (headline.sign_N > 0), headline.advantages_N, -np.inf)
        best_G = np.round(np.maximum.reduceat(pushed_N, block.start_G), 9)  # equal ones must not differ by rounding
        least = self.found[-1][0] if len(self.found) == N_EXAMPLES else -np.inf
        hopeful = np.flatnonzero(best_G > least)
        hopeful = hopeful[np.argsort(-best_G[hopeful], kind="stable")][:N_EXAMPLES]
        self.found += [(float(best_G[group]), block.first_group + group) for group in hopeful.tolist()]
        self.found.sort(key=lambda one: (-one[0], one[1]))
        del self.found[N_EXAMPLES:]


def examples(
    log: RolloutLog,
    layout: Layout,
    groups: Sequence[int],
    *,
    headline: Callable[[Block], Scored],
    judge: Judge,
    read_texts: ReadTexts | None,
) -> list[dict[str, Any]]:
    """An example for each of these groups: its most strongly reinforced failure, and the others by falling reward.

    Args:
        log: Rollouts as read.
        layout: The log's layout.
        groups: Groups with a reinforced failure, in report order.
        headline: The advantages of a block.
        judge: What makes a rollout correct.
        read_texts: Fetches prompt and completion of rows of the log; None leaves both None.
    """
    if not groups:
        return []
    (block,) = blocks(subset(log, layout, groups), size=len(log.rewards_N))
    scored, verdict_N, rows_N = headline(block), judge.verdicts(block), layout.rows(groups)
    pushed_N = np.where((verdict_N == FAILED) & (scored.sign_N > 0), scored.advantages_N, -np.inf)
    bounds = [*block.start_G.tolist(), len(rows_N)]

    def rollout(place: int) -> dict[str, Any]:
        reward, verdict = float(block.rewards_N[place]), verdict_N[place]
        return {
            "reward": None if np.isnan(reward) else reward,
            "advantage": float(scored.advantages_N[place]),
            "correct": None if verdict == UNKNOWN else bool(verdict == CORRECT),
        }

    shown = []
    for first, last in itertools.pairwise(bounds):
        best = first + int(np.argmax(pushed_N[first:last]))
        rewards = np.nan_to_num(block.rewards_N[first:last], nan=-np.inf)
        others = [first + place for place in np.argsort(-rewards, kind="stable").tolist() if first + place != best]
        shown.append((best, others[:N_SIBLINGS]))
    wanted = [place for best, siblings in shown for place in (best, *siblings)]
    texts = dict(zip(wanted, read_texts(rows_N[wanted].tolist()), strict=True)) if read_texts is not None else {}

    return [
        {
            "step": None if log.step_G is None else int(log.step_G[group]),
            "group": group,
            "where": f"{log.sources[log.file_N[rows_N[best]]]}:{int(log.row_N[rows_N[best]])}",
            "prompt": _cut(texts[best].prompt) if best in texts else None,
            **rollout(best),
            "completion": _cut(texts[best].completion) if best in texts else None,
            "siblings": [
                rollout(place) | {"completion": _cut(texts[place].completion) if place in texts else None}
                for place in siblings
            ],
            "n_siblings_left_out": last - first - 1 - len(siblings),
        }
        for group, (best, siblings), (first, last) in zip(groups, shown, itertools.pairwise(bounds), strict=True)
    ]


def _cut(text: str | None) -> str | None:
    if text is None or len(text) <= LONGEST_TEXT:
        return text
    return f"{text[:LONGEST_TEXT]} [... {len(text) - LONGEST_TEXT:,} more characters]"
