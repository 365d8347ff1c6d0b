"""`corpo-rl pairs`: pairs files for the verifier task from published, labelled answers."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from corpo_rl.cli.pairs_build import build
from corpo_rl.cli.pairs_label import label
from corpo_rl.cli.pairs_sample import sample
from corpo_rl.cli.pairs_verl import to_verl

if TYPE_CHECKING:
    from corpo_rl.pairs.built import BuiltPairs
    from corpo_rl.pairs.gsm8k import Gsm8kAnswers

DEFAULT_NAME = "pairs.jsonl"


@click.group()
def pairs() -> None:
    """Build pairs files to train and judge a verifier on.

    From answers with published labels: gsm8k. From problems with tests or known
    answers: sample, label, build.

    \b
    Example:
      corpo-rl pairs gsm8k example_model_solutions.jsonl --out pairs.jsonl
    """


@pairs.command(short_help="Pairs from GSM8K's labelled model answers.")
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
    help="Most pairs from one question.",
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

    No question is in two splits. Within a split the right answer is A, and is the longer one, in half the pairs, and
    every model wrote as many right as wrong answers. Calculator marks such as <<3+4=7>> are removed. `pairs build`
    makes whole data sets, of several domains and with near-duplicate problems kept together.

    \b
    Examples:
      corpo-rl pairs gsm8k example_model_solutions.jsonl --out pairs.jsonl
      corpo-rl pairs gsm8k answers.jsonl --out short.jsonl --max-chars 500
    """
    import numpy as np

    from corpo_rl.pairs.build import build_pairs
    from corpo_rl.pairs.files import write_pairs
    from corpo_rl.pairs.gsm8k import read_gsm8k_answers
    from corpo_rl.pairs.splits import PairSizes

    target = out / DEFAULT_NAME if out.is_dir() or not out.suffix else out
    answers = read_gsm8k_answers(file)
    built = build_pairs(
        answers.problems,
        domain="gsm8k",
        sizes=PairSizes(train=train, in_domain=in_domain, ood=ood),
        rng=np.random.default_rng(seed),
        similarity=1,  # the same words only: near duplicates need a library that this command does without
        pairs_per_problem=pairs_per_question,
        max_chars=max_chars,
    )
    write_pairs(target, built.items, force=force)
    click.echo(_summary(answers, built))
    click.echo(str(target))


def _summary(answers: "Gsm8kAnswers", built: "BuiltPairs") -> str:
    from corpo_rl.pairs.figures import split_figures

    lines = [f"{'split':<13}{'pairs':>7}{'asked':>7}{'questions':>11}   right answer is A"]
    numbers = {split: split_figures(built.split(split)) for split in ("train", "in_domain", "ood")}
    for split, found in numbers.items():
        labels, asked = found["labels"], built.parts[split].asked
        first = f"{labels['a_right']} of {found['n_pairs']}"
        if split == "ood":
            first = f"- ({labels['both_right']} both right, rest both wrong)"
        lines.append(
            f"{split:<13}{found['n_pairs']:>7}{'all' if asked is None else asked:>7}{found['n_problems']:>11}   {first}"
        )
    (domain,) = built.domains
    lines += [
        f"{'other_domain':<13}{0:>7}   left empty: these answers are all of one domain",
        f"Left out: {answers.n_unfinished} answers without a final 'A:' line; {domain.left_out.copies} that repeat "
        f"another of their model; {domain.left_out.contradictory} labelled right here and wrong there.",
        f"Of {domain.n_problems} questions {domain.n_mixed} have right and wrong answers.",
        f"Calculator marks removed from {answers.n_marked} answers.",
        "Labels of train told without reading (guessing: 0.500; by chance 19 times in 20):",
    ]
    for shortcut in numbers["train"]["shortcuts"]:
        low, high = shortcut["chance_low"], shortcut["chance_high"]
        lines.append(f"  {shortcut['rule']:<46}{shortcut['score']:.3f}   {low:.3f} to {high:.3f}")
    return "\n".join(lines)


pairs.add_command(build)
pairs.add_command(label)
pairs.add_command(sample)
pairs.add_command(to_verl)
