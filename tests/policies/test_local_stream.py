from collections import Counter
from dataclasses import replace

import pytest
import torch

from corpo_rl.errors import UsageError
from corpo_rl.policies.local import LocalPolicy, load_policy
from corpo_rl.policies.mini import build_tokenizer, new_model
from corpo_rl.records import SampleRequest, SamplingSettings

# peft still asks for an attribute that transformers has renamed
pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")

PROMPTS = ("3+4=", "10-2=", "1+1=", "9+9=", "12+30=")
REQUESTS = [SampleRequest(key=str(number), prompt=prompt, seed=number) for number, prompt in enumerate(PROMPTS)]


def by_key(samples):
    return {sample.key: (sample.text, sample.finish_reason) for sample in samples}


@pytest.fixture(scope="module")
def untrained():
    """A policy whose next token is anybody's guess."""
    return LocalPolicy(model=new_model(0), tokenizer=build_tokenizer(), name="untrained")


def test_greedy_completions_do_not_depend_on_batches():
    settings = SamplingSettings(max_new_tokens=12, temperature=0.0)
    all_at_once = by_key(load_policy("mini").stream(REQUESTS, settings))
    one_by_one = by_key(replace(load_policy("mini"), batch_size=1).stream(REQUESTS, settings))
    assert all_at_once == one_by_one
    assert set(all_at_once) == {request.key for request in REQUESTS}


def test_greedy_is_the_likeliest_token_each_time():
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
    policy = load_policy("mini")
    first = by_key(policy.stream(REQUESTS, settings))
    assert by_key(policy.stream(list(reversed(REQUESTS)), settings)) == first
    others = [SampleRequest(one.key, one.prompt, one.seed + 100) for one in REQUESTS]
    assert by_key(policy.stream(others, settings)) != first


def test_a_completion_that_is_cut_says_so():
    [sample] = load_policy("mini").stream(REQUESTS[:1], SamplingSettings(max_new_tokens=1, temperature=0.0))
    assert sample.finish_reason == "length"


def test_a_draw_does_not_depend_on_what_else_is_asked(untrained):
    settings = SamplingSettings(max_new_tokens=12, temperature=1.0)
    whole = by_key(untrained.stream(REQUESTS, settings))
    assert len({text for text, _ in whole.values()}) > 3
    rest = REQUESTS[2:]  # what a job has left to do when it goes on
    assert by_key(untrained.stream(rest, settings)) == {one.key: whole[one.key] for one in rest}
    assert by_key(replace(untrained, batch_size=2).stream(REQUESTS, settings)) == whole


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (2.0, 1.0), (0.5, 1.0), (1.0, 0.5)])
def test_draws_follow_the_models_distribution(untrained, temperature, top_p):
    n = 3000
    ids = untrained.tokenizer(PROMPTS[:1], return_tensors="pt").input_ids
    with torch.no_grad():
        probabilities = (untrained.model(ids).logits[0, -1] / temperature).softmax(-1)
    # by hand: the fewest tokens, likeliest first, that hold top_p of it
    kept, held = [], 0.0
    for token in probabilities.argsort(descending=True).tolist():
        if held < top_p:
            kept.append(token)
            held += probabilities[token].item()
    expected = {untrained.tokenizer.decode([token]): probabilities[token].item() / held for token in kept}
    requests = [SampleRequest(str(seed), PROMPTS[0], seed) for seed in range(n)]
    settings = SamplingSettings(max_new_tokens=1, temperature=temperature, top_p=top_p)
    drawn = Counter(one.text for one in replace(untrained, batch_size=500).stream(requests, settings))
    special = sum(share for text, share in expected.items() if text.startswith("<"))  # come out as no text
    expected = {text: share for text, share in expected.items() if not text.startswith("<")} | {"": special}
    assert set(drawn) <= set(expected)
    for text, share in expected.items():
        # five standard errors of a share: one of 80 tokens off by chance once in 20,000 runs
        assert abs(drawn[text] / n - share) <= 5 * (share * (1 - share) / n) ** 0.5, text


def test_the_models_own_generation_settings_count_for_nothing_and_stay(untrained):
    def drawn():
        settings = [SamplingSettings(max_new_tokens=12, temperature=temperature) for temperature in (0.0, 1.0)]
        streamed = [by_key(untrained.stream(REQUESTS, one)) for one in settings]
        sampled = untrained.sample(PROMPTS, 2, max_new_tokens=12, temperature=1.0, seed=0, batch_size=4)
        return [*streamed, sampled]

    before = drawn()
    own = untrained.model.generation_config
    for name, value in {"repetition_penalty": 5.0, "min_p": 0.9, "min_new_tokens": 11, "num_beams": 2}.items():
        default = getattr(own, name)
        setattr(own, name, value)
        try:
            assert drawn() == before, name
        finally:
            setattr(own, name, default)
    assert untrained.model.generation_config is own


def test_nor_do_those_under_an_adapter():
    from peft import LoraConfig, get_peft_model

    policy = load_policy("mini")
    before = by_key(policy.stream(REQUESTS, SamplingSettings(max_new_tokens=12, temperature=0.0)))
    policy.model.generation_config.repetition_penalty = 5.0
    adapted = replace(policy, model=get_peft_model(policy.model, LoraConfig(r=2, target_modules=["q_proj"])))
    assert by_key(adapted.stream(REQUESTS, SamplingSettings(max_new_tokens=12, temperature=0.0))) == before
    assert adapted.model.generation_config.repetition_penalty == 5.0


def test_torchs_random_state_is_left_alone(untrained):
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    list(untrained.stream(REQUESTS, SamplingSettings(max_new_tokens=4, temperature=1.0)))
    assert torch.equal(torch.rand(2), expected)


def test_a_batch_is_yielded_before_the_next_is_begun(untrained):
    stream = replace(untrained, batch_size=2).stream(REQUESTS, SamplingSettings(max_new_tokens=4, temperature=0.0))
    calls = []
    generate = untrained.model.generate
    untrained.model.generate = lambda **inputs: calls.append(len(inputs["input_ids"])) or generate(**inputs)
    try:
        next(stream)
        next(stream)
        assert calls == [2]
        assert len(list(stream)) == 3
    finally:
        del untrained.model.generate
    assert calls == [2, 2, 1]


def test_prompts_of_like_length_are_generated_together(untrained):
    prompts = ["1", "1+1=1-1=1+1=", "2", "2+2=2-2=2+2="]
    requests = [SampleRequest(str(number), prompt, 0) for number, prompt in enumerate(prompts)]
    stream = replace(untrained, batch_size=2).stream(requests, SamplingSettings(max_new_tokens=1, temperature=0.0))
    assert [one.key for one in stream] == ["0", "2", "1", "3"]


def test_a_budget_of_tokens_is_not_exceeded(untrained):
    settings = SamplingSettings(max_new_tokens=10, temperature=1.0)
    requests = [SampleRequest(str(seed), PROMPTS[0], seed) for seed in range(40)]
    rows, generate, end = [], untrained.model.generate, untrained.tokenizer.eos_token_id

    def watched(**inputs):
        output = generate(**inputs)
        rows.extend(output[:, inputs["input_ids"].shape[1] :].tolist())
        return output

    untrained.model.generate = watched
    try:
        found = list(replace(untrained, batch_size=4, most_tokens=95).stream(requests, settings))
    finally:
        del untrained.model.generate
    used = sum(row.index(end) + 1 if end in row else len(row) for row in rows)
    assert 95 - 10 < used <= 95  # another could have taken 10
    assert len(found) < 40
    assert by_key(found).items() <= by_key(untrained.stream(requests, settings)).items()


@pytest.mark.parametrize(
    ("policy", "settings", "message"),
    [
        ({"batch_size": 0}, {}, "batch_size: expected at least 1, found 0"),
        ({"most_tokens": 0}, {}, "most_tokens: expected at least 1, found 0"),
        ({"most_tokens": 3}, {}, "a budget of 3 tokens: one answer may take 4"),
        ({}, {"max_new_tokens": 0}, "max_new_tokens: expected at least 1, found 0"),
        ({}, {"temperature": -1.0}, "temperature: expected 0 or more, found -1"),
        ({}, {"temperature": float("nan")}, "temperature: expected 0 or more, found nan"),
        ({}, {"top_p": 0.0}, "top_p: expected above 0, to 1, found 0"),
        ({}, {"top_p": 1.5}, "top_p: expected above 0, to 1, found 1.5"),
    ],
)
def test_bad_settings_are_named(untrained, policy, settings, message):
    asked = SamplingSettings(**{"max_new_tokens": 4, "temperature": 1.0} | settings)
    with pytest.raises(UsageError, match=message):
        next(replace(untrained, **policy).stream(REQUESTS, asked))
