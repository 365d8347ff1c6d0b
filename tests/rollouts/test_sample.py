"""The first look at a file: its columns, what stands in them, and which hold numbers."""

import json

import pytest

from corpo_rl.rollouts.sample import N_ROWS, merged, sample_file
from tests.rollouts.logs import the_file, write, write_parquet


def sampled(path):
    return sample_file(the_file(path)[0])


def test_columns_with_a_first_value(tmp_path):
    rows = [{"a": None, "b": 1}, {"a": [2], "c": "x"}, {"b": "text", "c": 0.5, "d": True}]
    found = sampled(write(tmp_path / "a.jsonl", rows))
    assert dict(found.columns) == {"a": [2], "b": 1, "c": "x", "d": True}
    assert found.numeric == {"d"}, "half of the values are not most of them"
    assert (found.kind, found.asked_for) == ("json", True)


def test_a_column_that_comes_late_is_seen_within_the_first_rows(tmp_path):
    rows = [{"a": 1}] * (N_ROWS - 1) + [{"late": 1}] + [{"too_late": 1}]
    assert set(sampled(write(tmp_path / "a.jsonl", rows)).columns) == {"a", "late"}


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.csv", 'a,b\n0.5,x\n,"y\nz"\n'), ("a.json", json.dumps([{"a": 0.5, "b": "x"}])), ("a.parquet", None)],
)
def test_every_kind_of_file(tmp_path, name, content):
    rows = [{"a": 0.5, "b": "x"}]
    path = write_parquet(tmp_path / name, rows) if content is None else write(tmp_path / name, content)
    found = sampled(path)
    assert dict(found.columns) == {"a": 0.5, "b": "x"}
    assert found.numeric == {"a"}


@pytest.mark.parametrize(("name", "content"), [("a.csv", "a,b\n"), ("a.csv", ""), ("a.jsonl", "\n\n"), ("a.jsonl", "")])
def test_no_rows(tmp_path, name, content):
    assert sampled(write(tmp_path / name, content)) is None


def test_broken_lines_are_looked_past(tmp_path):
    found = sampled(write(tmp_path / "a.jsonl", 'broken\n[1]\n{"a": NaN}\n'))
    assert list(found.columns) == ["a"]
    assert sampled(write(tmp_path / "b.jsonl", "broken\n")).columns == {}


def test_merged_samples_have_every_column(tmp_path):
    one = sampled(write(tmp_path / "a.jsonl", [{"a": None, "b": 1}]))
    other = sampled(write(tmp_path / "b.jsonl", [{"a": 2, "c": 3}]))
    both = merged([one, other])
    assert dict(both.columns) == {"a": 2, "b": 1, "c": 3}
    assert both.numeric == {"a", "b", "c"}
    assert both.name == one.name
