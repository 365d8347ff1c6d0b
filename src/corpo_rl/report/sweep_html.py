"""A sweep as one HTML file that runs no script and needs no network; it looks like the other reports."""

from collections.abc import Mapping
from typing import Any, Final

from corpo_rl.records import Interval
from corpo_rl.report.audit_page import bar_html, page_html, say_html
from corpo_rl.report.audit_view import count, shown
from corpo_rl.report.markup import class_html, minus, prose_html, text_html
from corpo_rl.report.sweep_schema import HELD_OUT, SELECTION
from corpo_rl.report.sweep_svg import dimension_picture
from corpo_rl.report.sweep_view import (
    LABELS,
    Document,
    Trial,
    better_words,
    brackets,
    cautions,
    confirmed,
    headline,
    in_order,
    level_words,
    objective,
    parts,
    ranked,
    searched,
    short,
    space_words,
)
from corpo_rl.report.view import capital, interval, number

OPEN_ROWS: Final = 30
"""Trials shown at once; the others wait to be opened."""

_MARKS: Final = (
    ("best", '<path class="trial best" d="M7 1l6 6-6 6-6-6Z"/>', "the best trial"),
    ("tied", '<circle class="trial tied" cx="7" cy="7" r="4"/>', "ties with it"),
    ("other", '<circle class="trial other" cx="7" cy="7" r="4"/>', "told from it"),
    ("failed", '<path class="trial failed" d="M3 3l8 8m0-8l-8 8"/>', "failed: no value"),
)

_DEFINITIONS: Final = {
    "trial": "One setting, trained under every seed. Its value is the mean over seeds and items.",
    "half that chooses": "Trials are compared on these items. Problems are dealt out once, none is in both halves.",
    "held out": "The other half of the same split, which no choice has seen.",
    "fresh seeds": "Training seeds that no trial had. A figure under them, on held-out items, owes nothing to having "
    "been the best of many.",
    "ties": "By differences on the same seeds and problems, the trial cannot be told from the best one. The bound "
    "holds for all pairs of trials at once, since the best was picked by the same figures.",
    "failed": "Training ended with an error or with numbers that are not finite. Such a trial has no value, not a "
    "low one, and the sampler does not learn from it.",
    "judged by": "Least reward that counts as correct when trials are compared, the same for all, whichever threshold "
    "they trained with.",
    "importance": "Share of a dimension in what sets the best tenth of the trials apart from all "
    "(PED-ANOVA, arXiv 2304.10255, as Optuna computes it). It says nothing of interactions.",
}


def sweep_html(document: Document) -> str:
    """The whole sweep as one HTML page.

    All foreign text is escaped and cut, and the page's Content-Security-Policy allows no script and no network.

    Args:
        document: A sweep's results as loaded from JSON, checked by `check_sweep`.
    """
    body = [
        _head(document),
        "<main>",
        _parts(document),
        _pictures(document),
        _importances(document),
        _trials(document),
        _settings(document),
        _definitions(),
        "</main>",
    ]
    title = f"corpo-rl sweep: {shown(document['settings'].get('task', 'task'), 60)}"
    return page_html(title, "\n".join(filter(None, body)), document, sheets=("sweep.css",))


def _head(document: Document) -> str:
    told = headline(document)
    settings = document["settings"]
    states = [trial["state"] for trial in document["trials"]]
    facts = {
        "trials finished": count(states.count("finished")),
        "failed": count(states.count("failed")),
        "seeds of each": ", ".join(map(str, settings["seeds"])),
        "sampler": f"{settings['sampler']}, seed {settings['sampler_seed']}",
        "objective": f"{objective(document)}, {better_words(document)}",
        "created": document["created"],
    }
    shown_facts = "".join(
        f"<div><dt>{text_html(name)}</dt><dd>{text_html(shown(value))}</dd></div>" for name, value in facts.items()
    )
    figure = f'<b class="share value">{prose_html(minus(told.figure))}</b>' if told.figure else ""
    span = f'<p class="interval">{prose_html(minus(told.span))}</p>' if told.span else ""
    more = "".join(f"<p>{say_html(text)}</p>" for text in told.more)
    care = "".join(f"<li>{say_html(text)}</li>" for text in cautions(document))
    box = f'<div class="cautions"><h3>Read with care</h3><ul>{care}</ul></div>' if care else ""
    return f"""<header class="top">
<p class="eyebrow"><b>corpo-rl sweep</b> {prose_html(shown(settings.get("task", ""), 200))}</p>
<div class="hero"><div class="lead"><h1>{figure} {prose_html(told.lead)}</h1>{span}{more}</div>{_best(document)}</div>
<dl class="facts">{shown_facts}</dl>
{box}
</header>"""


def _best(document: Document) -> str:
    """The best setting beside what it was searched over."""
    if document["best"] is None:
        return ""
    params = document["trials"][document["best"]]["params"]
    space = dict(space_words(document))
    rows = ""
    for name, value in in_order(params):
        label = LABELS.get(name, shown(name))
        among = prose_html(f"of {space.get(label, '')}") if name in searched(document) else "fixed"
        rows += (
            f'<div><dt>{text_html(label)}</dt><dd><b>{_value(value)}</b> <span class="none">{among}</span></dd></div>'
        )
    return f'<div class="picture"><h2>The best setting</h2><dl class="pairs best">{rows}</dl></div>'


def _parts(document: Document) -> str:
    told = confirmed(document)
    if told is None:
        return ""
    rows = ""
    for part in parts(document):
        about = document["splits"][part]
        cells = [
            _figure("starting policy", interval(document["start"].get(part))),
            _figure("fresh seeds", interval(told["parts"][part])),
            _figure("difference", interval(told["over_start"].get(part)), signed=True),
        ]
        size = f"{count(about['n_items'])} items of {count(about['n_problems'])} problems"
        note = "; trials were chosen by these" if part == SELECTION else ""
        rows += (
            f'<tr{class_html("best" if part == HELD_OUT else "")}><th scope="row">'
            f"{text_html(capital(shown(about['title'])))}<br><small>{text_html(size + note)}</small></th>"
            f"{''.join(cells)}</tr>\n"
        )
    seeds = ", ".join(map(str, told["seeds"]))
    return f"""<h2 id="confirmed">The best setting under fresh seeds</h2>
<p class="caption">{prose_html(objective(document))} of policies trained under seeds {text_html(seeds)}, which no trial
had. Brackets are {prose_html(level_words(document))} intervals over seeds and problems; the difference to the starting
policy is on the same items.</p>
<div class="scroll"><table class="data cards"><caption class="unseen">The best setting under fresh seeds</caption>
<thead><tr><th scope="col"></th><th scope="col" class="figure">starting policy</th>
<th scope="col" class="figure">fresh seeds</th><th scope="col" class="figure">difference</th></tr></thead>
<tbody>{rows}</tbody></table></div>"""


def _figure(label: str, one: Interval, *, signed: bool = False) -> str:
    span = brackets(one, signed=signed)
    small = f" <small>{minus(text_html(span))}</small>" if span else ""
    return f'<td class="figure" data-label="{label}">{minus(number(one.value, signed=signed))}{small}</td>'


def _pictures(document: Document) -> str:
    names = searched(document)
    dimensions = [one for one in document["settings"]["dimensions"] if one["name"] in names]
    if not dimensions:
        return ""
    figures = "".join(
        f'<figure class="curve"><figcaption>{text_html(LABELS.get(one["name"], one["name"]))} <span>{_about(one)}'
        f"</span></figcaption>{dimension_picture(document, one)}</figure>"
        for one in dimensions
    )
    key = "".join(
        f'<li class="entry"><svg viewBox="0 0 14 14" aria-hidden="true">{mark}</svg>{text_html(label)}</li>'
        for _, mark, label in _MARKS
    )
    return f"""<h2 id="pictures">The objective against each dimension</h2>
<p class="caption">{prose_html(objective(document))} of every trial on the half that chooses, with its
interval. Trials differ in the other dimensions too.</p>
<ul class="key trials" aria-label="Kinds of trials">{key}</ul>
<div class="charts trials">{figures}</div>"""


def _about(dimension: Mapping[str, Any]) -> str:
    if "choices" in dimension:
        return f"{len(dimension['choices'])} values"
    return "logarithmic" if dimension["log"] else "linear"


def _importances(document: Document) -> str:
    found = document["importances"]
    if not found:
        return ""
    most = max(found.values())
    rows = "".join(
        f'<tr><th scope="row">{text_html(LABELS.get(name, shown(name)))}</th>'
        f'<td class="figure">{prose_html(f"{100 * share:.0f} %")}</td>'
        f'<td class="wide">{bar_html(share, most)}</td></tr>'
        for name, share in sorted(found.items(), key=lambda one: -one[1])
    )
    return f"""<h2 id="importance">What mattered</h2>
<p class="caption">{text_html(_DEFINITIONS["importance"])}</p>
<div class="scroll"><table class="data"><caption class="unseen">Importance of each dimension</caption>
<thead><tr><th scope="col"></th><th scope="col" class="figure">share</th><th scope="col"></th></tr></thead>
<tbody>{rows}</tbody></table></div>"""


def _trials(document: Document) -> str:
    rows = ranked(document)
    names = [name for name in LABELS if any(name in trial["params"] for trial in rows)]
    heads = "".join(f'<th scope="col">{text_html(LABELS[name])}</th>' for name in names)

    def table(part: list[Trial]) -> str:
        body = "".join(_row(document, trial, names) for trial in part)
        return f"""<div class="scroll"><table class="data cards trials"><caption class="unseen">Trials</caption>
<thead><tr><th scope="col">trial</th><th scope="col">half that chooses</th><th scope="col">held out</th>{heads}
<th scope="col"></th></tr></thead><tbody>{body}</tbody></table></div>"""

    more = ""
    if len(rows) > OPEN_ROWS:
        more = f"<details><summary>{len(rows) - OPEN_ROWS} more</summary>{table(rows[OPEN_ROWS:])}</details>"
    return f"""<h2 id="trials">Trials</h2>
<p class="caption">From the best on, failed ones last. Both halves are of the same policies.</p>
{table(rows[:OPEN_ROWS])}{more}"""


def _row(document: Document, trial: Trial, names: list[str]) -> str:
    is_best = trial["number"] == document["best"]
    params = "".join(
        f'<td{class_html("name" if name == "method" else "")} data-label="{text_html(LABELS[name])}">'
        f"{_value(trial['params'].get(name, ''))}</td>"
        for name in names
    )
    if trial["state"] == "failed":
        figures = '<td data-label="half that chooses">failed</td><td data-label="held out"></td>'
    else:
        cells = zip(("half that chooses", "held out"), (SELECTION, HELD_OUT), strict=True)
        figures = "".join(_figure(label, interval(trial[part])) for label, part in cells)
        figures = figures.replace('class="figure"', 'class="figures"')
    note = _note(trial, is_best=is_best)
    kind = "best" if is_best else "failed" if trial["state"] == "failed" else ""
    return (
        f'<tr{class_html(kind)}><th scope="row">{trial["number"]}</th>{figures}{params}'
        f'<td class="reason" data-label="note">{note}</td></tr>\n'
    )


def _value(value: object) -> str:
    """A value of a dimension; only numbers get a true minus sign, names are copied as they are."""
    return text_html(short(value)) if isinstance(value, str) else minus(text_html(short(value)))


def _note(trial: Trial, *, is_best: bool) -> str:
    if trial["same_as"] is not None:
        return f"same values as trial {trial['same_as']}"
    if trial["reason"] is not None:
        return text_html(shown(trial["reason"], 300))
    return "best" if is_best else "ties with the best" if trial["tied"] else ""


def _settings(document: Document) -> str:
    settings = document["settings"]
    shared = {
        **dict(space_words(document)),
        "judged by": f"reward at least {settings['judged_by']:g}",
        "chosen on": f"half of {shown(settings['split'])}",
        "trials asked for": count(settings["n_trials"]),
        "trials side by side": count(settings["jobs"]),
        "kept when the group size changes": f"{shown(settings['hold'])} of a step",
    }
    skipped = {
        "objective", "direction", "split", "sampler", "sampler_seed", "seeds", "hold", "jobs", "n_trials", "level",
        "dimensions", "judged_by", "fixed", "min_correct", *(one["name"] for one in settings["dimensions"]),
    }  # fmt: skip
    shared |= {
        name: shown("none" if value is None else value, 200) for name, value in settings.items() if name not in skipped
    }
    versions = {
        shown(name): shown("none" if value is None else value) for name, value in document["environment"].items()
    }
    return f"""<h2 id="settings">Settings</h2>
<dl class="pairs">{_pairs(shared)}</dl>
<h2 id="environment">Environment</h2>
<dl class="pairs">{_pairs(versions)}</dl>"""


def _pairs(pairs: Mapping[str, str]) -> str:
    return "".join(f"<div><dt>{text_html(name)}</dt><dd>{text_html(value)}</dd></div>" for name, value in pairs.items())


def _definitions() -> str:
    return f'<h2 id="definitions">Definitions</h2>\n<dl class="terms">{_pairs(_DEFINITIONS)}</dl>'
