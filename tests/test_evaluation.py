import json
from math import comb

import numpy as np
import pytest

from corpo_rl.errors import DataError, Unscorable
from corpo_rl.evaluation import evaluate, measure_values, summarize, table_from_json, table_to_json
from corpo_rl.records import VerifierItem
from corpo_rl.tasks.base import grade
from corpo_rl.tasks.mini import MiniTask


def scripted(answers):
    """A sampler that gives item i the completions answers[i]."""
    return lambda prompts, n: [list(row) for row in answers]


def item(number, label_a, label_b):
    return VerifierItem(str(number), "1+2", "3", "4", label_a, label_b, "sums", "in_domain")


ITEMS = [item(0, 1, 0), item(1, 0, 1)]
# Item 0 wants a high and a low score. Rewards: 9,1 -> min(.8, .8); 5,5 -> 0; 9,9 -> min(.8, -.8); the last: unparsable.
# Item 1 wants a low and a high score: all four completions are wrong or do not parse.
ANSWERS = [["3;9,1", "3;5,5", "3;9,9", "nonsense"], ["3;9,1", "", "3;11,1", "3;5,5"]]


@pytest.fixture
def table():
    return evaluate(MiniTask(), "in_domain", scripted(ANSWERS), n_samples=4, items=ITEMS)


def test_counts_by_hand(table):
    assert table.n_correct == [1, 0]
    assert table.n_parsed == [3, 2]
    assert table.reward_sum == pytest.approx([0.8 + 0.0 - 0.8 - 1.0, -0.8 - 1.0 - 1.0 + 0.0])
    assert sum(table.parse_failures.values()) == 3
    assert table.measure_sums["hedge"] == [1.0, 1.0]


def test_values_by_hand(table):
    values = measure_values([table], ks=(1, 2, 5))
    np.testing.assert_allclose(values["pass@1"], [[1 / 4, 0]])
    np.testing.assert_allclose(values["pass@2"], [[1 - comb(3, 2) / comb(4, 2), 0]])
    assert np.isnan(values["pass@5"]).all(), "5 cannot be drawn from 4 samples"
    np.testing.assert_allclose(values["hedge_rate"], [[1 / 3, 1 / 2]])
    np.testing.assert_allclose(values["parse_failure_rate"], [[1 / 4, 2 / 4]])
    # Brier of item 0: ((.9-1)^2 + (.1-0)^2)/2 = .01; 5,5: .25; 9,9: (.01 + .81)/2 = .41; mean of the three parsed
    np.testing.assert_allclose(values["brier"][0, 0], (0.01 + 0.25 + 0.41) / 3)


def test_an_item_without_a_parsed_completion_is_undefined_not_zero():
    table = evaluate(MiniTask(), "in_domain", scripted([["x", "y"], ["3;9,1", "3;1,9"]]), n_samples=2, items=ITEMS)
    brier_SI = measure_values([table], ks=(1,))["brier"]
    assert np.isnan(brier_SI[0, 0])
    summary = summarize([table], ks=(1,))
    assert summary["measures"]["brier"]["value"] == pytest.approx(brier_SI[0, 1])


def test_a_seed_whose_completions_never_parse_does_not_shift_the_others():
    good = evaluate(MiniTask(), "in_domain", scripted([["3;9,1"], ["3;1,9"]]), n_samples=1, items=ITEMS)
    mute = evaluate(MiniTask(), "in_domain", scripted([["x"], ["x"]]), n_samples=1, items=ITEMS)
    values = measure_values([mute, good], ks=(1,))
    assert values["brier"].shape == (2, 2)
    assert np.isnan(values["brier"][0]).all()
    np.testing.assert_allclose(values["brier"][1], [0.01, 0.01])
    assert summarize([mute, good], ks=(1,))["measures"]["parse_failure_rate"]["value"] == 0.5


class Breaking(MiniTask):
    """The mini task whose judge breaks down over every completion that scores a 7."""

    def reward(self, item, answer):
        if 7 in (answer.a, answer.b):
            raise Unscorable("not_judged")
        return super().reward(item, answer)


def test_what_was_not_judged_is_counted_and_in_no_figure():
    answers = [["3;9,1", "3;7,1", "3;5,5", "nonsense"], ["3;7,9", "3;7,1", "3;1,7", "3;7,7"]]
    table = evaluate(Breaking(), "in_domain", scripted(answers), n_samples=4, items=ITEMS)
    assert table.unscorable == {"not_judged": 5}
    assert (table.n_samples, table.n_correct, table.n_parsed) == ([3, 0], [1, 0], [2, 0])
    assert sum(table.parse_failures.values()) == 1
    values = measure_values([table], ks=(1, 3, 4))
    np.testing.assert_allclose(values["pass@1"], [[1 / 3, np.nan]])
    np.testing.assert_allclose(values["pass@3"], [[1, np.nan]])
    assert np.isnan(values["pass@4"]).all(), "3 were judged"
    np.testing.assert_allclose(values["mean_reward"], [[(0.8 + 0 - 1) / 3, np.nan]])
    np.testing.assert_allclose(values["parse_failure_rate"], [[1 / 3, np.nan]])
    np.testing.assert_allclose(values["hedge_rate"], [[1 / 2, np.nan]])
    summary = summarize([table, table], ks=(1,))
    assert summary["unscorable"] == {"not_judged": 10}
    assert summary["n_samples"] == 6
    assert summary["measures"]["pass@1"]["value"] == pytest.approx(1 / 3)
    assert table_from_json(json.loads(json.dumps(table_to_json(table)))) == table


def test_a_table_of_an_earlier_version_is_read_and_a_summary_has_no_empty_count(table):
    earlier = {name: value for name, value in table_to_json(table).items() if name != "unscorable"}
    assert table_from_json(earlier) == table
    assert "unscorable" not in summarize([table], ks=(1,))


class Recounting(MiniTask):
    """The mini task, graded by the batch, with every item and completion it was asked about."""

    def __init__(self):
        super().__init__()
        self.batches = []

    def grade_many(self, items, completions):
        self.batches.append(list(zip(items, completions, strict=True)))
        return [grade(MiniTask(), *pair) for pair in self.batches[-1]]


def test_a_task_that_grades_batches_gets_all_completions_at_once(table):
    task = Recounting()
    assert evaluate(task, "in_domain", scripted(ANSWERS), n_samples=4, items=ITEMS) == table
    (batch,) = task.batches
    assert batch == [(ITEMS[row], text) for row in (0, 1) for text in ANSWERS[row]]


def test_a_sampler_that_returns_too_little_is_refused():
    with pytest.raises(DataError, match="did not return 4 completions"):
        evaluate(MiniTask(), "in_domain", scripted([["3;9,1"], ["3;9,1"]]), n_samples=4, items=ITEMS)


def test_an_empty_split_is_refused():
    with pytest.raises(DataError, match="expected at least one item"):
        evaluate(MiniTask(), "in_domain", scripted([]), n_samples=1, items=[])


def test_a_table_survives_its_file(table):
    assert table_from_json(json.loads(json.dumps(table_to_json(table)))) == table
