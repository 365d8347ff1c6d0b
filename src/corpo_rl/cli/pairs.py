"""`corpo-rl pairs`: pairs files for the verifier task from published, labelled answers."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from corpo_rl.cli.pairs_label import label
from corpo_rl.cli.pairs_sample import sample
from corpo_rl.cli.pairs_verl import to_verl

if TYPE_CHECKING:
    from corpo_rl.pairs.build import BuiltPairs, PairSizes
    from corpo_rl.pairs.gsm8k import Gsm8kAnswers

DEFAULT_NAME = "pairs.jsonl"


@click.group()
def pairs() -> None:
    """Build pairs files to train and judge a verifier on.

    \b
    Example:
      corpo-rl pairs gsm8k example_model_solutions.jsonl --out pairs.jsonl
    """


@pairs.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, help=f"File to write, or a folder for {DEFAULT_NAME}."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Decides every draw.")
@click.option("--train", type=click.IntRange(min=1), help="Training pairs.  [default: as many as remain]")
@click.option(
    "--in-domain",
    type=click.IntRange(min=0),
    default=196,
    show_default=True,
    help="Validation pairs of one right and one wrong answer (the default is the paper's size).",
)
@click.option(
    "--ood",
    type=click.IntRange(min=0),
    default=98,
    show_default=True,
    help="Validation pairs that are both right or both wrong (the default is the paper's size).",
)
@click.option(
    "--pairs-per-question",
    type=click.IntRange(min=1),
    default=4,
    show_default=True,
    help="Most training pairs from one question.",
)
@click.option("--max-chars", type=click.IntRange(min=1), help="Most characters of a question and its two answers.")
@click.option("--force", is_flag=True, help="Replace a file that exists.")
def gsm8k(
    file: Path,
    out: Path,
    seed: int,
    train: int | None,
    in_domain: int,
    ood: int,
    pairs_per_question: int,
    max_chars: int | None,
    force: bool,
) -> None:
    """Build verifier pairs from FILE, the labelled model answers published with GSM8K.

    No question is in two splits. Within a split the right answer is A in half the pairs, and every model wrote as many
    right as wrong answers. Calculator marks such as <<3+4=7>> are removed from the answers.

    \b
    Examples:
      corpo-rl pairs gsm8k example_model_solutions.jsonl --out pairs.jsonl
      corpo-rl pairs gsm8k answers.jsonl --out short.jsonl --max-chars 500
    """
    import numpy as np

    from corpo_rl.pairs.build import PairSizes, build_pairs
    from corpo_rl.pairs.files import write_pairs
    from corpo_rl.pairs.gsm8k import read_gsm8k_answers

    target = out / DEFAULT_NAME if out.is_dir() or not out.suffix else out
    answers = read_gsm8k_answers(file)
    sizes = PairSizes(train=train, in_domain=in_domain, ood=ood)
    built = build_pairs(
        answers.problems,
        domain="gsm8k",
        sizes=sizes,
        pairs_per_problem=pairs_per_question,
        max_chars=max_chars,
        rng=np.random.default_rng(seed),
    )
    write_pairs(target, built.items, force=force)
    click.echo(_summary(answers, built, sizes))
    click.echo(str(target))


def _summary(answers: "Gsm8kAnswers", built: "BuiltPairs", sizes: "PairSizes") -> str:
    from corpo_rl.pairs.shortcuts import find_shortcuts

    asked = {"train": sizes.train, "in_domain": sizes.in_domain, "ood": sizes.ood}
    lines = [f"{'split':<13}{'pairs':>7}{'asked':>7}{'questions':>11}   right answer is A"]
    for split, wanted in asked.items():
        items = built.split(split)
        n_questions = len({item.problem for item in items})
        if split == "ood":
            first = f"- ({sum(item.label_a for item in items)} both right, rest both wrong)"
        else:
            first = f"{sum(item.label_a for item in items)} of {len(items)}"
        lines.append(f"{split:<13}{len(items):>7}{'all' if wanted is None else wanted:>7}{n_questions:>11}   {first}")
    shortcuts = find_shortcuts(built.split("train"))
    lines += [
        f"{'other_domain':<13}{0:>7}   left empty: these answers are all of one domain",
        f"Left out: {answers.n_unfinished} answers without a final 'A:' line; {built.n_identical} pairs of identical "
        f"answers; {built.n_repeated} repeated pairs; {built.n_too_long} pairs over --max-chars.",
        f"Of {built.n_usable} pairs with one right and one wrong answer, balancing and splitting keep "
        f"{len(built.split('train')) + len(built.split('in_domain'))}.",
        f"Calculator marks removed from {answers.n_marked} answers.",
        f"Right answer told without reading, in train (guessing: 0.500): length {shortcuts.length:.3f} "
        f"({'longer' if shortcuts.longer else 'shorter'} is right), position {shortcuts.position:.3f}, "
        f"source {shortcuts.source:.3f}.",
    ]
    return "\n".join(lines)


pairs.add_command(label)
pairs.add_command(sample)
pairs.add_command(to_verl)
