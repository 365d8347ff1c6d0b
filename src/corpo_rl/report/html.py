"""The results as one HTML file that needs no network: tables and words are plain HTML, charts are drawn by Plotly."""

import base64
import hashlib
from collections.abc import Iterable, Mapping
from html import escape
from importlib.resources import files
from typing import Any

from corpo_rl.errors import MissingExtraError
from corpo_rl.report.charts import CLASSES, Section, sections, styles
from corpo_rl.report.markup import mark_html, prose_html, script_json, text_html
from corpo_rl.report.schema import CURVES
from corpo_rl.report.summary import findings, headline
from corpo_rl.report.tables import difference_tables, final_table
from corpo_rl.report.view import (
    Results,
    level_text,
    measures,
    method_names,
    runs_of,
    split_names,
)


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
            *(final_table(results, split) for split in split_names(results)),
            _words(results),
            *_chart_sections(results, shown),
            difference_tables(results),
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
    poor = "".join(
        f'<p class="poor">{prose_html(found.text)}</p>' for found in findings(results) if found.kind == "poor"
    )
    return f"""<header class="top">
<p class="eyebrow"><b>corpo-rl compare</b> {escape(str(results["corpo_rl_version"]))}</p>
<h1>{prose_html(headline(results))}</h1>
{poor}<dl class="facts">{shown}</dl>
<p class="command"><code>{escape(str(results["command"]))}</code></p>
</header>
<main>
<h2 id="results">Final results</h2>
<p class="caption">Brackets and bars are {level_text(results)} intervals. The bar's scale runs from 0 to 1; the dotted
mark is the base policy before training.</p>"""


def _words(results: Results) -> str:
    found = findings(results)
    kinds = {"comparison", "level", "dynamics"}
    told = "".join(f"<li>{prose_html(f.text)}</li>" for f in found if f.kind in kinds)
    cautions = "".join(f"<li>{prose_html(f.text)}</li>" for f in found if f.kind == "caution")
    box = f'<div class="cautions"><h3>Read with care</h3><ul>{cautions}</ul></div>' if cautions else ""
    return f'<h2 id="words">In words</h2>\n<ul class="words">{told}</ul>\n{box}'


def _chart_sections(results: Results, shown: list[Section]) -> Iterable[str]:
    if not shown:
        yield '<h2 id="curves">Training</h2><p class="caption">No run has recorded a curve yet.</p>'
        return
    looks = styles(results)
    buttons = "".join(
        f'<li><button type="button" disabled aria-pressed="true" data-slot="m{look.slot}">{mark_html(look)}'
        f"<span>{text_html(name)}</span></button></li>"
        for name, look in looks.items()
    )
    yield f"""<section><h2 id="curves">Training</h2>
<noscript><p class="poor">The charts need scripts, which are off. Tables and words are complete without them; the
curves' numbers are in results.json.</p></noscript>
<ul class="key sticky" aria-label="Methods: press to hide or show">{buttons}</ul>"""
    for section in shown:
        wide = " wide" if len(section.charts) in {1, 2, 4} else ""
        plots = "".join(
            f"<figure><figcaption>{text_html(chart.title)} "
            f"<span>{text_html(chart.unit)}</span></figcaption>"
            f'<div class="plot" id="{chart.chart_id}" role="img" '
            f'aria-label="{escape(chart.title)}: {escape(chart.unit)} by training step"></div>'
            '<p class="under">training step</p></figure>'
            for chart in section.charts
        )
        key = _class_key() if section.key == "classes" else ""
        yield f"""<h3>{text_html(section.title)}</h3>
<p class="caption">{text_html(section.caption)}</p>
{key}<div class="charts{wide}">{plots}</div>"""
    yield "</section>"


def _class_key() -> str:
    entries = "".join(
        f'<li class="entry"><span class="swatch" style="background:var(--k{place})"></span>{escape(label)}</li>'
        for place, (_, label) in enumerate(CLASSES)
    )
    return f'<ul class="key" aria-label="Kinds of groups">{entries}</ul>'


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
        f"<div><dt>{text_html(name)}</dt><dd>{text_html(_written(value))}</dd></div>" for name, value in pairs.items()
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
    rows = "".join(f"<div><dt>{text_html(name)}</dt><dd>{text_html(text)}</dd></div>" for name, text in terms.items())
    return f'<h2 id="definitions">Definitions</h2>\n<dl class="terms">{rows}</dl>\n</main>'


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


def _task(results: Results) -> str:
    return str(results["settings"].get("task", "unnamed task"))
