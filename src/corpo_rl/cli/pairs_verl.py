"""`corpo-rl pairs to-verl`: a pairs file as the data that verl trains on."""

from pathlib import Path

import click

from corpo_rl.cli.task_options import pairs_file


@click.command("to-verl", short_help="Pairs as verl's parquet files.")
@click.argument("file", metavar="PAIRS", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="Folder for <split>.parquet."
)
@click.option("--force", is_flag=True, help="Replace files that exist.")
def to_verl(file: Path, out: Path, force: bool) -> None:
    """Write PAIRS, a file or the folder of `pairs build`, as verl's parquet files.

    The prompt asks for two scores, as everywhere in corpo-rl; the labels are kept
    apart from it. The settings that make verl use data and reward are printed.

    \b
    Example:
      corpo-rl pairs to-verl pairs.jsonl --out data/verl
    """
    from corpo_rl.pairs.files import read_pairs
    from corpo_rl.pairs.verl_data import write_verl_data
    from corpo_rl.records import TRAIN
    from corpo_rl.tasks.verifier import MIN_CORRECT

    items = read_pairs(pairs_file(file))
    files = write_verl_data(items, out, force=force)
    for split, path in files.items():
        click.echo(f"{sum(item.split == split for item in items):>7} pairs   {path}")
    click.echo("Settings for python -m verl.trainer.main_ppo:")
    if TRAIN in files:
        click.echo(f"  data.train_files={files[TRAIN].resolve()}")
    held_out = ",".join(str(path.resolve()) for split, path in files.items() if split != TRAIN)
    if held_out:
        click.echo(f"  data.val_files=[{held_out}]")
    # verl would cut the beginning off a longer prompt, and with it the problem
    click.echo("  data.filter_overlong_prompts=True")
    click.echo("  reward.custom_reward_function.path=pkg://corpo_rl.training.verl_reward")
    click.echo(f"  algorithm.adv_estimator=corpo +algorithm.corpo_min_correct={MIN_CORRECT}")
