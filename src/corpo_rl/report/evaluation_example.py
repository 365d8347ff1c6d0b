"""A completion and what it was asked about, for the evaluation's page."""

from collections.abc import Mapping
from typing import Any, Final

from corpo_rl.report.audit_view import shown, shown_lines
from corpo_rl.report.markup import prose_html, text_html

LONGEST_SAMPLE: Final = 4000
"""Characters of a text that are shown."""


def example_html(example: Mapping[str, Any]) -> str:
    """A completion with its pair, to be opened; all of it is foreign text.

    Args:
        example: One of an evaluation's `examples`.
    """
    labels = {1: "right", 0: "wrong"}
    said = f"not parsed: {shown(example['failure'])}" if example["score_a"] is None else example["outcome"]
    scores = (
        "" if example["score_a"] is None else f"A {example['score_a']}, B {example['score_b']}; "
    )  # fmt: skip
    order = ", B shown first" if example["swapped"] else ""
    cut = ", cut at the length limit" if example["finish_reason"] == "length" else ""
    about = (
        f"{scores}A is {labels[example['label_a']]}, B is {labels[example['label_b']]}{order}{cut}; "
        f"{shown(example['split'])} {shown(example['item_id'])}"
    )
    kind = "correct" if example["outcome"] == "correct" else "wrong"
    return f"""<details class="example"><summary><b class="outcome {kind}">{text_html(said)}</b>
<span>{prose_html(about)}</span></summary>
<h4>completion</h4>{_sample(example["completion"])}
<h4>problem</h4>{_sample(example["problem"])}
<div class="pair"><div><h4>answer A, {labels[example["label_a"]]}</h4>{_sample(example["answer_a"])}</div>
<div><h4>answer B, {labels[example["label_b"]]}</h4>{_sample(example["answer_b"])}</div></div></details>"""


def _sample(text: str) -> str:
    return f'<div class="sample" dir="auto">{text_html(shown_lines(text, LONGEST_SAMPLE))}</div>'
