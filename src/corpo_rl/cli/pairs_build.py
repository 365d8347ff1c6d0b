"""`corpo-rl pairs build`: labelled answers -> leak-free, balanced verifier pairs with their data card."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(short_help="Pairs of right and wrong answers, from labels.")
@click.argument("labels", type=_FILE, nargs=-1, required=True)
@click.option("--problems", type=_FILE, multiple=True, help="Problems of the labels; may be repeated.")
@click.option("--other", type=_FILE, multiple=True, help="Labels of another domain; may be repeated.")
@click.option("--other-problems", type=_FILE, multiple=True, help="Their problems.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder to write.")
@click.option("--domain", default="code", show_default=True, help="Name of the domain.")
@click.option("--other-name", default="math", show_default=True, help="Name of the other domain.")
@click.option("--train", type=click.IntRange(min=0), default=4890, show_default=True, help="Training pairs.")
@click.option("--in-domain", type=click.IntRange(min=0), default=196, show_default=True, help="One right, one wrong.")
@click.option("--ood", type=click.IntRange(min=0), default=98, show_default=True, help="Both right or both wrong.")
@click.option("--other-domain", type=click.IntRange(min=0), default=157, show_default=True, help="Of --other.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Decides every draw.")
@click.option("--max-chars", type=click.IntRange(min=1), help="Most characters of a problem and its two answers.")
@click.option("--pairs-per-problem", type=click.IntRange(min=1), help="Most pairs of a problem.")
@click.option(
    "--pairs-per-answer", type=click.IntRange(min=1), default=10, show_default=True, help="Most pairs of an answer."
)
@click.option(
    "--held-out",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.3,
    show_default=True,
    help="Share of the problems that validation may take.",
)
@click.option(
    "--similarity",
    type=click.FloatRange(0.3, 1),
    default=0.5,
    show_default=True,
    help="Problems this alike stay together.",
)
@click.option("--allow-unknown", is_flag=True, help="Leave out labels of problems that are not there.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON instead of text.")
@click.option("--force", is_flag=True, help="Replace a set of pairs that exists.")
@click.pass_context
def build(
    context: click.Context,
    labels: tuple[Path, ...],
    problems: tuple[Path, ...],
    other: tuple[Path, ...],
    other_problems: tuple[Path, ...],
    out: Path,
    domain: str,
    other_name: str,
    train: int,
    in_domain: int,
    ood: int,
    other_domain: int,
    seed: int,
    max_chars: int | None,
    pairs_per_problem: int | None,
    pairs_per_answer: int,
    held_out: float,
    similarity: float,
    allow_unknown: bool,
    as_json: bool,
    force: bool,
) -> None:
    """Build verifier pairs from LABELS: files of `pairs label`, with their
    problems, or the labelled model answers published with GSM8K.

    Sizes are the paper's; where the data allow fewer pairs, it says so. No
    problem is in two splits, nor one much like it. Position, length and source
    of an answer do not tell whether it is right; what is left of that is
    measured. OUT gets pairs.jsonl, a folder for `datasets.load_from_disk`, the
    figures in numbers.json, and a data card.

    \b
    Examples:
      corpo-rl pairs build labels.jsonl --problems HumanEval.jsonl.gz \\
        --other example_model_solutions.jsonl --out my-pairs
      corpo-rl pairs build a.jsonl b.jsonl --problems apps.jsonl \\
        --train 1000 --in-domain 100 --ood 100 --out code-pairs
    """
    import json

    import numpy as np

    from corpo_rl.errors import MissingExtraError, UsageError

    try:
        from tqdm import tqdm
    except ImportError as error:
        raise MissingExtraError("building pairs", "pairs") from error
    from corpo_rl._version import __version__
    from corpo_rl.pairs.build import build_pairs
    from corpo_rl.pairs.figures import pair_figures
    from corpo_rl.pairs.files import file_sha256
    from corpo_rl.pairs.publish import check_folder, write_pair_set
    from corpo_rl.pairs.rated_files import read_rated
    from corpo_rl.pairs.splits import PairSizes

    check_folder(out, force=force)
    if domain == other_name or not domain.strip() or not other_name.strip():
        raise UsageError(
            f"--domain and --other-name: expected two different names, found {domain!r} and {other_name!r}"
        )
    read = {domain: read_rated(labels, problems=problems, allow_unknown=allow_unknown)}
    if other:
        read[other_name] = read_rated(other, problems=other_problems, allow_unknown=allow_unknown)
    elif other_problems:
        raise UsageError("--other-problems is for the labels of --other; give these too")
    n_problems = sum(len({problem.problem for problem in part.problems}) for part in read.values())
    # shown on a terminal only: it takes seconds, but minutes with a hundred answers to each of thousands of problems
    with tqdm(total=n_problems, desc="comparing answers", unit=" problems", leave=False, disable=None) as bar:
        built = build_pairs(
            read[domain].problems,
            domain=domain,
            sizes=PairSizes(train=train, in_domain=in_domain, ood=ood, other_domain=other_domain),
            rng=np.random.default_rng(seed),
            other=read[other_name].problems if other else (),
            other_domain=other_name,
            similarity=similarity,
            held_out=held_out,
            pairs_per_problem=pairs_per_problem,
            uses_per_answer=pairs_per_answer,
            max_chars=max_chars,
            on_problem=bar.update,
        )
    roles = {"labels": labels, "problems": problems, "other": other, "other problems": other_problems}
    numbers = pair_figures(
        built,
        read=read,
        inputs=[
            {"role": role, "file": path.name, "sha256": file_sha256(path)}
            for role, paths in roles.items()
            for path in paths
        ],
        settings={
            "seed": seed,
            "held_out": held_out,
            "similarity": similarity,
            "pairs_per_problem": pairs_per_problem,
            "pairs_per_answer": pairs_per_answer,
            "max_chars": max_chars,
        },
        command=_command(context),
        version=__version__,
    )
    write_pair_set(out, built.items, numbers=numbers, force=force)
    click.echo(json.dumps(numbers, indent=2) if as_json else _text(numbers) + f"\n{out}")


def _command(context: click.Context) -> str:
    """The command that makes the same pairs, files by their names alone, what is not said otherwise left out."""
    words = ["corpo-rl", "pairs", "build"]
    for parameter in context.command.params:
        value = context.params[str(parameter.name)]
        if parameter.name in ("out", "force", "as_json") or value in (None, False, ()) or value == parameter.default:
            continue
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(parameter, click.Option):
                words.append(parameter.opts[0])
            if one is not True:
                words.append(one.name if isinstance(one, Path) else str(one))
    return shlex.join([*words, "--out", "pairs"])


def _text(numbers: Mapping[str, Any]) -> str:
    lines = [f"{'split':<13}{'pairs':>7}{'asked':>7}{'problems':>10}{'answers':>9}   labels"]
    for name, split in numbers["splits"].items():
        labels = split["labels"]
        if name == "ood":
            shown = f"both right in {labels['both_right']:,}, both wrong in {labels['both_wrong']:,}"
        else:
            shown = f"A right in {labels['a_right']:,}, B in {labels['b_right']:,}"
        lines.append(
            f"{name:<13}{split['n_pairs']:>7,}{split['asked']:>7,}{split['n_problems']:>10,}{split['n_answers']:>9,}   "
            + (shown if split["n_pairs"] else "-")
        )
    lines += [
        f"{name}: {split['n_pairs']:,} of {split['asked']:,} pairs, since {split['why_fewer']}."
        for name, split in numbers["splits"].items()
        if split["why_fewer"]
    ]
    for name, domain in numbers["domains"].items():
        lines.append(
            f"{name}: {domain['n_problems']:,} problems, {domain['n_right_and_wrong']:,} with right and wrong answers, "
            f"{domain['n_right_only']:,} with right ones only, {domain['n_wrong_only']:,} with wrong ones only."
        )
        left_out = [f"{count:,} {reason}" for reason, count in domain["left_out"].items() if count]
        lines += [f"  answers left out: {'; '.join(left_out)}."] if left_out else []
        lines += [f"  {note}" for note in domain["notes"]]
    lines.append(f"Near-duplicate problems: {len(numbers['clusters']):,} clusters, each kept in one split.")
    lines.append("Labels told without reading (by chance: where it lies 19 times in 20):")
    for name, split in numbers["splits"].items():
        for shortcut in split["shortcuts"]:
            score, low, high = (
                "n/a" if shortcut[key] is None else f"{shortcut[key]:.3f}"
                for key in ("score", "chance_low", "chance_high")
            )
            lines.append(f"  {name:<13}{shortcut['rule']:<46}{score}   {low} to {high}")
    return "\n".join(lines)
