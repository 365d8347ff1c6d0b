"""Time `corpo-rl --help` beside a bare interpreter and beside one that imports NumPy, in turn."""

import subprocess
import sys
import time
from statistics import median

import click

COMMANDS = {
    "bare interpreter": [sys.executable, "-c", "pass"],
    "import numpy": [sys.executable, "-c", "import numpy"],
    "corpo-rl --help": [sys.executable, "-m", "corpo_rl", "--help"],
}


def main(rounds: int = 15) -> None:
    """Print the median seconds of each and the ratio of ours to the import of NumPy."""
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(rounds):
        for name, command in COMMANDS.items():
            started = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            seconds[name].append(time.perf_counter() - started)
    for name, times in seconds.items():
        click.echo(f"{name:<18}{median(times):.3f} s   ({min(times):.3f} to {max(times):.3f}, {rounds} runs)")
    ratio = median(seconds["corpo-rl --help"]) / median(seconds["import numpy"])
    click.echo(f"ours over import numpy: {ratio:.2f} (aim: ours within 0.3 s)")


if __name__ == "__main__":
    main()
