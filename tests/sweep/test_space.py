from dataclasses import replace

import pytest

from corpo_rl.errors import UsageError
from corpo_rl.experiment.settings import MINI
from corpo_rl.sweep.space import Dimension, check_space, dimension_from_json, grid, parse_dimension, trial_settings

METHODS = Dimension("method", ("corpo", "static"))


def test_lists_and_ranges():
    assert parse_dimension("method", "corpo, qae=0.4+floor").choices == ("corpo", "qae=0.4+floor")
    assert parse_dimension("group_size", "4,8").choices == (4, 8)
    assert parse_dimension("min_correct", "-0.2,0.2").choices == (-0.2, 0.2)
    linear = parse_dimension("min_correct", "-1:1")
    assert (linear.low, linear.high, linear.log, linear.choices) == (-1.0, 1.0, False, ())
    assert parse_dimension("learning_rate", "1e-4:1e-2:log").log


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("method", "", r"--method: expected at least one value, each once"),
        ("method", "corpo,corpo", r"--method: expected at least one value, each once"),
        ("group_size", "4:8", r"--group-size: expected whole numbers"),
        ("group_size", "4.5", r"--group-size: expected whole numbers"),
        ("learning_rate", "fast", r"--learning-rate: expected a finite number"),
        ("learning_rate", "1e-3:inf", r"--learning-rate: expected a finite number"),
        ("learning_rate", "1e-3:1e-4", r"--learning-rate: expected a range LOW:HIGH with LOW under HIGH"),
        ("learning_rate", "1e-4:1e-3:cubic", r"--learning-rate: expected LOW:HIGH or LOW:HIGH:log"),
        ("min_correct", "-1:1:log", r"--min-correct: a logarithmic range begins above 0"),
    ],
)
def test_what_cannot_be_read_is_told(name, text, message):
    with pytest.raises(UsageError, match=message):
        parse_dimension(name, text)


@pytest.mark.parametrize("text", ["1e-4:1e-3:log", "1e-4,3e-4"])
def test_a_dimension_comes_back_from_its_file(text):
    dimension = parse_dimension("learning_rate", text)
    assert dimension_from_json(dimension.to_json()).to_json() == dimension.to_json()
    assert ("choices" in dimension.to_json()) == ("," in text)


def test_a_step_keeps_its_rollouts_or_its_prompts():
    # MINI: groups of 8, 32 prompts, so 256 rollouts a step
    _, four = trial_settings(MINI, {"method": "corpo", "group_size": 4}, hold="rollouts")
    assert (four.group_size, four.prompts_per_step, four.micro_batch) == (4, 64, 256)
    _, sixteen = trial_settings(MINI, {"method": "corpo", "group_size": 16}, hold="prompts")
    assert (sixteen.group_size, sixteen.prompts_per_step, sixteen.micro_batch) == (16, 32, 256)
    # 4 x 32 = 128 rollouts: a micro batch of 256 no longer divides them, 128 is the largest that does
    _, fewer = trial_settings(MINI, {"method": "corpo", "group_size": 4}, hold="prompts")
    assert (fewer.prompts_per_step, fewer.micro_batch) == (32, 128)


def test_everything_else_stays():
    method, found = trial_settings(
        MINI, {"method": "static", "learning_rate": 1e-2, "min_correct": 0.5}, hold="rollouts"
    )
    assert (method, found) == ("static", replace(MINI, learning_rate=1e-2, min_correct=0.5))


@pytest.mark.parametrize(
    ("dimension", "message"),
    [
        (Dimension("group_size", (8, 12)), r"--group-size: 12 does not divide the 256 rollouts of a step"),
        (Dimension("group_size", (1, 8)), r"--group-size: expected at least 2, got 1"),
        (Dimension("learning_rate", (1e-3, 0.0)), r"--learning-rate and --temperature: expected numbers above 0"),
        (Dimension("learning_rate", low=-1.0, high=1.0), r"--learning-rate and --temperature"),
    ],
)
def test_a_value_no_trial_could_have_is_refused_at_once(dimension, message):
    with pytest.raises(UsageError, match=message):
        check_space(MINI, [METHODS, dimension], hold="rollouts")


def test_unknown_methods_are_refused():
    with pytest.raises(UsageError, match="expected names among"):
        check_space(MINI, [Dimension("method", ("corpo", "corporal"))], hold="rollouts")
    check_space(MINI, [Dimension("method", ("corpo+batch_std", "value"))], hold="rollouts")


def test_a_grid_has_every_combination_once_and_needs_lists():
    found = list(grid([METHODS, Dimension("group_size", (4, 8, 16))]))
    assert len(found) == 6
    assert len({tuple(one.values()) for one in found}) == 6
    with pytest.raises(UsageError, match=r"--learning-rate: a grid needs values with commas"):
        list(grid([METHODS, Dimension("learning_rate", low=1e-4, high=1e-3)]))
