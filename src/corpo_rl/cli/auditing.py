"""What the audit commands share: the options that say how a log is read, and the way from paths to a document."""

import math
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from corpo_rl.errors import DataError, UsageError

if TYPE_CHECKING:
    from corpo_rl.records import RolloutLog
    from corpo_rl.rollouts.options import ReadOptions

ESTIMATORS = ("grpo", "dr_grpo", "rloo", "static", "corpo", "loo_corpo")
"""Those of `corpo_rl.core.advantages`, which would need NumPy to be imported for a help text; a test compares them."""

FORMATS = (
    "trl", "verl", "open_instruct", "tinker", "verifiers", "atropos", "nemo_gym", "areal", "ms_swift", "prime_rl",
    "nemo_rl", "slime", "group_lists", "table",
)  # fmt: skip
"""Those of `corpo_rl.rollouts.detect`; a test compares them."""

BIG = 50_000_000
"""Bytes of logs from which reading shows a progress bar."""

_Command = TypeVar("_Command", bound=Callable[..., Any])

_READING = (
    click.option("--min-correct", type=float, help="Least reward that counts as correct. Never guessed."),
    click.option(
        "--format-in",
        type=click.Choice(FORMATS),
        metavar="NAME",
        help=f"Log format: {', '.join(FORMATS)}.  [default: detected, and said]",
    ),
    click.option(
        "--reward-column", "reward_columns", multiple=True, help="Reward column; repeat it to add several up."
    ),
    click.option("--reward-weights", help="Their weights: 1,0.2 or correctness=1,format=0.2."),
    click.option("--group-columns", help="Columns that together name a group, with commas between them."),
    click.option(
        "--group-size", type=click.IntRange(min=1), help="Rollouts of a group, where they are consecutive rows."
    ),
    click.option("--step-column", help="Column with the training step."),
    click.option("--correct-column", help="Column that says whether a rollout is correct (0/1, true/false)."),
    click.option(
        "--correct-component",
        metavar="NAME=LEAST",
        help="Of several rewards the one that says what is correct, and its least value.",
    ),
    click.option("--advantage-column", help="Column with the advantage the run used."),
    click.option("--length-column", help="Column with the completion's length in tokens."),
    click.option("--prompt-column", help="Column with the prompt: text, messages or an id."),
    click.option("--completion-column", help="Column with the completion, for the examples."),
    click.option("--split-column", help="Column that tells training rows from evaluation rows."),
    click.option("--split", default="train", show_default=True, help="Value of that column whose rows are read."),
    click.option(
        "--unscorable",
        type=click.Choice(["exclude", "refuse"]),
        default="exclude",
        show_default=True,
        help="Rollouts without a usable reward: leave them out and count them, or refuse the log.",
    ),
    click.option(
        "--estimator",
        type=click.Choice(ESTIMATORS),
        default="grpo",
        show_default=True,
        help="Recompute advantages with this one where the log holds none.",
    ),
    click.option("--claimed", type=click.Choice(ESTIMATORS), help="Estimator the run is said to have used; checked."),
)


_OUTPUT = (
    click.option(
        "--format",
        "form",
        type=click.Choice(["text", "md", "json", "html"]),
        default="text",
        show_default=True,
        help="Form of the report.",
    ),
    click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Write it to this file."),
    click.option("--force", is_flag=True, help="Replace the file of --out."),
)


def reading_options(command: _Command) -> _Command:
    """Add the options that say how a log is read and judged."""
    for option in reversed(_READING):
        command = option(command)
    return command


def output_options(command: _Command) -> _Command:
    """Add the options that say in which form a report is written, and where."""
    for option in reversed(_OUTPUT):
        command = option(command)
    return command


def read_options(options: dict[str, Any]) -> "ReadOptions":
    """The reader's options from those of the command line.

    Raises:
        UsageError: The weights are not numbers.
    """
    from corpo_rl.rollouts.options import ReadOptions

    group_columns = options["group_columns"]
    return ReadOptions(
        format=options["format_in"],
        reward_columns=tuple(options["reward_columns"]),
        reward_weights=_weights(options["reward_weights"]),
        group_columns=tuple(part.strip() for part in group_columns.split(",")) if group_columns else (),
        group_size=options["group_size"],
        step_column=options["step_column"],
        correct_column=options["correct_column"],
        advantage_column=options["advantage_column"],
        length_column=options["length_column"],
        prompt_column=options["prompt_column"],
        completion_column=options["completion_column"],
        split_column=options["split_column"],
        split=options["split"],
        unscorable=options["unscorable"],
        progress=_progress() if sys.stderr.isatty() else None,
    )


def audited(
    paths: Sequence[Path], options: dict[str, Any], *, with_texts: bool = True
) -> "tuple[dict[str, Any], RolloutLog]":
    """Read the logs and audit them: the document, and the log it is about."""
    from corpo_rl.audit.document import audit_rollouts
    from corpo_rl.rollouts.read import read_with_texts

    log, read_texts = read_with_texts(paths, read_options(options))
    if options["correct_component"]:
        log = judged_by_component(log, options)
    document = audit_rollouts(
        log,
        min_correct=options["min_correct"],
        estimator=options["estimator"],
        claimed=options["claimed"],
        command=command_line(),
        read_texts=read_texts if with_texts else None,
    )
    return document, log


def command_line() -> str:
    """How this command was called."""
    return shlex.join(["corpo-rl", *sys.argv[1:]])


def write_out(text: str, out: Path | None, *, force: bool) -> None:
    """Print the text, or write it to a file at once or not at all.

    Raises:
        UsageError: The file is there already, or its folder is not.
        DataError: The file cannot be written.
    """
    if out is None:
        click.echo(text, nl=not text.endswith("\n"))
        return
    if out.exists() and not force:
        raise UsageError(f"{out}: is there already; pass --force to replace it")
    if not out.parent.is_dir():
        raise UsageError(f"{out.parent}: no such folder")
    part = out.with_name(f".{out.name}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(out)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise DataError(f"{out}: cannot be written ({error.strerror})") from error
    click.echo(f"wrote {out}", err=True)


def judged_by_component(log: "RolloutLog", options: dict[str, Any]) -> "RolloutLog":
    """The log with a label for each rollout from one of the rewards that are added up."""
    from dataclasses import replace

    import numpy as np

    from corpo_rl.core.rounding import as_decimals, threshold_as_read

    if options["min_correct"] is not None or options["correct_column"]:
        raise UsageError(
            "--correct-component: says what is correct, as --min-correct and --correct-column do; pass one"
        )
    name, _, least = options["correct_component"].rpartition("=")
    threshold = _least(least) if name in log.components else None
    if threshold is None:
        raise UsageError(
            f"--correct-component: expected one of the rewards added up and its least value, such as "
            f"{next(iter(log.components), 'correct')}=0.5, got {options['correct_component']!r} "
            f"(rewards: {', '.join(log.components) or 'one only'})"
        )
    reward_N = log.components[name]
    if log.float32:
        reward_N, threshold = as_decimals(reward_N), threshold_as_read(threshold)
    labels_N = np.where(np.isnan(reward_N), np.nan, reward_N >= threshold)
    return replace(log, labels_N=labels_N, label_column=f"{name} >= {threshold:g}")


def _least(text: str) -> float | None:
    try:
        return float(text) if math.isfinite(float(text)) else None
    except ValueError:
        return None


def _weights(text: str | None) -> dict[str, float] | tuple[float, ...] | None:
    if not text:
        return None
    parts = [part.strip() for part in text.split(",")]
    try:
        if any("=" in part for part in parts):
            return {name: float(value) for name, value in (part.rsplit("=", 1) for part in parts)}
        return tuple(float(part) for part in parts)
    except ValueError:
        raise UsageError(
            f"--reward-weights: expected numbers (1,0.2) or names with numbers (correctness=1,format=0.2), got {text!r}"
        ) from None


def _progress() -> Callable[[int, int], None]:
    """A bar on stderr, for logs that take a while."""
    bar: Any = None
    seen = 0

    def show(done: int, total: int) -> None:
        nonlocal bar, seen
        if total < BIG:
            return
        if bar is None:
            bar = click.progressbar(length=total, label="reading", file=sys.stderr)
            bar.__enter__()
        bar.update(done - seen)
        seen = done
        if done >= total:
            bar.__exit__(None, None, None)

    return show
