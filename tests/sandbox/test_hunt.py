"""Nothing of the tests, of us or of other candidates is in a candidate's memory: it looks through all of it."""

import re
import secrets

import pytest

from corpo_rl.records import CallTests, FunctionTests, ProgramTests

HUNTER = r"""
import ctypes, mmap, os, re

libc = ctypes.CDLL(None, use_errno=True)
libc.sbrk.restype = ctypes.c_void_p
libc.write.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)
reading, writing = os.pipe()
PAGE, CHUNK = 4096, 65536
WANTED = re.compile(rb"SECRET-([0-9a-f]{32})")

# to be found for certain: in Python's memory, in C's, in a mapping and in a file's
planted = [b"SECRET" + b"-" + b"%032x" % number for number in range(4)]
text = planted[0].decode() + " "
buffer = ctypes.create_string_buffer(b"".join((planted[1], bytes(300000))))
mapping = mmap.mmap(-1, 1 << 20)
mapping.write(planted[2])
file = os.open("/tmp/x", os.O_RDWR | os.O_CREAT)
os.write(file, planted[3] + bytes(8192))
shared = mmap.mmap(file, 8192)
del planted

def peek(address, size):
    # the kernel reads for us, and refuses where nothing is mapped; without /proc/self/maps nobody says where that is
    size = libc.write(writing, address, size)
    return os.read(reading, size) if size > 0 else b""

def scan(start, end):
    address, seen, tail = start // PAGE * PAGE, 0, b""
    while address < end:
        part = peek(address, CHUNK)
        if not part:
            address, tail = address + PAGE, b""
            continue
        found.update(one.decode() for one in WANTED.findall(tail + part))
        seen, address, tail = seen + len(part), address + len(part), part[-100:]
    return seen

found = set()
MB = 1 << 20

def hunt(*_):
    heap, code, library = libc.sbrk(0), id(int), ctypes.cast(libc.printf, ctypes.c_void_p).value
    stack = ctypes.c_void_p.in_dll(libc, "environ").value
    seen = [
        scan(heap - 128 * MB, heap + MB),
        scan(code - 16 * MB, code + 16 * MB),
        scan(library - 768 * MB, library + 64 * MB),
        scan(stack - 9 * MB, stack + MB),
    ]
    raise Exception([int(one, 16) if one < "00001" else one for one in sorted(found)], [size >> 10 for size in seen])
"""


@pytest.fixture
def hunted(fresh_judge, monkeypatch, tmp_path):
    """What a candidate finds when the secret is everywhere else."""
    secret = f"SECRET-{secrets.token_hex(16)}"
    monkeypatch.setenv("CORPO_TOKEN", secret)
    (tmp_path / "tests.jsonl").write_text(secret)
    judge = fresh_judge(seconds=20.0)
    kinds = {
        "function": FunctionTests("attack", f"assert attack(1) == {secret!r}", preamble=f"expected = {secret!r}"),
        "calls": CallTests("attack", (("[1]", f'"{secret}"'),)),
        "program": ProgramTests((("1\n", secret),)),
    }

    def hunt(kind, program):
        # one who knew it was there before, in every form
        for tests in kinds.values():
            judge.judge(tests, f"def attack(x): return {secret!r}\nprint({secret!r})\nraise Exception({secret!r})")
        return judge.judge(kinds[kind], program).detail

    return hunt


@pytest.mark.parametrize("kind", ["function", "calls", "program"])
def test_a_candidates_memory_holds_what_it_put_there(hunted, kind):
    detail = hunted(kind, HUNTER + "hunt()")
    planted, heap, code, library, stack = re.search(r"\((\[.*?\]), \[(\d+), (\d+), (\d+), (\d+)\]\)", detail).groups()
    assert planted == "[0, 1, 2, 3]", "the hunter has to find the four it planted, and no other"
    assert int(heap) > 1000
    assert int(code) > 1000
    assert int(library) > 5000
    assert int(stack) >= 4


def test_also_while_a_test_waits_for_its_answer(hunted):
    assert "[0, 1, 2, 3]" in hunted("function", HUNTER + "attack = hunt")
