"""Pairs, and verifiers with a script instead of a model."""

import numpy as np

from corpo_rl.assessment.answers import ask
from corpo_rl.records import Sample, SamplingSettings, VerifierItem

SETTINGS = SamplingSettings(max_new_tokens=8, temperature=1.0)


def item(number, label_a, label_b, *, split="in_domain", problem=None, domain="made"):
    return VerifierItem(
        item_id=str(number),
        problem=problem or f"problem {number}",
        answer_a=f"a{number} {'good' if label_a else 'bad'}",
        answer_b=f"b{number} {'good' if label_b else 'bad'}",
        label_a=label_a,
        label_b=label_b,
        domain=domain,
        split=split,
    )


# 7 mixed pairs, A right in 1, 3, 5 and 6, two of them of one problem; 2 pairs of two wrong and 2 of two right answers
ITEMS = [
    *(item(number, number % 2, 1 - number % 2) for number in range(6)),
    item(6, 1, 0, problem="problem 1"),
    *(item(10 + number, number % 2, number % 2, split="ood", domain="other") for number in range(4)),
]


def stream_of(write):
    """A policy that writes what `write(first is good, second is good, request)` says, last request first."""

    def stream(requests, settings):
        for request in reversed(requests):
            first = "good" in request.prompt.split("Answer A:\n")[1].split("\n")[0]
            second = "good" in request.prompt.split("Answer B:\n")[1].split("\n")[0]
            yield Sample(request.key, write(first, second, request), "stop")

    return stream


def scores(first, second):
    return f"A: {first}\nB: {second}"


def perfect(first, second, _):
    return scores(10 * first, 10 * second)


def hedging(*_):
    return scores(5, 5)


def first_is_right(*_):
    return scores(9, 2)


def unreadable(*_):
    return "I would not know"


def fickle(first, second, request):
    """Anything, by the request's seed; now and then unreadable."""
    rng = np.random.default_rng(request.seed)
    if rng.random() < 0.2:
        return "no idea" if rng.random() < 0.5 else ""
    draw = lambda good: int(np.clip(rng.normal(6.5 if good else 4.5, 2.5), 0, 10))  # noqa: E731
    return scores(draw(first), draw(second))


def run(write, *, n_samples=4, both_orders=True, items=ITEMS, seed=0, **more):
    return ask(
        items, stream_of(write), n_samples=n_samples, both_orders=both_orders, settings=SETTINGS, seed=seed, **more
    )
