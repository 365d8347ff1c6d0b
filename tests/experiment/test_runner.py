import json
import shutil
import subprocess
from dataclasses import replace

import pytest

from corpo_rl.errors import DataError, UsageError
from corpo_rl.experiment.folder import locked, write_json
from corpo_rl.experiment.runner import RunError, prepare, run_all
from corpo_rl.experiment.settings import MINI
from corpo_rl.experiment.worker import is_finished

QUICK = replace(MINI, steps=2, prompts_per_step=2, micro_batch=16, samples_per_item=2, k=2, eval_items=4, curve_every=0)
PAIR = {
    "item_id": "1",
    "problem": "1+1",
    "answer_a": "2",
    "answer_b": "3",
    "label_a": 1,
    "label_b": 0,
    "domain": "sums",
    "split": "train",
}


def silent(*_args):
    pass


def write_pairs(path, *changes):
    rows = [{**PAIR, "item_id": str(number), **change} for number, change in enumerate(changes)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_the_same_experiment_is_found_again_and_another_is_refused(tmp_path):
    out = tmp_path / "out"
    assert prepare(out, QUICK) == prepare(out, QUICK)
    with pytest.raises(UsageError, match=r"holds another experiment \(steps is 2 there and 9 here\)"):
        prepare(out, replace(QUICK, steps=9))


def test_a_folder_with_something_else_in_it_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match="expected a new or empty folder"):
        prepare(tmp_path, QUICK)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_pairs_are_copied_and_told_by_content_not_by_path(tmp_path):
    judged = {"problem": "3+4", "split": "in_domain"}
    settings = replace(QUICK, task="pairs", pairs=write_pairs(tmp_path / "a.jsonl", {}, judged))
    prepare(tmp_path / "out", settings)
    shutil.move(tmp_path / "a.jsonl", tmp_path / "b.jsonl")
    prepare(tmp_path / "out", replace(settings, pairs=str(tmp_path / "b.jsonl")))
    other = write_pairs(tmp_path / "c.jsonl", {"problem": "2+2"}, judged)
    with pytest.raises(UsageError, match="another experiment"):
        prepare(tmp_path / "out", replace(settings, pairs=other))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not json\n", r"^(?!.*/out/).*pairs.jsonl:1: .*JSON"),
        (json.dumps({**PAIR, "label_a": 2}) + "\n", r"pairs.jsonl:1: .*label"),
        ("", "pairs.jsonl"),
    ],
)
def test_a_broken_pairs_file_is_told_before_anything_starts(tmp_path, text, message):
    (tmp_path / "pairs.jsonl").write_text(text)
    settings = replace(QUICK, task="pairs", pairs=str(tmp_path / "pairs.jsonl"))
    with pytest.raises(DataError, match=message):
        prepare(tmp_path / "out", settings)
    assert not (tmp_path / "out").exists()


def test_missing_pairs_are_told(tmp_path):
    with pytest.raises(UsageError, match="--pairs"):
        prepare(tmp_path / "out", replace(QUICK, task="pairs"))
    with pytest.raises(DataError, match="No such file"):
        prepare(tmp_path / "out", replace(QUICK, task="pairs", pairs=str(tmp_path / "none.jsonl")))


def test_two_comparisons_do_not_share_a_folder(tmp_path):
    prepare(tmp_path / "out", QUICK)
    with locked(tmp_path / "out"), pytest.raises(UsageError, match="another process"):
        run_all(tmp_path / "out", QUICK, methods=["corpo"], seeds=[0], jobs=1, progress=silent)


def test_a_job_that_fails_is_one_line_and_finished_work_stays(tmp_path):
    pytest.importorskip("trl", reason="trains: needs corpo-rl[train]")
    settings = replace(QUICK, policy=str(tmp_path / "no-model"))
    (tmp_path / "no-model").mkdir()
    out = tmp_path / "out"
    prepare(out, settings)
    write_json(out / "runs" / "grpo-s0" / "finished.json", {})
    with pytest.raises(RunError, match=r"^base: .*no config.json") as caught:
        run_all(out, settings, methods=["grpo"], seeds=[0], jobs=1, progress=silent)
    assert "\n" not in str(caught.value)
    assert is_finished(out / "runs" / "grpo-s0")


def test_a_full_disk_is_one_line_and_the_run_goes_on_once_there_is_space(tmp_path):
    pytest.importorskip("trl", reason="trains: needs corpo-rl[train]")
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)], capture_output=True)
    if mounted.returncode:
        pytest.skip("needs the right to mount a small file system: " + mounted.stderr.decode().strip())
    try:
        out = disk / "out"
        prepare(out, QUICK)
        with pytest.raises(RunError, match="no space left on the disk"):
            run_all(out, QUICK, methods=["corpo"], seeds=[0], jobs=1, progress=silent)
        assert is_finished(out / "base")
        subprocess.run(["mount", "-o", "remount,size=300m", str(disk)], check=True)
        run_all(out, QUICK, methods=["corpo"], seeds=[0], jobs=1, progress=silent)
        assert is_finished(out / "runs" / "corpo-s0")
    finally:
        subprocess.run(["umount", str(disk)], check=True)
