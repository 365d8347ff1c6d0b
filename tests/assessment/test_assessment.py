"""Verifiers with a script instead of a model: their figures are known, or counted again one completion at a time."""

import math
from collections import defaultdict
from itertools import combinations

import numpy as np
import pytest

from corpo_rl.assessment.answers import ask
from corpo_rl.assessment.document import assess
from corpo_rl.assessment.figures import FIGURES
from corpo_rl.errors import DataError, UsageError
from corpo_rl.records import Sample, SamplingSettings, VerifierItem

SETTINGS = SamplingSettings(max_new_tokens=8, temperature=1.0)
KS = (1, 2, 4)


def item(number, label_a, label_b, *, split="in_domain", problem=None):
    return VerifierItem(
        item_id=str(number),
        problem=problem or f"problem {number}",
        answer_a=f"a{number} {'good' if label_a else 'bad'}",
        answer_b=f"b{number} {'good' if label_b else 'bad'}",
        label_a=label_a,
        label_b=label_b,
        domain="made",
        split=split,
    )


ITEMS = [
    *(item(number, number % 2, 1 - number % 2) for number in range(6)),
    item(6, 1, 0, problem="problem 1"),
    *(item(10 + number, number % 2, number % 2, split="ood") for number in range(4)),
]


def stream_of(write):
    """A policy that writes what `write(first is good, second is good, request)` says."""

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


def fickle(first, second, request):
    """Anything, by the request's seed; now and then unreadable."""
    rng = np.random.default_rng(request.seed)
    if rng.random() < 0.2:
        return "no idea" if rng.random() < 0.5 else ""
    draw = lambda good: int(np.clip(rng.normal(6.5 if good else 4.5, 2.5), 0, 10))  # noqa: E731
    return scores(draw(first), draw(second))


def run(write, *, n_samples=4, both_orders=True, items=ITEMS, seed=0):
    return ask(items, stream_of(write), n_samples=n_samples, both_orders=both_orders, settings=SETTINGS, seed=seed)


def figures(write, split="all", **options):
    return assess({"m": run(write, **options)}, ks=KS)["splits"][split]["models"]["m"]["figures"]


def values(write, split="all", **options):
    return {name: one["value"] for name, one in figures(write, split, **options).items()}


def test_a_perfect_verifier():
    found = values(perfect)
    assert {name for name in found if not name.startswith("pass@")} == set(FIGURES)
    for name in (
        "pass@1",
        "pass@4",
        "accuracy",
        "accuracy_mixed",
        "accuracy_both_right",
        "ordering",
        "auroc",
        "mean_reward",
    ):
        assert found[name] == 1, name
    for name in ("brier", "ece", "hedge_rate", "parse_failure_rate", "position_bias", "order_flip_rate"):
        assert found[name] == 0, name


def test_a_verifier_that_hedges():
    found = values(lambda *_: scores(5, 5))
    assert found["accuracy"] == 0
    assert found["hedge_rate"] == 1
    assert found["ordering"] == found["auroc"] == 0.5
    assert found["brier"] == 0.25
    assert found["mean_reward"] == 0


def test_a_verifier_that_likes_what_comes_first():
    found = values(lambda *_: scores(9, 2))
    assert found["position_bias"] == 7
    assert found["order_flip_rate"] == 1
    assert found["ordering"] == 0.5
    one_order = values(lambda *_: scores(9, 2), both_orders=False)
    assert math.isnan(one_order["order_flip_rate"])
    # A is the right one in pairs 1, 3, 5 and 6 of the seven mixed pairs
    assert one_order["accuracy_mixed"] == pytest.approx(4 / 7)


def test_a_verifier_that_cannot_be_read():
    document = assess({"m": run(lambda *_: "I would not know")}, ks=KS)["splits"]["all"]["models"]["m"]
    found = {name: one["value"] for name, one in document["figures"].items()}
    assert found["accuracy"] == 0
    assert found["parse_failure_rate"] == 1
    assert found["mean_reward"] == -1
    for name in ("auroc", "brier", "ece", "ordering", "hedge_rate", "position_bias", "order_flip_rate"):
        assert math.isnan(found[name]), name
    assert document["n_parsed"] == 0
    assert document["parse_failures"] == {"no_scores": 11 * 2 * 4}
    assert sum(document["right_by_score"]) == 0


def test_every_figure_counted_again_one_completion_at_a_time():
    answers = run(fickle)
    found = {
        name: one["value"]
        for name, one in assess({"m": answers}, ks=KS)["splits"]["all"]["models"]["m"]["figures"].items()
    }
    parsed = [one for one in answers if one.scores is not None]
    assert 0 < len(parsed) < len(answers), "the material must have both"

    def right(one):
        if one.scores is None:
            return False
        sides = [(one.scores.a, one.item.label_a), (one.scores.b, one.item.label_b)]
        return all(score >= 6 if label else score <= 4 for score, label in sides)

    assert found["accuracy"] == pytest.approx(np.mean([right(one) for one in answers]))
    for kind, labels in (("mixed", {(0, 1), (1, 0)}), ("both_right", {(1, 1)}), ("both_wrong", {(0, 0)})):
        of_kind = [right(one) for one in answers if (one.item.label_a, one.item.label_b) in labels]
        assert found[f"accuracy_{kind}"] == pytest.approx(np.mean(of_kind))

    questions = defaultdict(list)
    for one in answers:
        questions[one.item.item_id, one.item.split, one.swapped].append(right(one))
    for k in KS:
        drawn = [np.mean([any(some) for some in combinations(question, k)]) for question in questions.values()]
        assert found[f"pass@{k}"] == pytest.approx(np.mean(drawn))

    scored = [
        (score, label)
        for one in parsed
        for score, label in ((one.scores.a, one.item.label_a), (one.scores.b, one.item.label_b))
    ]
    pairs = [(p > q) + (p == q) / 2 for p, one in scored for q, other in scored if one and not other]
    assert found["auroc"] == pytest.approx(np.mean(pairs))
    assert found["brier"] == pytest.approx(np.mean([(score / 10 - label) ** 2 for score, label in scored]))
    gaps = [
        abs(np.mean([label for score, label in scored if score == level]) - level / 10)
        * sum(score == level for score, _ in scored)
        for level in {score for score, _ in scored}
    ]
    assert found["ece"] == pytest.approx(sum(gaps) / len(scored))
    mixed = [one for one in parsed if one.item.label_a != one.item.label_b]
    assert found["ordering"] == pytest.approx(
        np.mean(
            [
                0.5 if one.scores.a == one.scores.b else (one.scores.a > one.scores.b) == bool(one.item.label_a)
                for one in mixed
            ]
        )
    )
    assert found["position_bias"] == pytest.approx(
        np.mean([(one.scores.a - one.scores.b) * (-1 if one.swapped else 1) for one in parsed])
    )
    by_key = {(one.item.item_id, one.item.split, one.sample, one.swapped): one.scores for one in parsed}
    flips = []
    for (item_id, split, number, swapped), straight in by_key.items():
        other = by_key.get((item_id, split, number, True))
        if not swapped and other is not None:
            flips += [np.sign(straight.a - 5) != np.sign(other.a - 5), np.sign(straight.b - 5) != np.sign(other.b - 5)]
    assert found["order_flip_rate"] == pytest.approx(np.mean(flips))
    assert found["parse_failure_rate"] == pytest.approx(1 - len(parsed) / len(answers))


def test_scores_belong_to_the_answers_however_they_were_shown():
    answers = run(lambda first, second, _: scores(8 if first else 1, 8 if second else 1), n_samples=1)
    for one in answers:
        assert (one.scores.a, one.scores.b) == (8 if one.item.label_a else 1, 8 if one.item.label_b else 1)
    assert len(answers) == 2 * len(ITEMS)


def test_intervals_resample_problems():
    def by_problem(first, second, request):
        good = "problem 1" in request.prompt
        return scores(10 * first, 10 * second) if good else scores(10 - 10 * first, 10 - 10 * second)

    items = [item(number, 1, 0, problem=f"problem {1 if number < 8 else 2}") for number in range(10)]
    found = figures(by_problem, "in_domain", items=items, both_orders=False)["accuracy"]
    assert found["value"] == pytest.approx(0.8)
    # two problems: a resample has both, or one of them twice
    assert (found["low"], found["high"]) == (0, 1)
    one = figures(by_problem, "in_domain", items=items[:8], both_orders=False)["accuracy"]
    assert math.isnan(one["low"])


def test_two_models_are_compared_on_the_same_problems():
    document = assess({"bad": run(lambda *_: scores(5, 5)), "good": run(perfect)}, ks=KS)
    models = document["splits"]["all"]["models"]
    assert models["bad"]["differences"] is None
    assert models["good"]["differences"]["accuracy"] == {"value": 1, "low": 1, "high": 1}
    assert models["good"]["differences"]["brier"]["value"] == -0.25
    same = assess({"one": run(fickle), "other": run(fickle)}, ks=KS)["splits"]["all"]["models"]["other"]["differences"]
    # the same completions: no difference in any resample, though each model's own interval is wide
    assert same["accuracy"] == {"value": 0, "low": 0, "high": 0}


def test_examples_show_each_outcome():
    examples = assess({"m": run(fickle)}, ks=KS)["examples"]["m"]
    assert {one["outcome"] for one in examples} == {"correct", "wrong", "not parsed"}
    for one in examples:
        assert (one["score_a"] is None) == (one["outcome"] == "not parsed") == (one["failure"] is not None)


def test_what_cannot_be():
    with pytest.raises(UsageError, match="n_samples: expected at least 1, found 0"):
        run(perfect, n_samples=0)
    with pytest.raises(DataError, match="expected at least one pair, found none"):
        run(perfect, items=[])
    with pytest.raises(DataError, match="answered 2 of 11 requests"):
        ask(ITEMS, lambda requests, _: iter([Sample(one.key, "", "stop") for one in requests[:2]]), n_samples=1,
            both_orders=False, settings=SETTINGS, seed=0)  # fmt: skip
    with pytest.raises(DataError, match="not asked about the same pairs"):
        assess({"one": run(perfect), "other": run(perfect, items=ITEMS[:3])}, ks=KS)
    with pytest.raises(DataError, match="expected the completions of one model or more"):
        assess({}, ks=KS)
