import numpy as np
import pytest

from corpo_rl.assessment.document import assess
from corpo_rl.errors import DataError
from tests.assessment.scripted import ITEMS, fickle, hedging, perfect, run, scores, unreadable


def document_of(ks=(1, 2), **answers):
    return assess(answers, ks=ks, n_resamples=300)


def test_splits_are_counted_and_joined():
    document = document_of(m=run(perfect, n_samples=2))
    assert list(document["splits"]) == ["all", "in_domain", "ood"]
    whole, ood = document["splits"]["all"], document["splits"]["ood"]
    assert (whole["n_pairs"], whole["n_problems"]) == (11, 10)
    assert whole["kinds"] == {"mixed": 7, "both_right": 2, "both_wrong": 2}
    assert whole["domains"] == {"made": 7, "other": 4}
    assert ood["kinds"] == {"mixed": 0, "both_right": 2, "both_wrong": 2}
    assert ood["models"]["m"]["n_completions"] == 4 * 2 * 2
    assert ood["models"]["m"]["figures"]["accuracy_mixed"] == {"value": None, "low": None, "high": None, "n": 0}
    assert ood["models"]["m"]["domains"] == {"other": {"value": 1.0, "low": 1.0, "high": 1.0, "n": 16}}
    alone = document_of(m=run(perfect, n_samples=2, items=ITEMS[:7]))
    assert list(alone["splits"]) == ["in_domain"], "one split is all there is"


def test_two_models_are_compared_on_the_same_problems():
    document = document_of(bad=run(hedging, n_samples=2), good=run(perfect, n_samples=2))
    models = document["splits"]["all"]["models"]
    assert models["bad"]["differences"] is None
    apart = models["good"]["differences"]["figures"]
    assert apart["pass@1"] == {"value": 1.0, "low": 1.0, "high": 1.0, "verdict": "higher"}
    assert apart["brier"] == {"value": -0.25, "low": -0.25, "high": -0.25, "verdict": "lower"}
    assert models["good"]["differences"]["domains"]["other"]["value"] == 1.0
    same = document_of(one=run(fickle), other=run(fickle))["splits"]["all"]["models"]["other"]
    # the same completions: no difference in any resample, though each model's own interval is wide
    assert same["differences"]["figures"]["auroc"] == {
        "value": 0.0,
        "low": 0.0,
        "high": 0.0,
        "verdict": "no difference found",
    }
    assert same["figures"]["auroc"]["high"] - same["figures"]["auroc"]["low"] > 0.05


def test_intervals_of_differences_are_those_of_a_plain_loop():
    answers = {"one": run(fickle, seed=1), "other": run(fickle, seed=2)}
    found = assess(answers, ks=(1,), seed=7, n_resamples=150)["splits"]["all"]["models"]["other"]["differences"]
    problems = list(dict.fromkeys(pair.problem for pair in ITEMS))
    reward = {
        name: {problem: [one.reward for one in given if one.item.problem == problem] for problem in problems}
        for name, given in answers.items()
    }
    drawn = []
    for places in np.random.default_rng(7).integers(len(problems), size=(150, len(problems))):
        means = [np.concatenate([reward[name][problems[place]] for place in places]).mean() for name in answers]
        drawn.append(means[1] - means[0])
    low, high = np.quantile(drawn, [0.025, 0.975])
    difference = found["figures"]["mean_reward"]
    assert (difference["low"], difference["high"]) == (pytest.approx(low), pytest.approx(high))


def test_scores_are_counted_by_level():
    answers = run(lambda first, second, _: scores(8 if first else 3, 8 if second else 3), n_samples=1)
    rows = document_of(ks=(1,), m=answers)["splits"]["all"]["models"]["m"]["scores"]
    assert [row["score"] for row in rows] == list(range(11))
    # 11 right and 11 wrong answers, each shown in two orders
    assert rows[8] == {"score": 8, "n_right": 22, "n_wrong": 0, "right_share": {"value": 1.0, "low": 1.0, "high": 1.0}}
    assert (rows[3]["n_right"], rows[3]["n_wrong"], rows[3]["right_share"]["value"]) == (0, 22, 0.0)
    assert rows[5]["right_share"] == {"value": None, "low": None, "high": None}


def test_failures_are_counted_by_kind_and_cuts_apart():
    answers = run(fickle)
    one = document_of(m=answers)["splits"]["all"]["models"]["m"]
    kinds = [answer.failure for answer in answers if answer.failure]
    assert one["parse_failures"] == {
        kind: kinds.count(kind) for kind in sorted(set(kinds), key=lambda k: -kinds.count(k))
    }
    assert one["n_parsed"] == len(answers) - len(kinds)
    assert one["n_cut"] == 0


def test_examples_are_the_surest_and_the_furthest_off_and_each_failure():
    answers = run(fickle)
    examples = document_of(m=answers)["examples"]["m"]
    assert [one["outcome"] for one in examples] == ["correct"] * 2 + ["wrong"] * 2 + ["not parsed"] * 2

    def rewards(outcome):
        return [
            min((2 * one[f"label_{x}"] - 1) * (one[f"score_{x}"] - 5) / 5 for x in "ab")
            for one in examples
            if one["outcome"] == outcome
        ]

    parsed = sorted(answer.reward for answer in answers if answer.scores is not None)
    assert rewards("wrong") == parsed[:2]
    assert rewards("correct") == parsed[::-1][:2]
    assert {one["failure"] for one in examples if one["outcome"] == "not parsed"} == {"no_scores", "empty"}
    for one in examples:
        assert (one["score_a"] is None) == (one["outcome"] == "not parsed") == (one["failure"] is not None)


def test_long_texts_are_cut():
    (answer, *_) = run(lambda *_: "x" * 5000, n_samples=1, items=ITEMS[:1])
    (example,) = document_of(ks=(1,), m=[answer])["examples"]["m"]
    assert example["completion"] == "x" * 3997 + "..."


def test_no_models_parsed_is_a_document_all_the_same():
    one = document_of(m=run(unreadable, n_samples=2))["splits"]["all"]["models"]["m"]
    assert (one["n_parsed"], one["parse_failures"]) == (0, {"no_scores": 44})


def test_models_of_other_pairs_are_not_compared():
    with pytest.raises(DataError, match="not asked about the same pairs"):
        assess({"one": run(perfect), "other": run(perfect, items=ITEMS[:3])}, ks=(1,))
    with pytest.raises(DataError, match="expected the completions of one model or more"):
        assess({}, ks=(1,))
