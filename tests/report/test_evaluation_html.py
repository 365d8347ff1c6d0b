"""The evaluation's page: what stands on it, and in a real browser that it fits, loads nothing and runs nothing."""

import copy
import json
import re
from html.parser import HTMLParser

import pytest

from corpo_rl.report.evaluation_html import evaluation_html
from corpo_rl.report.evaluation_svg import score_picture

from .audits import HOSTILE
from .browsing import CHROMEDRIVER, CHROMIUM, load
from .evaluations import EVALUATIONS, answers_of, document_of, make_items

PAGES = {name: evaluation_html(document) for name, document in EVALUATIONS.items()}

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


def test_the_page_names_the_best_model_and_what_it_gains():
    text = words(PAGES["two"])
    whole = EVALUATIONS["two"]["splits"]["all"]["models"]
    best = whole["runs/after/model"]["figures"]["pass@1"]["value"]
    assert f"{100 * best:.1f} % of verdicts right: runs/after/model, the most of 2 models" in text
    gain = 100 * (best - whole["runs/before/model"]["figures"]["pass@1"]["value"])
    assert f"That is {gain:.1f} points more than runs/before/model." in text


def test_figures_and_differences_are_those_of_the_document():
    text = words(PAGES["two"])
    for split in EVALUATIONS["two"]["splits"].values():
        for one in split["models"].values():
            for name in ("pass@1", "auroc", "brier", "ece"):
                figure = one["figures"][name]
                assert f"{figure['value']:.3f} [{figure['low']:.3f}, {figure['high']:.3f}]" in text
            if one["differences"]:
                apart = one["differences"]["figures"]["brier"]
                assert f"{apart['value']:+.3f}" in text


def test_a_model_that_never_parsed_is_told_first():
    items = make_items(8)
    text = words(evaluation_html(document_of({"mute": answers_of(items, skill=0, mute=1.0)})))
    assert "None of 16 completions holds two scores in the form asked for" in text
    assert "0.0 % of verdicts right" in text
    assert "ECE n/a" in text


def test_a_single_split_and_order():
    text = words(PAGES["single"])
    assert "Each pair was asked in one order only: --both-orders measures what the order does." in text
    assert "Every completion parsed." in text
    assert "All pairs" not in text


def test_a_difference_that_is_not_sure_is_no_gain():
    items = make_items(12)
    models = {"one": answers_of(items, skill=0.4, seed=1), "other": answers_of(items, skill=0.8, seed=3)}
    document = document_of(models)
    node = document["splits"]["all"]["models"]["other"]["differences"]["figures"]["pass@1"]
    assert node["verdict"] == "no difference found"
    assert node["value"] > 0
    assert "; the interval of the difference holds 0" in words(evaluation_html(document))


def test_better_and_worse_are_told_by_what_the_figure_means():
    page = PAGES["two"].replace("\N{MINUS SIGN}", "-")
    differences = EVALUATIONS["two"]["splits"]["all"]["models"]["runs/after/model"]["differences"]["figures"]
    for name, kind in (("pass@1", "good"), ("brier", "good"), ("score_as_a", "told")):
        apart = differences[name]
        digits = 2 if name == "score_as_a" else 3
        assert f'<span class="{kind}">{apart["value"]:+.{digits}f} {apart["verdict"]}</span>' in page
    items = make_items(12)
    worse = evaluation_html(
        document_of({"one": answers_of(items, skill=3), "mute": answers_of(items, skill=0, mute=1)})
    )
    assert '<span class="bad">+100\N{NO-BREAK SPACE}% higher</span>' in worse, "parse failures"


def test_a_score_picture_stands_where_its_numbers_say():
    scores = [
        {"score": score, "n_right": 0, "n_wrong": 0, "right_share": dict.fromkeys(("value", "low", "high"))}
        for score in range(11)
    ]
    scores[0] |= {"n_wrong": 4, "right_share": {"value": 0.0, "low": None, "high": None}}
    scores[10] |= {"n_right": 6, "n_wrong": 2, "right_share": {"value": 0.75, "low": 0.5, "high": 1.0}}
    picture = score_picture("judge", scores, 3)
    circles = re.findall(r'<circle class="model dot" style="--model:var\(--m3\)" cx="([\d.]+)" cy="([\d.]+)"', picture)
    assert [(float(x), float(y)) for x, y in circles] == [(56.0, 200.0), (334.0, 10 + 190 / 4)]
    bars = re.findall(r'class="answers (\w+)" x="[\d.]+" y="([\d.]+)" width="17" height="([\d.]+)"', picture)
    # 8 answers fill 78 px: 4 wrong ones 39, then 6 right and 2 wrong ones on top of each other
    assert bars == [("wrong", "269.00", "39.00"), ("right", "249.50", "58.50"), ("wrong", "230.00", "19.50")]
    assert picture.count("whisker") == 1
    assert "score 10: 6 of 8 right" in picture


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluations")
    paths = {name: folder / f"{name}.html" for name in PAGES}
    for name, path in paths.items():
        path.write_text(PAGES[name], encoding="utf-8")
    return paths


@needs_browser
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
            'h1, h2, h3, h4, p, li, dt, dd, td, th, caption:not(.unseen), figcaption, summary, code, .sample, .who'))
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
    for shown in (*HOSTILE[:3], HOSTILE[6]):
        assert shown in text
    assert "\x1b" not in text
    assert "\u202e" not in text


@needs_browser
def test_every_picture_and_table_has_a_name(driver, pages):
    load(driver, pages["four"])
    names = driver.execute_script(
        "return Array.from(document.querySelectorAll('figure svg[role]')).map((svg) => [svg.getAttribute('role'), "
        "svg.getAttribute('aria-label'), ...['title', 'desc'].map((part) => svg.querySelector(part).textContent)])"
    )
    assert len(names) == 4 * 4
    assert all(role == "img" and label and title and label == about for role, label, title, about in names)
    heads = driver.execute_script(
        "return Array.from(document.querySelectorAll('table')).map((table) => [table.caption.textContent, "
        "table.querySelectorAll('tbody tr').length, table.querySelectorAll('tbody th[scope=row]').length])"
    )
    assert all(caption and rows == named for caption, rows, named in heads)


def test_the_page_computes_nothing_of_its_own():
    document = copy.deepcopy(EVALUATIONS["two"])
    document["splits"]["all"]["models"]["runs/after/model"]["figures"]["ece"] |= {"value": 0.4321}
    assert "0.432" in words(evaluation_html(document))
