"""What a task is and whether it proves itself, for a terminal: at most 80 columns wide."""

from collections.abc import Iterator, Mapping
from typing import Any

from corpo_rl.records import EVALUATION_SPLITS, TRAIN
from corpo_rl.report.text import WIDTH, cut_to, padded, wrapped
from corpo_rl.report.view import plain

PROMPT_LINES = 16
"""Most lines of a prompt that are shown; the JSON has all of it."""

LEVELS = 12
"""Most reward levels that are listed."""


def task_text(document: Mapping[str, Any]) -> str:
    """Threshold, items by split, the items shown with what their examples got, the rewards met, and the proof.

    Args:
        document: What `corpo-rl task --json` prints, as loaded from JSON.
    """
    lines = wrapped(
        f"{document['name']}: correct is a reward of {document['min_correct']:g} or more; what does not parse gets "
        f"{document['unparsable_reward']:g}"
        if document["min_correct"] is not None and document["unparsable_reward"] is not None
        else str(document["name"]),
        indent="",
    )
    lines += ["", f"{'split':<14}{'items':>9}{'proved':>9}", "-" * 32]
    for split in (TRAIN, *EVALUATION_SPLITS):
        counts = document["splits"][split]
        lines.append(f"{split:<14}{counts['items']:>9,}{counts['proved']:>9,}")
    for shown in document["shown"]:
        lines += ["", *_item_lines(shown)]
    lines += ["", *_reward_lines(document), "", *_proof_lines(document)]
    return "\n".join(lines) + "\n"


def _item_lines(shown: Mapping[str, Any]) -> Iterator[str]:
    yield f"{shown['split']} {shown['place']}, its prompt:"
    prompt = shown["prompt"].split("\n")
    for line in prompt[:PROMPT_LINES]:
        yield cut_to(f"  | {plain(line)}", WIDTH).rstrip()
    if len(prompt) > PROMPT_LINES:
        yield f"    and {len(prompt) - PROMPT_LINES:,} more lines"
    yield ""
    yield f"{'known to be':<12}{'reward':>9}  completion"
    for example in shown["examples"]:
        known = "junk" if example["junk"] else "right" if example["right"] else "wrong"
        reward = "n/a" if example["reward"] is None else f"{example['reward']:g}"[:9]
        text = example["junk"] or example["text"].replace("\n", " / ")
        failure = f" ({example['failure']})" if example["failure"] else ""
        yield cut_to(f"{padded(known, 12)}{reward:>9}  {plain(text)}{failure}", WIDTH)


def _reward_lines(document: Mapping[str, Any]) -> Iterator[str]:
    rewards = document["rewards"]
    if not rewards:
        yield "No completion was graded."
        return
    shown = [f"{level['reward']:g} ({level['count']:,})" for level in rewards]
    if len(shown) > LEVELS:
        left_out = len(shown) - LEVELS
        shown = [*shown[: LEVELS // 2], f"{left_out:,} more", *shown[-LEVELS // 2 :]]
    yield from wrapped(f"rewards met: {', '.join(shown)}", indent="")
    if document["failures"]:
        by_count = sorted(document["failures"].items(), key=lambda failure: (-failure[1], failure[0]))
        kinds = (f"{kind} ({count:,})" for kind, count in by_count)
        yield from wrapped(f"parse failures met: {', '.join(kinds)}", indent="")


def _proof_lines(document: Mapping[str, Any]) -> Iterator[str]:
    counts = f"{document['n_right']:,} right, {document['n_wrong']:,} wrong and {document['n_junk']:,} junk completions"
    if document["holds"]:
        yield from wrapped(f"The proof holds: {counts} got what they should.", indent="")
    else:
        yield from wrapped(f"The proof does not hold, over {counts}:", indent="")
    for violation in document["violations"]:
        yield from wrapped(f"{violation['kind']}, {violation['count']:,} x. {violation['first']}", indent="- ")
    for note in document["notes"]:
        yield from wrapped(note, indent="  note: ")
