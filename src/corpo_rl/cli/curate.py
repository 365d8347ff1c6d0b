"""`corpo-rl curate`: the prompts whose success rate in a run's logs lies in a band."""

import json
from pathlib import Path
from typing import Any

import click

from corpo_rl.cli.auditing import command_line, judged_by_component, read_options, reading_options, write_out
from corpo_rl.errors import UsageError

LEVEL = 0.95
"""Of the intervals."""

_OF_THE_AUDIT = ("advantage_column", "length_column", "completion_column", "estimator", "claimed")
"""Options of reading that say nothing here."""


@click.command()
@click.argument("logs", nargs=-1, required=True, type=click.Path(path_type=Path))
@reading_options
@click.option("--band", metavar="LOW,HIGH", required=True, help="Success rates to keep, both ends included: 0.2,0.8.")
@click.option(
    "--min-rollouts",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    help="With fewer scorable ones a prompt is uncertain.",
)
@click.option(
    "--uncertain",
    type=click.Choice(["keep", "drop"]),
    default="keep",
    show_default=True,
    help="What becomes of those, and of rows of a data set that the log does not know.",
)
@click.option("--last-steps", type=click.IntRange(min=1), help="Look at so many training steps, from the last.")
@click.option("--steps", metavar="FIRST,LAST", help="Look at these training steps, both included.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="List every prompt here: JSON lines.")
@click.option(
    "--filter-dataset", type=click.Path(path_type=Path, dir_okay=False), help="Training set: JSON lines or parquet."
)
@click.option(
    "--out-dataset", type=click.Path(path_type=Path, dir_okay=False), help="Its rows that are kept, as they are."
)
@click.option(
    "--dataset-column",
    help="Its column with the prompt or the prompt's id; a dot goes into nested ones.  [default: the log's column of "
    "ids, else prompt]",
)
@click.option("--force", is_flag=True, help="Replace the files of --out and --out-dataset.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def curate(
    logs: tuple[Path, ...],
    band: str,
    min_rollouts: int,
    uncertain: str,
    last_steps: int | None,
    steps: str | None,
    out: Path | None,
    filter_dataset: Path | None,
    out_dataset: Path | None,
    dataset_column: str | None,
    force: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Keep the prompts whose success rate in LOGS lies in a band.

    LOGS are read as `corpo-rl audit` reads them. A prompt that is always or never answered correctly gives a group-mean
    baseline over 0/1 rewards nothing to learn, so training sets are cut to a band of success rates, often about
    0.2,0.8. With graded rewards CoRPO does learn from groups that all failed: what the band drops of them is said.

    \b
    Examples:
      corpo-rl curate my-run/completions --min-correct 1 --band 0.2,0.8
      corpo-rl curate rollouts/ --min-correct 1 --band 0.2,0.8 --last-steps 50
      corpo-rl curate rollouts/ --min-correct 1 --band 0.05,0.95 \\
          --filter-dataset train.parquet --out-dataset kept.parquet
    """
    ends, span = _pair("--band", band), _span(steps)
    if last_steps is not None and span is not None:
        raise UsageError("--last-steps and --steps: expected one of the two")
    if (filter_dataset is None) != (out_dataset is None) or (dataset_column and filter_dataset is None):
        raise UsageError("--filter-dataset and --out-dataset: expected both, the file to read and the file to write")
    for path in (out, out_dataset):
        if path is not None and path.exists() and not force:
            raise UsageError(f"{path}: is there already; pass --force to replace it")

    from corpo_rl.curation.datasets import check_out, open_training_set, write_kept
    from corpo_rl.curation.document import curation_document, dataset_figures, kept_rows
    from corpo_rl.curation.prompts import prompt_names
    from corpo_rl.curation.rates import chosen_groups, judge_band, prompt_rates
    from corpo_rl.report.curation_text import curation_json, curation_text
    from corpo_rl.rollouts.read import read_rollouts

    data = None
    if filter_dataset is not None and out_dataset is not None:
        data = open_training_set(filter_dataset)
        check_out(data, out_dataset)
    reading = read_options(options | dict.fromkeys(_OF_THE_AUDIT))
    log = read_rollouts(logs, reading)
    if options["correct_component"]:
        log = judged_by_component(log, options)
    chosen_G = chosen_groups(log, last_steps=last_steps, steps=span)
    rates = prompt_rates(log, min_correct=options["min_correct"], chosen_G=chosen_G, level=LEVEL)
    verdicts = judge_band(rates, band=ends, min_rollouts=min_rollouts, keep_uncertain=uncertain == "keep")
    names = prompt_names(logs, reading, log, rates.first_row_P.tolist())

    filtered = None
    if data is not None and out_dataset is not None:
        match = _matched(data, names, dataset_column)
        kept = kept_rows(match, verdicts, keep_uncertain=uncertain == "keep")
        write_kept(data, kept, out_dataset)
        click.echo(f"wrote {out_dataset}", err=True)
        filtered = dataset_figures(match, kept, path=str(data.path), out=str(out_dataset))
    document = curation_document(
        log,
        rates,
        verdicts,
        names,
        settings={
            "band": ends,
            "min_rollouts": min_rollouts,
            "uncertain": uncertain,
            "min_correct": options["min_correct"],
            "level": LEVEL,
        },
        chosen_G=chosen_G,
        dataset=filtered,
        command=command_line(),
    )
    if out is not None:
        listed = "".join(json.dumps(row) + "\n" for row in document["prompts"])
        write_out(listed, out, force=force)
    click.echo(curation_json(document) if as_json else curation_text(document), nl=False)


curate.params = [option for option in curate.params if option.name not in _OF_THE_AUDIT]


def _matched(data: Any, names: Any, column: str | None) -> Any:
    """Rows of the data set with the prompts they are."""
    from corpo_rl.curation.datasets import column_values
    from corpo_rl.curation.matching import match_rows

    if column is None:
        column = names.id_column if names.id_column in data.columns else "prompt"
    return match_rows(names, column_values(data, column), column=column)


def _pair(option: str, text: str) -> tuple[float, float]:
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise UsageError(
            f"{option}: expected two numbers with a comma between them, as 0.2,0.8, got {text!r}"
        ) from None
    return low, high


def _span(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    try:
        first, last = (int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"--steps: expected two whole numbers, as 100,200, got {text!r}") from None
    if first > last:
        raise UsageError(f"--steps: expected the first step before the last, got {text!r}")
    return first, last
