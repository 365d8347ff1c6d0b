import json

from corpo_rl.study.collect import collect, results_text
from corpo_rl.study.plan import Run

from .made_up import PLAN, record, results_of


def test_counts_are_added_up_and_sizes_averaged():
    run = Run("pilot", "mini", "min_margin", "corpo", 0.2, 100)
    made = record(PLAN, run)
    made["series"]["up"] = list(range(24))
    made["series"]["failed_up"]["0.6"] = [1, 2] * 12
    made["series"]["update"] = [0.1, 0.2] * 12
    made["series"]["reward"] = [None, 0.5] + [0.25] * 22
    made["series"]["gradient"] = [0.5, 1.0, 1.5, None] + [0.5] * 20
    (found,) = collect(PLAN, [made], rates={}, n_planned=9)["runs"]
    assert found["series"]["up"] == [1, 5, 9, 13, 17, 21, 25, 29, 33, 37, 41, 45]  # 0+1, 2+3, ...
    assert found["series"]["failed_up"]["0.6"] == [3] * 12
    assert found["series"]["update"] == [0.15] * 12
    assert found["series"]["reward"] == [None] + [0.25] * 11, "half a mean is none"
    assert found["n_clipped"] == 1, "over 1, and 1 is not over 1"
    assert (found["method"], found["threshold"], found["seed"]) == ("corpo", 0.2, 100)


def test_environments_are_told_once():
    runs = PLAN.runs("pilot")[:3]
    made = [record(PLAN, run) for run in runs]
    made[1]["environment"] = {"machine": "arm64"}
    results = collect(PLAN, made, rates={}, n_planned=3)
    assert [run["environment"] for run in results["runs"]] == [0, 1, 0]
    assert [one["machine"] for one in results["environments"]] == ["x86_64", "arm64"]


def test_the_file_gives_back_the_results():
    results = results_of()
    text = results_text(results)
    assert json.loads(text) == json.loads(json.dumps(results))
    assert sum('"part":' in line for line in text.splitlines()) == len(results["runs"]), "a run a line"
    assert results["n_planned"] == len(results["runs"])
