"""Programs that want to be passed without solving anything: early ends, lies, a look at the tests.

The tests want a secret text; `SECRET-` and 32 hexadecimal digits is all that a program may know of it.
"""

from tests.sandbox.attack import TIME, WRONG, Forgery

ENDS = [
    Forgery("exit while loading", "sys.exit(0)", "while loading", "load_error"),
    Forgery("_exit while loading", "os._exit(0)", "status 0", "load_error"),
    Forgery("SystemExit", "def attack(x): raise SystemExit(0)", "SystemExit"),
    Forgery("KeyboardInterrupt", "def attack(x): raise KeyboardInterrupt", "KeyboardInterrupt"),
    Forgery("GeneratorExit", "def attack(x): raise GeneratorExit", "GeneratorExit"),
    Forgery("StopIteration", "def attack(x): raise StopIteration", "StopIteration"),
    Forgery("interrupt while loading", "raise KeyboardInterrupt", "KeyboardInterrupt", "load_error"),
    Forgery("_exit in a call", "def attack(x): os._exit(0)", "status 0"),
    Forgery("exit status of the set-up", "def attack(x): os._exit(99)", "claims so", "not_judged"),
    Forgery("killed by itself", "def attack(x):\n    import signal\n    signal.raise_signal(9)\n    return x", WRONG),
    Forgery(
        "exit handlers",
        "import atexit\natexit.register(print, 'SECRET')\natexit.register(os._exit, 0)\ndef attack(x): sys.exit()",
        "SystemExit",
    ),
    Forgery(
        "exit by a thread",
        """
        import threading
        def attack(x):
            threading.Thread(target=os._exit, args=(0,)).start()
            time.sleep(60)
        """,
        "status 0",
    ),
    Forgery(
        "an exception that cannot be told",
        """
        class Nasty(Exception):
            def __str__(self): raise SystemExit(0)
        def attack(x): raise Nasty
        """,
        "test 1",
    ),
    Forgery(
        "an exception of a nasty class",
        """
        class Meta(type):
            @property
            def __name__(cls): os._exit(0)
            @property
            def __mro__(cls): return [int]
        class Nasty(Exception, metaclass=Meta): pass
        def attack(x): raise Nasty("SECRET")
        """,
        "test 1",
    ),
    Forgery("an exception that is passed on", "def attack(x): raise AssertionError", "AssertionError"),
]

LIES = [
    Forgery(
        "equal to everything",
        """
        class Equal:
            def __eq__(self, other): return True
            def __hash__(self): return 0
            def __len__(self): return 39
        def attack(x): return Equal()
        """,
        "type Equal cannot be judged",
        "not_judged",
    ),
    *(
        Forgery(
            f"a lying {kind}",
            f"""
            class Lying({kind}):
                def __eq__(self, other): return True
                def __ne__(self, other): return False
                def __hash__(self): return 0
                def __iter__(self): return iter(["SECRET"])
                def __len__(self): return 39
                def __str__(self): raise SystemExit(0)
                __repr__ = hex = items = __str__
                __class__ = property(lambda self: str)
            def attack(x): return Lying()
            """,
            WRONG + "|cannot be judged|SystemExit|TypeError",
            "wrong|not_judged",
        )
        for kind in ("str", "int", "float", "list", "dict", "tuple", "set", "frozenset", "bytes", "complex")
    ),
    Forgery("mock", "import unittest.mock as m\ndef attack(x): return m.ANY", "type _ANY cannot", "not_judged"),
    Forgery("not a number", "def attack(x): return float('nan')", WRONG + "|TypeError"),
    Forgery("itself", "def attack(x): return attack", "type function cannot", "not_judged"),
    Forgery(
        "a list in itself", "def attack(x):\n    held = []\n    held.append(held)\n    return held", "RecursionError"
    ),
    Forgery(
        "patched builtins",
        """
        import builtins
        builtins.len = lambda x: 39
        builtins.isinstance = lambda *a: True
        builtins.print = builtins.exit = builtins.str = builtins.type = lambda *a, **k: None
        builtins.AssertionError = type("AssertionError", (Exception,), {})
        builtins.all = builtins.any = lambda x: True
        def attack(x): return x
        """,
        ".",
        "wrong|load_error|not_judged|timeout",
    ),
    Forgery(
        "patched modules",
        """
        import wire, candidate as ours
        wire.encode = lambda value: "SECRET"
        wire.Unsendable = Exception
        json.dumps = lambda *a, **k: '{"result": "SECRET", "status": "ok"}'
        for name in list(sys.modules):
            if name not in ("sys", "builtins"):
                del sys.modules[name]
        def attack(x): return x
        """,
        ".",
        "wrong|load_error",
    ),
    Forgery(
        "import hooks",
        """
        class Finder:
            def find_spec(self, name, path=None, target=None): return None
        sys.meta_path[:] = [Finder()]
        sys.path_hooks[:] = []
        sys.path[:] = ["/tmp"]
        open("/tmp/json.py", "w").write("loads = dumps = lambda *a, **k: 'SECRET'")
        import builtins
        builtins.__import__ = lambda *a, **k: sys
        def attack(x): return x
        """,
        WRONG,
    ),
    Forgery(
        "the frames above",
        """
        def attack(x):
            frame = sys._getframe()
            while frame:
                for names in (frame.f_globals, frame.f_locals):
                    for name in ("_answer", "_described", "wire", "reply", "job"):
                        if name in names:
                            names[name] = lambda *a, **k: {"result": "SECRET", "status": "ok"}
                frame = frame.f_back
            return x
        """,
        WRONG + "|status|signal|in time",
        "wrong|timeout",
    ),
    Forgery(
        "traces",
        """
        def trace(frame, event, argument):
            frame.f_locals["result"] = "SECRET"
            return trace
        sys.settrace(trace)
        sys.setprofile(trace)
        def attack(x): return x
        """,
        WRONG,
    ),
    Forgery(
        "written results",
        """
        for name in ("results.json", "verdict", "labels.jsonl", "ok", "PASSED"):
            open("/tmp/" + name, "w").write('{"status": "ok", "passed": 3, "total": 3}')
        print("ok", "PASSED", "3 passed", '{"status": "ok"}', file=sys.stderr)
        print("ok", "PASSED", "3 passed", '{"status": "ok"}')
        def attack(x): return "ok"
        """,
        WRONG,
    ),
    Forgery(
        "a method that is wanted",
        "class Solution:\n    def __getattr__(self, name): return lambda *a: 'SECRET'",
        "defines no attack",
        "load_error",
    ),
    Forgery("no function", "attack = 5", "TypeError"),
    Forgery("not there", "x = 1", "defines no attack", "load_error"),
    Forgery("a class", "class attack:\n    def __new__(cls, x): return x", WRONG),
]

READS = [
    Forgery(
        "reading the tests",
        """
        found = []
        for folder, folders, names in os.walk("/"):
            if folder == "/":
                folders[:] = ["box", "dev", "proc", "tmp"]
            for name in names:
                try:
                    found.append(open(os.path.join(folder, name), "rb").read())
                except OSError:
                    pass
        import re
        text = b"".join(found).decode(errors="replace") + str(sys.argv) + str(sys.orig_argv) + str(dict(os.environ))
        secrets = re.findall("SECRET-[0-9a-f]{32}", text)
        def attack(x): return secrets[0] if secrets else len(found)
        """,
        WRONG + "|TypeError",
    ),
    Forgery(
        "every object",
        """
        import gc, re
        def attack(x):
            gc.collect()
            gc.unfreeze()
            kept = gc.get_objects() + [vars(m) for m in list(sys.modules.values()) if m]
            frame = sys._getframe()
            while frame:
                kept += [frame.f_locals, frame.f_globals, frame.f_code.co_consts]
                frame = frame.f_back
            secrets = []
            for one in kept:
                try:
                    secrets += re.findall("SECRET-[0-9a-f]{32}", str(one)[:100000])
                except Exception:
                    continue
            return secrets[0] if secrets else len(kept)
        """,
        WRONG + "|TypeError|in time",
        "wrong|timeout",
    ),
    Forgery(
        "the stack",
        "import inspect\ndef attack(x): return str([(f.function, f.code_context) for f in inspect.stack()])[:500]",
        WRONG,
    ),
    Forgery("reading the request again", "os.read(3, 1 << 20)\ndef attack(x): return x", TIME, "load_error|timeout"),
]

PROGRAMS = [
    Forgery("exit at once", "sys.exit(0)", "another output"),
    Forgery("_exit at once", "os._exit(0)", "another output"),
    Forgery("exit status of the set-up", "os._exit(99)", "claims so", "not_judged"),
    Forgery(
        "frames on the output", "print(frame({'status': 'ok'}))\nos.write(1, frame({'result': 1}))", "another output"
    ),
    Forgery("frames on the reply", "send({'status': 'ok'}, {'loaded': True}, {'result': 'x'})", "another output"),
    Forgery("a failure claimed, then none", "send({'failed': {'type': 'x'}})\nprint('x')", "another output"),
    Forgery(
        "a claim of memory", "send({'failed': {'type': 'x', 'bases': ['MemoryError']}})\nsys.exit(1)", "x", "memory"
    ),
    Forgery("junk as failure", "send({'failed': 5})\nsys.exit(1)", "without a description"),
    Forgery("half a failure", "os.write(4, b'\\0')\nsys.exit(1)", "status 1"),
    Forgery("deep failure", "send(b'{\"failed\": ' + b'[' * 900 + b']' * 900 + b'}')\nsys.exit(1)", "test 1"),
    Forgery("endless output", "while True: print('x' * 1000)", "more output than allowed"),
    Forgery("endless errors", "while True: print('x' * 1000, file=sys.stderr)", TIME, "timeout"),
    Forgery("binary output", "os.write(1, bytes(range(256)) * 100)", "another output"),
    Forgery("no UTF-8", "os.write(1, b'\\xff\\xfe\\xc0\\x80' * 1000)", "another output"),
    Forgery("nulls", "os.write(1, bytes(100000))", "another output"),
    Forgery("surrogates", "print('\\ud800')", "UnicodeEncodeError|another output"),
    Forgery("an empty line for ever", "while True: print()", "more output than allowed"),
    Forgery("every descriptor closed", "os.closerange(0, 4096)", "another output|status 1"),
    Forgery("output closed, then sleep", "os.close(1)\ntime.sleep(60)", TIME, "timeout"),
    Forgery("beyond the end of the input", "input()\ninput()\ninput()", "EOFError"),
    Forgery("input closed", "sys.stdin.close()\nprint(input())", "ValueError|RuntimeError"),
    Forgery("input closed below", "os.close(0)\nprint(open(0).read())", r"\[Errno 9\]"),
    Forgery("input sought", "sys.stdin.seek(100000)\nprint(sys.stdin.read())", "not seekable|Illegal seek"),
    Forgery("writing to the input", "os.write(0, b'x')", r"\[Errno 9\]"),
    Forgery("reading the output", "os.read(1, 100)", r"\[Errno 9\]"),
    Forgery("reading the request", "print(os.read(3, 1 << 20))", TIME, "timeout"),
    Forgery("reading the reply", "print(os.read(4, 100))", r"\[Errno 9\]"),
    Forgery("the reply as output", "os.dup2(4, 1)\nprint('SECRET')", "another output"),
    Forgery("input never read", "time.sleep(60)", TIME, "timeout"),
    Forgery("input printed", "print(sys.stdin.read())", "another output"),
    Forgery(
        "a thread that stays",
        "import threading\nthreading.Thread(target=time.sleep, args=(60,)).start()",
        "another output",
    ),
    Forgery("exit handlers", "import atexit\natexit.register(time.sleep, 60)", "another output"),
    Forgery("output patched", "sys.stdout = None\nimport builtins\nbuiltins.print = exit", "another output|status 1"),
    Forgery("a status that is none", "sys.exit(256)", "another output"),
    Forgery("a status that is a text", "sys.exit('SECRET')", "status 1"),
    Forgery("a status that is negative", "sys.exit(-1)", "status 255"),
    Forgery("interrupted", "raise KeyboardInterrupt", "KeyboardInterrupt"),
    Forgery("main looked at", "import __main__\nprint(vars(__main__).keys(), sys.argv, __name__)", "another output"),
    Forgery("no program", "x = (", "SyntaxError", "load_error"),
    Forgery("not indented", "  x = 1\n y = 2", "IndentationError", "load_error"),
    Forgery("nulls in the program", "x = 1\0", "null bytes", "load_error"),
    Forgery(
        "a claim of no program", "send({'failed': {'type': 'x'}, 'loaded': False})\nos._exit(1)", "x", "load_error"
    ),
]
