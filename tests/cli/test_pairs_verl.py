import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from corpo_rl.pairs.files import write_pairs
from corpo_rl.records import VerifierItem


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "corpo_rl", "pairs", "to-verl", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def pairs(tmp_path):
    path = tmp_path / "pairs.jsonl"
    write_pairs(
        path,
        [
            VerifierItem("a", "Two and two?", "4", "5", 1, 0, domain="sums", split="train"),
            VerifierItem("b", "Three and three?", "7", "8", 0, 0, domain="sums", split="ood"),
        ],
    )
    return path


def test_writes_the_splits_and_prints_the_settings(pairs, tmp_path):
    out = tmp_path / "data"
    result = run(pairs.parent, "--out", out)  # the folder stands for the pairs.jsonl in it
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        f"      1 pairs   {out}/train.parquet",
        f"      1 pairs   {out}/ood.parquet",
        "Settings for python -m verl.trainer.main_ppo:",
        f"  data.train_files={out}/train.parquet",
        f"  data.val_files=[{out}/ood.parquet]",
        "  data.filter_overlong_prompts=True",
        "  reward.custom_reward_function.path=pkg://corpo_rl.training.verl_reward",
        "  algorithm.adv_estimator=corpo +algorithm.corpo_min_correct=0.2",
    ]
    assert pq.read_table(out / "train.parquet").num_rows == 1


def test_errors_are_one_line(pairs, tmp_path):
    assert run(pairs, "--out", tmp_path).returncode == 0
    again = run(pairs, "--out", tmp_path)
    assert again.returncode == 2
    assert again.stderr.startswith(f"error: {tmp_path}/train.parquet: this file exists")
    assert run(pairs, "--out", tmp_path, "--force").returncode == 0

    pairs.write_text('{"problem": "x"}\n')
    broken = run(pairs, "--out", tmp_path / "other")
    assert (broken.returncode, broken.stdout) == (1, "")
    assert "pairs.jsonl:1: no field 'answer_a'" in broken.stderr


def test_help_fits_80_columns():
    shown = run("--help").stdout
    assert max(map(len, shown.splitlines())) <= 80
    assert "corpo-rl pairs to-verl pairs.jsonl" in shown
