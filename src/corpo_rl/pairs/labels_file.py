"""Reader of labels files, as `corpo-rl pairs label` writes them."""

from pathlib import Path
from typing import Any

from corpo_rl.errors import DataError
from corpo_rl.pairs.fields import any_text
from corpo_rl.pairs.files import read_json_lines, shown, text_field
from corpo_rl.records import STATUSES, LabelledCandidate


def read_labels(path: Path) -> list[LabelledCandidate]:
    """The labelled candidates of a file, in file order.

    Fields are those of `LabelledCandidate`; others are left alone. `correct` is true, false, or null for a candidate
    that could not be judged.

    Args:
        path: JSON Lines.

    Returns:
        At least one.

    Raises:
        DataError: A field is missing or of another type, a status and its label contradict each other, a candidate
            comes twice, or the file is broken. Names `path:line`.
    """
    labels: list[LabelledCandidate] = []
    line_of: dict[tuple[str, str, str], int] = {}
    for line, row in read_json_lines(path):
        where = f"{path}:{line}"
        label = LabelledCandidate(
            problem_id=text_field(row, "problem_id", where=where),
            candidate_id=text_field(row, "candidate_id", where=where),
            source=text_field(row, "source", where=where),
            text=any_text(_of_type(row, "text", str, "text", where=where), where=f"{where}: text"),
            correct=_of_type(row, "correct", bool | None, "true, false or null", where=where),
            passed=_of_type(row, "passed", int, "a whole number", where=where),
            total=_of_type(row, "total", int, "a whole number", where=where),
            status=text_field(row, "status", where=where),
            detail=str(row.get("detail", "")),
        )
        if label.status not in STATUSES:
            raise DataError(f"{where}: status: expected one of {', '.join(STATUSES)}, found {shown(label.status)}")
        if (label.correct is True) != (label.status == "ok"):
            raise DataError(
                f"{where}: status {label.status!r} and correct {shown(label.correct)} contradict each other"
            )
        first = line_of.setdefault((label.problem_id, label.source, label.candidate_id), line)
        if first != line:
            raise DataError(f"{where}: candidate {label.candidate_id!r} of {label.source!r} is already in line {first}")
        labels.append(label)
    if not labels:
        raise DataError(f"{path}: expected one labelled candidate a line, found no row; is this the right file?")
    return labels


def _of_type(row: Any, name: str, kind: Any, expected: str, *, where: str) -> Any:
    if name not in row:
        raise DataError(f"{where}: no field {name!r} (fields: {', '.join(row) or 'none'})")
    value = row[name]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise DataError(f"{where}: {name}: expected {expected}, found {shown(value)}")
    return value
