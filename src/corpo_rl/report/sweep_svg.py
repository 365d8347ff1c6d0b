"""Pictures of a sweep as inline SVG: the objective of every trial against one dimension."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from corpo_rl.records import Interval
from corpo_rl.report.audit_view import figure
from corpo_rl.report.markup import minus, text_html
from corpo_rl.report.sweep_schema import SELECTION
from corpo_rl.report.sweep_view import LABELS, Document, Trial, objective, place_in_range, short
from corpo_rl.report.view import interval

WIDTH, LEFT, RIGHT = 380, 48, 14
TOP, HEIGHT = 12, 190
"""Where the plot begins, and its height."""
STRIP: Final = 26
"""Height of the strip under it that holds failed trials."""
BOTTOM: Final = 20
"""Room for the values of the dimension."""


@dataclass(frozen=True)
class _Frame:
    """From the objective to a height."""

    low: float
    high: float

    def y(self, value: float) -> float:
        return TOP + HEIGHT * (1 - (value - self.low) / (self.high - self.low))


def dimension_picture(document: Document, dimension: Mapping[str, Any]) -> str:
    """Each trial's objective with its interval, over its value of one dimension; failed trials stand under the axis.

    Args:
        document: The sweep.
        dimension: One of its dimensions.

    Returns:
        An SVG element; a failed trial is a cross in a strip of its own, never a point at 0.
    """
    name = dimension["name"]
    own = [trial for trial in document["trials"] if trial["same_as"] is None]
    finished = [trial for trial in own if trial["state"] == "finished"]
    failed = [trial for trial in own if trial["state"] == "failed"]
    frame = _frame([interval(trial[SELECTION]) for trial in finished])
    places = {trial["number"]: x for trial, x in zip(own, _places(own, dimension), strict=True)}
    about = "; ".join(
        f"trial {trial['number']} at {short(trial['params'][name])}: {figure(trial[SELECTION]['value'])}"
        for trial in finished
    )
    about = (about or "No trial finished") + "".join(f"; trial {trial['number']} failed" for trial in failed)
    parts = [*_axes(frame, dimension, with_strip=bool(failed))]
    # the best is drawn last, on top
    for trial in sorted(finished, key=lambda one: (one["number"] == document["best"], one["tied"])):
        parts += _point(document, trial, places[trial["number"]], frame)
    parts += [_cross(places[trial["number"]]) for trial in failed]
    title = f"{objective(document)} by {LABELS.get(name, name)}"
    height = TOP + HEIGHT + (STRIP if failed else 0) + BOTTOM
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{text_html(title)}">'
        f"<title>{text_html(title)}</title><desc>{text_html(about)}</desc>{''.join(parts)}</svg>"
    )


def _frame(found: Sequence[Interval]) -> _Frame:
    values = [value for one in found for value in (one.value, one.low, one.high) if not math.isnan(value)]
    if not values:
        return _Frame(0.0, 1.0)
    low, high = min(values), max(values)
    room = (high - low) * 0.08 or max(abs(high), 1e-6) * 0.1
    return _Frame(low - room, high + room)


def _places(trials: Sequence[Trial], dimension: Mapping[str, Any]) -> Iterator[float]:
    """Horizontal place of each trial; those of one listed value stand side by side."""
    name, left, width = dimension["name"], LEFT + 12, WIDTH - LEFT - RIGHT - 24
    if "choices" not in dimension:
        for trial in trials:
            yield left + width * place_in_range(float(trial["params"][name]), dimension)
        return
    columns = _columns(dimension)
    among: dict[Any, list[int]] = {value: [] for value in columns}
    for trial in trials:
        among[trial["params"][name]].append(trial["number"])
    for trial in trials:
        value = trial["params"][name]
        n = len(among[value])
        step = min(11.0, 0.8 * width / len(columns) / max(n, 1))
        yield _center(columns.index(value), len(columns)) + step * (among[value].index(trial["number"]) - (n - 1) / 2)


def _columns(dimension: Mapping[str, Any]) -> list[Any]:
    """Listed values in the order they are drawn: numbers by size."""
    choices = list(dimension["choices"])
    return choices if any(isinstance(value, str) for value in choices) else sorted(choices)


def _center(place: int, n_columns: int) -> float:
    width = WIDTH - LEFT - RIGHT - 24
    return LEFT + 12 + width * (place + 0.5) / n_columns


def _axes(frame: _Frame, dimension: Mapping[str, Any], *, with_strip: bool) -> Iterator[str]:
    right = WIDTH - RIGHT
    for value in _round_values(frame.low, frame.high):
        y = frame.y(value)
        yield f'<path class="grid" d="M{LEFT} {y:.1f}H{right}"/>'
        label = minus(f"{value:.4g}")
        yield f'<text class="tick" x="{LEFT - 5}" y="{y + 3.5:.1f}" text-anchor="end">{label}</text>'
    yield f'<path class="axis" d="M{LEFT} {TOP + HEIGHT}H{right}"/>'
    if with_strip:
        y = TOP + HEIGHT + STRIP / 2 + 3.5
        yield f'<text class="tick" x="{LEFT - 5}" y="{y:.1f}" text-anchor="end">failed</text>'
    y = TOP + HEIGHT + (STRIP if with_strip else 0) + 14
    for x, label in _ticks(dimension):
        yield f'<text class="tick" x="{x:.1f}" y="{y}" text-anchor="middle">{text_html(label)}</text>'


def _round_values(low: float, high: float) -> list[float]:
    """Round numbers between two ends, about five."""
    size = 10.0 ** math.floor(math.log10((high - low) / 5))
    step = size * next(factor for factor in (1, 2, 5, 10) if 6 * factor * size >= high - low)
    places = range(math.ceil(low / step), math.floor(high / step) + 1)
    return [round(place * step, 12) for place in places]


def _ticks(dimension: Mapping[str, Any]) -> Iterator[tuple[float, str]]:
    if "choices" in dimension:
        columns = _columns(dimension)
        letters = max(3, int((WIDTH - LEFT - RIGHT) / len(columns) / 5.5))
        for place, value in enumerate(columns):
            text = short(value) if isinstance(value, str) else minus(short(value))
            yield _center(place, len(columns)), text if len(text) <= letters else text[: letters - 1] + "~"
        return
    low, high = float(dimension["low"]), float(dimension["high"])
    for share in (0.0, 0.5, 1.0):
        value = low * (high / low) ** share if dimension["log"] else low + share * (high - low)
        yield LEFT + 12 + (WIDTH - LEFT - RIGHT - 24) * share, minus(short(value))


def _point(document: Document, trial: Trial, x: float, frame: _Frame) -> Iterator[str]:
    one = interval(trial[SELECTION])
    if math.isnan(one.value):
        return
    kind = "best" if trial["number"] == document["best"] else "tied" if trial["tied"] else "other"
    if not math.isnan(one.low):
        low, high = frame.y(one.low), frame.y(one.high)
        yield f'<path class="trial whisker {kind}" d="M{x:.1f} {low:.1f}V{high:.1f}"/>'
    y = frame.y(one.value)
    hint = f"<title>trial {trial['number']}: {text_html(minus(figure(one.value)))}</title>"
    if kind == "best":
        yield f'<path class="trial best" d="M{x:.1f} {y - 6.5:.1f}l6.5 6.5-6.5 6.5-6.5-6.5Z">{hint}</path>'
    else:
        yield f'<circle class="trial {kind}" cx="{x:.1f}" cy="{y:.1f}" r="4">{hint}</circle>'


def _cross(x: float) -> str:
    y = TOP + HEIGHT + STRIP / 2
    return f'<path class="trial failed" d="M{x - 4:.1f} {y - 4:.1f}l8 8m0-8l-8 8"/>'
