"""The small study: its commands are ones the command line takes, it goes on, and its page is what its results say."""

import json
import re
from pathlib import Path
from statistics import mean

import pytest
from click.testing import CliRunner

from corpo_rl.cli.compare import compare
from corpo_rl.cli.pairs_build import build

from .scripts import load_script

RECIPE = Path(__file__).parent.parent / "recipes/small-study"
PAGE = (RECIPE / "README.md").read_text()
WORDS = " ".join(PAGE.split())


@pytest.fixture(scope="module")
def recipe():
    return load_script(RECIPE / "run.py")


@pytest.fixture
def files(tmp_path):
    for name in ("answers", "problems", "math"):
        (tmp_path / name).touch()
    return [f"--{name}={tmp_path / name}" for name in ("answers", "problems", "math")] + [f"--out={tmp_path / 'out'}"]


@pytest.fixture
def carried_out(recipe, monkeypatch):
    """The commands that the recipe would run; each leaves what it would."""
    commands = []

    def carry_out(*arguments):
        words = [str(word) for word in arguments]
        commands.append(words)
        out = Path(words[words.index("--out") + 1])
        if words[0] == "pairs":
            out.touch()

    monkeypatch.setattr(recipe, "carry_out", carry_out)
    return commands


@pytest.mark.parametrize("size", ["cpu", "gpu"])
def test_the_commands_are_taken_by_the_command_line(recipe, files, carried_out, size):
    ran = CliRunner().invoke(recipe.main, [*files, "--size", size], catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    assert [words[:2] for words in carried_out] == [["pairs", "label"], ["pairs", "build"], ["compare", "--scale"]]
    built = build.make_context("build", carried_out[1][2:]).params
    assert built["max_chars"] == {"cpu": 500, "gpu": 1500}[size]
    compared = compare.make_context("compare", carried_out[2][1:]).params
    assert compared["device"] == {"cpu": None, "gpu": "cuda"}[size]
    assert compared["steps"] == {"cpu": 6, "gpu": 300}[size]


def test_what_is_done_is_not_done_again_and_options_go_on_to_compare(recipe, files, carried_out):
    CliRunner().invoke(recipe.main, files, catch_exceptions=False)
    del carried_out[:]
    CliRunner().invoke(recipe.main, [*files, "--steps", "1"], catch_exceptions=False)
    (only,) = carried_out
    assert only[0] == "compare"
    assert compare.make_context("compare", only[1:]).params["steps"] == 1, "the last word counts"


def test_a_path_that_is_left_out_is_named(recipe, files):
    told = CliRunner().invoke(recipe.main, files[1:])
    assert told.exit_code == 2
    assert "--answers: expected a path" in told.output


def test_a_command_that_fails_ends_the_study_with_its_message(recipe, tmp_path, capfd):
    with pytest.raises(SystemExit) as ended:
        recipe.carry_out("pairs", "build", tmp_path / "absent.jsonl", "--out", tmp_path / "out")
    assert ended.value.code == 2
    assert "absent.jsonl" in capfd.readouterr().err


@pytest.fixture(scope="module")
def results():
    return json.loads((RECIPE / "results.json").read_text())


def test_the_page_is_made_of_the_results(recipe, results):
    for name, text in recipe.parts(results).items():
        assert f"<!-- results: {name} -->\n{text}\n<!-- end: {name} -->" in PAGE, name


def test_the_results_are_of_the_study_that_the_recipe_runs(recipe, results):
    asked = compare.make_context("compare", recipe.COMPARE["cpu"].split()).params
    settings = results["settings"]
    assert ",".join(settings["methods"]) == asked["methods"]
    assert ",".join(map(str, settings["seeds"])) == asked["seeds"]
    assert settings["steps"] == asked["steps"]
    assert len(results["runs"]) == len(settings["methods"]) * len(settings["seeds"])
    assert all(run["status"] == "finished" and run["steps"] == settings["steps"] for run in results["runs"])


def test_the_sizes_in_the_text_are_those_of_the_results(results):
    settings = results["settings"]
    rollouts = settings["prompts_per_step"] * settings["group_size"]
    assert f"{rollouts * settings['steps']} rollouts move the policy little" in WORDS
    assert f"of {rollouts} rollouts" in WORDS
    assert f"{settings['prompts_per_step']} prompts x {settings['group_size']} completions a step" in WORDS
    assert f"- {settings['warmup_steps']} supervised steps" in PAGE
    assert f"{settings['samples_per_item']} samples of each of {settings['eval_items']} pairs a split" in WORDS
    assert {split["n_items"] for split in results["splits"].values()} == {settings["eval_items"]}


def test_the_table_of_dynamics_counted_again(results):
    lines = re.findall(r"^\| `(\w+)` \| (\d) \| (\d+) % \((\d+) to (\d+)\) ", PAGE, flags=re.MULTILINE)
    assert len(lines) == len(results["runs"])
    for (method, seed, *shown), run in zip(lines, results["runs"], strict=True):
        assert (method, int(seed)) == (run["method"], run["seed"])
        shares = [100 * share for share in run["curves"]["reinforced_failure_share"] if share is not None]
        for text, value in zip(shown, (mean(shares), min(shares), max(shares)), strict=True):
            assert abs(int(text) - value) <= 0.5, "shown without decimals"
        if method == "corpo":
            assert shares == [0] * len(shares)


def test_what_the_page_says_of_the_first_phase(results):
    """Every group under the threshold, and answers that do not parse."""
    for run in results["runs"]:
        assert set(run["curves"]["floored_group_share"]) == {1.0}
    failed = {
        method: [
            run["evaluation"][split]["measures"]["parse_failure_rate"]["value"]
            for run in results["runs"]
            if run["method"] == method
            for split in results["splits"]
        ]
        for method in ("grpo", "corpo")
    }
    assert len(failed["corpo"]) == 6
    assert mean(failed["corpo"]) > 2 * mean(failed["grpo"])
