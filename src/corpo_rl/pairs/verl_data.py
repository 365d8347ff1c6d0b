"""Pairs as verl's data: a parquet file for each split, to go with the reward in `corpo_rl.training.verl_reward`."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from corpo_rl.errors import DataError, UsageError
from corpo_rl.pairs.files import SPLITS
from corpo_rl.records import VerifierItem
from corpo_rl.tasks.pairs import PairsTask


def verl_row(item: VerifierItem, *, index: int) -> dict[str, Any]:
    """One row as verl's `RLHFDataset` reads it. The labels are in `reward_model`, which no policy sees.

    Args:
        item: The pair.
        index: Its place in its file, from 0, which verl shows in traces.

    Example:
        >>> item = VerifierItem("7", "1+1", "2", "3", label_a=1, label_b=0, domain="sums", split="train")
        >>> row = verl_row(item, index=0)
        >>> row["data_source"], row["reward_model"]["ground_truth"], row["prompt"][0]["content"][:12]
        ('pairs/train', {'label_a': 1, 'label_b': 0}, 'Problem: 1+1')
    """
    return {
        "data_source": f"pairs/{item.split}",
        "prompt": [{"role": "user", "content": PairsTask([item]).prompt(item)}],
        "ability": item.domain,
        "reward_model": {"style": "rule", "ground_truth": {"label_a": item.label_a, "label_b": item.label_b}},
        "extra_info": {"index": index, "item_id": item.item_id, "split": item.split},
    }


def write_verl_data(items: Sequence[VerifierItem], folder: Path, *, force: bool = False) -> Mapping[str, Path]:
    """Write `<split>.parquet` for each split that has pairs, in their order. All files or none are put in place.

    Args:
        items: The pairs, of any splits.
        folder: Made when absent.
        force: Replace files that exist.

    Returns:
        The file of each split written.

    Raises:
        UsageError: A file exists and `force` is off.
        DataError: A file cannot be written; older files are then as they were.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    splits = [split for split in SPLITS if any(item.split == split for item in items)]
    files = {split: folder / f"{split}.parquet" for split in splits}
    for file in files.values():
        if file.exists() and not force:
            raise UsageError(f"{file}: this file exists; name another folder or replace it with --force")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".part-") as parts:
            for split, file in files.items():
                chosen = [item for item in items if item.split == split]
                rows = [verl_row(item, index=index) for index, item in enumerate(chosen)]
                pq.write_table(pa.Table.from_pylist(rows), Path(parts, file.name))
            for file in files.values():
                Path(parts, file.name).replace(file)
    except OSError as error:
        raise DataError(
            f"{folder}: could not be written ({error.strerror or error}); free space or name another folder"
        ) from error
    return files
