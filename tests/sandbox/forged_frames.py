"""Answers that no honest process would send.

The tests want a secret text; `SECRET-` and 32 hexadecimal digits is all that a program may know of it.
"""

from tests.sandbox.attack import TIME, WRONG, Forgery

ONLY_OURS = """
import wire
real = wire.send
def loaded(descriptor, message):
    wire.send = lambda *arguments: None
    real(descriptor, message)
wire.send = loaded
def attack(x): send(BODY)
"""

MALFORMED = "an answer that is malformed"
NO_VALUE = "an answer that is no value"


def answering(name, body, says=WRONG, *, status="wrong", seconds=0.0):
    """A program that answers each call with a body of its own, given as an expression."""
    return Forgery(name, f"BODY = {body}" + ONLY_OURS, says, status, seconds)


FRAMES = [
    Forgery(
        "answers in advance", "send({'loaded': True}, *[{'result': 'SECRET'}] * 50)\ndef attack(x): return x", WRONG
    ),
    Forgery("claims of loading", "send(*[{'loaded': True}] * 50)\ndef attack(x): return x", WRONG),
    Forgery(
        "verdicts",
        """
        ok = {"status": "ok", "passed": 3, "total": 3, "detail": ""}
        send({"total": 0}, ok, {"loaded": True, **ok}, {"result": None, **ok}, {"kind": "passed"}, ok)
        def attack(x): return ok
        """,
        "load|defines no attack",
        status="load_error",
    ),
    Forgery(
        "end forged", "send({'loaded': True}, {'killed': False, 'code': 0})\nos._exit(0)", "status 0|AssertionError"
    ),
    answering("no object", "['result']", MALFORMED),
    answering("a number", "5", MALFORMED),
    answering("null", "None", MALFORMED),
    answering("no JSON", "b'passed'", MALFORMED),
    answering("no UTF-8", "bytes(range(128, 256))", MALFORMED),
    answering("UTF-16", "json.dumps({'result': 'x'}).encode('utf-16')", MALFORMED),
    answering("an empty frame", "b''", MALFORMED),
    answering("an empty object", "{}"),
    answering("NaN", "b'{\"result\": NaN}'", NO_VALUE),
    answering("infinity", 'b\'{"result": ["f", "inf"]}\''),
    answering("a bare float", "{'result': 0.5}", NO_VALUE),
    answering("a bare object", "{'result': {'a': 1}}", NO_VALUE),
    answering("an empty list", "{'result': []}", NO_VALUE),
    answering("an unknown tag", "{'result': ['pickle', 'x']}", NO_VALUE),
    answering("a list as tag", "{'result': [['l'], 1]}", NO_VALUE),
    answering("an object as tag", "{'result': [{}, 1]}", NO_VALUE),
    answering("keys that cannot be hashed", "{'result': ['d', [['l'], 1]]}", NO_VALUE),
    answering("members that cannot be hashed", "{'result': ['s', ['l'], ['d']]}", NO_VALUE),
    answering("pairs of three", "{'result': ['d', [1, 2, 3]]}", NO_VALUE),
    answering("pairs that are texts", "{'result': ['d', 'ab']}"),
    answering("digits that are none", "{'result': ['i', 'xyz']}", NO_VALUE),
    answering("digits that are a list", "{'result': ['i', ['l']]}", NO_VALUE),
    answering("a range of texts", "{'result': ['r', 'a', 'b']}", NO_VALUE),
    answering("a range without steps", "{'result': ['r', 1, 2, 0]}", NO_VALUE),
    answering("a fraction of a text", "{'result': ['n', '1e9999999999', None]}", NO_VALUE),
    answering("a fraction over nothing", "{'result': ['n', 1, 0]}", NO_VALUE),
    answering("a fraction of long integers", "{'result': ['n', ['i', 'f' * 400000], ['i', '1' * 400000]]}", NO_VALUE),
    answering("a decimal that is none", "{'result': ['m', 'ten']}", NO_VALUE),
    answering("a decimal with a context", "{'result': ['m', '1', 2]}", NO_VALUE),
    answering("a signalling decimal", "{'result': ['m', 'sNaN']}", "InvalidOperation|TypeError|AssertionError"),
    answering("a great exponent", "{'result': ['m', '1e999999999999999']}"),
    answering("a signalling decimal as key", "{'result': ['s', ['m', 'sNaN']]}", NO_VALUE),
    answering("bytes that are none", "{'result': ['b', 'zz']}", NO_VALUE),
    answering("a float out of range", "{'result': ['f', '0x1p999999']}", NO_VALUE),
    answering("a long integer", "{'result': ['i', 'f' * 900000]}"),
    answering("digits of JSON", "b'{\"result\": ' + b'9' * 900000 + b'}'", MALFORMED),
    answering("deep JSON", "b'[' * 500000", MALFORMED),
    answering("a deep value", "b'{\"result\": ' + b'[\"l\",' * 5000 + b'1' + b']' * 5000 + b'}'", MALFORMED),
    answering(
        "a less deep value", "b'{\"result\": ' + b'[\"l\",' * 700 + b'1' + b']' * 700 + b'}'", NO_VALUE + "|" + WRONG
    ),
    answering("many empty lists", "{'result': ['l', *[['l']] * 140000]}"),
    answering(
        "members that collide",
        "{'result': ['s', *(k * (2 ** 61 - 1) + 1 for k in range(40000))]}",
        "no end of the test in time|AssertionError",
        status="timeout|wrong",
        seconds=2.0,
    ),
    answering("more than allowed", "{'result': 'x' * (2 << 20)}", "over the limit of output"),
    answering("an unsendable claim", "{'unsendable': ['l'] * 1000}", "cannot be judged", status="not_judged"),
    answering("a raised number", "{'raised': 5}", "without a description"),
    answering("a raised list", "{'raised': [1]}", "without a description"),
    answering("an empty exception", "{'raised': {}}", "test 1"),
    answering("a raised base", "{'raised': {'type': 'BaseException', 'bases': ['BaseException']}}", "BaseException"),
    answering("a raised type of no text", "{'raised': {'type': [[]], 'bases': 5, 'text': {}}}", "test 1"),
    answering("a raised name of no exception", "{'raised': {'type': 'print', 'bases': ['print', 'open']}}", "print"),
    answering(
        "a raised function", "{'raised': {'type': 'exit', 'bases': ['exit', 'ExceptionGroup', 'SystemExit']}}", "exit"
    ),
    answering(
        "a deep description",
        "b'{\"raised\": {\"type\": ' + b'[' * 800 + b']' * 800 + b', \"bases\": [], \"text\": {}}}'",
        "test 1|malformed",
    ),
    answering("memory claimed", "{'raised': {'type': 'x', 'bases': ['MemoryError']}}", "x", status="memory"),
    answering(
        "a missing module claimed of one that is there",
        "{'raised': {'type': 'ModuleNotFoundError', 'bases': ['ModuleNotFoundError'], 'module': 'json'}}",
        "ModuleNotFoundError",
    ),
    answering(
        "a missing module that is no name",
        "{'raised': {'type': 'ModuleNotFoundError', 'bases': ['ModuleNotFoundError'], 'module': '../../x'}}",
        "ModuleNotFoundError",
    ),
    answering(
        "a missing module that is absent",
        "{'raised': {'type': 'ModuleNotFoundError', 'bases': ['ModuleNotFoundError'], 'module': 'no_such_module'}}",
        "ModuleNotFoundError",
        status="missing_module",
    ),
    answering("the arguments changed", "{'result': None, 'arguments': ['l', 'SECRET', 'SECRET']}"),
    answering("arguments of another kind", "{'result': None, 'arguments': 5}"),
    answering("arguments that are no value", "{'result': None, 'arguments': {'a': 1}}", NO_VALUE),
    Forgery(
        "half a frame", "def attack(x):\n    os.write(4, frame({'result': 1})[:9])\n    time.sleep(60)", TIME, "timeout"
    ),
    Forgery("half a length", "def attack(x):\n    os.write(4, b'xx')\n    time.sleep(60)", TIME, "timeout"),
    Forgery("a giant length", "def attack(x):\n    os.write(4, b'\\xff' * 4)\n    time.sleep(60)", "over the limit"),
    Forgery(
        "a byte at a time",
        """
        def attack(x):
            for byte in frame({"result": "x" * 100000}):
                os.write(4, bytes([byte]))
                time.sleep(0.01)
        """,
        TIME,
        "timeout",
    ),
    Forgery("silence", "import wire\nwire.send = lambda *a, **k: time.sleep(60)\ndef attack(x): pass", TIME, "timeout"),
    Forgery(
        "junk to every descriptor",
        """
        for number in range(200):
            try:
                os.write(number, b"passed" * 1000)
            except OSError:
                pass
        """,
        MALFORMED + "|over the limit",
        status="load_error",
    ),
    Forgery("every descriptor closed", "os.closerange(0, 4096)\ndef attack(x): return x", "status 1", "load_error"),
    Forgery(
        "descriptors exchanged",
        "os.dup2(1, 4)\nos.dup2(0, 3)\ndef attack(x): return x",
        "status|signal|in time",
        status="load_error|timeout",
    ),
    Forgery("no answer taken", "os.close(3)\ndef attack(x): return x", "status 1"),
]
