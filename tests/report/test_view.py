import math

import pytest

from corpo_rl.report.view import (
    BASE,
    interval,
    level_text,
    measure,
    measures,
    method_names,
    number,
    percent,
    place,
    reference,
    split_names,
)

from .synthetic import make_hostile, make_results


def test_methods_keep_the_order_of_the_settings_and_none_is_lost():
    results = make_results(("static", "corpo", "grpo"))
    results["settings"]["methods"] = ["corpo", "static", "never_run"]
    assert method_names(results) == ["corpo", "static", "never_run", "grpo"]


def test_splits_come_in_report_order_with_unknown_ones_last():
    results = make_results()
    results["splits"] = {"novel": {"title": "new tasks"}} | dict(reversed(results["splits"].items()))
    assert split_names(results) == ["in_domain", "ood", "other_domain", "novel"]
    assert place(results, "ood") == "out of domain"
    assert place(results, "novel") == "on new tasks"


def test_null_is_undefined_and_not_zero():
    found = interval({"value": None, "low": None, "high": 0.5})
    assert math.isnan(found.value)
    assert math.isnan(found.low)
    assert found.high == 0.5
    assert number(found.value) == percent(found.value) == "n/a"


def test_what_is_missing_is_undefined():
    results = make_hostile()
    method = results["settings"]["methods"][1]
    assert math.isnan(measure(results, method, "other_domain", "pass@1").value)
    assert math.isnan(measure(results, "no such method", "ood", "pass@1").value)
    assert math.isnan(measure(results, BASE, "ood", "no such measure").value)


@pytest.mark.parametrize(
    ("value", "text"),
    # Python would round 0.005 to none and 0.995 to all
    [(0.0, "0 %"), (1e-9, "<1 %"), (0.005, "<1 %"), (0.183, "18 %"), (0.995, ">99 %"), (1.0, "100 %")],
)
def test_percent_never_rounds_some_to_none_or_to_all(value, text):
    assert percent(value) == text


def test_pass_at_k_is_named_by_the_settings_and_not_repeated():
    results = make_results()
    results["settings"]["k"] = 4
    assert [column.key for column in measures(results)][:2] == ["pass@1", "pass@4"]
    results["settings"]["k"] = 1
    assert [column.key for column in measures(results)][:2] == ["pass@1", "mean_reward"]


def test_columns_are_those_that_were_measured():
    shared = ["pass@1", "pass@16", "mean_reward"]
    verifier = ["brier", "score_accuracy", "hedge_rate"]
    results = make_results(("grpo",))
    assert [column.key for column in measures(results)] == [*shared, *verifier, "parse_failure_rate"]
    for found in [*results["base"]["evaluation"].values(), *results["methods"]["grpo"]["evaluation"].values()]:
        found["measures"] = {key: value for key, value in found["measures"].items() if key not in verifier}
    results["methods"]["grpo"]["evaluation"]["ood"]["measures"]["tests_passed"] = {"value": 1, "low": 1, "high": 1}
    columns = measures(results)
    assert [column.key for column in columns] == [*shared, "tests_passed", "parse_failure_rate"]
    assert columns[3].label == "tests passed"
    results["base"]["evaluation"], results["methods"] = {}, {}
    assert [column.key for column in measures(results)] == [*shared, *verifier, "parse_failure_rate"], "nothing yet"


def test_level_and_reference():
    results = make_results()
    results["settings"]["level"] = 0.9
    assert level_text(results) == "90 %"
    assert reference(results) == "grpo"
    del results["settings"]["reference"]
    assert reference(results) is None
