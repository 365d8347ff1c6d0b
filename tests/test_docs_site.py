"""The documentation site builds without a warning, lacks no public name, and needs nothing from outside itself."""

import ast
import importlib.util
import re
import shutil
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from click.testing import CliRunner

import corpo_rl
from corpo_rl.cli.main import cli

pytest.importorskip("sphinx", reason="needs corpo-rl[docs]")
pytest.importorskip("selenium", reason="needs corpo-rl[dev]")
pytest.importorskip("trl", reason="the API pages import the trainers: needs corpo-rl[train]")

from selenium.webdriver.support.ui import WebDriverWait
from sphinx.util.inventory import InventoryFile

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "corpo_rl"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted(ROOT.glob("recipes/*/README.md"))]


def load(name):
    """A script of the documentation as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site. Any warning ends the build with a failure."""
    folder = tmp_path_factory.mktemp("site")
    build = ["-q", "-W", "--keep-going", "-n", "-c", str(ROOT / "docs"), "-d", str(folder / "kept")]
    ran = subprocess.run(
        [sys.executable, "-m", "sphinx", *build, str(ROOT), str(folder / "html")], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    return folder / "html"


@pytest.fixture(scope="module")
def inventory(site):
    """Every name of Python that the site documents."""
    found = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="")
    return {name for kind, names in found.data.items() if kind.startswith("py:") for name in names}


class Page(HTMLParser):
    """What an HTML page refers to, and what can be referred to in it."""

    def __init__(self, path):
        super().__init__()
        self.loaded, self.links, self.ids = [], [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "id":
                self.ids.add(value)
            elif name == "href" and tag == "a":
                self.links.append(value)
            elif name in ("href", "src", "srcset", "data", "action", "poster", "content", "xlink:href") and value:
                self.loaded.append(value)


@pytest.fixture(scope="module")
def pages(site):
    """Path -> page, for every page of the site."""
    return {path: Page(path) for path in sorted(site.rglob("*.html"))}


def test_every_public_name_is_documented(inventory):
    assert {f"corpo_rl.{name}" for name in corpo_rl.__all__} <= inventory


def subclasses_of_trl():
    """Our trainers and their settings, as the source files of training/ name them."""
    for path in sorted((SOURCE / "training").glob("*.py")):
        for node in ast.parse(path.read_text()).body:
            public = isinstance(node, ast.ClassDef) and not node.name.startswith("_")
            if public and re.search(r"(Trainer|Config)$", node.name):
                yield f"corpo_rl.training.{path.stem}.{node.name}"


def test_every_trainer_and_its_settings_are_documented(inventory):
    names = set(subclasses_of_trl())
    assert {"corpo_rl.training.trl.CorpoTrainer", "corpo_rl.training.trl.CorpoConfig"} <= names
    assert len(names) >= 10
    assert names <= inventory
    assert "corpo_rl.training.trl.CorpoConfig.min_correct" in inventory


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_name_of_ours_on_a_page_is_documented(page, inventory):
    text = re.sub(r"<!--.*?-->", "", page.read_text(), flags=re.DOTALL)
    names = set(re.findall(r"\bcorpo_rl(?:\.\w+)+(?!\w|/|\.py)", text))
    for module, imported in re.findall(r"^(?:>>> )?from (corpo_rl[\w.]*) import ([^\n#]+)", text, re.M):
        names |= {f"{module}.{name.strip()}" for name in imported.split(",")}
    parts = {".".join(known.split(".")[:n]) for known in inventory for n in range(1, known.count(".") + 1)}
    assert not names - inventory - parts


def test_every_command_is_documented(site):
    text = (site / "docs" / "api" / "commands.html").read_text()
    shown = set(re.findall(r'<section id="(corpo-rl[\w-]*)">', text))
    commands = {typed.replace(" ", "-") for typed, _ in load("docs_commands").every_help()}
    assert {"corpo-rl-audit", "corpo-rl-pairs-build"} <= commands
    assert shown == commands


def test_the_help_shown_is_the_help_printed():
    shown = dict(load("docs_commands").every_help())
    for typed in ("corpo-rl", "corpo-rl audit", "corpo-rl pairs label"):
        printed = CliRunner().invoke(cli, [*typed.split()[1:], "--help"], prog_name="corpo-rl").output
        assert printed == shown[typed] + "\n"


def test_every_finding_of_the_audit_is_explained():
    names = set()
    for path in SOURCE.glob("audit/findings*.py"):
        text = path.read_text()
        names |= set(re.findall(r'name, title = "(\w+)"', text)) | set(re.findall(r'finding\(\s*"(\w+)"', text))
    assert {"floor", "coverage", "trained_floor"} <= names
    explained = set(re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "reading-an-audit.md").read_text(), re.MULTILINE))
    assert explained == names


def test_nothing_is_loaded_from_outside(site, pages):
    outside = re.compile(r"^(\w+:)?//")
    for path, page in pages.items():
        assert not [value for value in page.loaded if outside.match(value)], path
    for path in site.rglob("*.css"):
        text = path.read_text()
        assert "@import" not in text
        assert not re.findall(r"url\(\s*['\"]?(?:\w+:)?//", text), path
    for path in [*site.rglob("*.js"), *site.rglob("*.html"), *site.rglob("*.svg")]:
        text = re.sub(r"<a\s[^>]*>", "", path.read_text())
        scripts = (
            text if path.suffix != ".html" else "".join(re.findall(r"<script[^>]*>(.*?)</script>", text, re.DOTALL))
        )
        assert not re.findall(r"(?:fetch|import|open|src)\s*[(=]\s*[\"'`](?:https?:)?//", scripts), path


def test_links_within_the_site_lead_to_pages_and_headings(site, pages):
    n_checked = 0
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.is_relative_to(site.resolve()), f"{path}: {link}"
            assert target.is_file(), f"{path}: {link}"
            if parts.fragment and target.suffix == ".html":
                assert unquote(parts.fragment) in pages[target].ids | {""}, f"{path}: {link}"
            n_checked += 1
    assert n_checked > 1000


def test_links_to_elsewhere_are_whole_addresses(pages):
    links = {link for page in pages.values() for link in page.links if urlsplit(link).scheme}
    assert len(links) > 20
    for link in links:
        parts = urlsplit(link)
        assert parts.scheme == "https", link
        assert re.fullmatch(r"[\w-]+(\.[\w-]+)+", parts.netloc), link
        assert not re.search(r"[\s<>\"]|\)$", link), link


@pytest.mark.skipif(
    not ((shutil.which("chromium") or shutil.which("google-chrome")) and shutil.which("chromedriver")),
    reason="needs chromium and chromedriver on the PATH (apt install chromium-driver)",
)
def test_pages_fit_a_phone_load_nothing_from_outside_and_can_be_searched(site, pages):
    screenshots = load("docs_screenshots")
    with screenshots.browser() as driver:
        for page in sorted(pages.keys() - {site / "index.html"}):
            assert screenshots.faults_of(driver, page, 390, "light") == []
        driver.get(f"{(site / 'search.html').as_uri()}?q=floor")
        found = "return document.querySelectorAll('#search-results li a').length"
        WebDriverWait(driver, 30).until(lambda driver: driver.execute_script(found) > 5)


def test_the_first_page_of_the_site_leads_to_the_documentation(site):
    assert 'content="0; url=docs/index.html"' in (site / "index.html").read_text()


def test_docstrings_are_read_as_they_are_written():
    docs = load("docs_autodoc")
    lines = [
        "One *star* and |A| of `x`s:",
        "",
        "    A_i = |R_i|*2",
        "",
        "Takes:",
        "    low, high: Both *ends*,",
        "        open.",
    ]
    assert docs.as_rst(lines) == [
        "One \\*star\\* and \\|A\\| of `x`\\ s:", "", "", "::", "", "    A_i = |R_i|*2", "",
        "Takes:", "", "- low, high: Both \\*ends\\*,", "  open.", "",
    ]  # fmt: skip
    section = ["Returns:", "    a: R_, one.", "    b: Two.", "Example:", "    >>> 2 * 3", "    6"]
    assert docs.as_rst(section) == [
        ":returns:", "    - a: R\\_, one.", "    - b: Two.", "", "Example:", "    >>> 2 * 3", "    6", "",
    ]  # fmt: skip
    assert docs.as_rst(["Returns:", "    A document: `x`, undefined None."]) == [
        ":returns:", "    A document: `x`, undefined None.", "",
    ]  # fmt: skip
    attribute = ["Part it goes by: `split`."]
    docs._docstring(None, "attribute", "", None, None, attribute)
    assert attribute == ["\\ ", "Part it goes by: `split`."]
    assert docs.escaped("at http://host:port, or https://a.org/x_") == "at http\\://host:port, or https://a.org/x\\_"


def test_signatures_are_shown_as_they_are_written(site):
    from corpo_rl.core.composition import scale_advantages
    from corpo_rl.curation.matching import Match

    docs = load("docs_autodoc")
    shown = "(rewards: ArrayLike, group_ids: ArrayLike, *, min_correct: float, unscorable: Unscorable = 'refuse')"
    assert docs.signature(corpo_rl.corpo_advantages) == (shown, "NDArray[np.float64]")
    assert "groups: ~corpo_rl.core.groups.Groups" in docs.signature(scale_advantages)[0]
    assert docs.signature(Match)[0] == f"({', '.join(Match._fields)})"
    assert docs.signature(corpo_rl.DataError) is None
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", (site / "docs" / "api" / "training.html").read_text()))
    assert re.search(r"trl\.CorpoConfig\( ?scale_rewards, [\w, ]*min_correct, [\w, ]+, \*\*kwargs,? ?\)", text)
    assert re.search(
        r"trl\.CorpoTrainer\( ?model: Any, reward_funcs: Any = None, args: CorpoConfig \| None = None,", text
    )


def test_api_pages_show_nothing_of_python_or_of_this_machine(site):
    for path in (site / "docs" / "api").glob("*.html"):
        text = path.read_text()
        assert str(ROOT) not in text, path
        for words in ("Alias for field", "ndarray[", "Return type", "*args", "str(object="):
            assert words not in re.sub(r"<[^>]+>", "", text), f"{path}: {words}"
        for shown in re.findall(r'<dt class="sig .*?</dt>', text, re.DOTALL):
            assert len(re.sub(r"<[^>]+>", "", shown)) < 600, f"{path}: {shown[:200]}"
    text = re.sub(r"<[^>]+>", "", (site / "docs" / "api" / "methods.html").read_text())
    assert "index_N: NDArray[np.int64]" in text
    assert "WINDOW = 10" in text


def test_code_is_coloured_and_ends_with_its_last_line(site):
    text = (site / "docs" / "methods.html").read_text()
    assert '<span class="kn">from</span>' in text
    assert "1.3])\n</pre>" in re.sub(r"</?span[^>]*>", "", text)


def test_the_picture_is_what_its_script_makes():
    picture = load("docs_picture")
    assert picture.OUT.read_text(encoding="utf-8") == picture.picture()


def test_the_picture_shows_what_the_estimators_give():
    picture = load("docs_picture")
    svg, mean = picture.picture(), sum(picture.PASSED) / 8 / 10
    shares = [n / 10 for n in picture.PASSED]
    std = (sum((share - mean) ** 2 for share in shares) / 7) ** 0.5
    for share in shares:  # by plain arithmetic: GRPO's advantage, and CoRPO's under a floor of 1 that binds
        for advantage in ((share - mean) / (std + 1e-4), share - 1.0):
            assert f">{advantage:+.2f}<".replace("-", "\u2212") in svg
    assert "4 of 8 failures are pushed up" in svg
    assert "no failure is pushed up" in svg
    assert "GRPO gives 4 of these failures a positive advantage, CoRPO none" in svg


def test_notebooks_run_and_print_what_they_hold():
    pytest.importorskip("nbclient", reason="needs corpo-rl[docs]")
    notebooks = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
    assert len(notebooks) >= 2
    script = [sys.executable, str(ROOT / "scripts" / "docs_notebooks.py"), "--check"]
    for path in notebooks:
        started = time.monotonic()
        ran = subprocess.run([*script, str(path)], capture_output=True, text=True)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert time.monotonic() - started < 30, "a reader waits for it"


def test_a_notebook_that_prints_something_else_is_found(tmp_path):
    pytest.importorskip("nbclient", reason="needs corpo-rl[docs]")
    path = ROOT / "docs" / "notebooks" / "when-grpo-reinforces-failure.ipynb"
    text = path.read_text()
    assert "14.4%" in text
    (tmp_path / "one.ipynb").write_text(text.replace("14.4%", "14.5%"))
    script = [sys.executable, str(ROOT / "scripts" / "docs_notebooks.py"), "--check", str(tmp_path / "one.ipynb")]
    ran = subprocess.run(script, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (1, "one.ipynb would change\n")
