"""From ranges of characters to tokens, on tokenizers whose tokens are characters, words, and parts of characters."""

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from corpo_rl.core.steps import NO_STEP
from corpo_rl.errors import DataError
from corpo_rl.policies.mini import build_tokenizer
from corpo_rl.training.step_spans import steps_of_characters, steps_of_tokens, steps_of_turns, token_text, turns

MINI = build_tokenizer()
SPECIAL = {"eos_token": "<eos>", "pad_token": "<pad>"}
UNKNOWN = {"unk_token": "<unk>"}


def byte_level():
    """Tokens of a byte, as a byte-pair tokenizer without merges: "é" is two of them and an emoji four."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({character: place for place, character in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **SPECIAL)


def words():
    """Tokens of a word with the space before it, which the first one loses: as SentencePiece writes them."""
    vocabulary = {"<unk>": 0, "▁one": 1, "▁two": 2, "▁three": 3, "▁": 4}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, **UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, clean_up_tokenization_spaces=False, **SPECIAL, **UNKNOWN)


def joining():
    """A decoder that looks at its neighbours: a number of windows cannot tell, every prefix can."""
    tokenizer = words()
    plain = tokenizer.decode

    def decode(ids, **settings):
        text = plain(ids, **settings)
        return text if len(ids) < 3 else text.replace("one two", "onetwo")

    tokenizer.decode = decode
    return tokenizer


def starts_by_bytes(text):
    """For tokens of a byte: where the character of each stands."""
    return [place for place, character in enumerate(text) for _ in character.encode()]


@pytest.mark.parametrize("text", ["plain", "é", "naïve; 5 ≠ 36 😀!", "😀😀", ""])
def test_tokens_that_are_parts_of_characters(text):
    tokenizer = byte_level()
    ids = [*tokenizer(text).input_ids, tokenizer.eos_token_id]
    found = token_text(ids, tokenizer)
    assert found.text == text
    assert found.special == [False] * (len(ids) - 1) + [True]
    assert found.starts == [*starts_by_bytes(text), len(text)]


def test_bytes_that_are_no_character():
    tokenizer = byte_level()
    whole = tokenizer("a😀b").input_ids
    ids = [*whole[:3], whole[-1]]  # two of the emoji's four bytes
    found = token_text(ids, tokenizer)
    assert found.text.startswith("a")
    assert found.text.endswith("b")
    assert found.starts[:2] == [0, 1]
    assert found.starts == sorted(found.starts)
    assert found.starts[-1] in (1, len(found.text) - 1)  # the b, or with the bytes it was read with


def test_tokens_of_words():
    tokenizer = words()
    found = token_text([*tokenizer("one two three").input_ids, tokenizer.eos_token_id], tokenizer)
    assert found.text == "one two three"
    assert found.starts == [0, 3, 7, 13]  # a word's token begins with the space before it


def test_a_decoder_that_looks_at_its_neighbours():
    tokenizer = joining()
    found = token_text(tokenizer("three one two three").input_ids, tokenizer)
    assert found.text == "three onetwo three"
    assert found.starts[:2] == [0, 5]
    assert found.starts == sorted(found.starts)
    assert found.starts[3] == 12


@pytest.mark.parametrize("tokenizer", [MINI, byte_level()], ids=["mini", "bytes"])
def test_characters_to_tokens_by_plain_loop(tokenizer):
    rng = np.random.default_rng(0)
    alphabet = list("0123456789;") + ([] if tokenizer is MINI else list("é😀 x"))
    for _ in range(100):
        text = "".join(rng.choice(alphabet, size=rng.integers(1, 12)))
        cuts = sorted(rng.choice(len(text) + 1, size=4))
        steps = [(cuts[0], cuts[1], 0.0), (cuts[2], cuts[3], 1.0)]
        steps = [step for step in steps if step[0] < step[1]]
        ids = tokenizer(text).input_ids
        found = steps_of_characters(token_text(ids, tokenizer), steps, where="x")
        # each byte's character, or in the mini tokenizer each character
        places = list(range(len(text))) if tokenizer is MINI else starts_by_bytes(text)
        expected = [
            next((number for number, (start, end, _) in enumerate(steps) if start <= place < end), NO_STEP)
            for place in places
        ]
        assert found.step_of_token == expected
        assert found.rewards == [reward for _, _, reward in steps]


def test_a_token_belongs_to_the_step_of_its_first_character():
    tokenizer = words()
    found = token_text(tokenizer("one two three").input_ids, tokenizer)
    steps = steps_of_characters(found, [(0, 4, 1.0), (4, 13, 0.0)], where="x")  # the space before "two" is the first's
    assert steps.step_of_token == [0, 0, 1]


def test_the_end_token_closes_the_last_step_or_is_the_decision_to_stop():
    ids = [*MINI("59;84").input_ids, MINI.eos_token_id]
    found = token_text(ids, MINI)

    def of(steps):
        return steps_of_characters(found, steps, where="x").step_of_token

    assert of([(0, 3, 1.0), (3, 5, 1.0)]) == [0, 0, 0, 1, 1, 1]
    assert of([(0, 3, 1.0)]) == [0, 0, 0, NO_STEP, NO_STEP, NO_STEP]
    assert of([(0, 5, 1.0), (5, 5, -1.0)]) == [0, 0, 0, 0, 0, 1]
    alone = token_text([MINI.eos_token_id], MINI)
    assert steps_of_characters(alone, [], where="x").step_of_token == [NO_STEP]
    assert steps_of_characters(alone, [(0, 0, -1.0)], where="x").step_of_token == [0]


def test_a_special_token_between_turns_closes_the_one_before_it():
    ids = [*MINI("12").input_ids, MINI.eos_token_id, MINI.bos_token_id, *MINI("34").input_ids]
    found = token_text(ids, MINI)
    assert found.text == "1234"
    steps = steps_of_characters(found, [(0, 2, 1.0), (2, 4, 0.0)], where="x")
    assert steps.step_of_token == [0, 0, 0, 0, 1, 1]


def test_turns_are_the_runs_of_the_policys_own_tokens():
    rng = np.random.default_rng(1)
    for _ in range(50):
        mask = rng.integers(0, 2, size=rng.integers(0, 12)).tolist()
        expected = "".join(map(str, mask)).split("0")
        found = turns(mask)
        assert [end - start for start, end in found] == [len(run) for run in expected if run]
        assert [place for start, end in found for place in range(start, end)] == [
            i for i, own in enumerate(mask) if own
        ]
    steps = steps_of_turns([1, 1, 0, 1], [0.5, None], where="x")
    assert steps.step_of_token == [0, 0, NO_STEP, 1]
    assert steps.rewards[0] == 0.5
    assert np.isnan(steps.rewards[1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: steps_of_tokens(4, [(0, 5, 1.0)], where="c"), "c, step 0: expected a range within 0 and 4 tokens"),
        (lambda: steps_of_tokens(4, [(0, 2, 1), (1, 3, 1)], where="c"), "c, step 1: expected a range within 2 and 4"),
        (lambda: steps_of_tokens(4, [(2, 1, 1.0)], where="c"), "c, step 0: .* got 2 to 1"),
        (lambda: steps_of_tokens(4, [(-1, 1, 1.0)], where="c"), "c, step 0: .* got -1 to 1"),
        (lambda: steps_of_tokens(4, [0.5], where="c"), r"c, step 0: expected \(start, end, reward\), got 0.5"),
        (lambda: steps_of_tokens(4, [(0, 1)], where="c"), r"c, step 0: expected \(start, end, reward\), got \(0, 1\)"),
        (lambda: steps_of_tokens(4, [(0, 1, "x")], where="c"), r"c, step 0: expected \(start, end, reward\)"),
        (lambda: steps_of_tokens(4, [(0, 1, float("inf"))], where="c"), "c, step 0: expected a finite reward or None"),
        (lambda: steps_of_turns([1, 0, 1], [1.0], where="c"), "c: expected a reward for each of 2 turns, got 1"),
    ],
)
def test_what_is_no_step_is_named(call, message):
    with pytest.raises(DataError, match=message):
        call()
