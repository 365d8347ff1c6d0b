"""Made-up prompts and answers for the demo logs."""

import numpy as np

_TASKS = (
    "merges two sorted lists",
    "parses a date such as 2024-03-09",
    "counts the words of a text",
    "finds the longest common prefix",
    "rotates a matrix by 90 degrees",
    "checks that brackets are balanced",
    "rounds a price to the nearest cent",
    "removes duplicates and keeps the order",
    "splits a bill among friends",
    "translates Roman numerals",
)
_OPENINGS = (
    "I walk through the input once and keep a running result.",
    "First I sort the values, then compare neighbours.",
    "A dictionary of counts does most of the work here.",
    "I split the problem in two halves and solve each.",
    "Two pointers move towards each other until they meet.",
)
_DOUBTS = (
    "The empty input still worries me.",
    "I am not sure about negative numbers.",
    "Let me try that again with a smaller example.",
    "Wait, the last element is skipped.",
    "Trailing spaces may break it.",
)
_ENDINGS = ("That should do.", "I leave it at that.", "Done.", "This is my final answer.")


def prompt_text(number: int, n_checks: int) -> str:
    """Prompt of that number.

    Example:
        >>> prompt_text(11, 4)
        'Problem 11: write a function that parses a date such as 2024-03-09. It must pass 4 checks.'
    """
    return f"Problem {number}: write a function that {_TASKS[number % len(_TASKS)]}. It must pass {n_checks} checks."


def completion_text(rng: np.random.Generator, passed: int, n_checks: int) -> str:
    """An answer that passes that many checks; the fewer it passes, the more it dithers."""
    doubts = [_DOUBTS[i] for i in rng.choice(len(_DOUBTS), size=round(4 * (1 - passed / n_checks)), replace=False)]
    opening, ending = _OPENINGS[rng.integers(len(_OPENINGS))], _ENDINGS[rng.integers(len(_ENDINGS))]
    return " ".join([opening, *doubts, f"It passes {passed} of {n_checks} checks.", ending])
