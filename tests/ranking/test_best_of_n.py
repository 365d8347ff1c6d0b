import math
import random
import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpo_rl.core.passk import pass_at_k
from corpo_rl.errors import DataError, UsageError
from corpo_rl.ranking.best_of_n import AnswerGroup, best_of_n, best_of_n_document, draw_answers, draw_calls
from corpo_rl.ranking.result import RankingSettings
from corpo_rl.ranking.schedule import METHODS
from corpo_rl.records import LabelledCandidate
from tests.ranking.verifiers import GREEDY, Verifier, by_quality


def labelled(problem_id, number, text, correct, source="model"):
    status = "not_judged" if correct is None else "ok" if correct else "wrong"
    return LabelledCandidate(problem_id, str(number), source, text, correct, int(bool(correct)), 1, status)


def group(problem_id, *labels):
    """A problem whose answers are told apart by their texts: "right 0", "wrong 1", ..."""
    texts = [f"{'right' if label else 'wrong'} {number}" for number, label in enumerate(labels)]
    answers = tuple(labelled(problem_id, row, *one) for row, one in enumerate(zip(texts, labels, strict=True)))
    return AnswerGroup(problem_id, f"Problem {problem_id}?", answers)


def mixed_groups(n_problems=30, n_answers=6, seed=0):
    """Problems with none to all answers right."""
    draw = random.Random(seed)
    return [group(str(row), *(draw.random() < row / n_problems for _ in range(n_answers))) for row in range(n_problems)]


def tried(groups, verifier, n=4, *, votes=None, seed=0, **options):
    draw = draw_answers(groups, n, seed=seed)
    return best_of_n(draw, verifier, sampling=GREEDY, settings=RankingSettings(seed=seed, **options), votes=votes)


def column(found, name):
    return [getattr(choice, name) for choice in found.choices]


def perfect(answer):
    return 9 if answer.startswith("right") else 2


@pytest.mark.parametrize("method", METHODS)
def test_a_perfect_verifier_is_the_oracle(method):
    found = tried(mixed_groups(), by_quality(perfect), method=method)
    assert column(found, "verifier") == column(found, "oracle")
    figures = found.figures()
    assert figures["verifier"] == figures["oracle"]
    assert figures["headroom"].value == figures["headroom"].low == figures["headroom"].high == 1.0
    assert 0 < figures["random"].value < figures["verifier"].value < 1


@pytest.mark.parametrize("method", ["round-robin", "swiss"])
def test_a_verifier_that_scores_all_alike_is_worth_a_blind_pick_exactly(method):
    found = tried(mixed_groups(), by_quality(lambda answer: 5), method=method)
    assert column(found, "verifier") == column(found, "random")
    assert found.figures()["gain"].value == found.figures()["headroom"].value == 0.0
    assert found.n_tied == sum(0 < share < 1 for share in column(found, "random"))


def test_a_knockout_among_equals_is_worth_a_blind_pick_on_average():
    groups = [group(str(row), True, False, False, False) for row in range(2000)]
    found = tried(groups, by_quality(lambda answer: 5), method="knockout")
    # the lot picks one of four: 0.25, with a standard error of sqrt(0.25 x 0.75 / 2000) = 0.0097
    assert abs(np.mean(column(found, "verifier")) - 0.25) < 4 * 0.0097
    assert set(column(found, "verifier")) == {0.0, 1.0}


@pytest.mark.parametrize("method", METHODS)
def test_an_adversarial_verifier_finds_the_worst(method):
    found = tried(mixed_groups(), by_quality(lambda answer: 10 - perfect(answer)), method=method)
    labels = [[answer.correct for answer in drawn.answers] for drawn in found.draw.groups]
    assert column(found, "verifier") == [float(all(row)) for row in labels]
    assert found.figures()["headroom"].value < 0


def test_figures_by_hand():
    # best of 2 of: right and wrong (the verifier errs), wrong and wrong, right and right, right and wrong (it does not)
    groups = [group("a", True, False), group("b", False, False), group("c", True, True), group("d", True, False)]
    erring = [("right 0", "wrong 1")]

    def judge(a, b):
        return (3, 3) if erring and {a, b} == set(erring[0]) else (perfect(a), perfect(b))

    found = tried(groups, Verifier(judge), n=2)
    assert column(found, "random") == [0.5, 0.0, 1.0, 0.5]
    assert column(found, "oracle") == [1.0, 0.0, 1.0, 1.0]
    assert column(found, "verifier") == [0.5, 0.0, 1.0, 0.5]  # tied at 3 in both
    assert found.n_tied == 2
    erring.clear()
    found = tried(groups, by_quality(perfect), n=2)
    assert column(found, "verifier") == [1.0, 0.0, 1.0, 1.0]
    figures = found.figures()
    assert {name: figures[name].value for name in ("verifier", "random", "oracle", "gain", "headroom")} == {
        "verifier": 0.75,
        "random": 0.5,
        "oracle": 0.75,
        "gain": 0.25,
        "headroom": 1.0,
    }
    assert math.isnan(figures["majority"].value)


def test_random_is_what_picking_each_answer_in_turn_gives():
    found = tried(mixed_groups(), by_quality(perfect))
    for drawn, choice in zip(found.draw.groups, found.choices, strict=True):
        picks = [Fraction(bool(answer.correct)) for answer in drawn.answers]
        assert choice.random == float(sum(picks) / len(picks))


def test_the_oracle_over_all_draws_is_pass_at_n():
    groups = [group(str(row), True, True, False, False, False, False) for row in range(4000)]
    found = tried(groups, by_quality(perfect), n=3)
    expected = float(pass_at_k(2, 6, k=3))  # 1 - C(4, 3) / C(6, 3) = 0.8
    assert abs(np.mean(column(found, "oracle")) - expected) < 4 * math.sqrt(expected * (1 - expected) / 4000)


def test_draws_are_nested_and_do_not_depend_on_other_problems_or_the_order_of_rows():
    groups = mixed_groups()
    draws = {n: draw_answers(groups, n, seed=3) for n in (2, 4, 6)}
    for small, middle, large in zip(*(draws[n].groups for n in (2, 4, 6)), strict=True):
        assert small.answers == middle.answers[:2]
        assert middle.answers == large.answers[:4]
        assert len(set(large.answers)) == 6
    turned = [AnswerGroup(one.problem_id, one.problem, one.answers[::-1]) for one in groups[5:]]
    assert draw_answers(turned, 4, seed=3).groups == draws[4].groups[5:]
    assert draw_answers(groups, 4, seed=4).groups != draws[4].groups


def test_a_larger_n_asks_only_what_a_smaller_one_did_not():
    asked_of = {}
    for n in (3, 5):
        verifier = by_quality(perfect)
        tried(mixed_groups(), verifier, n=n)
        asked_of[n] = {(request.key, request.prompt, request.seed) for batch in verifier.batches for request in batch}
    assert asked_of[3] < asked_of[5]


def test_what_was_not_judged_is_never_drawn_and_small_problems_are_left_out():
    groups = [group("a", True, False, True, None), group("b", True, None, None), group("c", False, False, False)]
    draw = draw_answers(groups, 3, seed=0)
    assert [drawn.problem_id for drawn in draw.groups] == ["a", "c"]
    assert (draw.n_too_few, draw.n_not_judged) == (1, 3)
    assert all(answer.correct is not None for drawn in draw.groups for answer in drawn.answers)
    message = "best of 4: expected problems with at least 4 judged answers, found none among 3 (the most is 3)"
    with pytest.raises(DataError, match=re.escape(message)):
        draw_answers(groups, 4, seed=0)
    with pytest.raises(UsageError, match="best of n: expected n of at least 2, got 1"):
        draw_answers(groups, 1, seed=0)


def test_nothing_parsed_is_a_blind_pick_and_counted():
    found = tried(mixed_groups(), Verifier(lambda a, b: "Both are lovely", finish_reason="length"))
    assert found.n_unranked == len(found.choices) == 30
    assert column(found, "verifier") == column(found, "random")
    assert (found.n_parsed, found.n_tied) == (0, 0)
    assert found.failures == {"no_scores": found.n_calls}
    assert found.n_cut == found.n_calls == draw_calls(found.draw, found.settings) == 30 * 6 * 2


def test_repeated_texts_are_asked_once_and_keep_their_weight():
    answers = tuple(labelled("a", row, text, text == "yes") for row, text in enumerate(["yes", "no", "no", "no"]))
    verifier = by_quality(lambda answer: 5)
    found = tried([AnswerGroup("a", "Is it?", answers)], verifier)
    assert verifier.n_calls == draw_calls(found.draw, found.settings) == 2
    # a tie of two texts: picked by answer, not by text, or a verifier that knows nothing would seem to know something
    assert found.choices[0].verifier == found.choices[0].random == 0.25


def test_identical_answers_need_no_verifier():
    answers = tuple(labelled("a", row, "same", True) for row in range(4))
    verifier = by_quality(perfect)
    found = tried([AnswerGroup("a", "Is it?", answers)], verifier)
    assert verifier.n_calls == 0
    assert found.choices[0].verifier == 1.0
    assert found.choices[0].ranked


@pytest.mark.parametrize(
    ("votes", "labels", "expected"),
    [
        ("aab", [0, 0, 1], 0),
        ("aab", [1, 1, 0], 1),
        ("aabb", [1, 1, 0, 0], 1 / 2),
        ("abc", [1, 0, 0], 1 / 3),
        ("aa--", [1, 0, 1, 1], 1 / 2),  # equal votes with different labels: one of the two voters
        ("----", [1, 0, 0, 0], 1 / 4),  # nobody votes: a blind pick
        ("a---", [0, 1, 1, 1], 0),
    ],
)
def test_majority_by_hand(votes, labels, expected):
    answers = tuple(
        labelled("a", row, f"{row} says {vote}", bool(label))
        for row, (vote, label) in enumerate(zip(votes, labels, strict=True))
    )

    def said(texts):
        return [None if text.endswith("-") else text[-1] for text in texts]

    found = tried([AnswerGroup("a", "?", answers)], by_quality(lambda answer: 5), n=len(labels), votes=said)
    assert found.choices[0].majority == expected
    assert found.choices[0].voted == (votes != "----")
    assert found.n_unvoted == (votes == "----")


@settings(max_examples=50, deadline=None)
@given(method=st.sampled_from(METHODS), n=st.integers(2, 6), seed=st.integers(0, 100), parse_rate=st.floats(0.0, 1.0))
def test_every_choice_lies_between_the_worst_and_the_oracle(method, n, seed, parse_rate):
    mood = random.Random(seed)
    verifier = Verifier(lambda a, b: (mood.randint(0, 10), mood.randint(0, 10)) if mood.random() < parse_rate else "no")
    found = tried(
        mixed_groups(10), verifier, n=n, seed=seed, method=method, votes=lambda texts: [text[:5] for text in texts]
    )
    for choice in found.choices:
        assert 0 <= choice.verifier <= choice.oracle
        assert (choice.oracle > 0) == (choice.random > 0)
        assert 0 <= choice.majority <= choice.oracle
    assert found.n_parsed + sum(found.failures.values()) == found.n_calls <= draw_calls(found.draw, found.settings)


def test_intervals_are_over_problems():
    groups = mixed_groups(40)
    found = tried(groups, by_quality(perfect), votes=lambda texts: [text[:5] for text in texts])
    figure = found.figures()["verifier"]
    values = np.array(column(found, "verifier"))
    # of a share of 0s and 1s: about 1.96 standard errors to either side
    half = 1.96 * values.std() / math.sqrt(len(values))
    assert figure.value == values.mean()
    assert abs((figure.high - figure.low) / 2 - half) < 0.2 * half
    narrow = found.figures(level=0.5)["verifier"]
    assert figure.low < narrow.low <= narrow.high < figure.high


def test_no_headroom_is_undefined():
    found = tried([group("a", True, True), group("b", False, False)], by_quality(perfect), n=2)
    assert math.isnan(found.figures()["headroom"].value)
    assert found.figures()["gain"].value == 0.0


def test_document_holds_all_of_it():
    document = best_of_n_document(tried(mixed_groups(), by_quality(perfect)), level=0.9)
    assert (document["n"], document["n_problems"], document["level"]) == (4, 30, 0.9)
    assert document["figures"]["verifier"].keys() == {"value", "low", "high"}
    assert len(document["problems"]) == 30
