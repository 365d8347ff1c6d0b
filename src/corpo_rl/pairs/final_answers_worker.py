"""Compares final answers with math-verify, in a process that may be killed. Run by `final_answers`, never imported.

JSON lines on standard input, `{"expected", "answer", "marked"}`, and one on standard output for each: `{"status",
"detail", "retire"}`. Answers are hostile: they may name numbers that fill the memory, or expressions that no computer
simplifies. Limits on memory, processor time and file size are set here; the time on the wall is the parent's to watch.
"""

import functools
import json
import logging
import os
import re
import resource
import sys
from typing import Any, TextIO

_MOST_DIGITS = 1000
"""Of a number; those with more are no answers, and only take long."""
_UNIT = re.compile(r"[A-Za-z]{3,}")
_WORDS = re.compile(r"\\(?:text|textbf|mathrm|mbox)\{([^{}\d]*)\}|([A-Za-z][A-Za-z .'-]+)")
_LONGEST_PRODUCT = 3
"""Letters of a product of variables, "abc"; math-verify reads longer words as such too, so that anagrams are equal."""
_GROUPED = re.compile(r"(?<![\d.])\d{1,3}(?: \d{3})+(?!\d)")


def main(*, seconds: float, memory_mb: int) -> None:
    """Answer requests until standard input closes."""
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    memory = memory_mb << 20
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # imports and compiles what later takes no time any more: the parent waits for this longer than for an answer
    compare("1/2", "\\frac{1}{2}", marked=True)
    compare("1/2", "It is 0.5", marked=False)
    # whatever a library prints must not look like an answer, nor fill a disk
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    logging.disable(logging.CRITICAL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    _tell(answers, {"ready": True})
    for line in sys.stdin:
        request = json.loads(line)
        # should the parent die in the meantime, the processor time still ends
        used = resource.getrusage(resource.RUSAGE_SELF)
        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime + seconds) + 2, most))
        status, detail = compare(request["expected"], request["answer"], marked=request["marked"])
        # a full memory makes wrong answers out of right ones: say so, and begin anew
        full = _peak_bytes() > memory / 2
        if full and status != "ok":
            status, detail = "not_judged", "the comparison needs too much memory"
        _tell(answers, {"status": status, "detail": detail, "retire": full})


def _peak_bytes() -> int:
    """The most memory this process has held. What getrusage says begins with that of the process that started it."""
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def compare(expected: str, answer: str, *, marked: bool) -> tuple[str, str]:
    """Status and detail of an answer; `marked` when it is the answer alone, not a whole solution to find it in."""
    from math_verify import parse, verify

    word = _word(expected)
    if word is not None and _says(word, answer, marked=marked):
        return "ok", ""
    if word is not None and ("\\" in expected or len(word) > _LONGEST_PRODUCT):
        return "wrong", "another answer than expected"
    golds = parsed(expected)
    if not golds:
        return "not_judged", "no answer could be read in the one expected"
    if re.search(rf"\d{{{_MOST_DIGITS},}}", answer):
        return "wrong", f"a number of {_MOST_DIGITS} digits or more"
    found = parsed(answer) if marked else parse(answer, parsing_timeout=None)
    if not found:
        return "wrong", "no final answer found"
    if verify(golds, found, timeout_seconds=None):
        return "ok", ""
    return "wrong", "another answer than expected"


@functools.lru_cache(maxsize=64)
def parsed(text: str) -> list[Any]:
    """What math-verify reads in an answer that stands alone: as LaTeX, or as a number with its unit in words."""
    from math_verify import parse

    text = _GROUPED.sub(lambda match: match.group().replace(" ", ""), _bare(text))
    forms = [f"$\\boxed{{{text}}}$", text]
    if "\\" not in text and _UNIT.search(text):
        forms.reverse()
    return next((found for form in forms if (found := parse(form, parsing_timeout=None))), [])


def _word(text: str) -> str | None:
    """The words of an answer that holds nothing else, else None."""
    match = _WORDS.fullmatch(_bare(text).strip("$"))
    return None if match is None else _plain(match.group(1) or match.group(2)) or None


def _says(word: str, answer: str, *, marked: bool) -> bool:
    """Whether an answer is this word, or a solution ends in it."""
    if marked:
        return (_word(answer) or _plain(answer)) == word
    return f" {_plain(answer)}".endswith(f" {word}")


def _bare(text: str) -> str:
    """Without the spaces, the stop and the Markdown around it."""
    return text.strip().strip("*").strip().rstrip(".")


def _plain(text: str) -> str:
    return " ".join(re.sub(r"\W+", " ", text).casefold().split())


def _tell(answers: TextIO, message: dict[str, object]) -> None:
    answers.write(json.dumps(message) + "\n")
    answers.flush()


if __name__ == "__main__":
    main(seconds=float(sys.argv[1]), memory_mb=int(sys.argv[2]))
