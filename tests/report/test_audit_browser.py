"""The audit's page in a real browser: it fits the screen in light and dark, and hostile text stays text."""

import json

import pytest

from corpo_rl.report.audit_diff import audit_diff_html
from corpo_rl.report.audit_html import audit_html

from .audits import AUDITS, HOSTILE, make_audit, make_diff, make_hostile_diff
from .browsing import CHROMEDRIVER, CHROMIUM, load

pytestmark = pytest.mark.skipif(
    not (CHROMIUM and CHROMEDRIVER), reason="needs chromium and chromedriver on the PATH (apt install chromium-driver)"
)

PAGES = {
    **{name: audit_html(audit) for name, audit in AUDITS.items()},
    "one step": audit_html(make_audit(n_steps=1)),
    "long": audit_html(make_audit(n_steps=100_000)),
    "diff": audit_diff_html(make_diff()),
    "hostile diff": audit_diff_html(make_hostile_diff()),
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("audits")
    paths = {name: folder / f"{name}.html" for name in PAGES}
    for name, path in paths.items():
        path.write_text(PAGES[name], encoding="utf-8")
    return paths


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", PAGES)
def test_pages_fit_load_nothing_and_complain_of_nothing(driver, pages, name, width, scheme):
    load(driver, pages[name], width=width, scheme=scheme)
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    urls = {event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"}
    assert pages[name].as_uri() in urls, "the log must hold the page's own request"
    assert [url for url in urls if url != pages[name].as_uri() and not url.startswith("data:")] == []
    assert driver.get_log("browser") == []

    driver.execute_script("for (const part of document.querySelectorAll('details')) part.open = true")
    assert driver.execute_script("return document.scrollingElement.scrollWidth") <= width
    script = """return Array.from(document.querySelectorAll(
            'h1, h2, h3, h4, p, li, dt, dd, td, th, caption:not(.unseen), figcaption, summary, code, .sample, .status'))
        .filter((node) => node.clientWidth > 0 && node.scrollWidth > node.clientWidth + 1)
        .map((node) => [node.tagName, node.textContent.slice(0, 80), node.scrollWidth, node.clientWidth])"""
    assert driver.execute_script(script) == []


# a hostile name of 120 characters may make a table scroll, inside its own box
@pytest.mark.parametrize("name", [name for name in PAGES if "hostile" not in name])
def test_wide_tables_do_not_need_a_scroll_bar(driver, pages, name):
    for width in (390, 1280):
        load(driver, pages[name], width=width)
        driver.execute_script("for (const part of document.querySelectorAll('details')) part.open = true")
        script = """return Array.from(document.querySelectorAll('.scroll'))
            .filter((box) => box.scrollWidth > box.clientWidth + 1)
            .map((box) => [box.textContent.slice(0, 80), box.scrollWidth, box.clientWidth])"""
        assert driver.execute_script(script) == []


@pytest.mark.parametrize("name", ["hostile", "hostile diff"])
def test_hostile_text_is_shown_and_does_not_run(driver, pages, name):
    load(driver, pages[name])
    assert driver.execute_script("return window.hacked") is None
    forbidden = "return document.querySelectorAll('script, img, a, iframe, object, form, svg[onload]').length"
    assert driver.execute_script(forbidden) == 0
    text = driver.execute_script("return document.body.textContent")
    for shown in (*HOSTILE[:3], HOSTILE[6]):
        assert shown in text


def test_a_foreign_script_would_be_refused(driver, pages, tmp_path):
    # the second line of defence, should the escaping ever fail
    path = tmp_path / "foreign.html"
    path.write_text(
        PAGES["graded"].replace(
            "<main>", "<main><script>window.hacked = 1</script><img src=x onerror=window.hacked=1>"
        ),
        encoding="utf-8",
    )
    load(driver, path)
    assert driver.execute_script("return window.hacked") is None
    assert any("Content Security Policy" in entry["message"] for entry in driver.get_log("browser"))


def test_the_message_stands_on_the_first_screen(driver, pages):
    for width in (390, 1280):
        load(driver, pages["graded"], width=width)
        script = """const inside = (part) => part.getBoundingClientRect().bottom <= innerHeight;
            return Array.from(document.querySelectorAll('h1, .lead p, .picture .split, .signs')).map(inside)"""
        assert all(driver.execute_script(script))


def test_colours_follow_light_and_dark_and_reach_the_charts(driver, pages):
    def look():
        style = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"
        parts = (("body", "color"), (".line.up", "stroke"), (".area.k1", "fill"), (".tick", "fill"))
        return [driver.execute_script(style, *part) for part in parts]

    load(driver, pages["graded"], scheme="light")
    light = look()
    load(driver, pages["graded"], scheme="dark")
    dark = look()
    assert all(one != other for one, other in zip(light, dark, strict=True))
    assert "none" not in light
    assert light[1] != "rgb(0, 0, 0)"


def test_every_picture_has_a_name_for_those_who_cannot_see_it(driver, pages):
    load(driver, pages["graded"])
    names = driver.execute_script(
        "return Array.from(document.querySelectorAll('svg')).map((svg) => [svg.getAttribute('role'), "
        "svg.getAttribute('aria-label'), ...['title', 'desc'].map((part) => svg.querySelector(part).textContent)])"
    )
    assert len(names) == 7
    assert all(role == "img" and label and title and label == about for role, label, title, about in names)
    heads = driver.execute_script(
        "return Array.from(document.querySelectorAll('table')).map((table) => "
        "[table.caption.textContent, table.querySelectorAll('thead th').length, "
        "table.querySelectorAll('tbody tr').length, table.querySelectorAll('tbody th[scope=row]').length])"
    )
    assert all(caption and columns and rows == named for caption, columns, rows, named in heads)
