"""A small OpenAI-compatible server on loopback that answers, fails, or hangs as a script tells it."""

import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def chat(text, reason="stop"):
    message = {"role": "assistant", "content": text}
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "fake",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
    }


class FakeServer:
    """`script(body, n)` gets the n-th request (from 0) and returns (status, headers, body); None means: never answer.

    A body that is a str or bytes goes out as it is, anything else as JSON. `listing` is (status, body) of the list of
    models, where it is not to be a good one.
    """

    def __init__(self, script, models=("fake",), key=None, listing=None):
        self.script, self.models, self.key, self.listing = script, models, key, listing
        self.bodies = []
        self.running = self.most_at_once = 0
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def start(self):
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def stop(self):
        self._stopping.set()
        self._http.shutdown()
        self._http.server_close()

    def _handler(server):  # noqa: N805  # the handler's own self is inside
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                if server.key and self.headers.get("Authorization") != f"Bearer {server.key}":
                    self._send(401, {}, {"error": {"message": "bad key"}})
                elif server.listing:
                    self._send(server.listing[0], {}, server.listing[1])
                else:
                    self._send(200, {}, {"object": "list", "data": [{"id": name} for name in server.models]})

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if server.key and self.headers.get("Authorization") != f"Bearer {server.key}":
                    self._send(401, {}, {"error": {"message": "bad key"}})
                    return
                with server._lock:
                    number = len(server.bodies)
                    server.bodies.append(body)
                    server.running += 1
                    server.most_at_once = max(server.most_at_once, server.running)
                try:
                    answer = server.script(body, number)
                finally:
                    with server._lock:
                        server.running -= 1
                if answer is None:
                    server._stopping.wait(20)
                    self.close_connection = True
                else:
                    self._send(*answer)

            def _send(self, status, headers, body):
                data = (
                    body
                    if isinstance(body, bytes)
                    else body.encode()
                    if isinstance(body, str)
                    else json.dumps(body).encode()
                )
                kind = "application/json" if not isinstance(body, str) else "text/html"
                self.send_response(status)
                self.send_header("Content-Type", kind)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        return Handler


@contextmanager
def fake_server(script, **settings):
    server = FakeServer(script, **settings)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def echo(body, number):
    """Answers with the prompt in capitals."""
    return 200, {}, chat(body["messages"][0]["content"].upper())


def slowly(script, seconds):
    def answer(body, number):
        time.sleep(seconds)
        return script(body, number)

    return answer
