"""A hostile program, and how it has to end."""

from dataclasses import dataclass
from textwrap import dedent, indent

from corpo_rl.records import FunctionTests, ProgramTests

HELD = "AssertionError|another output than expected"
"""The deed went without an error, and had no effect."""

DENIED = r"\[Errno 1\] Operation not permitted"
READ_ONLY = r"\[Errno 30\] Read-only file system"
ABSENT = r"\[Errno 2\] No such file or directory"
NO_PROCESS = r"\[Errno 3\] No such process"
NO_SPACE = r"\[Errno 28\] No space left"
TIME = "no answer in time|no end in time|processor time"

PRELUDE = """
import ctypes, errno, fcntl, mmap, os, resource, signal, socket, struct, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

def call(*arguments):
    ctypes.set_errno(0)
    result = libc.syscall(*(ctypes.c_long(one) if isinstance(one, int) else one for one in arguments))
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result

def each(tries):
    # the last refusal, when every one is refused
    for one in tries:
        try:
            result = one()
        except OSError as error:
            last = error
        else:
            return "breached", result
    raise last

"""


@dataclass(frozen=True)
class Attack:
    """A deed, done in a function `attack` that returns "breached" when it worked."""

    name: str
    body: str
    says: str = HELD
    """Expression that the verdict's detail has to match: why the deed failed, so that no misspelt deed counts."""
    status: str = "wrong"
    """Statuses that it may get, with | between them."""
    modes: tuple[str, ...] = ("function", "program")
    before: str = ""
    """Code at the top of the program."""
    seconds: float = 0.0
    """Time beyond the limit that the judge itself may take."""

    def program(self, mode):
        source = PRELUDE + dedent(self.before) + "\ndef attack():\n" + indent(dedent(self.body).strip(), "    ") + "\n"
        return (
            source + "\nprint('breached' if 'breached' in str(attack()) else 'held')\n" if mode == "program" else source
        )


TESTS = {
    "function": FunctionTests("attack", "assert 'breached' in str(attack())"),
    "program": ProgramTests((("", "breached\n"),)),
}


FORGE = """
import json, os, sys, time
def frame(body):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return len(body).to_bytes(4, "big") + body
def send(*bodies):
    for body in bodies:
        os.write(4, frame(body))
"""

WRONG = "AssertionError|another"


@dataclass(frozen=True)
class Forgery:
    """A whole program, and how it has to end."""

    name: str
    source: str
    says: str
    status: str = "wrong"
    seconds: float = 0.0

    def program(self):
        return FORGE + dedent(self.source)
