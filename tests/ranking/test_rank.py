import itertools
import math
import random
import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpo_rl.errors import DataError, UsageError
from corpo_rl.ranking.rank import planned_calls, rank, rank_many
from corpo_rl.ranking.result import RankingSettings, ranking_document
from corpo_rl.ranking.schedule import METHODS
from corpo_rl.records import Sample
from corpo_rl.tasks.mini import MiniTask
from tests.ranking.verifiers import GREEDY, Verifier, asked, by_quality

QUALITY = {"best": 9, "good": 7, "fair": 4, "poor": 1}


def ranked(answers, verifier, **options):
    return rank("Why?", answers, verifier, sampling=GREEDY, settings=RankingSettings(**options))


def places(ranking):
    return {answer.text: answer.rank for answer in ranking.answers}


def test_round_robin_by_hand():
    # A liking for the first place of 1 point: of the pair (x, y), A gets one more than its quality.
    ranking = ranked(list(QUALITY), Verifier(lambda a, b: (QUALITY[a] + 1, QUALITY[b])))
    assert [answer.text for answer in ranking.answers] == ["best", "good", "fair", "poor"]
    # each answer stands first in one order and second in the other: quality + 1/2
    assert [answer.score for answer in ranking.answers] == [9.5, 7.5, 4.5, 1.5]
    assert [(answer.wins, answer.ties, answer.losses) for answer in ranking.answers] == [
        (3, 0, 0),
        (2, 0, 1),
        (1, 0, 2),
        (0, 0, 3),
    ]
    assert (ranking.n_calls, ranking.n_parsed, dict(ranking.failures)) == (12, 12, {})
    expected = [[math.nan, 9.5, 9.5, 9.5], [7.5, math.nan, 7.5, 7.5], [4.5, 4.5, math.nan, 4.5], [1.5] * 3 + [math.nan]]
    np.testing.assert_array_equal(ranking.score_table(), expected)


@pytest.mark.parametrize("method", METHODS)
def test_the_best_answer_wins_by_every_method(method):
    quality = {f"answer {row}": row for row in range(11)}
    for seed in range(20):
        ranking = ranked(list(quality), by_quality(quality.get), method=method, seed=seed)
        assert [answer.text for answer in ranking.best] == ["answer 10"]
        assert ranking.answers[0].rank == 1


def test_a_pure_liking_for_the_first_place_cancels_with_both_orders_only():
    first_is_right = Verifier(lambda a, b: (10, 0))
    ranking = ranked(list("abcde"), first_is_right)
    assert places(ranking) == dict.fromkeys("abcde", 1)
    assert {(answer.score, answer.ties) for answer in ranking.answers} == {(5.0, 4)}
    first_is_right.batches.clear()
    one_order = ranked(list("abcde"), first_is_right, both_orders=False)
    assert one_order.n_calls == ranking.n_calls / 2
    assert Counter(a for a, _ in first_is_right.pairs_asked) == dict.fromkeys("abcde", 2)
    # in one order alone, each answer still stands first in half of its comparisons when their number is even
    assert {answer.score for answer in one_order.answers} == {5.0}
    assert {answer.wins for answer in one_order.answers} == {2}


def test_scores_of_one_order_go_to_the_right_answers():
    ranking = ranked(list(QUALITY), by_quality(QUALITY.get), both_orders=False)
    assert {answer.text: answer.score for answer in ranking.answers} == QUALITY


def test_samples_are_averaged_and_asked_with_other_seeds():
    said = itertools.cycle([(10, 0), (6, 3), (5, 0)])
    verifier = Verifier(lambda a, b: next(said))
    ranking = ranked(["a", "b"], verifier, n_samples=3, both_orders=False)
    # (10 + 6 + 5)/3 and (0 + 3 + 0)/3 for whichever stood first
    assert sorted(answer.score for answer in ranking.answers) == [1.0, 7.0]
    assert len({request.seed for request in verifier.batches[0]}) == 3
    assert ranking.n_calls == 3


def test_equal_texts_are_one_answer():
    verifier = by_quality({"x": 3, "y": 8}.get)
    ranking = ranked(["x", "y", "x", "x"], verifier)
    assert [(answer.text, answer.members) for answer in ranking.answers] == [("y", (1,)), ("x", (0, 2, 3))]
    assert sorted(verifier.pairs_asked) == [("x", "y"), ("y", "x")]


def test_a_single_answer_is_the_best_unasked():
    verifier = by_quality({}.get)
    ranking = ranked(["x", "x"], verifier)
    assert [(answer.rank, answer.members) for answer in ranking.best] == [(1, (0, 1))]
    assert math.isnan(ranking.best[0].score)
    assert verifier.batches == []


def test_equal_means_share_a_rank_and_the_next_rank_is_skipped():
    ranking = ranked(list("abcd"), by_quality({"a": 7, "b": 7, "c": 2, "d": 9}.get))
    assert places(ranking) == {"d": 1, "a": 2, "b": 2, "c": 4}


def test_wins_rank_otherwise_than_scores():
    # the verifier is generous whenever "loud" is there: loud loses to both others, with high scores all the same
    scores = {("loud", "x"): (9, 10), ("loud", "y"): (9, 10), ("x", "y"): (2, 1)}

    def judge(a, b):
        return scores.get((a, b)) or scores[b, a][::-1]

    answers = ["loud", "x", "y"]
    assert places(ranked(answers, Verifier(judge))) == {"loud": 1, "x": 2, "y": 3}  # 9, (10 + 2)/2, (10 + 1)/2
    assert places(ranked(answers, Verifier(judge), rank_by="wins")) == {"x": 1, "y": 2, "loud": 3}  # 2, 1, 0 of 2


def test_what_does_not_parse_is_counted_and_never_a_score():
    def judge(a, b):
        if "mute" in (a, b):
            return "I would rather not say"
        return (QUALITY[a], QUALITY[b]) if a == "best" or b == "poor" else "A: 11\nB: 0"

    ranking = ranked(["best", "good", "poor", "mute"], Verifier(judge, finish_reason="length"))
    assert places(ranking) == {"best": 1, "good": 2, "poor": 3, "mute": None}
    by_text = {answer.text: answer for answer in ranking.answers}
    assert (by_text["mute"].score, by_text["mute"].n_unparsed) != (0.0, 0)
    assert math.isnan(by_text["mute"].score)
    assert by_text["mute"].n_unparsed == 3
    assert [by_text[name].n_unparsed for name in ("best", "good", "poor")] == [1, 1, 1]
    # best-good and good-poor and best-poor were each scored in one order alone
    assert by_text["good"].score == 7.0
    assert sum(one.one_order for one in ranking.comparisons) == 3
    # 6 pairs in 2 orders: three orders parse, three are out of range, the six with "mute" hold no scores
    assert (ranking.n_calls, ranking.n_parsed) == (12, 3)
    assert ranking.failures == {"no_scores": 6, "out_of_range": 3}
    assert ranking.n_cut == 12
    assert ranking.answers[-1].text == "mute"


@pytest.mark.parametrize("method", METHODS)
def test_when_nothing_parses_nothing_is_ranked(method):
    ranking = ranked(list("abcde"), Verifier(lambda a, b: ""), method=method)
    assert {answer.rank for answer in ranking.answers} == {None}
    assert ranking.best == ()
    assert ranking.n_parsed == 0
    assert ranking.failures == {"empty": ranking.n_calls}
    assert np.isnan(ranking.score_table()).all()


def test_knockout_of_a_thousand_takes_999_comparisons_in_ten_batches():
    quality = {f"answer {row}": row for row in range(1000)}
    # scores are whole numbers from 0 to 10, so the verifier only says which of two is better
    verifier = Verifier(lambda a, b: (8, 2) if quality[a] > quality[b] else (2, 8))
    ranking = ranked(list(quality), verifier, method="knockout")
    assert len(ranking.comparisons) == 999
    assert verifier.n_calls == ranking.n_calls == planned_calls(1000, ranking.settings) == 1998
    assert len(verifier.batches) == 10
    assert ranking.best[0].text == "answer 999"
    ranks = sorted(answer.rank for answer in ranking.answers)
    # the final's loser is second, both losers of the semi-finals third, and so on
    assert ranks[:9] == [1, 2, 3, 3, 5, 5, 5, 5, 9]


def test_knockout_counts_what_the_lot_decided():
    ranking = ranked(list("abcdefgh"), by_quality(lambda answer: 5), method="knockout")
    assert ranking.n_by_lot == 7
    assert len(ranking.best) == 1
    # over seeds, every answer has its chance
    winners = [ranked(list("abcd"), by_quality(lambda answer: 5), method="knockout", seed=seed) for seed in range(60)]
    assert {ranking.best[0].text for ranking in winners} == set("abcd")
    assert ranked(list("ab"), by_quality({"a": 5, "b": 5}.get)).n_by_lot == 0


def test_round_robin_goes_out_in_one_batch_and_swiss_in_one_a_round():
    round_robin, swiss = by_quality(len), by_quality(len)
    answers = ["x" * length for length in range(1, 10)]
    ranked(answers, round_robin)
    ranked(answers, swiss, method="swiss")
    assert [len(batch) for batch in round_robin.batches] == [9 * 8]
    # log2(9), rounded up, is 4 rounds; 4 pairs of 9 answers in two orders, fewer where the neighbours have met
    assert len(swiss.batches) == 4
    assert [len(batch) for batch in swiss.batches][:2] == [8, 8]
    assert max(len(batch) for batch in swiss.batches) == 8


def test_too_many_calls_are_refused_before_any():
    verifier = by_quality(len)
    answers = [str(number) for number in range(1000)]
    with pytest.raises(UsageError) as caught:
        ranked(answers, verifier)
    # 1000 x 999 / 2 pairs in two orders; 10 rounds of 500; 999
    assert str(caught.value) == (
        "round-robin of 1,000 different answers takes 999,000 calls to the verifier, over the limit of 10,000; "
        "swiss takes 10,000, knockout takes 1,998, or raise max_calls (--max-calls)"
    )
    with pytest.raises(UsageError, match=r"knockout of 1,000 different answers takes 1,998 .* of 1,997; or raise"):
        ranked(answers, verifier, method="knockout", max_calls=1997)
    assert verifier.batches == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "elo"}, "method: expected one of round-robin, swiss, knockout, got 'elo'"),
        ({"rank_by": "elo"}, "rank_by: expected one of score, wins, got 'elo'"),
        ({"n_samples": 0}, "n_samples: expected at least 1, got 0"),
        ({"rounds": 0, "method": "swiss"}, "rounds: expected at least 1, got 0"),
        ({"rounds": 2}, "rounds: only swiss takes a number of rounds, and the method is round-robin"),
        ({"method": "knockout", "rank_by": "wins"}, "rank_by: a knockout ranks by who got how far"),
    ],
)
def test_wrong_settings_are_named(options, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        RankingSettings(**options)


def test_no_answer_and_a_missing_completion_are_errors():
    with pytest.raises(UsageError, match="answers: expected at least one, got none"):
        ranked([], by_quality(len))

    def forgetful(requests, sampling):
        yield Sample(requests[0].key, "A: 1\nB: 2", "stop")

    with pytest.raises(DataError, match="expected a completion for each of 6 comparisons, 5 are missing"):
        ranked(list("abc"), forgetful)


def test_many_problems_share_batches_and_equal_questions_are_asked_once():
    verifier = by_quality(len)
    questions = [
        ("first", ["a", "bb", "ccc"]),
        ("second", ["dddd", "e"]),
        ("first", ["ccc", "bb", "a"]),
        ("third", ["f"]),
    ]
    rankings = list(rank_many(questions, verifier, sampling=GREEDY, settings=RankingSettings(method="knockout")))
    assert [ranking.best[0].text for ranking in rankings] == ["ccc", "dddd", "ccc", "f"]
    assert [len(batch) for batch in verifier.batches] == [4, 2]  # 2 + 2 of two problems, then the final of the first
    alone = rank("first", ["a", "bb", "ccc"], by_quality(len), sampling=GREEDY, settings=rankings[0].settings)
    assert alone == rankings[0]


def test_many_problems_go_out_in_batches_of_bounded_size(monkeypatch):
    monkeypatch.setattr("corpo_rl.ranking.rank._CALLS_AT_ONCE", 24)
    verifier = by_quality(len)
    questions = [(f"problem {row}", ["a", "bb", "ccc", "dddd"]) for row in range(5)]  # 12 calls each
    rankings = list(rank_many(questions, verifier, sampling=GREEDY))
    assert len(rankings) == 5
    assert [len(batch) for batch in verifier.batches] == [24, 24, 12]


def test_prompts_are_those_of_the_task_in_both_orders():
    prompts = []

    def stream(requests, sampling):
        assert sampling is GREEDY
        for request in requests:
            prompts.append(request.prompt)
            first_is_right = request.prompt.startswith("2+2?4|")
            yield Sample(request.key, "4;9,1" if first_is_right else "4;1,9", "stop")

    ranking = rank("2+2", ["4", "5"], stream, sampling=GREEDY, task=MiniTask())
    assert sorted(prompts) == ["2+2?4|5:", "2+2?5|4:"]
    assert [(answer.text, answer.score) for answer in ranking.answers] == [("4", 9.0), ("5", 1.0)]


@settings(max_examples=60, deadline=None)
@given(
    answers=st.lists(st.text("abc", max_size=3), min_size=1, max_size=9),
    method=st.sampled_from(METHODS),
    both_orders=st.booleans(),
    n_samples=st.integers(1, 3),
    seed=st.integers(0, 5),
    data=st.data(),
)
def test_shuffled_answers_get_the_same_ranking(answers, method, both_orders, n_samples, seed, data):
    shuffled = data.draw(st.permutations(range(len(answers))))

    def noisy(requests, sampling):
        # a verifier that is biased, moody and mute at times, but gives the same prompt and seed the same completion
        for request in requests:
            a, b = random.Random(f"{request.prompt} {request.seed}").choices(range(13), k=2)
            yield Sample(request.key, f"A: {a}\nB: {b}", "stop")

    options = {"method": method, "both_orders": both_orders, "n_samples": n_samples, "seed": seed}
    one, other = (
        ranked(given_answers, noisy, **options) for given_answers in (answers, [answers[row] for row in shuffled])
    )
    assert [(answer.text, answer.rank, str(answer.score)) for answer in one.answers] == [
        (answer.text, answer.rank, str(answer.score)) for answer in other.answers
    ]
    assert one.comparisons == other.comparisons
    for answer, there in zip(one.answers, other.answers, strict=True):
        assert sorted(answer.members) == sorted(shuffled[place] for place in there.members)
    assert sorted(place for answer in one.answers for place in answer.members) == list(range(len(answers)))
    assert one.n_calls <= planned_calls(len(set(answers)), one.settings)
    assert one.n_parsed + sum(one.failures.values()) == one.n_calls
    ranks = [answer.rank for answer in one.answers if answer.rank is not None]
    assert ranks == sorted(ranks)
    assert ranks[:1] in ([], [1])


def test_score_is_the_plain_mean_of_the_score_table():
    def judge(a, b):
        drawn = random.Random(f"{a}{b}")
        return (drawn.randint(0, 25), drawn.randint(0, 10))

    ranking = ranked(list("abcdefg"), Verifier(judge))
    table = ranking.score_table()
    assert np.isnan(table).sum() > 7, "some comparison must have failed for this to test anything"
    np.testing.assert_allclose([answer.score for answer in ranking.answers], np.nanmean(table, axis=1), rtol=1e-12)
    for row, answer in enumerate(ranking.answers):
        others = np.delete(np.arange(7), row)
        margin = table[row, others] - table[others, row]
        assert (answer.wins, answer.ties, answer.losses) == (
            (margin > 0).sum(),
            (margin == 0).sum(),
            (margin < 0).sum(),
        )
        assert answer.n_unparsed == np.isnan(margin).sum()


def test_document_holds_all_of_it():
    ranking = ranked([*QUALITY, "best"], by_quality(QUALITY.get), method="knockout")
    document = ranking_document(ranking, ["a", "b", "c", "d", "e"])
    assert document["schema"] == "corpo-rl.ranking/1"
    assert document["best"] == [0]
    assert document["answers"][0]["text"] == "best"
    assert document["answers"][0]["names"] == ["a", "e"]
    assert document["settings"]["method"] == "knockout"
    assert len(document["comparisons"]) == 3
    final = document["comparisons"][-1]
    assert {final["first"], final["second"]} >= {0}
    assert type(final["score_first"]) is float


def test_problem_is_in_every_prompt():
    verifier = by_quality(len)
    rank("What is the\n\nmeaning of this?", ["a", "bb"], verifier, sampling=GREEDY)
    assert {asked(request)[0] for batch in verifier.batches for request in batch} == {"What is the\n\nmeaning of this?"}
