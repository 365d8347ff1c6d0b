import pyarrow.parquet as pq
import pytest

from corpo_rl.errors import DataError, UsageError
from corpo_rl.pairs.verl_data import verl_row, write_verl_data
from corpo_rl.records import VerifierItem
from corpo_rl.tasks.pairs import PairsTask

ITEMS = [
    VerifierItem("a", "Two and two? 数", "It is 4", "It is 5", 1, 0, domain="sums", split="train"),
    VerifierItem("b", "Three and three?", "7", "8", 0, 0, domain="sums", split="ood"),
    VerifierItem("c", "Five and five?", "9", "10", 0, 1, domain="sums", split="train"),
]


def test_columns_and_order(tmp_path):
    files = write_verl_data(ITEMS, tmp_path / "new" / "folder")
    assert list(files) == ["train", "ood"], "a split without pairs gets no file"
    assert sorted(path.name for path in (tmp_path / "new" / "folder").iterdir()) == ["ood.parquet", "train.parquet"]
    first, second = pq.read_table(files["train"]).to_pylist()
    assert first == {
        "data_source": "pairs/train",
        "prompt": [{"role": "user", "content": PairsTask(ITEMS).prompt(ITEMS[0])}],
        "ability": "sums",
        "reward_model": {"style": "rule", "ground_truth": {"label_a": 1, "label_b": 0}},
        "extra_info": {"index": 0, "item_id": "a", "split": "train"},
    }
    assert (second["extra_info"]["index"], second["extra_info"]["item_id"]) == (1, "c")


@pytest.mark.parametrize(("label_a", "label_b"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_the_prompt_does_not_depend_on_the_labels(label_a, label_b):
    item = VerifierItem("a", "Two?", "x", "y", label_a, label_b, domain="sums", split="train")
    unlabelled = VerifierItem("a", "Two?", "x", "y", 0, 0, domain="sums", split="train")
    row = verl_row(item, index=0)
    assert row["prompt"] == verl_row(unlabelled, index=0)["prompt"]
    assert row["reward_model"]["ground_truth"] == {"label_a": label_a, "label_b": label_b}


def test_nothing_is_overwritten_unasked(tmp_path):
    (tmp_path / "ood.parquet").write_text("mine")
    with pytest.raises(UsageError, match=r"ood\.parquet: this file exists; name another folder or replace it with"):
        write_verl_data(ITEMS, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["ood.parquet"], "all or nothing"
    write_verl_data(ITEMS, tmp_path, force=True)
    assert pq.read_table(tmp_path / "ood.parquet").num_rows == 1


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="file/data: could not be written"):
        write_verl_data(ITEMS, tmp_path / "file" / "data")
