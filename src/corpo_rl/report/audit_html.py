"""The audit as one HTML file that runs no script and needs no network; it looks like the compare report."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from corpo_rl.report.audit_page import bar_html, page_html, say_html, split_html, table_html
from corpo_rl.report.audit_schema import AUDIT_SCHEMA, CLASSES
from corpo_rl.report.audit_svg import curve_figures, thinning_note
from corpo_rl.report.audit_tables import (
    ESTIMATOR_COLUMNS,
    candidates_table,
    capital,
    classes_table,
    components_table,
    curves_tables,
    estimator_names,
    estimators_caption,
    levels_caption,
    logged_sentences,
    phases,
    ratios,
    reading,
    remarks,
    threshold_sentences,
    with_next_below,
    zero_variance,
)
from corpo_rl.report.audit_text import actions, evidence
from corpo_rl.report.audit_view import (
    FAIR,
    LONGEST_SENTENCE,
    SIGNS,
    Document,
    by_weight,
    count,
    figure,
    headline,
    is_headline_estimator,
    level,
    share,
    shown,
    shown_lines,
    status_counts,
    threshold_text,
    verdict,
)
from corpo_rl.report.markup import class_html, minus, prose_html, text_html

LONGEST_SAMPLE: Final = 4000
"""Characters of a prompt or completion that are shown."""

MARKS: Final = {"WARN": "!", "NOTE": "i", "NOT CHECKED": "?", "OK": "\N{CHECK MARK}"}
"""A sign beside the word of each status."""

ARROWS: Final = {
    "positive": "\N{BLACK UP-POINTING TRIANGLE}",
    "zero": "\N{WHITE CIRCLE}",
    "negative": "\N{BLACK DOWN-POINTING TRIANGLE}",
}


def audit_html(audit: Document) -> str:
    """The whole audit as one HTML page.

    All foreign text is escaped and cut, its control and direction characters written out, and the page's
    Content-Security-Policy allows no script and no network.

    Args:
        audit: An audit as loaded from JSON, checked by `check_audit`.
    """
    asked = audit["correct_by"] is None
    parts = [
        _head(audit),
        "<main>",
        *([_thresholds(audit)] if asked else []),
        _findings(audit),
        _pushed(audit),
        _classes(audit),
        _estimators(audit),
        _logged(audit),
        *([] if asked else [_thresholds(audit)]),
        _components(audit),
        _curves(audit),
        _examples(audit["examples"]),
        _reading(audit),
        _definitions(),
        "</main>",
    ]
    return page_html(f"corpo-rl audit: {shown(audit['log']['title'], 60)}", "\n".join(filter(None, parts)), audit)


def _head(audit: Document) -> str:
    message = headline(audit)
    none = "" if audit["n_reinforced_failures"] else "none"
    number = f"<b{class_html(none)}>{prose_html(message.figure)}</b> " if message.figure else ""
    span = f'<p class="interval">{prose_html(message.about_span)}</p>' if message.about_span else ""
    more = "".join(f"<p{class_html('fair' if text == FAIR else '')}>{say_html(text)}</p>" for text in message.more)
    warnings = "".join(f'<p class="poor">{say_html(text)}</p>' for kind, text in remarks(audit) if kind == "warning")
    facts = {
        "rollouts": count(audit["n_rollouts"]),
        "groups": count(audit["n_groups"]),
        "prompts": "not known" if audit["n_prompts"] is None else count(audit["n_prompts"]),
        "steps": "none" if audit["log"]["steps"] is None else count(audit["log"]["steps"]["n"]),
        "correct means": "not stated" if audit["correct_by"] is None else shown(audit["correct_by"]),
        "advantages": f"{audit['advantages_from']}, {shown(audit['estimator'])}",
        "without a reward": count(audit["n_unscorable"]),
    }
    shown_facts = "".join(
        f"<div><dt>{text_html(name)}</dt><dd>{minus(prose_html(value))}</dd></div>" for name, value in facts.items()
    )
    return f"""<header class="top">
<p class="eyebrow"><b>corpo-rl audit</b> {prose_html(shown(audit["log"]["said"], LONGEST_SENTENCE))}</p>
<div class="hero"><div class="lead"><h1>{number}{prose_html(message.lead)}</h1>{span}{more}</div>{_picture(audit)}</div>
{warnings}<dl class="facts">{shown_facts}</dl>
</header>"""


def _picture(audit: Document) -> str:
    """The table in rollouts as two bars, with its figures written under them."""
    if audit["table"] is None:
        return ""
    bars = []
    for kind, cells in audit["table"].items():
        rollouts = cells["rollouts"]
        key = "".join(
            f'<li><i class="swatch {sign} {kind}"></i><span>{ARROWS[sign]} {text_html(label)}</span> '
            f"<b>{count(rollouts[sign])}</b></li>"
            for sign, label in SIGNS.items()
        )
        total = count(audit[f"n_{kind}"])
        bars.append(
            f'<h2>{kind} rollouts <span>{total}</span></h2>{split_html(rollouts, kind)}<ul class="signs">{key}</ul>'
        )
    bars.sort(key=lambda bar: bar.startswith("<h2>correct"))
    return f'<div class="picture">{"".join(bars)}{_glance(audit)}{_chips(audit["findings"])}</div>'


def _glance(audit: Document) -> str:
    """The share of reinforced failures under each estimator, as bars; empty when nothing was reinforced by any."""
    shares = {
        name: row["reinforced_failure_share"] for name in estimator_names(audit) if (row := audit["estimators"][name])
    }
    longest = max((value for value in shares.values() if value is not None), default=0.0)
    if not longest:
        return ""
    rows = "".join(
        f"<li{class_html('own' if is_headline_estimator(audit, name) else '')}>"
        f"<span>{text_html(shown(name, 20))}</span>{bar_html(value, longest, 'up')}"
        f"<b>{prose_html(share(value))}</b></li>"
        for name, value in shares.items()
    )
    return f"""<h2>reinforced failures by estimator, same rewards <span class="soft">(advantages only)</span></h2>
<ul class="glance">{rows}</ul>"""


def _chips(findings: Sequence[Mapping[str, Any]]) -> str:
    counts = status_counts(findings)
    if not set(counts) - {"NOT CHECKED"}:
        return f'<p class="chips">{text_html(verdict(findings))}</p>'
    told = " ".join(f"{_status(status, n)}" for status, n in counts.items())
    return f'<p class="chips">Findings: {told}</p>'


def _status(status: str, n: int | None = None) -> str:
    kind = status.lower().replace(" ", "-")
    many = "" if n is None else f"{n} "
    return f'<span class="status {kind}"><i aria-hidden="true">{MARKS[status]}</i>{many}{status}</span>'


def _findings(audit: Document) -> str:
    found = by_weight(audit["findings"])
    loud = "".join(_finding(one) for one in found if one["status"] in {"WARN", "NOTE"})
    quiet = "".join(_finding(one) for one in found if one["status"] not in {"WARN", "NOTE"})
    return f"""<h2 id="findings">Findings</h2>
<p class="caption">{text_html(verdict(found))}</p>
<div class="findings">{loud}</div>
<div class="findings quiet">{quiet}</div>"""


def _finding(finding: Mapping[str, Any]) -> str:
    what = "".join(
        f"<div><dt>{text_html(where)}</dt><dd>{say_html(text)}</dd></div>" for where, text in actions(finding)
    )
    todo = f"<dl>{what}</dl>" if what else ""
    see = "" if finding["reference"] is None else prose_html(shown(finding["reference"], LONGEST_SENTENCE))
    reference = f'<p class="see">See {see}</p>' if see else ""
    return f"""<article><h3>{_status(finding["status"])} {prose_html(shown(finding["title"], LONGEST_SENTENCE))}</h3>
<p>{say_html(evidence(finding))}</p>{todo}{reference}</article>"""


def _pushed(audit: Document) -> str:
    told = "".join(
        f"<div><dt>{text_html(name)}</dt><dd><b>{minus(text_html(value))}</b> {prose_html(meaning)}</dd></div>"
        for name, value, meaning in ratios(audit)
    )
    return f"""<h2 id="pushed">What was pushed up and down</h2>
{_signs(audit)}
<dl class="ratios">{told}</dl>"""


def _signs(audit: Document) -> str:
    if audit["table"] is None:
        return '<p class="caption">Nothing says which rollouts are correct, so they are not told apart here.</p>'
    rows = []
    for kind in ("failed", "correct"):
        for measure, label, write in (
            ("rollouts", "rollouts", count),
            ("mass", "|A|", figure),
            ("token_mass", f"|A| x {audit['length_unit']}", figure),
        ):
            cells = audit["table"][kind][measure]
            if cells is None:
                continue
            figures = "".join(
                f'<td class="figure" data-label="{text_html(name)}">{minus(text_html(write(cells[sign])))}</td>'
                for sign, name in SIGNS.items()
            )
            rows.append(
                f'<tr><th scope="row">{kind}, {text_html(label)}</th><td class="wide">{split_html(cells, kind)}</td>'
                f"{figures}</tr>"
            )
    heads = "".join(
        f'<th scope="col" class="figure">{ARROWS[sign]} {text_html(name)}</th>' for sign, name in SIGNS.items()
    )
    without = audit["n_without_length"]
    missing = f" {count(without)} rollouts without a length are left out of the last." if without else ""
    return f"""<p class="caption">|A| is the size of an advantage, summed: how hard the update pushes.{missing} In the
bars, full is pushed up, empty is A = 0, hatched is pushed down.</p>
<div class="scroll"><table class="data cards">
<caption class="unseen">Failed and correct rollouts by the sign of their advantage</caption>
<thead><tr><th></th><th></th>{heads}</tr></thead>
<tbody>{"".join(rows)}</tbody></table></div>"""


def _classes(audit: Document) -> str:
    table = classes_table(audit)
    if table is None:
        return f'<h2 id="groups">Groups</h2>\n<p class="caption">{prose_html(zero_variance(audit))}</p>'
    groups = audit["group_classes"]
    longest = max(groups.values(), default=0)
    rows = "".join(
        f'<tr><th scope="row"><span class="swatch k{place}"></span> {text_html(about)}</th>'
        f'<td class="figure" data-label="groups">{count(groups[name])}</td>'
        f'<td class="wide">{bar_html(groups[name], longest, f"k{place}")}</td></tr>'
        for place, (name, about) in enumerate(CLASSES.items())
        if name != "unscorable" or groups[name]
    )
    return f"""<h2 id="groups">Kinds of groups</h2>
<p class="caption">{count(audit["n_groups"])} groups. {prose_html(zero_variance(audit))} {prose_html(phases(audit))}</p>
<table class="data classes"><caption class="unseen">Groups of each kind</caption>
<thead><tr><th scope="col">in the group</th><th scope="col" class="figure">groups</th><th></th></tr></thead>
<tbody>{rows}</tbody></table>"""


def _estimators(audit: Document) -> str:
    found = audit["estimators"]
    shares = [row["reinforced_failure_share"] for row in found.values() if row is not None]
    longest = max((value for value in shares if value is not None), default=0.0)
    keys = [key for key in ESTIMATOR_COLUMNS if key != "reinforced_failure_share"]
    rows = []
    for name in estimator_names(audit):
        row, own = found[name], is_headline_estimator(audit, name)
        label = f"{text_html(shown(name, 30))}{' *' if own else ''}"
        if row is None:
            cells = f'<td class="wide none" colspan="{len(keys) + 1}">needs --min-correct</td>'
        else:
            value = row["reinforced_failure_share"]
            cells = (
                f'<td class="wide" data-label="failed rollouts reinforced"><span class="beside">'
                f"{bar_html(value, longest, 'up')}<b>{prose_html(share(value))}</b></span></td>"
            ) + "".join(
                f'<td class="figure" data-label="{text_html(ESTIMATOR_COLUMNS[key][0])}">'
                f"{minus(text_html(ESTIMATOR_COLUMNS[key][1](row[key])))}</td>"
                for key in keys
            )
        rows.append(f'<tr{class_html("own" if own else "")}><th scope="row">{label}</th>{cells}</tr>')
    heads = "".join(f'<th scope="col" class="figure">{text_html(ESTIMATOR_COLUMNS[key][0])}</th>' for key in keys)
    return f"""<h2 id="estimators">Other estimators on the same rewards</h2>
<p class="caption">{say_html(estimators_caption(audit))}</p>
<div class="scroll"><table class="data cards estimators">
<caption class="unseen">What each estimator would have done with the same rewards</caption>
<thead><tr><th></th><th scope="col">failed rollouts reinforced</th>{heads}</tr></thead>
<tbody>{"".join(rows)}</tbody></table></div>"""


def _logged(audit: Document) -> str:
    told = "".join(f"<p>{say_html(text)}</p>" for text in logged_sentences(audit))
    table = candidates_table(audit)
    more = f"<details><summary>Every candidate</summary>{table_html(table)}</details>" if table else ""
    return f'<h2 id="logged">Logged against recomputed advantages</h2>\n<div class="told">{told}</div>\n{more}'


def _thresholds(audit: Document) -> str:
    told = "".join(f"<p>{say_html(text)}</p>" for text in threshold_sentences(audit))
    levels = audit["threshold"]["levels"]
    title = "Thresholds to choose from" if audit["correct_by"] is None else "Thresholds"
    if not levels:
        return f'<h2 id="thresholds">{title}</h2>\n<div class="told">{told}<p>No reward is known.</p></div>'
    rows = "".join(
        _level(row, below, own=row["min_correct"] == audit["min_correct"]) for below, row in with_next_below(levels)
    )
    return f"""<h2 id="thresholds">{title}</h2>
<div class="told">{told}</div>
<p class="caption">{say_html(levels_caption(audit))}</p>
<table class="data levels"><caption class="unseen">What other thresholds would say of the same advantages</caption>
<thead><tr><th scope="col">min_correct</th><th scope="col" class="figure">failed <small>correct</small></th>
<th scope="col" class="figure">reinforced <small>number</small></th><th></th>
<th scope="col" class="figure">groups under <small>floor</small></th></tr></thead>
<tbody>{rows}</tbody></table>"""


def _level(row: Mapping[str, Any], below: float | None, *, own: bool) -> str:
    value = row["reinforced_failure_share"]
    label = minus(threshold_text(row["min_correct"], below)) + (" *" if own else "")
    state = text_html(shown(row["floor_state"], 20))
    return f"""<tr{class_html("own" if own else "")}><th scope="row">{label}</th>
<td class="figure">{count(row["n_failed"])} <small>{count(row["n_correct"])}</small></td>
<td class="figure">{prose_html(share(value))} <small>{count(row["n_reinforced_failures"])}</small></td>
<td class="wide">{bar_html(value, 1.0, "up")}</td>
<td class="figure">{prose_html(share(row["floored_group_share"]))} <small>{state}</small></td></tr>"""


def _components(audit: Document) -> str:
    table = components_table(audit)
    return f'<h2 id="components">Single rewards</h2>\n{table_html(table, cards=True)}' if table else ""


def _curves(audit: Document) -> str:
    if audit["curves"] is None or not audit["curves"]["step"]:
        return '<h2 id="curves">Step by step</h2>\n<p class="caption">The log has no training steps.</p>'
    note = thinning_note(len(audit["curves"]["step"]))
    tables = "".join(
        f"<h3>{text_html(table.title)}</h3>{table_html(table, cards=True)}" for table in curves_tables(audit)
    )
    return f"""<h2 id="curves">Step by step</h2>
<p class="caption">Beside each title: the first value and the last. A gap is a step in which the figure is
undefined. {note}</p>
<div class="charts">{"".join(curve_figures(audit["curves"]))}</div>
<details><summary>Ten steps as a table</summary>{tables}</details>"""


def _examples(examples: Sequence[Mapping[str, Any]]) -> str:
    if not examples:
        return ""
    shown_ones = "".join(_example(example, place) for place, example in enumerate(examples))
    return f"""<h2 id="examples">Failures that were reinforced most strongly</h2>
<p class="caption">One of a group. Texts are cut at {count(LONGEST_SAMPLE)} characters; control and direction characters
are written as escapes.</p>
{shown_ones}"""


def _example(example: Mapping[str, Any], place: int) -> str:
    step = "" if example["step"] is None else f", step {example['step']}"
    texts = "".join(
        f'<h4>{name}</h4><div class="sample" dir="auto">{text_html(shown_lines(example[name], LONGEST_SAMPLE))}</div>'
        for name in ("prompt", "completion")
        if example[name] is not None
    )
    siblings = "".join(_sibling(one) for one in example["siblings"])
    n = example["n_siblings_left_out"]
    more = f"<p>{count(n)} more in the group.</p>" if n else ""
    return f"""<details class="example"{" open" if place == 0 else ""}>
<summary><b>reward {minus(level(example["reward"]))}, advantage {minus(figure(example["advantage"]))}</b>
<span>{text_html(shown(example["where"], 200))}{step}, group {example["group"]}</span></summary>
{texts}<h4>its group</h4><ol class="siblings">{siblings}</ol>{more}</details>"""


def _sibling(one: Mapping[str, Any]) -> str:
    kind = {True: "correct", False: "failed", None: "not known"}[one["correct"]]
    text = (
        ""
        if one["completion"] is None
        else f'<div class="sample" dir="auto">{text_html(shown_lines(one["completion"], LONGEST_SAMPLE))}</div>'
    )
    numbers = f"reward {minus(level(one['reward']))}, advantage {minus(figure(one['advantage']))}"
    return f"<li><p>{kind}, {numbers}</p>{text}</li>"


def _reading(audit: Document) -> str:
    rows = "".join(f"<div><dt>{text_html(label)}</dt><dd>{say_html(text)}</dd></div>" for label, text in reading(audit))
    told = "".join(f"<li>{kind}: {say_html(text)}</li>" for kind, text in remarks(audit))
    sources = "".join(f"<li>{text_html(shown(name, 300))}</li>" for name in audit["log"]["sources"])
    more = audit["log"]["n_files"] > len(audit["log"]["sources"])
    return f"""<h2 id="reading">What was read</h2>
<dl class="pairs">{rows}</dl>
{f'<ul class="words">{told}</ul>' if told else ""}
<details><summary>{"The first files" if more else "The files"}, {count(len(audit["log"]["sources"]))} of
{count(audit["log"]["n_files"])}</summary><ul class="words">{sources}</ul></details>"""


def _definitions() -> str:
    rows = "".join(f"<div><dt>{text_html(name)}</dt><dd>{say_html(text)}</dd></div>" for name, text in _terms())
    return f'<h2 id="definitions">Definitions</h2>\n<dl class="terms">{rows}</dl>'


def _terms() -> Iterator[tuple[str, str]]:
    fields = AUDIT_SCHEMA["properties"]
    yield "A", "Advantage: above 0 the update makes a rollout likelier, below 0 less likely."
    yield "correct, failed", "A rollout is correct when its reward is at least min_correct, or its label says so."
    yield "group", "The rollouts of one prompt in one sampling; advantages compare them with each other."
    yield "reinforced failure", "A failed rollout with an advantage above 0, rounding apart."
    for name in ("r_count", "zero_variance_groups", "n_unscorable"):
        yield name, capital(str(fields[name]["description"])) + "."
    yield "correctness-seeking", "A group whose mean reward is under min_correct, where a floor binds."
