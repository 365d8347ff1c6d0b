"""What picking the best of n answers by a verifier is worth, against picking blindly, by vote, and with the labels."""

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from corpo_rl.core.intervals import bootstrap_interval, bootstrap_ratio_interval
from corpo_rl.errors import DataError, UsageError
from corpo_rl.ranking.rank import Stream, planned_calls, rank_many
from corpo_rl.ranking.result import Ranking, RankingSettings
from corpo_rl.records import Interval, LabelledCandidate, SamplingSettings
from corpo_rl.tasks.base import Task

Votes = Callable[[Sequence[str]], Sequence[Hashable | None]]
"""The answers to one problem -> what each votes for in a majority vote, such as its final answer; None for no vote."""


@dataclass(frozen=True)
class AnswerGroup:
    """A problem and the labelled answers to it."""

    problem_id: str
    problem: str
    answers: tuple[LabelledCandidate, ...]


@dataclass(frozen=True)
class Draw:
    """n answers drawn for each problem, before any is compared."""

    n: int
    groups: tuple[AnswerGroup, ...]
    """The problems that have n judged answers, with those drawn."""
    n_too_few: int
    """Problems with fewer than n judged answers, left out."""
    n_not_judged: int
    """Answers whose tests could not be run to an end: never drawn."""


@dataclass(frozen=True)
class Choice:
    """What each way to pick one of the answers drawn for a problem is worth: the chance to pick a right one."""

    problem_id: str
    verifier: float
    """Share of right ones among the answers that share the first rank; that of `random` when none was ranked."""
    random: float
    """Share of right ones among those drawn: the exact expectation of a blind pick."""
    majority: float
    """Of a right pick by majority vote, equal votes each having the same chance; NaN without a vote."""
    oracle: float
    """1 when any answer drawn is right, else 0."""
    ranked: bool
    """Whether the verifier ranked any of them."""
    voted: bool
    """Whether any of them votes; `majority` is that of a blind pick when none does."""


@dataclass(frozen=True)
class BestOfN:
    """Choices for all problems, with what went into them."""

    draw: Draw
    settings: RankingSettings
    choices: tuple[Choice, ...]
    n_calls: int
    n_parsed: int
    n_cut: int
    """Completions that ended because they were too long."""
    failures: dict[str, int]
    """Completions that did not parse, by kind."""

    @property
    def n_unranked(self) -> int:
        """Problems in which no answer could be ranked; they count as a blind pick."""
        return sum(not choice.ranked for choice in self.choices)

    @property
    def n_unvoted(self) -> int:
        """Problems in which no answer votes, where others do; they count as a blind pick."""
        return sum(not choice.voted for choice in self.choices if not math.isnan(choice.majority))

    @property
    def n_tied(self) -> int:
        """Problems in which right and wrong answers share the first rank."""
        return sum(choice.ranked and 0 < choice.verifier < 1 for choice in self.choices)

    def figures(self, *, level: float = 0.95) -> dict[str, Interval]:
        """Accuracies and what was gained, with intervals over problems.

        `verifier`, `random`, `majority` and `oracle` are means over problems of the chance to pick a right answer;
        `gain` is verifier - random, and `headroom` is (verifier - random) / (oracle - random), each over the same
        problems; NaN where undefined.
        """
        columns = {
            name: np.array([getattr(choice, name) for choice in self.choices])
            for name in ("verifier", "random", "majority", "oracle")
        }
        found = {
            name: Interval(math.nan, math.nan, math.nan)
            if np.isnan(values_I).any()
            else bootstrap_interval(values_I, rng=self._rng(), level=level)
            for name, values_I in columns.items()
        }
        gain_I = columns["verifier"] - columns["random"]
        room_I = columns["oracle"] - columns["random"]
        found["gain"] = bootstrap_interval(gain_I, rng=self._rng(), level=level)
        found["headroom"] = bootstrap_ratio_interval(gain_I, room_I, rng=self._rng(), level=level)
        return found

    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(self.settings.seed)


def draw_answers(groups: Sequence[AnswerGroup], n: int, *, seed: int) -> Draw:
    """Draw n judged answers for each problem, without replacement.

    A problem's draw depends on its own answers and the seed alone, and a smaller n gets the first answers of a larger
    one: what was compared for 8 serves for 4.

    Raises:
        UsageError: n is under 2.
        DataError: No problem has n judged answers.
    """
    if n < 2:
        raise UsageError(f"best of n: expected n of at least 2, got {n}")
    kept: list[AnswerGroup] = []
    n_not_judged = most = 0
    for group in groups:
        judged = sorted(
            (answer for answer in group.answers if answer.correct is not None),
            key=lambda answer: (answer.source, answer.candidate_id),  # labels may be written in any order
        )
        n_not_judged += len(group.answers) - len(judged)
        most = max(most, len(judged))
        if len(judged) >= n:
            name = hashlib.sha256(group.problem_id.encode("utf-8", "surrogatepass")).digest()
            rng = np.random.default_rng([seed, *name])
            drawn = tuple(judged[place] for place in rng.permutation(len(judged))[:n])
            kept.append(AnswerGroup(group.problem_id, group.problem, drawn))
    if not kept:
        raise DataError(
            f"best of {n}: expected problems with at least {n} judged answers, found none among {len(groups)} (the "
            f"most is {most}); ask for a smaller n or label more answers"
        )
    return Draw(n, tuple(kept), n_too_few=len(groups) - len(kept), n_not_judged=n_not_judged)


def draw_calls(draw: Draw, settings: RankingSettings) -> int:
    """Calls to the verifier that a draw takes; for swiss the most it may take.

    Raises:
        UsageError: The answers of a problem take more calls than `settings.max_calls`.
    """
    return sum(planned_calls(len({answer.text for answer in group.answers}), settings) for group in draw.groups)


def best_of_n(
    draw: Draw,
    stream: Stream,
    *,
    sampling: SamplingSettings,
    settings: RankingSettings | None = None,
    task: Task | None = None,
    votes: Votes | None = None,
) -> BestOfN:
    """Rank the answers drawn for each problem and look up the labels of the best.

    Where several answers share the first rank, each of them, repeated texts included, is picked with the same chance,
    so that a verifier which scores all alike is worth exactly a blind pick. A problem in which nothing was ranked
    counts as a blind pick too: leaving it out would compare the verifier on the problems that suit it.

    Args:
        draw: What `draw_answers` gives.
        stream: The verifier: a policy's `stream`.
        sampling: How its completions are drawn.
        settings: How answers are compared; a round-robin of both orders by default.
        task: A task that asks about a `VerifierItem` and parses `Scores`; `PairsTask` by default.
        votes: What the answers to a problem vote for; without it there is no majority vote.

    Raises:
        UsageError: The answers of a problem take more calls than `settings.max_calls`.
        DataError: The stream left out a completion.
    """
    settings = settings or RankingSettings()
    questions = ((group.problem, [answer.text for answer in group.answers]) for group in draw.groups)
    choices: list[Choice] = []
    failures: Counter[str] = Counter()
    n_calls = n_parsed = n_cut = 0
    rankings = rank_many(questions, stream, sampling=sampling, settings=settings, task=task)
    for group, ranking in zip(draw.groups, rankings, strict=True):
        choices.append(_choice(group, ranking, votes))
        n_calls, n_parsed, n_cut = n_calls + ranking.n_calls, n_parsed + ranking.n_parsed, n_cut + ranking.n_cut
        failures.update(ranking.failures)
    return BestOfN(draw, settings, tuple(choices), n_calls, n_parsed, n_cut, dict(sorted(failures.items())))


def _choice(group: AnswerGroup, ranking: Ranking, votes: Votes | None) -> Choice:
    labels = [bool(answer.correct) for answer in group.answers]
    everyone = list(range(len(labels)))
    ranked = [place for answer in ranking.best for place in answer.members]
    elected = _elected(votes([answer.text for answer in group.answers])) if votes else []
    majority = [_share(labels, places) for places in elected or [everyone]]
    return Choice(
        group.problem_id,
        verifier=_share(labels, ranked or everyone),
        random=_share(labels, everyone),
        majority=math.nan if votes is None else math.fsum(majority) / len(majority),
        oracle=float(any(labels)),
        ranked=bool(ranked),
        voted=bool(elected),
    )


def _elected(votes: Sequence[Hashable | None]) -> list[list[int]]:
    """Places of those who gave the vote that came most often, for each such vote; none when nobody voted."""
    voters: dict[Hashable, list[int]] = defaultdict(list)
    for place, said in enumerate(votes):
        if said is not None:
            voters[said].append(place)
    most = max(map(len, voters.values()), default=0)
    return [places for places in voters.values() if len(places) == most]


def _share(labels: Sequence[bool], places: Sequence[int]) -> float:
    return sum(labels[place] for place in places) / len(places)


def best_of_n_document(found: BestOfN, *, level: float = 0.95) -> dict[str, Any]:
    """The figures for one n as JSON, which `docs/ranking.md` describes. Undefined ones are NaN; a file has null."""
    return {
        "settings": asdict(found.settings),
        "level": level,
        "n": found.draw.n,
        "n_problems": len(found.choices),
        "n_too_few": found.draw.n_too_few,
        "n_not_judged": found.draw.n_not_judged,
        "n_unranked": found.n_unranked,
        "n_unvoted": found.n_unvoted,
        "n_tied": found.n_tied,
        "n_calls": found.n_calls,
        "n_parsed": found.n_parsed,
        "n_cut": found.n_cut,
        "failures": found.failures,
        "figures": {name: asdict(figure) for name, figure in found.figures(level=level).items()},
        "problems": [asdict(choice) for choice in found.choices],
    }
