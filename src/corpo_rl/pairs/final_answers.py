"""Whether the final answer of a math solution is the one expected."""

import importlib.util
import json
import os
import re
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from corpo_rl.errors import CorpoError, MissingExtraError
from corpo_rl.pairs.cut import without_calculator_marks
from corpo_rl.records import NOT_JUDGED, FinalAnswer, Verdict

_WORKER = Path(__file__).with_name("final_answers_worker.py")
_TAIL = 4000
"""Characters at the end of a solution that are searched for its answer."""
_START_SECONDS = 120.0
"""SymPy loads slowly on a busy machine."""
_MOST_REPLY = 1 << 16
_MARK = re.compile(r"^[ \t*>]*(?:#{4}|A:|(?:final )?answer[ \t]*:)[ \t*]*(\S[^\n]*)$", re.MULTILINE | re.IGNORECASE)
_BOXED = re.compile(r"\\(?:boxed|fbox)(?:[ \t]*(\{)|[ \t]+([^\s{$][^$\n]*))")


def marked_answer(text: str) -> str | None:
    r"""The final answer that a solution marks as such, without the mark; None when it marks none.

    Marks are the last `\boxed{...}`, or else the last line that begins with `####`, `A:`, `Answer:` or `Final answer:`.

    Example:
        >>> marked_answer("3 + 4 = 7 eggs\nA: 7"), marked_answer("so $x = \\boxed{\\frac{1}{2}}$ or $0.5$")
        ('7', '\\frac{1}{2}')
    """
    boxed = list(_BOXED.finditer(text))
    if boxed:
        content = _braced(text, boxed[-1].end()) if boxed[-1].group(1) else boxed[-1].group(2)
        if content is not None and content.strip():
            return content.strip()
    lines = _MARK.findall(text)
    return lines[-1].strip() if lines else None


class FinalAnswerJudge:
    """Judges final answers with the library math-verify, in a process of its own that is killed when it takes too long.

    Answers that mark their end (see `marked_answer`) are judged by that; in the others math-verify looks for "the
    answer is ...", or else takes the last number or formula. Words are compared as words.

    Use it as a context manager, from one thread.

    Args:
        seconds: Wall time for one answer.
        memory_mb: Address space of the process.

    Raises:
        CorpoError: math-verify is not installed, or its process does not start.

    Example:
        >>> with FinalAnswerJudge() as judge:
        ...     judge.judge(FinalAnswer("1/2"), "Half of it, so the answer is 0.50.").status
        'ok'
    """

    def __init__(self, *, seconds: float = 5.0, memory_mb: int = 2048) -> None:
        if importlib.util.find_spec("math_verify") is None:
            raise MissingExtraError("judging final answers", "pairs")
        self._seconds = seconds
        self._memory_mb = memory_mb
        self._process: subprocess.Popen[bytes] | None = None
        self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def judge(self, tests: FinalAnswer, text: str) -> Verdict:
        """Compare the final answer in a text with the one expected.

        Two cases are `not_judged` rather than wrong: the expected answer cannot be read, and the comparison does not
        come to an end in its time or memory. A right answer may be a formula that SymPy cannot simplify, so that says
        nothing of it; and nobody gains by it, since answers that are not judged are not used.

        Args:
            tests: The answer expected.
            text: A solution, untrusted; its last 4,000 characters are read.
        """
        started = time.monotonic()
        tail = without_calculator_marks(text[-_TAIL:])
        answer = marked_answer(tail)
        request = {"expected": tests.answer, "answer": tail if answer is None else answer, "marked": answer is not None}
        reply = self._ask(request)
        passed = int(reply["status"] == "ok")
        seconds = time.monotonic() - started
        return Verdict(reply["status"], passed, 1, detail=reply["detail"], seconds=seconds)

    def close(self) -> None:
        """End the process; the next verdict starts a new one."""
        if self._process is None:
            return
        self._process.kill()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        for pipe in (self._process.stdin, self._process.stdout):
            pipe.close()
        self._process.wait()
        self._process = None

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._process is None:
            self._start()
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            reply = self._hear(self._seconds)
        except TimeoutError:
            self.close()
            return {"status": NOT_JUDGED, "detail": f"no comparison within {self._seconds:g} seconds"}
        except (OSError, EOFError):
            self.close()
            return {"status": NOT_JUDGED, "detail": "the comparison broke down"}
        if reply["retire"]:
            self.close()
        return reply

    def _start(self) -> None:
        with tempfile.TemporaryFile() as complaints:
            self._process = subprocess.Popen(
                [sys.executable, "-I", str(_WORKER), str(self._seconds), str(self._memory_mb)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                bufsize=0,
            )
            try:
                self._hear(_START_SECONDS)
            except (TimeoutError, OSError, EOFError):
                self.close()
                complaints.seek(0)
                said = complaints.read().decode(errors="replace").strip().splitlines()
                reason = said[-1] if said else "no complaint"
                raise CorpoError(f"math-verify does not start in a process of its own: {reason}") from None

    def _hear(self, seconds: float) -> dict[str, Any]:
        """The next line of the process.

        Raises:
            TimeoutError: It does not come in time.
            EOFError: The process has ended.
        """
        assert self._process is not None
        assert self._process.stdout is not None
        pipe = self._process.stdout.fileno()
        deadline = time.monotonic() + seconds
        line = b""
        waiting = select.poll()  # select itself knows no descriptor above 1023
        waiting.register(pipe, select.POLLIN)
        while not line.endswith(b"\n"):
            if not waiting.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise TimeoutError
            part = os.read(pipe, _MOST_REPLY)
            if not part or len(line) > _MOST_REPLY:
                raise EOFError
            line += part
        reply: dict[str, Any] = json.loads(line)
        return reply


def _braced(text: str, start: int) -> str | None:
    """What stands up to the brace that closes the one just before `start`; None when none does."""
    depth = 1
    for place in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return text[start:place]
    return None
