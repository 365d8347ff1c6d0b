"""From what a model wrote to the program that is run, and to the text that a verifier reads."""

import re
from collections.abc import Sequence

from corpo_rl.pairs.python_source import parsed
from corpo_rl.records import Candidate, FinalAnswer, FunctionTests, Problem, ProgramTests

HUMANEVAL_STOPS = ("\nclass", "\ndef", "\n#", "\nif", "\nprint")
"""Where a completion of a function ends, as published with HumanEval (Chen et al., https://arxiv.org/abs/2107.03374,
section 2.1)."""

STOPS = (*HUMANEVAL_STOPS, "\nassert", "\nimport", "\nfrom", "\n@", '\n"""', "\n'''", "\n```")
"""The same and more: what base models write after a function's body that no body goes on with. Without these the
beginnings of other files that follow a right body would make it wrong, or ask for modules that are not there."""

CALL_PREAMBLE = """\
import bisect, collections, functools, heapq, itertools, math, operator, random, re, string, sys
from bisect import bisect_left, bisect_right, insort
from collections import ChainMap, Counter, OrderedDict, defaultdict, deque
from functools import cache, cmp_to_key, lru_cache, reduce
from heapq import heapify, heappop, heappush, heappushpop, heapreplace, nlargest, nsmallest
from itertools import accumulate, chain, combinations, groupby, permutations, product
from math import ceil, comb, factorial, floor, gcd, inf, sqrt
from typing import *
"""
"""What solutions of LeetCode's kind may use unimported: that site imports the standard library for them, and APPS'
own runner writes a list much like this before every solution."""

_FENCE = re.compile(r"```[ \t]*(\w*)[^\n`]*\n(.*?)(?:^[ \t]*```|\Z)", re.MULTILINE | re.DOTALL)
"""A block may begin within a line of prose; it ends at the beginning of one, or with the text."""
_PYTHON = ("python", "python3", "py")
_CALCULATOR_MARK = re.compile(r"<<[^<>]*>>")
_FUTURE = re.compile(r"^from __future__ import .*\n?", re.MULTILINE)


def cut_at_stops(text: str, stops: Sequence[str] = STOPS) -> str:
    r"""The text up to the first of the stop sequences.

    Example:
        >>> cut_at_stops("    return x\n\nprint(f(3))\n")
        '    return x\n'
    """
    return text[: min((place for stop in stops if (place := text.find(stop)) >= 0), default=len(text))]


def fenced_code(text: str, *, defining: str | None = None) -> str:
    r"""The code in an answer of prose, or else the text.

    Args:
        text: The answer. When it is Python code as it stands, it is all taken.
        defining: Name of the function asked for. The last block that defines it is taken, or else the last block.
            Blocks fenced with ```python go before blocks fenced with ```; those of other languages are not taken. A
            block that the end of the answer cut off counts.

    Example:
        >>> fenced_code("Try this:\n```python\ndef f(): return 1\n```\nIt prints:\n```\n1\n```")
        'def f(): return 1\n'
    """
    if "```" not in text or parsed(text) is not None:
        return text
    blocks = [(language.lower(), code) for language, code in _FENCE.findall(text)]
    codes = [code for language, code in blocks if language in _PYTHON]
    codes = codes or [code for language, code in blocks if not language]
    if defining is not None:
        codes = [code for code in codes if _defines(code, defining)] or codes
    return codes[-1] if codes else text


def answer_text(problem: Problem, candidate: Candidate, *, stops: Sequence[str] = STOPS) -> tuple[str, bool]:
    r"""What of a candidate is judged, and read by a verifier.

    - Prose around fenced code is left out.
    - Completions of a prompt end at the first stop sequence; answers that stand alone are never cut there.
    - A completion that defines the function anew stands alone. Chat models write those.
    - Math answers stay as they are.

    Returns:
        The text, and whether it continues the problem's prompt.

    Example:
        >>> half = Problem("0", "", FunctionTests("half", "assert half(4) == 2"), prompt="def half(x):\n")
        >>> answer_text(half, Candidate("0", "0", "    return x / 2\n\nprint(half(8))", "m", continues_prompt=True))
        ('    return x / 2\n', True)
        >>> answer_text(half, Candidate("0", "1", "def half(x):\n    return x / 2", "m", continues_prompt=True))
        ('def half(x):\n    return x / 2', False)
    """
    if isinstance(problem.tests, FinalAnswer):
        return candidate.text, False
    name = None if isinstance(problem.tests, ProgramTests) else problem.tests.entry_point
    first_line = next((line for line in candidate.text.splitlines() if line.strip()), "")
    if candidate.continues_prompt and first_line[:1].isspace():
        # what begins inside a body continues it, whatever comes after it
        return cut_at_stops(candidate.text, stops), True
    text = fenced_code(candidate.text, defining=name)
    if not candidate.continues_prompt or (name is not None and _defines(text, name)):
        return text, False
    return cut_at_stops(text, stops), True


def program_of(problem: Problem, text: str, *, continues_prompt: bool) -> str:
    r"""The whole program to run for an answer, as `answer_text` gives it.

    A function that stands alone gets what the prompt imports and defines before it, since its writer saw the prompt.

    Args:
        problem: A problem whose answers are code.
        text: The answer.
        continues_prompt: Whether it continues the problem's prompt.

    Example:
        >>> tests = FunctionTests("total", "assert total([1]) == 1", preamble="from typing import List")
        >>> problem = Problem("0", "", tests, prompt="from typing import List\ndef total(x: List):\n")
        >>> print(program_of(problem, "def total(x: List):\n    return sum(x)", continues_prompt=False))
        from typing import List
        def total(x: List):
            return sum(x)
    """
    if isinstance(problem.tests, ProgramTests):
        return problem.prompt + text if continues_prompt else text
    whole = problem.prompt + text if continues_prompt else text
    if isinstance(problem.tests, FunctionTests):
        before = "" if continues_prompt else problem.tests.preamble
    else:
        before = CALL_PREAMBLE
    if not before:
        return whole
    # these have to stay the first statements of a program
    future = "".join(line if line.endswith("\n") else line + "\n" for line in _FUTURE.findall(before + "\n" + whole))
    return future + _FUTURE.sub("", before).rstrip("\n") + "\n" + (_FUTURE.sub("", whole) if future else whole)


def without_calculator_marks(text: str) -> str:
    """A math answer without the marks that GSM8K's solutions hold.

    Example:
        >>> without_calculator_marks("3+4 = <<3+4=7>>7 eggs")
        '3+4 = 7 eggs'
    """
    return _CALCULATOR_MARK.sub("", text)


def _defines(code: str, name: str) -> bool:
    """Whether a function of this name, or LeetCode's class, begins at the left margin."""
    pattern = rf"^(?:async[ \t]+)?def[ \t]+{re.escape(name)}\b|^class[ \t]+Solution\b"
    return re.search(pattern, code, re.MULTILINE) is not None
