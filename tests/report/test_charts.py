import json
import re
from importlib.resources import files

import pytest

from corpo_rl.report.charts import CLASSES, DASHES, KNOWN_METHODS, N_STYLES, SYMBOLS, sections, styles
from corpo_rl.report.view import method_names

from .synthetic import HOSTILE, make_hostile, make_results

METHODS = ("grpo", "dr_grpo", "static", "corpo", "loo_corpo")


def charts(results):
    return {chart.chart_id: chart for section in sections(results) for chart in section.charts}


def lines(chart):
    """Traces that are a run's values, without the bands."""
    return [trace for trace in chart.figure["data"] if trace.get("fill") != "toself"]


def test_every_chart_of_the_report_is_there():
    assert list(charts(make_results())) == [
        *(f"learning-{row}" for row in range(3)),
        "curve-reward",
        "curve-reinforced_failure_share_grpo",
        "curve-reinforced_failure_share",
        "curve-r_count",
        "curve-r_loss",
        "curve-floored_group_share",
        *(f"classes-{row}" for row in range(5)),
        "curve-grad_norm",
        "curve-entropy",
        "curve-completion_length",
    ]


def test_values_are_drawn_as_they_are_and_null_stays_a_gap():
    results = make_results()
    drawn = {trace["name"]: trace for trace in lines(charts(results)["curve-r_loss"])}
    for run in results["runs"]:
        assert drawn[run["method"]]["y"] == run["curves"]["r_loss"]
        assert drawn[run["method"]]["connectgaps"] is False
    assert None in drawn["static"]["y"]


def test_one_seed_has_a_band_and_several_have_a_line_each():
    alone = charts(make_results(("grpo", "corpo")))["learning-0"].figure["data"]
    assert [trace.get("fill") for trace in alone] == ["toself", None, "toself", None]
    points = make_results(("grpo", "corpo"))["runs"][0]["evaluation_curves"]["in_domain"]["pass@1"]
    assert alone[0]["y"] == [p["high"] for p in points] + [p["low"] for p in reversed(points)]
    several = charts(make_results(("grpo", "corpo"), (0, 1, 2)))["learning-0"].figure["data"]
    assert [trace["name"] for trace in several[:3]] == ["grpo, seed 0", "grpo, seed 1", "grpo, seed 2"]
    assert len({trace["line"]["color"] for trace in several[:3]}) == 1


def test_learning_curves_share_one_scale_that_fits_low_values():
    results = make_results(("grpo", "corpo"))
    points = results["runs"][1]["evaluation_curves"]["in_domain"]["pass@1"]
    ranges = [charts(results)[f"learning-{row}"].figure["layout"]["yaxis"]["range"] for row in range(3)]
    assert ranges == [[0, pytest.approx(1.1 * max(point["high"] for point in points))]] * 3
    for run in results["runs"]:
        for split in results["splits"]:
            run["evaluation_curves"][split]["pass@1"] = [{"value": 0.1, "low": None, "high": None}] * 6
    results["base"] = {"evaluation": {}}
    assert charts(results)["learning-0"].figure["layout"]["yaxis"]["range"] == [0, pytest.approx(0.11)]


def test_a_gap_in_the_classes_is_not_drawn_as_zero():
    # the step at which static could score nothing splits its areas in two stacks
    data = charts(make_results())["classes-2"].figure["data"]
    assert [trace["stackgroup"] for trace in data] == ["0"] * 5 + ["1"] * 5
    assert all(None not in trace["y"] for trace in data)
    assert (data[0]["x"][-1], data[5]["x"][0]) == (49, 51)
    assert [trace["name"] for trace in data[:5]] == [label for _, label in CLASSES]


def test_a_known_method_looks_the_same_in_every_report():
    assert styles(make_results(("corpo", "novel", "grpo")))["corpo"] == styles(make_results(METHODS))["corpo"]


def test_methods_of_a_report_differ_in_colour_dash_and_marker():
    looks = list(styles(make_results((*KNOWN_METHODS, "novel", "other"))).values())
    assert len({look.color for look in looks}) == N_STYLES == len(set(SYMBOLS)) == len(DASHES)
    assert len({(look.dash, look.symbol) for look in looks}) == N_STYLES


def test_every_colour_exists_in_light_and_in_dark():
    style_sheet = (files("corpo_rl.report") / "page.css").read_text()
    used = set(
        re.findall(r"var\((--[\w-]+)\)", json.dumps([chart.figure for chart in charts(make_results()).values()]))
    )
    used |= {f"--m{slot}{end}" for slot in range(N_STYLES) for end in ("", "-band")}
    assert len(used) > 20
    for name in used:
        assert style_sheet.count(f"{name}:") == 2, name


def test_names_are_text_to_plotly():
    # a name with a tag would become a link or bold text in a tooltip
    data = charts(make_hostile())["learning-0"].figure["data"]
    assert not [trace["name"] for trace in data if "<" in trace["name"]]
    assert f"&lt;{HOSTILE[1][1:-1]}&gt;, seed 1" in [trace["name"] for trace in data]


def test_nothing_to_draw_draws_nothing():
    results = make_results()
    results["runs"] = []
    assert sections(results) == []
    assert method_names(results) == list(METHODS)


@pytest.mark.parametrize("results", [make_results(seeds=(0, 1)), make_hostile()], ids=["plain", "hostile"])
def test_plotly_accepts_every_figure(results):
    graph_objects = pytest.importorskip("plotly.graph_objects", reason="plotly is not installed")
    for chart in charts(results).values():
        text = re.sub(r"var\(--[\w-]+\)", "#123456", json.dumps(chart.figure))
        graph_objects.Figure(json.loads(text))
