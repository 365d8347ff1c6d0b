"""The command `corpo-rl`. Each command's file is imported when it is called, so that `--help` is instant."""

import importlib
import sys

import click

from corpo_rl._version import __version__
from corpo_rl.errors import CorpoError

COMMANDS = {
    "audit": "Show what a run reinforced, from the logs it wrote.",
    "compare": "Train a verifier under several estimators and compare them.",
    "curate": "Keep the prompts whose success rate lies in a band.",
    "demo-log": "Write a small made-up run to try the audit on.",
    "evaluate": "Measure what verifiers do on pairs, and how far to trust their scores.",
    "doctor": "Say whether CoRPO is on, here and in a run.",
    "pairs": "Build verifier pairs from problems and labelled answers.",
    "predict": "Compute what each estimator will do to failures.",
    "rank": "Order answers to a problem by a verifier's pairwise scores.",
    "selftest": "Check the audit on made-up runs whose faults are known.",
    "sweep": "Search settings, and say how sure the best one is.",
    "task": "Show what a task asks and pays, and let it prove itself.",
    "warmstart": "Rebuild the embedded base policy from a seed.",
}


class _Commands(click.Group):
    """Knows its commands by name, and imports one only when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        command: click.Command = getattr(importlib.import_module(f"corpo_rl.cli.{name}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="corpo-rl")
def cli() -> None:
    """RL post-training with graded rewards: audit a run, train with CoRPO and its kin, compare them.

    \b
    Examples:
      corpo-rl audit runs/my-run/completions --min-correct 1
      corpo-rl compare                  the embedded experiment, minutes on a CPU
      corpo-rl compare --methods grpo,corpo --seeds 0,1,2
      corpo-rl pairs gsm8k answers.jsonl --out pairs.jsonl
      corpo-rl compare --scale small --pairs pairs.jsonl --steps 3
    """


def main() -> None:
    """Run the command line: an error the user can act on is one line on stderr, anything else keeps its traceback."""
    try:
        cli(standalone_mode=False)
    except CorpoError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    except click.exceptions.Abort:
        click.echo("interrupted", err=True)
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except BrokenPipeError:  # the reader of our output has had enough
        sys.stderr.close()
        sys.exit(0)
