"""Reader for the labelled model answers that were published with GSM8K.

File: `example_model_solutions.jsonl` of https://github.com/openai/grade-school-math (MIT). A line holds `question`,
`ground_truth` and, under the name of each model, `{"is_correct": bool, "solution": text}`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpo_rl.errors import DataError
from corpo_rl.pairs.cut import without_calculator_marks
from corpo_rl.pairs.files import read_json_lines, shown, text_field
from corpo_rl.pairs.rated import RatedAnswer, RatedProblem

_FINAL_ANSWER = re.compile(r"^A:\s*\S", re.MULTILINE)


@dataclass(frozen=True)
class Gsm8kAnswers:
    """Rated answers, with what was left out or changed on the way."""

    problems: tuple[RatedProblem, ...]
    n_unfinished: int
    """Answers dropped because they hold no final "A:" line: a verifier would only learn to look for it."""
    n_marked: int
    """Answers that held calculator marks such as `<<3+4=7>>`, which were removed."""


def read_gsm8k_answers(path: Path) -> Gsm8kAnswers:
    """Read the labelled model answers; every field that holds `is_correct` is taken for a model's.

    Args:
        path: The JSON Lines file.

    Raises:
        DataError: Naming `path:line`, what was expected and what was found; also for a file without a row.
    """
    problems: list[RatedProblem] = []
    n_unfinished = n_marked = 0
    for line, row in read_json_lines(path):
        where = f"{path}:{line}"
        question = text_field(row, "question", where=where).strip()
        sources = [name for name, value in row.items() if isinstance(value, dict) and "is_correct" in value]
        if len(sources) < 2:
            raise DataError(
                f"{where}: expected the answers of two models or more, each a field with is_correct and solution, "
                f"found {len(sources)} (fields: {', '.join(row)})"
            )
        answers = []
        for source in sources:
            solution, correct = _solution(row[source], where=f"{where}: {source}")
            text = without_calculator_marks(solution).strip()
            n_marked += text != solution.strip()
            if _FINAL_ANSWER.search(text) is None:
                n_unfinished += 1
                continue
            answers.append(RatedAnswer(text, correct=correct, source=source))
        problems.append(RatedProblem(str(line), question, tuple(answers)))
    if not problems:
        raise DataError(f"{path}: expected one question a line, found no row; is this the right file?")
    return Gsm8kAnswers(tuple(problems), n_unfinished=n_unfinished, n_marked=n_marked)


def _solution(answer: Mapping[str, Any], *, where: str) -> tuple[str, bool]:
    correct = answer["is_correct"]
    if not isinstance(correct, bool):
        raise DataError(f"{where}: is_correct: expected true or false, found {shown(correct)}")
    return text_field(answer, "solution", where=where), correct
