"""Pictures of a study as SVG files of their own, in light and dark: curves of training, and what claims came to."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpo_rl.records import Interval
from corpo_rl.report.charts import KNOWN_METHODS
from corpo_rl.report.markup import minus, text_html
from corpo_rl.study.claims import CLAIMS
from corpo_rl.study.plan import FLOORED
from corpo_rl.study.quantities import Runs, Study
from corpo_rl.study.verdicts import seed_interval

WIDTH, HEIGHT = 300, 190
"""Of a panel's plot."""
LEFT, TOP, GAP, FOOT = 46, 34, 26, 40

LIGHT = ("#0068a8", "#2e8fc7", "#00805c", "#d0500a", "#a3407d", "#9a6a00", "#5b53b5", "#5f666e")
DARK = ("#5fb0ee", "#a3d8f7", "#35c79a", "#ff8b4a", "#e58fc2", "#e3b341", "#aaa4f5", "#a9b1ba")
"""The palette of `report/page.css`: pictures on a page cannot read a stylesheet beside them."""
DASHES = ("", "6 3", "", "", "8 3 2 3", "2 2", "4 4", "1 3")

BANDS = ("grpo", "static", "corpo")
"""Methods whose intervals are drawn; with all of them nothing could be told apart."""

OUTCOMES = {"supported": 2, "undecided": 7, "not supported": 3}
"""Verdicts and their place in the palette."""


@dataclass(frozen=True)
class _Axis:
    """From a value to a height; `ticks` with their labels."""

    low: float
    high: float
    ticks: Sequence[tuple[float, str]]

    def y(self, value: float) -> float:
        held = min(max(value, self.low), self.high)
        return TOP + HEIGHT * (1 - (held - self.low) / (self.high - self.low))


def pictures(study: Study, found: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Every picture by the name of its file.

    Args:
        study: Results with at least one run of the main part.
        found: Verdicts on the claims.
    """
    methods = list(study.results["plan"]["methods"])
    ratios = [(math.log(value), f"{value:g}") for value in (0.001, 0.01, 0.1, 1, 10, 100, 1000)]
    shares = [(value / 10, f"{10 * value} %") for value in range(0, 12, 2)]
    return {
        "r_count.svg": _grid(
            study,
            methods,
            "r_count: rollouts pushed up for each one pushed down",
            _Axis(math.log(0.001), math.log(1000), ratios),
            lambda runs, threshold: _log_ratios(runs),
        ),
        "reinforced.svg": _grid(
            study,
            [method for method in methods if method not in FLOORED],
            "Share of the failed rollouts with an advantage above 0",
            _Axis(0.0, 1.0, shares),
            _reinforced,
        ),
        "differences.svg": _differences(study, found),
    }


def _log_ratios(runs: Runs) -> NDArray[np.float64]:
    """Logarithm of r_count of each seed in each bin. Shape [S, T]."""
    up_ST, down_ST = (
        np.array([run["series"][name] for run in runs.values()], dtype=np.float64) for name in ("up", "down")
    )
    return np.where(up_ST + down_ST > 0, np.log((up_ST + 0.5) / (down_ST + 0.5)), np.nan)


def _reinforced(runs: Runs, threshold: float) -> NDArray[np.float64]:
    """Share of each seed in each bin, NaN where nothing failed. Shape [S, T]."""
    name = f"{threshold:g}"
    up_ST, failed_ST = (
        np.array([run["series"][count][name] for run in runs.values()], dtype=np.float64)
        for count in ("failed_up", "failed")
    )
    share_ST: NDArray[np.float64] = np.full(up_ST.shape, np.nan)
    return np.divide(up_ST, failed_ST, out=share_ST, where=failed_ST > 0)


def _grid(
    study: Study,
    methods: Sequence[str],
    title: str,
    axis: _Axis,
    values: Callable[[Runs, float], NDArray[np.float64]],
) -> str:
    """A panel for each threshold in each reward's row, a line for each method: means over seeds."""
    plan = study.results["plan"]
    n_columns = max(len(thresholds) for thresholds in plan["thresholds"].values())
    parts, rows = [], list(plan["thresholds"].items())
    for row, (reward, thresholds) in enumerate(rows):
        for column, threshold in enumerate(thresholds):
            x, y = column * (WIDTH + LEFT + GAP), row * (HEIGHT + TOP + FOOT)
            lines = {
                method: values(runs, threshold) for method in methods if (runs := study.runs(reward, method, threshold))
            }
            panel = "".join(_panel(lines, f"{reward}, threshold {threshold:g}", axis, plan["sizes"]))
            parts.append(f'<g transform="translate({x} {y})">{panel}</g>')
    width = n_columns * (WIDTH + LEFT + GAP)
    height = len(rows) * (HEIGHT + TOP + FOOT)
    parts.append(f'<g transform="translate({LEFT} {height})">{"".join(_key(methods))}</g>')
    return _document(width, height + 24, title, "".join(parts))


def _panel(
    lines: Mapping[str, NDArray[np.float64]], title: str, axis: _Axis, sizes: Mapping[str, int]
) -> Iterator[str]:
    n_bins = sizes["steps"] // sizes["bin"]

    def x(place: float) -> float:
        return LEFT + WIDTH * (place + 0.5) / n_bins

    yield f'<text class="head" x="{LEFT}" y="{TOP - 12}">{text_html(minus(title))}</text>'
    for value, label in axis.ticks:
        if axis.low <= value <= axis.high:
            y = axis.y(value)
            yield f'<path class="grid" d="M{LEFT} {y:.1f}h{WIDTH}"/>'
            yield f'<text class="tick" x="{LEFT - 6}" y="{y + 3.5:.1f}" text-anchor="end">{label}</text>'
    for step in (sizes["bin"], sizes["steps"] // 2, sizes["steps"]):
        place = x(step / sizes["bin"] - 1)
        yield f'<text class="tick" x="{place:.1f}" y="{TOP + HEIGHT + 15}" text-anchor="middle">step {step}</text>'
    for method, values_ST in lines.items():
        slot = _slot(method)
        intervals = [seed_interval(values_S, n_resamples=1000) for values_S in values_ST.T]
        if method in BANDS and len(values_ST) > 1:
            known = [(x(place), one) for place, one in enumerate(intervals) if not math.isnan(one.low)]
            upper = [f"{place:.1f} {axis.y(one.high):.1f}" for place, one in known]
            lower = [f"{place:.1f} {axis.y(one.low):.1f}" for place, one in reversed(known)]
            if known:
                yield f'<path class="b{slot}" d="M{"L".join(upper + lower)}Z"/>'
        points = [
            f"{_pen(intervals, place)}{x(place):.1f} {axis.y(one.value):.1f}"
            for place, one in enumerate(intervals)
            if not math.isnan(one.value)
        ]
        if points:
            yield f'<path class="l{slot}" d="{"".join(points)}"><title>{text_html(method)}</title></path>'


def _pen(intervals: Sequence[Interval], place: int) -> str:
    """Draw on from the point before, or begin anew where there is none."""
    return "L" if place and not math.isnan(intervals[place - 1].value) else "M"


def _key(methods: Sequence[str]) -> Iterator[str]:
    for place, method in enumerate(methods):
        x = 104 * place
        yield f'<path class="l{_slot(method)}" d="M{x} 8h24"/>'
        yield f'<text class="tick" x="{x + 30}" y="12">{text_html(method)}</text>'


def _differences(study: Study, found: Sequence[Mapping[str, Any]]) -> str:
    """Differences in pass@1 with their intervals, a column for each reward: what claims 4 to 6 came to."""
    claims = [claim for claim in CLAIMS if claim.scale == "points" and claim.quantity.startswith("pass@1")]
    rewards = list(study.results["plan"]["thresholds"])
    rows = [
        row for row in found if row["key"] in {claim.key for claim in claims} and row["interval"]["low"] is not None
    ]
    ends = [abs(row["interval"][end]) for row in rows for end in ("low", "high")]
    reach = max(0.05, math.ceil(20 * max(ends, default=0.0)) / 20)
    label, width, between, step = 300, 240, 70, 15

    def x(column: int, value: float) -> float:
        return label + column * (width + between) + width * (value + reach) / (2 * reach)

    parts, y = [], 44.0
    for column, reward in enumerate(rewards):
        parts.append(f'<text class="head" x="{x(column, -reach):.1f}" y="16">{text_html(reward)}</text>')
        parts += [
            f'<text class="tick" x="{x(column, value):.1f}" y="32" text-anchor="middle">{minus(label_of)}</text>'
            for value, label_of in ((-reach, f"{-reach:g}"), (0.0, "0"), (reach, f"+{reach:g}"))
        ]
    top = y - 8
    for claim in claims:
        words = text_html(f"{claim.key}  {claim.quantity}")
        parts.append(f'<text class="tick" x="0" y="{y + 4:.1f}">{words}</text>')
        here = [row for row in rows if row["key"] == claim.key]
        lines = max((sum(row["reward"] == reward for row in here) for reward in rewards), default=0)
        for column, reward in enumerate(rewards):
            for place, row in enumerate(row for row in here if row["reward"] == reward):
                parts += _whisker(row, partial(x, column), y + step * place)
        y += step * max(lines, 1) + 8
    for column in range(len(rewards)):
        parts.insert(0, f'<path class="axis" d="M{x(column, 0):.1f} {top}V{y - 8:.1f}"/>')
    key = "".join(
        f"{_mark(slot, label + 120 * place, y + 4)}"
        f'<text class="tick" x="{label + 120 * place + 9}" y="{y + 8}">{word}</text>'
        for place, (word, slot) in enumerate(OUTCOMES.items())
    )
    title = "Differences in pass@1 with 95 % intervals; colours are the verdicts that allow for all cells"
    return _document(label + len(rewards) * (width + between), int(y) + 20, title, "".join(parts) + key)


def _whisker(row: Mapping[str, Any], x: Callable[[float], float], y: float) -> Iterator[str]:
    value, low, high = (row["interval"][name] for name in ("value", "low", "high"))
    slot, threshold = OUTCOMES[row["verdict_of_all"]], f"{row['threshold']:g}"
    hint = text_html(f"threshold {threshold}: {value:+.3f}, {row['verdict_of_all']}")
    yield f'<path class="w{slot}" d="M{x(low):.1f} {y:.1f}H{x(high):.1f}"/>'
    yield _mark(slot, x(value), y, hint)
    yield f'<text class="small" x="{x(high) + 6:.1f}" y="{y + 3:.1f}">{minus(threshold)}</text>'


def _mark(slot: int, x: float, y: float, hint: str = "") -> str:
    """The mark of a verdict, which differs in shape as well as in colour."""
    title = f"<title>{hint}</title>" if hint else ""
    if slot == OUTCOMES["not supported"]:
        return f'<rect class="d{slot}" x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7">{title}</rect>'
    kind = "w" if slot == OUTCOMES["undecided"] else "d"
    return f'<circle class="{kind}{slot} mark" cx="{x:.1f}" cy="{y:.1f}" r="3.8">{title}</circle>'


def _slot(method: str) -> int:
    return KNOWN_METHODS.index(method) if method in KNOWN_METHODS else len(KNOWN_METHODS)


def _document(width: int, height: int, title: str, content: str) -> str:
    """A whole file, with a title for those who do not see it and its own colours."""
    style = (
        "text{font:12px system-ui,sans-serif;fill:var(--ink)}.tick{font-size:11px;fill:var(--soft)}"
        ".small{font-size:9px;fill:var(--soft)}.head{font-weight:600}"
        ".mark{fill:var(--card)}.grid{stroke:var(--rule);stroke-width:.6}.axis{stroke:var(--soft);stroke-width:1}path{fill:none}"
    )
    for slot, dash in enumerate(DASHES):
        dashed = f";stroke-dasharray:{dash}" if dash else ""
        style += (
            f".l{slot}{{stroke:var(--m{slot});stroke-width:1.8{dashed}}}.b{slot}{{fill:var(--m{slot});opacity:.15}}"
            f".w{slot}{{stroke:var(--m{slot});stroke-width:1.6}}.d{slot}{{fill:var(--m{slot})}}"
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-8 -8 {width + 16} {height + 16}" role="img" '
        f'aria-label="{text_html(title)}">\n<title>{text_html(title)}</title>\n<style>'
        f"{_colors(LIGHT, '#fff', '#17191c', '#565c64', '#d3d0c7')}"
        f"@media(prefers-color-scheme:dark){{{_colors(DARK, '#1a1d21', '#e9e7e2', '#a2a8b0', '#3a3f46')}}}{style}"
        f'</style>\n<rect x="-8" y="-8" width="{width + 16}" height="{height + 16}" fill="var(--card)"/>\n'
        f"{content}\n</svg>\n"
    )


def _colors(palette: Sequence[str], card: str, ink: str, soft: str, rule: str) -> str:
    slots = "".join(f"--m{slot}:{color};" for slot, color in enumerate(palette))
    return f":root{{--card:{card};--ink:{ink};--soft:{soft};--rule:{rule};{slots}}}"
