import json
import os
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from statistics import median

import numpy as np
import pytest
import yaml

from corpo_rl.errors import DataError, MissingExtraError, UsageError
from corpo_rl.pairs import publish
from corpo_rl.pairs.build import build_pairs
from corpo_rl.pairs.card import data_card
from corpo_rl.pairs.figures import pair_figures
from corpo_rl.pairs.files import SPLITS, read_pairs
from corpo_rl.pairs.publish import write_pair_set
from corpo_rl.pairs.rated import RatedAnswer, RatedProblem
from corpo_rl.pairs.rated_files import RatedInput
from corpo_rl.pairs.splits import PairSizes

MIXED = ("train", "in_domain", "other_domain")


def rated_problems(n, name, *, seed):
    rng = np.random.default_rng(seed)
    return tuple(
        RatedProblem(
            f"{name}/{number}",
            f"{name} {number}: " + " ".join(rng.choice(["hen", "egg", "tall", "river", "stone"], size=12)),
            tuple(
                RatedAnswer(
                    f"{place} " + "." * int(rng.integers(30)),
                    correct=bool(rng.random() < 0.4),
                    source=str(rng.choice(["small", "large|er"])),
                    answer_id=str(place),
                    status=str(rng.choice(["wrong", "timeout"])),
                )
                for place in range(12)
            ),
        )
        for number in range(n)
    )


@pytest.fixture(scope="module")
def built():
    return build_pairs(
        rated_problems(40, "code", seed=0),
        domain="code",
        sizes=PairSizes(train=200, in_domain=20, ood=13, other_domain=5000),
        rng=np.random.default_rng(0),
        other=rated_problems(12, "math", seed=1),
        other_domain="math",
        similarity=0.6,
    )


@pytest.fixture(scope="module")
def numbers(built):
    return pair_figures(
        built,
        read={
            "code": RatedInput((), {"without text": 3}, ("A note.",)),
            "math": RatedInput((), {}, ()),
        },
        inputs=[{"role": "labels", "file": "la`bels\n.jsonl", "sha256": "0" * 64}],
        settings={"seed": 0, "similarity": 0.6, "max_chars": None},
        command="corpo-rl pairs build labels.jsonl --out pairs",
        version="1.2.3",
    )


def test_figures_are_those_of_the_pairs_file_by_a_plain_count(built, numbers, tmp_path):
    write_pair_set(tmp_path / "set", built.items, numbers=numbers)
    rows = [json.loads(line) for line in (tmp_path / "set" / "pairs.jsonl").read_text().splitlines()]
    assert json.loads((tmp_path / "set" / "numbers.json").read_text()) == numbers
    for split in SPLITS:
        mine = [row for row in rows if row["split"] == split]
        found = numbers["splits"][split]
        pairs_of, uses, sources, statuses = Counter(), Counter(), Counter(), Counter()
        lengths = {0: [], 1: []}
        longer_right = tied = 0
        for row in mine:
            pairs_of[row["problem"]] += 1
            for side in "ab":
                uses[row["problem"], row[f"answer_{side}"]] += 1
                sources[row[f"source_{side}"], row[f"label_{side}"]] += 1
                lengths[row[f"label_{side}"]].append(len(row[f"answer_{side}"]))
                if not row[f"label_{side}"]:
                    statuses[row[f"status_{side}"]] += 1
            gap = len(row["answer_a"]) - len(row["answer_b"])
            tied += gap == 0
            longer_right += gap != 0 and (gap > 0) == (row["label_a"] == 1)
        labels = Counter((row["label_a"], row["label_b"]) for row in mine)
        assert found["n_pairs"] == len(mine) > 0
        assert found["n_problems"] == len(pairs_of)
        assert found["pairs_of_a_problem"]["most"] == max(pairs_of.values())
        assert found["pairs_of_a_problem"]["median"] == median(pairs_of.values())
        assert found["n_answers"] == len(uses)
        assert found["pairs_of_an_answer"]["most"] == max(uses.values())
        assert found["labels"] == {
            "a_right": labels[1, 0],
            "b_right": labels[0, 1],
            "both_right": labels[1, 1],
            "both_wrong": labels[0, 0],
        }
        assert found["sources"] == {
            source: {"right": sources[source, 1], "wrong": sources[source, 0]} for source in ("large|er", "small")
        }
        assert found["status_of_wrong"] == dict(statuses)
        for name, value in (("right", 1), ("wrong", 0)):
            spread = found["characters"][name]
            assert (spread["least"], spread["most"]) == (min(lengths[value]), max(lengths[value]))
            assert spread["median"] == median(lengths[value])
        if split in MIXED:
            score = found["shortcuts"][0]["score"]
            assert score == pytest.approx((longer_right + tied / 2) / len(mine), abs=1e-4)


def test_card_says_what_the_figures_say(numbers):
    card = data_card(numbers)
    _, front, body = card.split("---\n", 2)
    assert yaml.safe_load(front)["size_categories"] == ["n<1K"]
    for split in SPLITS:
        found = numbers["splits"][split]
        row = next(line for line in body.splitlines() if line.startswith(f"| `{split}` |"))
        assert f"| {found['n_pairs']:,} | {found['asked']:,} | {found['n_problems']:,} |" in row
    short = numbers["splits"]["other_domain"]
    assert short["n_pairs"] < 5000
    assert f"`other_domain` has {short['n_pairs']:,} of the 5,000 pairs asked for: the 12 problems for it give" in body
    assert "Answers left out: 3 without text" in body
    assert "A note." in body
    assert "$ corpo-rl pairs build labels.jsonl --out pairs" in body
    assert f"- labels: `la'bels .jsonl`, SHA-256 `{'0' * 64}`" in body, "names may hold anything"
    assert "`large\\|er`" in body
    assert "- seed 0, similarity 0.6, max chars none" in body
    for cluster in numbers["clusters"][:20]:
        assert ", ".join(f"`{problem['problem_id']}`" for problem in cluster["problems"]) in body


def test_card_of_many_clusters_and_of_an_unknown_figure(numbers):
    cluster = {"problems": [{"domain": "code", "problem_id": "1"}] * 2, "similarity": 0.7}
    splits = {**numbers["splits"], "ood": {**numbers["splits"]["ood"]}}
    splits["ood"]["shortcuts"] = [
        {"rule": "a rule", "score": None, "chance": None, "chance_low": None, "chance_high": None}
    ]
    card = data_card({**numbers, "splits": splits, "clusters": [cluster] * 25, "n_overlapping_problems": 2})
    assert "25 such clusters of two or more were found, and 2 problems of the other domain left out for one." in card
    assert "- and 5 more, in `numbers.json`" in card
    assert "| `ood` | a rule | n/a | n/a (n/a to n/a) |" in card


def test_the_folder_loads_with_datasets_in_both_ways(built, numbers, tmp_path, monkeypatch):
    import datasets

    folder = tmp_path / "deep" / "set"
    write_pair_set(folder, built.items, numbers=numbers)
    loaded = datasets.load_from_disk(str(folder / "dataset"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    by_card = datasets.load_dataset(str(folder), cache_dir=str(tmp_path / "cache"))
    for split in SPLITS:
        expected = [asdict(item) for item in built.split(split)]
        assert loaded[split].to_list() == by_card[split].to_list() == expected
    assert [item.item_id for item in read_pairs(folder / "pairs.jsonl")] == [item.item_id for item in built.items]
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "dataset", "numbers.json", "pairs.jsonl"]
    assert [path.name for path in folder.parent.iterdir()] == ["set"], "nothing is left beside it"


def test_a_split_without_pairs_is_left_out(built, numbers, tmp_path):
    import datasets

    items = [item for item in built.items if item.split != "ood"]
    write_pair_set(tmp_path / "set", items, numbers=numbers)
    loaded = datasets.load_from_disk(str(tmp_path / "set" / "dataset"))
    assert list(loaded) == ["train", "in_domain", "other_domain"]


def test_a_set_is_replaced_with_force_only(built, numbers, tmp_path):
    folder = tmp_path / "set"
    folder.mkdir()  # an empty folder is no set
    write_pair_set(folder, built.items, numbers=numbers)
    before = (folder / "pairs.jsonl").read_bytes()
    with pytest.raises(UsageError, match=r"set: this folder exists; name another or replace it with --force"):
        write_pair_set(folder, built.items[:10], numbers=numbers)
    assert (folder / "pairs.jsonl").read_bytes() == before
    write_pair_set(folder, built.items[:10], numbers=numbers, force=True)
    assert len((folder / "pairs.jsonl").read_text().splitlines()) == 10


def test_what_is_no_set_is_never_replaced(built, numbers, tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "thesis.tex").write_text("precious")
    with pytest.raises(UsageError, match=r"work: this folder holds more than a set of pairs \(thesis.tex\)"):
        write_pair_set(folder, built.items, numbers=numbers, force=True)
    with pytest.raises(UsageError, match=r"thesis.tex: expected a folder, found a file; name another"):
        write_pair_set(folder / "thesis.tex", built.items, numbers=numbers, force=True)
    assert (folder / "thesis.tex").read_text() == "precious"


@pytest.mark.parametrize("force", [False, True])
def test_whole_or_not_at_all(built, numbers, tmp_path, monkeypatch, force):
    folder = tmp_path / "set"
    if force:
        write_pair_set(folder, built.items, numbers=numbers)
        before = (folder / "README.md").read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(publish, "data_card", full)
    with pytest.raises(DataError, match=r"set: could not be written .No space left on device.; free space"):
        write_pair_set(folder, built.items, numbers=numbers, force=force)
    assert [path.name for path in tmp_path.iterdir()] == (["set"] if force else [])
    assert not force or (folder / "README.md").read_bytes() == before


def test_an_old_set_comes_back_when_the_new_one_cannot_take_its_place(built, numbers, tmp_path, monkeypatch):
    folder = tmp_path / "set"
    write_pair_set(folder, built.items, numbers=numbers)
    replace = Path.replace

    def refused(path, target):
        if path.name == "new":
            raise OSError(5, "Input/output error")
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", refused)
    with pytest.raises(DataError, match=r"could not be written .Input/output error"):
        write_pair_set(folder, built.items[:10], numbers=numbers, force=True)
    assert len((folder / "pairs.jsonl").read_text().splitlines()) == len(built.items)
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_to(built, numbers, tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(DataError, match="could not be written"):
        write_pair_set(tmp_path / "set", built.items, numbers=numbers)


def test_without_the_library(built, numbers, tmp_path, monkeypatch):
    monkeypatch.setattr(publish, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"writing a data set needs .* pip install 'corpo-rl\[pairs\]'"):
        write_pair_set(tmp_path / "set", built.items, numbers=numbers)
    assert "datasets" not in sys.modules or not (tmp_path / "set").exists()
