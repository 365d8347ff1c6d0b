from dataclasses import replace

import pytest

from corpo_rl.errors import DataError, UsageError
from corpo_rl.experiment.inputs import fitting_items, load_task
from corpo_rl.experiment.settings import MINI

TASK = """
class Copy:
    name = "copy"
    min_correct = 1.0
    unparsable_reward = -1.0
    def items(self, split):
        return ["a", "b" * 40] if split in ("train", "ood") else []
    def prompt(self, item):
        return item
    def parse(self, completion):
        return completion
    def reward(self, item, answer):
        return float(item == answer)
    def measures(self, item, answer):
        return {}

class Half:
    name = "half"
"""


class Letters:
    """A policy as far as prompts go: a token per character."""

    def render(self, prompt):
        return prompt

    def tokenizer(self, prompts):
        return {"input_ids": [list(prompt) for prompt in prompts]}


@pytest.fixture
def task_file(tmp_path):
    path = tmp_path / "my_task.py"
    path.write_text(TASK)
    return path


def test_a_task_of_the_users_own(task_file, tmp_path):
    task = load_task(replace(MINI, task=f"{task_file}:Copy"), tmp_path)
    assert (task.name, task.min_correct) == ("copy", 1.0)
    assert load_task(replace(MINI, task=f"{task_file}:Copy", min_correct=0.5), tmp_path).min_correct == 0.5


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("{file}:Half", "is not a Task, it lacks min_correct, unparsable_reward, items"),
        ("{file}:None", "has no class"),
        ("nonsense", "expected mini, pairs or FILE.py:NAME"),
        ("/no/such.py:X", "expected mini, pairs or FILE.py:NAME"),
    ],
)
def test_what_is_no_task_is_told(task_file, tmp_path, spec, message):
    with pytest.raises(UsageError, match=message):
        load_task(replace(MINI, task=spec.format(file=task_file)), tmp_path)


def test_long_items_are_left_out_and_counted(task_file, tmp_path):
    task = load_task(replace(MINI, task=f"{task_file}:Copy"), tmp_path)
    items = fitting_items(task, Letters(), replace(MINI, max_prompt_tokens=10))
    assert items.by_split["train"] == ["a"]
    assert items.by_split["in_domain"] == []
    assert items.left_out == {"train": 1, "in_domain": 0, "ood": 1, "other_domain": 0}
    both = fitting_items(task, Letters(), replace(MINI, max_prompt_tokens=100, eval_items=1))
    assert both.by_split["train"] == ["a", "b" * 40]
    assert both.by_split["ood"] == ["a"], "eval_items cuts evaluation splits, never training"


def test_nothing_that_fits_is_refused(tmp_path):
    path = tmp_path / "my_task.py"
    path.write_text(TASK.replace('"a", ', ""))
    task = load_task(replace(MINI, task=f"{path}:Copy"), tmp_path)
    with pytest.raises(DataError, match=r"within 10 prompt tokens; 2 were too long \(--max-prompt-tokens\)"):
        fitting_items(task, Letters(), replace(MINI, max_prompt_tokens=10))
