"""The floor on correctness in TRL: the advantages that are trained on, the figures, the log and its audit."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from transformers import HfArgumentParser

from corpo_rl.cli.main import cli
from corpo_rl.core.advantages import dr_grpo_advantages, grpo_advantages, rloo_advantages
from corpo_rl.core.components import component_advantages, plain_lifts
from corpo_rl.errors import UsageError
from corpo_rl.policies.mini import build_tokenizer, new_model
from corpo_rl.training.components import ComponentsConfig, ComponentsTrainer
from corpo_rl.training.trl import CorpoConfig

from .support import GROUP_SIZE, Recorded, completion_log, graded, logged, prompts, settings, tenths

pytestmark = [
    # transformers 5.24 renames its own setting, which TRL still sets
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*is deprecated:FutureWarning"),
]

MIN_CORRECT = 0.7
WEIGHTS = [0.5, 1.0, -0.1]


class RecordedComponents(Recorded, ComponentsTrainer):
    pass


def even(completions, **_):
    """A form that has nothing to do with `graded`: 1 for texts of even length."""
    return [1.0 - len(text) % 2 for text in completions]


def characters(completions, **_):
    return [float(len(text)) for text in completions]


FUNCTIONS = [even, graded, characters]


def train(folder, *, functions=FUNCTIONS, weights=WEIGHTS, **changes):
    args = {"correctness": "graded", "min_correct": MIN_CORRECT, "reward_weights": weights} | changes
    run = RecordedComponents(
        model=new_model(0),
        reward_funcs=functions,
        args=ComponentsConfig(**settings(folder, **args)),
        train_dataset=prompts(16),
        processing_class=build_tokenizer(),
    )
    run.train()
    return run


def rewards_of(table):
    """Components of a completion log by the reward functions themselves. Shape [N, F]."""
    texts = table["completion"].tolist()
    return np.column_stack([even(texts), [tenths(text) / 10 for text in texts], characters(texts)])


def groups_of(table):
    return np.arange(len(table)) // GROUP_SIZE


def floored(rewards, groups):
    return component_advantages(
        rewards, groups, weights=WEIGHTS, correctness=1, min_correct=MIN_CORRECT, unscorable="exclude"
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run under each rule, of three steps of sixteen rollouts."""
    folder = tmp_path_factory.mktemp("runs")
    estimators = ("corpo", "grpo", "dr_grpo", "rloo")
    return {
        name: (
            folder / name,
            train(folder / name, advantage_estimator=name, per_device_train_batch_size=16, max_steps=3),
        )
        for name in estimators
    }


def test_advantages_that_reach_the_loss_and_the_log_are_those_of_core(runs):
    folder, run = runs["corpo"]
    for step, batch in enumerate(run.generations, start=1):
        table = completion_log(folder, step)
        expected = floored(rewards_of(table), groups_of(table))
        assert len(set(expected.round(6))) > 8, "the batch must tell rules apart"
        np.testing.assert_allclose(batch.advantages, expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(table["advantage"], expected, rtol=1e-5, atol=1e-6)
        (loss,) = [part for part in run.losses if part.step == step - 1]
        assert sorted(loss.advantages) == sorted(batch.advantages)
        assert table["corpo_correct"].tolist() == [float(reward >= 0.7) for reward in rewards_of(table)[:, 1]]


@pytest.mark.parametrize(
    ("name", "estimator"), [("grpo", grpo_advantages), ("dr_grpo", dr_grpo_advantages), ("rloo", rloo_advantages)]
)
def test_the_others_see_the_plain_weighted_sum(runs, name, estimator):
    folder, _ = runs[name]
    table = completion_log(folder, 1)
    expected = estimator(rewards_of(table) @ WEIGHTS, groups_of(table))
    np.testing.assert_allclose(table["advantage"], expected, rtol=1e-4, atol=1e-5)


def test_figures_are_about_correctness(runs):
    lifted = 0
    for name in ("corpo", "dr_grpo"):
        folder, run = runs[name]
        for step in (1, 2, 3):
            table, found = completion_log(folder, step), logged(run, step)
            rewards, groups = rewards_of(table), groups_of(table)
            failed = rewards[:, 1] < 0.7
            plain = plain_lifts(rewards, groups, weights=WEIGHTS, correctness=1, min_correct=0.7)
            lifted += plain.n_lifted
            assert found["corpo/correct_share"] == pytest.approx(1 - failed.mean())
            assert found["corpo/reinforced_failure_share_grpo"] == pytest.approx(plain.n_lifted / failed.sum())
            assert found["corpo/reinforced_failure_share"] == pytest.approx(
                0.0 if name == "corpo" else plain.n_lifted / failed.sum()
            )
            assert found["corpo/components/plain_lifted"] == plain.n_lifted
            for function, n in zip(("even", "graded", "characters"), plain.n_lifted_by_C, strict=True):
                assert found[f"corpo/components/plain_lifted_by/{function}"] == n
                assert found[f"corpo/components/missing/{function}"] == 0
    assert lifted > 0, "the runs must hold failures that a weighted sum lifts"


def audit(folder, *correct):
    names = ("even", "graded", "characters")
    weights = ",".join(f"{name}={weight}" for name, weight in zip(names, WEIGHTS, strict=True))
    correct = correct or ("--correct-column", "corpo_correct")
    arguments = ["--reward-weights", weights, *correct, "--format", "json"]
    result = CliRunner().invoke(cli, ["audit", str(folder / "completions"), *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_the_audit_of_both_logs_says_what_was_lifted_and_by_what(runs):
    found = audit(runs["corpo"][0])
    assert found["n_failed"] > 10
    assert found["n_reinforced_failures"] == 0

    folder, run = runs["dr_grpo"]
    found = audit(folder)
    steps = [logged(run, step) for step in (1, 2, 3)]
    assert found["n_reinforced_failures"] == sum(step["corpo/components/plain_lifted"] for step in steps) > 0
    assert {row["name"]: row["n_reinforced_by_it"] for row in found["components"]} == {
        name: sum(step[f"corpo/components/plain_lifted_by/{name}"] for step in steps)
        for name in ("even", "graded", "characters")
    }


def test_the_audit_needs_no_column_of_ours(runs):
    folder, _ = runs["dr_grpo"]
    ours, component = audit(folder), audit(folder, "--correct-component", "graded=0.7")
    for name in ("n_failed", "n_correct", "n_reinforced_failures", "components"):
        assert component[name] == ours[name]


def test_none_of_correctness_is_unscorable_and_none_of_another_is_counted(tmp_path):
    def some_even(completions, **_):
        return [None if row % 3 == 0 else value for row, value in enumerate(even(completions))]

    def solved(completions, **_):
        return [None if row % 4 == 1 else value for row, value in enumerate(graded(completions))]

    run = train(tmp_path, functions=[some_even, solved, characters], correctness="solved", max_steps=1)
    table = completion_log(tmp_path, 1)
    rewards = rewards_of(table)
    rewards[::3, 0], rewards[1::4, 1] = np.nan, np.nan  # 8 rows: rows 0, 3, 6 and rows 1, 5
    np.testing.assert_allclose(table["advantage"], floored(rewards, groups_of(table)), rtol=1e-5, atol=1e-6)
    assert (table["advantage"][[1, 5]] == 0).all()
    assert pd.isna(table["corpo_correct"]).tolist() == [row in (1, 5) for row in range(8)]
    assert logged(run, 1)["corpo/unscorable"] == 2
    assert logged(run, 1)["corpo/components/missing/some_even"] == 3
    assert logged(run, 1)["corpo/components/missing/solved"] == 0


def test_a_correct_rollout_at_its_baseline_has_no_sign(tmp_path):
    # As float32 the mean of 1/12, 2/12 and 3/12 is not 2/12; all four are correct, so only form tells them apart.
    def form(completions, **_):
        return [1 / 12, 2 / 12, 2 / 12, 3 / 12] * (len(completions) // 4)

    def solved(completions, **_):
        return [0.7] * len(completions)

    run = train(tmp_path, functions=[form, solved], weights=[1.0, 1.0], correctness="solved", max_steps=1)
    np.testing.assert_array_equal(np.sign(run.generations[0].advantages), [-1, 0, 0, 1] * 2)
    assert logged(run, 1)["corpo/correct_share"] == 1.0


def test_a_failure_by_the_last_digit_of_float32_is_still_pushed_down(tmp_path):
    def solved(completions, **_):
        return [float(np.nextafter(np.float32(1000), np.float32(0)))] * len(completions)

    run = train(
        tmp_path, functions=[even, solved], weights=[0.0, 1.0], correctness="solved", min_correct=1000, max_steps=1
    )
    assert (run.generations[0].advantages < 0).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"correctness": None}, r"correctness: expected the name of the reward function .*, got none; pass Components"),
        ({"correctness": ""}, r"correctness: expected the name of the reward function .*, got none"),
        ({"min_correct": None}, r"min_correct: expected the least reward of graded .*, got none; .* of that function"),
        (
            {"advantage_estimator": "loo_corpo"},
            r"advantage_estimator: expected corpo, or to compare one of grpo, dr_grpo, rloo .*, got 'loo_corpo'",
        ),
        ({"scale_rewards": "group"}, r"scale_rewards: corpo divides by nothing, got 'group'"),
        ({"multi_objective_aggregation": "normalize_then_sum"}, r"multi_objective_aggregation: 'normalize_then_sum'"),
    ],
)
def test_refused_settings(changes, message):
    with pytest.raises(UsageError, match=message) as caught:
        ComponentsConfig(**settings("unused", **({"correctness": "graded", "min_correct": 0.5} | changes)))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("functions", "changes", "message"),
    [
        (FUNCTIONS, {"correctness": "solved"}, "correctness: .* got 'solved' with functions even, graded, characters"),
        ([even, graded, graded], {}, "correctness: .* got 'graded' with functions even, graded, graded"),
        ([even, even, graded], {}, "correctness: .* each with a name of its own, .* functions even, even, graded"),
        (FUNCTIONS, {"reward_weights": [1.0, 0.0, 1.0]}, "reward_weights: .* above 0 for graded, .* got 0"),
        (FUNCTIONS, {"reward_weights": [1.0, -1.0, 1.0]}, "reward_weights: .* above 0 for graded, .* got -1"),
    ],
)
def test_refused_functions(tmp_path, functions, changes, message):
    with pytest.raises(UsageError, match=message) as caught:
        train(tmp_path, functions=functions, **changes)
    assert "\n" not in str(caught.value)


def test_a_config_of_the_plain_trainer_is_refused():
    with pytest.raises(UsageError, match="args: expected a ComponentsConfig, got CorpoConfig; it says which reward"):
        ComponentsTrainer(model="unused", reward_funcs=graded, args=CorpoConfig(**settings("unused", min_correct=0.5)))


def test_flags_of_a_command_line():
    flags = "--output_dir unused --use_cpu true --bf16 false --min_correct 0.5 --correctness graded"
    (config,) = HfArgumentParser(ComponentsConfig).parse_args_into_dataclasses(flags.split())
    assert (config.correctness, config.min_correct, config.advantage_estimator) == ("graded", 0.5, "corpo")
