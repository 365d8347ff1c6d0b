import random

import pytest
import torch

from corpo_rl.errors import DataError, UsageError
from corpo_rl.policies.local import LocalPolicy, load_policy
from corpo_rl.policies.mini import build_tokenizer, new_model

PROMPTS = ["37+46?83|84:", "381+103?474|484:"]  # of two lengths: the shorter one is padded


@pytest.fixture(scope="module")
def policy():
    return LocalPolicy(model=new_model(0), tokenizer=build_tokenizer(), name="untrained")


def draw(policy, prompts=PROMPTS, n=3, **changes):
    settings = {"max_new_tokens": 6, "temperature": 1.0, "seed": 0, "batch_size": 4} | changes
    return policy.sample(prompts, n, **settings)


def test_n_completions_for_each_prompt_within_the_token_limit(policy):
    completions = draw(policy)
    assert [len(row) for row in completions] == [3, 3]
    assert all(len(text) <= 6 and "<" not in text for row in completions for text in row)
    assert draw(policy, prompts=[]) == []


def test_a_seed_decides_every_draw(policy):
    assert draw(policy) == draw(policy)
    assert draw(policy) != draw(policy, seed=1)
    assert len({text for row in draw(policy) for text in row}) > 1


def test_random_state_and_training_mode_are_left_alone(policy):
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    policy.model.train()
    draw(policy)
    assert torch.equal(torch.rand(2), expected)
    assert policy.model.training
    policy.model.eval()
    draw(policy)
    assert not policy.model.training


def test_padding_does_not_change_what_is_likely(policy):
    # as good as greedy: the same text alone and beside a longer one
    alone = draw(policy, prompts=PROMPTS[:1], n=1, temperature=1e-4)
    assert alone == draw(policy, n=1, temperature=1e-4)[:1]


def test_sampling_follows_the_models_own_distribution(policy):
    n = 4000
    with torch.no_grad():
        ids = policy.tokenizer(PROMPTS[:1], return_tensors="pt").input_ids
        probabilities = policy.model(ids).logits[0, -1].softmax(-1)
    token = policy.tokenizer.convert_tokens_to_ids("7")
    texts = draw(policy, prompts=PROMPTS[:1], n=n, max_new_tokens=1, batch_size=n)[0]
    share, expected = texts.count("7") / n, probabilities[token].item()
    # four standard errors of a share
    assert abs(share - expected) < 4 * (expected * (1 - expected) / n) ** 0.5


def test_generation_settings_of_the_model_are_not_used(policy):
    policy.model.generation_config.top_k = 1  # greedy, were it to count
    try:
        assert len(set(draw(policy, n=20)[0])) > 1
    finally:
        policy.model.generation_config.top_k = None


def test_progress_counts_completions(policy):
    seen = []
    draw(policy, on_batch=seen.append)
    assert seen == [4, 6]


def test_render_uses_the_chat_template_where_there_is_one(policy):
    assert policy.render("1+1?") == "1+1?"
    tokenizer = build_tokenizer()
    tokenizer.chat_template = (
        "{% for m in messages %}+{{ m.content }}-{% endfor %}{% if add_generation_prompt %}:{% endif %}"
    )
    assert LocalPolicy(policy.model, tokenizer, "chat").render("1?2") == "+1?2-:"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n": 0}, "n: expected at least 1, got 0"),
        ({"batch_size": 0}, "batch_size: expected at least 1"),
        ({"max_new_tokens": 0}, "max_new_tokens: expected at least 1"),
        ({"temperature": 0.0}, "temperature: expected a number above 0, got 0.0"),
        ({"temperature": float("nan")}, "temperature: expected a number above 0, got nan"),
    ],
)
def test_bad_settings_are_named(policy, changes, message):
    with pytest.raises(UsageError, match=message):
        draw(policy, **changes)


def test_a_saved_policy_loads_in_float32(policy, tmp_path):
    policy.model.save_pretrained(tmp_path)
    policy.tokenizer.save_pretrained(tmp_path)
    loaded = load_policy(str(tmp_path))
    assert loaded.name == str(tmp_path)
    assert {parameter.dtype for parameter in loaded.model.parameters()} == {torch.float32}
    assert draw(loaded) == draw(policy)


def test_the_embedded_policy_writes_the_tasks_format():
    from corpo_rl.tasks.base import grade
    from corpo_rl.tasks.mini import MiniTask

    task = MiniTask()
    items = random.Random(0).sample(list(task.items("in_domain")), 64)
    completions = draw(load_policy("mini"), [task.prompt(item) for item in items], 4, max_new_tokens=12, batch_size=256)
    graded = [grade(task, item, text) for item, row in zip(items, completions, strict=True) for text in row]
    assert sum(one.failure is not None for one in graded) / len(graded) < 0.05
    assert 0.2 < sum(one.correct for one in graded) / len(graded) < 0.6


def test_folders_that_hold_no_model_are_named(tmp_path):
    with pytest.raises(DataError, match=r"found no config\.json"):
        load_policy(str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(DataError, match="expected a folder with a model and its tokenizer"):
        load_policy(str(tmp_path))


@pytest.mark.parametrize("spec", ["./my-verifier", "/no/where", "runs/mini/policy", "../up"])
def test_a_path_that_is_not_there_is_no_question_to_the_hub(spec):
    with pytest.raises(
        DataError, match=f"^{spec}: expected a folder with a model, found no such folder; check the path"
    ):
        load_policy(spec)


def test_an_unreachable_hub_is_one_line(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # or it retries for a minute
    with pytest.raises(DataError, match="no-such-owner/no-such-model: expected a model folder, or an id") as caught:
        load_policy("no-such-owner/no-such-model")
    assert "\n" not in str(caught.value)
