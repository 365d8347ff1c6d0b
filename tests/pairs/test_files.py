import json
import os

import pytest

from corpo_rl.errors import DataError, UsageError
from corpo_rl.pairs.files import normalised, read_pairs, write_pairs
from corpo_rl.records import VerifierItem

ROW = {
    "problem": "Two and two?",
    "answer_a": "It is 4",
    "answer_b": "It is 5",
    "label_a": 1,
    "label_b": 0,
    "domain": "sums",
    "split": "train",
}


def row(**changes):
    return {**ROW, **changes}


def write_rows(path, *rows):
    path.write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")
    return path


def test_reads_what_it_wrote(tmp_path):
    items = [
        VerifierItem("1", "Wie viel?\nÉtienne 数", "4 €", "a\u2028b", 1, 0, domain="gsm8k", split="train"),
        VerifierItem("1", "Other", "yes", "no", 1, 1, domain="gsm8k", split="ood"),
    ]
    path = tmp_path / "new" / "folder" / "pairs.jsonl"
    write_pairs(path, items)
    assert read_pairs(path) == items
    assert [file.name for file in path.parent.iterdir()] == ["pairs.jsonl"], "no temporary file may stay"


def test_item_id_defaults_to_the_line_and_further_fields_are_left_alone(tmp_path):
    path = write_rows(tmp_path / "pairs.jsonl", row(source_a="x"), row(problem="Three?", item_id="three"))
    assert [item.item_id for item in read_pairs(path)] == ["1", "three"]


def test_byte_order_mark_and_blank_lines_are_skipped(tmp_path):
    path = tmp_path / "pairs.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(ROW).encode() + b"\r\n\r\n  \n")
    assert [item.answer_a for item in read_pairs(path)] == ["It is 4"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "pairs.jsonl: expected one pair a line, found no row"),
        (b"\n \n", "pairs.jsonl: expected one pair a line, found no row"),
        (b'{"problem": "Two', r"pairs.jsonl:1: expected a JSON object, found broken JSON \(Unterminated string"),
        (b'\n{"problem": 1,}', r"pairs.jsonl:2: expected a JSON object, found broken JSON"),
        (b"[1, 2]", r"pairs.jsonl:1: expected a JSON object, found \[1, 2\]"),
        (b"[" * 100_000, r"pairs.jsonl:1: expected a JSON object, found one nested too deep"),
        (b'{"problem": ' + b"9" * 5000 + b"}", "pairs.jsonl:1: expected a JSON object, .* too long a number"),
        (b'{"problem": "caf\xe9"}', "pairs.jsonl:1: expected UTF-8 text, found byte 0xe9; save it as UTF-8"),
        ("{}".encode("utf-16"), "pairs.jsonl:1: expected UTF-8 text, found byte 0xff"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n",
            "pairs.jsonl:1: a Git LFS pointer, not the data itself; run: git lfs pull",
        ),
    ],
)
def test_broken_files(tmp_path, content, message):
    path = tmp_path / "pairs.jsonl"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_pairs(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"label_a": 2}, "pairs.jsonl:2: label_a: expected 0 or 1, found 2"),
        ({"label_a": True}, "pairs.jsonl:2: label_a: expected 0 or 1, found true"),
        ({"label_b": 0.0}, r"pairs.jsonl:2: label_b: expected 0 or 1, found 0\.0"),
        ({"label_b": None}, "pairs.jsonl:2: label_b: expected 0 or 1, found null"),
        ({"label_b": float("nan")}, "pairs.jsonl:2: label_b: expected 0 or 1, found NaN"),
        ({"label_b": "x" * 99}, r'pairs.jsonl:2: label_b: expected 0 or 1, found "x{36}\.\.\.$'),
        ({"split": "test"}, 'split: expected one of train, in_domain, ood, other_domain, found "test"'),
        ({"answer_b": ""}, 'pairs.jsonl:2: answer_b: expected text, found ""'),
        ({"answer_b": " \n"}, r'pairs.jsonl:2: answer_b: expected text, found " \\n"'),
        ({"problem": 7}, "pairs.jsonl:2: problem: expected text, found 7"),
        ({"domain": None}, "pairs.jsonl:2: domain: expected text, found null"),
        ({"item_id": 3}, "pairs.jsonl:2: item_id: expected text, found 3"),
        ({"problem": "\ud800"}, "pairs.jsonl:2: problem: expected text, found half a surrogate pair"),
        ({"label_b": 1}, "split 'train' takes pairs with one right and one wrong, found labels 1 and 1"),
        ({"split": "ood"}, "split 'ood' takes pairs with both right or both wrong, found labels 1 and 0"),
        ({"answer_b": " It is 4"}, "the two answers are the same text but one is labelled right"),
        ({"problem": "One?"}, "pairs.jsonl:2: same problem and answers as line 1"),
        (
            {"problem": "ONE", "answer_a": "1", "split": "in_domain"},
            "pairs.jsonl:2: this problem is in split 'in_domain' and, in line 1, in split 'train'; keep all pairs",
        ),
        ({"item_id": "1"}, "pairs.jsonl:2: item_id '1' is already used in line 1; make ids unique"),
    ],
)
def test_broken_rows(tmp_path, changes, message):
    path = write_rows(tmp_path / "pairs.jsonl", row(problem="One?"), row(**changes))
    with pytest.raises(DataError, match=message) as raised:
        read_pairs(path)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", list(ROW))
def test_missing_field_names_the_fields_seen(tmp_path, name):
    one = row()
    del one[name]
    path = write_rows(tmp_path / "pairs.jsonl", one)
    with pytest.raises(DataError, match=rf"pairs.jsonl:1: no field '{name}' \(fields: {', '.join(one)}\)"):
        read_pairs(path)


def test_file_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match=r"absent.jsonl: could not be read \(No such file or directory\)"):
        read_pairs(tmp_path / "absent.jsonl")


def test_does_not_overwrite_unless_forced(tmp_path):
    path = write_rows(tmp_path / "pairs.jsonl", ROW)
    before = path.read_bytes()
    item = VerifierItem("1", "p", "a", "b", 1, 0, domain="d", split="train")
    with pytest.raises(UsageError, match=r"pairs.jsonl: this file exists; name another or replace it with --force"):
        write_pairs(path, [item])
    assert path.read_bytes() == before
    write_pairs(path, [item], force=True)
    assert read_pairs(path) == [item]


def test_full_disk_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = write_rows(tmp_path / "pairs.jsonl", ROW)
    before = path.read_bytes()

    def no_space(descriptor):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(DataError, match=r"pairs.jsonl: could not be written \(No space left on device\); free space"):
        write_pairs(path, [VerifierItem("1", "p", "a", "b", 1, 0, domain="d", split="train")], force=True)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["pairs.jsonl"]


def test_folder_that_is_a_file(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(DataError, match=r"could not be written \((File exists|Not a directory)\)"):
        write_pairs(tmp_path / "taken" / "pairs.jsonl", [])


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("How many?", "  how MANY ", True),
        ("\uff13 eggs", "3 eggs", True),  # a full-width 3
        ("e\u0301t\u00e9", "\u00e9te\u0301", True),  # accents composed or not
        ("3 eggs", "4 eggs", False),
        ("?", "!", False),  # no word at all: the text itself
    ],
)
def test_normalised(one, other, same):
    assert (normalised(one) == normalised(other)) is same
