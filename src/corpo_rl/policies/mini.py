"""The embedded default policy: a tiny Qwen3-architecture model over single characters, whose weights ship with us."""

from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer
from tokenizers.decoders import Fuse
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

MINI_FOLDER = Path(__file__).parent / "mini_weights"
"""Where the shipped weights, tokenizer and configuration lie; `corpo-rl warmstart` rebuilds them."""

SPECIAL_TOKENS = ("<pad>", "<bos>", "<eos>", "<unk>")

CHARACTERS = "0123456789+-?|:;,"
"""All that the mini task's prompts and completions are written in."""

MAX_POSITIONS = 64
"""Longest prompt and completion together, in tokens; the mini task needs at most 30."""


def build_tokenizer() -> Any:
    """A tokenizer with one token per character of `CHARACTERS`, and distinct pad, bos, eos and unk tokens.

    It adds no special token to a text by itself.

    Example:
        >>> tokenizer = build_tokenizer()
        >>> tokenizer.decode(tokenizer("37+46?83|84:").input_ids)
        '37+46?83|84:'
        >>> len(tokenizer("83;9,1").input_ids), len(tokenizer)
        (6, 21)
    """
    vocabulary = {token: index for index, token in enumerate((*SPECIAL_TOKENS, *CHARACTERS))}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="<unk>"))  # noqa: S106  # a token of text, not a secret
    tokenizer.pre_tokenizer = Split(Regex("."), behavior="isolated")
    # without a decoder a tokenizer joins its tokens with spaces
    tokenizer.decoder = Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",  # noqa: S106
        bos_token="<bos>",  # noqa: S106
        eos_token="<eos>",  # noqa: S106
        unk_token="<unk>",  # noqa: S106
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )


def new_model(seed: int) -> Any:
    """An untrained model of the mini architecture: 3 layers, width 128, 0.5 million parameters, float32, on the CPU.

    The weights depend on the seed alone; torch's global random state is left as it was.
    """
    tokenizer = build_tokenizer()
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=32,
        max_position_embeddings=MAX_POSITIONS,
        # for texts of 30 tokens: the usual 10,000 leaves half of the rotations all but still
        rope_parameters={"rope_type": "default", "rope_theta": 100.0},
        # at the usual 0.02 so narrow a model starts slowly
        initializer_range=0.05,
        tie_word_embeddings=False,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Qwen3ForCausalLM(config).to(torch.float32)
