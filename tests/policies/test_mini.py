import pytest
import torch

from corpo_rl.policies.mini import CHARACTERS, MAX_POSITIONS, MINI_FOLDER, build_tokenizer, new_model
from corpo_rl.tasks.mini import SIZES, MiniTask


def test_every_prompt_comes_back_from_the_tokenizer_one_token_a_character():
    tokenizer, task = build_tokenizer(), MiniTask()
    for split in SIZES:
        prompts = [task.prompt(item) for item in task.items(split)]
        tokens = tokenizer(prompts).input_ids
        assert [len(row) for row in tokens] == [len(prompt) for prompt in prompts]
        assert tokenizer.batch_decode(tokens) == prompts
        assert max(len(row) for row in tokens) + 12 <= MAX_POSITIONS


def test_special_tokens_are_distinct_and_stripped():
    tokenizer = build_tokenizer()
    special = {tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id}
    assert len(special) == 4
    assert tokenizer.decode(tokenizer("83;9,1<eos><pad>").input_ids, skip_special_tokens=True) == "83;9,1"
    assert tokenizer("é").input_ids == [tokenizer.unk_token_id]
    assert len(tokenizer) == len(CHARACTERS) + 4


def test_new_model_depends_on_its_seed_alone():
    torch.manual_seed(5)
    expected_draw = torch.rand(3)
    torch.manual_seed(5)
    first, same, other = new_model(0), new_model(0), new_model(1)
    assert torch.equal(torch.rand(3), expected_draw), "the caller's random state must not move"
    weights = [model.model.embed_tokens.weight for model in (first, same, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_shipped_folder_fits_the_architecture_and_the_wheel():
    from safetensors.torch import load_file

    shipped = load_file(MINI_FOLDER / "model.safetensors")
    built = new_model(0).state_dict()
    expected_shapes = {name: tensor.shape for name, tensor in built.items()}
    assert {name: tensor.shape for name, tensor in shipped.items()} == expected_shapes
    assert sum(path.stat().st_size for path in MINI_FOLDER.iterdir()) < 6e6


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json", "README.md"])
def test_shipped_files_are_there(name):
    assert (MINI_FOLDER / name).is_file()
