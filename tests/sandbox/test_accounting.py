"""How much of the machine a candidate can hold at most, measured while it takes all it can."""

import os
import re
import threading
import time
from pathlib import Path

import pytest

from corpo_rl.records import FunctionTests
from tests.sandbox.conftest import processes

ONE = FunctionTests("one", "assert one() == 1")

TAKE = """
import fcntl, mmap, os, socket, time
taken = dict.fromkeys(("tmp", "pipes", "in flight", "sockets", "memory"), 0)
kept = []

def until_refused(one):
    try:
        while True:
            one()
    except (OSError, MemoryError):
        pass

def fill(write, kind):
    while True:
        try:
            taken[kind] += write(bytes(4096))
        except BlockingIOError:
            return

def pipe(kind):
    reading, writing = os.pipe()
    kept.append((reading, writing))
    try:
        fcntl.fcntl(writing, 1031, 1 << 20)
    except OSError:
        pass
    os.set_blocking(writing, False)
    fill(lambda part: os.write(writing, part), kind)
    return reading, writing

def file():
    with open(f"/tmp/{len(kept)}", "wb", buffering=0) as opened:
        kept.append(opened)
        for _ in range(8):
            taken["tmp"] += opened.write(bytes(1 << 20))

def flying():
    ends = pipe("in flight")
    socket.send_fds(ours, [b"x"], ends[:1])
    for end in ends:
        os.close(end)

def pair():
    for end in socket.socketpair():
        kept.append(end)
        end.setblocking(False)
        fill(end.send, "sockets")

def memory(size):
    mapped = mmap.mmap(-1, size)
    kept.append(mapped)
    for start in range(0, size, 4096):
        mapped[start] = 1
    taken["memory"] += size

ours, theirs = socket.socketpair()
ours.setblocking(False)
until_refused(file)
until_refused(flying)
for _ in range(6):
    until_refused(pair) if KIND == "sockets" else until_refused(lambda: pipe("pipes"))
for size in (32 << 20, 1 << 20, 4096):
    until_refused(lambda: memory(size))
time.sleep(0.5)
raise Exception({name: size >> 20 for name, size in taken.items()})
"""


class Watch:
    """The greatest sum of the resident memory of some processes, in MB, sampled in a thread."""

    def __init__(self, mark):
        self.mark, self.peak, self.over = mark, 0, False
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.over:
            self.peak = max(self.peak, sum(resident(number) for number in processes(self.mark)))
            time.sleep(0.01)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over = True
        self.thread.join()


def resident(number):
    """Resident memory of a process in MB."""
    try:
        return int(Path(f"/proc/{number}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    except (OSError, IndexError):
        return 0.0


@pytest.mark.parametrize("kind", ["pipes", "sockets"])
def test_what_one_candidate_can_take(fresh_judge, kind):
    seconds = 20.0 + os.getpid() / 1e6
    judge = fresh_judge(seconds=seconds, memory_mb=256)
    with Watch(str(seconds)) as watch:
        detail = judge.judge(ONE, f"KIND = {kind!r}" + TAKE).detail
    taken = {name: int(size) for name, size in re.findall(r"'([a-z ]+)': (\d+)", detail)}
    assert len(taken) == 5, detail
    # it has tried: most of what the limits leave
    assert 150 <= taken["memory"] <= 256
    assert taken["tmp"] == 16
    # the kernel's fs.pipe-user-pages-soft for all pipes of a user, and what two pages each still take beyond it
    pipes = int(Path("/proc/sys/fs/pipe-user-pages-soft").read_text()) * 4096 >> 20
    assert taken["pipes"] + taken["in flight"] <= pipes + 1
    assert taken["sockets"] <= 30
    # two bubblewraps, the server and the judge are 40 MB
    assert 150 < watch.peak < 256 + 80


def test_long_answers_do_not_add_up(fresh_judge):
    seconds = 20.0 + os.getpid() / 1e6
    judge = fresh_judge(seconds=seconds)
    with Watch(str(seconds)) as watch:
        tests = FunctionTests("one", "for _ in range(60):\n    assert len(one()) == 900000")
        assert judge.judge(tests, "def one(): return 'x' * 900000").status == "ok"
    assert 20 < watch.peak < 100


def test_many_candidates_leave_nothing(fresh_judge):
    seconds = 20.0 + os.getpid() / 1e6
    judge = fresh_judge(seconds=seconds)

    def judge_them(count):
        for number in range(count):
            ends = ("return 1", "return [1] * 1000", "raise ValueError", "import os; os._exit(0)")
            judge.judge(
                ONE, f"import threading, os\nopen('/tmp/x', 'w').write('x' * 100000)\ndef one(): {ends[number % 4]}"
            )
        # the last one may still be dying
        time.sleep(0.3)
        boxes = processes(str(seconds))
        files = sum(len(os.listdir(f"/proc/{number}/fd")) for number in boxes)
        mounts = max(Path(f"/proc/{number}/mountinfo").read_text().count("\n") for number in boxes)
        return len(boxes), files, mounts, sum(map(resident, boxes))

    *before, memory_before = judge_them(40)
    *after, memory_after = judge_them(400)
    assert after == before
    assert memory_after < memory_before + 4
