"""Comparisons on tasks other than the verifier's, from the command to the report, with a policy made for them.

The policy is an untrained model of the mini architecture whose tokens are all single characters and, beside these,
whole answers. It draws each about as often as any other, so that of completions of one token the expected rewards are
known, and no two tokens of an answer have to fit together.
"""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest

from corpo_rl.core.methods import method_advantages
from corpo_rl.experiment.results import collect
from corpo_rl.experiment.runner import prepare
from corpo_rl.experiment.settings import MINI
from corpo_rl.experiment.worker import main
from corpo_rl.report.schema import check_results
from corpo_rl.report.text import compare_text

pytestmark = [
    pytest.mark.skipif(find_spec("trl") is None, reason="trains: needs corpo-rl[train]"),
    # transformers 5.24 renames its own setting, which TRL still sets
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*is deprecated:FutureWarning"),
]

RIGHT, WRONG, BROKEN, UNKNOWN = "return 2 * x", "return 4", "return (", "return iter([x])"
PROGRAMS = {RIGHT: 1.0, WRONG: 1 / 3, BROKEN: 0.0, UNKNOWN: None}
"""What a program that ends so is worth: double(2) is 4 under either of the first two, two more tests are hidden."""
SCORES = [f"Score: {score}" for score in range(1, 6)]
ANSWERS = ["<answer>1</answer>", "<answer>2</answer>", "<answer>a, b</answer>"]
CHARACTERS = sorted({*map(chr, range(32, 127)), *"\n\t█"})


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    """Folder of the policy: beside the characters 120 programs and as many answers of other kinds."""
    import torch
    from tokenizers import Regex, Tokenizer
    from tokenizers.decoders import Fuse
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Split
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    programs = [f"def double(x): {end}" + " " * spaces for end in PROGRAMS for spaces in range(30)]
    answers = [text + " " * spaces for text in SCORES for spaces in range(12)]
    answers += [text + " " * spaces for text in ANSWERS for spaces in range(20)]
    special = {"pad_token": "<pad>", "eos_token": "<eos>", "unk_token": "<unk>"}
    words = [*special.values(), *CHARACTERS, *programs, *answers]
    tokenizer = Tokenizer(WordLevel({word: place for place, word in enumerate(words)}, unk_token=words[2]))
    tokenizer.pre_tokenizer = Split(Regex(r"[\s\S]"), behavior="isolated")
    tokenizer.decoder = Fuse()
    folder = tmp_path_factory.mktemp("policy")
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        **special,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    ).save_pretrained(folder)
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(words),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=4096,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=1,
    )
    Qwen3ForCausalLM(config).save_pretrained(folder)
    return folder


def problem_rows(number):
    tests = {
        "entry_point": "double",
        "source": "assert double(2) == 4\nassert double(5) == 10\nassert double(-3) == -6",
    }
    split = "train" if number < 6 else "in_domain"
    return {"problem_id": str(number), "text": f"Write double(x). Try {number}.", "tests": tests, "split": split}


def rubric_rows(number):
    split = "train" if number < 6 else "ood"
    return {"instruction": f"Say {number}.", "response": "No.", "rubric": "Said?", "score": 1, "split": split}


def written(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


QUICK = {
    "steps": 2,
    "group_size": 8,
    "prompts_per_step": 4,
    "micro_batch": 32,
    "samples_per_item": 8,
    "k": 2,
    "max_new_tokens": 1,
    "max_prompt_tokens": 2000,
    "curve_every": 2,
    "eval_items": 2,
    "learning_rate": 1e-5,
}


def options(**settings):
    names = {"samples_per_item": "samples"}
    return [f"--{names.get(name, name).replace('_', '-')}={value}" for name, value in {**QUICK, **settings}.items()]


def completions(run):
    return pd.concat([pd.read_parquet(path) for path in sorted((run / "completions").glob("*.parquet"))])


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_code_from_the_command_to_the_report(policy, tmp_path):
    data = written(tmp_path / "problems.jsonl", [problem_rows(number) for number in range(8)])
    out = tmp_path / "out"
    arguments = ["--task=code", "--data", str(data), "--policy", str(policy), "--methods=grpo,corpo", *options()]
    ran = subprocess.run(
        [sys.executable, "-m", "corpo_rl", "compare", "--out", str(out), *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=250,
    )
    assert ran.returncode == 0, ran.stderr
    assert "in domain: held out of training, the kind trained on, 2 items" in ran.stdout
    assert max(map(len, ran.stdout.splitlines()[:-2])) <= 80

    results = json.loads((out / "results.json").read_text())
    check_results(results)
    settings = results["settings"]
    assert (settings["task"], settings["min_correct"], settings["pairs"]) == ("code", 1.0, None)
    assert settings["data"].startswith("sha256:")
    assert settings["data"] in (out / "report.html").read_text()

    for method in ("grpo", "corpo"):
        log = completions(out / "runs" / f"{method}-s0")
        expected = [reward_of(text) for text in log["completion"]]
        np.testing.assert_allclose(log["corpo_reward"], np.array(expected, dtype=float), atol=1e-7)
        assert {0.0, 1.0, None} <= set(expected), "programs of each kind were drawn"
        rewards = np.array(expected, dtype=float)
        advantages = method_advantages(
            method, rewards, log["corpo_group"].tolist(), min_correct=1.0, unscorable="exclude"
        )
        np.testing.assert_allclose(log["advantage"], advantages, atol=1e-5)
        assert (log["advantage"][np.isnan(rewards)] == 0).all(), "nothing is learnt from what was not judged"
        assert (log["parse_failure"][np.isnan(rewards)] == "not_judged").all()

    base = json.loads((out / "base" / "evaluation" / "in_domain.json").read_text())
    assert sum(base["n_samples"]) + sum(base["unscorable"].values()) == 2 * 8
    assert 0 <= sum(base["reward_sum"]) < 16
    n_unknown = sum(np.isnan(completions(out / "runs" / "corpo-s0")["corpo_reward"]))
    (warnings,) = [run["warnings"] for run in results["runs"] if run["method"] == "corpo"]
    assert f"{n_unknown} training completions could not be judged, and nothing was learnt from them" in warnings


def reward_of(completion):
    text = completion if isinstance(completion, str) else completion[-1]["content"]
    if not text.strip():
        return -0.1
    known = [reward for end, reward in PROGRAMS.items() if text.strip() == f"def double(x): {end}"]
    return known[0] if known else 0.0


def trained(out, **settings):
    """Base and one run of `corpo`, in this process; the results."""
    prepare(out, replace(MINI, **{**QUICK, **settings}))
    for job in ("base", "corpo-s0"):
        assert main([str(out), job]) == 0, (
            out / ("base" if job == "base" else f"runs/{job}") / "error.json"
        ).read_text()
    results = collect(out, methods=["corpo"], seeds=[0], command="compare")
    check_results(results)
    assert compare_text(results)
    return results, completions(out / "runs" / "corpo-s0")


def test_rubric_trains_and_is_reported(policy, tmp_path):
    data = written(tmp_path / "items.jsonl", [rubric_rows(number) for number in range(8)])
    results, log = trained(tmp_path / "out", task="rubric", data=str(data), policy=str(policy))
    assert results["settings"]["task"] == "rubric"
    assert results["splits"]["ood"]["description"].startswith("held out of training")
    # every reference is 1, so that a score of v gets 1 - |v - 1| / 2
    known = {f"Score: {score}": 1 - abs(score - 1) / 2 for score in range(1, 6)}
    written_out = log["completion"].str.strip()
    expected = [known.get(text, -1.0) for text in written_out]
    np.testing.assert_allclose(log["corpo_reward"], expected, atol=1e-6)
    assert len(set(written_out) & set(known)) > 1


def test_puzzles_train_and_are_reported_by_their_names(policy, tmp_path):
    pytest.importorskip("reasoning_gym", reason="makes puzzles: needs corpo-rl[puzzles]")
    task = "puzzles:shortest_path,rectangle_count"
    results, log = trained(tmp_path / "out", task=task, policy=str(policy))
    assert results["settings"]["task"] == task
    assert list(results["splits"]) == ["in_domain", "ood", "other_domain"]
    answered = log["completion"].str.strip().isin(ANSWERS)
    assert 0 < answered.sum() < len(log)
    assert log["parse_failure"].isna().tolist() == answered.tolist()


def test_a_policy_that_cannot_read_the_task_is_one_line(tmp_path):
    data = written(tmp_path / "problems.jsonl", [problem_rows(number) for number in range(8)])
    prepare(tmp_path / "out", replace(MINI, **QUICK, task="code", data=str(data)))
    assert main([str(tmp_path / "out"), "base"]) == 2
    message = json.loads((tmp_path / "out" / "base" / "error.json").read_text())["message"]
    assert message.startswith("--policy: mini cannot read 6 of 6 prompts of the task code")
