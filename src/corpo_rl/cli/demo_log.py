"""`corpo-rl demo-log`: a small made-up run as a framework would have logged it, to try the audit on."""

from pathlib import Path

import click

SCENARIOS = ("healthy-binary", "graded-fault", "inert-floor", "dirty")
FORMATS = (
    "trl", "trl-chat", "csv", "jsonl", "parquet", "verl", "verl-legacy", "open_instruct", "tinker", "verifiers",
    "atropos", "nemo_gym", "areal", "ms_swift", "prime_rl",
)  # fmt: skip


@click.command(name="demo-log")
@click.argument("out", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--scenario",
    type=click.Choice(SCENARIOS),
    default="graded-fault",
    show_default=True,
    help="A healthy run, one that reinforces failures, one whose floor is inert, or one with broken rows.",
)
@click.option(
    "--format-out",
    type=click.Choice(FORMATS),
    metavar="NAME",
    default="trl",
    show_default=True,
    help=f"Format of the log: {', '.join(FORMATS)}.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Decides every draw.")
@click.option("--steps", type=click.IntRange(min=1), default=40, show_default=True, help="Steps of 8 groups of 8.")
@click.option("--force", is_flag=True, help="Replace the folder.")
def demo_log(out: Path, scenario: str, format_out: str, seed: int, steps: int, force: bool) -> None:
    """Write a small made-up run into the folder OUT, in the form in which a framework logs.

    Prints what was written, and the command that audits it.

    \b
    Examples:
      corpo-rl demo-log demo
      corpo-rl demo-log demo --scenario inert-floor --format-out verl
      corpo-rl demo-log demo --scenario dirty --format-out jsonl --seed 3 --force
    """
    from corpo_rl.demologs.simulate import SCENARIOS as KINDS
    from corpo_rl.demologs.write import write_demo_log

    paths = write_demo_log(out, scenario=scenario, format=format_out, seed=seed, n_steps=steps, force=force)
    kind = KINDS[scenario]
    n = len(paths)
    click.echo(f"{scenario}: {kind.summary}")
    click.echo(f"{n} file{'s' * (n != 1)} in {out} (the first: {paths[0].relative_to(out)})")
    label = " --correct-column acc" if format_out == "verl-legacy" else ""
    click.echo(f"next: corpo-rl audit {out} --min-correct {kind.min_correct:g}{label}")
