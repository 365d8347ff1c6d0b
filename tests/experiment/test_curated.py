"""Training on the prompts of a list: which are kept, and what of the list is refused."""

import json
from dataclasses import replace

import pandas as pd
import pytest

from corpo_rl.errors import DataError, UsageError
from corpo_rl.experiment.curated import keep_curated
from corpo_rl.experiment.runner import prepare, run_all
from corpo_rl.experiment.settings import MINI
from corpo_rl.tasks.mini import MiniTask

TASK = MiniTask()
ITEMS = list(TASK.items("train"))[:6]
QUICK = replace(MINI, steps=2, prompts_per_step=2, micro_batch=16, samples_per_item=2, k=2, eval_items=4, curve_every=0)


def listed(path, kept, *, chat=False):
    """A list that names the first items of the mini task, each kept or not."""
    with path.open("w") as file:
        for item, verdict in zip(TASK.items("train"), kept, strict=False):
            prompt = TASK.prompt(item)
            prompt = [{"role": "user", "content": prompt}] if chat else prompt
            file.write(json.dumps({"prompt": prompt, "kept": verdict, "success_rate": 0.5}) + "\n")
    return path


@pytest.mark.parametrize("chat", [False, True])
def test_dropped_are_dropped_and_unknown_are_kept_in_order(tmp_path, chat):
    path = listed(tmp_path / "list.jsonl", [True, False, True, False], chat=chat)
    found = keep_curated(TASK, ITEMS, path)
    assert found.items == [ITEMS[0], ITEMS[2], ITEMS[4], ITEMS[5]]
    assert (found.n_dropped, found.n_unknown) == (2, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"prompt": "1+1?2|3:"}\n', r"list\.jsonl:1: expected 'prompt' \(text or messages\) and 'kept'"),
        ('{"prompt": 7, "kept": true}\n', r"list\.jsonl:1: expected 'prompt'"),
        ('{"prompt": "none of ours", "kept": true}\n', "names no training prompt of the task mini"),
        ("{", r"list\.jsonl:1"),
    ],
)
def test_what_is_no_list_is_told(tmp_path, text, message):
    path = tmp_path / "list.jsonl"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        keep_curated(TASK, ITEMS, path)


def test_a_list_that_leaves_nothing_is_told(tmp_path):
    path = listed(tmp_path / "list.jsonl", [False] * 6)
    with pytest.raises(DataError, match="leaves no training item of the task mini; widen the band"):
        keep_curated(TASK, ITEMS, path)


def test_a_comparison_trains_on_the_list_alone_and_knows_it_again(tmp_path):
    n_items = len(TASK.items("train"))
    path = listed(tmp_path / "list.jsonl", [place in (5, 6, 7) for place in range(n_items)])
    settings = replace(QUICK, curated=str(path))
    out = tmp_path / "out"
    run_all(out, prepare(out, settings), methods=["corpo"], seeds=[0], jobs=1, progress=lambda *_: None)
    logs = sorted((out / "runs" / "corpo-s0" / "completions").glob("*.parquet"))
    seen = set(pd.concat([pd.read_parquet(log) for log in logs])["prompt"])
    assert seen <= {TASK.prompt(TASK.items("train")[place]) for place in (5, 6, 7)}
    assert len(seen) >= 2

    assert prepare(out, settings).curated.startswith("sha256:")
    listed(path, [True] * n_items)
    with pytest.raises(UsageError, match=r"holds another experiment .*curated is 'sha256:"):
        prepare(out, settings)
    with pytest.raises(DataError, match="expected a readable list of prompts, found No such file"):
        prepare(tmp_path / "other", replace(QUICK, curated=str(tmp_path / "absent")))
