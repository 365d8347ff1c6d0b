import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress

import pytest

from corpo_rl.errors import CorpoError, DataError, UsageError
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


@pytest.mark.parametrize("reason", ["length", "tool_calls", "stop"])
def test_finish_reason_and_an_answer_without_text(reason):
    with fake_server(lambda body, number: (200, {}, chat(None, reason))) as server:
        assert ask(server, 1) == [Sample("k0", "", reason)]


def test_half_a_surrogate_pair_does_not_reach_a_file():
    with fake_server(lambda *_: (200, {}, chat("ok \ud83d"))) as server:
        assert ask(server, 1) == [Sample("k0", "ok ?", "stop")]


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
    assert str(caught.value).startswith(f"{server.url}: 1 of 4 requests failed: status {status} (")
    assert str(caught.value).endswith("(1, first k1)")
    assert len(server.bodies) == 3 + 3  # the bad one three times


@pytest.mark.parametrize(
    "body",
    [
        "<html>login</html>",
        b"not json",
        {"choices": []},
        {"choices": None},
        {"choices": {"a": 1}},
        {"choices": ["text"]},
        {"choices": [{"message": "text"}]},
        b"null",
        b"",
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
    with pytest.raises(DataError, match=r"no connection.*is the server running"):
        ask(server, 1, retries=0)


def test_failures_of_several_kinds_are_counted_with_an_example_of_each():
    def script(body, number):
        place = int(body["messages"][0]["content"][1:])
        return echo(body, number) if place > 3 else (500, {}, {}) if place else (200, {}, "<html>")

    with fake_server(script) as server, pytest.raises(DataError) as caught:
        ask(server, 8, retries=0, concurrency=1)
    assert "4 of 8 requests failed: status 500 ({}) (3, first k1); an answer that is no" in str(caught.value)
    assert str(caught.value).endswith("(1, first k0)")


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"error": {"message": "too long"}}, "too long"),
        ({"detail": "no model of that name"}, "no model of that name"),
        ("<html>\n<h1>Bad\nGateway</h1>" + " x" * 5000, "<html> <h1>Bad Gateway</h1> x"),
        (b"", "status 400 (BadRequestError"),
    ],
    ids=["openai", "fastapi", "html", "nothing"],
)
def test_what_a_server_says_of_a_bad_request_is_told_on_one_line(body, told):
    with fake_server(lambda *_: (400, {}, body)) as server, pytest.raises(DataError) as caught:
        ask(server, 1)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 350
    assert len(server.bodies) == 1  # it will not get better


@contextmanager
def raw_server(talk):
    """Hands each connection, its request read, to `talk`."""
    listening = socket.create_server(("127.0.0.1", 0))
    listening.settimeout(10)

    def serve():
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                connection.recv(65536)
                with suppress(OSError):  # the client has had enough
                    talk(connection)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(10)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 400\r\n\r\n"


@pytest.mark.parametrize("sent", [b"", HEAD[:20], HEAD, HEAD + b'{"choices": [{"mess'], ids=len)
def test_a_connection_that_closes_halfway_is_tried_again_and_then_told(sent):
    asked = []

    def talk(connection):
        asked.append(1)
        connection.sendall(sent)

    with raw_server(talk) as url, pytest.raises(DataError, match="no connection, or a broken one"):
        list(EndpointPolicy(url, "m", retries=2).stream(requests(1), GREEDY))
    assert len(asked) == 3


def test_an_answer_that_comes_byte_by_byte_is_given_up():
    def talk(connection):
        connection.sendall(HEAD)
        for _ in range(100):
            connection.sendall(b" ")
            time.sleep(0.05)

    started = time.monotonic()
    with raw_server(talk) as url, pytest.raises(DataError, match=r"no answer in 0\.3 s"):
        list(EndpointPolicy(url, "m", timeout=0.3, retries=0).stream(requests(1), GREEDY))
    assert time.monotonic() - started < 3


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
        assert only_model(server.url, timeout=5) == "fake"


@pytest.mark.parametrize(("status", "error"), [(401, UsageError), (403, UsageError), (400, DataError)])
def test_a_server_that_quotes_the_key_does_not_make_us_print_it(monkeypatch, status, error):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    quoted = {"error": {"message": "Incorrect API key: sk-very-secret"}}
    with fake_server(lambda *_: (status, {}, quoted), listing=(status, quoted)) as server:
        with pytest.raises(error) as caught:
            ask(server, 1)
        with pytest.raises(error) as listing:
            only_model(server.url, timeout=5)
    assert "very-secret" not in str(caught.value) + str(listing.value)


def test_a_model_that_is_not_there_names_those_that_are():
    def script(body, number):
        return 404, {}, {"error": {"message": "no such model"}}

    with fake_server(script, models=("a", "b")) as server, pytest.raises(UsageError, match=r"no model 'fake'.*: a, b"):
        ask(server, 2)


def test_an_address_without_a_chat_api_is_told_how_one_ends():
    def script(body, number):
        return 404, {}, "<html>not here</html>"

    with fake_server(script, listing=(404, {})) as server, pytest.raises(UsageError, match="does the URL end in /v1"):
        ask(server, 1)


def with_usage(tokens, calls=None):
    def script(body, number):
        if calls is not None:
            calls.append(number)
        usage = {} if tokens is None else {"usage": {"completion_tokens": tokens}}
        return 200, {}, chat("x") | usage

    return script


@pytest.mark.parametrize(
    ("tokens", "expected"),
    # 7 are held for each: 7 + 2 * (n - 1) <= 21 for n = 8; 7 * n <= 21 for n = 3
    [(2, 8), (7, 3), (None, 3)],
    ids=["short answers", "full answers", "no count"],
)
def test_a_budget_of_tokens_is_not_exceeded(tokens, expected):
    with fake_server(with_usage(tokens)) as server:
        assert len(ask(server, 40, concurrency=1, most_tokens=21)) == expected
    with fake_server(with_usage(tokens)) as server:
        found = ask(server, 40, concurrency=16, most_tokens=21)
    assert 3 <= len(found) == len(server.bodies) <= expected


def test_a_budget_that_suffices_changes_nothing():
    with fake_server(with_usage(7)) as server:
        assert len(ask(server, 40, most_tokens=280)) == 40


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"concurrency": 0}, "concurrency: expected at least 1, found 0"),
        ({"retries": -1}, "retries: expected at least 0, found -1"),
        ({"timeout": 0.0}, "timeout: expected seconds above 0, found 0"),
        ({"most_tokens": 0}, "most_tokens: expected at least 1, found 0"),
        ({"most_tokens": 6}, "a budget of 6 tokens: one answer may take 7"),
    ],
)
def test_bad_settings_are_named(options, message):
    with fake_server(echo) as server, pytest.raises(UsageError, match=message):
        ask(server, 1, **options)
    assert server.bodies == []


def test_no_requests_no_answers():
    with fake_server(echo) as server:
        assert ask(server, 0) == []


def test_without_the_library_the_install_line_is_told(monkeypatch):
    monkeypatch.setattr("corpo_rl.policies.endpoint.find_spec", lambda name: None)
    for use in (lambda: EndpointPolicy("http://127.0.0.1:9/v1", "m"), lambda: only_model("http://x/v1", timeout=1)):
        with pytest.raises(CorpoError, match=r"run: pip install 'corpo-rl\[endpoint\]'"):
            use()


def test_ctrl_c_ends_it_at_once_and_keeps_what_was_done(tmp_path):
    program = """
import sys
from corpo_rl.policies.endpoint import EndpointPolicy
from corpo_rl.records import SampleRequest, SamplingSettings
requests = [SampleRequest(f"k{n}", f"p{n}", n) for n in range(50)]
for sample in EndpointPolicy(sys.argv[1], "fake").stream(requests, SamplingSettings(7, 0.0)):
    print(sample.key, flush=True)
"""

    def script(body, number):
        return echo(body, number) if number < 5 else None  # the others hang

    with fake_server(script) as server:
        process = subprocess.Popen(
            [sys.executable, "-c", program, server.url],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # a test run in the background hands on an ignored SIGINT, and there would be no Ctrl-C to test
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        try:
            done = [process.stdout.readline() for _ in range(5)]
            os.kill(process.pid, signal.SIGINT)
            started = time.monotonic()
            _, error = process.communicate(timeout=20)
        finally:
            process.kill()
    assert len(set(done)) == 5
    assert time.monotonic() - started < 5
    assert error.strip().endswith("KeyboardInterrupt")


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
