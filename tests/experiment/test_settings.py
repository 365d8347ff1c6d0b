from dataclasses import asdict, replace

import pytest

from corpo_rl.errors import UsageError
from corpo_rl.experiment.settings import (
    LATER,
    MINI,
    SMALL,
    check_methods,
    check_together,
    first_difference,
    settings_from_json,
)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": 0}, "--steps: expected at least 1"),
        ({"group_size": 1}, "a group of one has no peers"),
        ({"micro_batch": 100}, "expected a divisor of group size x prompts per step = 256"),
        ({"learning_rate": 0.0}, "above 0"),
        ({"temperature": -1.0}, "above 0"),
        (
            {"min_correct_schedule": "ramp:0:1:9"},
            r"--min-correct-schedule: 'ramp:0:1:9' ends at 1, .* add --min-correct 1",
        ),
        ({"group_selection": "best"}, r"--group-selection: expected one of all, .*, got 'best'"),
        (
            {"group_selection": "mixed", "on_deselected": "keep"},
            "--on-deselected: expected drop or resample, got 'keep'",
        ),
        ({"on_deselected": "drop"}, "nothing is deselected without --group-selection"),
        ({"k": 32}, r"pass@32 needs at least 32 samples per item, got --samples 16"),
    ],
)
def test_impossible_settings_are_refused(change, message):
    with pytest.raises(UsageError, match=message):
        replace(MINI, **change)


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        (("corpo", "ppo"), r"--methods: expected names among grpo, .*, psr, value, value_model, got ppo"),
        ((), "got nothing"),
        (("corpo", "corpo"), "each once"),
        (("qae=2",), "--methods: qae=2: the quantile is a share"),
        (("grpo+floor",), r"--methods: grpo\+floor: a floor cannot come before the group std"),
    ],
)
def test_bad_methods_are_named(methods, message):
    with pytest.raises(UsageError, match=message):
        check_methods(methods)


def test_composed_methods_and_learned_values_are_methods():
    check_methods(("qae=0.4+floor", "ngrpo=1", "corpo+phase", "value", "value_model"))


def test_a_learned_value_selects_no_groups():
    with pytest.raises(UsageError, match="a learned value takes every group; leave value out"):
        check_together(replace(MINI, group_selection="mixed"), ("corpo", "value"))
    check_together(MINI, ("corpo", "value"))


def test_a_device_that_nobody_knows_is_refused():
    with pytest.raises(UsageError, match="--device: expected cpu or cuda, got 'tpu'"):
        replace(MINI, device="tpu")


def test_settings_survive_their_file():
    for settings in (MINI, SMALL):
        assert settings_from_json(asdict(settings)) == settings


def test_an_experiment_of_an_earlier_version_is_the_same_experiment():
    earlier = {name: value for name, value in asdict(MINI).items() if name not in LATER}
    assert settings_from_json(earlier) == MINI
    assert first_difference(earlier, MINI) is None
    other = replace(MINI, group_selection="mixed")
    assert first_difference(earlier, other) == "group_selection is None there and 'mixed' here"


def test_the_first_difference_is_named():
    assert first_difference(asdict(MINI), MINI) is None
    assert first_difference(asdict(MINI), replace(MINI, steps=7)) == "steps is 100 there and 7 here"
    assert first_difference({}, MINI) == "task is None there and 'mini' here"
