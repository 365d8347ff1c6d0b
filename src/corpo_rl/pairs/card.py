"""The data card of a set of verifier pairs, every figure of it from the set's own numbers."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_KINDS = {
    "train": "one right, one wrong",
    "in_domain": "one right, one wrong",
    "ood": "both right or both wrong",
    "other_domain": "one right, one wrong, another domain",
}
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
"""The hub's names of sizes; the last one is also used for more."""

_CLUSTERS_SHOWN = 20


def data_card(numbers: Mapping[str, Any]) -> str:
    """A README.md for the hub, with YAML front matter.

    Args:
        numbers: As `corpo_rl.pairs.figures.pair_figures` gives them.
    """
    splits: Mapping[str, Any] = numbers["splits"]
    parts = [
        _front_matter(splits),
        [
            "# Verifier pairs",
            "",
            "A problem and two answers, each labelled right (1) or wrong (0): to train and to judge a verifier that "
            "scores both.",
            f"Made by corpo-rl {numbers['version']}. Every figure here is counted from the pairs and is also in "
            "`numbers.json`.",
            "",
            "```console",
            f"$ {_plain(numbers['command'])}",
            "```",
        ],
        ["## Splits", "", *_splits(splits)],
        ["## Problems and answers", "", *_domains(numbers)],
        ["## What could be scored without reading", "", *_shortcuts(splits)],
        [
            "## Fields",
            "",
            "`problem`, `answer_a`, `answer_b`; `label_a`, `label_b` (1 right, 0 wrong); `domain`, `split`, `item_id`. "
            "For checks, not for a verifier's eyes: `source_a`, `source_b` (who wrote the answers), `problem_id`, "
            "`answer_id_a`, `answer_id_b` (places in the input), `status_a`, `status_b` (what the tests said).",
            "",
            "`pairs.jsonl` holds all splits, one pair a line. `dataset/` is for `datasets.load_from_disk`.",
        ],
        [
            "## Limits",
            "",
            "- An answer of code is right when the problem's own tests pass, and no more: weak tests let wrong "
            "programs through, and code that is refused for its form alone is wrong.",
            "- An answer of math is right when its final answer is, whatever its steps are.",
            "- Answers that could not be judged are not here, which may favour some kinds of answers.",
            "- Pairs of one problem are alike: figures on them need intervals by problem.",
            "- Balance holds of the first pairs of a split, however many, and of no other selection.",
            "- The texts are under the licences of the inputs.",
        ],
        ["## Inputs", "", *_inputs(numbers)],
    ]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _front_matter(splits: Mapping[str, Any]) -> list[str]:
    total = sum(split["n_pairs"] for split in splits.values())
    size = next((name for most, name in _SIZES if total < most), _SIZES[-1][1])
    files = [
        line
        for name, split in splits.items()
        if split["n_pairs"]
        for line in (f"  - split: {name}", f"    path: dataset/{name}/*.arrow")
    ]
    return [
        "---",
        "pretty_name: Verifier pairs",
        "task_categories:",
        "- text-classification",
        "tags:",
        "- verifier",
        "- corpo-rl",
        "size_categories:",
        f"- {size}",
        "configs:",
        "- config_name: default",
        "  data_files:",
        *files,
        "---",
    ]


def _splits(splits: Mapping[str, Any]) -> Iterator[str]:
    yield from _table(
        ("split", "answers", "pairs", "asked for", "problems", "pairs of one", "different answers", "labels"),
        [
            (
                f"`{name}`",
                _KINDS[name],
                _count(split["n_pairs"]),
                "all" if split["asked"] is None else _count(split["asked"]),
                _count(split["n_problems"]),
                _range(split["pairs_of_a_problem"]),
                f"{split['n_answers']:,}, each in {_range(split['pairs_of_an_answer'])}",
                _labels(name, split["labels"]),
            )
            for name, split in splits.items()
        ],
    )
    for name, split in splits.items():
        if split["why_fewer"]:
            yield ""
            yield f"`{name}` has {split['n_pairs']:,} of the {split['asked']:,} pairs asked for: {split['why_fewer']}."
    yield ""
    yield from _table(
        ("split", "source", "right answers", "wrong answers"),
        [
            (f"`{name}`", _code(source), _count(counts["right"]), _count(counts["wrong"]))
            for name, split in splits.items()
            for source, counts in split["sources"].items()
        ],
    )
    yield ""
    yield from _table(
        ("split", "characters of right answers", "of wrong answers", "what the tests said of wrong answers"),
        [
            (
                f"`{name}`",
                _range(split["characters"]["right"]),
                _range(split["characters"]["wrong"]),
                ", ".join(f"{status} {count:,}" for status, count in split["status_of_wrong"].items()) or "not known",
            )
            for name, split in splits.items()
            if split["n_pairs"]
        ],
    )
    yield ""
    yield "Ranges are least to most, with the median in brackets."


def _domains(numbers: Mapping[str, Any]) -> Iterator[str]:
    for name, domain in numbers["domains"].items():
        yield (
            f"- {_code(name)}: {domain['n_problems']:,} problems, of which {domain['n_right_and_wrong']:,} have right "
            f"and wrong answers, {domain['n_right_only']:,} right ones only, {domain['n_wrong_only']:,} wrong ones "
            f"only, {domain['n_unanswered']:,} none; {domain['n_right_answers']:,} different right answers, "
            f"{domain['n_wrong_answers']:,} wrong ones."
        )
        reasons = [f"{count:,} {_plain(reason)}" for reason, count in domain["left_out"].items() if count]
        yield f"  Answers left out: {'; '.join(reasons) or 'none'}."
        for note in domain["notes"]:
            yield f"  {_plain(note)}"
    settings, clusters = numbers["settings"], numbers["clusters"]
    yield ""
    yield (
        "No problem is in two splits. Problems of which at least "
        f"{settings['similarity']:g} of all runs of five characters are shared (case, punctuation and spacing aside) "
        f"are kept together: {len(clusters):,} such clusters of two or more were found"
        + (
            f", and {numbers['n_overlapping_problems']:,} problems of the other domain left out for one."
            if numbers["n_overlapping_problems"]
            else "."
        )
    )
    for cluster in clusters[:_CLUSTERS_SHOWN]:
        ids = ", ".join(_code(problem["problem_id"]) for problem in cluster["problems"])
        yield f"- {_code(cluster['problems'][0]['domain'])}: {ids} (similarity {cluster['similarity']:.2f})"
    if len(clusters) > _CLUSTERS_SHOWN:
        yield f"- and {len(clusters) - _CLUSTERS_SHOWN:,} more, in `numbers.json`"


def _shortcuts(splits: Mapping[str, Any]) -> Iterator[str]:
    yield (
        "How well a rule that looks at one thing alone tells the labels: the share of pairs, or the AUROC. In the last "
        "column the same figure for labels drawn at random: its mean, and where it lies 19 times in 20. A rule within "
        "that range tells nothing that could be told from chance."
    )
    yield ""
    yield from _table(
        ("split", "rule", "score", "by chance"),
        [
            (
                f"`{name}`",
                shortcut["rule"],
                _figure(shortcut["score"]),
                f"{_figure(shortcut['chance'])} ({_figure(shortcut['chance_low'])} to "
                f"{_figure(shortcut['chance_high'])})",
            )
            for name, split in splits.items()
            for shortcut in split["shortcuts"]
        ],
    )


def _inputs(numbers: Mapping[str, Any]) -> Iterator[str]:
    for one in numbers["inputs"]:
        yield f"- {one['role']}: {_code(one['file'])}, SHA-256 `{one['sha256']}`"
    yield "- " + ", ".join(
        f"{name.replace('_', ' ')} {'none' if value is None else value}" for name, value in numbers["settings"].items()
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


def _labels(name: str, labels: Mapping[str, int]) -> str:
    if name == "ood":
        return f"{labels['both_right']:,} both right, {labels['both_wrong']:,} both wrong"
    return f"{labels['a_right']:,} A right, {labels['b_right']:,} B right"


def _count(value: int) -> str:
    return f"{value:,}"


def _range(spread: Mapping[str, float | None]) -> str:
    if spread["least"] is None:
        return "-"
    return f"{spread['least']:,} to {spread['most']:,} ({spread['median']:,g})"


def _figure(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.3f}"


def _plain(text: str) -> str:
    return " ".join(text.split())


def _code(text: str) -> str:
    """Names of sources, problems and files may hold anything."""
    return "`" + _plain(text).replace("`", "'") + "`"
