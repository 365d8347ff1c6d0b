"""Fork server: makes a fresh, empty, powerless process for each candidate, in a millisecond.

Runs inside a sandbox without network, home or writable files, on the system's Python, standard library only. It holds
nothing that a candidate may not see: the tests are in another sandbox. Every candidate gets

- a process of its own in a process namespace of its own, in which it is alone and which dies with it,
- a private /tmp of limited size, an empty /proc, no capability, and resource limits,
- a system-call filter: no network, no second process, no other program, no namespace, mount, trace or shared memory.

It serves one candidate at a time. Messages on the control socket: `spawn`, with its seconds and the two ends of its
pipes (and the standard input and output of a program); then `kill`, or `end`, which waits some seconds, kills, and says
how it ended.
"""

import base64
import contextlib
import ctypes
import gc
import json
import os
import resource
import select
import signal
import socket
import struct
import sys

# the file beside this one, where it lies inside the sandbox; nothing imported later may be found there
import candidate

sys.path.remove("/box")

_CLONE_NEWNS, _CLONE_NEWPID = 0x00020000, 0x20000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT, _MS_BIND = 1, 2, 4, 8, 32, 4096
_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _PR_CAP_AMBIENT = 4, 38, 22, 47
_PR_CAP_AMBIENT_CLEAR_ALL, _SECCOMP_MODE_FILTER = 4, 2
_CAPABILITY_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


def _call(name, *arguments):
    numbers = (ctypes.c_ulong(one) if isinstance(one, int) else one for one in arguments)
    if getattr(_libc, name)(*numbers) != 0:
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def _freeze_null():
    """Make the host's /dev/null, which anybody may write to, a file whose times nobody can set."""
    given = os.statvfs("/dev/null").f_flag & (_MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    _call("mount", None, b"/dev/null", None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | given, None)


def serve(control, *, limits, instructions):
    """Answer the messages on the control socket until its other end closes."""
    _freeze_null()
    # where the machine's memory runs out all the same, let it be a candidate that is killed
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    own_namespace = os.open("/proc/self/ns/pid", os.O_RDONLY)
    filter_program = _FilterProgram(len(instructions) // 8, instructions)
    gc.collect()
    gc.freeze()
    child, dying = None, []
    while True:
        body, descriptors, _, _ = socket.recv_fds(control, 256, 4)
        if not body:
            return
        message = json.loads(body)
        if message["do"] == "spawn":
            # the namespace of the next child; the way back to ours has to be taken first
            _call("setns", own_namespace, _CLONE_NEWPID)
            _call("unshare", _CLONE_NEWPID)
            child = os.fork()
            if child == 0:
                _become_candidate(
                    descriptors, limits={**limits, "seconds": message["seconds"]}, filter_program=filter_program
                )
            for descriptor in descriptors:
                os.close(descriptor)
            control.send(b"{}")
            # taking a namespace down takes a while; the next candidate need not wait for it, but so that memory is
            # held by two of them at most, those before do
            dying = [one for one in dying if os.waitpid(one, os.WNOHANG)[0] == 0]
            while len(dying) > 1:
                os.waitpid(dying.pop(0), 0)
        elif message["do"] == "kill":
            os.kill(child, signal.SIGKILL)
            dying.append(child)
        else:
            control.send(json.dumps(_end(child, seconds=message["seconds"])).encode())


def _end(child, *, seconds):
    """Wait up to some seconds for the candidate, then kill it and all it left, and say how it ended."""
    handle = os.pidfd_open(child)
    try:
        killed = not select.select([handle], [], [], seconds)[0]
        if killed:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
    finally:
        os.close(handle)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return {"killed": killed, "code": code}


def _become_candidate(descriptors, *, limits, filter_program):
    """Give up all power, then run the candidate; never returns."""
    try:
        # else kill(0) means the server's process group, which reaches beyond the candidate's namespace
        os.setsid()
        _call("unshare", _CLONE_NEWNS)
        flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
        size = f"size={limits['disk_mb']}m,nr_inodes=257,mode=1777".encode()
        _call("mount", b"tmpfs", b"/tmp", b"tmpfs", flags, size)
        _call("mount", b"tmpfs", b"/proc", b"tmpfs", flags | _MS_RDONLY, b"size=4k,nr_inodes=2,mode=555")
        os.chdir("/tmp")  # noqa: S108
        _limit(limits)
        header = struct.pack("II", _CAPABILITY_VERSION_3, 0)
        _call("prctl", _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
        _call("capset", header, bytes(24))
        _call("prctl", _PR_SET_DUMPABLE, 0, 0, 0, 0)
        _call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        _call("prctl", _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(filter_program), 0, 0)
        _arrange(descriptors)
    except BaseException as error:
        with contextlib.suppress(BaseException):
            os.write(2, f"{error}\n".encode())
        os._exit(99)
    try:
        candidate.run(request=3, reply=4)
    finally:
        os._exit(1)


def _arrange(descriptors):
    """Put the request pipe at 3 and the reply pipe at 4, a program's input and output at 0 and 1; close the rest."""
    null = os.open("/dev/null", os.O_RDWR)
    high = [os.dup2(descriptor, 40 + place) for place, descriptor in enumerate([*descriptors, null])]
    standard = (2, 3, -1) if len(descriptors) == 4 else (-1, -1, -1)
    for target, place in enumerate((*standard, 0, 1)):
        os.dup2(high[place], target)
    # the control socket has the number that it had outside, which may be any
    os.closerange(5, 1 << 20)


def _limit(limits):
    megabyte = 1 << 20
    seconds = int(limits["seconds"]) + 2
    for name, value in (
        ("AS", limits["memory_mb"] * megabyte),
        ("CPU", seconds),
        ("FSIZE", limits["disk_mb"] * megabyte),
        ("NOFILE", 64),
        ("NPROC", limits["threads"] + 4),  # those of the server itself count as well
        ("CORE", 0),
        ("MEMLOCK", 0),
        ("MSGQUEUE", 0),
        ("SIGPENDING", 64),
        ("RTPRIO", 0),
        ("NICE", 0),
    ):
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))


def main():
    """Arguments: the control socket's number, the limits as JSON, the filter in base64."""
    number, limits, instructions = sys.argv[1:]
    control = socket.socket(fileno=int(number))
    # a candidate finds neither in its copy of this process
    del sys.argv[1:]
    serve(control, limits=json.loads(limits), instructions=base64.b64decode(instructions))


if __name__ == "__main__":
    main()
