"""From a hostile log to a page in a browser: names of files and columns, prompts and completions stay text."""

import json
import re

import pytest
from click.testing import CliRunner

from corpo_rl.cli.audit import audit
from tests.audit.logs import graded
from tests.report.browsing import CHROMEDRIVER, CHROMIUM, load, start

EVIL = '<img src=x onerror="window.hacked=1"></script><script>window.hacked=1</script>'


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    log = folder / "<img src=x onerror='window.hacked=1'>\N{RIGHT-TO-LEFT OVERRIDE}\n.jsonl"
    rows = [
        {
            EVIL: one["group"],
            f"reward {EVIL}": one["reward"],
            "prompt": f"{EVIL} javascript:alert(1) \x1b[31m",
            "completion": f"{EVIL}<a href='javascript:window.hacked=1'>{one['reward']}</a>",
            f"unused {EVIL}": 1,
            "step": one["step"],
        }
        for one in graded(60, seed=0)
    ]
    log.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"torn": "' + EVIL)
    out = folder / "page.html"
    options = ["--reward-column", f"reward {EVIL}", "--group-columns", EVIL, "--min-correct", "0.7"]
    for form in ("html", "text", "md"):
        done = CliRunner().invoke(audit, [str(log), *options, "--format", form, "--out", str(folder / f"page.{form}")])
        assert done.exit_code == 0, done.output
    return out


def test_no_tag_of_the_log_is_in_the_page(page):
    html = page.read_text(encoding="utf-8")
    assert "onerror" in html, "the text is shown"
    for tag in ("<img", "<script", "<a "):
        assert tag not in html.lower()


def test_terminal_and_markdown_hold_no_control_character_and_no_tag(page):
    for form in ("text", "md"):
        shown = page.with_name(f"page.{form}").read_text(encoding="utf-8")
        assert not [char for char in shown if not char.isprintable() and char != "\n"]
        assert "onerror" in shown
    markdown = page.with_name("page.md").read_text(encoding="utf-8")
    outside_code = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", markdown).replace("\\<", "")
    assert "<" not in re.sub(r"&lt;| <[ =]", "", outside_code)


@pytest.mark.skipif(not (CHROMIUM and CHROMEDRIVER), reason="needs chromium and chromedriver on the PATH")
def test_nothing_runs_and_nothing_is_fetched(page, tmp_path):
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    driver = start(webdriver, tmp_path / "profile")
    try:
        load(driver, page)
        assert driver.execute_script("return typeof window.hacked") == "undefined"
        assert driver.execute_script("return document.querySelectorAll('script, img, a').length") == 0
        assert driver.get_log("browser") == []
        requests = [
            json.loads(entry["message"])["message"]["params"]["request"]["url"]
            for entry in driver.get_log("performance")
            if '"Network.requestWillBeSent"' in entry["message"]
        ]
        assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
    finally:
        driver.quit()
