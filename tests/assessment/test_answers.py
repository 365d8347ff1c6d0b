from dataclasses import replace

import pytest

from corpo_rl.assessment.answers import ask
from corpo_rl.errors import DataError, UsageError
from corpo_rl.records import Sample, SampleRequest
from corpo_rl.tasks.mini import MiniTask
from corpo_rl.tasks.verifier import Scores
from tests.assessment.scripted import ITEMS, SETTINGS, fickle, perfect, run, scores, stream_of


def test_scores_belong_to_the_answers_however_they_were_shown():
    answers = run(lambda first, second, _: scores(8 if first else 1, 8 if second else 1), n_samples=1)
    for one in answers:
        assert (one.scores.a, one.scores.b) == (8 if one.item.label_a else 1, 8 if one.item.label_b else 1)
    assert [one.swapped for one in answers[:4]] == [False, True, False, True]
    assert [one.item for one in answers[::2]] == ITEMS


def test_every_request_has_a_key_and_a_seed_of_its_own():
    asked: list[SampleRequest] = []

    def stream(requests, settings):
        asked.extend(requests)
        return stream_of(fickle)(requests, settings)

    def keys_and_seeds(seed, items=ITEMS):
        asked.clear()
        ask(items, stream, n_samples=2, both_orders=True, settings=SETTINGS, seed=seed)
        return {request.key: request.seed for request in asked}

    one = keys_and_seeds(0)
    assert len(one) == len(set(one.values())) == 11 * 2 * 2
    assert all(0 <= seed < 2**31 for seed in one.values())
    assert keys_and_seeds(0, ITEMS[:2]).items() <= one.items(), "whatever else is asked"
    assert not set(keys_and_seeds(1).values()) & set(one.values())


def test_progress_is_told():
    seen = []
    run(perfect, n_samples=1, on_answer=seen.append)
    assert seen == list(range(1, 23))


def test_the_mini_task_is_put_in_its_own_form():
    task = MiniTask()
    (pair,) = task.items("in_domain")[1:2]
    prompts = {}

    def stream(requests, settings):
        for request in requests:
            prompts[request.key] = request.prompt
            yield Sample(request.key, "484;9,1" if "/ba/" in request.key else "484;1,9", "stop")

    answers = ask([pair], stream, n_samples=1, both_orders=True, settings=SETTINGS, seed=0, task=task)
    assert list(prompts.values()) == ["381+103?474|484:", "381+103?484|474:"]
    assert [one.scores for one in answers] == [Scores(1, 9), Scores(1, 9)]
    assert all(one.correct and one.reward == 0.8 for one in answers)


def test_what_is_not_parsed_has_the_tasks_reward():
    (answer,) = run(lambda *_: "A: 11\nB: 2", n_samples=1, both_orders=False, items=ITEMS[:1])
    assert (answer.reward, answer.correct, answer.failure) == (-1.0, False, "out_of_range")


def test_what_cannot_be():
    with pytest.raises(UsageError, match="n_samples: expected at least 1, found 0"):
        run(perfect, n_samples=0)
    with pytest.raises(DataError, match="expected at least one pair, found none"):
        run(perfect, items=[])
    with pytest.raises(DataError, match="expected an item_id for each pair that no other pair of its split has"):
        run(perfect, items=[ITEMS[0], replace(ITEMS[1], item_id="0")])
    with pytest.raises(DataError, match="answered 2 of 11 requests"):
        ask(
            ITEMS,
            lambda requests, _: iter([Sample(one.key, "", "stop") for one in requests[:2]]),
            n_samples=1,
            both_orders=False,
            settings=SETTINGS,
            seed=0,
        )
