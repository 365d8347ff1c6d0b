"""Time the --help of every command beside a bare interpreter and beside one that imports NumPy, in turn."""

import subprocess
import sys
import time
from statistics import median

import click

from corpo_rl.cli.main import COMMANDS as SUBCOMMANDS

COMMANDS = {
    "bare interpreter": [sys.executable, "-c", "pass"],
    "import numpy": [sys.executable, "-c", "import numpy"],
    "import corpo_rl": [sys.executable, "-c", "import corpo_rl"],
} | {
    f"{name} --help": [sys.executable, "-m", "corpo_rl", *name.split()[1:], "--help"]
    for name in ("corpo-rl", *(f"corpo-rl {command}" for command in SUBCOMMANDS))
}


def main(rounds: int = 15) -> None:
    """Print the median seconds of each, and whether any --help misses the aim."""
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(rounds):
        for name, command in COMMANDS.items():
            started = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            seconds[name].append(time.perf_counter() - started)
    for name, times in seconds.items():
        click.echo(f"{name:<28}{median(times):.3f} s   ({min(times):.3f} to {max(times):.3f}, {rounds} runs)")
    slowest = max(median(times) for name, times in seconds.items() if name.endswith("--help"))
    click.echo(f"slowest --help: {slowest:.3f} s (aim: within 0.2 s)")


if __name__ == "__main__":
    main()
