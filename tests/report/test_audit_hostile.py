"""Text from a log can hold anything. None of it may act, hide, or break a line or a table."""

import re
import unicodedata
from html.parser import HTMLParser

import pytest

from corpo_rl.report.audit_diff import audit_diff_html, audit_diff_markdown, audit_diff_text
from corpo_rl.report.audit_html import audit_html
from corpo_rl.report.audit_markdown import audit_markdown, escaped
from corpo_rl.report.audit_text import audit_text
from corpo_rl.report.audit_view import shown, shown_lines
from corpo_rl.report.text import columns_of

from .audits import AUDITS, HOSTILE, make_audit, make_diff, make_hostile_diff

HTML = {
    **{name: audit_html(audit) for name, audit in AUDITS.items()},
    "diff": audit_diff_html(make_diff()),
    "hostile diff": audit_diff_html(make_hostile_diff()),
}
TEXT = {
    **{name: audit_text(audit) for name, audit in AUDITS.items()},
    "diff": audit_diff_text(make_diff()),
    "hostile diff": audit_diff_text(make_hostile_diff()),
}
MARKDOWN = {
    **{name: audit_markdown(audit) for name, audit in AUDITS.items()},
    "diff": audit_diff_markdown(make_diff()),
    "hostile diff": audit_diff_markdown(make_hostile_diff()),
}


class Page(HTMLParser):
    """Tags with their attributes, and the text of the body."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self.open = [], "", []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in {"meta", "link", "br", "col"}:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.text += data


PAGES = {name: Page(text) for name, text in HTML.items()}


def odd(text, allowed="\n"):
    """Characters that move a cursor, hide, or turn a line around."""
    kinds = ((char, unicodedata.category(char)) for char in set(text) - set(allowed))
    return {char for char, kind in kinds if kind[0] == "C" or kind in {"Zl", "Zp"}}


@pytest.mark.parametrize("name", TEXT)
def test_text_fits_the_terminal_and_leaves_it_alone(name):
    lines = TEXT[name].split("\n")
    assert [line for line in lines if columns_of(line) > 80] == []
    assert odd(TEXT[name]) == set()
    assert not any(line != line.rstrip() for line in lines)
    assert TEXT[name].endswith("\n")


@pytest.mark.parametrize("name", HTML)
def test_pages_hold_no_script_no_link_and_no_handler(name):
    tags = PAGES[name].tags
    assert not [tag for tag, _ in tags if tag in {"script", "img", "iframe", "a", "object", "form", "input", "base"}]
    assert not [key for _, attrs in tags for key in attrs if key.startswith("on") or key in {"src", "srcset", "action"}]
    assert {attrs["href"] for _, attrs in tags if "href" in attrs} == {"data:,"}
    (policy,) = [attrs["content"] for _, attrs in tags if attrs.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:;")
    assert "url(" not in HTML[name]
    assert PAGES[name].open == []


@pytest.mark.parametrize("name", HTML)
def test_pages_show_no_odd_character_and_no_long_text(name):
    assert odd(HTML[name], "\n\t\N{NO-BREAK SPACE}") == set()
    assert max(map(len, re.findall(r"\S+", PAGES[name].text))) < 10_000
    assert len(HTML[name]) < 400_000
    HTML[name].encode("utf-8")


def test_hostile_pages_have_the_tags_of_plain_ones():
    def kinds(name):
        return {(tag, *sorted(attrs)) for tag, attrs in PAGES[name].tags}

    assert kinds("hostile") - {("p", "class")} <= kinds("graded")
    assert kinds("hostile diff") <= kinds("diff")


@pytest.mark.parametrize("name", ["hostile", "hostile diff"])
def test_hostile_text_is_shown_as_text(name):
    for text in (*HOSTILE[:3], HOSTILE[6]):
        assert text in PAGES[name].text
    for pages in (PAGES[name].text, TEXT[name], MARKDOWN[name].replace("\\\\", "\\").replace("\\[", "[")):
        flat = re.sub(r"\s+", "", pages)
        assert r"\x1b[2J\x1b[31mred\x07\r\n\x00" in flat or r"\x1b[2J\x1b[31mred\x07" in flat
        assert r"\u202egnp.exe\u2066\u200b\ud800" in flat


@pytest.mark.parametrize("name", MARKDOWN)
def test_markdown_holds_no_tag_and_no_link(name):
    assert odd(MARKDOWN[name]) == set()
    text = re.sub(r"(`+) .*? \1(?!`)", "", MARKDOWN[name])  # code is shown as it is
    assert "<" not in text
    assert not re.search(r"(?<!\\)(?:\\\\)*\]\(", text)
    tables = [line for line in text.split("\n") if line.startswith("|")]
    assert tables
    widths = [len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in tables]
    rules = [row for row, line in enumerate(tables) if line.startswith("|---")]
    for rule in rules:
        assert widths[rule - 1] == widths[rule] == widths[rule + 1]


def test_code_in_markdown_ends_where_the_text_ends():
    audit = make_audit()
    audit["examples"][0]["completion"] = "a `b` ```c``` <img src=x>"
    assert "completion: ```` a `b` ```c``` <img src=x> ````" in audit_markdown(audit)


def test_every_position_of_text_is_cut_and_made_visible():
    long = shown(HOSTILE[5])
    assert long == "W" * 119 + "..."
    assert shown(HOSTILE[3]) == r"\x1b[2J\x1b[31mred\x07\r\n\x00"
    assert shown_lines("a\r\nb\u2028c\x85d\n", 100) == "a\nb\nc\nd"
    assert shown("\N{NO-BREAK SPACE}\u00e9\u4e2d\U0001f600") == " \u00e9\u4e2d\U0001f600"
    assert escaped("*a* [b](c) <d> |e| `f` #g ~h~ !i &amp;") == (
        r"\*a\* \[b\](c) &lt;d&gt; \|e\| \`f\` \#g \~h\~ \!i &amp;amp;"
    )
