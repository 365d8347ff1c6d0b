"""Deeds that read and write what lies outside, and use the network."""

from tests.sandbox.attack import ABSENT, DENIED, NO_SPACE, READ_ONLY, Attack

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
