"""Deeds against other processes, for privileges, and against time."""

from tests.sandbox.attack import DENIED, HELD, NO_PROCESS, TIME, Attack

OTHERS = [
    Attack("killing the group", "os.kill(0, signal.SIGKILL)\nos.killpg(0, signal.SIGTERM)\nreturn 'held'"),
    Attack("killing everybody", "os.kill(-1, signal.SIGKILL)\nreturn 'breached'", NO_PROCESS),
    Attack(
        "killing by number",
        "return each([lambda n=n: os.kill(n, signal.SIGKILL) for n in range(2, 5001) if n != os.getpid()])",
        NO_PROCESS,
    ),
    Attack(
        "killing the parent",
        "os.kill(os.getppid(), signal.SIGKILL)\nreturn 'breached' if os.getppid() else 'held'",
    ),
    Attack("killing the first", "os.kill(1, signal.SIGKILL)\nos.kill(1, signal.SIGTERM)\nreturn 'held'"),
    Attack("negative group", "os.kill(-os.getpgrp() or -5, 9)\nreturn 'held'", NO_PROCESS + "|" + HELD),
    Attack(
        "stopping", "os.kill(os.getpid(), signal.SIGSTOP)\nreturn 'held'", HELD + "|" + TIME, status="wrong|timeout"
    ),
    Attack(
        "no signal gets through",
        """
        for number in range(1, 65):
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
        while True:
            pass
        """,
        TIME,
        status="timeout",
    ),
    Attack(
        "signals by descriptors",
        """
        reading, writing = os.pipe()
        for owner in (-1, -os.getpgrp() or -2, -5):
            try:
                fcntl.fcntl(reading, fcntl.F_SETOWN, owner)
            except OSError:
                continue
            fcntl.fcntl(reading, 10, signal.SIGKILL)
            fcntl.fcntl(reading, fcntl.F_SETFL, os.O_ASYNC)
            os.write(writing, b"x")
        return "held"
        """,
    ),
    Attack(
        "the group's priority",
        """
        os.setpriority(os.PRIO_PGRP, 0, 19)
        os.setpriority(os.PRIO_USER, 0, 19)
        for kind in (2, 3):
            try:
                call(251, kind, 0, 3 << 13)
            except ProcessLookupError:
                continue
        return "held"
        """,
    ),
    Attack("a better priority", "os.nice(-1)\nreturn 'breached'", DENIED + r"|\[Errno 13\]"),
    Attack(
        "real time",
        "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))\nreturn 'breached'",
        DENIED,
    ),
    Attack(
        "a limit of others",
        "return each([lambda n=n: resource.prlimit(n, 7, (1, 1)) for n in range(2, 500)])",
        NO_PROCESS,
    ),
    Attack(
        "ptrace",
        "return each([lambda r=r, n=n: call(101, r, n, 0, 0) for r in (0, 16, 0x4206) for n in range(100)])",
        DENIED,
    ),
    Attack(
        "memory of others",
        """
        buffer = (ctypes.c_uint64 * 2)(id(""), 8)
        return each([lambda c=c, n=n: call(c, n, buffer, 1, buffer, 1, 0) for c in (310, 311) for n in range(100)])
        """,
        DENIED,
    ),
    Attack(
        "locking what others use",
        """
        file, folder = os.open("/usr/bin/env", os.O_RDONLY), os.open("/usr", os.O_RDONLY)
        return each([
            lambda: fcntl.flock(file, fcntl.LOCK_EX), lambda: fcntl.flock(folder, fcntl.LOCK_SH),
            lambda: fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK), lambda: call(72, file, 0x100000400, 0),
            lambda: fcntl.fcntl(folder, fcntl.F_NOTIFY, fcntl.DN_CREATE), lambda: call(72, folder, 0x100000402, 4),
        ])
        """,
        DENIED,
    ),
    Attack(
        "the disk's and the memory's copies of files",
        """
        file = os.open("/usr/bin/env", os.O_RDONLY)
        return each([
            lambda: call(162) or os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED),
            lambda: call(306, file),
            lambda: os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED),
        ])
        """,
        DENIED,
    ),
    Attack("comparing processes", "return call(312, 1, 2, 0, 3, 4), 'breached'", DENIED),
    Attack("process descriptors", "return each([lambda: os.pidfd_open(1), lambda: call(438, 3, 4, 0)])", DENIED),
]

PRIVILEGES = [
    Attack(
        "becoming root",
        """
        return each([
            lambda: os.setuid(0), lambda: os.seteuid(0), lambda: os.setresuid(0, 0, 0), lambda: os.setgid(0),
            lambda: os.setgroups([0]), lambda: os.setreuid(65534, 65534), lambda: call(122, 0) or os.setuid(0),
        ])
        """,
        DENIED,
    ),
    Attack(
        "capabilities",
        """
        header = (ctypes.c_uint32 * 2)(0x20080522, 0)
        held = (ctypes.c_uint32 * 6)()
        call(125, header, held)
        if any(held):
            return "breached"
        return each([
            lambda: call(126, header, (ctypes.c_uint32 * 6)(*[0xFFFFFFFF] * 6)),
            lambda: call(126, header, (ctypes.c_uint32 * 6)(1 << 21, 1 << 21, 0)),
            lambda: call(126, header, (ctypes.c_uint32 * 6)(0, 0, 1 << 21)),
            lambda: call(157, 47, 2, 21, 0, 0),
        ])
        """,
        DENIED,
    ),
    Attack(
        "a dump",
        "return each([lambda: call(157, 4, 1, 0, 0, 0), lambda: call(157, 0x100000004, 1, 0, 0, 0)])",
        DENIED,
    ),
    Attack(
        "namespaces",
        """
        kinds = [0x80, 0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000]
        return each(
            [lambda kind=kind: call(272, kind) for kind in (*kinds, 0x10020000)]
            + [lambda kind=kind: call(56, kind | 17, 0, 0, 0, 0) for kind in kinds]
            + [lambda number=number: call(308, number, 0) for number in range(64)]
        )
        """,
        DENIED,
    ),
    Attack(
        "mounts",
        """
        os.mkdir("/tmp/m")
        return each([
            lambda: call(165, b"tmpfs", b"/tmp/m", b"tmpfs", 0, 0),
            lambda: call(165, b"/", b"/tmp/m", 0, 4096, 0),
            lambda: call(165, b"/usr", b"/usr", 0, 4096 | 32, 0),
            lambda: call(165, b"proc", b"/tmp/m", b"proc", 0, 0),
            lambda: call(166, b"/proc", 0), lambda: call(166, b"/tmp", 2),
            lambda: call(155, b"/", b"/tmp/m"), lambda: os.chroot("/tmp/m"),
            lambda: call(428, -100, b"/", 1), lambda: call(429, 3, b"", 4, b"", 0),
            lambda: call(430, b"tmpfs", 0), lambda: call(433, -100, b"/", 0), lambda: call(442, -100, b"/", 0, 0, 0),
        ])
        """,
        DENIED,
    ),
    Attack(
        "dangerous corners",
        """
        # add_key, request_key, keyctl, perf_event_open, bpf, userfaultfd, io_uring_setup, init_module, kexec_load,
        # syslog, reboot
        numbers = (248, 249, 250, 298, 321, 323, 425, 175, 246, 103, 169)
        return each([lambda number=number: call(number, 0, 0, 0, 0, 0) for number in numbers])
        """,
        DENIED,
    ),
    Attack("the clock", "time.clock_settime(time.CLOCK_REALTIME, 0)\nreturn 'breached'", DENIED),
    Attack("the host's name", "socket.sethostname('breached')\nreturn socket.gethostname()", DENIED),
    Attack("keys", "return call(248, b'user', b'x', b'x', 1, -4), 'breached'", DENIED),
]

REMAINS = [
    Attack(
        "everything that a process can change",
        """
        open("/tmp/left", "w").write("left")
        os.mkdir("/tmp/folder")
        os.environ["LEFT"] = "left"
        os.umask(0o777)
        os.chdir("/usr")
        os.nice(19)
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        for name in ("CPU", "FSIZE", "NPROC", "SIGPENDING", "STACK", "CORE"):
            resource.setrlimit(getattr(resource, "RLIMIT_" + name), (1, 1) if name != "CORE" else (0, 0))
        os.lies = sys.path[:] = ["/tmp"]
        import random
        random.seed(99)
        call(157, 15, b"left", 0, 0, 0)
        os.set_blocking(3, False)
        os.set_inheritable(4, True)
        fcntl.lockf(os.open("/tmp/left", os.O_RDWR), fcntl.LOCK_EX)
        return "held"
        """,
    ),
    Attack(
        "everything left running",
        """
        for _ in range(30):
            try:
                threading.Thread(target=time.sleep, args=(60,)).start()
            except RuntimeError:
                break
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
        signal.alarm(1)
        return "held"
        """,
        HELD + "|in time",
        status="wrong|timeout",
    ),
]

TIMES = [
    Attack("sleep", "time.sleep(60)\nreturn 'breached'", TIME, status="timeout"),
    Attack("busy loop", "while True:\n    pass", TIME, status="timeout"),
    Attack("hang while loading", "return 'breached'", TIME, status="timeout", before="while True:\n    pass"),
    Attack("power", "return 7 ** 10 ** 8 % 10, 'breached'", TIME, status="timeout"),
    Attack("expression", "import re\nreturn re.match('(a+)+$', 'a' * 60 + 'b'), 'breached'", TIME, status="timeout"),
    Attack("sum", "return sum(range(10 ** 13)), 'breached'", TIME, status="timeout"),
    Attack(
        "busy threads",
        """
        def turn():
            while True:
                pow(3, 10 ** 5)
        for _ in range(3):
            threading.Thread(target=turn).start()
        turn()
        """,
        TIME,
        status="timeout",
    ),
    Attack(
        "waiting for what never comes",
        "threading.Lock().acquire() and threading.Event().wait()",
        TIME,
        status="timeout",
    ),
    Attack(
        "kernel work",
        """
        while True:
            for number in range(1000):
                try:
                    os.stat(f"/tmp/{number}" + "x" * 200)
                except OSError:
                    pass
        """,
        TIME,
        status="timeout",
    ),
    Attack("recursion", "return attack()", "RecursionError"),
    Attack(
        "endless recursion",
        "sys.setrecursionlimit(2 ** 31 - 1)\nreturn attack()",
        "signal 11|MemoryError|in time",
        status="wrong|memory|timeout",
    ),
    Attack(
        "recursion in C",
        """
        sys.setrecursionlimit(2 ** 31 - 1)
        nested = []
        for _ in range(10 ** 6):
            nested = [nested]
        return repr(nested)[:0] + "breached"
        """,
        "signal 11|MemoryError|in time|Recursion",
        status="wrong|memory|timeout",
    ),
    Attack("json", "import json\nreturn json.loads('[' * 10 ** 6), 'breached'", "RecursionError"),
    Attack(
        "literals",
        "import ast\nreturn ast.literal_eval('(' * 10 ** 5 + ')' * 10 ** 5), 'breached'",
        "MemoryError|SyntaxError|RecursionError",
        status="wrong|memory|load_error",
    ),
    Attack("minus", "return eval('-' * 10 ** 6 + '1'), 'breached'", "Error|signal 11", status="wrong|memory"),
    Attack("null pointer", "return ctypes.string_at(0), 'breached'", "signal 11"),
    Attack("abort", "os.abort()", "signal (6|11)"),
    Attack(
        "trap",
        "ctypes.memmove(id(attack), bytes(64), 64)\nreturn attack(), 'breached'",
        "signal|Error|status|in time",
        status="wrong|timeout",
    ),
]
