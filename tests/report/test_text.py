import unicodedata

from corpo_rl.report.text import WIDTH, compare_text

from .synthetic import make_hostile, make_results


def columns(line):
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in line)


def test_every_row_of_the_table():
    lines = compare_text(make_results(("grpo", "corpo"))).splitlines()
    assert lines[:6] == [
        "in domain: one right and one wrong answer, training domain, 196 items",
        "-" * 80,
        "                        pass@1           pass@16 reward  Brier  hedge  parse",
        "                                                   mean        (5, 5) failed",
        "base         0.38 [0.36, 0.40] 0.95 [0.92, 0.97]  -0.19   0.26   12 %    2 %",
        "grpo         0.72 [0.70, 0.74] 0.99 [0.97, 1.00]   0.35   0.17   <1 %    2 %",
    ]


def test_no_line_is_wider_than_a_terminal_whatever_the_names():
    for results in (make_results(), make_hostile(), make_results(("grpo", "验证器" * 9, "x" * 300))):
        lines = compare_text(results).splitlines()
        assert max(map(columns, lines)) <= WIDTH


def test_names_cannot_steer_the_terminal():
    text = compare_text(make_hostile())
    assert not [char for char in text if unicodedata.category(char) in {"Cc", "Cf", "Zl", "Zp"} and char != "\n"]
    assert "?[2J" in text


def test_undefined_figures_are_not_zeros():
    results = make_results(("grpo", "corpo"))
    results["methods"]["corpo"]["evaluation"]["ood"]["measures"]["pass@1"] = dict.fromkeys(("value", "low", "high"))
    del results["methods"]["corpo"]["evaluation"]["other_domain"]
    rows = [line.split() for line in compare_text(results).splitlines() if line.startswith("corpo ")][1:]
    assert rows[0][:2] == ["corpo", "n/a"]
    assert rows[1] == ["corpo"] + ["n/a"] * 6


def test_cautions_stand_out():
    lines = compare_text(make_results()).splitlines()
    assert "! static, seed 0: the floor was saturated in steps 1 to 20." in lines


def test_pass_at_1_alone_when_k_is_1():
    results = make_results(("grpo", "corpo"))
    results["settings"]["k"] = 1
    assert compare_text(results).count("pass@16") == 0


def measured_otherwise(results):
    """The same results with the figures of a task that scores no pair: five of its own."""
    owners = (results["base"], *results["methods"].values())
    for found in [found for owner in owners for found in owner["evaluation"].values()]:
        for key in ("brier", "score_accuracy", "hedge_rate"):
            del found["measures"][key]
        for number, key in enumerate(("tests_passed", "load_failed", "timed_out", "crashed", "zeal")):
            found["measures"][key] = {"value": number / 4, "low": 0.0, "high": 1.0}
    return results


def test_figures_of_a_task_of_another_kind():
    lines = compare_text(measured_otherwise(make_results(("grpo", "corpo")))).splitlines()
    # two of its own, in the order of their names; the report has them all
    assert lines[2:5] == [
        "                        pass@1           pass@16 reward crash~   load  parse",
        "                                                   mean        failed failed",
        "base         0.38 [0.36, 0.40] 0.95 [0.92, 0.97]  -0.19   0.75   0.25    2 %",
    ]
    assert max(map(columns, lines)) <= WIDTH
