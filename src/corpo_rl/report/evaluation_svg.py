"""Pictures of an evaluation as inline SVG: how often answers of each score are right, and how many there are."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from corpo_rl.report.markup import text_html

WIDTH, LEFT, RIGHT = 360, 42, 12
TOP, DIAGRAM = 10, 190
"""The reliability diagram: where it begins, and its height."""
BARS: Final = 78
"""Height of the histogram under it."""
GAP: Final = 30
HEIGHT = TOP + DIAGRAM + GAP + BARS + 8

_BAR = 17
"""Width of a bar."""


def score_picture(title: str, scores: Sequence[Mapping[str, Any]], slot: int) -> str:
    """Share of right answers at each score with its interval, over the number of right and wrong answers there.

    Args:
        title: Whose scores they are, for those who cannot see the picture.
        scores: The document's rows of scores 0 to 10.
        slot: Place in the palette: the colour is the CSS variable --m<slot>.
    """
    about = f"{title}. " + (
        "; ".join(
            f"score {row['score']}: {row['n_right']} of {row['n_right'] + row['n_wrong']} right"
            for row in scores
            if row["n_right"] + row["n_wrong"]
        )
        or "No completion was parsed"
    )
    parts = "".join([*_frame(), *_points(scores, slot), *_bars(scores)])
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{text_html(about)}">'
        f"<title>{text_html(title)}</title><desc>{text_html(about)}</desc>{parts}</svg>"
    )


def _frame() -> Iterator[str]:
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = _y(tick)
        yield f'<path class="{"axis" if tick == 0 else "grid"}" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>'
        yield f'<text class="tick" x="{LEFT - 5}" y="{y + 3.5:.1f}" text-anchor="end">{100 * tick:g} %</text>'
    yield f'<path class="mark" d="M{_x(0):.1f} {_y(0):.1f}L{_x(10):.1f} {_y(1):.1f}"/>'
    for score in range(11):
        y = TOP + DIAGRAM + 15
        yield f'<text class="tick" x="{_x(score):.1f}" y="{y}" text-anchor="middle">{score}</text>'


def _points(scores: Sequence[Mapping[str, Any]], slot: int) -> Iterator[str]:
    style = f'style="--model:var(--m{slot})"'
    points = []
    for row in scores:
        share = row["right_share"]
        if share["value"] is None:
            continue
        x, y = _x(row["score"]), _y(share["value"])
        points.append((x, y))
        if share["low"] is not None:
            low, high = _y(share["low"]), _y(share["high"])
            yield f'<path class="whisker" {style} d="M{x:.1f} {low:.1f}V{high:.1f}M{x - 3:.1f} {low:.1f}h6'
            yield f'M{x - 3:.1f} {high:.1f}h6"/>'
    if len(points) > 1:
        yield f'<path class="model line" {style} d="M{"L".join(f"{x:.1f} {y:.1f}" for x, y in points)}"/>'
    yield from (f'<circle class="model dot" {style} cx="{x:.1f}" cy="{y:.1f}" r="4"/>' for x, y in points)


def _bars(scores: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Right answers at the bottom of each bar, wrong ones on top."""
    base = HEIGHT - 8
    most = max(row["n_right"] + row["n_wrong"] for row in scores)
    yield f'<path class="axis" d="M{LEFT} {base}H{WIDTH - RIGHT}"/>'
    if most:
        yield f'<path class="grid" d="M{LEFT} {base - BARS:.1f}H{WIDTH - RIGHT}"/>'
        yield f'<text class="tick" x="{LEFT - 5}" y="{base - BARS + 3.5:.1f}" text-anchor="end">{most:,}</text>'
    yield f'<text class="tick" x="{LEFT - 5}" y="{base + 3.5}" text-anchor="end">0</text>'
    for row in scores:
        if not row["n_right"] + row["n_wrong"]:
            continue
        right, wrong = BARS * row["n_right"] / most, BARS * row["n_wrong"] / most
        x = _x(row["score"]) - _BAR / 2
        for kind, bottom, height in (("right", base, right), ("wrong", base - right, wrong)):
            if height:
                at = f'x="{x:.1f}" y="{bottom - height:.2f}" width="{_BAR}" height="{height:.2f}"'
                yield f'<rect class="answers {kind}" {at}/>'


def _x(score: float) -> float:
    return LEFT + 14 + (WIDTH - LEFT - RIGHT - 28) * score / 10


def _y(share: float) -> float:
    return TOP + DIAGRAM * (1 - share)
