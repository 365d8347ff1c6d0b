import itertools

import pytest

from corpo_rl.report.summary import _other_pairs, findings, headline

from .synthetic import make_results


def texts(results, kind):
    return [finding.text for finding in findings(results) if finding.kind == kind]


def set_verdicts(results, **verdicts):
    """Give the pass@1 comparisons with grpo a verdict per split, in the order of the splits."""
    for row in results["comparisons"]:
        if row["measure"] == "pass@1" and row["reference"] == "grpo":
            row["verdict"] = verdicts[row["method"]][list(results["splits"]).index(row["split"])]


NONE = "no difference found"


def test_headline_joins_methods_with_the_same_verdicts():
    results = make_results(("grpo", "static", "corpo", "loo_corpo"))
    set_verdicts(results, static=[NONE, "lower", NONE], corpo=["higher"] * 3, loo_corpo=["higher"] * 3)
    assert headline(results) == (
        "Against grpo by pass@1: static is lower out of domain, with no difference found elsewhere; "
        "corpo and loo_corpo are higher on every split."
    )


def test_headline_says_that_no_difference_was_found():
    results = make_results(("grpo", "static", "corpo"))
    set_verdicts(results, static=[NONE] * 3, corpo=[NONE] * 3)
    assert headline(results) == "No difference found by pass@1 between grpo and static or corpo."


def test_an_undefined_difference_is_no_verdict():
    results = make_results(("grpo", "corpo"))
    for row in results["comparisons"]:
        row["difference"] = {"value": None, "low": None, "high": None}
    assert headline(results) == "No method could be compared with grpo by pass@1."
    assert all("corpo undefined" in text for text in texts(results, "comparison"))


def test_headline_of_a_single_method():
    assert headline(make_results(("corpo",))) == ("Only corpo was run, so there is no other method to compare it with.")


def test_comparison_names_size_interval_items_and_seeds():
    results = make_results(("grpo", "corpo"), (0, 1))
    row = next(row for row in results["comparisons"] if (row["split"], row["reference"]) == ("ood", "grpo"))
    row |= {"difference": {"value": -0.0412, "low": -0.1, "high": 0.0123}, "verdict": NONE}
    assert (
        "Out of domain, pass@1 against grpo's (95 % intervals, 98 items, 2 seeds): "
        "corpo 0.041 lower (-0.100 to 0.012), no difference found." in texts(results, "comparison")
    )


def test_one_seed_is_cautioned_and_two_are_not():
    caution = "One seed per method: the intervals cover the choice of items only, not what another seed would give."
    assert caution in texts(make_results(), "caution")
    assert not any("seed" in text and "interval" in text for text in texts(make_results(seeds=(0, 1)), "caution"))


def test_pass_at_16_at_its_ceiling_names_what_guessing_gives():
    results = make_results(("grpo", "corpo"))
    for name in ("grpo", "corpo"):
        results["methods"][name]["evaluation"]["ood"]["measures"]["pass@16"]["value"] = 1.0
        results["methods"][name]["evaluation"]["in_domain"]["measures"]["pass@16"]["value"] = 0.9
    # four joint outcomes: 1 - 0.75^16 = 0.98998
    assert "pass@16 is at its ceiling out of domain: with four joint outcomes random guessing gives 0.990, so judge by pass@1." in texts(results, "caution")  # fmt: skip # noqa: E501


def set_against_base(results, split, **verdicts):
    for row in results["comparisons"]:
        if (row["measure"], row["reference"], row["split"]) == ("pass@1", "base", split):
            row["verdict"] = verdicts[row["method"]]


def test_every_method_below_the_base_is_said_first_and_plainly():
    results = make_results(("grpo", "corpo"))
    set_against_base(results, "in_domain", grpo="lower", corpo="lower")
    assert findings(results)[0].kind == "poor"
    assert findings(results)[0].text == (
        "In domain, every method ends below the base's pass@1 of 0.380: grpo (0.720) and corpo (0.860). "
        "Training made the policy worse there."
    )
    assert "below the base" not in headline(results)
    for split in ("ood", "other_domain"):
        set_against_base(results, split, grpo="lower", corpo="lower")
    assert headline(results).endswith("All of them ended below the base on every split.")


def test_verdicts_against_the_base_are_told_apart():
    results = make_results(("grpo", "static", "corpo"))
    set_against_base(results, "in_domain", grpo="lower", static=NONE, corpo="higher")
    set_against_base(results, "ood", grpo=NONE, static=NONE, corpo=NONE)
    start = "the base's pass@1 of 0.380"
    assert texts(results, "level") == [
        f"In domain, above {start}: corpo (0.860); below {start}: grpo (0.720); not told from {start}: static (0.840).",
        "In the other domain, every method ends above the base's pass@1 of 0.240.",
    ]
    assert texts(results, "poor") == [
        "Out of domain, no method could be told from the base's pass@1 of 0.310: "
        "grpo (0.540), static (0.660) and corpo (0.680)."
    ]


def test_pairs_without_the_reference_are_told():
    results = make_results(("grpo", "static", "corpo", "loo_corpo"))
    assert "Among static, corpo and loo_corpo no difference was found by pass@1." in texts(results, "comparison")
    for row in results["comparisons"]:
        assert (row["method"], row["reference"]) != ("corpo", "static"), "every pair is there once"
    row = next(row for row in results["comparisons"] if (row["method"], row["reference"]) == ("static", "corpo"))
    row["verdict"] = "lower"
    assert any(
        text.startswith("Among the other methods, by pass@1: against corpo, static is lower in domain, with")
        for text in texts(results, "comparison")
    )


def test_methods_without_any_difference_are_named():
    results = make_results(("grpo", "static", "corpo"))
    for row in results["comparisons"]:
        if (row["method"], row["reference"]) == ("static", "corpo"):
            row["difference"] = {"value": 0.0, "low": 0.0, "high": 0.0}
    told = "static and corpo do not differ in any measure on any split: they seem to be the same policy."
    assert told in texts(results, "comparison")
    other_measure, *_ = [
        row
        for row in results["comparisons"]
        if (row["method"], row["reference"], row["measure"], row["split"]) == ("static", "corpo", "mean_reward", "ood")
    ]
    other_measure["difference"]["value"] = 0.01
    assert told not in texts(results, "comparison"), "equal verdicts from other scores are not the same policy"


def test_answers_that_did_not_parse_are_said_plainly():
    results = make_results(("grpo", "corpo"))
    results["methods"]["corpo"]["evaluation"]["ood"]["measures"]["parse_failure_rate"]["value"] = 1.0
    results["methods"]["grpo"]["evaluation"]["ood"]["measures"]["parse_failure_rate"]["value"] = 0.4
    assert "Out of domain, no answer of corpo could be parsed: its other figures there say nothing." in texts(
        results, "poor"
    )
    assert "Out of domain, answers that could not be parsed: 40 % of grpo." in texts(results, "caution")


def test_hedging_is_named():
    results = make_results(("grpo", "corpo"))
    results["methods"]["corpo"]["evaluation"]["in_domain"]["measures"]["hedge_rate"]["value"] = 0.83
    assert "In domain, parsed answers that are the hedge (5, 5): 83 % of corpo." in texts(results, "caution")


def test_reinforced_failures_of_the_first_steps_come_from_the_run_of_grpo():
    results = make_results(("corpo", "grpo"))
    curve = results["runs"][1]["curves"]["reinforced_failure_share_grpo"]
    curve[:11] = [None, 0.31, 0.2, 0.12, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.99]
    assert (
        "In steps 2 to 10 GRPO reinforced between 12 % and 31 % of the failed rollouts of a step (grpo, seed 0): "
        "they failed, yet had a positive advantage." in texts(results, "dynamics")
    )
    assert "corpo reinforced no failed rollout in any step." in texts(results, "dynamics")


def test_without_a_run_of_grpo_the_rule_is_told_as_what_would_have_been():
    told = texts(make_results(("static", "corpo")), "dynamics")
    assert any("GRPO's rule would have reinforced" in text and "(static, seed 0)" in text for text in told)


def test_warnings_and_unfinished_runs_are_passed_on():
    results = make_results(("grpo", "static"))
    results["runs"][0] |= {"status": "interrupted", "steps": 1}
    results["settings"]["methods"].append("corpo")
    told = texts(results, "caution")
    assert "grpo, seed 0 is not finished (status: interrupted, 1 step done)." in told
    assert "static, seed 0: the floor was saturated in steps 1 to 20." in told
    assert "corpo was asked for but has no run." in told
    results["runs"] = []
    assert not any("One seed" in text for text in texts(results, "caution"))


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (1.0, "every group of corpo had a mean reward under min_correct: a floor that always binds is a constant"),
        (0.0, "In no step had a group of corpo a mean reward under min_correct: a floor that never binds is inert"),
    ],
)
def test_a_floor_that_always_or_never_binds_is_named(share, text):
    results = make_results(("grpo", "corpo"))
    curve = results["runs"][1]["curves"]["floored_group_share"]
    curve[:] = [None, *[share] * 99]
    assert any(text in told for told in texts(results, "dynamics"))
    curve[50] = 0.5
    assert not any("min_correct" in told for told in texts(results, "dynamics"))


def test_hundreds_of_pairs_are_counted_and_not_told_one_by_one():
    names = [f"m{place}" for place in range(10)]
    rows = [
        {"method": a, "reference": b, "measure": "pass@1", "split": "in_domain", "verdict": verdict}
        for place, (a, b) in enumerate(itertools.combinations(names[1:], 2))
        for verdict in [("higher", "lower", "no difference found")[place % 3]]
    ]
    results = {
        "settings": {"methods": names, "reference": "m0"},
        "runs": [],
        "methods": {},
        "base": {},
        "splits": [],
        "comparisons": rows,
    }
    (sentence,) = _other_pairs(results)
    assert sentence.startswith("Of the 36 pairs among the other methods 24 differ by pass@1 on some split.")


def test_the_headline_of_many_methods_is_a_count():
    base = make_results()
    row = next(row for row in base["comparisons"] if row["measure"] == "pass@1" and row["reference"] == "grpo")
    names = ["grpo", *(f"m{place}" for place in range(10))]
    verdicts = ["higher"] * 3 + ["lower"] + ["no difference found"] * 6
    rows = [row | {"method": name, "verdict": verdict} for name, verdict in zip(names[1:], verdicts, strict=True)]
    base["settings"]["methods"] = names
    assert headline(base | {"comparisons": rows}).startswith(
        "Against grpo by pass@1, 4 of 10 methods differ on some split"
    )
    assert "m0" in headline(base | {"comparisons": rows[:5]})
