"""What the boxes let in and out, as far as it needs more than a hostile program to show."""

import os

from corpo_rl.records import FunctionTests

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
