"""Hostile programs, each judged for real: none gets out, none is passed, none stays, none spoils the next verdict."""

import os
import platform
import re
import secrets
import socket
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from corpo_rl.records import FunctionTests, Limits, ProgramTests
from corpo_rl.sandbox.judge import Judge
from tests.sandbox.attack import TESTS
from tests.sandbox.conftest import processes, wait_until
from tests.sandbox.deeds_files import FILES, NETWORK
from tests.sandbox.deeds_others import OTHERS, PRIVILEGES, REMAINS, TIMES
from tests.sandbox.deeds_processes import MEMORY, PROCESSES
from tests.sandbox.forged_frames import FRAMES
from tests.sandbox.forgeries import ENDS, LIES, PROGRAMS, READS

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the programs call the kernel by the numbers that x86-64 has"
)

SECONDS = round(0.6 + os.getpid() * 1e-8, 8)
LIMITS = Limits(seconds=SECONDS, memory_mb=256)
GRACE = 2.5
"""Seconds that a verdict may take beyond its limit on a machine with other work."""

DEEDS = {
    "processes": PROCESSES,
    "memory": MEMORY,
    "files": FILES,
    "network": NETWORK,
    "others": OTHERS,
    "privileges": PRIVILEGES,
    "remains": REMAINS,
    "times": TIMES,
}

FORGERIES = {"frames": FRAMES, "ends": ENDS, "lies": LIES, "reads": READS}

PLACES = "/ /tmp /var/tmp /dev /dev/shm /usr /usr/lib /usr/bin /etc /etc/alternatives /root .".split()  # noqa: SIM905

HONEST = """
import os, random, resource, signal, threading

def is_open(number):
    try:
        return bool(os.fstat(number))
    except OSError:
        return False

def look():
    limits = [resource.getrlimit(getattr(resource, "RLIMIT_" + name)) for name in ("AS", "CPU", "FSIZE", "NOFILE")]
    return {
        "tmp": os.listdir("/tmp"), "proc": os.listdir("/proc"), "cwd": os.getcwd(), "pid": os.getpid(),
        "environment": dict(os.environ), "limits": limits, "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "mask": list(signal.pthread_sigmask(signal.SIG_BLOCK, [])), "umask": os.umask(0o22),
        "threads": threading.active_count(), "policy": os.sched_getscheduler(0), "random": random.random(),
        "cores": sorted(os.sched_getaffinity(0)), "open": [number for number in range(64) if is_open(number)],
        "patched": len([]) or "lies" in vars(os), "here": sorted(__import__("sys").path),
    }
"""
SEEN = {
    "tmp": [],
    "proc": [],
    "cwd": "/tmp",  # noqa: S108  # its own
    "pid": 1,
    "environment": {"PATH": "/usr/bin", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUTF8": "1"},
    "limits": [(256 << 20,) * 2, (2,) * 2, (16 << 20,) * 2, (64,) * 2],
    "nice": os.getpriority(os.PRIO_PROCESS, 0),
    "mask": [],
    "umask": 0o22,
    "threads": 1,
    "policy": 0,
    "random": 0.8444218515250481,  # the first number after random.seed(0)
    "cores": sorted(os.sched_getaffinity(0)),
    "open": [0, 1, 2, 3, 4],
    "patched": False,
}
AFTER = FunctionTests(
    "look",
    "seen = look()\nassert seen.pop('environment').items() >= expected.pop('environment').items()\n"
    "assert all(path.startswith('/usr/') for path in seen.pop('here'))\n"
    "assert seen == expected, {key: (seen[key], expected[key]) for key in expected if seen[key] != expected[key]}",
    preamble=f"expected = {SEEN!r}",
)


class Outside:
    """What a program could reach if it got out, and whether it did."""

    def __init__(self):
        self.mark = f"escaped-{secrets.token_hex(8)}"
        self.secret = f"SECRET-{secrets.token_hex(16)}"
        with tempfile.NamedTemporaryFile("w", prefix="corpo-secret-", delete=False) as file:
            file.write(self.secret)
        self.file = Path(file.name)
        self.file.chmod(0o666)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.abstract = f"\0corpo-{secrets.token_hex(8)}"
        self.unix = [socket.socket(socket.AF_UNIX, kind) for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM)]
        for number, one in enumerate(self.unix):
            one.bind(self.abstract + str(number))
        self.unix[0].listen()
        for one in (self.listener, *self.unix):
            one.setblocking(False)
        self.before = self.state()

    def names(self):
        """Code that tells a program where to knock."""
        port = self.listener.getsockname()[1]
        return (
            f"MARK, SECRET_FILE, PORT = {self.mark!r}, {str(self.file)!r}, {port}\nABSTRACT = {self.abstract + '0'!r}\n"
        )

    def state(self):
        return {
            "marks": [place for place in PLACES if os.path.lexists(Path(place, self.mark))],
            "secret": (self.file.read_text(), self.file.stat().st_mtime_ns, self.file.stat().st_nlink),
            "null": os.stat("/dev/null").st_mtime_ns,
            "name": socket.gethostname(),
            "nice": os.getpriority(os.PRIO_PROCESS, 0),
        }

    def check(self):
        assert self.state() == self.before
        with pytest.raises(BlockingIOError):
            self.listener.accept()
        with pytest.raises(BlockingIOError):
            self.unix[0].accept()
        with pytest.raises(BlockingIOError):
            self.unix[1].recv(1)

    def close(self):
        self.file.unlink()
        for one in (self.listener, *self.unix):
            one.close()


@pytest.fixture(scope="module")
def outside():
    found = Outside()
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("CORPO_SECRET", found.secret)
        yield found
    found.close()


@pytest.fixture(scope="module")
def judge(outside):
    with Judge(LIMITS) as judge:
        yield judge
    assert wait_until(lambda: not processes(str(SECONDS))), "something is left of a closed judge"


@pytest.fixture(scope="module")
def patient_judge():
    """One that gives ten times the time, for programs that a busy machine kept from doing their deed."""
    with Judge(replace(LIMITS, seconds=10 * SECONDS)) as judge:
        yield judge


@pytest.fixture
def verdict_on(judge, patient_judge, outside):
    """The verdict on a hostile program, after which nothing may have changed for anybody."""

    def verdict(tests, program, statuses, seconds):
        given = attacked(judge, outside, tests, program, seconds=seconds)
        if given.status == "timeout" and "timeout" not in statuses:
            given = patient_judge.judge(tests, program)
            outside.check()
        assert given.status in statuses.split("|"), given
        assert given.passed == 0
        return given

    return verdict


def attacked(judge, outside, tests, program, *, seconds=0.0):
    boxes = list(judge._boxes)
    started = time.monotonic()
    verdict = judge.judge(tests, program)
    took = time.monotonic() - started
    assert took < SECONDS + GRACE + seconds, f"the verdict took {took:.1f} s"
    outside.check()
    assert judge._boxes == boxes, f"a sandbox had to be started again: {verdict}"
    for _ in range(3):
        after = judge.judge(AFTER, HONEST)
        if after.status != "timeout":  # which on a busy machine even this one can be
            break
    assert after.status == "ok", f"the next candidate sees a difference: {after}"
    return verdict


CASES = [
    pytest.param(attack, mode, id=f"{kind}-{attack.name}-{mode}")
    for kind, attacks in DEEDS.items()
    for attack in attacks
    for mode in attack.modes
]


@pytest.mark.parametrize(("attack", "mode"), CASES)
def test_deed(verdict_on, outside, attack, mode):
    program = outside.names() + attack.program(mode)
    verdict = verdict_on(TESTS[mode], program, attack.status, attack.seconds)
    assert re.search(attack.says, verdict.detail), verdict


@pytest.mark.parametrize("mode", ["function", "program"])
def test_the_tests_of_the_deeds_can_pass(judge, mode):
    ending = "\nprint(attack())" if mode == "program" else ""
    assert judge.judge(TESTS[mode], "def attack(): return 'breached'" + ending).status == "ok"


SECRET = f"SECRET-{secrets.token_hex(16)}"
WANTED = FunctionTests(
    "attack",
    "assert attack(3) == secret\nassert secret == attack(4)\nassert attack(5) in {secret} and len(attack(5)) == 39",
    preamble=f"secret = {SECRET!r}",
)
PRINTED = ProgramTests(((f"{'line ' * 9}\n", f"{SECRET}\n"), ("", f"{SECRET}\n"), ("1\n" * 9, f"{SECRET}\n")))


@pytest.mark.parametrize(
    "forgery",
    [pytest.param(one, id=f"{kind}-{one.name}") for kind, forgeries in FORGERIES.items() for one in forgeries],
)
def test_forgery(verdict_on, forgery):
    verdict = verdict_on(WANTED, forgery.program(), forgery.status, forgery.seconds)
    assert verdict.total == 3
    assert re.search(forgery.says, verdict.detail), verdict
    assert SECRET not in verdict.detail


@pytest.mark.parametrize("forgery", [pytest.param(one, id=one.name) for one in PROGRAMS])
def test_forging_program(verdict_on, forgery):
    verdict = verdict_on(PRINTED, forgery.program(), forgery.status, 2 * SECONDS)
    assert verdict.total == 3
    assert re.search(forgery.says, verdict.detail), verdict


def test_the_forgeries_tests_can_pass(judge):
    assert judge.judge(WANTED, f"def attack(x): return {SECRET!r}").status == "ok"
    assert judge.judge(PRINTED, f"print({SECRET!r})").status == "ok"
