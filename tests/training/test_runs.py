"""The reward function that a run hands to TRL: what it returns and logs, against a plain loop."""

from collections import defaultdict

import pytest

from corpo_rl.errors import ParseFailure, Unscorable
from corpo_rl.tasks.mini import MiniTask

pytest.importorskip("trl", reason="trains: needs corpo-rl[train]")

from corpo_rl.training.runs import _reward_function

TASK = MiniTask()
ITEMS = TASK.items("train")[:3]
COMPLETIONS = ["83;9,1", "", "83;5,5", "nonsense", "83;1,9", "83;0,10"]
INDICES = [0, 0, 1, 1, 2, 2]


class Logged:
    """What a reward function logs."""

    def __init__(self):
        self.extra, self.metrics = {}, defaultdict(list)

    def rewards(self, task, completions, indices=INDICES):
        return _reward_function(task, ITEMS)(
            completions=completions,
            item=indices,
            log_extra=lambda name, values: self.extra.update({name: values}),
            log_metric=lambda name, value: self.metrics[name].append(value),
            prompts=None,
            trainer_state=None,
        )


@pytest.mark.parametrize("chat", [False, True])
def test_rewards_and_figures_are_those_of_a_plain_loop(chat):
    logged = Logged()
    texts = [[{"role": "assistant", "content": text}] for text in COMPLETIONS] if chat else COMPLETIONS
    rewards = logged.rewards(TASK, texts)
    expected, hedges, kinds = [], [], []
    for index, text in zip(INDICES, COMPLETIONS, strict=True):
        try:
            answer = TASK.parse(text)
        except ParseFailure as failure:
            expected.append(-1.0)
            kinds.append(failure.kind)
            continue
        expected.append(TASK.reward(ITEMS[index], answer))
        hedges.append(TASK.measures(ITEMS[index], answer)["hedge"])
        kinds.append(None)
    assert rewards == expected
    assert logged.extra == {"item": INDICES, "parse_failure": kinds}
    assert logged.metrics["parse_failure_rate"] == [2 / 6]
    assert logged.metrics["task/hedge"] == [sum(hedges) / 4] == [1 / 4]
    assert set(logged.metrics) == {"parse_failure_rate", "task/hedge", "task/brier", "task/score_accuracy"}


class Breaking(MiniTask):
    """Its judge breaks down over every completion whose first score is over 4."""

    def reward(self, item, answer):
        if answer.a > 4:
            raise Unscorable("not_judged")
        return super().reward(item, answer)


def test_what_was_not_judged_is_none_and_in_no_figure():
    logged = Logged()
    rewards = logged.rewards(Breaking(), COMPLETIONS)
    assert [reward is None for reward in rewards] == [True, False, True, False, False, False]
    assert logged.extra["parse_failure"][0] == logged.extra["parse_failure"][2] == "not_judged"
    assert logged.metrics["parse_failure_rate"] == [2 / 4]
    assert logged.metrics["task/hedge"] == [0.0]


def test_a_batch_of_which_nothing_was_judged_has_no_figures():
    logged = Logged()
    assert logged.rewards(Breaking(), ["83;9,1"] * 6) == [None] * 6
    assert not logged.metrics


class Batched(MiniTask):
    """Graded by the batch."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def grade_many(self, items, completions):
        self.asked.append((list(items), list(completions)))
        from corpo_rl.tasks.base import grade

        return [grade(TASK, *pair) for pair in zip(items, completions, strict=True)]


def test_a_task_that_grades_batches_gets_the_whole_batch():
    task = Batched()
    assert Logged().rewards(task, COMPLETIONS) == Logged().rewards(TASK, COMPLETIONS)
    assert task.asked == [([ITEMS[index] for index in INDICES], COMPLETIONS)]
