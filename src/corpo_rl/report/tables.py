"""The tables of results: every method's final figures, and every paired difference."""

import math
from collections.abc import Mapping
from html import escape
from typing import Any

from corpo_rl.records import Interval
from corpo_rl.report.charts import Style, styles
from corpo_rl.report.markup import class_html, mark_html, minus, text_html
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
    split_names,
    split_title,
)

SHARES = {"hedge_rate", "parse_failure_rate", "score_accuracy"}
"""Measures written as percentages."""

LESS_IS_BETTER = {"brier", "hedge_rate", "parse_failure_rate"}
"""Measures of which a lower value is the better one."""


def final_table(results: Results, split: str) -> str:
    """Final figures of the base and of every method on a split, with intervals and pass@1 against the reference."""
    columns, base_line = measures(results), reference(results)
    about = results["splits"][split]
    names = (BASE, *method_names(results))
    found = next((found for name in names if (found := evaluation(results, name, split)) is not None), None)
    counts = "not evaluated" if found is None else f"{found['n_items']} items, {found['n_samples']} samples a method"
    description = f"{about['description']}, " if about.get("description") else ""
    versus = None if base_line is None else f"pass@1 against {base_line}"
    heads = ["", columns[0].label, *([versus] if versus else []), *(column.label for column in columns[1:])]
    rows = "".join(_final_row(results, split, name, columns, versus) for name in names)
    title = text_html(capital(split_title(results, split)))
    widths = [
        "name",
        "pass",
        *(["versus"] if versus else []),
        *("reward" if column.key == "mean_reward" else "" for column in columns[1:]),
    ]
    return f"""<div class="scroll"><table class="final">
<caption><b>{title}</b> <span>{text_html(description)}{counts}</span></caption>
<colgroup>{"".join(f"<col{class_html(width)}>" for width in widths)}</colgroup>
<thead><tr>{"".join(f'<th scope="col">{text_html(head)}</th>' for head in heads)}</tr></thead>
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
    label = f'<span class="who">{"" if look is None else mark_html(look)}<span>{text_html(name)}</span></span>'
    return f'<tr{class_html("base" if name == BASE else "")}><th scope="row">{label}</th>{"".join(cells)}</tr>\n'


def _value(found: Interval, key: str) -> str:
    write = percent if key in SHARES else number
    span = f"<small>[{write(found.low)}, {write(found.high)}]</small>" if not math.isnan(found.low) else ""
    return minus(write(found.value)) + minus(span)


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
    better = "lower" if row["measure"] in LESS_IS_BETTER else "higher"
    kind = class_html("good" if word == better else "bad" if word else "")
    size = f"<span{kind}>{minus(number(found.value, signed=True))} {word}</span>"
    span = minus(f"<small>[{number(found.low, signed=True)}, {number(found.high, signed=True)}]</small>")
    none = "" if word else '<small class="told">no difference found</small>'
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


def difference_tables(results: Results) -> str:
    """Every paired difference: per split a table with a row per pair and a column per measure; empty without any."""
    tables = "".join(_difference_table(results, split) for split in split_names(results))
    if not results["comparisons"]:
        return ""
    return f"""<h2 id="differences">Paired differences</h2>
<p class="caption">First minus second on the same items and seeds, with {level_text(results)} intervals.</p>
<details><summary>All {len(results["comparisons"])} differences</summary>{tables}</details>"""


def _difference_table(results: Results, split: str) -> str:
    rows = [row for row in results["comparisons"] if row["split"] == split]
    labels = {column.key: column.label for column in measures(results)}
    keys = dict.fromkeys(row["measure"] for row in rows)
    heads = ["", *(labels.get(key, key) for key in keys), "items x seeds"]
    body = ""
    for pair in dict.fromkeys((row["method"], row["reference"]) for row in rows):
        found = {row["measure"]: row for row in rows if (row["method"], row["reference"]) == pair}
        cells = "".join(
            f'<td data-label="{escape(labels.get(key, key))}">{_difference(found[key]) if key in found else ""}</td>'
            for key in keys
        )
        counts = dict.fromkeys(f"{row['n_items']} x {row['n_seeds']}" for row in found.values())
        body += f"""<tr><th scope="row">{text_html(pair[0])} against {text_html(pair[1])}</th>{cells}
<td data-label="items x seeds">{", ".join(counts)}</td></tr>
"""
    return f"""<div class="scroll"><table class="final">
<caption><b>{text_html(capital(split_title(results, split)))}</b></caption>
<thead><tr>{"".join(f'<th scope="col">{text_html(head)}</th>' for head in heads)}</tr></thead>
<tbody>{body}</tbody></table></div>
"""
