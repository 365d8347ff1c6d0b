"""Answers to a problem -> their order, by what a verifier says of them two at a time."""

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from corpo_rl.errors import DataError, ParseFailure, UsageError
from corpo_rl.ranking.result import RankedAnswer, Ranking, RankingSettings
from corpo_rl.ranking.schedule import (
    KNOCKOUT,
    SCORE,
    SWISS,
    Comparison,
    Tally,
    n_comparisons,
    next_pairs,
    survivors,
    tallies,
)
from corpo_rl.records import TRAIN, Sample, SampleRequest, SamplingSettings, VerifierItem
from corpo_rl.tasks.base import Task
from corpo_rl.tasks.pairs import PairsTask
from corpo_rl.tasks.verifier import Scores

Stream = Callable[[Sequence[SampleRequest], SamplingSettings], Iterator[Sample]]
"""Where completions come from: one for each request, in any order."""

_CALLS_AT_ONCE = 20_000
"""Requests of several problems that are put into one batch; bounds the prompts held in memory."""


def rank(
    problem: str,
    answers: Sequence[str],
    stream: Stream,
    *,
    sampling: SamplingSettings,
    settings: RankingSettings | None = None,
    task: Task | None = None,
) -> Ranking:
    r"""Order answers by what a verifier says of them, two at a time.

    Equal texts are one answer with several members. The scores of a deterministic verifier, and the ranks, do not
    depend on the order in which the answers are given.

    Args:
        problem: What the answers answer.
        answers: At least one.
        stream: The verifier: a policy's `stream`.
        sampling: How its completions are drawn.
        settings: How answers are compared; a round-robin of both orders by default.
        task: A task that asks about a `VerifierItem` and parses `Scores`; `PairsTask` by default.

    Raises:
        UsageError: There is no answer, or more calls would be needed than `settings.max_calls`.
        DataError: The stream left out a completion.

    Example:
        >>> def longer_is_better(requests, sampling):
        ...     for request in requests:
        ...         a, b = request.prompt.split("Answer A:\n")[1].split("\n\nScore")[0].split("\n\nAnswer B:\n")
        ...         yield Sample(request.key, f"A: {len(a)}\nB: {len(b)}", "stop")
        >>> greedy = SamplingSettings(max_new_tokens=16, temperature=0)
        >>> ranking = rank("Name a colour.", ["red", "green", "red"], longer_is_better, sampling=greedy)
        >>> [(answer.rank, answer.text, answer.score, answer.members) for answer in ranking.answers]
        [(1, 'green', 5.0, (1,)), (2, 'red', 3.0, (0, 2))]
    """
    (ranking,) = rank_many([(problem, answers)], stream, sampling=sampling, settings=settings, task=task)
    return ranking


def rank_many(
    questions: Iterable[tuple[str, Sequence[str]]],
    stream: Stream,
    *,
    sampling: SamplingSettings,
    settings: RankingSettings | None = None,
    task: Task | None = None,
) -> Iterator[Ranking]:
    """`rank` for many problems: the calls of one round of many problems go out together.

    Args:
        questions: Each problem with its answers.
        stream: As for `rank`.
        sampling: As for `rank`.
        settings: As for `rank`; `max_calls` holds for each problem.
        task: As for `rank`.

    Yields:
        The ranking of each problem, in order.
    """
    settings = settings or RankingSettings()
    nobody = VerifierItem("", "", "", "", label_a=0, label_b=0, domain="", split=TRAIN)
    task = task or PairsTask([nobody])
    waiting: list[_Tournament] = []
    n_calls = 0
    for problem, answers in questions:
        tournament = _Tournament(problem, answers, settings)
        if waiting and n_calls + tournament.n_calls_planned > _CALLS_AT_ONCE:
            yield from _play(waiting, stream, sampling, task)
            waiting, n_calls = [], 0
        waiting.append(tournament)
        n_calls += tournament.n_calls_planned
    yield from _play(waiting, stream, sampling, task)


def planned_calls(n_answers: int, settings: RankingSettings) -> int:
    """Calls to the verifier that ranking so many different answers takes; for swiss the most it may take.

    Raises:
        UsageError: They are more than `settings.max_calls`; the message says what cheaper methods take.

    Example:
        >>> planned_calls(8, RankingSettings()), planned_calls(8, RankingSettings("knockout", n_samples=3))
        (56, 42)
    """
    each = (1 + settings.both_orders) * settings.n_samples
    n_calls = n_comparisons(settings.method, n_answers, rounds=settings.rounds) * each
    if n_calls <= settings.max_calls:
        return n_calls
    others = {method: n_comparisons(method, n_answers) * each for method in (SWISS, KNOCKOUT)}
    cheaper = [f"{method} takes {number:,}" for method, number in others.items() if number < n_calls]
    raise UsageError(
        f"{settings.method} of {n_answers:,} different answers takes {n_calls:,} calls to the verifier, over the limit "
        f"of {settings.max_calls:,}; {', '.join([*cheaper, 'or'])} raise max_calls (--max-calls)"
    )


class _Tournament:
    """One problem on its way: its different answers in the order of their lots, and the rounds played."""

    def __init__(self, problem: str, answers: Sequence[str], settings: RankingSettings) -> None:
        if not answers:
            raise UsageError("answers: expected at least one, got none")
        members: dict[str, list[int]] = {}
        for place, text in enumerate(answers):
            members.setdefault(text, []).append(place)
        # by a hash of the texts, not by place: whoever shuffles the answers gets the same lots
        self.texts = sorted(members, key=lambda text: _digest("lot", settings.seed, problem, text))
        self.members = [tuple(members[text]) for text in self.texts]
        self.problem, self.settings = problem, settings
        self.n_calls_planned = planned_calls(len(self.texts), settings)
        self.played: list[list[Comparison]] = []
        self.failures: Counter[str] = Counter()
        self.n_cut = 0

    def pairs(self) -> list[tuple[int, int]]:
        """Pairs of the next round, none at the end."""
        settings = self.settings
        return next_pairs(
            settings.method, self.played, len(self.texts), rank_by=settings.rank_by, rounds=settings.rounds
        )

    def requests(self, pair: tuple[int, int], task: Task) -> list[list[SampleRequest]]:
        """For each order asked, its samples; the first order has the pair's first answer as A unless only one is asked.

        Then each answer of a round-robin is A in about half of its comparisons.
        """
        orders = [pair, pair[::-1]]
        if not self.settings.both_orders:
            orders = orders[sum(pair) % 2 :][:1]
        return [
            [self._request(prompt, sample) for sample in range(self.settings.n_samples)]
            for prompt in (self._prompt(order, task) for order in orders)
        ]

    def _prompt(self, order: tuple[int, int], task: Task) -> str:
        answer_a, answer_b = (self.texts[answer] for answer in order)
        item = VerifierItem("", self.problem, answer_a, answer_b, label_a=0, label_b=0, domain="", split=TRAIN)
        return task.prompt(item)

    def _request(self, prompt: str, sample: int) -> SampleRequest:
        # the key is made of what is asked: a comparison kept on disk is found again in any other ranking that needs it
        digest = _digest("call", self.settings.seed, str(sample), prompt)
        return SampleRequest(key=digest[:32], prompt=prompt, seed=int(digest[32:40], 16) & 0x7FFFFFFF)

    def compared(
        self, pair: tuple[int, int], asked: list[list[SampleRequest]], samples: Mapping[str, Sample], task: Task
    ) -> Comparison:
        """What the completions say of a pair."""
        means: list[tuple[Fraction, Fraction]] = []
        n_parsed = 0
        for place, requests in enumerate(asked):
            parsed = [scores for request in requests if (scores := self._scores(samples[request.key], task))]
            n_parsed += len(parsed)
            if parsed:
                a, b = (Fraction(sum(side), len(parsed)) for side in zip(*((s.a, s.b) for s in parsed), strict=True))
                turned = place == 1 if self.settings.both_orders else sum(pair) % 2 == 1
                means.append((b, a) if turned else (a, b))
        first, second = (sum(side) / len(means) for side in zip(*means, strict=True)) if means else (None, None)
        return Comparison(
            *pair,
            score_first=first,
            score_second=second,
            n_calls=sum(map(len, asked)),
            n_parsed=n_parsed,
            one_order=self.settings.both_orders and len(means) == 1,
        )

    def _scores(self, sample: Sample, task: Task) -> Scores | None:
        self.n_cut += sample.finish_reason == "length"
        try:
            scores: Scores = task.parse(sample.text)
        except ParseFailure as failure:
            self.failures[failure.kind] += 1
            return None
        return scores

    def ranking(self) -> Ranking:
        """The order after the last round."""
        comparisons = [one for played in self.played for one in played]
        found = tallies(comparisons, len(self.texts))
        values = self._values(found)
        rank_of: dict[Fraction, int] = {}
        best_first = sorted((value for value in values if value is not None), reverse=True)
        for position, value in enumerate(best_first, start=1):
            rank_of.setdefault(value, position)  # equals share the first of their ranks
        ranks = [None if value is None else rank_of[value] for value in values]
        order = sorted(range(len(values)), key=lambda answer: (math.inf if (r := ranks[answer]) is None else r, answer))
        place = {answer: row for row, answer in enumerate(order)}
        return Ranking(
            settings=self.settings,
            answers=tuple(
                RankedAnswer(
                    text=self.texts[answer],
                    members=self.members[answer],
                    rank=ranks[answer],
                    score=math.nan if (mean := found[answer].value(SCORE)) is None else float(mean),
                    wins=found[answer].wins,
                    ties=found[answer].ties,
                    losses=found[answer].losses,
                    n_unparsed=found[answer].n_unparsed,
                )
                for answer in order
            ),
            comparisons=tuple(_renumbered(one, place) for one in comparisons),
            n_calls=sum(one.n_calls for one in comparisons),
            n_parsed=sum(one.n_parsed for one in comparisons),
            n_cut=self.n_cut,
            failures=dict(sorted(self.failures.items())),
        )

    def _values(self, found: Sequence[Tally]) -> list[Fraction | None]:
        """What each answer is ranked by; the only answer is the best one unasked."""
        if len(found) == 1:
            return [Fraction(0)]
        if self.settings.method != KNOCKOUT:
            return [tally.value(self.settings.rank_by) for tally in found]
        rounds_survived = Counter(answer for left in survivors(self.played, len(found)) for answer in left)
        return [Fraction(rounds_survived[answer]) if tally.n_parsed else None for answer, tally in enumerate(found)]


def _play(
    tournaments: Sequence[_Tournament], stream: Stream, sampling: SamplingSettings, task: Task
) -> Iterator[Ranking]:
    """Play all rounds of several tournaments side by side."""
    while True:
        asked = [
            (tournament, [(pair, tournament.requests(pair, task)) for pair in tournament.pairs()])
            for tournament in tournaments
        ]
        # the same problem may come twice: what is asked twice is answered once
        requests = {
            request.key: request for _, pairs in asked for _, orders in pairs for order in orders for request in order
        }
        if not requests:
            break
        samples = _answered(requests, stream, sampling)
        for tournament, pairs in asked:
            if pairs:
                tournament.played.append([tournament.compared(pair, orders, samples, task) for pair, orders in pairs])
    yield from (tournament.ranking() for tournament in tournaments)


def _answered(requests: Mapping[str, SampleRequest], stream: Stream, sampling: SamplingSettings) -> dict[str, Sample]:
    samples = {sample.key: sample for sample in stream(list(requests.values()), sampling)}
    missing = requests.keys() - samples.keys()
    if missing:
        raise DataError(
            f"verifier: expected a completion for each of {len(requests)} comparisons, {len(missing)} are missing; "
            "run the same command again"
        )
    return samples


def _renumbered(one: Comparison, place: Mapping[int, int]) -> Comparison:
    return Comparison(
        place[one.first],
        place[one.second],
        one.score_first,
        one.score_second,
        n_calls=one.n_calls,
        n_parsed=one.n_parsed,
        one_order=one.one_order,
    )


def _digest(kind: str, seed: int, *texts: str) -> str:
    hashed = hashlib.sha256(f"{kind} {seed}".encode())
    for text in texts:
        raw = text.encode("utf-8", "surrogatepass")
        hashed.update(b"\0%d\0" % len(raw) + raw)
    return hashed.hexdigest()
