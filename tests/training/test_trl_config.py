"""What `CorpoConfig` and `CorpoTrainer` accept and refuse."""

import pytest
from transformers import HfArgumentParser
from trl import GRPOConfig

from corpo_rl.core.advantages import ESTIMATORS
from corpo_rl.errors import UsageError
from corpo_rl.training.trl import CorpoConfig, CorpoTrainer

from .support import graded, settings

pytestmark = [
    # transformers 5.24 renames its own setting, which TRL still sets
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*is deprecated:FutureWarning"),
]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"advantage_estimator": "copro"}, r"advantage_estimator: expected one of grpo, .*corpo, .* got 'copro'"),
        (
            {"min_correct": None},
            r"min_correct: expected .* got None; pass CorpoConfig.*, on a command line --min_correct,",
        ),
        ({"min_correct": float("nan")}, r"min_correct: expected the least reward .* got nan"),
        ({"min_correct": float("inf")}, r"min_correct: expected the least reward .* got inf"),
        ({"floor_check_steps": 0}, r"floor_check_steps: expected at least 1, got 0"),
        (
            {"multi_objective_aggregation": "normalize_then_sum"},
            r"multi_objective_aggregation: 'normalize_then_sum' .* use 'sum_then_normalize' with reward_weights",
        ),
        ({"scale_rewards": "group"}, r"scale_rewards: corpo divides by nothing, got 'group'; .*'none' .*would explode"),
        ({"scale_rewards": "batch"}, r"scale_rewards: corpo divides by nothing, got 'batch'"),
        ({"scale_rewards": True}, r"scale_rewards: corpo divides by nothing, got True"),
        ({"advantage_estimator": "loo_corpo", "scale_rewards": "group"}, r"scale_rewards: loo_corpo .*would explode"),
        ({"advantage_estimator": "dr_grpo", "scale_rewards": "group"}, r"scale_rewards: dr_grpo divides by nothing"),
        ({"advantage_estimator": "grpo", "scale_rewards": "none"}, r"scale_rewards: grpo divides by the group std"),
    ],
)
def test_refused(changes, message):
    with pytest.raises(UsageError, match=message) as caught:
        CorpoConfig(**settings("unused", **({"min_correct": 0.5} | changes)))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_scaling_follows_the_estimator(estimator):
    expected = "group" if estimator == "grpo" else "none"
    for given in (None, expected, expected == "group"):
        changes = {"min_correct": 0.5, "advantage_estimator": estimator, "scale_rewards": given}
        assert CorpoConfig(**settings("unused", **changes)).scale_rewards == expected


def test_a_config_without_our_fields_is_refused():
    with pytest.raises(UsageError, match=r"args: expected a CorpoConfig, got GRPOConfig; it adds min_correct"):
        CorpoTrainer(model="unused", reward_funcs=graded, args=GRPOConfig(**settings("unused")))
    with pytest.raises(UsageError, match=r"args: expected a CorpoConfig, got NoneType"):
        CorpoTrainer(model="unused", reward_funcs=graded)


def test_flags_of_a_command_line():
    flags = "--output_dir unused --use_cpu true --bf16 false --min_correct -0.25 --advantage_estimator loo_corpo"
    (config,) = HfArgumentParser(CorpoConfig).parse_args_into_dataclasses(
        [*flags.split(), "--scale_rewards", "none", "--floor_check_steps", "7", "--num_generations", "4"]
    )
    assert (config.min_correct, config.advantage_estimator, config.scale_rewards) == (-0.25, "loo_corpo", "none")
    assert (config.floor_check_steps, config.num_generations) == (7, 4)


def test_a_flag_left_out_is_named():
    with pytest.raises(UsageError, match="min_correct"):
        HfArgumentParser(CorpoConfig).parse_args_into_dataclasses(["--output_dir", "unused", "--bf16", "false"])
