"""Runs the tests, and decides. The candidate is elsewhere: it gets arguments and gives back plain values.

Runs inside a sandbox of its own, on the system's Python, standard library only, because the tests of a data set are
code as well. Messages on standard input and output, a JSON object in a frame each: `tests` names the tests that the
next programs are for, `program` asks for a verdict. The first answer to a program says how many tests there are, the
second is the verdict.
"""

import json
import os
import random
import resource
import select
import socket
import sys
import time

# the files beside this one, where they lie inside the sandbox; nothing imported later may be found there
import wire
from outputs import same_text
from process import (
    FAILED,
    LOAD_ERROR,
    MEMORY,
    MISSING_MODULE,
    NOT_JUDGED,
    PASSED,
    TIMEOUT,
    Outcome,
    Process,
    Proxy,
    Stop,
    how_it_died,
    of_exception,
    printable,
    short,
)
from statements import prepare_calls, prepare_statements

sys.path.remove("/box")

_WORST_FIRST = (LOAD_ERROR, FAILED, TIMEOUT, MEMORY, MISSING_MODULE, NOT_JUDGED)
"""A candidate that fails one test is wrong, whatever else could not be judged."""
_MOST_PROGRAM = 1 << 28


def judge_function(control, tests, program, limits):
    """Outcomes of the tests of one candidate function, in order; those not reached are missing at the end."""
    process = Process(control, seconds=limits["seconds"], output_bytes=limits["output_bytes"], program=False)
    proxy = Proxy(process)
    try:
        process.tell({"kind": "function", "program": program, "entry_point": tests["entry_point"]})
        failure = _load_failure(proxy, process, tests["entry_point"])
        if failure is not None:
            return [failure]
        random.seed(0)
        return list(tests["run"](proxy))
    finally:
        process.close_all()


def _load_failure(proxy, process, entry_point):
    """Why the program could not be loaded; None when it was."""
    try:
        answer = proxy.hear()
    except Stop:
        outcome = proxy.trouble
        return Outcome(LOAD_ERROR if outcome.kind == FAILED else outcome.kind, f"while loading: {outcome.text}")
    if "failed" in answer:
        outcome = of_exception(answer["failed"])
        return Outcome(LOAD_ERROR if outcome.kind == FAILED else outcome.kind, f"while loading: {outcome.text}")
    if answer.get("loaded") is not True:
        return Outcome(LOAD_ERROR, f"the program defines no {entry_point}")
    return None


def judge_program(control, tests, program, limits):
    """Outcomes of the cases of one program, each in a process of its own; after a timeout no more are run."""
    outcomes = []
    for given, expected in tests["cases"]:
        process = Process(control, seconds=tests["seconds"], output_bytes=limits["output_bytes"], program=True)
        try:
            outcomes.append(_run_case(process, program, given.encode(), expected))
        finally:
            process.close_all()
        if outcomes[-1].kind in (TIMEOUT, LOAD_ERROR):
            break
    return outcomes


def _run_case(process, program, given, expected):
    process.tell({"kind": "program", "program": program})
    output = _converse(process, given)
    # a program that closed its output still has the rest of its time to end by itself
    ended = process.end(seconds=0 if output is None else process.deadline - time.monotonic())
    if output is None:
        return Outcome(FAILED, "more output than allowed")
    if ended["killed"]:
        return Outcome(TIMEOUT, "no end in time")
    if ended["code"] != 0:
        try:
            answer = process.hear()
            outcome = of_exception(answer["failed"])
        except (KeyError, TimeoutError, wire.Closed, wire.TooLong, wire.Malformed):
            return Outcome(*how_it_died(ended))
        no_program = outcome.kind == FAILED and answer.get("loaded") is False
        return Outcome(LOAD_ERROR, outcome.text) if no_program else outcome
    if same_text(output.decode("utf-8", "replace"), expected):
        return Outcome(PASSED)
    return Outcome(FAILED, "another output than expected")


def _converse(process, given):
    """Feed the input and collect the output until it ends, its time is up, or (None) it is too long."""
    os.set_blocking(process.stdin, False)
    parts, size, rest = [], 0, memoryview(given)
    poll = select.poll()
    poll.register(process.stdout, select.POLLIN)
    if rest:
        poll.register(process.stdin, select.POLLOUT)
    else:
        process.close(process.stdin)
    while True:
        left = process.deadline - time.monotonic()
        if left <= 0:
            return b"".join(parts)
        for descriptor, _ in poll.poll(left * 1000):
            if descriptor == process.stdin:
                try:
                    rest = rest[os.write(process.stdin, rest[: 1 << 16]) :]
                except OSError:
                    rest = rest[:0]
                if not rest:
                    poll.unregister(process.stdin)
                    process.close(process.stdin)
                continue
            part = os.read(process.stdout, 1 << 16)
            if not part:
                return b"".join(parts)
            parts.append(part)
            size += len(part)
            if size > process.output_bytes:
                return None


def prepare(tests):
    """Tests of any kind, ready to run: their number under `total`, and what the judging functions need."""
    if tests["kind"] == "program":
        return {**tests, "total": len(tests["cases"]), "judge": judge_program}
    total, run = (prepare_statements if tests["kind"] == "function" else prepare_calls)(tests)
    return {**tests, "total": total, "run": run, "judge": judge_function}


def verdict(outcomes, total):
    """The verdict on a candidate from the outcomes of its tests."""
    passed = sum(outcome.kind == PASSED for outcome in outcomes)
    if total and passed == total and len(outcomes) == total:
        return {"status": "ok", "passed": passed, "total": total, "detail": ""}
    for kind in _WORST_FIRST:
        for number, outcome in enumerate(outcomes, start=1):
            if outcome.kind == kind:
                where = "" if kind == LOAD_ERROR else f"test {number}: "
                return {"status": kind, "passed": passed, "total": total, "detail": printable(where + outcome.text)}
    return {"status": NOT_JUDGED, "passed": passed, "total": total, "detail": "the tests hold no assert"}


def _limit_itself(limits):
    """What the tests may use: a candidate can make them ask for much, by a result like range(10**12)."""
    memory = max(limits["memory_mb"], 1024) << 20
    for name, value in (("AS", memory), ("FSIZE", 16 << 20), ("NPROC", 64), ("NOFILE", 256), ("CORE", 0)):
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))


def main():
    """Arguments: the control socket's number and the limits as JSON."""
    control, limits = socket.socket(fileno=int(sys.argv[1])), json.loads(sys.argv[2])
    _limit_itself(limits)
    given, taken = os.dup(0), os.dup(1)
    null = os.open("/dev/null", os.O_RDWR)
    for standard in (0, 1):
        # what the tests print or read is not part of the conversation
        os.dup2(null, standard)
    tests = None
    while True:
        try:
            message = wire.receive(given, most=_MOST_PROGRAM, deadline=None)
        except wire.Closed:
            return
        if "tests" in message:
            try:
                tests = prepare(message["tests"])
            except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
                tests = {"total": 0, "broken": f"the tests cannot be read: {short(error)}"}
            continue
        wire.send(taken, {"total": tests["total"]})
        if "broken" in tests:
            wire.send(taken, {"status": NOT_JUDGED, "passed": 0, "total": 0, "detail": tests["broken"]})
            continue
        outcomes = tests["judge"](control, tests, message["program"], limits)
        wire.send(taken, verdict(outcomes, tests["total"]))


if __name__ == "__main__":
    main()
