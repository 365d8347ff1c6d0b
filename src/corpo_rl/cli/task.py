"""`corpo-rl task`: what a task asks and pays, and whether it proves itself, without a model."""

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from corpo_rl.cli.task_options import pairs_file

if TYPE_CHECKING:
    from corpo_rl.tasks.base import Task
    from corpo_rl.tasks.proof import Example, Proof

SCHEMA = "corpo-rl.task/1"


@click.command()
@click.argument("task")
@click.option(
    "--data", "--pairs", type=click.Path(path_type=Path), help="File of pairs (or its folder), rubric or code items."
)
@click.option("--reward", help="Reward of mini and pairs: min_margin or brier.  [default: min_margin]")
@click.option("--min-correct", type=float, help="Least reward that counts as correct.  [default: the task's]")
@click.option(
    "--items",
    "n_items",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    help="Prove on the first so many items of each split; 0 for all.",
)
@click.option(
    "--show", type=click.IntRange(min=0), default=1, show_default=True, help="Show so many items with their examples."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def task(
    task: str,
    data: Path | None,
    reward: str | None,
    min_correct: float | None,
    n_items: int,
    show: int,
    as_json: bool,
) -> None:
    """Show what TASK asks and pays, and let it prove itself without a model.

    TASK is what `compare --task` takes: mini, pairs, rubric, code, puzzles:NAME[,NAME...], or FILE.py:NAME of your own
    class. Its known right answers have to be correct, its wrong ones and junk not; no prompt may be in two splits.
    Exit status 1 where that does not hold.

    \b
    Examples:
      corpo-rl task mini
      corpo-rl task puzzles:mini_sudoku,word_sorting --show 2
      corpo-rl task rubric --data graded-texts.jsonl --items 0
      corpo-rl task my_task.py:MyTask --json
    """
    from corpo_rl.experiment.inputs import task_from_spec
    from corpo_rl.report.form import json_text
    from corpo_rl.report.task_text import task_text
    from corpo_rl.tasks.proof import prove

    if data is not None and task == "pairs":
        data = pairs_file(data)
    loaded = task_from_spec(task, data=data, reward=reward)
    if min_correct is not None:
        loaded.min_correct = min_correct
    proof = prove(loaded, n_items=n_items or None)
    document = _document(task, loaded, proof, show=show)
    click.echo(json_text(document, "task", nan_as_null=True) if as_json else task_text(document), nl=False)
    if not proof.holds:
        sys.exit(1)


def _document(spec: str, task: "Task", proof: "Proof", *, show: int) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "task": spec,
        "name": str(task.name),
        "min_correct": _number(task.min_correct),
        "unparsable_reward": _number(task.unparsable_reward),
        "splits": {split: {"items": count, "proved": proof.n_proved[split]} for split, count in proof.n_items.items()},
        "shown": _shown(task, proof, show),
        "rewards": [{"reward": reward, "count": count} for reward, count in proof.rewards.items()],
        "failures": dict(proof.failures),
        "n_right": proof.n_right,
        "n_wrong": proof.n_wrong,
        "n_junk": proof.n_junk,
        "holds": proof.holds,
        "violations": [{"kind": found.kind, "first": found.first, "count": found.count} for found in proof.violations],
        "notes": list(proof.notes),
    }


def _shown(task: "Task", proof: "Proof", show: int) -> list[dict[str, Any]]:
    """The first items that were proved, train first, with all that was graded of each."""
    of_item: dict[tuple[str, int], list[Example]] = {}
    for example in proof.examples:
        of_item.setdefault((example.split, example.place), []).append(example)
    return [
        {
            "split": split,
            "place": place,
            "prompt": str(task.prompt(task.items(split)[place])),
            "examples": [_example(example) for example in examples],
        }
        for (split, place), examples in list(of_item.items())[:show]
    ]


def _example(example: "Example") -> dict[str, Any]:
    graded = example.graded
    return {
        "text": example.text if len(example.text) <= 2000 else example.text[:2000] + " ...",
        "junk": example.junk,
        "right": example.right,
        "reward": None if graded is None else _number(graded.reward),
        "correct": None if graded is None else graded.correct,
        "failure": example.error or None if graded is None else graded.failure,
        "measures": {} if graded is None else {name: _number(value) for name, value in graded.measures.items()},
    }


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
