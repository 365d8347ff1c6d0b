"""That the trainers take TRL's arguments in TRL's order, so that a script is switched by its names alone."""

import inspect

import pytest
from trl import GRPOTrainer

from corpo_rl.training.components import ComponentsConfig, ComponentsTrainer
from corpo_rl.training.selection import SelectingConfig, SelectingTrainer
from corpo_rl.training.steps import StepConfig, StepTrainer
from corpo_rl.training.trl import CorpoConfig, CorpoTrainer
from corpo_rl.training.value import ValueConfig, ValueTrainer

from .support import graded, prompts, settings

pytestmark = [
    # transformers 5.24 renames its own setting, which TRL still sets
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*is deprecated:FutureWarning"),
]


@pytest.mark.parametrize(
    ("trainer", "config", "changes", "own"),
    [
        (CorpoTrainer, CorpoConfig, {}, {}),
        (ComponentsTrainer, ComponentsConfig, {"correctness": "graded"}, {}),
        (SelectingTrainer, SelectingConfig, {}, {}),
        (StepTrainer, StepConfig, {"step_min_correct": 0.5}, {"step_reward_func": graded}),
        (ValueTrainer, ValueConfig, {}, {}),
    ],
)
def test_positional_arguments_arrive_where_trl_has_them(trainer, config, changes, own, monkeypatch):
    theirs = inspect.signature(GRPOTrainer.__init__)
    names = [name for name, one in theirs.parameters.items() if one.kind is one.POSITIONAL_OR_KEYWORD][1:]
    assert names[:5] == ["model", "reward_funcs", "args", "train_dataset", "eval_dataset"]  # as scripts pass them

    class Stopped(Exception):
        """TRL was reached."""

    def stop(self, *given, **named):
        raise Stopped(theirs.bind(self, *given, **named).arguments)

    monkeypatch.setattr(GRPOTrainer, "__init__", stop)
    values = {name: object() for name in names}
    values["args"] = config(**settings("unused", min_correct=0.5, **changes))
    for n_positional in range(len(names) + 1):
        given, named = names[:n_positional], names[n_positional:]
        with pytest.raises(Stopped) as reached:
            trainer(*(values[name] for name in given), **{name: values[name] for name in named}, **own)
        arrived = dict(reached.value.args[0])
        del arrived["self"]
        assert arrived == values


def test_an_argument_given_twice_is_refused_by_name():
    config = CorpoConfig(**settings("unused", min_correct=0.5))
    with pytest.raises(TypeError, match="train_dataset"):
        CorpoTrainer("unused", graded, config, prompts(2), train_dataset=prompts(2))
