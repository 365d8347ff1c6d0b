"""The results as one HTML file that needs no network: tables and words are plain HTML, charts are drawn by Plotly."""

import base64
import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping
from html import escape
from importlib.resources import files
from typing import Any

from corpo_rl.errors import MissingExtraError
from corpo_rl.records import Interval
from corpo_rl.report.charts import CLASSES, Section, Style, sections, styles
from corpo_rl.report.schema import CURVES
from corpo_rl.report.summary import findings, headline
from corpo_rl.report.view import (
    BASE,
    Measure,
    Results,
    capital,
    comparison,
    evaluation,
    interval,
    level_text,
    measure,
    measures,
    method_names,
    number,
    percent,
    reference,
    runs_of,
    split_names,
    split_title,
)

MINUS = "\N{MINUS SIGN}"

SHARES = {"hedge_rate", "parse_failure_rate", "score_accuracy"}
"""Measures written as percentages."""

MARKERS = (
    '<circle cx="17" cy="7" r="4"/>',
    '<rect x="13" y="3" width="8" height="8"/>',
    '<path d="M17 2 22 7 17 12 12 7Z"/>',
    '<path d="M17 2 22 11H12Z"/>',
    '<path d="M17 12 12 3H22Z"/>',
    '<path d="M15.5 2.5h3v3h3v3h-3v3h-3v-3h-3v-3h3Z"/>',
    '<path d="m14 2.5 3 3 3-3 1.8 1.8-3 3 3 3-1.8 1.8-3-3-3 3-1.8-1.8 3-3-3-3Z"/>',
    '<path d="m17 1.5 1.6 3.6 3.9.4-2.9 2.6.8 3.9-3.4-2-3.4 2 .8-3.9-2.9-2.6 3.9-.4Z"/>',
)
"""Plotly's marker of each palette slot, for the keys, around (17, 7)."""


def compare_html(results: Results) -> str:
    """The whole report as one HTML page.

    All text from the results is escaped, and the page's Content-Security-Policy allows only the two scripts it was
    written with and no network at all. Tables and words are readable without scripts.

    Args:
        results: A results file as loaded from JSON, checked by `check_results`.

    Raises:
        MissingExtraError: Plotly is not installed.
    """
    shown = sections(results)
    library, script = _plotly_js(), _asset("page.js")
    figures = [{"id": chart.chart_id, "figure": chart.figure} for section in shown for chart in section.charts]
    policy = (
        f"default-src 'none'; script-src {_digest(library)} {_digest(script)}; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    body = "\n".join(
        [
            _head(results),
            *(_final_table(results, split) for split in split_names(results)),
            _words(results),
            *_chart_sections(results, shown),
            _differences(results),
            _facts(results),
            _definitions(results),
        ]
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{escape(f"corpo-rl compare: {_task(results)}")}</title>
<link rel="icon" href="data:,">
<style>{_asset("page.css")}</style>
</head>
<body>
<div class="page">
{body}
<footer>Written by corpo-rl {escape(str(results["corpo_rl_version"]))}. The same figures, and the curves of every
seed, are in results.json beside this file. This page loads nothing from the network.</footer>
</div>
<script type="application/json" id="figures">{script_json(figures)}</script>
<script>{library}</script>
<script>{script}</script>
</body>
</html>
"""


def script_json(data: object) -> str:
    r"""JSON that cannot end the script element it stands in, nor start a comment or a line.

    Example:
        >>> script_json({"name": "</script>"})
        '{"name": "\\u003c/script\\u003e"}'
    """
    text = json.dumps(data, ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _head(results: Results) -> str:
    settings = results["settings"]
    names, seeds = method_names(results), settings.get("seeds") or []
    facts = {
        "Task": _task(results),
        "Policy": settings.get("policy"),
        "Methods": ", ".join(names),
        "Seeds": ", ".join(map(str, seeds)),
        "Steps": settings.get("steps"),
        "min_correct": settings.get("min_correct"),
        "Created": results["created"],
    }
    shown = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(str(value))}</dd></div>"
        for name, value in facts.items()
        if value not in (None, "")
    )
    poor = "".join(f'<p class="poor">{_prose(found.text)}</p>' for found in findings(results) if found.kind == "poor")
    return f"""<header class="top">
<p class="eyebrow"><b>corpo-rl compare</b> {escape(str(results["corpo_rl_version"]))}</p>
<h1>{_prose(headline(results))}</h1>
{poor}<dl class="facts">{shown}</dl>
<p class="command"><code>{escape(str(results["command"]))}</code></p>
</header>
<main>
<h2 id="results">Final results</h2>
<p class="caption">Brackets and bars are {level_text(results)} intervals. The bar's scale runs from 0 to 1; the dotted
mark is the base policy before training.</p>"""


def _final_table(results: Results, split: str) -> str:
    columns, base_line = measures(results), reference(results)
    about = results["splits"][split]
    names = (BASE, *method_names(results))
    found = next((found for name in names if (found := evaluation(results, name, split)) is not None), None)
    counts = "not evaluated" if found is None else f"{found['n_items']} items, {found['n_samples']} samples a method"
    description = f"{about['description']}, " if about.get("description") else ""
    versus = None if base_line is None else f"pass@1 against {base_line}"
    heads = ["", columns[0].label, *([versus] if versus else []), *(column.label for column in columns[1:])]
    rows = "".join(_final_row(results, split, name, columns, versus) for name in names)
    widths = [
        "name",
        "pass",
        *(["versus"] if versus else []),
        *("reward" if column.key == "mean_reward" else "" for column in columns[1:]),
    ]
    return f"""<div class="scroll"><table class="final">
<caption><b>{_text(capital(split_title(results, split)))}</b> <span>{_text(description)}{counts}</span></caption>
<colgroup>{"".join(f"<col{_class(width)}>" for width in widths)}</colgroup>
<thead><tr>{"".join(f'<th scope="col">{_text(head)}</th>' for head in heads)}</tr></thead>
<tbody>{rows}</tbody></table></div>"""


def _final_row(results: Results, split: str, name: str, columns: list[Measure], versus: str | None) -> str:
    look = styles(results).get(name)
    first = measure(results, name, split, columns[0].key)
    base = measure(results, BASE, split, columns[0].key)
    cells = [
        f'<td class="pass" data-label="{escape(columns[0].label)}"><div class="passes">{_strip(first, base, look)}'
        f"<div>{_value(first, columns[0].key)}</div></div></td>"
    ]
    if versus is not None:
        cells.append(f'<td class="versus" data-label="{escape(versus)}">{_versus(results, split, name)}</td>')
    for column in columns[1:]:
        value = _value(measure(results, name, split, column.key), column.key)
        cells.append(f'<td data-label="{escape(column.label)}">{value}</td>')
    label = f'<span class="who">{"" if look is None else _mark(look)}<span>{_text(name)}</span></span>'
    return f'<tr{_class("base" if name == BASE else "")}><th scope="row">{label}</th>{"".join(cells)}</tr>\n'


def _value(found: Interval, key: str) -> str:
    write = percent if key in SHARES else number
    span = f"<small>[{write(found.low)}, {write(found.high)}]</small>" if not math.isnan(found.low) else ""
    return _minus(write(found.value)) + _minus(span)


def _versus(results: Results, split: str, name: str) -> str:
    if name == reference(results):
        return "reference"
    row = comparison(results, name, split, "pass@1", against=reference(results))
    return "" if row is None else _difference(row)


def _difference(row: Mapping[str, Any]) -> str:
    found = interval(row["difference"])
    if math.isnan(found.value):
        return "n/a"
    word = row["verdict"] if row["verdict"] in {"higher", "lower"} else ""
    size = f"<span{_class(word)}>{_minus(number(found.value, signed=True))} {word}</span>"
    span = _minus(f"<small>[{number(found.low, signed=True)}, {number(found.high, signed=True)}]</small>")
    none = "" if word else "<small>no difference found</small>"
    return size + span + none


def _strip(found: Interval, base: Interval, look: Style | None) -> str:
    """A bar from 0 to 1 with the interval, the value, and the base's value: the cell's numbers as a picture."""
    if math.isnan(found.value):
        return "<div></div>"
    places = {"at": found.value, "low": found.low, "high": found.high, "base": base.value}
    style = "".join(f"--{name}:{100 * value:.2f}%;" for name, value in places.items() if not math.isnan(value))
    span = '<i class="span"></i>' if not math.isnan(found.low) else ""
    start = '<i class="from"></i>' if not math.isnan(base.value) else ""
    color = "var(--soft)" if look is None else look.color
    parts = f'<i class="axis"></i>{start}{span}<i class="value"></i>'
    return f'<div class="strip" aria-hidden="true" style="{style}--color:{color}">{parts}</div>'


def _words(results: Results) -> str:
    found = findings(results)
    kinds = {"comparison", "level", "dynamics"}
    told = "".join(f"<li>{_prose(f.text)}</li>" for f in found if f.kind in kinds)
    cautions = "".join(f"<li>{_prose(f.text)}</li>" for f in found if f.kind == "caution")
    box = f'<div class="cautions"><h3>Read with care</h3><ul>{cautions}</ul></div>' if cautions else ""
    return f'<h2 id="words">In words</h2>\n<ul class="words">{told}</ul>\n{box}'


def _chart_sections(results: Results, shown: list[Section]) -> Iterable[str]:
    if not shown:
        yield '<h2 id="curves">Training</h2><p class="caption">No run has recorded a curve yet.</p>'
        return
    looks = styles(results)
    buttons = "".join(
        f'<li><button type="button" disabled aria-pressed="true" data-slot="m{look.slot}">{_mark(look)}'
        f"<span>{_text(name)}</span></button></li>"
        for name, look in looks.items()
    )
    yield f"""<section><h2 id="curves">Training</h2>
<noscript><p class="poor">The charts need scripts, which are off. Tables and words are complete without them; the
curves' numbers are in results.json.</p></noscript>
<ul class="key sticky" aria-label="Methods: press to hide or show">{buttons}</ul>"""
    for section in shown:
        wide = " wide" if len(section.charts) in {1, 2, 4} else ""
        plots = "".join(
            f"<figure><figcaption>{_text(chart.title)} "
            f"<span>{_text(chart.unit)}</span></figcaption>"
            f'<div class="plot" id="{chart.chart_id}" role="img" '
            f'aria-label="{escape(chart.title)}: {escape(chart.unit)} by training step"></div>'
            '<p class="under">training step</p></figure>'
            for chart in section.charts
        )
        key = _class_key() if section.key == "classes" else ""
        yield f"""<h3>{_text(section.title)}</h3>
<p class="caption">{_text(section.caption)}</p>
{key}<div class="charts{wide}">{plots}</div>"""
    yield "</section>"


def _class_key() -> str:
    entries = "".join(
        f'<li class="entry"><span class="swatch" style="background:var(--k{place})"></span>{escape(label)}</li>'
        for place, (_, label) in enumerate(CLASSES)
    )
    return f'<ul class="key" aria-label="Kinds of groups">{entries}</ul>'


def _differences(results: Results) -> str:
    rows = "".join(
        f"<tr><td>{_text(split_title(results, row['split']))}</td><td>{_text(row['measure'])}</td>"
        f"<th scope='row'>{_text(row['method'])}</th><td>{_text(row['reference'])}</td><td>{_difference(row)}</td>"
        f"<td>{row['n_items']}</td><td>{row['n_seeds']}</td></tr>\n"
        for row in results["comparisons"]
    )
    if not rows:
        return ""
    heads = ("split", "measure", "method", "reference", "difference", "items", "seeds")
    return f"""<h2 id="differences">Paired differences</h2>
<p class="caption">Method minus reference on the same items, with {level_text(results)} intervals.</p>
<details><summary>All {len(results["comparisons"])} comparisons</summary><div class="scroll"><table>
<thead><tr>{"".join(f'<th scope="col">{head}</th>' for head in heads)}</tr></thead><tbody>
{rows}</tbody></table></div></details>"""


def _facts(results: Results) -> str:
    runs = {
        f"{run['method']}, seed {run['seed']}": f"{run['status']}, {run['steps']} steps"
        + (f", {run['train_seconds']:.0f} s" if run.get("train_seconds") is not None else "")
        for name in method_names(results)
        for run in runs_of(results, name)
    }
    tables = (("Settings", results["settings"]), ("Environment", results["environment"]), ("Runs", runs))
    return "\n".join(f'<h2 id="{title.lower()}">{title}</h2>\n{_pairs(pairs)}' for title, pairs in tables)


def _pairs(pairs: Mapping[str, Any]) -> str:
    rows = "".join(
        f"<div><dt>{_text(name)}</dt><dd>{_text(_written(value))}</dd></div>" for name, value in pairs.items()
    )
    return f'<dl class="pairs">{rows}</dl>'


def _written(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _definitions(results: Results) -> str:
    terms = {
        "correct": "A rollout whose reward is at least min_correct; otherwise it failed.",
        **{column.label: column.definition for column in measures(results)},
        "no difference found": f"The {level_text(results)} interval of the paired difference holds 0. "
        "It does not say that there is none.",
        **CURVES,
    }
    rows = "".join(f"<div><dt>{_text(name)}</dt><dd>{_text(text)}</dd></div>" for name, text in terms.items())
    return f'<h2 id="definitions">Definitions</h2>\n<dl class="terms">{rows}</dl>\n</main>'


def _mark(look: Style) -> str:
    """A method's line, dash and marker as a small picture."""
    dash = "" if look.dash == "solid" else f' stroke-dasharray="{look.dash.replace("px", "")}"'
    return (
        f'<svg width="34" height="14" viewBox="0 0 34 14" aria-hidden="true" style="color:{look.color}">'
        f'<path d="M0 7H34" stroke="currentColor" stroke-width="2"{dash}/>'
        f'<g fill="currentColor">{MARKERS[look.slot]}</g></svg>'
    )


def _plotly_js() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise MissingExtraError("the HTML report", "report") from error
    # the browser reads every line end as \n before it checks the digest
    return str(get_plotlyjs()).replace("\r\n", "\n").replace("\r", "\n")


def _asset(name: str) -> str:
    return (files("corpo_rl.report") / name).read_text(encoding="utf-8").replace("\r\n", "\n")


def _digest(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _text(text: object) -> str:
    return escape(str(text))


def _prose(text: str) -> str:
    """A sentence, with true minus signs and no line end between a number and its percent sign."""
    return re.sub(r"(?<=\d) %", "\N{NO-BREAK SPACE}%", re.sub(r"(?<=[ (])-(?=\d)", MINUS, _text(text)))


def _minus(text: str) -> str:
    return text.replace("-", MINUS)


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""


def _task(results: Results) -> str:
    return str(results["settings"].get("task", "unnamed task"))
