"""Deeds against the machine: processes, memory, files, the network, other processes, privileges, time."""

from tests.sandbox.attack import HELD, Attack

DENIED = r"\[Errno 1\] Operation not permitted"
READ_ONLY = r"\[Errno 30\] Read-only file system"
ABSENT = r"\[Errno 2\] No such file or directory"
NO_PROCESS = r"\[Errno 3\] No such process"
NO_SPACE = r"\[Errno 28\] No space left"
TIME = "no answer in time|no end in time|processor time"

PROCESSES = [
    Attack("fork", "os.fork()\nreturn 'breached'", DENIED),
    Attack(
        "fork bomb",
        """
        for _ in range(3000):
            try:
                if os.fork() == 0:
                    time.sleep(60)
                return "breached"
            except OSError as error:
                last = error
        raise last
        """,
        DENIED,
    ),
    Attack("vfork", "return 'breached' if libc.vfork() >= 0 else os.strerror(ctypes.get_errno())"),
    Attack("posix_spawn", "os.posix_spawn('/usr/bin/true', ['true'], {})\nreturn 'breached'", DENIED),
    Attack("system", "return 'breached' if os.system('true') == 0 else 'held'"),
    Attack("subprocess", "import subprocess\nsubprocess.run(['/usr/bin/true'])\nreturn 'breached'", DENIED),
    Attack(
        "multiprocessing",
        """
        import multiprocessing
        process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
        process.start()
        return "breached"
        """,
        DENIED,
    ),
    Attack(
        "pool",
        "import concurrent.futures as f\nreturn f.ProcessPoolExecutor(2).submit(int, 'breached').result(1)",
        r"\[Errno|synchronize",
    ),
    Attack("clone", "return each([lambda: call(56, 17, 0, 0, 0, 0), lambda: call(56, 0x4111, 0, 0, 0, 0)])", DENIED),
    Attack(
        "clone3",
        "return call(435, ctypes.byref((ctypes.c_uint64 * 11)(0, 0, 0, 0, 17)), 88), 'breached'",
        r"\[Errno 38\]",
    ),
    Attack(
        "exec",
        """
        file = os.open("/usr/bin/true", os.O_RDONLY)
        return each([
            lambda: os.execv("/usr/bin/true", ["true"]),
            lambda: os.execve(file, ["true"], {}),
            lambda: os.execv(sys.executable, [sys.executable, "-c", "print('breached')"]),
        ])
        """,
        DENIED,
    ),
    Attack(
        "daemon",
        """
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(60)
        return "breached"
        """,
        DENIED,
    ),
    Attack(
        "zombies",
        """
        for _ in range(100):
            if os.fork() == 0:
                os._exit(0)
        return "breached"
        """,
        DENIED,
    ),
    Attack("setsid", "os.setsid()\nreturn 'breached'", DENIED),
    Attack(
        "fork handlers",
        "os.register_at_fork(before=lambda: print('breached'))\nos.fork()\nreturn 'breached'",
        DENIED,
    ),
    Attack(
        "threads",
        """
        threading.stack_size(65536)
        for _ in range(200):
            threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        return "breached"
        """,
        "can't start new thread",
    ),
    Attack(
        "pthreads",
        """
        import _thread
        for number in range(200):
            try:
                _thread.start_new_thread(time.sleep, (60,))
            except RuntimeError:
                break
        return "breached" if number > 32 else "held"
        """,
    ),
]

MEMORY = [
    Attack("bytearray", "bytearray(8 << 30)\nreturn 'breached'", "MemoryError", status="memory"),
    Attack(
        "doubling a list", "held = [0]\nwhile True:\n    held += held", "MemoryError|in time", status="memory|timeout"
    ),
    Attack("text", "return ('x' * (8 << 30))[:0] + 'breached'", "MemoryError", status="memory"),
    Attack("integer", "return 1 << (1 << 38), 'breached'", "MemoryError|too large", status="memory|wrong"),
    Attack(
        "leak by threads",
        """
        def fill():
            held = []
            while True:
                held.append(bytearray(1 << 20))
        for _ in range(3):
            threading.Thread(target=fill, daemon=True).start()
        held = []
        while True:
            held.append(bytearray(1 << 20))
        """,
        "MemoryError|in time",
        status="memory|timeout",
    ),
    Attack("shared anonymous memory", "mmap.mmap(-1, 8 << 30)\nreturn 'breached'", r"\[Errno 12\]"),
    Attack("mapped without reserve", "mmap.mmap(-1, 8 << 30, flags=0x4022)\nreturn 'breached'", r"\[Errno 12\]"),
    Attack(
        "mapped sparse file",
        """
        file = os.open("/tmp/sparse", os.O_RDWR | os.O_CREAT)
        os.ftruncate(file, 8 << 30)
        mmap.mmap(file, 8 << 30)
        return "breached"
        """,
        r"\[Errno 27\]",
    ),
    Attack("shmget", "call(29, 0, 1 << 20, 0o1600)\nreturn 'breached'", DENIED),
    Attack("memfd", "os.memfd_create('held')\nreturn 'breached'", DENIED),
    Attack("memfd_secret", "call(447, 0)\nreturn 'breached'", DENIED),
    Attack(
        "shared_memory module",
        "from multiprocessing import shared_memory as s\ns.SharedMemory(create=True, size=1)",
        r"\[Errno",
    ),
    Attack(
        "pages of 2 MB in pipes",
        """
        class Vector(ctypes.Structure):
            _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
        page = mmap.mmap(-1, 4 << 20)
        vector = Vector(ctypes.addressof(ctypes.c_char.from_buffer(page)), 4096)
        call(278, os.pipe()[1], ctypes.byref(vector), 1, 2)
        return "breached"
        """,
        DENIED,
    ),
    Attack(
        "pipes",
        """
        total = 0
        try:
            while True:
                reading, writing = os.pipe()
                try:
                    fcntl.fcntl(writing, 1031, 1 << 20)
                except OSError:
                    pass
                os.set_blocking(writing, False)
                try:
                    while True:
                        total += os.write(writing, bytes(65536))
                except BlockingIOError:
                    continue
        except OSError as error:
            if total > 66 << 20:
                return "breached"
            raise
        """,
        r"\[Errno 24\] Too many open files",
    ),
    Attack(
        "socket pairs",
        """
        total = 0
        try:
            while True:
                for end in socket.socketpair():
                    kept.append(end)
                    end.setblocking(False)
                    try:
                        while True:
                            total += end.send(bytes(4096))
                    except BlockingIOError:
                        continue
        except OSError as error:
            if total > 20 << 20:
                return "breached"
            raise
        """,
        r"\[Errno 24\] Too many open files",
        before="kept = []",
    ),
    Attack(
        "greater socket buffers",
        "socket.socketpair()[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 << 20)\nreturn 'breached'",
        DENIED,
    ),
    Attack(
        "descriptors in flight",
        """
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        for _ in range(200):
            ends = os.pipe()
            socket.send_fds(ours, [b"x"], ends)
            for end in ends:
                os.close(end)
        return "breached"
        """,
        r"\[Errno 109\] Too many references",
    ),
    Attack(
        "limits raised",
        """
        for name in ("AS", "CPU", "FSIZE", "NOFILE", "NPROC", "CORE", "MEMLOCK", "SIGPENDING"):
            limit = getattr(resource, "RLIMIT_" + name)
            soft, hard = resource.getrlimit(limit)
            assert soft == hard >= 0, name
            try:
                resource.setrlimit(limit, (hard + 1, hard + 1))
                return "breached"
            except ValueError as error:
                last = error
        raise last
        """,
        "not allowed to raise maximum limit",
    ),
    Attack("locked memory", "return 'breached' if libc.mlockall(3) == 0 else os.strerror(ctypes.get_errno())"),
]

FILES = [
    Attack(
        "disk",
        """
        total = 0
        for number in range(100):
            with open(f"/tmp/{number}", "wb", buffering=0) as file:
                for _ in range(16):
                    total += file.write(bytes(1 << 20))
                    if total > 17 << 20:
                        return "breached"
        """,
        NO_SPACE,
    ),
    Attack("one long file", "open('/tmp/long', 'wb').write(bytes(20 << 20))\nreturn 'breached'", r"\[Errno 2[78]\]"),
    Attack(
        "inodes",
        """
        for number in range(5000):
            os.mkdir(f"/tmp/{number}") if number % 2 else open(f"/tmp/{number}", "w").close()
            if number > 300:
                return "breached"
        """,
        NO_SPACE,
    ),
    Attack(
        "names of links",
        "for number in range(5000):\n    os.symlink('x' * 4000, f'/tmp/{number}')\nreturn 'breached'",
        NO_SPACE,
    ),
    Attack(
        "extended attributes",
        """
        open("/tmp/x", "w")
        for number in range(999):
            os.setxattr("/tmp/x", f"user.{number}", bytes(60000))
        return "breached"
        """,
        NO_SPACE + r"|\[Errno 95\]",
    ),
    Attack(
        "writing elsewhere",
        """
        places = "/ /usr /usr/lib /usr/bin /bin /lib /dev /dev/shm /etc /etc/alternatives /box /proc /proc/1 /var /root"
        tries = [lambda place=place: open(f"{place}/{MARK}", "w") for place in places.split()]
        tries += [lambda place=place: os.mkdir(f"{place}/{MARK}") for place in places.split()]
        tries += [lambda place=place: os.symlink("x", f"{place}/{MARK}") for place in places.split()]
        tries += [lambda place=place: os.mkfifo(f"{place}/{MARK}") for place in places.split()]
        return each(tries)
        """,
        r"\[Errno",
    ),
    Attack(
        "changing what is there",
        """
        tries = []
        for path in ("/box/judge.py", "/box/candidate.py", "/usr/bin/python3", "/usr/bin/env", "/etc/ld.so.cache", "/"):
            tries += [
                lambda path=path: open(path, "r+b"),
                lambda path=path: os.chmod(path, 0o777),
                lambda path=path: os.chown(path, 65534, 65534),
                lambda path=path: os.unlink(path),
                lambda path=path: os.rename(path, path + "x"),
                lambda path=path: os.truncate(path, 0),
                lambda path=path: os.utime(path),
                lambda path=path: os.setxattr(path, "user.x", b"x"),
            ]
        return each(tries)
        """,
        r"\[Errno",
    ),
    Attack("times of the null device", "os.utime('/dev/null')\nreturn 'breached'", READ_ONLY),
    Attack("mode of the null device", "os.chmod('/dev/null', 0)\nreturn 'breached'", READ_ONLY + "|" + DENIED),
    Attack(
        "processes' files",
        """
        assert os.listdir("/proc") == []
        names = "self/maps self/mem self/environ self/root self/fd 1/environ 1/mem 2/cmdline sys mounts meminfo"
        return each([lambda name=name: os.stat(f"/proc/{name}") for name in names.split()])
        """,
        ABSENT,
    ),
    Attack(
        "our files",
        """
        names = "/etc/passwd /etc/shadow /etc/hosts /root /home /var /sys /run /boot /opt /srv /dev/shm".split()
        names += [SECRET_FILE, "/dev/zero", "/dev/mem", "/dev/tty", "/dev/ptmx", "/dev/sda", "/dev/random", "/dev/fd/0"]
        return each([lambda name=name: os.stat(name) for name in names])
        """,
        ABSENT,
    ),
    Attack("our environment", "return 'breached' if 'CORPO_SECRET' in os.environ else 'held'"),
    Attack(
        "the environment of C",
        """
        values, number, found = (ctypes.c_char_p * 200).in_dll(libc, "environ"), 0, []
        start = ctypes.POINTER(ctypes.c_char_p).in_dll(libc, "environ")
        while start[number]:
            found.append(start[number])
            number += 1
        assert number >= 4
        return "breached" if any(b"SECRET" in one for one in found) else "held"
        """,
    ),
    Attack("symbolic link out", "os.symlink(SECRET_FILE, '/tmp/x')\nreturn open('/tmp/x').read(), 'breached'", ABSENT),
    Attack(
        "links through proc",
        """
        tries = []
        for number, path in enumerate(("/proc/1/root/etc/passwd", "/proc/self/cwd/..", "/proc/self/fd/3")):
            os.symlink(path, f"/tmp/{number}")
            tries += [lambda number=number: open(f"/tmp/{number}"), lambda number=number: os.listdir(f"/tmp/{number}")]
        return each(tries)
        """,
        ABSENT,
    ),
    Attack(
        "hard link in",
        """
        paths = ("/usr/bin/python3.11", "/usr/bin/env", "/dev/null", "/box/judge.py")
        return each([lambda path=path: os.link(path, "/tmp/x") for path in paths])
        """,
        r"\[Errno (18|2|1)\]",
    ),
    Attack(
        "device nodes",
        """
        kinds = [(0o20666, 1, 1), (0o20666, 1, 5), (0o60666, 8, 0), (0o60666, 7, 0), (0o60666, 254, 0)]
        return each([lambda one=one: os.mknod("/tmp/x", one[0], os.makedev(one[1], one[2])) for one in kinds])
        """,
        DENIED,
    ),
    Attack(
        "up and up",
        """
        os.chdir("/")
        for _ in range(50):
            os.chdir("..")
        seen = set(os.listdir(".")) | set(os.listdir("/../../..")) | set(os.listdir(os.open("/..", os.O_RDONLY)))
        known = {"usr", "bin", "lib", "lib64", "lib32", "etc", "dev", "proc", "tmp", "box"}
        return "breached" if seen - known else "held"
        """,
    ),
    Attack(
        "file handles",
        """
        handle = ctypes.create_string_buffer(struct.pack("IiQ", 8, 1, 2), 136)
        return each([
            lambda: call(303, -100, b"/usr", handle, ctypes.byref(ctypes.c_int()), 0),
            lambda: call(304, 0, handle, 0),
        ])
        """,
        DENIED,
    ),
    Attack(
        "program in tmp",
        """
        with open("/tmp/x.so", "wb") as file:
            file.write(open("/usr/lib/x86_64-linux-gnu/libz.so.1", "rb").read())
        ctypes.CDLL("/tmp/x.so")
        return "breached"
        """,
        "failed to map segment|cannot open shared object|No such file",
    ),
]

NETWORK = [
    Attack("connecting", "socket.create_connection(('127.0.0.1', PORT), 1)\nreturn 'breached'", DENIED),
    Attack("http", "import urllib.request\nreturn urllib.request.urlopen(f'http://127.0.0.1:{PORT}/').read()", DENIED),
    Attack("name", "return socket.getaddrinfo('example.com', 80), 'breached'", "gaierror|Errno"),
    Attack("unix socket", "socket.socket(socket.AF_UNIX).connect(ABSTRACT)\nreturn 'breached'", DENIED),
    Attack(
        "datagram from a pair to another",
        "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b'x', ABSTRACT)\nreturn 'breached'",
        r"\[Errno",
    ),
    Attack("connecting one of a pair", "socket.socketpair()[0].connect(ABSTRACT)\nreturn 'breached'", DENIED),
    Attack(
        "every family of sockets",
        "return each([lambda f=f, t=t: call(41, f, t, 0) for f in range(46) for t in (1, 2, 3, 5)])",
        DENIED,
    ),
    Attack(
        "every family of pairs",
        """
        two = (ctypes.c_int * 2)()
        return each([lambda f=f, t=t: call(53, f, t, 0, two) for f in range(46) for t in (1, 2, 3, 5) if f != 1])
        """,
        DENIED,
    ),
    Attack("serving", "import http.server\nhttp.server.HTTPServer(('', 8000), None)\nreturn 'breached'", DENIED),
    Attack(
        "listening on a pair",
        """
        number = socket.socketpair()[0].fileno()
        address = struct.pack("H", 1) + bytes(1) + b"name"
        return each([
            lambda: call(49, number, address, len(address)),
            lambda: call(50, number, 5),
            lambda: call(43, number, 0, 0),
        ])
        """,
        DENIED,
    ),
]

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

DEEDS = {
    "processes": PROCESSES,
    "memory": MEMORY,
    "files": FILES,
    "network": NETWORK,
    "others": OTHERS,
    "privileges": PRIVILEGES,
    "times": TIMES,
}
