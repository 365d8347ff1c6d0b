"""An evaluation as one HTML file that runs no script and needs no network; it looks like the other reports."""

import math
from collections.abc import Iterator, Sequence
from typing import Final

from corpo_rl.records import Interval
from corpo_rl.report.audit_page import bar_html, page_html, say_html
from corpo_rl.report.audit_view import count, share, shown
from corpo_rl.report.charts import N_STYLES, Style
from corpo_rl.report.evaluation_example import LONGEST_SAMPLE, example_html
from corpo_rl.report.evaluation_svg import score_picture
from corpo_rl.report.evaluation_view import (
    LABELS,
    Document,
    Row,
    difference,
    found,
    main_rows,
    models,
    n_of,
    order_rows,
    over,
    sampling_words,
    splits,
)
from corpo_rl.report.markup import class_html, mark_html, minus, prose_html, text_html
from corpo_rl.report.view import capital, interval

LONGEST_NAME: Final = 60
"""Characters of a model's name that are shown."""

OPEN_FIGURES: Final = 6
"""Score pictures that are shown at once; those of further splits wait to be opened."""


def evaluation_html(document: Document) -> str:
    """The whole evaluation as one HTML page.

    All foreign text is escaped and cut, its control and direction characters written out, and the page's
    Content-Security-Policy allows no script and no network.

    Args:
        document: An evaluation as loaded from JSON, checked by `check_evaluation`.
    """
    body = [
        _head(document),
        "<main>",
        '<h2 id="figures">Figures</h2>',
        f'<p class="caption">{prose_html(_reading(document))}</p>',
        *(_table(document, split, main_rows(document, split)) for split in splits(document)),
        _scores(document),
        _order(document),
        _failures(document),
        _examples(document),
        _settings(document),
        _definitions(document),
        "</main>",
    ]
    title = f"corpo-rl evaluate: {shown(document['settings'].get('pairs', 'pairs'), 60)}"
    return page_html(title, "\n".join(filter(None, body)), document, sheets=("evaluation.css",))


def _head(document: Document) -> str:
    first = splits(document)[0]
    whole, settings = document["splits"][first], document["settings"]
    best = _best(document, first)
    value = found(document, first, best, _PASS)
    figure = share(None if math.isnan(value.value) else value.value)
    level = f"{100 * settings['bootstrap']['level']:g} %"
    span = "" if math.isnan(value.low) else f"{level} interval [{100 * value.low:.1f}, {100 * value.high:.1f}]"
    several = len(models(document)) > 1
    whose = f": {shown(best, LONGEST_NAME)}, the most of {len(models(document))} models" if several else ""
    facts = {
        "pairs": count(whole["n_pairs"]),
        "problems": count(whole["n_problems"]),
        "models": count(len(models(document))),
        "completions of each": count(whole["models"][best]["n_completions"]),
        "created": document["created"],
    }
    shown_facts = "".join(
        f"<div><dt>{text_html(name)}</dt><dd>{text_html(shown(value))}</dd></div>" for name, value in facts.items()
    )
    told = [
        "A verdict is right when both answers of a pair are scored on the right side of 5.",
        *_told(document, first, best),
        sampling_words(document),
    ]
    more = "".join(f"<p>{prose_html(text)}</p>" for text in told if text)
    poor = "".join(f'<p class="poor">{prose_html(text)}</p>' for text in _poor(document, first))
    return f"""<header class="top">
<p class="eyebrow"><b>corpo-rl evaluate</b> {prose_html(shown(settings.get("pairs", ""), 200))}</p>
<div class="hero"><div class="lead"><h1><b class="share">{prose_html(figure)}</b> of verdicts
right{prose_html(whose)}</h1><p class="interval">{prose_html(span)}</p>{more}</div>{_glance(document)}</div>
{poor}<dl class="facts">{shown_facts}</dl>
</header>"""


_PASS = Row("pass@1", "pass@1", "figures")


def _best(document: Document, split: str) -> str:
    """The model with the highest pass@1; the first of equals."""
    values = {name: found(document, split, name, _PASS).value for name in models(document)}
    return max(values, key=lambda name: -1.0 if math.isnan(values[name]) else values[name])


def _told(document: Document, split: str, best: str) -> Iterator[str]:
    names = models(document)
    if len(names) > 1 and best != names[0]:
        node = difference(document, split, best, _PASS)
        if node is not None and node["value"] is not None:
            against = shown(names[0], LONGEST_NAME)
            points = f"{100 * node['value']:.1f}"
            sure = "" if node["verdict"] == "higher" else "; the interval of the difference holds 0"
            yield f"That is {points} points more than {against}{sure}."
    failed = {name: _n_failed(document, split, name) for name in names}
    if any(failed.values()):
        whole = document["splits"][split]["models"]
        counts = ", ".join(
            f"{count(n)} of {count(whole[name]['n_completions'])}"
            + (f" of {shown(name, LONGEST_NAME)}" if len(names) > 1 else "")
            for name, n in failed.items()
            if n
        )
        yield f"Completions that did not parse count as wrong, and are in no figure of scores: {counts}."


def _n_failed(document: Document, split: str, name: str) -> int:
    one = document["splits"][split]["models"][name]
    return int(one["n_completions"] - one["n_parsed"])


def _poor(document: Document, split: str) -> Iterator[str]:
    for name in models(document):
        one = document["splits"][split]["models"][name]
        n, n_cut = count(one["n_completions"]), one["n_cut"]
        whose = f" of {shown(name, LONGEST_NAME)}" if len(models(document)) > 1 else ""
        if not one["n_parsed"]:
            cut = f" {count(n_cut)} were cut at the length limit." if n_cut else ""
            yield (
                f"None of {n} completions{whose} holds two scores in the form asked for, so that nothing can be said "
                f"of what it knows.{cut} The form has to be taught first."
            )
        elif 10 * n_cut > one["n_completions"]:
            yield (
                f"{count(n_cut)} of {n} completions{whose} were cut at the length limit; a longer one may let more of "
                "them end with scores."
            )


def _glance(document: Document) -> str:
    """pass@1 of every model on every split, as bars."""
    parts = []
    for split in splits(document):
        about = document["splits"][split]
        rows = []
        for name in models(document):
            value = found(document, split, name, _PASS).value
            known = None if math.isnan(value) else value
            bar = bar_html(known, 1.0, "model")
            rows.append(
                f'<li style="--model:{_style(document, name).color}">{_who(document, name)}{bar}'
                f"<b>{prose_html(share(known))}</b></li>"
            )
        size = f"{count(about['n_pairs'])} pairs"
        title = text_html(capital(shown(about["title"])))
        parts.append(
            f'<h2>{title} <small class="soft">{size}</small></h2><ul class="glance models">{"".join(rows)}</ul>'
        )
    return f'<div class="picture">{"".join(parts)}</div>'


def _style(document: Document, name: str) -> Style:
    return Style(models(document).index(name) % N_STYLES)


def _who(document: Document, name: str) -> str:
    mark, label = mark_html(_style(document, name)), text_html(shown(name, LONGEST_NAME))
    return f'<span class="who">{mark}<span>{label}</span></span>'


def _reading(document: Document) -> str:
    level = f"{100 * document['settings']['bootstrap']['level']:g} %"
    paired = (
        " Under a figure stands its difference to the first model, whose interval draws the same problems for both; "
        "between percentages it is in points."
        if len(models(document)) > 1
        else ""
    )
    return f"Brackets are {level} intervals over problems: pairs of one problem are drawn together.{paired}"


def _table(document: Document, split: str, rows: Sequence[Row]) -> str:
    about = document["splits"][split]
    names = models(document)
    alone = len(names) == 1
    heads = "".join(f'<th scope="col">{_who(document, name)}</th>' for name in names)
    heads = '<th scope="col">figure</th><th scope="col">over</th>' if alone else heads
    body = "".join(_table_row(document, split, row) for row in rows)
    title = shown(about["title"])
    size = f"{count(about['n_pairs'])} pairs of {count(about['n_problems'])} problems"
    described = f": {shown(about['description'])}" if about["description"] else ""
    return f"""<h3>{text_html(capital(title))}</h3>
<p class="caption">{prose_html(size)}{prose_html(described)}</p>
<div class="scroll"><table class="data models {"alone" if alone else "cards"}">
<caption class="unseen">{text_html(title)}</caption>
<thead><tr><th scope="col"></th>{heads}</tr></thead>
<tbody>{body}</tbody></table></div>"""


def _table_row(document: Document, split: str, row: Row) -> str:
    names = models(document)
    cells = "".join(
        f'<td class="figure" data-label="{text_html(shown(name, LONGEST_NAME) if len(names) > 1 else "figure")}">'
        f"{_cell(document, split, name, row)}</td>"
        for name in names
    )
    if len(names) == 1:
        n = count(n_of(document, split, names[0], row))
        cells += f'<td class="over" data-label="over">{prose_html(f"{n} {shown(over(document, row))}")}</td>'
    label = shown(row.label.removeprefix("- "), LONGEST_NAME)
    kind = class_html("part" if row.label.startswith("- ") else "")
    return f'<tr{kind}><th scope="row">{text_html(label)}</th>{cells}</tr>\n'


def _cell(document: Document, split: str, name: str, row: Row) -> str:
    one = found(document, split, name, row)
    text = f"{minus(prose_html(row.write(one.value)))}{_brackets(row, one)}"
    node = difference(document, split, name, row)
    if node is None or node["value"] is None:
        return text
    apart = interval(node)
    word = node["verdict"] if node["verdict"] in {"higher", "lower"} else ""
    kind = "" if not word or not row.better() else "good" if word == row.better() else "bad"
    size = minus(prose_html(f"{row.write(apart.value, signed=True)} {word}".strip()))
    brackets = _brackets(row, apart, signed=True)
    return f'{text}<span class="apart"><span{class_html(kind or "told")}>{size}</span>{brackets}</span>'


def _brackets(row: Row, one: Interval, *, signed: bool = False) -> str:
    if math.isnan(one.low):
        return ""
    low, high = (row.write(bound, signed=signed) for bound in (one.low, one.high))
    return f" <small>{minus(prose_html(f'[{low}, {high}]'))}</small>"


def _scores(document: Document) -> str:
    names, found_splits = models(document), splits(document)
    figures = {split: "".join(_score_figure(document, split, name) for name in names) for split in found_splits}
    key = (
        '<ul class="key scores"><li class="entry"><span class="swatch right"></span>right answers</li>'
        '<li class="entry"><span class="swatch wrong"></span>wrong answers</li></ul>'
    )
    if len(names) == 1 and len(found_splits) <= OPEN_FIGURES:
        shown_ones = f'<div class="charts scores">{"".join(figures.values())}</div>'
    else:
        shown_ones = "".join(
            f"<h3>{text_html(capital(shown(document['splits'][split]['title'])))}</h3>"
            f'<div class="charts scores">{figures[split]}</div>'
            if place == 0
            else f"<details><summary>{text_html(capital(shown(document['splits'][split]['title'])))}</summary>"
            f'<div class="charts scores">{figures[split]}</div></details>'
            for place, split in enumerate(found_splits)
        )
    return f"""<h2 id="scores">What a score means</h2>
<p class="caption">Above, the share of right answers among those that got each score, with its interval; on the dotted
line a score of 7 means 7 right in 10. Below, how many answers got it. Every score is a bin of its own. Scores of
parsed completions only.</p>
{key}{shown_ones}"""


def _score_figure(document: Document, split: str, name: str) -> str:
    one = document["splits"][split]["models"][name]
    n = sum(row["n_right"] + row["n_wrong"] for row in one["scores"])
    split_title = capital(shown(document["splits"][split]["title"]))
    title = split_title if len(models(document)) == 1 else shown(name, LONGEST_NAME)
    head = text_html(title) if len(models(document)) == 1 else _who(document, name)
    told = ", ".join(f"{LABELS[key]} {_written(document, split, name, key)}" for key in ("ece", "brier", "auroc"))
    picture = score_picture(f"{title}, {split_title}: {told}", one["scores"], _style(document, name).slot)
    return f"""<figure class="curve"><figcaption>{head} <span>{prose_html(told)}; {count(n)} scores</span></figcaption>
{picture}</figure>"""


def _written(document: Document, split: str, name: str, key: str) -> str:
    row = Row(key, LABELS[key], "figures")
    return row.write(found(document, split, name, row).value)


def _order(document: Document) -> str:
    rows = order_rows(document)
    if not rows:
        told = say_html("Each pair was asked in one order only: --both-orders measures what the order does.")
        return f'<h2 id="order">Order of the answers</h2>\n<p class="caption">{told}</p>'
    tables = [_table(document, split, rows) for split in splits(document)]
    more = f"<details><summary>Each split</summary>{''.join(tables[1:])}</details>" if len(tables) > 1 else ""
    settings = document["settings"]
    noise = " At a temperature above 0 flips also come from the draws alone." if settings.get("temperature") else ""
    return f"""<h2 id="order">Order of the answers</h2>
<p class="caption">Each pair was asked in both orders. Position bias is above 0 for a verifier that favours what stands
first.{noise}</p>
{tables[0]}{more}"""


def _failures(document: Document) -> str:
    split = splits(document)[0]
    names = models(document)
    of_model = {name: document["splits"][split]["models"][name] for name in names}
    kinds = list(dict.fromkeys(kind for one in of_model.values() for kind in one["parse_failures"]))
    most = max((n for one in of_model.values() for n in one["parse_failures"].values()), default=0)
    if not kinds:
        return '<h2 id="failures">Parse failures</h2>\n<p class="caption">Every completion parsed.</p>'

    def cell(name: str, n: int, *, bar: bool) -> str:
        whole = of_model[name]["n_completions"]
        picture = bar_html(n, most) if bar else ""
        return (
            f'<td class="figure" data-label="{text_html(shown(name, LONGEST_NAME))}">{count(n)} '
            f"<small>{prose_html(share(n / whole))}</small>{picture}</td>"
        )

    rows = "".join(
        f'<tr><th scope="row">{text_html(shown(kind))}</th>'
        + "".join(cell(name, of_model[name]["parse_failures"].get(kind, 0), bar=True) for name in names)
        + "</tr>\n"
        for kind in kinds
    )
    rows += '<tr class="part"><th scope="row">cut at the length limit</th>'
    rows += "".join(cell(name, of_model[name]["n_cut"], bar=False) for name in names) + "</tr>"
    heads = "".join(f'<th scope="col">{_who(document, name)}</th>' for name in names)
    return f"""<h2 id="failures">Parse failures</h2>
<p class="caption">Completions without two scores in the form asked for, by kind. They are wrong in pass@k and the
accuracies, and never become a score. {text_html(capital(shown(document["splits"][split]["title"])))}.</p>
<div class="scroll"><table class="data cards models"><caption class="unseen">Parse failures by kind</caption>
<thead><tr><th scope="col"></th>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"""


def _examples(document: Document) -> str:
    parts = []
    for name in models(document):
        examples = document["examples"].get(name, [])
        if examples and len(models(document)) > 1:
            parts.append(f"<h3>{_who(document, name)}</h3>")
        parts += [example_html(example) for example in examples]
    if not parts:
        return ""
    return f"""<h2 id="examples">Examples</h2>
<p class="caption">The surest right verdicts, the furthest off, and a completion of each kind that did not parse. Texts
are cut at {count(LONGEST_SAMPLE)} characters; control and direction characters are written as escapes.</p>
{"".join(parts)}"""


def _settings(document: Document) -> str:
    settings = {**document["settings"], **document["settings"]["bootstrap"]}
    names = {
        "pairs": "pairs",
        "task": "task",
        "n_samples": "completions of each pair and order",
        "both_orders": "both orders",
        "temperature": "temperature",
        "top_p": "top_p",
        "max_new_tokens": "most tokens of a completion",
        "limit": "most pairs of each split",
        "seed": "seed",
        "level": "coverage of intervals",
        "n_resamples": "resamples",
    }
    rows = "".join(
        f"<div><dt>{text_html(label)}</dt><dd>{text_html(_plain(settings[name]))}</dd></div>"
        for name, label in names.items()
        if name in settings
    )
    return f'<h2 id="settings">Settings</h2>\n<dl class="pairs">{rows}</dl>'


def _plain(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return shown(value, 200)


def _definitions(document: Document) -> str:
    rows = "".join(
        f"<div><dt>{text_html(shown(LABELS.get(name, name).removeprefix('- '), LONGEST_NAME))}</dt>"
        f"<dd>{say_html(shown(about['meaning'], 400))} Over {text_html(shown(about['over']))}.</dd></div>"
        for name, about in document["figures"].items()
    )
    return f'<h2 id="definitions">Definitions</h2>\n<dl class="terms">{rows}</dl>'
