"""The candidate as the tests see it: a process behind two pipes, and a function that calls it."""

import builtins
import contextlib
import json
import os
import signal
import socket
import time
from importlib import machinery

import wire

PASSED, FAILED, TIMEOUT, MEMORY, LOAD_ERROR = "passed", "wrong", "timeout", "memory", "load_error"
MISSING_MODULE, NOT_JUDGED = "missing_module", "not_judged"
SETUP_FAILED = 99
"""Exit status of a process that could not give up its power; see server.py."""


_NOT_RAISED = (Exception, StopIteration, StopAsyncIteration, MemoryError)
"""A StopIteration would end a test's `all(map(candidate, ...))` early, and well; a MemoryError would look like the
test's own."""


_SHORTEST_LIMIT = 4096
"""Bytes that a reply may always have: the description of an exception is no output."""
_TESTS_SECONDS = 2.0
"""Wall time for a test's own work beyond the candidate's time."""


class CandidateRaised(Exception):
    """An exception of the candidate that derives from no built-in one, or from one that is not raised here."""


class Stop(BaseException):
    """No test after this one can be run. No `except Exception` of a test may catch it."""


class Outcome:
    """What became of one test."""

    def __init__(self, kind, text=""):
        self.kind, self.text = kind, text


class Process:
    """One process of the candidate, from its birth to its end, over pipes that nobody else holds."""

    def __init__(self, control, *, seconds, output_bytes, program):
        self._control = control
        self.output_bytes = output_bytes
        request, self.request = os.pipe()
        os.set_blocking(self.request, False)
        self.reply, reply = os.pipe()
        ends = [request, reply]
        if program:
            given, self.stdin = os.pipe()
            self.stdout, taken = os.pipe()
            ends += [given, taken]
        socket.send_fds(control, [json.dumps({"do": "spawn", "seconds": seconds}).encode()], ends)
        for end in ends:
            os.close(end)
        self._open = [self.request, self.reply] + ([self.stdin, self.stdout] if program else [])
        control.recv(256)
        self.deadline = time.monotonic() + seconds
        self._ended = None

    def tell(self, message):
        """Send a message to the candidate; when it does not take it, its silence will say so."""
        with contextlib.suppress(wire.Closed, TimeoutError):
            wire.send(self.request, message, deadline=self.deadline)

    def hear(self):
        """Its next reply; raises what `wire.receive` raises, and `Malformed` for what is no object."""
        most = max(self.output_bytes, _SHORTEST_LIMIT)
        message = wire.receive(self.reply, most=most, deadline=self.deadline)
        if not isinstance(message, dict):
            raise wire.Malformed("an object was expected")
        return message

    def close(self, descriptor):
        """Close one of our ends."""
        if descriptor in self._open:
            self._open.remove(descriptor)
            os.close(descriptor)

    def end(self, *, seconds=0.0):
        """Wait, kill, and give how it ended: {"killed": bool, "code": exit status or minus the signal}."""
        if self._ended is None:
            self._control.send(json.dumps({"do": "end", "seconds": max(0.0, seconds)}).encode())
            self._ended = json.loads(self._control.recv(256))
        return self._ended

    def close_all(self):
        """See to it that it ends, and close every end of ours that is open."""
        if self._ended is None:
            self._control.send(b'{"do": "kill"}')
            self._ended = {}
        for descriptor in list(self._open):
            self.close(descriptor)


class Proxy:
    """Stands for the candidate's function in the tests: a call goes to its process, a plain value comes back."""

    def __init__(self, process):
        self._process = process
        self.calls = 0
        self.trouble = None
        """Why the last test says nothing, or nothing good, whatever its own code made of it."""
        self.dead = False

    def __call__(self, *positional, **named):
        """Call the candidate's function.

        Raises:
            Stop: It did not answer, or with what cannot be judged.
            Exception: What the candidate raised: the built-in exception that it is or derives from, or
                `CandidateRaised`.
        """
        self.calls += 1
        try:
            arguments = wire.encode([positional, named])
        except wire.Unsendable as error:
            raise self._stop(NOT_JUDGED, f"an argument of type {error} cannot be sent to the candidate") from None
        self._process.tell({"arguments": arguments})
        answer = self.hear()
        if "raised" in answer:
            raise self._raised(answer["raised"])
        if "unsendable" in answer:
            raise self._stop(NOT_JUDGED, f"a result of type {_said(answer, 'unsendable')[:60]} cannot be judged")
        try:
            result = wire.decode(answer.get("result"))
            if result is None and answer.get("arguments") is not None:
                _write_back(positional, wire.decode(answer["arguments"]))
        except (wire.Malformed, RecursionError, MemoryError) as error:
            raise self._stop(FAILED, f"an answer that is no value ({short(error)})") from None
        return result

    @contextlib.contextmanager
    def bounded(self):
        """Bound what a test does with the candidate's results: a loop over range(10**15) takes no memory, but for ever.

        Work inside one built-in function (the sum of such a range) cannot be interrupted: the whole sandbox is ended.
        """
        armed = True

        def ring(*_):
            if armed:
                self.dead = True
                raise self._stop(TIMEOUT, "no end of the test in time")

        signal.signal(signal.SIGALRM, ring)
        left = self._process.deadline - time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, max(0.0, left) + _TESTS_SECONDS)
        try:
            yield
        finally:
            armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)

    def hear(self):
        """The next reply of the process; raises `Stop` when there is none or it is no reply."""
        try:
            return self._process.hear()
        except TimeoutError:
            self.dead = True
            raise self._stop(TIMEOUT, "no answer in time") from None
        except wire.Closed:
            self.dead = True
            # a process closes its pipes a little before it has ended
            raise self._stop(*how_it_died(self._process.end(seconds=0.1))) from None
        except (wire.TooLong, wire.Malformed) as error:
            self.dead = True
            kind = "over the limit of output" if isinstance(error, wire.TooLong) else "malformed"
            raise self._stop(FAILED, f"an answer that is {kind}") from None

    def _raised(self, described):
        outcome = of_exception(described)
        if outcome.kind != FAILED:
            return self._stop(outcome.kind, outcome.text)
        for name in _bases(described) if isinstance(described, dict) else ():
            known = getattr(builtins, name, None)
            if isinstance(known, type) and issubclass(known, Exception) and known not in _NOT_RAISED:
                with contextlib.suppress(TypeError):  # some want more than a text
                    return known(_said(described, "text"))
        return CandidateRaised(outcome.text)

    def _stop(self, kind, text):
        self.trouble = Outcome(kind, text)
        return Stop(text)


def of_exception(described):
    """The outcome that an exception of the candidate means; the description is the candidate's own word."""
    if not isinstance(described, dict):
        return Outcome(FAILED, "an exception without a description")
    name, text = _said(described, "type")[:100], " ".join(_said(described, "text").split())[:200]
    bases = _bases(described)
    line = f"{name}: {text}".rstrip(": ")
    if "MemoryError" in bases:
        return Outcome(MEMORY, line)
    if "ModuleNotFoundError" in bases and _is_missing(described.get("module")):
        return Outcome(MISSING_MODULE, line)
    return Outcome(FAILED, line)


def _said(described, key):
    """A text in the candidate's description; nothing that is no text is worth the risk of turning it into one."""
    value = described.get(key)
    return value if isinstance(value, str) else ""


def _bases(described):
    """Names of the classes that an exception of the candidate is of, its own first."""
    bases = described.get("bases")
    return [name for name in bases if isinstance(name, str)] if isinstance(bases, list) else []


def _is_missing(module):
    """Whether a module is really absent here: a candidate that claims it of an installed one is just wrong."""
    if not isinstance(module, str) or (not module.isidentifier() and not module.replace(".", "").isidentifier()):
        return False
    # not importlib.util.find_spec, which also knows what this process has imported from beside this file
    finders = (machinery.BuiltinImporter, machinery.FrozenImporter, machinery.PathFinder)
    return all(finder.find_spec(module.split(".")[0]) is None for finder in finders)


def how_it_died(ended):
    """The kind and the words of a process's end that was not its last answer."""
    code = ended["code"]
    if code == -9 and not ended["killed"]:
        return TIMEOUT, "its processor time was used up"
    if code == SETUP_FAILED:
        return NOT_JUDGED, "its process could not be set up, or claims so"
    return FAILED, f"its process died by signal {-code}" if code < 0 else f"its process ended with status {code}"


def _write_back(arguments, after):
    """Give the arguments of a function that works in place the contents that the candidate left in its copies."""
    if not isinstance(after, tuple) or len(after) != len(arguments):
        return
    for ours, theirs in zip(arguments, after):
        if type(ours) is not type(theirs) or not isinstance(ours, (list, dict, set)):
            continue
        if isinstance(ours, list):
            ours[:] = theirs
        else:
            ours.clear()
            ours.update(theirs)


def printable(text):
    """A text of the candidate's that is shown and stored: no surrogate, no command to a terminal."""
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


def short(error):
    """What an error says, on one line."""
    return " ".join(str(error).split())[:200]
