import threading
import time

import pytest

from corpo_rl.errors import DataError, UsageError
from corpo_rl.policies.endpoint import EndpointPolicy, only_model
from corpo_rl.records import Sample, SampleRequest, SamplingSettings
from tests.policies.fake_server import chat, echo, fake_server, slowly

GREEDY = SamplingSettings(max_new_tokens=7, temperature=0.0)


def requests(n):
    return [SampleRequest(key=f"k{number}", prompt=f"p{number}", seed=number) for number in range(n)]


def ask(server, n=3, *, settings=GREEDY, **options):
    options = {"retries": 2, "timeout": 5.0, **options}
    return list(EndpointPolicy(server.url, "fake", **options).stream(requests(n), settings))


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    """The library waits half a second and more before it tries again."""
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.01)
    monkeypatch.setattr("openai._base_client.MAX_RETRY_DELAY", 0.02)


def test_every_request_is_answered_once_under_its_own_key():
    with fake_server(echo) as server:
        samples = ask(server, 40)
    assert sorted(samples, key=lambda one: int(one.key[1:])) == [
        Sample(f"k{number}", f"P{number}", "stop") for number in range(40)
    ]
    assert len(server.bodies) == 40


def test_the_settings_are_passed_on():
    with fake_server(echo) as server:
        ask(server, 2, settings=SamplingSettings(max_new_tokens=9, temperature=0.7, top_p=0.9))
    body = sorted(server.bodies, key=lambda one: one["seed"])[1]
    assert (body["max_tokens"], body["temperature"], body["top_p"], body["seed"], body["model"]) == (
        9,
        0.7,
        0.9,
        1,
        "fake",
    )
    assert body["messages"] == [{"role": "user", "content": "p1"}]


def test_no_more_requests_at_once_than_asked_for():
    with fake_server(slowly(echo, 0.03)) as server:
        ask(server, 12, concurrency=3)
    assert server.most_at_once == 3


def test_finish_reason_and_an_answer_without_text():
    with fake_server(lambda body, number: (200, {}, chat(None, "length"))) as server:
        assert ask(server, 1) == [Sample("k0", "", "length")]


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_failure_that_passes_is_tried_again(status):
    def script(body, number):
        return (status, {"Retry-After": "0"}, {"error": {"message": "busy"}}) if number < 2 else echo(body, number)

    with fake_server(script) as server:
        assert ask(server, 1) == [Sample("k0", "P0", "stop")]
    assert len(server.bodies) == 3


def test_retry_after_is_heeded():
    times = []

    def script(body, number):
        times.append(time.monotonic())
        return (429, {"Retry-After": "1"}, {}) if number == 0 else echo(body, number)

    with fake_server(script) as server:
        ask(server, 1)
    assert times[1] - times[0] >= 1


@pytest.mark.parametrize("status", [429, 500])
def test_a_failure_that_stays_names_endpoint_and_status_after_all_others_are_done(status):
    def script(body, number):
        bad = body["messages"][0]["content"] == "p1"
        return (status, {}, {"error": {"message": "no\nluck"}}) if bad else echo(body, number)

    done = []

    def collect(url):
        for sample in EndpointPolicy(url, "fake", retries=2).stream(requests(4), GREEDY):
            done.append(sample.key)  # noqa: PERF401  # what came before the error counts

    with fake_server(script) as server, pytest.raises(DataError) as caught:
        collect(server.url)
    assert sorted(done) == ["k0", "k2", "k3"]
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{server.url}: 1 of 4 requests failed; the last one: status {status}")
    assert len(server.bodies) == 3 + 3  # the bad one three times


@pytest.mark.parametrize(
    "body",
    [
        "<html>login</html>",
        b"not json",
        {"choices": []},
        {"choices": None},
        {"error": "odd"},
        [1, 2],
        {"choices": [{"message": {"content": 5}, "finish_reason": "stop"}]},
        {"choices": [{"finish_reason": "stop"}]},
    ],
    ids=str,
)
def test_garbage_is_no_completion(body):
    with fake_server(lambda *_: (200, {}, body)) as server, pytest.raises(DataError, match="1 of 1 requests failed"):
        ask(server, 1, retries=0)


def test_a_server_that_hangs_is_given_up():
    started = time.monotonic()
    with fake_server(lambda *_: None) as server, pytest.raises(DataError, match=r"no answer in 0\.3 s, 2 times"):
        ask(server, 1, timeout=0.3, retries=1)
    assert time.monotonic() - started < 5


def test_nobody_listens():
    with fake_server(echo) as server:
        pass
    with pytest.raises(DataError, match=r"no connection .*is the server running"):
        ask(server, 1, retries=0)


def test_a_dead_server_is_not_asked_ten_thousand_times():
    with fake_server(lambda *_: (500, {}, {})) as server, pytest.raises(DataError, match="the rest was not tried"):
        ask(server, 10_000, retries=0)
    assert len(server.bodies) <= 20 + 16


def test_a_refused_key_names_the_variable(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "wrong-secret")
    with fake_server(echo, key="right") as server, pytest.raises(UsageError, match="set OPENAI_API_KEY") as caught:
        ask(server, 2)
    assert "wrong-secret" not in str(caught.value)
    monkeypatch.setenv("OPENAI_API_KEY", "right")
    with fake_server(echo, key="right") as server:
        assert len(ask(server, 2)) == 2


def test_a_model_that_is_not_there_names_those_that_are():
    def script(body, number):
        return 404, {}, {"error": {"message": "no such model"}}

    with fake_server(script, models=("a", "b")) as server, pytest.raises(UsageError, match=r"no model 'fake'.*: a, b"):
        ask(server, 2)


def test_closing_the_stream_early_leaves_no_thread_behind():
    before = threading.active_count()
    with fake_server(slowly(echo, 0.02)) as server:
        stream = EndpointPolicy(server.url, "fake", concurrency=4).stream(requests(200), GREEDY)
        next(stream)
        stream.close()
        assert len(server.bodies) < 100
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.02)
    assert threading.active_count() <= before


def test_the_only_model_is_found_and_several_are_listed():
    with fake_server(echo, models=("one",)) as server:
        assert only_model(server.url, timeout=5) == "one"
    with fake_server(echo, models=("a", "b")) as server, pytest.raises(UsageError, match=r"found 2 \(a, b\); name one"):
        only_model(server.url, timeout=5)
    with pytest.raises(DataError, match="list of models cannot be read"):
        only_model("http://127.0.0.1:9/v1", timeout=1)
