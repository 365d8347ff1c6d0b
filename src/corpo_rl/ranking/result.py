"""How answers are compared, and what comes of it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpo_rl.errors import UsageError
from corpo_rl.ranking.schedule import KNOCKOUT, METHODS, RANK_BY, ROUND_ROBIN, SCORE, SWISS, WINS, Comparison, by_lot


@dataclass(frozen=True)
class RankingSettings:
    """How answers are compared and ordered."""

    method: str = ROUND_ROBIN
    """One of `schedule.METHODS`."""
    rank_by: str = SCORE
    """"score", the mean score, or "wins", the share of comparisons won: that one forgives a verifier which scores
    generously in one comparison and sternly in the next. A knockout ranks by who got how far."""
    both_orders: bool = True
    """Whether each pair is asked twice, either answer first, so that a liking for the first place cancels."""
    n_samples: int = 1
    """Completions of each prompt; their scores are averaged."""
    rounds: int | None = None
    """Rounds of swiss; None for log2 of the number of answers, rounded up."""
    max_calls: int = 10_000
    """A ranking that would take more calls is refused: a round-robin of 1,000 answers takes a million."""
    seed: int = 0
    """Decides lots and samples."""

    def __post_init__(self) -> None:
        for name, value, known in (("method", self.method, METHODS), ("rank_by", self.rank_by, RANK_BY)):
            if value not in known:
                raise UsageError(f"{name}: expected one of {', '.join(known)}, got {value!r}")
        for name, number in (("n_samples", self.n_samples), ("rounds", self.rounds), ("max_calls", self.max_calls)):
            if number is not None and number < 1:
                raise UsageError(f"{name}: expected at least 1, got {number}")
        if self.rounds is not None and self.method != SWISS:
            raise UsageError(f"rounds: only swiss takes a number of rounds, and the method is {self.method}")
        if self.method == KNOCKOUT and self.rank_by == WINS:
            raise UsageError("rank_by: a knockout ranks by who got how far; leave rank_by out or take another method")


@dataclass(frozen=True)
class RankedAnswer:
    """An answer and its place."""

    text: str
    members: tuple[int, ...]
    """Places, from 0, of the answers given that are this text."""
    rank: int | None
    """1 for the best; equals share a rank. None when no comparison of it gave a score."""
    score: float
    """Mean score over its comparisons, 0 to 10; NaN without any."""
    wins: int
    ties: int
    losses: int
    n_unparsed: int
    """Comparisons of it without a completion that parsed; they are in none of the figures above."""


@dataclass(frozen=True)
class Ranking:
    """Answers in order, and the comparisons behind it."""

    settings: RankingSettings
    answers: tuple[RankedAnswer, ...]
    """Best first, equals in an order drawn by lot, those that could not be ranked last."""
    comparisons: tuple[Comparison, ...]
    """In the order they were made; answers by their place in `answers`."""
    n_calls: int
    n_parsed: int
    n_cut: int
    """Completions that ended because they were too long; most of them then do not parse."""
    failures: Mapping[str, int] = field(default_factory=dict)
    """Completions that did not parse, by kind."""

    @property
    def best(self) -> tuple[RankedAnswer, ...]:
        """Those of rank 1; none when nothing could be ranked."""
        return tuple(answer for answer in self.answers if answer.rank == 1)

    @property
    def n_by_lot(self) -> int:
        """Pairs of a knockout whose scores named no winner, so that earlier scores or the lot did."""
        return sum(map(by_lot, self.comparisons)) if self.settings.method == KNOCKOUT else 0

    def score_table(self) -> NDArray[np.float64]:
        """Score of each answer against each other one; NaN where they were not compared. Shape [n, n]."""
        table = np.full((len(self.answers), len(self.answers)), np.nan)
        for one in self.comparisons:
            if one.score_first is not None and one.score_second is not None:
                table[one.first, one.second] = one.score_first
                table[one.second, one.first] = one.score_second
        return table


def ranking_document(ranking: Ranking, names: Sequence[str]) -> dict[str, Any]:
    """A ranking as JSON; `docs/ranking.md` describes it. Undefined figures are NaN, for a writer to make null.

    Args:
        ranking: The ranking.
        names: What each of the answers given is called.
    """
    return {
        "schema": "corpo-rl.ranking/1",
        "settings": asdict(ranking.settings),
        "answers": [
            {**asdict(answer), "names": [names[place] for place in answer.members]} for answer in ranking.answers
        ],
        "best": [place for place, answer in enumerate(ranking.answers) if answer.rank == 1],
        "comparisons": [
            {
                **asdict(one),
                "score_first": None if one.score_first is None else float(one.score_first),
                "score_second": None if one.score_second is None else float(one.score_second),
            }
            for one in ranking.comparisons
        ],
        "n_calls": ranking.n_calls,
        "n_parsed": ranking.n_parsed,
        "n_cut": ranking.n_cut,
        "n_by_lot": ranking.n_by_lot,
        "failures": dict(ranking.failures),
    }
