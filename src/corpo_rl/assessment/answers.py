"""A verifier's completions on pairs: what is asked, what came back, and what was read in it."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from corpo_rl.errors import DataError, ParseFailure, UsageError
from corpo_rl.records import Sample, SampleRequest, SamplingSettings, VerifierItem
from corpo_rl.tasks.pairs import PairsTask
from corpo_rl.tasks.verifier import MIN_CORRECT, Scores, min_margin_reward

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
    def correct(self) -> bool:
        """Whether both scores are on the right side of 5, by a point or more; what is not parsed is not."""
        return self.scores is not None and min_margin_reward(self.item, self.scores) >= MIN_CORRECT


def ask(
    items: Sequence[VerifierItem],
    stream: Stream,
    *,
    n_samples: int,
    both_orders: bool,
    settings: SamplingSettings,
    seed: int,
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
        on_answer: Called with the number of completions done so far.

    Returns:
        The answers in the order of the items, then of the orders, then of the samples.

    Raises:
        UsageError: `n_samples` is under 1.
        DataError: There is no item, or the policy did not answer every request.
    """
    if n_samples < 1:
        raise UsageError(f"n_samples: expected at least 1, found {n_samples}")
    task = PairsTask(items)
    asked = {
        f"{item.split}/{item.item_id}/{'ba' if swapped else 'ab'}/{number}": (item, swapped, number)
        for item in items
        for swapped in ((False, True) if both_orders else (False,))
        for number in range(n_samples)
    }
    prompts = {swapped: [task.prompt(_shown(item, swapped=swapped)) for item in items] for swapped in (False, True)}
    prompt_of = {
        (item.split, item.item_id, swapped): prompts[swapped][place]
        for place, item in enumerate(items)
        for swapped in prompts
    }
    requests = [
        SampleRequest(key, prompt_of[item.split, item.item_id, swapped], _seed(seed, key))
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


def _shown(item: VerifierItem, *, swapped: bool) -> VerifierItem:
    if not swapped:
        return item
    return replace(item, answer_a=item.answer_b, answer_b=item.answer_a, label_a=item.label_b, label_b=item.label_a)


def _read(task: PairsTask, text: str, *, swapped: bool) -> tuple[Scores | None, str | None]:
    try:
        scores = task.parse(text)
    except ParseFailure as failure:
        return None, failure.kind
    return (Scores(scores.b, scores.a) if swapped else scores), None


def _seed(seed: int, key: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}/{key}".encode()).digest()[:4], "big") >> 1
