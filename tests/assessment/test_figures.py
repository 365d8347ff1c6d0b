"""Figures of scripted verifiers are known; those of a fickle one are counted again one completion at a time."""

from collections import defaultdict
from itertools import combinations

import numpy as np
import pytest

from corpo_rl.assessment.figures import FIGURES, OF_BOTH_ORDERS, accuracy_of_domains, columns_of, measured
from corpo_rl.core.intervals import cluster_bootstrap_intervals
from corpo_rl.tasks.verifier import verifier_measures
from tests.assessment.scripted import (
    ITEMS,
    fickle,
    first_is_right,
    hedging,
    item,
    perfect,
    run,
    scores,
    unreadable,
)

KS = (1, 2, 4)
FLIPS = ("preference_flip_rate", "verdict_flip_rate")


def figures(answers, ks=KS):
    problems = list(dict.fromkeys(answer.item.problem for answer in answers))
    return measured(columns_of(answers, problems), ks=ks)


def values(write, **options):
    return {name: one.figure.value() for name, one in figures(run(write, **options)).items()}


def test_a_perfect_verifier():
    found = values(perfect)
    assert set(found) == {"pass@1", "pass@2", "pass@4", *FIGURES}
    zero = {"brier", "ece", "hedge_rate", "parse_failure_rate", "position_bias", *FLIPS}
    for name, value in found.items():
        # as many right answers as wrong ones: a mean score of 10 / 2
        assert value == (0 if name in zero else 5 if name.startswith("score_as_") else 1), name


def test_a_verifier_that_hedges():
    found = values(hedging)
    assert found["pass@4"] == found["score_accuracy"] == found["mean_reward"] == 0
    assert found["hedge_rate"] == 1
    assert found["ordering"] == found["auroc"] == 0.5
    assert found["brier"] == 0.25
    assert found["ece"] == 0  # half of the answers are right, as 5 of 10 claims
    assert all(found[name] == 0 for name in FLIPS)


def test_a_verifier_that_likes_what_comes_first():
    found = values(first_is_right)
    assert (found["position_bias"], found["score_as_a"], found["score_as_b"]) == (7, 9, 2)
    assert found["preference_flip_rate"] == found["verdict_flip_rate"] == 1
    assert found["ordering"] == found["auroc"] == 0.5
    # every answer gets 9 once and 2 once: mean squared distance of .9 and .2 from 1, and from 0
    assert found["brier"] == pytest.approx(((0.1**2 + 0.8**2) + (0.9**2 + 0.2**2)) / 4)
    assert found["ece"] == pytest.approx((0.4 + 0.3) / 2)  # half right at .9 and at .2
    one_order = values(first_is_right, both_orders=False)
    assert all(np.isnan(one_order[name]) for name in OF_BOTH_ORDERS)
    assert one_order["accuracy_mixed"] == one_order["ordering"] == pytest.approx(4 / 7)


def test_a_verifier_that_cannot_be_read():
    found = figures(run(unreadable))
    assert found["pass@1"].figure.value() == found["accuracy_mixed"].figure.value() == 0
    assert found["parse_failure_rate"].figure.value() == 1
    assert found["mean_reward"].figure.value() == -1
    for name, (over, _) in FIGURES.items():
        undefined = over != "completions"
        assert np.isnan(found[name].figure.value()) == (found[name].n == 0) == undefined, name


def test_every_figure_counted_again_one_completion_at_a_time():
    answers = run(fickle)
    measured_ones = figures(answers)
    found = {name: one.figure.value() for name, one in measured_ones.items()}
    n = {name: one.n for name, one in measured_ones.items()}
    parsed = [one for one in answers if one.scores is not None]
    assert 0 < len(parsed) < len(answers) == 11 * 2 * 4, "the material must have both"

    def right(one):
        if one.scores is None:
            return False
        sides = [(one.scores.a, one.item.label_a), (one.scores.b, one.item.label_b)]
        return all(score >= 6 if label else score <= 4 for score, label in sides)

    expected, over = {}, {}
    for kind, labels in (("mixed", {(0, 1), (1, 0)}), ("both_right", {(1, 1)}), ("both_wrong", {(0, 0)})):
        of_kind = [right(one) for one in answers if (one.item.label_a, one.item.label_b) in labels]
        expected[f"accuracy_{kind}"], over[f"accuracy_{kind}"] = np.mean(of_kind), len(of_kind)
    expected["accuracy_parsed"], over["accuracy_parsed"] = np.mean([right(one) for one in parsed]), len(parsed)

    questions = defaultdict(list)
    for one in answers:
        questions[one.item.item_id, one.item.split, one.swapped].append(right(one))
    for k in KS:
        drawn = [np.mean([any(some) for some in combinations(question, k)]) for question in questions.values()]
        expected[f"pass@{k}"], over[f"pass@{k}"] = np.mean(drawn), len(ITEMS)

    scored = [
        (score, label)
        for one in parsed
        for score, label in ((one.scores.a, one.item.label_a), (one.scores.b, one.item.label_b))
    ]
    pairs = [(p > q) + (p == q) / 2 for p, one in scored for q, other in scored if one and not other]
    expected["auroc"] = np.mean(pairs)
    expected["brier"] = np.mean([(score / 10 - label) ** 2 for score, label in scored])
    expected["score_accuracy"] = np.mean([score > 5 if label else score < 5 for score, label in scored])
    gaps = [
        abs(np.mean([label for score, label in scored if score == level]) - level / 10)
        * sum(score == level for score, _ in scored)
        for level in {score for score, _ in scored}
    ]
    expected["ece"] = sum(gaps) / len(scored)
    over |= dict.fromkeys(("auroc", "brier", "score_accuracy", "ece"), len(scored))
    # the task's own measures agree
    ours = [verifier_measures(one.item, one.scores) for one in parsed]
    assert expected["brier"] == pytest.approx(np.mean([one["brier"] for one in ours]))
    assert expected["score_accuracy"] == pytest.approx(np.mean([one["score_accuracy"] for one in ours]))

    mixed = [one for one in parsed if one.item.label_a != one.item.label_b]
    order = [
        0.5 if one.scores.a == one.scores.b else (one.scores.a > one.scores.b) == bool(one.item.label_a)
        for one in mixed
    ]
    expected["ordering"], over["ordering"] = np.mean(order), len(mixed)
    expected["mean_reward"] = np.mean([one.reward for one in answers])
    expected["hedge_rate"] = np.mean([(one.scores.a, one.scores.b) == (5, 5) for one in parsed])
    expected["parse_failure_rate"] = 1 - len(parsed) / len(answers)
    over |= {"mean_reward": len(answers), "hedge_rate": len(parsed), "parse_failure_rate": len(answers)}

    of_pair = defaultdict(lambda: {False: {}, True: {}})
    for one in parsed:
        of_pair[one.item.item_id, one.item.split][one.swapped][one.sample] = one.scores
    as_a, as_b, preferences, verdicts = [], [], [], []
    for straight, swapped in ((both[False], both[True]) for both in of_pair.values()):
        if straight and swapped:
            mean = lambda found, which: np.mean([getattr(one, which) for one in found.values()])  # noqa: E731
            as_a.append((mean(straight, "a") + mean(swapped, "b")) / 2)
            as_b.append((mean(straight, "b") + mean(swapped, "a")) / 2)
        both = [(straight[number], swapped[number]) for number in straight if number in swapped]
        if both:
            preferences.append(
                np.mean([np.sign(p.a - p.b) == -np.sign(q.a - q.b) != 0 for p, q in both]),
            )
            verdicts.append(
                np.mean(
                    [not all(np.sign(u - 5) == np.sign(v - 5) for u, v in ((p.a, q.a), (p.b, q.b))) for p, q in both]
                )
            )
    expected |= {"score_as_a": np.mean(as_a), "score_as_b": np.mean(as_b)}
    expected["position_bias"] = np.mean(as_a) - np.mean(as_b)
    expected |= {"preference_flip_rate": np.mean(preferences), "verdict_flip_rate": np.mean(verdicts)}
    over |= dict.fromkeys(("score_as_a", "score_as_b", "position_bias"), len(as_a))
    over |= dict.fromkeys(FLIPS, len(preferences))
    assert 0 < expected["preference_flip_rate"] < expected["verdict_flip_rate"] < 1, "the material must have both"

    assert found == pytest.approx(expected)
    assert n == over


def test_a_pair_parsed_in_one_order_only_says_nothing_of_the_order():
    # the right answer is the longer-lived: B first cannot be read
    found = figures(run(lambda first, second, _: scores(9, 2) if first else "?", n_samples=1, items=ITEMS[:7]))
    assert found["accuracy_parsed"].n == 7
    for name in OF_BOTH_ORDERS:
        assert found[name].n == 0
        assert np.isnan(found[name].figure.value())


def test_ties_are_no_preference():
    found = values(lambda first, second, request: scores(7, 7) if "/ba/" in request.key else scores(9, 1))
    assert found["preference_flip_rate"] == 0
    assert found["verdict_flip_rate"] == 1  # of the second answer: 1 and 7
    assert found["position_bias"] == 4  # (9 - 7 + 7 - 1) / 2


def test_pass_at_k_of_more_than_was_sampled_is_undefined():
    found = figures(run(fickle, n_samples=2), ks=(2, 3))
    assert np.isnan(found["pass@3"].figure.value())
    assert (found["pass@2"].n, found["pass@3"].n) == (11, 0)


def test_domains():
    answers = run(lambda first, second, _: scores(9, 1), n_samples=1, both_orders=False)
    problems = list(dict.fromkeys(answer.item.problem for answer in answers))
    found = accuracy_of_domains(columns_of(answers, problems), answers)
    assert {name: (one.figure.value(), one.n) for name, one in found.items()} == {
        "made": (pytest.approx(4 / 7), 7),
        "other": (0, 4),
    }


def test_pairs_of_a_problem_are_drawn_together():
    items = [item(number, 1, 0, problem=f"problem {1 if number < 8 else 2}") for number in range(10)]

    def by_problem(first, second, request):
        knows = "problem 1" in request.prompt
        return scores(10 * first, 10 * second) if knows else scores(10 - 10 * first, 10 - 10 * second)

    found = figures(run(by_problem, items=items))["accuracy_mixed"].figure
    (interval,) = cluster_bootstrap_intervals([found], rng=np.random.default_rng(0))
    # two problems: a resample has both, or one of them twice
    assert (interval.value, interval.low, interval.high) == (pytest.approx(0.8), 0, 1)
    alone = figures(run(by_problem, items=items[:8]))["accuracy_mixed"].figure
    (interval,) = cluster_bootstrap_intervals([alone], rng=np.random.default_rng(0))
    assert interval.value == 1
    assert np.isnan([interval.low, interval.high]).all()
