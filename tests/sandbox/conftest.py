import os
import shutil
import time
from pathlib import Path

import pytest

from corpo_rl.records import Limits
from corpo_rl.sandbox.judge import Judge

needs_bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

SECONDS = round(1.0 + os.getpid() * 1e-8, 8)
"""A limit that no other process of this machine has: it stands in the command line of every process of our boxes."""


def pytest_collection_modifyitems(items):
    for item in items:
        if "judge" in item.fixturenames or "fresh_judge" in item.fixturenames:
            item.add_marker(needs_bubblewrap)


@pytest.fixture(scope="module")
def judge():
    with Judge(Limits(seconds=SECONDS)) as judge:
        yield judge


@pytest.fixture
def fresh_judge():
    """A judge with limits of one's own, closed at the end."""
    judges = []

    def start(**limits):
        judges.append(Judge(Limits(**{"seconds": SECONDS, **limits})))
        return judges[-1]

    yield start
    for judge in judges:
        judge.close()


def processes(mark=str(SECONDS)):
    """Process ids of this machine whose command line holds a text."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                if mark in (folder / "cmdline").read_bytes().decode(errors="replace"):
                    found.append(int(folder.name))
            except OSError:
                continue
    return found


def wait_until(condition, seconds=5.0):
    """Whether a condition comes true in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return condition()
