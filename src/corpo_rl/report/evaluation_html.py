"""An evaluation as one HTML file that runs no script and needs no network; it looks like the other reports."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from corpo_rl.report.audit_page import bar_html, page_html, say_html, table_html
from corpo_rl.report.audit_view import shown
from corpo_rl.report.evaluation_tables import (
    cell,
    differences_table,
    failures_table,
    figures_table,
    split_title,
    splits_of,
)
from corpo_rl.report.markup import minus, prose_html, text_html

LONGEST_SAMPLE: Final = 3000
"""Characters of a text that are shown."""

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 320, 250, 34, 10, 10, 30
_BARS = 70
"""Height of the counts under a reliability diagram."""


def evaluation_html(document: Mapping[str, Any]) -> str:
    """The whole evaluation as one HTML page; all foreign text is escaped and cut.

    Args:
        document: An evaluation as loaded from JSON, checked by `check_evaluation`.
    """
    splits = splits_of(document)
    body = [
        _head(document, splits),
        "<main>",
        *(_split(document, split) for split in splits),
        _calibration(document, splits[-1]),
        _failures(document, splits[-1]),
        _examples(document),
        _meaning(document),
        "</main>",
    ]
    return page_html(f"corpo-rl evaluate: {shown(document['pairs'], 60)}", "\n".join(filter(None, body)), document)


def _head(document: Mapping[str, Any], splits: Sequence[str]) -> str:
    models, settings = document["models"], document["settings"]
    whole = document["splits"][splits[-1]]
    first = whole["models"][models[0]]["figures"]["accuracy"]
    lead = "of verdicts right" if len(models) == 1 else f"of verdicts right: {shown(models[0], 60)}, the first model"
    glance = "".join(
        f'<h2>{text_html(split_title(document, split))}</h2><ul class="glance models">'
        + "".join(
            f"<li><span>{text_html(shown(model, 40))}</span>"
            f"{bar_html(document['splits'][split]['models'][model]['figures']['accuracy']['value'], 1.0, 'right')}"
            f"<b>{prose_html(_share(document['splits'][split]['models'][model]['figures']['accuracy']['value']))}</b></li>"
            for model in models
        )
        + "</ul>"
        for split in splits
    )
    facts = {
        "pairs": f"{whole['n_pairs']:,}",
        "problems": f"{whole['n_problems']:,}",
        "models": f"{len(models):,}",
        "completions a pair": f"{settings['n_samples']:,}" + (" in each order" if settings["both_orders"] else ""),
        "temperature": f"{settings['temperature']:g}" + (" (greedy)" if settings["temperature"] == 0 else ""),
        "most tokens": f"{settings['max_new_tokens']:,}",
        "seed": f"{settings['seed']:,}",
    }
    shown_facts = "".join(
        f"<div><dt>{text_html(name)}</dt><dd>{prose_html(value)}</dd></div>" for name, value in facts.items()
    )
    span = cell(first, "accuracy").partition("[")[2].rstrip("]")
    interval = f"{100 * document['level']:g} % interval [{minus(span)}] over problems" if span else ""
    return f"""<header class="top">
<p class="eyebrow"><b>corpo-rl evaluate</b> {prose_html(shown(document["pairs"], 120))}</p>
<div class="hero"><div class="lead"><h1><b class="none">{prose_html(_share(first["value"]))}</b> {prose_html(lead)}</h1>
<p class="interval">{interval}</p><p>A verdict is right when both answers are scored on the right side of 5. What cannot
be read counts as wrong.</p>
</div><div class="picture">{glance}</div></div>
<dl class="facts">{shown_facts}</dl>
</header>"""


def _split(document: Mapping[str, Any], split: str) -> str:
    differences = differences_table(document, split)
    more = (
        f"<h3>{text_html(shown(differences.title, 120))}</h3>{table_html(differences, cards=True)}"
        if differences
        else ""
    )
    return (
        f"<section><h2>{text_html(split_title(document, split))}</h2>"
        f"{table_html(figures_table(document, split), cards=True)}{more}</section>"
    )


def _calibration(document: Mapping[str, Any], split: str) -> str:
    found = document["splits"][split]["models"]
    figures = "".join(_reliability(model, found[model]) for model in document["models"])
    return f"""<section><h2>What a score means</h2>
<p class="told">Share of right answers at each score, {text_html(split_title(document, split))}. On the dotted line a score
of 7 means 7 right in 10. Below, how many answers got each score: right ones filled, wrong ones striped.</p>
<div class="charts">{figures}</div></section>"""


def _reliability(model: str, found: Mapping[str, Any]) -> str:
    right, wrong = found["right_by_score"], found["wrong_by_score"]
    total = sum(right) + sum(wrong)
    ece, brier = found["figures"]["ece"], found["figures"]["brier"]
    told = f"ECE {cell(ece, 'ece')}; Brier {cell(brier, 'brier')}" if total else "no completion was parsed"
    about = f"Reliability of {shown(model, 60)}. " + "; ".join(
        f"score {score}: {one} of {one + other} right"
        for score, (one, other) in enumerate(zip(right, wrong, strict=True))
        if one + other
    )
    return f"""<figure class="curve">
<figcaption>{text_html(shown(model, 60))} <span>{minus(prose_html(told))}</span></figcaption>
<svg viewBox="0 0 {_WIDTH} {_HEIGHT + _BARS}" role="img" aria-label="{text_html(about)}"><desc>{text_html(about)}</desc>
<defs><pattern id="stripes" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
<path class="line" d="M0 0V5"/></pattern></defs>
{"".join(_marks(right, wrong))}</svg></figure>"""


def _marks(right: Sequence[int], wrong: Sequence[int]) -> Iterator[str]:
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = _y(tick)
        yield f'<path class="{"axis" if tick == 0 else "grid"}" d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}"/>'
        yield f'<text class="tick" x="{_LEFT - 5}" y="{y + 3.5:.1f}" text-anchor="end">{100 * tick:g} %</text>'
    yield f'<path class="mark" d="M{_x(0):.1f} {_y(0):.1f}L{_x(10):.1f} {_y(1):.1f}"/>'
    most = max((one + other for one, other in zip(right, wrong, strict=True)), default=0)
    points = []
    for score, (one, other) in enumerate(zip(right, wrong, strict=True)):
        yield f'<text class="tick" x="{_x(score):.1f}" y="{_HEIGHT - 12}" text-anchor="middle">{score}</text>'
        if not one + other:
            continue
        points.append((_x(score), _y(one / (one + other))))
        height, share = (_BARS - 6) * (one + other) / most, one / (one + other)
        top = _HEIGHT + _BARS - height
        yield (
            f'<rect class="dot right" x="{_x(score) - 8:.1f}" y="{top + height * (1 - share):.1f}" width="16" '
            f'height="{height * share:.1f}"/>'
        )
        yield (
            f'<rect x="{_x(score) - 8:.1f}" y="{top:.1f}" width="16" height="{height * (1 - share):.1f}" '
            'fill="url(#stripes)"/>'
        )
    if len(points) > 1:
        yield f'<path class="line right" d="M{"L".join(f"{x:.1f} {y:.1f}" for x, y in points)}"/>'
    for x, y in points:
        yield f'<circle class="dot right" cx="{x:.1f}" cy="{y:.1f}" r="4"/>'


def _x(score: float) -> float:
    return _LEFT + 10 + (_WIDTH - _LEFT - _RIGHT - 20) * score / 10


def _y(share: float) -> float:
    return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - share)


def _failures(document: Mapping[str, Any], split: str) -> str:
    table = failures_table(document, split)
    return "" if table is None else f"<section><h2>{text_html(table.title)}</h2>{table_html(table)}</section>"


def _examples(document: Mapping[str, Any]) -> str:
    parts = []
    for model, examples in document["examples"].items():
        parts += [f"<h3>{text_html(shown(model, 120))}</h3>"] if len(document["examples"]) > 1 else []
        parts += [_example(example) for example in examples]
    return f"<section><h2>Examples</h2>{''.join(parts)}</section>" if parts else ""


def _example(example: Mapping[str, Any]) -> str:
    said = (
        f"not parsed: {example['failure']}"
        if example["score_a"] is None
        else f"{example['outcome']}: A {example['score_a']}, B {example['score_b']}"
    )
    labels = f"A is {'right' if example['label_a'] else 'wrong'}, B is {'right' if example['label_b'] else 'wrong'}"
    order = "; shown with B first" if example["swapped"] else ""
    texts = "".join(
        f'<h4>{title}</h4><div class="sample">{text_html(shown(example[name], LONGEST_SAMPLE))}</div>'
        for title, name in (
            ("Problem", "problem"),
            ("Answer A", "answer_a"),
            ("Answer B", "answer_b"),
            ("Completion", "completion"),
        )
    )
    return f"""<details class="example"><summary>{prose_html(shown(said, 80))} <span>{prose_html(labels + order)};
{text_html(shown(example["split"], 40))} {text_html(shown(example["item_id"], 40))}</span></summary>{texts}</details>"""


def _meaning(document: Mapping[str, Any]) -> str:
    ks = ", ".join(f"pass@{k}" for k in document["ks"])
    sentences = (
        f"{ks}: how likely at least one of so many completions is a right verdict. With four outcomes blind guessing "
        "comes near 99 % at pass@16, so it is read beside pass@1.",
        "AUROC: how likely a right answer scores higher than a wrong one, of any pair; 0.5 tells nothing.",
        "Brier and ECE take score / 10 as the probability that an answer is right; 0 is best, and a 5 for everything "
        "has a Brier score of 0.25.",
        "First answer's score less second's: 0 without position bias. Verdicts that flip: the two orders of a pair.",
        "AUROC, Brier, ECE, hedges and position are over parsed completions; accuracy and pass@k are over all.",
    )
    items = "".join(f"<li>{say_html(sentence)}</li>" for sentence in sentences)
    return f'<section class="told"><h2>What the figures mean</h2><ul>{items}</ul></section>'


def _share(value: float | None) -> str:
    return "n/a" if value is None else f"{100 * value:.1f} %"
