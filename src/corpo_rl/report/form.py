"""The form of a JSON document: what does not fit its schema, and how it is written."""

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from corpo_rl.errors import DataError

Schema = dict[str, Any]
"""A JSON Schema."""

ITEM: Final[Schema] = {"type": "string"}
"""An item of a list of texts."""


def field(kind: str, about: str, *, null: bool = False, **more: object) -> Schema:
    """A field of one JSON type."""
    return {"type": [kind, "null"] if null else kind, "description": about, **more}


def text_field(about: str, *, null: bool = False) -> Schema:
    """A text."""
    return field("string", about, null=null)


def count_field(about: str, *, null: bool = False) -> Schema:
    """A number of things."""
    return field("integer", about, null=null, minimum=0)


def number_field(about: str) -> Schema:
    """A figure, null where it is undefined."""
    return field("number", about, null=True)


def share_field(about: str) -> Schema:
    """A share from 0 to 1, null where it is undefined."""
    return field("number", about, null=True, minimum=0, maximum=1)


def list_field(about: str, items: Schema) -> Schema:
    """A list of like items."""
    return field("array", about, items=items)


def map_field(about: str, values: Schema, *, null: bool = False) -> Schema:
    """An object whose keys are data."""
    return field("object", about, null=null, additionalProperties=values)


def object_field(about: str, fields: Mapping[str, Schema], *, null: bool = False) -> Schema:
    """An object whose keys are these, all of them there."""
    return field("object", about, null=null, required=list(fields), properties=dict(fields))


def json_text(document: Mapping[str, Any], name: str, *, nan_as_null: bool) -> str:
    """A document as JSON text: sorted keys, a newline at the end; the same document always gives the same bytes.

    NumPy scalars are written as the numbers they are.

    Args:
        document: What to write.
        name: What to call it in an error.
        nan_as_null: Whether NaN and the infinities are written as null, or refused.

    Raises:
        DataError: A value is of a kind that JSON does not have; the message names its place.
    """
    plain = _plain(document, name, nan_as_null=nan_as_null)
    return json.dumps(plain, indent=1, sort_keys=True, allow_nan=False) + "\n"


def problems(
    value: object, schema: Mapping[str, Any], path: str, definitions: Mapping[str, Any] | None = None
) -> Iterator[str]:
    """What does not fit, depth first; the part of JSON Schema that our schemas use.

    Args:
        value: What to look at.
        schema: What it should be.
        path: Where it stands, for the messages.
        definitions: What a "$ref" points to by its last part; the schema's own "$defs" when left out.
    """
    if definitions is None:
        definitions = schema.get("$defs", {})
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    # first what stops a look inside
    if "const" in schema and value != schema["const"]:
        yield f"{path}: expected {schema['const']!r}, got {short(value)}"
    elif "enum" in schema and value not in schema["enum"]:
        yield f"{path}: expected one of {', '.join(map(repr, schema['enum']))}, got {short(value)}"
    elif "type" in schema and not _is_kind(value, schema["type"]):
        kinds = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
        yield f"{path}: expected {' or '.join(kinds)}, got {short(value)}"
    elif isinstance(value, int | float) and not isinstance(value, bool):
        if not schema.get("minimum", -math.inf) <= value <= schema.get("maximum", math.inf):
            yield f"{path}: {value} is out of range"
    elif isinstance(value, Mapping):
        for key in schema.get("required", []):
            if key not in value:
                yield f"{path}: no field {key!r} (fields: {short(', '.join(map(str, value)) or 'none')})"
        for key, item in value.items():
            inner = schema.get("properties", {}).get(key, schema.get("additionalProperties"))
            if inner is not None:
                yield from problems(item, inner, f"{path}.{key}", definitions)
    elif isinstance(value, list) and "items" in schema and not _all_fit(value, schema["items"]):
        for row, item in enumerate(value):
            yield from problems(item, schema["items"], f"{path}[{row}]", definitions)


def _all_fit(values: Sequence[object], schema: Mapping[str, Any]) -> bool:
    """Whether a quick look tells that every value fits: a curve can have a value for each of 1e5 steps."""
    if not {"type", "description", "minimum", "maximum"} >= set(schema):
        return False
    kinds = {schema["type"]} if isinstance(schema["type"], str) else set(schema["type"])
    names = {int: {"integer", "number"}, float: {"number"}, str: {"string"}, type(None): {"null"}}
    if not all(kinds & names.get(kind, set()) for kind in set(map(type, values))):
        return False
    low, high = schema.get("minimum", -sys.float_info.max), schema.get("maximum", sys.float_info.max)
    return all(low <= value <= high for value in values if isinstance(value, int | float))


def uneven(path: str, curves: Mapping[str, Sequence[object]], steps: Sequence[object]) -> Iterator[str]:
    """Curves that are not as long as their steps."""
    for name, values in curves.items():
        if len(values) != len(steps):
            yield f"{path}.{name}: expected {len(steps)} values, one per step, got {len(values)}"


def _is_kind(value: object, kinds: str | Sequence[str]) -> bool:
    """Whether a value is of a JSON type; NaN is no number in JSON, and a boolean is none either."""
    names = [kinds] if isinstance(kinds, str) else kinds
    whole = isinstance(value, int) and not isinstance(value, bool)
    tests = {
        "object": isinstance(value, Mapping),
        "array": isinstance(value, list),
        "string": isinstance(value, str),
        "boolean": isinstance(value, bool),
        "null": value is None,
        "integer": whole,
        "number": whole or (isinstance(value, float) and math.isfinite(value)),
    }
    return any(tests[name] for name in names)


def _plain(value: object, path: str, *, nan_as_null: bool) -> object:
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise DataError(f"{path}: expected text as key, got {short(key)}")
        return {key: _plain(item, f"{path}.{key}", nan_as_null=nan_as_null) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [
            # most items are the numbers of curves, for which no path needs to be made up
            item
            if item is None or type(item) is int or (type(item) is float and math.isfinite(item))
            else _plain(item, f"{path}[{row}]", nan_as_null=nan_as_null)
            for row, item in enumerate(value)
        ]
    if hasattr(value, "dtype") and hasattr(value, "item") and getattr(value, "shape", None) == ():
        value = value.item()
    if isinstance(value, float):
        if not math.isfinite(value) and not nan_as_null:
            raise DataError(f"{path}: expected a finite number, or null where undefined, got {value}")
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, str | bool | int):
        return value
    raise DataError(f"{path}: expected text, a number, a list, an object or null, got {type(value).__name__}")


def short(value: object) -> str:
    """A value as an error message quotes it."""
    text = value if isinstance(value, str) and ", " in value else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def check_form(document: object, schema: Schema, name: str, *, described_in: str) -> None:
    """Check a document against its schema.

    Raises:
        DataError: Something is missing or of the wrong kind; the message names the first such place.
    """
    if isinstance(document, Mapping) and "schema" in document:
        # another version may differ everywhere: say that before anything else
        for message in problems(document["schema"], schema["properties"]["schema"], f"{name}.schema"):
            raise DataError(f"{message}: written by another version")
    for message in problems(document, schema, name):
        raise DataError(f"{message}; the form is described in {described_in}")
