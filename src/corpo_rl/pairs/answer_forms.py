"""Rows of GSM8K, MATH and the like as problems with a final answer."""

from collections.abc import Mapping
from typing import Any

from corpo_rl.errors import DataError
from corpo_rl.pairs.cut import without_calculator_marks
from corpo_rl.pairs.fields import optional_text
from corpo_rl.pairs.files import text_field
from corpo_rl.pairs.final_answers import marked_answer
from corpo_rl.records import FinalAnswer, Problem

QUESTIONS = ("question", "problem")
ANSWERS = ("answer", "final_answer", "expected_answer", "ground_truth", "solution")
"""Fields that may hold the answer; the first that is there is taken."""

_IDS = ("problem_id", "task_id", "id", "unique_id")


def math_problem(row: Mapping[str, Any], *, where: str, number: str) -> Problem:
    r"""A `question` or `problem` with its answer: GSM8K's and MATH's form, or a plain answer.

    The answer is what follows `####` (GSM8K) or `A:` (its model solutions), what stands in the last `\boxed{}` (MATH),
    or else all of a field that is one line. A solution that marks its answer is the reference.

    Args:
        row: The row.
        where: Its place, for errors.
        number: Id of a problem that has none in the row.

    Raises:
        DataError: There is no answer, or a field is missing or of the wrong kind.
    """
    name = next((name for name in QUESTIONS if name in row), QUESTIONS[0])
    text = text_field(row, name, where=where).strip()
    found = next((name for name in ANSWERS if row.get(name) not in (None, "")), None)
    if found is None:
        raise DataError(
            f"{where}: a problem without tests: expected an answer in one of the fields {', '.join(ANSWERS)}"
        )
    answer = _answer(row, found, where=where)
    solutions = (optional_text(row, name, where=where) for name in ANSWERS if isinstance(row.get(name), str))
    marked = (without_calculator_marks(one).strip() for one in solutions if one is not None and marked_answer(one))
    identifier = next((str(row[name]) for name in _IDS if row.get(name) not in (None, "")), number)
    return Problem(identifier, text, FinalAnswer(answer), reference=next(marked, None))


def _answer(row: Mapping[str, Any], name: str, *, where: str) -> str:
    value = row[name]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    text = text_field(row, name, where=where).strip()
    answer = marked_answer(text)
    if answer is not None:
        return answer
    if "\n" in text or name == "solution":
        raise DataError(
            f"{where}: {name}: expected a final answer (one line, or one marked by ####, A: or \\boxed), found none"
        )
    return text
