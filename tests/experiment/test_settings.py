from dataclasses import asdict, replace

import pytest

from corpo_rl.errors import UsageError
from corpo_rl.experiment.settings import MINI, SMALL, check_methods, first_difference, settings_from_json


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": 0}, "--steps: expected at least 1"),
        ({"group_size": 1}, "a group of one has no peers"),
        ({"micro_batch": 100}, "expected a divisor of group size x prompts per step = 256"),
        ({"learning_rate": 0.0}, "above 0"),
        ({"temperature": -1.0}, "above 0"),
        ({"k": 32}, r"pass@32 needs at least 32 samples per item, got --samples 16"),
    ],
)
def test_impossible_settings_are_refused(change, message):
    with pytest.raises(UsageError, match=message):
        replace(MINI, **change)


@pytest.mark.parametrize(
    ("methods", "message"),
    [(("corpo", "ppo"), "got ppo"), ((), "got nothing"), (("corpo", "corpo"), "each once")],
)
def test_bad_methods_are_named(methods, message):
    with pytest.raises(UsageError, match=message):
        check_methods(methods)


def test_settings_survive_their_file():
    for settings in (MINI, SMALL):
        assert settings_from_json(asdict(settings)) == settings


def test_the_first_difference_is_named():
    assert first_difference(asdict(MINI), MINI) is None
    assert first_difference(asdict(MINI), replace(MINI, steps=7)) == "steps is 100 there and 7 here"
    assert first_difference({}, MINI) == "task is None there and 'mini' here"
