"""Fields of a row, checked: each error names the place, what was expected and what was found."""

import json
from collections.abc import Mapping
from typing import Any

from corpo_rl.errors import DataError
from corpo_rl.pairs.files import shown, text_field


def id_field(row: Mapping[str, Any], *names: str, where: str) -> str:
    """The first of these fields that is there, which must be text or a whole number.

    Raises:
        DataError: None is there, or it is neither.

    Example:
        >>> id_field({"task_id": 11, "id": "x"}, "problem_id", "task_id", "id", where="a.jsonl:1")
        '11'
    """
    name = next((name for name in names if row.get(name) is not None), None)
    if name is None:
        raise DataError(f"{where}: no field {names[0]!r} (fields: {', '.join(row) or 'none'})")
    value = row[name]
    return str(value) if type(value) is int else text_field(row, name, where=where)


def optional_text(row: Mapping[str, Any], name: str, *, where: str) -> str | None:
    """A text field, or None where it is absent, null or empty.

    Raises:
        DataError: It is something else.
    """
    return None if row.get(name) in (None, "") else text_field(row, name, where=where)


def any_text(value: Any, *, where: str) -> str:
    """A value that must be text, which may be empty.

    Raises:
        DataError: It is none, or holds half a surrogate pair.
    """
    if not isinstance(value, str):
        raise DataError(f"{where}: expected text, found {shown(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise DataError(f"{where}: expected text, found half a surrogate pair in it (broken escape)") from None
    return value


def list_field(row: Mapping[str, Any], name: str, *, where: str) -> list[Any]:
    """A field that must be a list.

    Raises:
        DataError: It is absent, or none.
    """
    if name not in row:
        raise DataError(f"{where}: no field {name!r} (fields: {', '.join(row) or 'none'})")
    if not isinstance(row[name], list):
        raise DataError(f"{where}: {name}: expected a list, found {shown(row[name])}")
    return list(row[name])


def decoded(text: str, *, where: str) -> Any:
    """What JSON text in a field says.

    Raises:
        DataError: It is no JSON.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"{where}: expected JSON in the text, found broken JSON ({error.msg})") from None
    except (ValueError, RecursionError):
        raise DataError(
            f"{where}: expected JSON in the text, found it nested too deep or with too long a number"
        ) from None
