"""Every number of a recipe is what its results.json says."""

import json
import re
from pathlib import Path

import pytest

from corpo_rl.pairs.card import data_card
from corpo_rl.pairs.labels_summary import labels_text
from corpo_rl.report.schema import check_results
from corpo_rl.report.text import compare_text

ROOT = Path(__file__).parent.parent / "recipes"
RECIPES = sorted(
    path.parent
    for path in ROOT.glob("*/results.json")
    if json.loads(path.read_text())["schema"].startswith("corpo-rl.compare/")
)
CODE_PAIRS = ROOT / "code-pairs"


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.name)
def test_the_table_is_what_the_command_prints_from_the_results(recipe):
    results = json.loads((recipe / "results.json").read_text())
    check_results(results)
    page = (recipe / "README.md").read_text()
    (table,) = re.findall(r"```text\n(.*?)\n```", page, flags=re.DOTALL)
    assert table == compare_text(results).rstrip()


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.name)
def test_the_command_is_the_one_that_made_the_results(recipe):
    page = (recipe / "README.md").read_text()
    assert f"$ {json.loads((recipe / 'results.json').read_text())['command']}\n" in page


def test_the_pairs_recipe_shows_what_its_commands_printed():
    page = (CODE_PAIRS / "README.md").read_text()
    labels = json.loads((CODE_PAIRS / "labels.json").read_text())
    (summary,) = re.findall(r"```text\n(.*?)\n```", page, flags=re.DOTALL)
    assert summary == labels_text(labels).rstrip()
    assert f"took {labels['seconds']:.0f} s" in page


def test_its_card_is_made_of_its_numbers():
    numbers = json.loads((CODE_PAIRS / "numbers.json").read_text())
    assert (CODE_PAIRS / "CARD.md").read_text() == data_card(numbers)
    page = (CODE_PAIRS / "README.md").read_text()
    assert f"$ {numbers['command']}\n" in page
    sizes = [numbers["splits"][split]["n_pairs"] for split in ("train", "in_domain", "ood", "other_domain")]
    assert "({:,} training pairs, {}, {} and {} for validation)".format(*sizes) in page
    assert f"some {numbers['splits']['train']['pairs_of_a_problem']['median']:.0f} training pairs" in page
    assert f"{numbers['splits']['train']['status_of_wrong']['load_error']} of the wrong ones" in page
    assert f"up to {numbers['splits']['train']['pairs_of_an_answer']['most']} of them" in page
