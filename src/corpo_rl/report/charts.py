"""The report's charts as Plotly figures in plain data: what goes where, and in which colour, dash and marker.

A colour is written "var(--name)": `page.js` looks it up in `page.css`, so that one figure serves light and dark.
"""

import html
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from corpo_rl.report.view import BASE, Results, capital, measure, method_names, runs_of, split_names, split_title

CLASSES = (
    ("class_all_failed_equal", "all failed, equal rewards"),
    ("class_all_failed_graded", "all failed, graded"),
    ("class_mixed", "mixed"),
    ("class_all_correct_graded", "all correct, graded"),
    ("class_all_correct_equal", "all correct, equal rewards"),
)
"""Group classes from worst to best, in stacking order, with their names in the key."""

KNOWN_METHODS = ("grpo", "dr_grpo", "static", "corpo", "loo_corpo", "rloo")
"""Methods with a place in the palette of their own, so that a method looks the same in every report."""

N_STYLES = 8
DASHES = ("solid", "6px,3px", "2px,2px", "solid", "8px,3px,2px,3px", "10px,4px", "4px,4px", "1px,3px")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star")


@dataclass(frozen=True)
class Style:
    """How a method is drawn, wherever it is drawn."""

    slot: int
    """Place in the palette: the colour is the CSS variable --m<slot>."""
    turn: int = 0
    """How often the palette had been used up: the same colour comes again with another dash and symbol."""

    @property
    def color(self) -> str:
        """Colour of lines and markers."""
        return f"var(--m{self.slot})"

    @property
    def band_color(self) -> str:
        """The same colour, see-through."""
        return f"var(--m{self.slot}-band)"

    @property
    def dash(self) -> str:
        """Plotly's (and SVG's) dash pattern."""
        return DASHES[(self.slot + 3 * self.turn) % N_STYLES]

    @property
    def symbol(self) -> str:
        """Plotly's marker symbol."""
        return SYMBOLS[(self.slot + 3 * self.turn) % N_STYLES]


@dataclass(frozen=True)
class Chart:
    """A figure with the words around it."""

    chart_id: str
    title: str
    unit: str
    """What the vertical axis shows, in which unit."""
    figure: Mapping[str, Any]
    """`data` and `layout` for Plotly."""


@dataclass(frozen=True)
class Section:
    """Charts that are read together."""

    title: str
    caption: str
    """What to look at."""
    charts: Sequence[Chart]
    key: str = "methods"
    """Which key explains the colours: `methods` or `classes`."""


def styles(results: Results) -> dict[str, Style]:
    """Style of every method: known ones have their own, others take the places left, in order."""
    names = method_names(results)
    taken = [KNOWN_METHODS.index(name) for name in names if name in KNOWN_METHODS]
    free = [slot for slot in range(N_STYLES) if slot not in taken] or list(range(N_STYLES))
    others = [name for name in names if name not in KNOWN_METHODS]
    places = {name: Style(free[place % len(free)], place // len(free)) for place, name in enumerate(others)}
    return {name: places.get(name) or Style(KNOWN_METHODS.index(name)) for name in names}


def sections(results: Results) -> list[Section]:
    """Every section that has something to show."""
    several = any(len(runs_of(results, name)) > 1 for name in method_names(results))
    lines = "One thin line per seed." if several else "Bands are intervals over items."
    found = [
        Section(
            "Learning curves",
            f"Pass@1 on held-out items while training runs. {lines} The dotted line is the base policy. Look at "
            "whether a method that leads in domain keeps its lead where it was not trained.",
            [chart for split in split_names(results) if (chart := _learning_curve(results, split)) is not None],
        ),
        Section(
            "Reward in training",
            "Mean reward of each step's rollouts; the dotted line is min_correct, from which an answer counts as "
            "correct. A policy that only hedges with (5, 5) sits at 0.",
            _curve_charts(results, [("reward", "Mean reward", "task units")], level="min_correct"),
        ),
        Section(
            "Failures that were reinforced",
            "Share of failed rollouts with a positive advantage: first had GRPO's rule judged them, then under the "
            "estimator each method really used. A floor keeps the second at zero; how far the first is from zero "
            "says how much there was to prevent.",
            _curve_charts(
                results,
                [
                    ("reinforced_failure_share_grpo", "Under GRPO's rule", "share of failed rollouts"),
                    ("reinforced_failure_share", "Under the estimator in use", "share of failed rollouts"),
                ],
                tozero=True,
            ),
        ),
        Section(
            "Balance of praise and blame",
            "r_count is the number of rollouts with a positive advantage over the number with a negative one. r_loss "
            "is the same ratio of summed loss; the two sums have opposite signs, so r_loss is never above 0 and its "
            "distance from 0 is the size. Below 1 in size, blame outweighs praise.",
            _curve_charts(
                results,
                [("r_count", "r_count", "ratio of counts"), ("r_loss", "r_loss", "ratio of losses, 0 or less")],
            ),
        ),
        Section(
            "Phases",
            "Share of groups whose mean reward is under min_correct. There the floor binds and training seeks "
            "correctness; in the other groups it seeks the better of good answers. A floor that never binds is GRPO "
            "without its divisor; one that always binds is a constant.",
            _curve_charts(
                results, [("floored_group_share", "Groups in the correctness-seeking phase", "share")], tozero=True
            ),
        ),
        Section(
            "Kinds of groups",
            _class_caption(results),
            [chart for name in method_names(results) if (chart := _class_chart(results, name)) is not None],
            key="classes",
        ),
        Section(
            "Health of the training",
            "A gradient norm that explodes, an entropy that falls to zero early or a length that runs away explain "
            "many a poor result.",
            _curve_charts(
                results,
                [
                    ("grad_norm", "Gradient norm", "before clipping"),
                    ("entropy", "Entropy", "nats per token"),
                    ("completion_length", "Completion length", "tokens"),
                    ("unscorable", "Unscorable rollouts", "count"),
                ],
                tozero=True,
            ),
        ),
    ]
    return [section for section in found if section.charts]


def _learning_curve(results: Results, split: str) -> Chart | None:
    looks = styles(results)
    traces: list[dict[str, Any]] = []
    for name in method_names(results):
        runs = runs_of(results, name)
        for run in runs:
            curves = run.get("evaluation_curves") or {}
            points = (curves.get(split) or {}).get("pass@1")
            if not points:
                continue
            steps = curves["step"]
            if len(runs) == 1:
                traces += _band(name, looks[name], steps, points)
            values = [point["value"] for point in points]
            traces.append(_line(results, run, looks[name], steps, values, markers=True))
    if not traces:
        return None
    layout = _layout()
    base = measure(results, BASE, split, "pass@1").value
    if not math.isnan(base):
        layout["shapes"] = [_level(base)]
    layout["yaxis"]["range"] = [0, min(1.02, 1.1 * _top(results))]
    return Chart(
        f"learning-{split_names(results).index(split)}",
        capital(split_title(results, split)),
        "pass@1",
        {"data": traces, "layout": layout},
    )


def _top(results: Results) -> float:
    """Highest pass@1 in any learning curve or band, so that all splits share one scale."""
    points = [
        point
        for run in results["runs"]
        for split, curves in (run.get("evaluation_curves") or {}).items()
        if split != "step"
        for point in curves.get("pass@1", [])
    ]
    ends = [value for point in points for value in (point["value"], point["high"]) if value is not None]
    starts = [measure(results, BASE, split, "pass@1").value for split in split_names(results)]
    return float(max([0.1, *ends, *(value for value in starts if not math.isnan(value))]))


def _curve_charts(
    results: Results, rows: Sequence[tuple[str, str, str]], *, tozero: bool = False, level: str | None = None
) -> list[Chart]:
    """One chart per (curve, title, unit) that some run has values for."""
    looks = styles(results)
    charts = []
    for curve, title, unit in rows:
        traces = []
        for name in method_names(results):
            for run in runs_of(results, name):
                curves = run.get("curves") or {}
                values = curves.get(curve) or []
                if any(value is not None for value in values):
                    traces.append(_line(results, run, looks[name], curves["step"], values, markers=False))
        if traces and not (curve == "unscorable" and _all_zero(traces)):
            layout = _layout()
            if tozero:
                layout["yaxis"]["rangemode"] = "tozero"
            if level is not None and isinstance(results["settings"].get(level), int | float):
                layout["shapes"] = [_level(results["settings"][level])]
            charts.append(Chart(f"curve-{curve}", title, unit, {"data": traces, "layout": layout}))
    return charts


def _class_caption(results: Results) -> str:
    seeds = max((len(runs_of(results, name)) for name in method_names(results)), default=0)
    which = " Of several seeds the first is drawn; results.json has the others." if seeds > 1 else ""
    return (
        "Each step's groups by what their rollouts reached. Groups of equal reward teach a mean baseline nothing; "
        "all-failed groups with graded rewards are the ones in which GRPO reinforces failures." + which
    )


def _class_chart(results: Results, method: str) -> Chart | None:
    for run in runs_of(results, method):
        curves = run.get("curves") or {}
        if any(value is not None for key, _ in CLASSES for value in curves.get(key) or []):
            layout = _layout()
            layout["yaxis"]["range"] = [0, 1]
            seeds = f", seed {run['seed']}" if len(runs_of(results, method)) > 1 else ""
            return Chart(
                f"classes-{method_names(results).index(method)}",
                f"{method}{seeds}",
                "share of groups",
                {"data": list(_class_traces(curves)), "layout": layout},
            )
    return None


def _class_traces(curves: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Stacked areas, each unbroken stretch of steps a stack of its own: Plotly would draw a gap in a stack as zero."""
    steps = curves["step"]
    rows = [[(curves.get(key) or [None] * len(steps))[row] for key, _ in CLASSES] for row in range(len(steps))]
    stretches: list[list[int]] = []
    for row, shares in enumerate(rows):
        if any(share is None for share in shares):
            continue
        if stretches and stretches[-1][-1] == row - 1:
            stretches[-1].append(row)
        else:
            stretches.append([row])
    for number, stretch in enumerate(stretches):
        for place, (_, label) in enumerate(CLASSES):
            yield {
                "type": "scatter",
                "mode": "lines" if len(stretch) > 1 else "markers",
                "name": label,
                "x": [steps[row] for row in stretch],
                "y": [rows[row][place] for row in stretch],
                "stackgroup": str(number),
                "line": {"width": 0.5, "color": f"var(--k{place})"},
                "marker": {"size": 3},
                "fillcolor": f"var(--k{place})",
                "hovertemplate": "%{y:.2f}",
            }


def _line(
    results: Results,
    run: Mapping[str, Any],
    look: Style,
    steps: Sequence[int],
    values: Sequence[float | None],
    *,
    markers: bool,
) -> dict[str, Any]:
    seeds = len(runs_of(results, run["method"]))
    name = run["method"] if seeds == 1 else f"{run['method']}, seed {run['seed']}"
    return {
        "type": "scatter",
        "mode": "lines+markers" if markers or len(steps) == 1 else "lines",
        "name": _escaped(name),
        "legendgroup": _slot(look),
        "x": list(steps),
        "y": list(values),
        "connectgaps": False,
        "line": {"color": look.color, "dash": look.dash, "width": (2 if markers else 1.5) if seeds == 1 else 1},
        "marker": {"color": look.color, "symbol": look.symbol, "size": 7 if seeds == 1 else 5},
        "hovertemplate": "%{y:.3f}",
    }


def _band(
    name: str, look: Style, steps: Sequence[int], points: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """The interval as an area: out along the upper ends, back along the lower ones, over the steps that have both."""
    known = [(step, p["low"], p["high"]) for step, p in zip(steps, points, strict=True) if None not in p.values()]
    if known:
        yield {
            "type": "scatter",
            "mode": "lines",
            "name": _escaped(f"{name}, interval"),
            "legendgroup": _slot(look),
            "x": [step for step, _, _ in known] + [step for step, _, _ in reversed(known)],
            "y": [high for _, _, high in known] + [low for _, low, _ in reversed(known)],
            "fill": "toself",
            "fillcolor": look.band_color,
            "line": {"width": 0, "color": look.color},
            "hoverinfo": "skip",
        }


def _layout() -> dict[str, Any]:
    axis = {
        "gridcolor": "var(--grid)",
        "linecolor": "var(--rule)",
        "zerolinecolor": "var(--rule)",
        "tickfont": {"color": "var(--soft)", "size": 11},
        "automargin": True,
        "fixedrange": False,
    }
    return {
        "height": 260,
        "margin": {"l": 40, "r": 16, "t": 8, "b": 34},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "showlegend": False,
        "hovermode": "x unified",
        "hoverlabel": {
            "bgcolor": "var(--card)",
            "bordercolor": "var(--rule)",
            "font": {"color": "var(--ink)", "size": 12},
            "namelength": 40,
        },
        "font": {"family": "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif", "color": "var(--soft)"},
        "xaxis": {
            **axis,
            "showgrid": False,
            "showline": True,
            "ticks": "outside",
            "ticklen": 4,
            "tickcolor": "var(--rule)",
            "hoverformat": "d",
            "unifiedhovertitle": {"text": "step %{x}"},
            "nticks": 8,
            "rangemode": "tozero",
        },
        "yaxis": {**axis, "nticks": 6},
    }


def _level(value: float) -> dict[str, Any]:
    return {
        "type": "line",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "y0": value,
        "y1": value,
        "line": {"color": "var(--soft)", "width": 1.25, "dash": "dot"},
    }


def _slot(look: Style) -> str:
    return f"m{look.slot}"


def _escaped(name: str) -> str:
    """A name as text to Plotly, which reads tags and entities in names."""
    return html.escape(name, quote=False)


def _all_zero(traces: Sequence[Mapping[str, Any]]) -> bool:
    return not any(value for trace in traces for value in trace["y"])
