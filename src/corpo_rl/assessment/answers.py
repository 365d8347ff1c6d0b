"""A verifier's completions on pairs: what is asked, what came back, and what was read in it."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from corpo_rl.errors import DataError, ParseFailure, UsageError
from corpo_rl.records import Sample, SampleRequest, SamplingSettings, VerifierItem
from corpo_rl.tasks.base import Task
from corpo_rl.tasks.pairs import PairsTask
from corpo_rl.tasks.verifier import MIN_CORRECT, UNPARSABLE_REWARD, Scores, min_margin_reward

Stream = Callable[[Sequence[SampleRequest], SamplingSettings], Iterator[Sample]]
"""A policy: requests and settings -> completions in any order; see `corpo_rl.policies.opening.open_policy`."""


@dataclass(frozen=True)
class Answer:
    """One completion on one pair."""

    item: VerifierItem
    swapped: bool
    """Whether the pair was shown with its answers the other way round."""
    sample: int
    """Its number among the completions of this pair in this order, from 0."""
    text: str
    finish_reason: str
    scores: Scores | None
    """The score of each answer of `item`, in the item's own order however it was shown; None when not parsed."""
    failure: str | None
    """Kind of parse failure."""

    @property
    def reward(self) -> float:
        """The verifier's reward, in [-1, 1]; `UNPARSABLE_REWARD` when not parsed."""
        return UNPARSABLE_REWARD if self.scores is None else min_margin_reward(self.item, self.scores)

    @property
    def correct(self) -> bool:
        """Whether both scores are on the right side of 5, by a point or more; what is not parsed is not."""
        return self.reward >= MIN_CORRECT


def ask(
    items: Sequence[VerifierItem],
    stream: Stream,
    *,
    n_samples: int,
    both_orders: bool,
    settings: SamplingSettings,
    seed: int,
    task: Task | None = None,
    on_answer: Callable[[int], None] | None = None,
) -> list[Answer]:
    """Sample and read `n_samples` completions on every pair, and as many with its answers the other way round.

    Args:
        items: The pairs.
        stream: Where completions come from.
        n_samples: Completions of each pair and order, at least 1.
        both_orders: Whether each pair is shown in both orders.
        settings: How completions are drawn.
        seed: Decides the seed of every request.
        task: How pairs are put and scores are read; its answers are `Scores`. By default `PairsTask`.
        on_answer: Called with the number of completions done so far.

    Returns:
        The answers in the order of the items, then of the orders, then of the samples.

    Raises:
        UsageError: `n_samples` is under 1.
        DataError: There is no item, two of a split have the same id, or the policy did not answer every request.
    """
    if n_samples < 1:
        raise UsageError(f"n_samples: expected at least 1, found {n_samples}")
    if not items:
        raise DataError("expected at least one pair, found none")
    task = PairsTask(items) if task is None else task
    asked = {
        f"{item.split}/{item.item_id}/{'ba' if swapped else 'ab'}/{number}": (item, swapped, number)
        for item in items
        for swapped in ((False, True) if both_orders else (False,))
        for number in range(n_samples)
    }
    if len(asked) < len(items) * (1 + both_orders) * n_samples:
        raise DataError("expected an item_id for each pair that no other pair of its split has, found one twice")
    requests = [
        SampleRequest(key, task.prompt(shown_item(item, swapped=swapped)), _seed(seed, key))
        for key, (item, swapped, _) in asked.items()
    ]
    found: dict[str, Answer] = {}
    for sample in stream(requests, settings):
        item, swapped, number = asked[sample.key]
        scores, failure = _read(task, sample.text, swapped=swapped)
        found[sample.key] = Answer(item, swapped, number, sample.text, sample.finish_reason, scores, failure)
        if on_answer:
            on_answer(len(found))
    if len(found) != len(asked):
        raise DataError(f"the policy answered {len(found)} of {len(asked)} requests")
    return [found[key] for key in asked]


def shown_item(item: VerifierItem, *, swapped: bool) -> VerifierItem:
    """The pair as a verifier sees it: with its answers the other way round when `swapped`."""
    if not swapped:
        return item
    return replace(item, answer_a=item.answer_b, answer_b=item.answer_a, label_a=item.label_b, label_b=item.label_a)


def _read(task: Task, text: str, *, swapped: bool) -> tuple[Scores | None, str | None]:
    try:
        scores = task.parse(text)
    except ParseFailure as failure:
        return None, failure.kind
    return (Scores(scores.b, scores.a) if swapped else scores), None


def _seed(seed: int, key: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}/{key}".encode()).digest()[:4], "big") >> 1
