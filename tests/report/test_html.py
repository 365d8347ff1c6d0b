import base64
import hashlib
import json
import re
import sys
from html.parser import HTMLParser

import pytest

from corpo_rl.errors import MissingExtraError
from corpo_rl.report.html import compare_html
from corpo_rl.report.markup import script_json

from .synthetic import HOSTILE, make_hostile, make_results

pytest.importorskip("plotly", reason="plotly is not installed")


class Page(HTMLParser):
    """Tags, attributes, the text of the body and the scripts of a page, as a browser would split them."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.scripts, self.texts, self.inside = [], [], [], []
        self.feed(text)
        self.text = " ".join(" ".join(self.texts).split())

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.inside.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        if tag in self.inside:
            while self.inside.pop() != tag:
                pass

    def handle_data(self, data):
        if self.inside[-1:] == ["script"]:
            self.scripts[-1] += data
        elif self.inside[-1:] != ["style"]:
            self.texts.append(data)


@pytest.fixture(scope="module")
def plain():
    return Page(compare_html(make_results()))


@pytest.fixture(scope="module")
def hostile():
    return Page(compare_html(make_hostile()))


def test_tables_and_words_stand_in_the_page_without_scripts(plain):
    for text in (
        "Against grpo by pass@1: static, corpo and loo_corpo are higher on every split",
        "corpo 0.860 [0.837, 0.883] +0.140 higher [+0.080, +0.200]",
        "One seed per method: the intervals cover the choice of items only",
        "corpo-rl compare --methods grpo,dr_grpo,static,corpo,loo_corpo --steps 100 --out runs/demo",
        "learning_rate 0.0003",
        "torch 2.13.0",
        "static, seed 0: the floor was saturated in steps 1 to 20.",
        "The charts need scripts, which are off.",
    ):
        assert text in plain.text


def test_only_our_two_scripts_may_run(plain):
    (policy,) = [attrs["content"] for tag, attrs in plain.tags if attrs.get("http-equiv") == "Content-Security-Policy"]
    data, library, script = plain.scripts
    for text in (library, script):
        assert f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" in policy
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-inline" not in policy.split(";")[1]
    assert "http" not in policy
    assert json.loads(data)[0]["id"] == "learning-0"


def test_hostile_text_adds_no_tag_and_no_attribute(plain, hostile):
    assert len(hostile.scripts) == 3
    for page in (plain, hostile):
        assert not [tag for tag, _ in page.tags if tag in {"img", "iframe", "a", "object", "form"}]
        assert not [name for _, attrs in page.tags for name in attrs if name.startswith("on")]
        assert all("src" not in attrs and attrs.get("href", "data:,") == "data:," for _, attrs in page.tags)
    for text in HOSTILE[:3]:
        assert text in hostile.text
    json.loads(hostile.scripts[0])


def test_ids_are_unique(plain, hostile):
    for page in (plain, hostile):
        ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
        assert len(ids) == len(set(ids))


def test_undefined_figures_are_written_as_such():
    results = make_results(("grpo", "corpo"))
    results["methods"]["corpo"]["evaluation"]["ood"]["measures"]["pass@1"] = dict.fromkeys(("value", "low", "high"))
    for row in results["comparisons"]:
        row["difference"] = dict.fromkeys(("value", "low", "high"))
    text = compare_html(results)
    assert re.search(r'<th scope="row">.*?corpo.*?n/a', text)
    assert "nan" not in Page(text).text.lower()


def test_every_method_below_the_base_is_said_under_the_headline():
    results = make_results(("grpo", "corpo"))
    for row in results["comparisons"]:
        row["verdict"] = "lower"
    page = Page(compare_html(results))
    assert page.text.index("Training made the policy worse there.") < page.text.index("Final results")


def test_lower_is_better_for_an_error_and_worse_for_a_pass():
    results = make_results(("grpo", "corpo"))
    for row in results["comparisons"]:
        row["verdict"] = "lower"
        row["measure"] = row["measure"].replace("mean_reward", "brier")
    text = compare_html(results)
    rows = re.findall(r"corpo against grpo</th>(.*?)</tr>", text, re.S)
    assert len(rows) == 3
    for row in rows:
        assert re.search(r'data-label="pass@1"><span class="bad">', row)
        assert re.search(r'data-label="Brier"><span class="good">', row)


def test_a_page_without_runs_is_still_a_page():
    results = make_results()
    results |= {"runs": [], "methods": {}, "comparisons": [], "base": {"evaluation": {}}}
    text = Page(compare_html(results)).text
    assert "No method could be compared with grpo by pass@1." in text
    assert "No run has recorded a curve yet." in text


def test_script_json_cannot_end_its_element():
    text = script_json({"</script><!--": ["\u2028", "&lt;"]})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"</script><!--": ["\u2028", "&lt;"]}


def test_missing_plotly_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(MissingExtraError, match=r"the HTML report needs .* pip install 'corpo-rl\[report\]'"):
        compare_html(make_results())
