"""Text and marks as HTML. Every text that comes from results passes through here on its way to the page."""

import json
import re
from html import escape

from corpo_rl.report.charts import Style

MINUS = "\N{MINUS SIGN}"

MARKERS = (
    '<circle cx="17" cy="7" r="4"/>',
    '<rect x="13" y="3" width="8" height="8"/>',
    '<path d="M17 2 22 7 17 12 12 7Z"/>',
    '<path d="M17 2 22 11H12Z"/>',
    '<path d="M17 12 12 3H22Z"/>',
    '<path d="M15.5 2.5h3v3h3v3h-3v3h-3v-3h-3v-3h3Z"/>',
    '<path d="m14 2.5 3 3 3-3 1.8 1.8-3 3 3 3-1.8 1.8-3-3-3 3-1.8-1.8 3-3-3-3Z"/>',
    '<path d="m17 1.5 1.6 3.6 3.9.4-2.9 2.6.8 3.9-3.4-2-3.4 2 .8-3.9-2.9-2.6 3.9-.4Z"/>',
)
"""Plotly's marker of each palette slot, for the keys, around (17, 7)."""


def text_html(text: object) -> str:
    """Any text, escaped for an element or a quoted attribute."""
    return escape(str(text))


def prose_html(text: str) -> str:
    """A sentence, with true minus signs and no line end between a number and its percent sign."""
    return re.sub(r"(?<=\d) %", "\N{NO-BREAK SPACE}%", re.sub(r"(?<=[ (])-(?=\d)", MINUS, text_html(text)))


def minus(text: str) -> str:
    """Figures with true minus signs."""
    return text.replace("-", MINUS)


def class_html(name: str) -> str:
    """A class attribute, nothing for no class; the name is ours."""
    return f' class="{name}"' if name else ""


def mark_html(look: Style) -> str:
    """A method's line, dash and marker as a small picture."""
    dash = "" if look.dash == "solid" else f' stroke-dasharray="{look.dash.replace("px", "")}"'
    return (
        f'<svg width="34" height="14" viewBox="0 0 34 14" aria-hidden="true" style="color:{look.color}">'
        f'<path d="M0 7H34" stroke="currentColor" stroke-width="2"{dash}/>'
        f'<g fill="currentColor">{MARKERS[look.slot]}</g></svg>'
    )


def script_json(data: object) -> str:
    r"""JSON that cannot end the script element it stands in, nor start a comment or a line.

    Example:
        >>> script_json({"name": "</script>"})
        '{"name": "\\u003c/script\\u003e"}'
    """
    text = json.dumps(data, ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
