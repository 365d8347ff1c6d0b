import json

import pytest

from corpo_rl.errors import DataError
from corpo_rl.policies.local import load_policy
from corpo_rl.policies.opening import open_policy
from corpo_rl.records import SampleRequest, SamplingSettings
from tests.policies.fake_server import echo, fake_server

# peft still asks for an attribute that transformers has renamed
pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")

PROMPTS = ("3+4=", "10-2=", "1+1=", "9+9=", "12+30=")
REQUESTS = [SampleRequest(key=str(number), prompt=prompt, seed=number) for number, prompt in enumerate(PROMPTS)]


def by_key(samples):
    return {sample.key: (sample.text, sample.finish_reason) for sample in samples}


def test_an_endpoint_is_told_by_its_url():
    with fake_server(echo, models=("only",)) as server:
        named = open_policy(f"{server.url}/#other", concurrency=3, timeout=7.0, retries=1)
        assert (named.url, named.model, named.concurrency, named.timeout, named.retries) == (
            server.url,
            "other",
            3,
            7.0,
            1,
        )
        assert open_policy(server.url).model == "only"
        assert open_policy(server.url).name == f"{server.url}#only"


def test_greedy_completions_do_not_depend_on_batches():
    settings = SamplingSettings(max_new_tokens=12, temperature=0.0)
    all_at_once = by_key(open_policy("mini").stream(REQUESTS, settings))
    one_by_one = by_key(open_policy("mini", batch_size=1).stream(REQUESTS, settings))
    assert all_at_once == one_by_one
    assert set(all_at_once) == {request.key for request in REQUESTS}


def test_greedy_is_the_likeliest_token_each_time():
    import torch

    policy = load_policy("mini")
    ids = policy.tokenizer(
        policy.render(PROMPTS[0]), return_tensors="pt", add_special_tokens=policy.tokenizer.chat_template is None
    ).input_ids
    start = ids.shape[1]
    with torch.no_grad():
        for _ in range(6):
            ids = torch.cat([ids, policy.model(ids).logits[:, -1:].argmax(-1)], dim=1)
    expected = policy.tokenizer.decode(ids[0, start:], skip_special_tokens=True)
    [sample] = policy.stream(REQUESTS[:1], SamplingSettings(max_new_tokens=6, temperature=0.0))
    assert expected.startswith(sample.text)
    assert sample.text


def test_the_same_requests_give_the_same_draws_and_other_seeds_others():
    settings = SamplingSettings(max_new_tokens=12, temperature=1.0)
    policy = open_policy("mini")
    first = by_key(policy.stream(REQUESTS, settings))
    assert by_key(policy.stream(list(reversed(REQUESTS)), settings)) == first
    others = [SampleRequest(one.key, one.prompt, one.seed + 100) for one in REQUESTS * 1]
    assert by_key(policy.stream(others, settings)) != first


def test_a_completion_that_is_cut_says_so():
    [sample] = open_policy("mini").stream(REQUESTS[:1], SamplingSettings(max_new_tokens=1, temperature=0.0))
    assert sample.finish_reason == "length"


@pytest.fixture(scope="module")
def adapter(tmp_path_factory):
    from peft import LoraConfig, get_peft_model

    policy = load_policy("mini")
    base = tmp_path_factory.mktemp("base")
    policy.model.save_pretrained(base)
    policy.tokenizer.save_pretrained(base)
    model = get_peft_model(policy.model, LoraConfig(r=2, target_modules=["q_proj", "v_proj"], init_lora_weights=False))
    folder = tmp_path_factory.mktemp("adapter")
    model.save_pretrained(folder)
    config = json.loads((folder / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(json.dumps({**config, "base_model_name_or_path": str(base)}))
    return folder, model


def test_an_adapter_is_merged_into_its_base(adapter):
    import torch

    folder, model = adapter
    policy = open_policy(str(folder))
    ids = torch.tensor([[5, 6, 7]])
    with torch.no_grad():
        ours, theirs = policy.model(ids).logits, model(ids).logits
        plain = load_policy("mini").model(ids).logits
    assert torch.allclose(ours, theirs, atol=1e-5)
    assert not torch.allclose(ours, plain, atol=1e-3)


def test_an_adapter_without_its_base_is_one_line(tmp_path):
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(DataError, match="expected a field base_model_name_or_path"):
        open_policy(str(tmp_path))
