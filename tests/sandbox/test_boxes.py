"""What the boxes let in and out beyond what a hostile program shows, and judges whose boxes are in trouble."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy
import pytest

import corpo_rl
import corpo_rl.sandbox.judge as judging
from corpo_rl.errors import CorpoError, UsageError
from corpo_rl.records import FunctionTests, Limits
from corpo_rl.sandbox.boxes import Box
from corpo_rl.sandbox.judge import Judge
from tests.sandbox.conftest import needs_bubblewrap, processes, wait_until

DOUBLE = FunctionTests("double", "assert double(2) == 4\nassert double(5) == 10")
DOUBLES = "def double(x): return x + x"
ONE = FunctionTests("one", "assert one() == 1")
HONEST = "def one(): return 1"


def processes_of(judge):
    return [box.process.pid for box in judge._boxes]


def said(judge, program):
    """What a program says by raising it while it is loaded."""
    verdict = judge.judge(ONE, program)
    assert verdict.status == "load_error"
    return verdict.detail.removeprefix("while loading: ")


def test_signals_to_the_process_group_do_not_reach_the_server(judge):
    before = processes_of(judge)
    for name in ("SIGKILL", "SIGTERM", "SIGSTOP", "SIGHUP"):
        judge.judge(ONE, f"import os, signal\nos.kill(0, signal.{name})\nos.killpg(0, signal.{name})")
        assert judge.judge(ONE, HONEST).status == "ok"
        assert processes_of(judge) == before, f"{name} ended the server"


def test_no_descriptor_but_the_pipes_reaches_a_candidate(fresh_judge):
    # the server has the control socket under the number it had here, the lowest one free
    kept = [os.open("/dev/null", os.O_RDONLY) for _ in range(200)]
    try:
        judge = fresh_judge()
    finally:
        for descriptor in kept:
            os.close(descriptor)
    program = """
import os
found = []
for number in range(1 << 16):
    try:
        os.fstat(number)
        found.append(number)
    except OSError:
        pass
raise Exception(found)
"""
    assert said(judge, program) == "Exception: [0, 1, 2, 3, 4]"


def test_tests_do_not_see_our_environment(fresh_judge, monkeypatch):
    monkeypatch.setenv("CORPO_SENTINEL", "a secret")
    source = """
found = []
for number in os.listdir("/proc"):
    if number.isdigit():
        found.append(open(f"/proc/{number}/environ").read())
assert len(found) >= 2  # bubblewrap and the judge
assert "SENTINEL" not in str(found) + str(os.environ), found
assert one() == 1
"""
    verdict = fresh_judge().judge(FunctionTests("one", source, preamble="import os"), HONEST)
    assert (verdict.status, verdict.passed) == ("ok", 3), verdict


def test_the_hosts_null_device_keeps_its_times(judge):
    before = os.stat("/dev/null").st_mtime_ns
    assert "Read-only file system" in said(judge, "import os\nos.utime('/dev/null')")
    assert os.stat("/dev/null").st_mtime_ns == before
    assert said(judge, "raise Exception(open('/dev/null', 'w').write('none') + len(open('/dev/null').read()))") == (
        "Exception: 4"
    )


def test_no_module_is_found_beside_the_candidates_own_process(judge):
    assert "No module named 'server'" in judge.judge(ONE, "import server").detail
    for name in ("process", "judge", "outputs"):
        verdict = judge.judge(ONE, f"import {name}")
        assert verdict.status == "missing_module", "that the tests have one of that name does not count"


@pytest.mark.parametrize("place", [0, 1], ids=["candidates", "tests"])
@pytest.mark.parametrize("whom", ["bubblewrap", "inside"])
def test_a_sandbox_killed_from_outside_is_started_again(fresh_judge, place, whom):
    mark = f"1.23456{os.getpid()}7"  # no 0 at the end: the number loses it
    judge = fresh_judge(seconds=float(mark))
    assert judge.judge(DOUBLE, DOUBLES).status == "ok"
    number = judge._boxes[place].process.pid
    if whom == "inside":
        script = ("/box/server.py", "/box/judge.py")[place]
        arguments = {one: Path(f"/proc/{one}/cmdline").read_text().split("\0") for one in processes(mark)}
        # the first: a candidate that is still dying has the server's arguments
        number = min(one for one, given in arguments.items() if given[2:3] == [script])
    os.kill(number, signal.SIGKILL)
    assert judge.judge(DOUBLE, "def double(x): return x * x").passed == 1
    assert judge.judge(DOUBLE, DOUBLES).status == "ok"


@pytest.mark.parametrize("place", [0, 1], ids=["candidates", "tests"])
def test_a_sandbox_killed_during_a_verdict(fresh_judge, place):
    judge = fresh_judge(seconds=5.0)
    killer = threading.Timer(0.3, lambda box: box.process.kill(), judge._boxes[place : place + 1])
    killer.start()
    verdict = judge.judge(DOUBLE, "import time\ntime.sleep(1)\n" + DOUBLES)
    killer.join()
    assert verdict.status == "ok", "the second try of the same candidate counts"
    assert judge.judge(DOUBLE, DOUBLES).status == "ok"


def test_tests_that_end_their_own_sandbox_twice_are_given_up(fresh_judge):
    judge = fresh_judge()
    tests = FunctionTests("f", "import os\nassert f(1) == 1\nos._exit(0)")
    verdict = judge.judge(tests, "def f(x): return x")
    assert (verdict.status, verdict.detail) == ("not_judged", "the sandbox of the tests died twice")
    assert judge.judge(DOUBLE, DOUBLES).status == "ok"


def test_tests_that_never_end_are_given_up(fresh_judge, monkeypatch):
    monkeypatch.setattr(judging, "_GRACE", 1.0)
    judge = fresh_judge()
    tests = FunctionTests("f", "assert f(1) == 1\nassert sum(range(10**12)) == f(2)")
    verdict = judge.judge(tests, "def f(x): return x")
    assert (verdict.status, verdict.total, verdict.detail) == ("not_judged", 2, "the tests did not come to an end")
    assert judge.judge(DOUBLE, DOUBLES).status == "ok"


def test_nothing_is_left_when_a_judge_is_closed_or_its_process_killed(fresh_judge):
    mark = f"0.98765{os.getpid()}7"
    judge = fresh_judge(seconds=float(mark))
    assert len(processes(mark)) >= 4
    judge.close()
    assert wait_until(lambda: not processes(mark))
    code = (
        "from corpo_rl.records import Limits, FunctionTests\nfrom corpo_rl.sandbox.judge import Judge\n"
        f"judge = Judge(Limits(seconds={mark}))\nprint('started', flush=True)\n"
        "judge.judge(FunctionTests('f', 'assert f()'), 'def f():\\n    while True: pass')"
    )
    host = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert host.stdout.readline() == b"started\n"
    host.kill()
    host.wait()
    host.stdout.close()
    assert wait_until(lambda: not processes(mark)), "boxes outlive a judge's process that was killed"


def test_a_candidate_is_the_first_to_be_killed_for_memory(fresh_judge):
    mark = f"3.45678{os.getpid()}7"
    judge = fresh_judge(seconds=float(mark))
    working = threading.Thread(target=judge.judge, args=(DOUBLE, "import time\ntime.sleep(1)"))
    working.start()
    time.sleep(0.4)
    # the server, and the candidate that it has made
    scores = [Path(f"/proc/{one}/oom_score_adj").read_text().strip() for one in processes(mark)]
    working.join()
    assert scores.count("1000") == 2


def test_judges_at_the_same_time_do_not_see_each_other(fresh_judge):
    first, second = fresh_judge(seconds=3.0), fresh_judge(seconds=3.0)
    busy = "import time\nopen('/tmp/here', 'w')\ntime.sleep(1)\ndef double(x): return 2 * x"
    seen = "import os\ndef double(x): return [os.listdir('/tmp'), os.listdir('/proc'), os.getpid()]"
    started = threading.Thread(target=first.judge, args=(DOUBLE, busy))
    started.start()
    time.sleep(0.3)
    verdict = second.judge(FunctionTests("double", "assert double(1) == [[], [], 1]"), seen)
    started.join()
    assert verdict.status == "ok"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (None, r"/python: expected a Python that candidates can run on \(.*No such file.*\); .* --python"),
        ("#!/bin/sh\necho 'Python 2'\nexit 1\n", r"expected a Python that candidates can run on \(.*exit status 1"),
        (
            "#!/bin/sh\nprintf '/usr\\n/usr\\nFalse\\n'\n",
            r"/python: expected Python 3.10 or newer; name another with --python",
        ),
    ],
    ids=["absent", "failing", "old"],
)
def test_interpreters_that_will_not_do(tmp_path, make, message):
    python = tmp_path / "python"
    if make is not None:
        python.write_text(make)
        python.chmod(0o755)
    with pytest.raises(UsageError, match=message) as raised:
        Judge(Limits(), python=python)
    assert "\n" not in str(raised.value)


@needs_bubblewrap
def test_another_interpreter_than_the_systems(fresh_judge):
    python = Path(sys.executable)
    if os.geteuid() == 0 and not readable_by_others(Path(sys.base_prefix)):
        with pytest.raises(CorpoError, match="the sandbox does not start here") as raised:
            Judge(Limits(), python=python)
        assert "\n" not in str(raised.value)
    else:
        with Judge(Limits(seconds=2), python=python) as judge:
            version = FunctionTests("f", f"assert f() == {tuple(sys.version_info[:3])}")
            assert judge.judge(version, "import sys\ndef f(): return sys.version_info[:3]").status == "ok"


def readable_by_others(folder):
    return all(one.stat().st_mode & 0o005 == 0o005 for one in (folder, *folder.parents))


def test_without_bubblewrap_nothing_is_run(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        CorpoError, match=r"bwrap was not found; install it \(on Debian and Ubuntu: apt install bubblewrap\)"
    ):
        Judge(Limits())


def test_a_bubblewrap_that_may_not_be_run(monkeypatch, tmp_path):
    fake = tmp_path / "bwrap"
    fake.write_text("no program")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(CorpoError, match=rf"^{fake}: bubblewrap does not start \(.+\); candidates run as nobody"):
        Judge(Limits())


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo 'bwrap: No permissions to create new namespace' >&2; exit 1", "No permissions to create new namespace"),
        ("exit 0", "no message"),
        ("echo '{}'; exit 1", "no message"),
    ],
)
def test_a_bubblewrap_that_does_not_work(monkeypatch, tmp_path, script, message):
    fake = tmp_path / "bwrap"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    tmp_path.chmod(0o755)
    for folder in tmp_path.parents[: tmp_path.parents.index(Path(tempfile.gettempdir()).resolve())]:
        folder.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(CorpoError, match=message) as raised:
        Judge(Limits())
    assert str(raised.value).startswith("the sandbox does not start here")
    assert "\n" not in str(raised.value)


def test_a_bubblewrap_that_hangs(monkeypatch, tmp_path):
    monkeypatch.setattr(judging, "_GRACE", 0.5)
    monkeypatch.setattr(judging, "start_box", lambda *a, **k: sleeping(k["shared"]))
    with pytest.raises(CorpoError, match="the sandbox does not start here"):
        Judge(Limits(seconds=0.5))


def sleeping(shared):
    pipe = subprocess.PIPE
    return Box(
        subprocess.Popen(["sleep", "60"], stdin=pipe, stdout=pipe, bufsize=0, pass_fds=[shared]),
        tempfile.TemporaryFile(),
    )


@needs_bubblewrap
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user; others already are one")
def test_without_being_root():
    python = shutil.which("python3", path="/usr/bin")
    path = os.pathsep.join([str(Path(corpo_rl.__file__).parents[1]), str(Path(numpy.__file__).parents[1])])
    code = (
        "import os\nfrom corpo_rl.records import Limits, FunctionTests\nfrom corpo_rl.sandbox.judge import Judge\n"
        "tests, program = FunctionTests('f', 'assert f() == 65534'), 'import os\\ndef f(): return os.getuid()'\n"
        "with Judge(Limits(seconds=2)) as judge:\n    print(os.getuid(), judge.judge(tests, program).status)"
    )
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": path}
    ran = subprocess.run(
        [python, "-c", code], env=environment, user=1000, group=1000, extra_groups=(), cwd="/",
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "ModuleNotFoundError" in ran.stderr or "ImportError" in ran.stderr or "PermissionError" in ran.stderr:
        pytest.skip(f"the system's Python cannot import what this one has: {ran.stderr.splitlines()[-1]}")
    assert (ran.stdout, ran.stderr) == ("1000 ok\n", "")
