from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from corpo_rl.errors import DataError
from corpo_rl.policies.mini import build_tokenizer, new_model
from corpo_rl.tasks.mini import EASY, HARD, MiniTask, held_out_problems
from corpo_rl.training.warmstart import CLEAN, SOFT, build_mini_base, mini_examples, train_supervised

TOKENIZER = build_tokenizer()
TINY = (replace(CLEAN, steps=2), replace(SOFT, steps=1))


def train(model, examples, tmp_path, **changes):
    settings = {"steps": 40, "batch_size": 4, "learning_rate": 3e-3, "seed": 0, "max_length": 32} | changes
    train_supervised(model, TOKENIZER, examples, output_dir=tmp_path, use_cpu=True, **settings)


def next_token_probability(model, text, token):
    with torch.no_grad():
        logits = model(TOKENIZER(text, return_tensors="pt").input_ids).logits[0, -1]
    return logits.softmax(-1)[TOKENIZER.convert_tokens_to_ids(token)].item()


def test_completion_and_stop_are_learnt_and_the_prompt_is_not(tmp_path, capsys):
    model, seen = new_model(0), []
    train(model, [("12?", ":;"), ("34?", ",,")], tmp_path, on_step=seen.append)
    model.eval()
    assert next_token_probability(model, "12?", ":") > 0.9
    assert next_token_probability(model, "34?", ",") > 0.9
    assert next_token_probability(model, "12?:;", "<eos>") > 0.9
    # were the prompt part of the loss, 2 would follow 1 as surely
    assert next_token_probability(model, "1", "2") < 0.5
    assert seen == list(range(1, 41))
    assert capsys.readouterr().out == "", "stdout is for results"
    assert model.config.use_cache
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        ([], "expected at least one"),
        # 3 + 2 characters and the end token are 6, one more than 5; 3 + 1 and the end token just fit
        ([("12?", ":;"), ("12?", ":")], "1 of 2 are longer than max_length=5 tokens, the longest has 6"),
    ],
)
def test_examples_that_cannot_be_learnt_are_refused(tmp_path, examples, message):
    with pytest.raises(DataError, match=message):
        train(new_model(0), examples, tmp_path, max_length=5)


def own_answer(completion):
    return int(completion.split(";")[0])


def solve(prompt):
    problem = prompt.split("?")[0]
    sign = "+" if "+" in problem else "-"
    first, second = (int(operand) for operand in problem.split(sign))
    return first + second if sign == "+" else first - second


def candidates(prompt):
    return [int(answer) for answer in prompt.split("?")[1].rstrip(":").split("|")]


def test_clean_examples_are_right_and_of_every_kind():
    task, kinds = MiniTask(), []
    even = dict.fromkeys([(0, 0), (0, 1), (1, 0), (1, 1)], 0.25)
    phase = replace(CLEAN, hard=0.5, differences=0.5, kinds=even)
    for prompt, completion in mini_examples(np.random.default_rng(0), 800, phase):
        labels = [answer == solve(prompt) for answer in candidates(prompt)]
        scores = task.parse(completion)
        assert own_answer(completion) == solve(prompt)
        assert [scores.a, scores.b] == [9 if label else 1 for label in labels]
        assert prompt.split("?")[0] not in held_out_problems()
        kinds.append(("+" in prompt, len(prompt.split("+")[0].split("-")[0]), *labels))
    # 2 domains x 2 difficulties x 4 kinds of pair, 50 expected of each
    assert len(set(kinds)) == 16
    assert min(kinds.count(kind) for kind in set(kinds)) > 25


def test_softened_examples_are_as_wrong_as_asked_for():
    phase = replace(SOFT, hard=0.5, own_errors={EASY: 0.0, HARD: 0.75}, fooled=1.0, score_flips=0.0)
    task, n_hard, n_wrong = MiniTask(), 0, 0
    for prompt, completion in mini_examples(np.random.default_rng(1), 2000, phase):
        own, right, scores = own_answer(completion), solve(prompt), task.parse(completion)
        is_hard = len(prompt.split("+")[0].split("-")[0]) == HARD
        assert own == right or is_hard
        if len({*candidates(prompt)} - {right}) > 0:
            assert own == right or own in candidates(prompt), "fooled by a candidate wherever one is wrong"
        for candidate, score in zip(candidates(prompt), (scores.a, scores.b), strict=True):
            assert score >= 5 if candidate == own else score <= 5, "without flips the scores follow the own answer"
        n_hard, n_wrong = n_hard + is_hard, n_wrong + (is_hard and own != right)
    # about 1000 hard ones: four standard errors are 4 * sqrt(0.75 * 0.25 / 1000) = 0.055
    assert abs(n_wrong / n_hard - 0.75) < 0.055


def test_the_base_is_rebuilt_to_the_last_bit(tmp_path):
    for name, seed in (("first", 0), ("again", 0), ("other", 1)):
        build_mini_base(tmp_path / name, seed=seed, phases=TINY)
    first, again, other = (load_file(tmp_path / name / "model.safetensors") for name in ("first", "again", "other"))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_progress_runs_over_both_phases(tmp_path):
    seen = []
    build_mini_base(tmp_path, seed=0, phases=TINY, on_step=seen.append)
    assert seen == [1, 2, 3]
