"""Every number of a recipe is what its results.json says."""

import json
import re
from pathlib import Path

import pytest

from corpo_rl.report.schema import check_results
from corpo_rl.report.text import compare_text

RECIPES = sorted((Path(__file__).parent.parent / "recipes").iterdir())


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
