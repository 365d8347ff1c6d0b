"""Which rows of a training set the prompts of a log are: by id, by text, or by the text that a chat template wraps."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from corpo_rl.curation.prompts import PromptNames
from corpo_rl.errors import DataError

MOST_TRIES = 64
"""Prompts whose wrapping is looked for, each with one look through the data set; one wrapping is enough for most."""

CONFIRMED_BY = 2
"""Prompts that have to share a wrapping: around a single one, anything that happens to stand in it would do."""


class Match(NamedTuple):
    """Which prompt each row of a data set is."""

    prompt_of_row: list[int | None]
    """Number of the prompt in the log; None for a row that the log does not know."""
    how: str
    """By what they were told, in words."""
    n_prompts_unmatched: int
    """Prompts of the log that no row is."""


def match_rows(names: PromptNames, values: Sequence[Any], *, column: str) -> Match:
    """Find the prompt of each row of a data set.

    By the ids of the log where any of the values is one, else by its prompts. Ids are equal when they are written
    alike: 7 is "7". Prompts are equal when they are the same text, or messages with the same roles and contents. A log
    that holds prompts with the chat template applied, as verl's does, matches by the last message of a row: the text
    before and after it has to be the same in two prompts or more, and the message itself in no other conversation of
    the data set.

    Args:
        names: Prompts of the log.
        values: For each row of the data set its id or prompt; None where it has none.
        column: Name of the column they come from, for messages and `Match.how`.

    Raises:
        DataError: No row is a prompt of the log.

    Example:
        >>> names = PromptNames(None, [None] * 2, ["<u>1+1?<a>", "<u>2+2?<a>"])
        >>> rows = [[{"role": "user", "content": text}] for text in ("2+2?", "3+3?", "1+1?")]
        >>> match_rows(names, rows, column="prompt").prompt_of_row
        [1, None, 0]
    """
    id_of = {_written(key): place for place, key in enumerate(names.ids) if key is not None}
    found = [None if value is None else id_of.get(_written(value)) for value in values]
    how = f"{names.id_column} of the log is {column} of the data set"
    if all(number is None for number in found):
        text_of = {canonical(text): place for place, text in enumerate(names.texts) if text is not None}
        found = [None if value is None else text_of.get(canonical(value)) for value in values]
        how = f"the prompt of the log is {column} of the data set"
        missing = {place for place, text in enumerate(names.texts) if isinstance(text, str)} - set(found)
        wrapped = _within_templates({place: names.texts[place] for place in sorted(missing)}, values)
        if wrapped:
            found = [wrapped.get(row) if number is None else number for row, number in enumerate(found)]
            how += ", with the chat template taken off"
    known = {number for number in found if number is not None}
    if not known:
        told = names.texts if names.id_column is None else names.ids
        raise DataError(
            f"{column}: no row of the data set is a prompt of the log (data set: {_shown(values)}; log: "
            f"{_shown(told)}); name columns that hold the same with --prompt-column (log) and --dataset-column (data "
            "set)"
        )
    return Match(found, how, len(names.texts) - len(known))


def canonical(prompt: Any) -> str:
    """A prompt as text, the same for equal texts and for messages with the same roles and contents.

    Example:
        >>> canonical([{"role": "user", "content": "Hi", "name": None}])
        '[["user","Hi"]]'
    """
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, list) and all(isinstance(one, Mapping) and "content" in one for one in prompt):
        prompt = [[one.get("role"), _without_nulls(one["content"])] for one in prompt]
    else:
        prompt = _without_nulls(prompt)
    return json.dumps(prompt, ensure_ascii=False, sort_keys=True, default=str, separators=(",", ":"))


def _within_templates(texts: Mapping[int, str], values: Sequence[Any]) -> dict[int, int]:
    """Prompt of the log by row of the data set, for rows whose last message stands in a prompt of the log."""
    rows_of: dict[str, list[int]] = {}
    conversations: dict[str, set[str]] = {}
    for row, value in enumerate(values):
        content = _last_content(value)
        if content:
            rows_of.setdefault(content, []).append(row)
            conversations.setdefault(content, set()).add(canonical(value))
    contents = {content for content, told in conversations.items() if len(told) == 1}
    left, found = dict(texts), dict[int, int]()
    for _ in range(MOST_TRIES):
        if not left:
            break
        place, text = next(iter(left.items()))
        inside = max((content for content in contents if content in text), key=len, default=None)
        before, _, after = text.rpartition(inside) if inside is not None else ("", "", "")
        matched = {}
        if inside is not None and not _cuts_a_word(before, inside) and not _cuts_a_word(inside, after):
            matched = dict(_unwrapped(left, before, after, contents))
        if len(matched) < CONFIRMED_BY:
            del left[place]
            continue
        for number, content in matched.items():
            found.update(dict.fromkeys(rows_of[content], number))
            del left[number]
    return found


def _cuts_a_word(before: str, after: str) -> bool:
    """Whether a cut between the two texts goes through a word or a number: "2+1?" is no message of "12+1?"."""
    return before[-1:].isalnum() and after[:1].isalnum()


def _unwrapped(texts: Mapping[int, str], before: str, after: str, contents: set[str]) -> Iterator[tuple[int, str]]:
    """Prompts that are a known message between these two texts, and the message."""
    for number, text in texts.items():
        if text.startswith(before) and text.endswith(after):
            content = text[len(before) : len(text) - len(after)]
            if content in contents:
                yield number, content


def _last_content(value: Any) -> str | None:
    """Text of the last message, or the text; stripped, as chat templates do."""
    if isinstance(value, list) and value and isinstance(value[-1], Mapping):
        value = value[-1].get("content")
    return value.strip() if isinstance(value, str) else None


def _without_nulls(value: Any) -> Any:
    """Parquet gives every part of a message all fields that any part has."""
    if isinstance(value, Mapping):
        return {name: _without_nulls(one) for name, one in value.items() if one is not None}
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value


def _written(key: Any) -> str:
    return key if isinstance(key, str) else canonical(key)


def _shown(values: Sequence[Any]) -> str:
    value = next((value for value in values if value is not None), None)
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
