import json
import shutil
import sys

import pytest

from corpo_rl.errors import CorpoError, DataError, UsageError
from corpo_rl.policies.local import load_policy
from corpo_rl.policies.opening import open_policy
from tests.policies.fake_server import echo, fake_server

# peft still asks for an attribute that transformers has renamed
pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")


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
        assert open_policy(server.url, most_tokens=9).most_tokens == 9
        assert open_policy(server.url).model == "only"
        assert open_policy(server.url).name == f"{server.url}#only"


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
    (tmp_path / "adapter_config.json").write_text('{"base_model_name_or_path": null}')
    with pytest.raises(DataError, match="base_model_name_or_path: expected text, found None"):
        open_policy(str(tmp_path))
    base = tmp_path / "gone" / "base"
    base.mkdir(parents=True)
    (tmp_path / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(base)}))
    with pytest.raises(DataError, match=r"adapter_config\.json: its base model cannot be loaded: .*found no config"):
        open_policy(str(tmp_path))


def test_an_adapter_that_does_not_fit_its_base_is_one_line(adapter, tmp_path):
    folder, _ = adapter
    (tmp_path / "adapter_config.json").write_text((folder / "adapter_config.json").read_text())
    (tmp_path / "adapter_model.safetensors").write_bytes(b"broken")
    with pytest.raises(DataError, match="expected a PEFT adapter for") as caught:
        open_policy(str(tmp_path))
    assert "\n" not in str(caught.value)


def test_the_tokenizer_beside_an_adapter_is_its_own(adapter, tmp_path):
    folder, _ = adapter
    copy = tmp_path / "adapter"
    shutil.copytree(folder, copy)
    tokenizer = load_policy("mini").tokenizer
    tokenizer.chat_template = "{% for m in messages %}+{{ m.content }}-{% endfor %}"
    tokenizer.save_pretrained(copy)
    assert open_policy(str(copy)).render("1") == "+1-"
    assert open_policy(str(folder)).render("1") == "1"


def test_settings_of_a_local_policy_are_its_own():
    policy = open_policy("mini", batch_size=3, most_tokens=50)
    assert (policy.name, policy.batch_size, policy.most_tokens) == ("mini", 3, 50)


@pytest.mark.parametrize(
    ("spec", "module", "extra"), [("mini", "corpo_rl.policies.local", "train"), ("adapter", "peft", "train")]
)
def test_missing_libraries_print_their_install_line(monkeypatch, adapter, spec, module, extra):
    monkeypatch.setitem(sys.modules, module, None)  # what `import` finds when it is not there
    with pytest.raises(CorpoError, match=rf"run: pip install 'corpo-rl\[{extra}\]'"):
        open_policy(str(adapter[0]) if spec == "adapter" else spec)


def test_a_refused_key_is_told_when_the_model_is_looked_up():
    with fake_server(echo, key="right") as server, pytest.raises(UsageError, match="set OPENAI_API_KEY"):
        open_policy(server.url)
