"""Every figure of the document reaches every format: changed in the document, it changes what is written."""

import copy
import html
import json
import re

import pytest

from corpo_rl.report.audit_diff import audit_diff_html, audit_diff_json, audit_diff_markdown, audit_diff_text
from corpo_rl.report.audit_html import audit_html
from corpo_rl.report.audit_markdown import audit_markdown
from corpo_rl.report.audit_schema import AUDIT_SCHEMA, CLASSES, audit_json, check_audit
from corpo_rl.report.audit_text import audit_text

from .audits import AUDITS, make_audit, make_diff

FORMATS = {"text": audit_text, "md": audit_markdown, "html": audit_html, "json": audit_json}

FORMS = {"integer": ("765,432", "765432"), "share": ("56.8", "56.78 %", "0.5678"), "number": ("7.57", "7.5678")}
"""How 765432, 0.5678 as a share and 7.5678 may be written."""

NOT_SHOWN = re.compile(
    r"log\.sources|curves\.(r_loss_proxy|unscorable)|curves\.\w+\[[1-9]|"
    # text and Markdown show what a reader of ten steps needs; all of it is in the JSON
    r"examples\[[^0]"
)


def numbers(node, schema, path=""):
    """Path, kind and steps to every number of a document."""
    if isinstance(node, dict):
        for key, inner in node.items():
            known = schema.get("properties", {}).get(key, schema.get("additionalProperties"))
            yield from numbers(inner, known, f"{path}.{key}".lstrip("."))
    elif isinstance(node, list):
        for row, inner in enumerate(node):
            yield from numbers(inner, schema["items"], f"{path}[{row}]")
    elif isinstance(node, int | float) and not isinstance(node, bool):
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        kind = "integer" if "integer" in kinds else "share" if schema.get("maximum") == 1 else "number"
        yield path, "integer" if "table." in path and ".rollouts." in path else kind


def changed(document, path, value):
    """A copy with another value at a path."""
    document = copy.deepcopy(document)
    node, keys = (
        document,
        [int(row) if row else key for key, row in re.findall(r"([^.\[\]]+)(?![^\[]*\])|\[(\d+)\]", path)],
    )
    for key in keys[:-1]:
        node = node[key]
    node[keys[-1]] = value
    return document


def words(text):
    """What a reader of any format sees, without markup, escapes and special blanks."""
    if text.startswith("<!DOCTYPE"):
        text = re.sub(r"(?s)<style>.*?</style>|<[^>]*>", " ", text)
    return html.unescape(text).replace("\\", "").replace("\N{NO-BREAK SPACE}", " ").replace("\N{MINUS SIGN}", "-")


LEAVES = [leaf for leaf in numbers(make_audit(), AUDIT_SCHEMA) if not NOT_SHOWN.search(leaf[0])]

BEFORE = {form: words(write(make_audit())) for form, write in FORMATS.items()}


def test_the_leaves_are_most_of_the_document():
    assert len(LEAVES) > 180
    assert ("estimators.loo_corpo.reinforced_failure_share", "share") in LEAVES
    assert ("table.failed.token_mass.positive", "number") in LEAVES
    for text in BEFORE.values():
        assert not any(form in text for forms in FORMS.values() for form in forms)


@pytest.mark.parametrize("form", FORMATS)
def test_every_figure_is_written_as_it_stands(form):
    missing = []
    for path, kind in LEAVES:
        audit = changed(make_audit(), path, {"integer": 765_432, "share": 0.5678, "number": 7.5678}[kind])
        check_audit(audit)
        if not any(written in words(FORMATS[form](audit)) for written in FORMS[kind]):
            missing.append(path)
    assert missing == []


@pytest.mark.parametrize("form", ["text", "md", "html"])
def test_rows_hold_the_figures_of_their_row(form):
    text = " ".join(re.sub(r"[|]", " ", BEFORE[form]).split())
    assert "partial_credit 0.800 2,107 82.3 % 0.171 0.204 731" in text
    assert (
        "0.9 * 8,204 1,781 31.2 % 2,561 88.3 % active" if form == "html" else "0.9 * 8,204 1,781 2,561 31.2 %"
    ) in text
    if form != "text":  # the terminal turns these tables around
        assert "grpo, batch std >99.9 % 2.4e-07" in text
        assert "loo_corpo <0.1 % 3 0.044 0.030 5,949 9 846 360 1,421 8,201" in text
    assert "31.2 %" in text
    assert "[29.8, 32.7]" in text
    assert "2,561 of 8,204 had an advantage above 0" in text
    assert "88.1 % of them sit in groups without one correct rollout" in text


@pytest.mark.parametrize("form", ["text", "md", "html"])
@pytest.mark.parametrize("name", ["unjudged", "bare"])
def test_what_is_not_known_is_no_number(form, name):
    text = words(FORMATS[form](AUDITS[name]))
    assert "n/a" in text
    assert not re.search(r"\b(nan|None|inf)\b", text)


def test_unjudged_audits_show_levels_first_and_say_what_to_pass():
    for form in ("text", "md", "html"):
        text = words(FORMATS[form](AUDITS["unjudged"]))
        assert "Nothing says which rollouts are correct, so no failure was counted." in text
        assert "--min-correct X" in " ".join(text.split())
        assert text.index("Thresholds to choose from") < text.index("Other estimators on the same rewards")


def test_nothing_checked_is_never_passed():
    for form in ("text", "md", "html"):
        text = words(FORMATS[form](AUDITS["unjudged"]))
        assert "Nothing was checked" in text
        assert "passed" not in text.lower()


def test_a_run_without_reinforced_failures_says_so_without_a_caution():
    text = audit_text(AUDITS["bare"])
    assert "0.0 % of failed rollouts were reinforced." in text
    assert "[0.0, 0.0]" not in text, "that none was seen does not make it sure"
    assert "0 of 8,204 had an advantage above 0 (recomputed with grpo: the log holds no" in text
    assert "Whether it is meant here" not in text
    assert "Whether it is meant here" in audit_text(make_audit())


def test_no_failure_at_all():
    audit = copy.deepcopy(AUDITS["bare"])
    audit |= {"n_failed": 0, "reinforced_failure_share": {"value": None, "low": None, "high": None}}
    assert "No rollout failed, so none could be reinforced." in audit_text(audit)
    assert "No rollout failed, so none could be reinforced." in words(audit_html(audit))


def test_groups_of_one_are_no_clean_bill():
    audit = copy.deepcopy(AUDITS["bare"]) | {"n_groups_comparable": 0}
    for form in ("text", "md", "html"):
        text = words(FORMATS[form](audit))
        assert "No group has two rollouts with a reward, so nothing was compared with anything." in " ".join(
            text.split()
        )
        assert "of failed rollouts were reinforced" not in text


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", AUDITS)
def test_an_audit_read_back_from_json_is_written_alike(form, name):
    again = json.loads(audit_json(AUDITS[name]))
    assert FORMATS[form](again) == FORMATS[form](AUDITS[name])


def test_comparisons_hold_both_figures_and_their_difference():
    rows = {
        "failed rollouts reinforced": "31.2 % 0.0 % -31.2 [-32.7, -29.8]",
        "r_count: pushed up per pushed down": "1.01 0.250 -0.765",
        "mixed groups": "28.9 % 35.0 % +6.1",
        "A floor separates something": "NOT CHECKED WARN",
    }
    for write in (audit_diff_text, audit_diff_markdown, audit_diff_html):
        text = " ".join(re.sub(r"[|]", " ", words(write(make_diff()))).split())
        for label, figures in rows.items():
            assert f"{label} {figures}" in text
        assert "88.0 % n/a n/a" in text
        assert "Compare with care: groups have other sizes: 8 and 16." in text
    assert json.loads(audit_diff_json(make_diff())) == make_diff()


def test_every_kind_of_group_has_its_count():
    for form in ("text", "md", "html"):
        text = " ".join(re.sub(r"[|]", " ", BEFORE[form]).split())
        for name, count in make_audit()["group_classes"].items():
            assert (f"{CLASSES[name]} {count}" if form == "html" else f"{count} {CLASSES[name]}") in text
