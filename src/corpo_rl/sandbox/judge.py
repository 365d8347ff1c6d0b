"""Judges candidate programs: tests in one sandbox, candidates in another, and a verdict that no candidate can write."""

import base64
import json
import os
import socket
import time
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from corpo_rl.errors import CorpoError
from corpo_rl.records import NOT_JUDGED, CallTests, FunctionTests, Limits, ProgramTests, Verdict
from corpo_rl.sandbox.boxes import SYSTEM_PYTHON, Box, start_box
from corpo_rl.sandbox.inside import wire
from corpo_rl.sandbox.seccomp import candidate_filter

CodeTests = FunctionTests | CallTests | ProgramTests

_GRACE = 10.0
"""Seconds beyond a candidate's own for the tests themselves; then both sandboxes are thrown away."""
_MOST_ANSWER = 1 << 20


class Judge:
    r"""Two warm sandboxes and the verdicts they give, one candidate at a time.

    The fork server's sandbox makes a process for each candidate that can do nothing but answer; the other sandbox runs
    the tests, calls the candidate through a pipe, and compares the plain values that come back. The candidate's process
    holds neither the tests nor the verdict, so there is nothing in it to patch, read or forge.

    Use it as a context manager, from one thread.

    Args:
        limits: What a candidate may use.
        python: Interpreter of candidates and tests, the system's by default.

    Raises:
        CorpoError: bubblewrap or libseccomp is missing, or the sandboxes do not start here.

    Example:
        >>> tests = FunctionTests("double", "assert double(2) == 4\nassert double(5) == 10")
        >>> with Judge(Limits()) as judge:  # doctest: +SKIP
        ...     judge.judge(tests, "def double(x): return x * x")
        Verdict(status='wrong', passed=1, total=2, detail='test 2: AssertionError', seconds=...)
    """

    def __init__(self, limits: Limits, *, python: Path = SYSTEM_PYTHON) -> None:
        self._limits = limits
        self._python = python
        self._filter = base64.b64encode(candidate_filter()).decode()
        self._boxes: list[Box] = []
        self._told: CodeTests | None = None
        self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def judge(self, tests: CodeTests, program: str) -> Verdict:
        """Run the tests on a program.

        The program is loaded once for all tests of a function, and run anew for each case of a program. Candidates see
        the same hash seed and random seed every time. Results that are not built of plain types (numbers, text, bytes,
        lists, tuples, dicts, sets, ranges, deques, fractions, decimals) cannot be judged.

        Args:
            tests: The tests.
            program: The whole source text of the candidate, untrusted.

        Raises:
            CorpoError: The sandboxes do not start any more. What happens inside them is a verdict, never an error.
        """
        started = time.monotonic()
        for _ in range(2):
            if not self._boxes:
                self._start()
            answer = self._ask(tests, program)
            if answer is not None:
                break
            self.close()
        seconds = time.monotonic() - started
        if answer is None:
            return Verdict(NOT_JUDGED, 0, 0, detail="the sandbox of the tests died twice", seconds=seconds)
        return Verdict(**answer, seconds=seconds)

    def close(self) -> None:
        """Throw both sandboxes away; the next verdict starts new ones."""
        for box in self._boxes:
            box.kill()
        self._boxes = []
        self._told = None

    def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        limits = json.dumps(asdict(self._limits))
        with ours, theirs:
            for script, arguments, shared in (
                ("server.py", [limits, self._filter], theirs),
                ("judge.py", [limits], ours),
            ):
                try:
                    box = start_box(
                        script,
                        arguments,
                        python=self._python,
                        shared=shared.fileno(),
                        conversing=script == "judge.py",
                        may_make_namespaces=script == "server.py",
                    )
                except CorpoError:
                    self.close()
                    raise
                self._boxes.append(box)
        probe = self._ask(FunctionTests("one", "assert one() == 1"), "def one(): return 1")
        if probe is None or probe["status"] != "ok":
            complaints = "; ".join(box.complaint() for box in self._boxes)
            self.close()
            raise CorpoError(
                f"the sandbox does not start here ({complaints}; {probe}); bubblewrap needs user namespaces: see its "
                "README, or run where `bwrap --unshare-user --ro-bind / / true` works"
            )

    def _ask(self, tests: CodeTests, program: str) -> dict[str, Any] | None:
        """The answer of the sandboxes, or None when they died; after a silence they are killed."""
        box = self._boxes[1].process
        assert box.stdin is not None
        assert box.stdout is not None
        given, taken = box.stdin.fileno(), box.stdout.fileno()
        total = 0
        try:
            if tests is not self._told:
                wire.send(given, {"tests": _as_message(tests, self._limits)})
                self._told = tests
            wire.send(given, {"program": program})
            deadline = time.monotonic() + _GRACE
            total = wire.receive(taken, most=_MOST_ANSWER, deadline=deadline)["total"]
            deadline += _seconds(tests, self._limits) * (len(tests.cases) if isinstance(tests, ProgramTests) else 1)
            answer: dict[str, Any] = wire.receive(taken, most=_MOST_ANSWER, deadline=deadline)
        except wire.Closed:
            return None
        except TimeoutError:
            self.close()
            return {"status": NOT_JUDGED, "passed": 0, "total": total, "detail": "the tests did not come to an end"}
        except BaseException:
            # interrupted: the answer still to come would be taken for that of the next program
            self.close()
            raise
        return answer


def _seconds(tests: CodeTests, limits: Limits) -> float:
    if isinstance(tests, ProgramTests) and tests.time_limit is not None:
        return max(limits.seconds, tests.time_limit)
    return limits.seconds


def _as_message(tests: CodeTests, limits: Limits) -> dict[str, Any]:
    kind = {FunctionTests: "function", CallTests: "calls", ProgramTests: "program"}[type(tests)]
    return {**asdict(tests), "kind": kind, "seconds": _seconds(tests, limits)}


def available_cores() -> int:
    """Cores this process may use: as many judges at a time are worth starting."""
    return len(os.sched_getaffinity(0))
