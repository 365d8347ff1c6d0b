"""Step rewards in TRL: settings that are refused or told of, and the page that describes them."""

import doctest
import re
from pathlib import Path

import pytest
from transformers import HfArgumentParser

from corpo_rl.errors import DataError, FloorWarning, UsageError
from corpo_rl.training.steps import StepConfig, StepTrainer
from corpo_rl.training.trl import CorpoConfig

from .step_support import judge, train, trainer
from .support import graded, settings

pytestmark = [
    # transformers 5.24 renames its own setting, which TRL still sets
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*rollout_func.*"),
]

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/steps.md"


# The page


def test_the_examples_of_the_documentation():
    assert doctest.testfile(str(PAGE), module_relative=False, raise_on_error=True).attempted == 9


def test_the_trainer_of_the_documentation_runs_as_it_stands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(from datasets.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    names = {}
    exec(code, names)  # noqa: S102
    entry = names["trainer"].state.log_history[-1]
    assert entry["corpo/steps/reinforced_failure_share"] == 0.0
    assert entry["corpo/steps/per_rollout"] > 0


# Settings


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"step_min_correct": None}, r"step_min_correct: expected .* got None; pass StepConfig\(step_min_correct="),
        ({"step_min_correct": []}, r"step_min_correct: expected .* got \[\]"),
        ({"step_min_correct": float("nan")}, r"step_min_correct: expected .* got \[nan\]"),
        ({"step_form": "dense"}, "step_form: expected one of both, steps, outcome, got 'dense'"),
        ({"step_unit": "words"}, "step_unit: expected one of characters, tokens, turns, got 'words'"),
        ({"outcome_weight": -1.0}, "outcome_weight: expected 0 or more, got -1.0"),
        ({"step_discount": 1.5}, "step_discount: expected 0 to 1, got 1.5"),
        ({"loss_type": "luspo", "importance_sampling_level": "sequence"}, "loss_type: 'luspo' wants one advantage for"),
        ({"off_policy_mask_threshold": 0.5}, "off_policy_mask_threshold: 0.5 wants one advantage for each rollout"),
        ({"min_correct": None}, "min_correct: expected the least reward that counts as correct"),
    ],
)
def test_refused(changes, message):
    with pytest.raises(UsageError, match=message):
        StepConfig(**settings("unused", **({"min_correct": 0.5, "step_min_correct": [0.5]} | changes)))


def test_settings_that_the_outcome_alone_may_have():
    given = {"min_correct": 0.5, "step_min_correct": 0.5, "step_form": "outcome", "off_policy_mask_threshold": 0.5}
    assert StepConfig(**settings("unused", **given)).step_min_correct == [0.5]


def test_flags_of_a_command_line():
    flags = "--output_dir unused --use_cpu true --bf16 false --min_correct 0.5 --step_min_correct 0.5 0.25"
    (config,) = HfArgumentParser(StepConfig).parse_args_into_dataclasses(
        [*flags.split(), "--step_form", "steps", "--step_unit", "tokens", "--num_generations", "4"]
    )
    assert (config.step_min_correct, config.step_form, config.step_unit) == ([0.5, 0.25], "steps", "tokens")


def test_a_trainer_without_its_config_or_its_function():
    with pytest.raises(UsageError, match="args: expected a StepConfig, got CorpoConfig; it adds step_min_correct"):
        StepTrainer("unused", graded, CorpoConfig(**settings("unused", min_correct=0.5)), step_reward_func=judge)
    args = StepConfig(**settings("unused", min_correct=0.5, step_min_correct=0.5))
    with pytest.raises(UsageError, match="step_reward_func: expected a function that rewards steps, got NoneType"):
        StepTrainer("unused", graded, args)


@pytest.mark.parametrize(
    ("judge", "changes", "message"),
    [
        (lambda texts, **_: [[]], {}, "step_reward_func: expected steps for each of 8 completions, got 1"),
        (
            lambda texts, **_: [[(0, 99, 1.0)]] * len(texts),
            {},
            "step_reward_func, completion 0, step 0: expected a range within 0 and . characters, .* got 0 to 99",
        ),
        (
            lambda texts, **_: [[(0, 0, 1.0)] * 3] * len(texts),
            {"step_min_correct": [0.5, 0.5]},
            "step_min_correct: a rollout has 3 steps, got thresholds for 2; give one for all",
        ),
        (lambda texts, turns, **_: [[]] * len(texts), {"step_unit": "turns"}, "expected a reward for each of 1 turns"),
    ],
)
def test_what_the_function_may_not_return(tmp_path, judge, changes, message):
    run = trainer(tmp_path, judge=judge, **changes)
    with pytest.raises(DataError, match=message):
        run.train()


# Floors that separate nothing


@pytest.mark.parametrize(
    ("thresholds", "form", "message"),
    [
        (-1.0, "steps", "^steps: floor is inert: min_correct -1"),
        (2.0, "both", "^steps: floor is saturated: no reward exceeded min_correct 2"),
        ([-1.0, 0.6, 0.4, 0.4], "steps", "^step 0: floor is inert"),
    ],
)
def test_a_floor_that_separates_nothing_is_told(tmp_path, thresholds, form, message):
    with pytest.warns(FloorWarning, match=message):
        train(tmp_path, step_min_correct=thresholds, step_form=form, floor_check_steps=2)
