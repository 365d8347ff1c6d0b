"""The sweep's page: what stands on it, and in a real browser that it fits, loads nothing and runs nothing."""

import json
import re
from html.parser import HTMLParser

import pytest

from corpo_rl.report.sweep_html import sweep_html
from corpo_rl.report.sweep_svg import dimension_picture

from .audits import HOSTILE
from .browsing import CHROMEDRIVER, CHROMIUM, load
from .sweeps import RANGE, SWEEPS, document_of

PAGES = {name: sweep_html(document) for name, document in SWEEPS.items()}

needs_browser = pytest.mark.skipif(
    not (CHROMIUM and CHROMEDRIVER), reason="needs chromium and chromedriver on the PATH (apt install chromium-driver)"
)


class Words(HTMLParser):
    def __init__(self):
        super().__init__()
        self.text = []

    def handle_data(self, data):
        self.text.append(data)


def words(page):
    parser = Words()
    parser.feed(page.split("</style>")[1])
    return " ".join(" ".join(parser.text).split()).replace("\N{MINUS SIGN}", "-").replace("\N{NO-BREAK SPACE}", " ")


def test_the_page_leads_with_the_confirmed_figure():
    text = words(PAGES["usual"])
    assert "0.620 pass@1 of trial 1: static" in text
    assert "95 % interval [0.590, 0.650]" in text
    assert "It was chosen at 0.700, as the best of 7 finished trials" in text
    assert "static of corpo, static" in text
    assert "min_correct 0.2 fixed" in text


def test_parts_stand_held_out_first_with_start_and_difference():
    text = words(PAGES["usual"])
    rows = [text.index(title) for title in ("In domain, held out 98", "Out of domain 98", "In domain, half that")]
    assert rows == sorted(rows)
    assert "0.300 [0.270, 0.330] 0.620 [0.590, 0.650] +0.320 [+0.280, +0.360]" in text
    assert "trials were chosen by these" in text
    assert "under fresh seeds</h2>" not in PAGES["plain"]


def test_failed_trials_are_crosses_and_never_points():
    document = SWEEPS["usual"]
    for dimension in document["settings"]["dimensions"][:3]:
        picture = dimension_picture(document, dimension)
        assert picture.count('class="trial failed"') == 1
        assert picture.count("<circle") + picture.count('class="trial best"') == 7
        assert "trial 5 failed" in picture
    text = words(PAGES["usual"])
    assert "RuntimeError: probability tensor" in text
    assert re.search(r"5 failed static", text)


def test_a_picture_stands_where_its_numbers_say():
    trials = [
        {"number": 0, "value": 0.0, "rate": 1e-4, "tied": False},
        {"number": 1, "value": 1.0, "rate": 1e-3, "tied": True},
        {"number": 2, "value": 0.5, "rate": 1e-2, "tied": True},
    ]
    document = document_of(3, dimensions=[{"name": "method", "choices": ["corpo"]}, RANGE])
    for made, wanted in zip(document["trials"], trials, strict=True):
        made["params"]["learning_rate"] = wanted["rate"]
        made["selection"] = {"value": wanted["value"], "low": None, "high": None}
        made["tied"] = wanted["tied"]
    picture = dimension_picture(document, RANGE)
    # the plot is 190 px from 12 down, with 8 % of the span as room above and below: 0 is at 12 + 190 * 1.08 / 1.16
    bottom, middle, top = (12 + 190 * (1.08 - value) / 1.16 for value in (0.0, 0.5, 1.0))
    circles = re.findall(r'<circle class="trial (\w+)" cx="([\d.]+)" cy="([\d.]+)"', picture)
    # from 48 + 12 to 380 - 14 - 12, evenly in the logarithm
    assert circles == [("other", "60.0", f"{bottom:.1f}"), ("tied", "354.0", f"{middle:.1f}")]
    assert f'<path class="trial best" d="M207.0 {top - 6.5:.1f}' in picture
    assert "whisker" not in picture


def test_trials_of_one_listed_value_stand_side_by_side():
    document = document_of(6, dimensions=[{"name": "group_size", "choices": [16, 4]}], seeds=(0,))
    picture = dimension_picture(document, document["settings"]["dimensions"][0])
    places = sorted(float(x) for x in re.findall(r'cx="([\d.]+)"', picture))
    assert len(set(places)) == 5
    labels = re.findall(r'text-anchor="middle">([^<]+)<', picture)
    assert labels == ["4", "16"], "numbers by size"


def test_numbers_have_a_true_minus_and_names_are_left_alone():
    levels = [{"name": "method", "choices": ["a-b"]}, {"name": "min_correct", "choices": [-0.2, 0.2]}]
    page = sweep_html(document_of(2, dimensions=levels))
    assert ">\N{MINUS SIGN}0.2</td>" in page
    assert ">a-b</td>" in page


def test_many_trials_wait_to_be_opened():
    assert "<summary>40 more</summary>" in PAGES["many"]
    assert words(PAGES["many"]).count("same values as trial 0") == 2


def test_importances_and_none():
    text = words(PAGES["usual"])
    assert "learning rate 70 % group size 20 % method 10 %" in text
    assert "What mattered" not in words(PAGES["plain"])


def test_when_nothing_finished_the_page_says_so():
    text = words(PAGES["all failed"])
    assert "No trial finished; 3 failed." in text
    assert "The best setting" not in text


@pytest.mark.parametrize("name", PAGES)
def test_no_script_and_no_network(name):
    page = PAGES[name]
    assert "<script" not in page
    assert "default-src 'none'" in page
    assert not re.search(r"(?:src|href)=[\"'](?!data:|#)", page)
    assert "<img" not in page


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweeps")
    paths = {name: folder / f"{name}.html" for name in PAGES}
    for name, path in paths.items():
        path.write_text(PAGES[name], encoding="utf-8")
    return paths


@needs_browser
@pytest.mark.parametrize("name", ["usual", "many", "all failed", "hostile"])
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_pages_fit_load_nothing_and_complain_of_nothing(driver, pages, name, width, scheme):
    load(driver, pages[name], width=width, scheme=scheme)
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    urls = {event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"}
    assert pages[name].as_uri() in urls, "the log must hold the page's own request"
    assert [url for url in urls if url != pages[name].as_uri() and not url.startswith("data:")] == []
    assert driver.get_log("browser") == []
    background = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(247, 246, 242)" if scheme == "light" else "rgb(18, 20, 23)")

    driver.execute_script("for (const part of document.querySelectorAll('details')) part.open = true")
    assert driver.execute_script("return document.scrollingElement.scrollWidth") <= width
    script = """return Array.from(document.querySelectorAll(
            'h1, h2, h3, p, li, dt, dd, td, th, figcaption, summary, code'))
        .filter((node) => node.clientWidth > 0 && node.scrollWidth > node.clientWidth + 1)
        .map((node) => [node.tagName, node.textContent.slice(0, 80), node.scrollWidth, node.clientWidth])"""
    assert driver.execute_script(script) == []
    script = """return Array.from(document.querySelectorAll('.scroll'))
        .filter((box) => box.scrollWidth > box.clientWidth + 1)
        .map((box) => [box.textContent.slice(0, 80), box.scrollWidth, box.clientWidth])"""
    assert driver.execute_script(script) == []


@needs_browser
def test_hostile_text_is_shown_and_does_not_run(driver, pages):
    load(driver, pages["hostile"])
    assert driver.execute_script("return window.hacked") is None
    forbidden = "return document.querySelectorAll('script, img, a, iframe, object, form, svg[onload]').length"
    assert driver.execute_script(forbidden) == 0
    text = driver.execute_script("return document.body.textContent")
    for shown in HOSTILE[:2]:
        assert shown in text
    assert "\x1b" not in text
    assert "\u202e" not in text


@needs_browser
def test_every_picture_has_a_name(driver, pages):
    load(driver, pages["usual"])
    names = driver.execute_script(
        "return Array.from(document.querySelectorAll('figure svg[role]')).map((svg) => [svg.getAttribute('role'), "
        "svg.getAttribute('aria-label'), ...['title', 'desc'].map((part) => svg.querySelector(part).textContent)])"
    )
    assert [name[:3] for name in names] == [
        ["img", title, title] for title in ("pass@1 by method", "pass@1 by learning rate", "pass@1 by group size")
    ]
    assert all("trial 5 failed" in name[3] for name in names)
