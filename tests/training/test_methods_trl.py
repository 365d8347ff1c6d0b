"""Composed methods, a moving average and a rising threshold in TRL: what reaches the loss, and what a kill leaves."""

import json

import numpy as np
import pytest

from corpo_rl.core.kin import ema_update
from corpo_rl.core.methods import method_advantages
from corpo_rl.core.schedule import ScheduleState, parse_schedule
from corpo_rl.errors import DataError, UsageError
from corpo_rl.training.memory import FILE, Memory, prompt_key
from corpo_rl.training.trl import CorpoConfig

from .support import GROUP_SIZE, MIN_CORRECT, completion_log, logged, tenths, train

pytestmark = [pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*is deprecated:FutureWarning")]

GROUPS = np.arange(16) // GROUP_SIZE


def step_table(folder, step):
    table = completion_log(folder, step)
    return table, [tenths(text) / 10 for text in table["completion"]]


@pytest.mark.parametrize(
    "name", ["qae=0.4+floor", "w_reinforce", "max_gap+gate", "corpo+fixed=0.5", "ngrpo=10", "odrpo", "loo_corpo+phase"]
)
def test_advantages_of_a_composed_method_reach_the_loss(tmp_path, name):
    run = train(tmp_path, advantage_estimator=name, gradient_accumulation_steps=2)
    for step, batch in enumerate(run.generations, start=1):
        _, rewards = step_table(tmp_path, step)
        expected = method_advantages(name, rewards, GROUPS, min_correct=MIN_CORRECT)
        assert len(set(expected.round(6))) > 1
        np.testing.assert_allclose(batch.advantages, expected, rtol=1e-6, atol=1e-6)


def test_lengths_are_the_tokens_of_the_completions(tmp_path):
    run = train(tmp_path, advantage_estimator="opo+floor", gradient_accumulation_steps=2)
    for step, batch in enumerate(run.generations, start=1):
        _, rewards = step_table(tmp_path, step)
        lengths = [max(len(ids), 1) for ids in batch.completion_ids]
        assert len(set(lengths)) > 1
        expected = method_advantages("opo+floor", rewards, GROUPS, min_correct=MIN_CORRECT, lengths=lengths)
        np.testing.assert_allclose(batch.advantages, expected, rtol=1e-6, atol=1e-6)


def test_a_moving_average_is_kept_for_each_prompt_and_survives_a_checkpoint(tmp_path):
    # four prompts a step, of as many as there are: every later step meets each of them again
    settings = {
        "advantage_estimator": "ema=0.5",
        "n_prompts": 4,
        "gradient_accumulation_steps": 2,
        "save_strategy": "steps",
        "save_steps": 1,
    }
    run = train(tmp_path / "whole", max_steps=3, **settings)
    averages = {}
    for step, batch in enumerate(run.generations, start=1):
        table, rewards = step_table(tmp_path / "whole", step)
        history = [averages.get(prompt, np.nan) for prompt in table["prompt"]]
        assert np.isnan(history).all() == (step == 1)
        expected = method_advantages("ema=0.5", rewards, GROUPS, history=history)
        np.testing.assert_allclose(batch.advantages, expected, rtol=1e-6, atol=1e-6)
        for group in range(4):
            prompt, rows = table["prompt"][group * GROUP_SIZE], slice(group * GROUP_SIZE, (group + 1) * GROUP_SIZE)
            averages[prompt] = ema_update(averages.get(prompt, np.nan), float(np.mean(rewards[rows])), decay=0.5)

    kept = Memory.load(tmp_path / "whole" / "checkpoint-3").averages
    assert kept == pytest.approx({prompt_key(prompt): value for prompt, value in averages.items()})

    # TRL draws other completions when it resumes between two epochs; their baseline is what the checkpoint remembers
    checkpoint = tmp_path / "whole" / "checkpoint-2"
    (resumed,) = train(tmp_path / "resumed", max_steps=3, resume=str(checkpoint), **settings).generations
    table, rewards = step_table(tmp_path / "resumed", 3)
    history = Memory.load(checkpoint).recall([prompt_key(prompt) for prompt in table["prompt"]])
    assert not np.isnan(history).any()
    expected = method_advantages("ema=0.5", rewards, GROUPS, history=history)
    np.testing.assert_allclose(resumed.advantages, expected, rtol=1e-6, atol=1e-6)


def test_a_rising_threshold_is_the_one_of_its_step(tmp_path):
    schedule = "ramp:0.1:0.5:2"
    run = train(tmp_path, max_steps=3, min_correct=None, min_correct_schedule=schedule, gradient_accumulation_steps=2)
    for step, (threshold, batch) in enumerate(zip([0.1, 0.3, 0.5], run.generations, strict=True), start=1):
        _, rewards = step_table(tmp_path, step)
        expected = method_advantages("corpo", rewards, GROUPS, min_correct=threshold)
        np.testing.assert_allclose(batch.advantages, expected, rtol=1e-6, atol=1e-6)
        assert logged(run, step)["corpo/min_correct"] == pytest.approx(threshold)
        assert logged(run, step)["corpo/correct_share"] == pytest.approx(np.mean(np.array(rewards) >= threshold - 1e-9))


def test_a_target_moves_with_the_share_of_correct_and_survives_a_checkpoint(tmp_path):
    text = "target:0.05:0.0,0.2,0.4:1"
    settings = {"min_correct": None, "min_correct_schedule": text, "save_strategy": "steps", "save_steps": 1}
    settings["gradient_accumulation_steps"] = 2
    run = train(tmp_path / "whole", max_steps=3, **settings)
    state, schedule = ScheduleState(), parse_schedule(text)
    for step in (1, 2, 3):
        threshold = schedule.at(state, step=step - 1).min_correct
        assert logged(run, step)["corpo/min_correct"] == pytest.approx(threshold)
        _, rewards = step_table(tmp_path / "whole", step)
        state = schedule.after(state, correct_share=float(np.mean(np.array(rewards) >= threshold)))
    assert state.level > 0, "the threshold must have moved"
    assert Memory.load(tmp_path / "whole" / "checkpoint-3").schedule == state

    resumed = train(tmp_path / "resumed", max_steps=3, resume=str(tmp_path / "whole" / "checkpoint-2"), **settings)
    np.testing.assert_array_equal(resumed.generations[0].advantages, run.generations[2].advantages)


def test_a_spoilt_memory_is_one_line(tmp_path):
    (tmp_path / FILE).write_text(json.dumps({"averages": [], "schedule": {}}))
    with pytest.raises(DataError, match=r"corpo_memory\.json: expected what a checkpoint of CorpoTrainer holds"):
        Memory.load(tmp_path)
    assert Memory.load(tmp_path / "elsewhere") == Memory()


def test_prompts_of_messages_have_keys_of_their_own():
    first, second = [{"role": "user", "content": "1+1"}], [{"role": "user", "content": "1+2"}]
    assert prompt_key(first) == prompt_key([dict(first[0])]) != prompt_key(second)
    assert prompt_key("\ud800") != prompt_key("")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"advantage_estimator": "grpo+floor"}, r"grpo\+floor: a floor cannot come before the group std"),
        ({"advantage_estimator": "qae=2"}, r"advantage_estimator: qae=2: the quantile is a share from 0 to 1"),
        ({"advantage_estimator": "ngrpo=1", "scale_rewards": "group"}, "ngrpo=1 divides by a scale of its own"),
        ({"min_correct_schedule": "ramp:0:1:5"}, r"'ramp:0:1:5' ends at 1, but min_correct is 0\.2"),
        ({"min_correct": None, "min_correct_schedule": "ramp:1:0:5"}, "expected a ramp that rises"),
    ],
)
def test_refused(tmp_path, changes, message):
    with pytest.raises(UsageError, match=message):
        CorpoConfig(output_dir=str(tmp_path), **{"min_correct": 0.2, "use_cpu": True, "bf16": False, **changes})
