"""The report in a real browser: it draws, stays offline, runs no foreign script and fits the screen."""

import json

import pytest

from corpo_rl.report.charts import sections
from corpo_rl.report.html import compare_html

from .browsing import CHROMEDRIVER, CHROMIUM, emulate, load
from .synthetic import make_hostile, make_results

pytest.importorskip("plotly", reason="plotly is not installed")
webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")

pytestmark = pytest.mark.skipif(
    not (CHROMIUM and CHROMEDRIVER), reason="needs chromium and chromedriver on the PATH (apt install chromium-driver)"
)

REPORTS = {
    "five methods": make_results(),
    "three seeds": make_results(("grpo", "static", "corpo"), (0, 1, 2), steps=40),
    "hostile": make_hostile(),
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    paths = {name: folder / f"{name}.html" for name in REPORTS}
    for name, path in paths.items():
        path.write_text(compare_html(REPORTS[name]), encoding="utf-8")
    return paths


def n_drawn(driver):
    """Traces drawn, per chart."""
    script = """return Object.fromEntries(Array.from(document.querySelectorAll('.plot'),
        (plot) => [plot.id, plot.querySelectorAll('svg .scatterlayer .trace').length]))"""
    return driver.execute_script(script)


def expected(results):
    return {chart.chart_id: len(chart.figure["data"]) for section in sections(results) for chart in section.charts}


@pytest.mark.parametrize("name", REPORTS)
def test_every_chart_is_drawn_and_nothing_comes_from_the_network(driver, pages, name):
    load(driver, pages[name])
    assert n_drawn(driver) == expected(REPORTS[name])
    assert driver.execute_script("return document.documentElement.matches('.drawn')")
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    urls = {event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"}
    assert pages[name].as_uri() in urls, "the log must hold the page's own request"
    assert [url for url in urls if url != pages[name].as_uri() and not url.startswith("data:")] == []
    assert driver.get_log("browser") == []


def test_hostile_text_is_shown_and_does_not_run(driver, pages):
    load(driver, pages["hostile"])
    assert driver.execute_script("return window.hacked") is None
    assert driver.execute_script("return document.querySelectorAll('.page img, .page script, .page a').length") == 0
    assert "</script><script>window.hacked = 1</script>" in driver.find_element("tag name", "h1").text


def test_a_foreign_script_would_be_refused(driver, pages, tmp_path):
    # the second line of defence, should the escaping ever fail
    text = pages["hostile"].read_text(encoding="utf-8").replace("<main>", "<main><script>window.hacked = 1</script>")
    path = tmp_path / "foreign.html"
    path.write_text(text, encoding="utf-8")
    load(driver, path)
    assert driver.execute_script("return window.hacked") is None
    assert any("Content Security Policy" in entry["message"] for entry in driver.get_log("browser"))


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", REPORTS)
def test_nothing_is_cut_off(driver, pages, name, width):
    load(driver, pages[name], width=width)
    driver.execute_script("for (const part of document.querySelectorAll('details')) part.open = true")
    assert driver.execute_script("return document.scrollingElement.scrollWidth") <= width
    script = """return Array.from(document.querySelectorAll('h1, h2, h3, p, li, dt, dd, td, th, caption, figcaption'))
        .filter((node) => node.clientWidth > 0 && node.scrollWidth > node.clientWidth + 1)
        .map((node) => [node.tagName, node.textContent, node.scrollWidth, node.clientWidth])"""
    assert driver.execute_script(script) == []
    script = """return Array.from(document.querySelectorAll('.plot'))
        .filter((plot) => plot.querySelector('svg').getBoundingClientRect().width > plot.clientWidth + 1).length"""
    assert driver.execute_script(script) == 0


def test_charts_follow_light_and_dark(driver, pages):
    def look():
        color = "return getComputedStyle(document.querySelector('#learning-0 .scatterlayer path.js-line')).stroke"
        return driver.execute_script(color), driver.execute_script("return getComputedStyle(document.body).color")

    load(driver, pages["five methods"])
    light = look()
    emulate(driver, "dark")
    # the page redraws on the event; a script run after it sees the new colours
    dark = driver.execute_async_script("setTimeout(arguments[0], 1000)") or look()
    assert light[0] != dark[0]
    assert light[1] != dark[1]


def test_a_method_can_be_hidden_and_shown_again(driver, pages):
    load(driver, pages["five methods"])
    button = driver.find_element("css selector", "button[data-slot='m3']")
    assert button.text == "corpo"
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    drawn, full = n_drawn(driver), expected(REPORTS["five methods"])
    assert drawn["curve-r_count"] == full["curve-r_count"] - 1
    assert drawn["learning-0"] == full["learning-0"] - 2  # its line and its band
    assert drawn["classes-0"] == full["classes-0"]
    button.click()
    assert n_drawn(driver) == full


def test_print_is_light_and_narrow_and_the_screen_comes_back(driver, pages):
    script = """dispatchEvent(new Event(arguments[0]));
        return [getComputedStyle(document.body).color, document.querySelector('#curve-r_count svg').clientWidth]"""
    load(driver, pages["five methods"])
    light, wide = driver.execute_script(script, "none")
    load(driver, pages["five methods"], scheme="dark")
    dark = driver.execute_script(script, "none")
    assert dark[0] != light
    assert driver.execute_script(script, "beforeprint") == [light, 620]
    assert driver.execute_script(script, "afterprint") == dark
    assert wide != 620


def test_a_tooltip_tells_the_values(driver, pages):
    load(driver, pages["five methods"])
    plot = driver.find_element("css selector", "#curve-r_count .nsewdrag")
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", plot)
    webdriver.ActionChains(driver).move_to_element(plot).pause(1).perform()
    text = driver.execute_script("return document.querySelector('#curve-r_count .hoverlayer').textContent")
    assert "step " in text
    assert all(name in text for name in REPORTS["five methods"]["settings"]["methods"])


def test_tables_and_words_are_readable_without_scripts(driver, pages):
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        load(driver, pages["five methods"])
        text = driver.find_element("tag name", "body").text
    finally:
        driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert "The charts need scripts, which are off." in text
    assert "+0.140 higher" in text
