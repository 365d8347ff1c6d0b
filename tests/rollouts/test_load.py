"""Columns of all files as one table, and taking rows out of it."""

import numpy as np
import pytest

from corpo_rl.errors import UsageError
from corpo_rl.rollouts.files import find_files
from corpo_rl.rollouts.load import load
from corpo_rl.rollouts.options import ReadOptions
from corpo_rl.rollouts.plan import Plan
from tests.rollouts.logs import write

PLAN = Plan(rewards=("r",), group=("g",), step="s")


def loaded(folder, *files, plan=PLAN):
    for number, rows in enumerate(files):
        write(folder / f"{number}.jsonl", rows)
    return load(find_files([folder]), plan, ReadOptions())


def test_rows_keep_their_file_and_line(tmp_path):
    table = loaded(tmp_path, [{"r": 1, "g": "a"}, {"r": 2, "g": "b"}], "", [{"r": 3, "g": "b", "s": 5}])
    assert table.file_N.tolist() == [0, 0, 2]
    assert table.row_N.tolist() == [1, 2, 1]
    assert table.numbers["r"].values_N.tolist() == [1, 2, 3]
    assert table.keys["g"].codes_N.tolist() == [0, 1, 1]
    assert table.where(2) == f"{tmp_path}/2.jsonl:1"
    assert table.part_N is None


def test_dropping_rows_takes_them_out_of_every_column(tmp_path):
    table = loaded(tmp_path, [{"r": n, "g": n % 2, "s": n} for n in range(5)])
    table.drop(np.array([False, True, False, False, True]), "unwanted")
    table.drop(np.zeros(3, dtype=bool), "nothing")
    assert len(table) == 3
    assert table.numbers["r"].values_N.tolist() == table.numbers["s"].values_N.tolist() == [0, 2, 3]
    assert table.keys["g"].codes_N.tolist() == [0, 0, 1]
    assert table.row_N.tolist() == [1, 3, 4]
    assert table.findings.dropped == {"unwanted": 2}


def test_parts_are_dropped_too(tmp_path):
    plan = Plan(rewards=("r",), explode=lambda record: [{"r": one} for one in record["all"]], fields=("all",))
    table = loaded(tmp_path, [{"all": [1, 2]}, {"all": [3]}], plan=plan)
    assert table.part_N.tolist() == [0, 1, 0]
    table.drop(np.array([True, False, False]), "unwanted")
    assert table.part_N.tolist() == [1, 0]


def test_a_step_out_of_the_name_of_the_file(tmp_path):
    plan = Plan(rewards=("r",), step="s", step_of_path=lambda path: int(path.stem) or None)
    table = loaded(tmp_path, [{"r": 1, "s": 99}], [{"r": 2}], plan=plan)
    np.testing.assert_array_equal(table.numbers["s"].values_N, [np.nan, 1])


def test_nothing_to_load(tmp_path):
    with pytest.raises(UsageError, match=r"0\.jsonl: the log holds no row; nothing to audit"):
        loaded(tmp_path, "")
