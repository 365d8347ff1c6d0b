"""The verifier's reward in verl's reward managers, on rows that verl's data set reads from our parquet files."""

import dataclasses

import datasets
import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from verl import DataProto
from verl.trainer.ppo.metric_utils import process_validation_metrics
from verl.trainer.ppo.reward import get_custom_reward_fn, load_reward_manager
from verl.trainer.ppo.utils import create_rl_dataset
from verl.utils.dataset.rl_dataset import collate_fn

from corpo_rl.pairs.verl_data import write_verl_data
from corpo_rl.records import VerifierItem
from corpo_rl.training import verl_reward

REWARD = "reward.custom_reward_function.path=pkg://corpo_rl.training.verl_reward"
ITEMS = [
    VerifierItem("first", "Two and two?", "It is 4", "It is 5", 1, 0, domain="sums", split="train"),
    VerifierItem("second", "Three and three?", "It is 7", "It is 6", 0, 1, domain="sums", split="train"),
    VerifierItem("third", "Four and four?", "It is 8", "It is eight", 1, 1, domain="sums", split="ood"),
]


@pytest.fixture(scope="module")
def tokenizer():
    """Every byte is a token, so that any text goes in and comes out again."""
    alphabet = {symbol: number for number, symbol in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    end = "<end>"
    inner = Tokenizer(models.BPE(vocab={**alphabet, end: len(alphabet)}, merges=[]))
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    outer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token=end, pad_token=end)
    outer.chat_template = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant: "
    return outer


@pytest.fixture
def rows(tmp_path, composed, tokenizer, monkeypatch):
    """Our parquet files as verl's data set hands them to the rollout."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))

    def read(*overrides, items=ITEMS, split="train"):
        files = write_verl_data(items, tmp_path / "data", force=True)
        config = composed(*overrides).data
        return create_rl_dataset(str(files[split]), config, tokenizer, None)

    return read


def test_verls_data_set_reads_our_files(rows, tokenizer):
    dataset = rows()
    assert len(dataset) == 2
    row = dataset[1]
    assert row["data_source"] == "pairs/train"
    assert row["reward_model"]["ground_truth"] == {"label_a": 0, "label_b": 1}
    assert (row["index"], row["extra_info"]["item_id"]) == (1, "second")
    asked = tokenizer.apply_chat_template(row["raw_prompt"], add_generation_prompt=True, tokenize=False)
    assert asked.startswith("user: Problem: Three and three?\n\nAnswer A:\nIt is 7\n\nAnswer B:\nIt is 6\n\n")
    assert asked.endswith("End with two lines:\nA: <score>\nB: <score>\nassistant: ")


def test_other_labels_do_not_change_what_the_policy_reads(rows):
    swapped = [dataclasses.replace(item, label_a=1 - item.label_a, label_b=1 - item.label_b) for item in ITEMS]
    for before, after in zip(rows(), rows(items=swapped), strict=True):
        assert before["raw_prompt"] == after["raw_prompt"]
        assert before["reward_model"] != after["reward_model"], "the labels have to differ for this to say anything"
        assert "label" not in str(before["raw_prompt"]) + str(before["extra_info"])


def test_verl_drops_prompts_that_are_too_long_by_its_own_measure(rows):
    long = VerifierItem("long", "Why? " * 200, "x", "y", 1, 0, domain="sums", split="train")
    dataset = rows("data.filter_overlong_prompts=True", "data.max_prompt_length=400", items=[*ITEMS, long])
    assert [row["extra_info"]["item_id"] for row in dataset] == ["first", "second"]


def answered(row, text, tokenizer):
    """One rollout as verl's reward loop gives it to a reward manager: prompt, answer and padding."""
    response = [*tokenizer.encode(text), tokenizer.eos_token_id]
    prompt = [1, 2, 3]
    length = len(response) + 4
    attention = torch.tensor([[1] * (len(prompt) + len(response)) + [0] * 4])
    collated = collate_fn([row])
    return DataProto.from_dict(
        tensors={
            "prompts": torch.tensor([prompt]),
            "responses": torch.tensor([response + [tokenizer.pad_token_id] * (length - len(response))]),
            "attention_mask": attention,
        },
        non_tensors={name: collated[name] for name in ("data_source", "reward_model", "extra_info")},
    )


@pytest.mark.parametrize("manager", ["naive", "dapo", "rate_limited"])
def test_verls_reward_managers_take_our_reward(manager, composed, rows, tokenizer):
    config = composed(REWARD, f"reward.reward_manager.name={manager}")
    loaded = load_reward_manager(config, tokenizer)
    first, second = rows()[0], rows()[1]

    right = loaded.loop.run_until_complete(loaded.run_single(answered(first, "5 is wrong.\nA: 9\nB: 1", tokenizer)))
    wrong = loaded.loop.run_until_complete(loaded.run_single(answered(second, "A: 9\nB: 1", tokenizer)))
    mute = loaded.loop.run_until_complete(loaded.run_single(answered(first, "I cannot tell.", tokenizer)))

    assert [result["reward_score"] for result in (right, wrong, mute)] == pytest.approx([0.8, -0.8, -1.0])
    extras = [result["reward_extra_info"] for result in (right, wrong, mute)]
    assert [extra["acc"] for extra in extras] == [1.0, 0.0, 0.0]
    assert [extra["failure"] for extra in extras] == ["none", "none", "no_scores"]
    assert extras[0].keys() == extras[1].keys() == extras[2].keys()
    placed = loaded.assemble_rm_scores(answered(first, "A: 9\nB: 1", tokenizer), [0.8])
    assert placed.dtype == torch.float32
    assert placed.sum().item() == pytest.approx(0.8)


def test_the_overlong_penalty_moves_a_right_answer_under_the_threshold(composed, rows, tokenizer):
    """Why it is warned of."""
    config = composed(
        REWARD,
        "reward.reward_manager.name=dapo",
        "+reward.reward_kwargs.max_resp_len=20",
        "+reward.reward_kwargs.overlong_buffer_cfg={enable: true, len: 10, penalty_factor: 1.0, log: false}",
    )
    loaded = load_reward_manager(config, tokenizer)
    data = answered(rows()[0], "5 is wrong.\nA: 9\nB: 1", tokenizer)  # 21 bytes and an end: 12 over 10
    result = loaded.loop.run_until_complete(loaded.run_single(data))
    assert result["reward_extra_info"]["acc"] == 1.0
    assert float(result["reward_score"]) == pytest.approx(0.8 - 12 / 10)


def test_the_rate_limited_manager_makes_an_error_a_reward_of_0(composed, rows, tokenizer, monkeypatch):
    """Why it is warned of where 0 is correct."""
    monkeypatch.setattr(verl_reward, "compute_score", lambda **_: 1 / 0)
    loaded = load_reward_manager(composed(REWARD, "reward.reward_manager.name=rate_limited"), tokenizer)
    result = loaded.loop.run_until_complete(loaded.run_single(answered(rows()[0], "A: 9\nB: 1", tokenizer)))
    assert result["reward_score"] == 0.0


def test_the_old_key_of_the_reward_function_is_ignored_by_verl(composed):
    """Why it is warned of."""
    assert get_custom_reward_fn(composed(REWARD)) is not None
    assert get_custom_reward_fn(composed("custom_reward_function.path=pkg://corpo_rl.training.verl_reward")) is None


def test_verls_validation_counts_failures_and_leaves_undefined_figures_out():
    texts = ["A: 9\nB: 1", "A: 1\nB: 9", "none", "A: 5\nB: 5"]
    rows = [verl_reward.compute_score("pairs/ood", text, {"label_a": 1, "label_b": 0}) for text in texts]
    infos = {name: [row[name] for row in rows] for name in rows[0]}
    metrics = process_validation_metrics(["pairs/ood"] * 4, ["p"] * 4, infos)["pairs/ood"]
    assert metrics["acc"]["mean@4"] == 0.25
    assert metrics["unparsable"]["mean@4"] == 0.25
    assert metrics["hedge"]["mean@3"] == pytest.approx(1 / 3), "of the three that could be read"
    # (0.9, 0.1) against (1, 0): 0.01; (0.1, 0.9): 0.81; (0.5, 0.5): 0.25
    assert metrics["brier"]["mean@3"] == pytest.approx((0.01 + 0.81 + 0.25) / 3)
    assert "failure" not in metrics, "text is for the dumps"
    assert np.array(infos["brier"]).dtype == object, "as verl's agent loop stacks them"
