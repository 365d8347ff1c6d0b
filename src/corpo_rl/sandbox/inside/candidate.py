"""The candidate's own process: loads the program and answers calls. Nothing it says is believed, only compared.

Common modules are imported before the fork, so that a candidate that imports them does not wait.
"""

import _sitebuiltins
import bisect  # noqa: F401
import builtins
import cmath  # noqa: F401
import collections  # noqa: F401
import copy  # noqa: F401
import dataclasses  # noqa: F401
import datetime  # noqa: F401
import decimal  # noqa: F401
import functools  # noqa: F401
import heapq  # noqa: F401
import itertools  # noqa: F401
import math  # noqa: F401
import operator  # noqa: F401
import os
import random
import re  # noqa: F401
import statistics  # noqa: F401
import string  # noqa: F401
import sys
import typing  # noqa: F401
from types import ModuleType

import wire

_MOST_REQUEST = 1 << 28


def run(*, request, reply):
    """Serve the one candidate of this process: its program first, then calls until the pipe closes."""
    job = wire.receive(request, most=_MOST_REQUEST, deadline=None)
    random.seed(0)
    if job["kind"] == "program":
        _run_program(job["program"], reply=reply)
    module = ModuleType("candidate")
    sys.modules["candidate"] = module
    try:
        exec(compile(job["program"], "candidate.py", "exec", dont_inherit=True), module.__dict__)
    except BaseException as error:
        wire.send(reply, {"failed": _described(error)})
        return
    found = job["entry_point"] in module.__dict__ or hasattr(module.__dict__.get("Solution"), job["entry_point"])
    wire.send(reply, {"loaded": found})
    while True:
        call = wire.receive(request, most=_MOST_REQUEST, deadline=None)
        wire.send(reply, _answer(module.__dict__, job["entry_point"], call))


def _answer(names, entry_point, call):
    """Call the function, or a new Solution's method, and describe the outcome."""
    positional, named = wire.decode(call["arguments"])
    try:
        function = names[entry_point] if entry_point in names else getattr(names["Solution"](), entry_point)
        result = function(*positional, **named)
    except BaseException as error:
        return {"raised": _described(error)}
    try:
        # functions that work in place return nothing; only then are the arguments worth sending back
        return {"result": wire.encode(result), "arguments": wire.encode(positional) if result is None else None}
    except wire.Unsendable as error:
        return {"unsendable": str(error)[:100]}
    except BaseException as error:
        return {"raised": _described(error)}


def _described(error):
    try:
        return {
            "type": type(error).__name__[:100],
            "bases": [base.__name__[:100] for base in type(error).__mro__][:8],
            "text": str(error)[:300],
            "module": str(error.name)[:100] if isinstance(error, ModuleNotFoundError) else None,
        }
    except BaseException:
        return {"type": "BaseException", "bases": [], "text": "", "module": None}


def _run_program(program, *, reply):
    """Run a whole program on the real standard input and output; never returns.

    Its exit status is the program's own, or 1 after an exception, which is described on the reply pipe.
    """
    builtins.exit, builtins.quit = _sitebuiltins.Quitter("exit", ""), _sitebuiltins.Quitter("quit", "")
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    module = ModuleType("__main__")
    sys.modules["__main__"] = module
    code = 1
    try:
        compiled = compile(program, "candidate.py", "exec", dont_inherit=True)
    except BaseException as error:
        wire.send(reply, {"failed": _described(error), "loaded": False})
        os._exit(code)
    try:
        exec(compiled, module.__dict__)
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException as error:
        wire.send(reply, {"failed": _described(error)})
    try:
        sys.stdout.flush()
    except BaseException:
        code = code or 1
    os._exit(code & 255)
