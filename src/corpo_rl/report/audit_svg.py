"""Pictures of an audit: curves by step as inline SVG, coloured by the page's style sheet."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

from corpo_rl.report.audit_schema import CLASSES
from corpo_rl.report.audit_view import count, ends, figure, known, picked, share

WIDTH, HEIGHT = 360, 176
LEFT, RIGHT, TOP, BOTTOM = 42, 12, 10, 22

MOST_POINTS: Final = 320
"""Points of a drawn curve: a longer one is thinned, so that a picture stays small however long the run."""

Values = Sequence[float | None]


@dataclass(frozen=True)
class Chart:
    """A curve of an audit: how it is called and written."""

    key: str
    title: str
    write: Callable[[float | None], str]
    look: str
    """Class of its line in the style sheet."""
    line: float | None = None
    """Value with a meaning, drawn as a dotted line."""


CHARTS: Final = (
    Chart("reinforced_failure_share", "Failed rollouts reinforced", share, "up"),
    Chart("correct_share", "Correct rollouts", share, "right"),
    Chart("r_count", "r_count: A > 0 per A < 0", figure, "count", line=1.0),
    Chart("floored_group_share", "Groups with a mean under min_correct", share, "floor"),
    Chart("zero_variance_share", "Groups with zero variance", share, "equal"),
    Chart("reward", "Mean reward", figure, "reward"),
)


def curve_figures(curves: Mapping[str, Any]) -> Iterator[str]:
    """A figure for each curve that has values, the kinds of groups last, stacked."""
    for chart in CHARTS:
        if known(curves[chart.key]):
            yield _line_figure(chart, curves["step"], curves[chart.key])
    classes = [name for name in CLASSES if name != "unscorable"]
    if any(known(curves[f"class_{name}"]) for name in classes):
        yield _stacked_figure(curves["step"], {name: curves[f"class_{name}"] for name in classes})


def thinning_note(n_steps: int) -> str:
    """What the pictures leave out; empty when they hold every step."""
    if n_steps <= MOST_POINTS:
        return ""
    return (
        f"Of {count(n_steps)} steps a line shows at most {MOST_POINTS}: the lowest and the highest of each stretch. "
        "The stacked picture shows evenly spaced steps. The JSON holds all."
    )


def thinned(values: Values, most: int = MOST_POINTS) -> list[int]:
    """Rows of a curve that are drawn: the lowest and the highest of each stretch, and both ends.

    Example:
        >>> thinned([0, 5, 1, 9, 2, 2, 3, None], most=6)
        [0, 3, 4, 6, 7]
    """
    n = len(values)
    if n <= most:
        return list(range(n))
    stretches = (most - 2) // 2
    rows = {0, n - 1}
    for place in range(stretches):
        stretch = range(place * n // stretches, (place + 1) * n // stretches)
        found = [(value, row) for row in stretch if (value := values[row]) is not None]
        rows |= {min(found)[1], max(found)[1]} if found else {stretch[0]}
    return sorted(rows)


def _line_figure(chart: Chart, steps: Sequence[int], values: Values) -> str:
    found = known(values)
    low, high = min(*found, 0.0, chart.line or 0.0), max(*found, chart.line or 0.0)
    ticks = _ticks(low, high)
    scale = _Scale(steps, ticks)
    rows = thinned(values)
    parts = [*_frame(scale, ticks, chart.write, steps)]
    if chart.line is not None:
        y = scale.y(chart.line)
        parts.append(f'<path class="mark" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
    for run in _runs(rows, values):
        points = [(scale.x(steps[row]), scale.y(value)) for row in run if (value := values[row]) is not None]
        if len(points) > 1:
            parts.append(f'<path class="line {chart.look}" d="{_path(points)}"/>')
        if len(points) == 1 or len(steps) <= 20:
            parts += [f'<circle class="dot {chart.look}" cx="{x:.1f}" cy="{y:.1f}" r="2.4"/>' for x, y in points]
    about = (
        f"{chart.title} by training step: {_span(values, chart.write)}; lowest {chart.write(min(found))}, highest "
        f"{chart.write(max(found))}."
    )
    return _figure(chart.title, _span(values, chart.write), parts, about)


def _stacked_figure(steps: Sequence[int], classes: Mapping[str, Values]) -> str:
    ticks = [0.0, 0.25, 0.5, 0.75, 1.0]
    scale = _Scale(steps, ticks)
    rows = picked(len(steps), MOST_POINTS)
    first = next(iter(classes.values()))
    parts = [*_frame(scale, ticks, share, steps)]
    for run in _runs(rows, first):
        under = [0.0] * len(run)
        for place, values in enumerate(classes.values()):
            over = [low + (values[row] or 0.0) for low, row in zip(under, run, strict=True)]
            xs = [scale.x(steps[row]) for row in run]
            if len(run) == 1:  # a step alone is a bar
                xs, over, under = [xs[0] - 4, xs[0] + 4], over * 2, under * 2
            top = [(x, scale.y(value)) for x, value in zip(xs, over, strict=True)]
            back = [(x, scale.y(value)) for x, value in zip(reversed(xs), reversed(under), strict=True)]
            parts.append(f'<path class="area k{place}" d="{_path([*top, *back])}Z"/>')
            under = over if len(run) > 1 else over[:1]
    told = "; ".join(f"{CLASSES[name]}: {_span(values, share)}" for name, values in classes.items())
    key = "".join(
        f'<li><span class="swatch k{place}"></span><span>{escape(CLASSES[name])}: '
        f"<b>{escape(_span(values, share))}</b></span></li>"
        for place, (name, values) in reversed(list(enumerate(classes.items())))
    )
    under_it = f'<ul class="kinds" aria-label="Kinds of groups, from the top of the picture down">{key}</ul>'
    return _figure(
        "Kinds of groups", "shares, first and last step", parts, f"Shares of groups. {told}.", under_it, "stack"
    )


def _figure(title: str, told: str, parts: Iterable[str], about: str, below: str = "", kind: str = "") -> str:
    return f"""<figure class="curve {kind}"><figcaption>{escape(title)} <span>{escape(told)}</span></figcaption>
<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(about)}"><title>{escape(title)}</title>
<desc>{escape(about)}</desc>{"".join(parts)}</svg>{below}</figure>"""


def _span(values: Values, write: Callable[[float | None], str]) -> str:
    found = ends(values)
    if found is None:
        return "n/a"
    first, last = write(found[0]), write(found[1])
    return first if len(known(values)) == 1 else f"{first} to {last}"


class _Scale:
    """Where a step and a value stand in a picture."""

    def __init__(self, steps: Sequence[int], ticks: Sequence[float]) -> None:
        self.first, self.last = steps[0], steps[-1]
        self.low, self.high = ticks[0], ticks[-1]

    def x(self, step: int) -> float:
        width = WIDTH - LEFT - RIGHT
        return LEFT + width * ((step - self.first) / (self.last - self.first) if self.last > self.first else 0.5)

    def y(self, value: float) -> float:
        height = HEIGHT - TOP - BOTTOM
        return TOP + height * (1 - (value - self.low) / (self.high - self.low))


def _ticks(low: float, high: float) -> list[float]:
    """Three to six round values that span a range.

    Example:
        >>> _ticks(0.0, 0.47), _ticks(-0.2, 1.0)
        ([0.0, 0.1, 0.2, 0.3, 0.4, 0.5], [-0.5, 0.0, 0.5, 1.0])
    """
    if high - low < 1e-12 * max(1.0, abs(low), abs(high)):
        high = low + 1.0
    rough = (high - low) / 4
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= rough * 0.85)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(place * step, 12) for place in range(first, last + 1)]


def _frame(
    scale: _Scale, ticks: Sequence[float], write: Callable[[float | None], str], steps: Sequence[int]
) -> Iterator[str]:
    """Grid lines with their values, and the first and the last step."""
    for tick in ticks:
        y = scale.y(tick)
        text = f"{100 * tick:.6g} %" if write is share else f"{tick:.6g}"
        yield f'<path class="{"axis" if tick == 0 else "grid"}" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>'
        yield f'<text class="tick" x="{LEFT - 5}" y="{y + 3.5:.1f}" text-anchor="end">{escape(text)}</text>'
    if steps[0] == steps[-1]:
        at = f'x="{scale.x(steps[0]):.1f}" y="{HEIGHT - 6}" text-anchor="middle"'
        yield f'<text class="tick" {at}>step {steps[0]}</text>'
        return
    yield f'<text class="tick" x="{LEFT}" y="{HEIGHT - 6}">step {steps[0]}</text>'
    yield f'<text class="tick" x="{WIDTH - RIGHT}" y="{HEIGHT - 6}" text-anchor="end">{steps[-1]}</text>'


def _runs(rows: Sequence[int], values: Values) -> Iterator[list[int]]:
    """Drawn rows without a null between them."""
    run: list[int] = []
    for row in rows:
        if values[row] is None:
            if run:
                yield run
            run = []
        else:
            run.append(row)
    if run:
        yield run


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
