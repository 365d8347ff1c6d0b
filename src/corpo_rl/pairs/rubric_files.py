"""Files of graded texts for the rubric task: JSON Lines, a JSON array or parquet, in three forms told by their fields.

Ours, a row:

    instruction         what the text was written for
    response            the text
    rubric              text, or an object with `criteria` and `score1_description` to `score5_description`
    score               the reference grade: a number from 1 to 5, or a list of raters' grades, whose mean is taken
    split               optional: train, in_domain, ood or other_domain
    reference_answer    optional: a text that deserves a 5
    item_id             optional: the line or row when absent

Feedback Collection and Feedback Bench (https://arxiv.org/abs/2310.08491): `orig_instruction`, `orig_response`,
`orig_criteria`, `orig_score1_description` to `orig_score5_description`, `orig_score`, `orig_reference_answer`. Their
grades were written by a language model.

BiGGen Bench's results (https://arxiv.org/abs/2406.05761): `input`, `system_prompt`, `response`, `score_rubric`,
`human_score`, `reference_answer`. Only people's grades are read, not those of the models in other fields.

A field `split`, and `item_id`, may stand in any of them. Where no row has a split, one instruction in five goes to
in_domain, by a hash of its words, so that neither other rows nor their order change it; ood and other_domain are empty.
"""

import hashlib
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from corpo_rl.errors import DataError
from corpo_rl.pairs.files import SPLITS, normalised, shown, text_field
from corpo_rl.pairs.rows import read_rows
from corpo_rl.records import TRAIN
from corpo_rl.tasks.rubric import HIGHEST, LOWEST, RubricItem

IN_DOMAIN_SHARE = 5
"""One instruction in so many is held out of training, where the rows name no split."""

_GRADE_TEXT = re.compile(r"[1-5]")
_DESCRIPTIONS = tuple(f"score{grade}_description" for grade in range(LOWEST, HIGHEST + 1))


def read_rubric(path: Path) -> list[RubricItem]:
    """Items of a file of graded texts, in file order.

    Strict, as `read_pairs` is: it refuses broken rows, an instruction that occurs in two splits (it would leak), a row
    that repeats another, and splits on some rows only.

    Returns:
        At least one item of `train` and one of another split.

    Raises:
        DataError: As above, with the place, what was expected and what was found.
    """
    items: list[RubricItem] = []
    named: dict[bool, str] = {}
    place_of_id: dict[tuple[str, str], str] = {}
    place_of_text: dict[tuple[str, str, str], str] = {}
    split_of: dict[str, tuple[str, str]] = {}
    for where, row in read_rows(path):
        place = where.removeprefix(f"{path}:").strip()
        place = f"line {place}" if place.isdigit() else place
        item = _item(row, place=place, where=where)
        has_split = row.get("split") is not None
        named.setdefault(has_split, place)
        if len(named) > 1:
            raise DataError(
                f"{where}: {'a' if has_split else 'no'} field 'split', unlike {named[not has_split]}; give all rows "
                "one or none"
            )
        first = place_of_id.setdefault((item.split, item.item_id), place)
        if first != place:
            raise DataError(f"{where}: item_id {item.item_id!r} is already used in {first}; make ids unique")
        first = place_of_text.setdefault((item.instruction, item.response, item.rubric), place)
        if first != place:
            raise DataError(
                f"{where}: same instruction, response and rubric as {first}; keep one, with a list of both grades"
            )
        split, first = split_of.setdefault(normalised(item.instruction), (item.split, place))
        if split != item.split:
            raise DataError(
                f"{where}: this instruction is in split {item.split!r} and, in {first}, in split {split!r}; keep all "
                "texts of an instruction in one split"
            )
        items.append(item)
    if not items:
        raise DataError(f"{path}: expected graded texts, found no row; is this the right file?")
    _check_splits(items, path=path, named=True in named)
    return items


def _check_splits(items: list[RubricItem], *, path: Path, named: bool) -> None:
    count = {split: sum(item.split == split for item in items) for split in SPLITS}
    n_train = count[TRAIN]
    if 0 < n_train < len(items):
        return
    how = "" if named else "; the instructions are too few to split by a hash: give more, or a field 'split'"
    raise DataError(
        f"{path}: expected texts in {TRAIN} and in one of {', '.join(SPLITS[1:])}, found {n_train} in {TRAIN} and "
        f"{len(items) - n_train} elsewhere{how}"
    )


def _item(row: Mapping[str, Any], *, place: str, where: str) -> RubricItem:
    """An item of a row, whichever form it has."""
    if "orig_instruction" in row:
        instruction = text_field(row, "orig_instruction", where=where)
        response = text_field(row, "orig_response", where=where)
        rubric = _rubric_text(row, prefix="orig_", where=where)
        score = _grade_text(row, "orig_score", where=where)
        best = "orig_reference_answer"
    elif "score_rubric" in row:
        instruction = text_field(row, "input", where=where)
        if system := _optional_text(row, "system_prompt", where=where):
            instruction = f"{system}\n\n{instruction}"
        response = text_field(row, "response", where=where)
        rubric = _rubric_field(row, "score_rubric", where=where)
        score = _grades(row, "human_score", where=where)
        best = "reference_answer"
    else:
        instruction = text_field(row, "instruction", where=where)
        response = text_field(row, "response", where=where)
        rubric = _rubric_field(row, "rubric", where=where)
        score = _grades(row, "score", where=where)
        best = "reference_answer"
    return RubricItem(
        item_id=text_field(row, "item_id", where=where) if row.get("item_id") is not None else place,
        instruction=instruction,
        response=response,
        rubric=rubric,
        score=score,
        split=_split(row, instruction, where=where),
        reference_answer=_optional_text(row, best, where=where),
    )


def _optional_text(row: Mapping[str, Any], name: str, *, where: str) -> str:
    """A text that may be absent, null or blank, and is empty then."""
    value = row.get(name)
    return "" if value is None or (isinstance(value, str) and not value.strip()) else text_field(row, name, where=where)


def _rubric_field(row: Mapping[str, Any], name: str, *, where: str) -> str:
    value = row.get(name)
    if isinstance(value, Mapping):
        return _rubric_text(value, prefix="", where=f"{where}: {name}")
    return text_field(row, name, where=where)


def _rubric_text(fields: Mapping[str, Any], *, prefix: str, where: str) -> str:
    lines = [text_field(fields, f"{prefix}criteria", where=where)]
    lines += [
        f"{grade}: {text_field(fields, prefix + name, where=where)}"
        for grade, name in enumerate(_DESCRIPTIONS, start=LOWEST)
    ]
    return "\n".join(lines)


def _grade_text(row: Mapping[str, Any], name: str, *, where: str) -> float:
    """A grade of the Feedback Collection, which writes whole ones as text."""
    value = row.get(name)
    if isinstance(value, str) and _GRADE_TEXT.fullmatch(value.strip()):
        return float(value)
    return _grades(row, name, where=where)


def _grades(row: Mapping[str, Any], name: str, *, where: str) -> float:
    """A grade, or the mean of several raters' grades."""
    if name not in row:
        raise DataError(f"{where}: no field {name!r} (fields: {', '.join(row) or 'none'})")
    value = row[name]
    grades = value if isinstance(value, list) and value else [value]
    for grade in grades:
        if type(grade) not in (int, float) or not LOWEST <= grade <= HIGHEST:  # a NaN is in no range
            raise DataError(
                f"{where}: {name}: expected a number from {LOWEST} to {HIGHEST} or a list of such numbers, found "
                f"{shown(value)}"
            )
    return math.fsum(grades) / len(grades)


def _split(row: Mapping[str, Any], instruction: str, *, where: str) -> str:
    split = row.get("split")
    if split is None:
        digest = hashlib.sha256(normalised(instruction).encode()).digest()
        return "in_domain" if int.from_bytes(digest[:8], "big") % IN_DOMAIN_SHARE == 0 else TRAIN
    if split not in SPLITS:
        raise DataError(f"{where}: split: expected one of {', '.join(SPLITS)}, found {shown(split)}")
    return str(split)
