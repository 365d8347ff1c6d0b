"""Examples on the pages run, methods they name exist, and links between them lead somewhere."""

import doctest
import re
from pathlib import Path

import pytest

from corpo_rl.core.methods import BASES, parse_method
from corpo_rl.core.schedule import parse_schedule
from corpo_rl.core.selection import RULES

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    path for pattern in ("*.md", "docs/*.md", "recipes/*/*.md") for path in ROOT.glob(pattern) if path.is_file()
)
METHODS = (ROOT / "docs" / "methods.md").read_text()


def anchors(page):
    """Anchors of a page's headings, as GitHub makes them."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), target
        if anchor:
            linked = linked / "README.md" if linked.is_dir() else linked
            assert anchor in anchors(linked), target


def test_the_page_of_methods_runs_and_knows_every_base():
    found = doctest.testfile(str(ROOT / "docs" / "methods.md"), module_relative=False, raise_on_error=True)
    assert found.attempted >= 5
    for base in BASES:
        assert f"`{base}`" in METHODS, base
    for name in re.findall(r"method_advantages\(\"([^\"]+)\"", METHODS):
        parse_method(name)
    for rule in RULES:
        assert rule == "all" or f"| `{rule}` |" in METHODS
    schedules = re.findall(r"^\| `((?:ramp|target):[^`]+)` \|", METHODS, flags=re.MULTILINE)
    assert [type(parse_schedule(text)).__name__ for text in schedules] == ["Ramp", "Target"]
