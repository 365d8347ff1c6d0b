"""A set of verifier pairs as people publish it: pairs.jsonl, a `datasets` folder, the figures, and a data card."""

import dataclasses
import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from corpo_rl.errors import DataError, MissingExtraError, UsageError
from corpo_rl.pairs.built import SourcedItem
from corpo_rl.pairs.card import data_card
from corpo_rl.pairs.files import SPLITS, write_pairs

PAIRS_FILE, NUMBERS_FILE, CARD_FILE, DATASET_FOLDER = "pairs.jsonl", "numbers.json", "README.md", "dataset"
_OURS = {PAIRS_FILE, NUMBERS_FILE, CARD_FILE, DATASET_FOLDER}


def check_folder(folder: Path, *, force: bool) -> None:
    """Refuse a folder that a set may not be written to: call it before the work.

    Raises:
        UsageError: It exists and holds something; with `force`, something that is no such set.
        MissingExtraError: The library `datasets` is not installed.
    """
    if find_spec("datasets") is None:
        raise MissingExtraError("writing a data set", "pairs")
    if folder.is_dir():
        found = {path.name for path in folder.iterdir()}
        if not found:
            return
        if not force:
            raise UsageError(f"{folder}: this folder exists; name another or replace it with --force")
        if not found <= _OURS:
            stranger = sorted(found - _OURS)[0]
            raise UsageError(f"{folder}: this folder holds more than a set of pairs ({stranger}); name another")
    elif folder.exists():
        raise UsageError(f"{folder}: expected a folder, found a file; name another")


def write_pair_set(
    folder: Path, items: Sequence[SourcedItem], *, numbers: Mapping[str, Any], force: bool = False
) -> None:
    """Write pairs.jsonl, dataset/ (for `datasets.load_from_disk`), numbers.json and README.md.

    Whole or not at all: a folder beside it is renamed when complete.

    Args:
        folder: Where to; the folders above it are made.
        items: The pairs of all splits.
        numbers: Figures for the card, as `pair_figures` gives them.
        force: Replace a set that is there.

    Raises:
        UsageError: As `check_folder`.
        DataError: It cannot be written; an older set is then as it was.
        MissingExtraError: The library `datasets` is not installed.
    """
    folder = folder.resolve()
    check_folder(folder, force=force)
    work: Path | None = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
        new, old = work / "new", work / "old"
        write_pairs(new / PAIRS_FILE, items)
        _write_dataset(new / DATASET_FOLDER, items)
        (new / NUMBERS_FILE).write_text(json.dumps(numbers, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        (new / CARD_FILE).write_text(data_card(numbers), encoding="utf-8")
        if folder.exists():
            folder.replace(old)
        try:
            new.replace(folder)
        except OSError:
            if old.exists():
                old.replace(folder)
            raise
    except OSError as error:
        raise DataError(
            f"{folder}: could not be written ({error.strerror or error}); free space or name another"
        ) from error
    finally:
        if work is not None:
            shutil.rmtree(work, ignore_errors=True)


def _write_dataset(folder: Path, items: Sequence[SourcedItem]) -> None:
    import datasets

    whole_numbers = ("label_a", "label_b")
    features = datasets.Features(
        {
            field.name: datasets.Value("int64" if field.name in whole_numbers else "string")
            for field in dataclasses.fields(SourcedItem)
        }
    )
    # a split without pairs is left out: `datasets` 5.2 saves it, but cannot load it
    rows = {split: [dataclasses.asdict(item) for item in items if item.split == split] for split in SPLITS}
    shown = datasets.utils.logging.is_progress_bar_enabled()
    datasets.utils.logging.disable_progress_bar()
    try:
        datasets.DatasetDict(
            {split: datasets.Dataset.from_list(found, features=features) for split, found in rows.items() if found}
        ).save_to_disk(str(folder))
    finally:
        if shown:
            datasets.utils.logging.enable_progress_bar()
