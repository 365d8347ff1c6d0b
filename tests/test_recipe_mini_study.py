"""The study of CoRPO's claims: it runs, goes on where it was stopped, and its page shows what its results hold."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from corpo_rl.study.claims import summary, verdicts
from corpo_rl.study.pictures import pictures
from corpo_rl.study.plan import PARTS
from corpo_rl.study.quantities import Study
from corpo_rl.study.tables import generated, short_table

from .scripts import load_script

RECIPE = Path(__file__).parent.parent / "recipes" / "mini-study"
PAGE = (RECIPE / "README.md").read_text()
FRONT = (RECIPE.parent.parent / "README.md").read_text()
WAS_RUN = pytest.mark.skipif(
    not (RECIPE / "results.json").exists(),
    reason="the study was not run yet: python recipes/mini-study/run.py --out runs/mini-study --keep",
)


@pytest.fixture(scope="module")
def recipe():
    return load_script(RECIPE / "run.py")


def part_of_page(name):
    return re.search(f"<!-- results: {name} -->\n(.*?)\n<!-- end: {name} -->", PAGE, flags=re.DOTALL)[1]


def test_a_small_study_runs_and_goes_on(recipe, tmp_path, monkeypatch):
    pytest.importorskip("trl", reason="trains: needs corpo-rl[train]")
    sizes = replace(recipe.QUICK.sizes, timing_rounds=1)
    tiny = replace(recipe.QUICK, sizes=sizes, thresholds={"min_margin": (0.2,)}, methods=("grpo", "corpo"))
    monkeypatch.setattr(recipe, "QUICK", tiny)
    out = tmp_path / "study"

    def run(*arguments):
        return CliRunner().invoke(recipe.main, ["--out", str(out), "--quick", "--jobs", "1", *arguments])

    early = run("--only", "main")
    assert early.exit_code == 2
    assert "the learning rates come from the pilot, which is not whole" in early.output
    ran = run()
    assert ran.exit_code == 0, ran.output
    results = json.loads((out / "results.json").read_text())
    # the pilot 2 runs, the base 1 and 2 seeds of 2 methods, the hedging base 1 with 2 methods, a saturated and an inert
    # floor, and the timing
    assert len(results["runs"]) == results["n_planned"] == 2 + 1 + 4 + 1 + 2 + 2 + 1
    assert "that was the last one" in ran.output
    assert recipe.summary_table(results["summary"]) in ran.output
    assert {path.name for path in out.glob("*.svg")} == {"r_count.svg", "reinforced.svg", "differences.svg"}
    assert not (out / "scratch").exists()

    # a run that was lost, as after a kill, is made again with the same numbers, in another process
    lost = out / "records" / "main-mini-min_margin-corpo@0.2-s1.json"
    before = json.loads(lost.read_text())
    lost.unlink()
    again = run("--only", "pilot,main")
    assert again.exit_code == 0, again.output
    after = json.loads(lost.read_text())
    for record in (before, after):
        del record["seconds"]
    assert after == before
    assert again.output.count("] main-") == 1
    assert again.output.count("] pilot-") == 0

    page, front = tmp_path / "README.md", tmp_path / "front.md"
    page.write_text(PAGE)
    front.write_text(FRONT)
    recipe.render(results, page, tmp_path, front)
    assert short_table(results["verdicts"]) in front.read_text()
    filled = page.read_text()
    assert "Not run yet" not in filled
    assert generated(Study(results), results["verdicts"], results["summary"])["limits"] in filled

    monkeypatch.setattr(recipe, "QUICK", replace(tiny, sizes=replace(tiny.sizes, learning_rate=1e-3)))
    other = run()
    assert other.exit_code == 2
    assert "learning_rate" in other.output
    assert "name a new folder" in other.output


def test_wrong_use_is_told_in_a_line(recipe, tmp_path):
    for arguments, message in (
        ([], "--out: expected the folder of the study"),
        (["--out", str(tmp_path), "--only", "pilots"], "--only: expected some of pilot, main, failing, timing"),
        (["--out", str(tmp_path), "--quick", "--keep"], "--keep: the numbers of --quick mean nothing"),
    ):
        ran = CliRunner().invoke(recipe.main, arguments)
        assert ran.exit_code == 2
        assert message in ran.output


def test_the_arithmetic_of_the_page(recipe):
    plan = recipe.PLAN
    n = {part: len(plan.runs(part)) for part in PARTS}
    assert n == {"pilot": 52, "main": 262, "failing": 46, "timing": 1}
    assert f"({n['pilot']} runs)" in PAGE
    assert f"({n['main'] - 2}, and the base under both rewards)" in PAGE
    assert f"{n['failing']}, the timing 1: {sum(n.values())} in all" in PAGE
    sizes = plan.sizes
    words = f"{sizes.steps} steps of {sizes.prompts} prompts x {sizes.group_size} completions"
    assert words in " ".join(PAGE.split())
    early = f"Early is the first {sizes.early} steps, late the last {sizes.late}, the middle the {sizes.late} before"
    assert early in PAGE
    assert len(plan.seeds) >= 10
    for reward, thresholds in plan.thresholds.items():
        for threshold in thresholds:
            assert f"| `{reward}` | {threshold:g} |" in PAGE
        assert all(len(values) == 3 for values in plan.thresholds.values())


@pytest.fixture(scope="module")
def results():
    return json.loads((RECIPE / "results.json").read_text())


@WAS_RUN
def test_the_results_are_whole_and_small(recipe, results):
    assert len(results["runs"]) == results["n_planned"] == sum(len(recipe.PLAN.runs(part)) for part in PARTS)
    assert (RECIPE / "results.json").stat().st_size < 2_000_000
    assert recipe.results_text(results) == (RECIPE / "results.json").read_text()


@WAS_RUN
def test_the_verdicts_follow_from_the_runs(results):
    found = verdicts(Study(results))
    assert found == results["verdicts"]
    assert summary(found) == results["summary"]


@WAS_RUN
def test_the_page_and_the_pictures_are_those_of_the_results(results):
    parts = generated(Study(results), results["verdicts"], results["summary"])
    for name, text in parts.items():
        assert part_of_page(name) == text, name
    for name, text in pictures(Study(results), results["verdicts"]).items():
        assert (RECIPE / name).read_text() == text, name
    assert f"<!-- results: claims -->\n{short_table(results['verdicts'])}\n<!-- end: claims -->" in FRONT


@WAS_RUN
def test_numbers_of_the_page_counted_again(results):
    """A few of them by plain loops over the runs, not by the code that made the page."""

    def runs(method, threshold, reward="min_margin"):
        key = ("main", "mini", reward, method, threshold)
        return sorted(
            (
                run
                for run in results["runs"]
                if (run["part"], run["base"], run["reward"], run["method"], run["threshold"]) == key
            ),
            key=lambda run: run["seed"],
        )

    def rate(run, split, threshold):
        counts = [int(digit, 36) for digit in run["evaluation"][split]["correct"][threshold]]
        return sum(counts) / len(counts) / run["evaluation"][split]["n_samples"]

    def row(key, reward="min_margin", threshold=0.2):
        return next(
            one
            for one in results["verdicts"]
            if (one["key"], one["reward"], one["threshold"]) == (key, reward, threshold)
        )

    grpo, corpo = runs("grpo", None), runs("corpo", 0.2)
    assert len(grpo) == len(corpo) == 10
    difference = np.mean(
        [rate(one, "ood", "0.2") - rate(other, "ood", "0.2") for one, other in zip(corpo, grpo, strict=True)]
    )
    assert row("4e")["interval"]["value"] == pytest.approx(difference, abs=1e-6)
    early = results["plan"]["sizes"]["early"] // results["plan"]["sizes"]["bin"]
    shares = [
        sum(run["series"]["failed_up"]["0.2"][:early]) / sum(run["series"]["failed"]["0.2"][:early]) for run in grpo
    ]
    assert row("1")["interval"]["value"] == pytest.approx(np.mean(shares), abs=1e-6)
    for run in corpo + runs("static", 0.2):
        assert sum(run["series"]["failed_up"]["0.2"]) == 0


@WAS_RUN
def test_what_the_pages_say_in_words(recipe, results):
    """Each sentence of "In words" and of the front page, from the verdicts."""
    words, front = " ".join(PAGE.split()), " ".join(FRONT.split())
    kind = {
        (reward, threshold): name
        for reward, thresholds in recipe.PLAN.thresholds.items()
        for name, threshold in zip(("natural", "strict", "lenient"), thresholds, strict=True)
    }

    def rows(*keys, reward=None, only=("natural", "strict", "lenient")):
        return [
            row
            for row in results["verdicts"]
            if row["key"] in keys
            and (reward is None or row["reward"] == reward)
            and (row["reward"] is None or kind[row["reward"], row["threshold"]] in only)
        ]

    def said(*keys, **which):
        return [row["verdict_of_all"] for row in rows(*keys, **which)]

    def values(*keys, **which):
        return [row["interval"]["value"] for row in rows(*keys, **which)]

    some = ("natural", "strict")
    shares = [f"{100 * value:.0f} %" for value in sorted(values("1", only=some))]
    assert f"between {shares[0]} and {shares[-1]} of the failed rollouts" in words
    assert f"GRPO reinforced {shares[0]} to {shares[-1]} of its early failures" in front
    assert max(values("1", only=("lenient",))) < 0.01
    assert set(said("2a", "2b", only=some)) == {"supported"}
    assert set(said("2a", "2b", only=("lenient",))) == {"not supported"}
    assert set(said("3c", only=("natural", "lenient"))) == {"supported"}
    assert sorted(said("3b")) == ["supported"] * 2 + ["undecided"] * 4

    static, corpo = ("4a", "4b", "4c", "4d"), ("4e", "4f", "4g", "4h")
    assert said(*static, *corpo, reward="min_margin") == ["undecided"] * 24
    above, below = (rows(key, reward="brier", only=("natural",))[0] for key in ("4e", "4g"))
    assert (above["verdict_of_all"], below["verdict_of_all"]) == ("supported", "not supported")
    assert f"CoRPO is {above['interval']['value']:.2f} above GRPO in pass@1 out of domain" in words
    assert f"and {-below['interval']['value']:.2f} *below* it in the other domain" in words
    lenient = said(*corpo, reward="brier", only=("lenient",))
    strict = said(*corpo, reward="brier", only=("strict",))
    assert (lenient.count("supported"), lenient.count("not supported")) == (3, 0)
    assert (strict.count("not supported"), strict.count("supported")) == (3, 0)

    of_floor = said(*(f"6{letter}" for letter in "abcdefgh"))
    assert len(of_floor) == 48
    assert "supported" not in of_floor
    assert said("5") == ["undecided"] * 6
    (cost,) = rows("7")
    ratio, high = (np.exp(cost["interval"][end]) for end in ("value", "high"))
    assert f"takes {ratio:.2f} times GRPO's, with an interval up to {high:.2f}" in words
    assert cost["verdict_of_all"] == "undecided"
    unmet = {row["key"] for row in results["verdicts"] if row["key"][0] == "F" and row["verdict_of_all"] != "supported"}
    assert unmet == {"F3c"}

    late = results["plan"]["sizes"]["late"] // results["plan"]["sizes"]["bin"]

    def failing(method, reward, threshold, trained_under):
        """Share of the rollouts of the late steps that failed, over seeds."""
        runs = [
            run["series"]
            for run in results["runs"]
            if (run["part"], run["base"], run["reward"], run["method"], run["threshold"])
            == ("main", "mini", reward, method, trained_under)
        ]
        rollouts = late * results["plan"]["sizes"]["bin"] * results["plan"]["sizes"]["prompts"] * 8
        return np.mean([sum(series["failed"][f"{threshold:g}"][-late:]) for series in runs]) / rollouts

    strict_ones = [cell for cell, name in kind.items() if name == "strict"]
    floored = [failing(method, *cell, cell[1]) for cell in strict_ones for method in ("static", "corpo", "loo_corpo")]
    plain = [failing("grpo", *cell, None) for cell in strict_ones]
    assert f"{100 * min(floored):.0f} % to {100 * max(floored):.0f} % of the rollouts of the late steps" in words
    assert f"of GRPO's {100 * min(plain):.0f} % to {100 * max(plain):.0f} %" in words
    (brier,) = [cell for cell in strict_ones if cell[0] == "brier"]
    assert f"fails in {100 * failing('dr_grpo', *brier, None):.0f} % too" in words
