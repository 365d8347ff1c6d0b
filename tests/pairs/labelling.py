"""Two problems, six candidates, and an engine that judges them without running anything."""

import json

from corpo_rl.pairs.cut import STOPS
from corpo_rl.pairs.labels import label_candidates
from corpo_rl.records import (
    MISSING_MODULE,
    OK,
    WRONG,
    Candidate,
    FinalAnswer,
    FunctionTests,
    Problem,
    Verdict,
)

HALF = Problem(
    "half",
    "Halve x.",
    FunctionTests("half", "assert half(4) == 2\nassert half(2) == 1"),
    prompt="def half(x):\n",
    reference="def half(x):\n    return x / 2\n",
)
TWICE = Problem(
    "twice",
    "Double x.",
    FunctionTests("twice", "assert twice(4) == 8\nassert twice(2) == 4"),
    prompt="def twice(x):\n",
    reference="def twice(x):\n    return 2 * x\n",
)
EGGS = Problem("eggs", "How many eggs?", FinalAnswer("7"))


def body(problem, number, text):
    return Candidate(problem.problem_id, str(number), text, "m", continues_prompt=True)


CANDIDATES = [
    body(TWICE, 0, "    return 2 * x\n"),
    body(HALF, 0, "    return x / 2\n\nprint(half(3))"),
    body(TWICE, 1, "    return x\n"),
    body(HALF, 1, "    return x\n"),
    body(HALF, 2, "    return x / 2\n"),  # the program of half 0, once that is cut
    body(TWICE, 2, "    import numpy\n"),
]


class Engine:
    """Judges by looking for the reference's expression, and remembers what it was asked; may break after some."""

    def __init__(self, breaks_after=None, *, backwards=True):
        self.jobs = []
        self.breaks_after = breaks_after
        self.backwards = backwards  # verdicts come in any order

    def __call__(self, jobs):
        for number, job in enumerate(list(jobs)[:: -1 if self.backwards else 1]):
            if number == self.breaks_after:
                raise RuntimeError("a bug of the judge")
            self.jobs.append(job)
            yield job.key, self.verdict(job)

    def verdict(self, job):
        if isinstance(job.tests, FinalAnswer):
            return Verdict(OK, 1, 1, seconds=0.5)
        if "numpy" in job.answer:
            return Verdict(MISSING_MODULE, 0, 2, "test 1: ModuleNotFoundError: No module named 'numpy'", 0.25)
        right = "x / 2" if job.tests.entry_point == "half" else "2 * x"
        return Verdict(OK, 2, 2, seconds=0.5) if right in job.answer else Verdict(WRONG, 1, 2, "test 1", 0.125)


def labelled(engine, out, *, problems=(HALF, TWICE), candidates=CANDIDATES, stops=STOPS, settings=None, **more):
    settings = {"timeout": 3.0} if settings is None else settings
    more = {"check_references": False, **more}
    return label_candidates(problems, candidates, engine=engine, out=out, stops=stops, settings=settings, **more)


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def named(row):
    return row["problem_id"], row["candidate_id"]
