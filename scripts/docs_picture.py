"""The picture of the fault, `docs/_static/fault.svg`: eight graded failures, and what two estimators make of them.

    python scripts/docs_picture.py        # writes it again; a test compares

Every number in it is computed by `corpo_rl`, and the same numbers give the same bytes.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpo_rl import corpo_advantages, grpo_advantages

OUT = Path(__file__).parent.parent / "docs" / "_static" / "fault.svg"

PASSED = (0, 1, 2, 2, 4, 5, 6, 8)
"""Tests that each of eight programs for one problem passes, of TESTS."""
TESTS = 10
MIN_CORRECT = 1.0

WIDTH, HEIGHT = 520, 584
LEFT, RIGHT = 24, 496
UP, DOWN, INK, FAINT = "#b3400a", "#2f6f9f", "#1f2328", "#5f656d"


def picture() -> str:
    """The picture as SVG text."""
    rewards, prompts = [n / TESTS for n in PASSED], [0] * len(PASSED)
    grpo = grpo_advantages(rewards, prompts)
    corpo = corpo_advantages(rewards, prompts, min_correct=MIN_CORRECT)
    mean = np.mean(PASSED)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="t d" '
        'font-family="system-ui, sans-serif" font-size="15">',
        '<title id="t">Eight failed programs under GRPO and under CoRPO</title>',
        f'<desc id="d">{description(grpo, corpo)}</desc>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="10" fill="#fbfbfa" stroke="#d9dbde"/>',
        text(LEFT, 34, "Eight programs for one problem.", size=17, weight=600),
        text(LEFT, 56, f"Correct is to pass all {TESTS} tests. None does."),
        *panel(grpo, top=92, title="GRPO", rule=f"compares with the group's mean, {mean:g} tests"),
        *panel(corpo, top=318, title="CoRPO", rule="compares with what is correct"),
        *(text(middle(i), 545, str(n), anchor="middle", weight=600) for i, n in enumerate(PASSED)),
        text(WIDTH / 2, 566, "tests passed by each program; the bars are its advantage", anchor="middle", color=FAINT),
    ]
    return "\n".join([*lines, "</svg>"]) + "\n"


def description(grpo: NDArray[np.float64], corpo: NDArray[np.float64]) -> str:
    """What the picture shows, for those who do not see it."""
    return (
        f"Of {len(PASSED)} programs none passes all {TESTS} tests. GRPO gives {np.sum(grpo > 0)} of these failures a "
        f"positive advantage, CoRPO {np.sum(corpo > 0) or 'none'}."
    )


def panel(advantages: NDArray[np.float64], *, top: float, title: str, rule: str) -> list[str]:
    """Bars of the advantages, up from a line and down from it, under a title."""
    n_up = int(np.sum(advantages > 0))
    said = f"{n_up} of {len(advantages)} failures are pushed up" if n_up else "no failure is pushed up"
    lines = [
        text(LEFT, top + 14, title, size=17, weight=600),
        text(LEFT + 78, top + 14, rule, color=FAINT),
        text(LEFT, top + 38, said, color=UP if n_up else DOWN, weight=600),
    ]
    high, low = max(advantages.max(), 0.0), min(advantages.min(), 0.0)
    scale = 108 / (high - low)
    zero = top + 72 + high * scale
    for i, advantage in enumerate(advantages):
        y, tall = (zero - advantage * scale, advantage * scale) if advantage > 0 else (zero, -advantage * scale)
        color = UP if advantage > 0 else DOWN
        lines.append(f'<rect x="{middle(i) - 18:.1f}" y="{y:.1f}" width="36" height="{tall:.1f}" fill="{color}"/>')
        beside = y - 5 if advantage > 0 else y + tall + 15
        lines.append(text(middle(i), beside, f"{advantage:+.2f}".replace("-", "\u2212"), anchor="middle", size=13))
    lines.append(f'<line x1="{LEFT}" x2="{RIGHT}" y1="{zero:.1f}" y2="{zero:.1f}" stroke="{INK}"/>')
    return lines


def middle(i: int) -> float:
    """Where the bar of rollout i stands."""
    step = (RIGHT - LEFT) / len(PASSED)
    return LEFT + step * (i + 0.5)


def text(
    x: float, y: float, words: str, *, anchor: str = "start", size: int = 15, weight: int = 400, color: str = INK
) -> str:
    """A line of text."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" '
        f'fill="{color}">{words}</text>'
    )


if __name__ == "__main__":
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(picture(), encoding="utf-8")
