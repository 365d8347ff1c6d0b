"""The system-call filter, tried call by call on the kernel, from inside the sandbox."""

import ctypes
import platform
import re
import struct

import pytest

import corpo_rl.sandbox.seccomp as seccomp
from corpo_rl.errors import CorpoError
from corpo_rl.records import FunctionTests, Limits
from corpo_rl.sandbox.judge import Judge

ONE = FunctionTests("one", "assert one() == 1")

CALL = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def call(*arguments):
    ctypes.set_errno(0)
    result = libc.syscall(*(ctypes.c_long(one) if isinstance(one, int) else one for one in arguments))
    return ctypes.get_errno() if result == -1 else 0
"""


WORDS = "ctypes.byref((ctypes.c_uint32 * 6)"


def numbers(names):
    """This machine's numbers of system calls, by name, without those it does not have."""
    library = ctypes.CDLL("libseccomp.so.2")
    found = {name: library.seccomp_syscall_resolve_name(name.encode()) for name in names}
    return {name: number for name, number in found.items() if number >= 0}


def said(judge, program):
    return judge.judge(ONE, CALL + program).detail.removeprefix("while loading: Exception: ")


def test_every_denied_call_is_refused_by_the_kernel(judge):
    # arguments of zeros: where a call is let through, the kernel answers something else than EPERM, or it succeeds
    names = numbers(seccomp._DENIED)
    assert len(names) > 95
    program = f"wrong = []\nfor name, number in {names}.items():\n    error = call(number, 0, 0, 0, 0, 0, 0)\n"
    program += "    if error != 1:\n        wrong.append((name, error))\nraise Exception(wrong)"
    assert said(judge, program) == "[]"


def test_what_programs_need_is_let_through(judge):
    names = numbers(["getpid", "sched_yield", "getuid", "times", "umask"])
    program = f"raise Exception([call(number, 0, 0) for number in {list(names.values())}])"
    assert said(judge, program) == str([0] * len(names))


@pytest.mark.parametrize(
    ("call", "arguments", "errors"),
    [
        ("clone", "17, 0, 0, 0, 0", {1}),  # SIGCHLD: a fork
        ("clone", "0x4111, 0, 0, 0, 0", {1}),  # CLONE_VM and CLONE_VFORK: a vfork
        ("clone", "0x10000011, 0, 0, 0, 0", {1}),  # a user namespace
        ("clone", "0x10010f00, 0, 0, 0, 0", {1}),  # a user namespace, claimed to be for a thread
        ("clone", "0x20010f00, 0, 0, 0, 0", {1}),  # a process namespace
        ("clone", "0x100000011, 0, 0, 0, 0", {1}),  # bits that the kernel does not look at
        ("clone3", "0, 0", {38}),  # ENOSYS: the flags lie where no filter sees them
        ("clone3", "ctypes.byref((ctypes.c_uint64 * 11)(0x10000000)), 88", {38}),
        ("socketpair", "2, 1, 0, ctypes.byref((ctypes.c_int * 2)())", {1}),
        ("socketpair", "30, 1, 0, ctypes.byref((ctypes.c_int * 2)())", {1}),  # TIPC, which loads a module
        ("socketpair", "0x100000001, 1, 0, ctypes.byref((ctypes.c_int * 2)())", {1}),
        ("socketpair", "1, 1, 0, ctypes.byref((ctypes.c_int * 2)())", {0}),
        ("prctl", "4, 1, 0, 0, 0", {1}),  # PR_SET_DUMPABLE
        ("prctl", "0x100000004, 1, 0, 0, 0", {1}),
        ("prctl", "38, 0, 0, 0, 0", {22}),  # no new privileges cannot be taken back
        ("prctl", "47, 2, 21, 0, 0", {1}),  # PR_CAP_AMBIENT_RAISE of CAP_SYS_ADMIN
        ("prctl", "28, 0, 0, 0, 0", {1}),  # PR_SET_SECUREBITS
        ("prctl", "22, 0, 0, 0, 0", {22}),  # a filter cannot be switched off
        ("capset", f"{WORDS}(0x20080522, 0)), {WORDS}(*[1 << 21] * 6))", {1}),  # CAP_SYS_ADMIN
        ("ioprio_set", "1, 0, 1 << 13", {1}),  # real-time input and output
    ],
)  # fmt: skip
def test_arguments_that_make_the_difference(judge, call, arguments, errors):
    (number,) = numbers([call]).values()
    assert int(said(judge, f"raise Exception(call({number}, {arguments}))")) in errors


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the other ways to name a system call are x86's")
@pytest.mark.parametrize(
    "code",
    [
        "b839000040 0f05 c3",  # mov eax, 0x40000039 (fork of x32); syscall; ret
        "b802000000 cd80 c3",  # mov eax, 2 (fork of i386); int 0x80; ret
        "b866000000 cd80 c3",  # socketcall of i386
    ],
    ids=["x32 fork", "i386 fork", "i386 socketcall"],
)
def test_calls_of_other_architectures_are_killed(judge, code):
    program = f"""
import mmap
page = mmap.mmap(-1, 4096, prot=7)
page.write(bytes.fromhex({code!r}))
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
def one(): return ctypes.CFUNCTYPE(ctypes.c_int)(address)() and 1
"""
    verdict = judge.judge(ONE, CALL + program)
    assert verdict.status == "wrong"
    # SIGSYS, or where the kernel has no such calls its ENOSYS (-38)
    assert re.search("signal 31|signal 11|AssertionError", verdict.detail)
    assert "signal 31" in verdict.detail or "i386" not in code


def test_machine_code_runs_else(judge):
    # the test above would pass if machine code could not be run at all
    program = "import mmap\npage = mmap.mmap(-1, 4096, prot=7)\npage.write(bytes.fromhex('b801000000c3'))\n"
    program += "address = ctypes.addressof(ctypes.c_char.from_buffer(page))\n"
    program += "def one(): return ctypes.CFUNCTYPE(ctypes.c_int)(address)()"
    assert judge.judge(ONE, CALL + program).status == "ok"


def test_the_filter_is_whole_instructions_with_a_check_of_the_architecture_first():
    instructions = seccomp.candidate_filter()
    assert len(instructions) % 8 == 0
    # load word at offset 4 of struct seccomp_data: the architecture
    assert struct.unpack("=HBBI", instructions[:8]) == (0x20, 0, 0, 4)


def test_without_libseccomp_nothing_starts(monkeypatch):
    def absent(*arguments, **named):
        raise OSError("libseccomp.so.2: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", absent)
    with pytest.raises(
        CorpoError, match=r"needs libseccomp, which was not found; install it .*apt install libseccomp2"
    ):
        Judge(Limits())
