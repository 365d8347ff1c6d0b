"""Deeds that take the machine's processes and its memory."""

from tests.sandbox.attack import DENIED, Attack

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
