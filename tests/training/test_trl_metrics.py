"""The adapter's metrics against plain loops over the completion log, and r_loss against a forward pass of its own."""

import math
import warnings
from collections import Counter

import pytest

from corpo_rl.errors import FloorWarning

from .support import (
    GROUP_SIZE,
    completion_log,
    logged,
    r_loss_by_hand,
    tenths,
    train,
)

pytestmark = [
    # transformers 5.24 renames its own setting, which TRL still sets
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*is deprecated:FutureWarning"),
]


def rows_of(batches):
    return [
        row
        for batch in batches
        for row in zip(batch.prompt_ids, batch.completion_ids, batch.advantages.tolist(), strict=True)
    ]


@pytest.mark.parametrize("estimator", ["corpo", "grpo", "static"])
def test_r_loss_is_the_ratio_of_losses_before_the_update(tmp_path, estimator):
    run = train(tmp_path, advantage_estimator=estimator, gradient_accumulation_steps=2, max_steps=1)
    rows = rows_of(run.generations)
    assert len(rows) == 16
    assert logged(run, 1)["corpo/r_loss"] == pytest.approx(r_loss_by_hand(rows), rel=1e-5)


def test_r_loss_leaves_out_what_the_loss_masks(tmp_path):
    run = train(tmp_path, mask_truncated_completions=True, gradient_accumulation_steps=2, max_steps=1)
    rows = rows_of(run.generations)
    assert 0 < sum(completion_ids == [] for _, completion_ids, _ in rows) < 16
    assert logged(run, 1)["corpo/r_loss"] == pytest.approx(r_loss_by_hand(rows), rel=1e-5)


def test_r_loss_covers_all_rollouts_since_the_last_log(tmp_path):
    # With a learning rate of 0 the policy of both steps is the first one.
    run = train(tmp_path, learning_rate=0.0, logging_steps=2)
    rows = rows_of(run.generations)
    assert len(rows) == 16
    assert logged(run, 2)["corpo/r_loss"] == pytest.approx(r_loss_by_hand(rows), rel=1e-5)


def test_r_loss_of_reused_completions_is_under_the_policy_of_the_step(tmp_path):
    # The second step sees the completions of the first one again, after an update; TRL keeps their old
    # log-probabilities as well.
    both = {"num_iterations": 2, "gradient_accumulation_steps": 2, "lr_scheduler_type": "constant"}
    both["learning_rate"] = 1e-2  # enough for the policies of the two steps to differ
    after_one = train(tmp_path / "one", max_steps=1, **both)
    run = train(tmp_path / "two", max_steps=2, **both)
    rows = rows_of(run.generations)
    at_first, at_second = r_loss_by_hand(rows), r_loss_by_hand(rows, after_one.model)
    assert at_first != pytest.approx(at_second, rel=1e-2)
    assert logged(run, 1)["corpo/r_loss"] == pytest.approx(at_first, rel=1e-5)
    assert logged(run, 2)["corpo/r_loss"] == pytest.approx(at_second, rel=1e-4)


def test_metrics_are_those_of_plain_loops_over_the_log(tmp_path):
    run = train(tmp_path, gradient_accumulation_steps=4, max_steps=3)
    n_failures_that_grpo_pushes_up = 0
    for step in (1, 2, 3):
        table = completion_log(tmp_path, step)
        groups = {}
        for name, completion, advantage in zip(
            table["corpo_group"], table["completion"], table["advantage"], strict=True
        ):
            groups.setdefault(name, []).append((tenths(completion), advantage))
        assert [len(group) for group in groups.values()] == [GROUP_SIZE] * 8

        # In whole tenths, so that no rounding takes part: 4 is min_correct, a group's sum is 4 times its mean.
        failed = up = down = failed_up = failed_up_grpo = floored = correct = exceeding = 0
        classes = Counter()
        for group in groups.values():
            total = sum(value for value, _ in group)
            floored += total < 4 * GROUP_SIZE
            n_failed = sum(value < 4 for value, _ in group)
            equal = len({value for value, _ in group}) == 1
            classes[
                "mixed"
                if 0 < n_failed < GROUP_SIZE
                else ("all_failed_" if n_failed else "all_correct_") + ("equal" if equal else "graded")
            ] += 1
            for value, advantage in group:
                failed += value < 4
                correct += value >= 4
                exceeding += value > 4
                up += advantage > 1e-6
                down += advantage < -1e-6
                failed_up += value < 4 and advantage > 1e-6
                failed_up_grpo += value < 4 and value * GROUP_SIZE > total

        n_failures_that_grpo_pushes_up += failed_up_grpo
        expected = {
            "reinforced_failure_share": failed_up / failed,
            "reinforced_failure_share_grpo": failed_up_grpo / failed,
            "r_count": up / down,
            "floored_group_share": floored / 8,
            "correct_share": correct / 32,
            "exceeding_share": exceeding / 32,
            "unscorable": 0,
            "advantage_mean": table["advantage"].mean(),
            "advantage_abs_mean": table["advantage"].abs().mean(),
        } | {
            f"groups/{name}": classes[name] / 8
            for name in (
                "all_failed_equal",
                "all_failed_graded",
                "mixed",
                "all_correct_graded",
                "all_correct_equal",
                "unscorable",
            )
        }
        actual = {
            name.removeprefix("corpo/"): value for name, value in logged(run, step).items() if name.startswith("corpo/")
        }
        assert actual.pop("r_loss") < 0
        assert actual == pytest.approx(expected, abs=1e-6)
    assert n_failures_that_grpo_pushes_up > 0


def test_under_grpo_the_failures_pushed_up_are_those_of_grpo(tmp_path):
    run = train(
        tmp_path,
        reward=lambda completions, **_: [0.0, 0.1, 0.3, 1.0] * (len(completions) // 4),
        advantage_estimator="grpo",
        min_correct=0.5,
        max_steps=1,
    )
    assert logged(run, 1)["corpo/reinforced_failure_share"] == 0.0  # the mean is 0.35: only 1.0 is over it

    run = train(
        tmp_path,
        reward=lambda completions, **_: [0.0, 0.1, 0.3, 0.4] * (len(completions) // 4),
        advantage_estimator="grpo",
        min_correct=0.5,
        max_steps=1,
    )
    assert logged(run, 1)["corpo/reinforced_failure_share"] == 0.5  # the mean is 0.2: 0.3 and 0.4 are over it
    assert logged(run, 1)["corpo/reinforced_failure_share_grpo"] == 0.5


def test_undefined_is_not_logged_as_a_number(tmp_path):
    # All rewards are 1: no failure, nothing pushed down.
    run = train(tmp_path, reward=lambda completions, **_: [1.0] * len(completions), max_steps=1)
    entry = logged(run, 1)
    for name in ("r_loss", "r_count", "reinforced_failure_share", "reinforced_failure_share_grpo"):
        assert entry[f"corpo/{name}"] is None, name
    assert entry["corpo/groups/all_correct_equal"] == 1.0


def test_an_undefined_step_does_not_spoil_the_mean_of_the_others(tmp_path):
    def only_at_first(completions, trainer_state, **_):
        return [0.1 * (row % 4) if trainer_state.global_step == 0 else 1.0 for row in range(len(completions))]

    run = train(tmp_path, reward=only_at_first, logging_steps=2)
    assert logged(run, 2)["corpo/reinforced_failure_share_grpo"] == 0.5  # of 0, .1, .2, .3 the upper two
    assert logged(run, 2)["corpo/correct_share"] == 0.5
    assert not any(isinstance(value, float) and math.isnan(value) for value in logged(run, 2).values())


def floor_warnings(tmp_path, **changes):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", FloorWarning)
        train(tmp_path, floor_check_steps=2, **changes)
    return [str(warning.message) for warning in caught]


def test_an_inert_floor_is_told_once(tmp_path):
    (message,) = floor_warnings(tmp_path, min_correct=-0.5, max_steps=5)
    assert message.startswith("corpo: floor is inert: min_correct -0.5 was at or under every group's mean in the last")


def test_a_saturated_floor_is_told_once(tmp_path):
    (message,) = floor_warnings(tmp_path, advantage_estimator="loo_corpo", min_correct=1.0, max_steps=5)
    assert message.startswith("loo_corpo: floor is saturated: no reward exceeded min_correct 1 in the last 2 batches")


def test_a_floor_left_behind_is_told_once(tmp_path):
    def solved_after_a_step(completions, trainer_state, **_):
        return [float(trainer_state.global_step > 0)] * len(completions)

    (message,) = floor_warnings(tmp_path, reward=solved_after_a_step, max_steps=5)
    assert message.startswith("corpo: floor no longer binds: every group's mean was at or over min_correct 0.4")


@pytest.mark.parametrize(
    "changes",
    [
        # Groups of mean 0.35, under the floor, and with a reward over it.
        {"reward": lambda completions, **_: [0.0, 0.1, 0.3, 1.0] * (len(completions) // 4)},
        {"min_correct": -0.5, "advantage_estimator": "dr_grpo"},  # has no floor
        {"reward": lambda completions, **_: [None] * len(completions)},  # says nothing about the floor
    ],
)
def test_nothing_is_told_where_there_is_nothing_to_tell(tmp_path, changes):
    assert floor_warnings(tmp_path, max_steps=4, **changes) == []
