"""`corpo-rl predict`: what each estimator will do to failures, from the rewards a policy gets."""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@click.command()
@click.argument("log", type=click.Path(exists=True, path_type=Path), required=False)
@click.option("--rewards", help="Levels and how often each comes, as LEVEL:SHARE,LEVEL:SHARE,...")
@click.option("--min-correct", type=float, required=True, help="Least reward that counts as correct.")
@click.option("--group-size", "sizes", type=click.IntRange(min=2), multiple=True, help="May be repeated.  [default: 8]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def predict(log: Path | None, rewards: str | None, min_correct: float, sizes: tuple[int, ...], as_json: bool) -> None:
    """Predict what each estimator does to failures, exactly and without a run.

    From the rewards of a LOG that `corpo-rl audit` reads, or from --rewards:
    how often a failed rollout gets an advantage above 0, rollouts pushed up
    over those pushed down (r_count), groups under the floor, and groups in
    which nothing is pushed up. Every prompt is taken to have this same
    distribution, so that a log of easy and hard prompts is only described on
    average.

    \b
    Examples:
      corpo-rl predict --rewards=-1:0.8,-0.4:0.15,0.5:0.03,1:0.02 \\
        --min-correct 0 --group-size 4
      corpo-rl predict runs/mine/completions --min-correct 1
    """
    from dataclasses import asdict

    from corpo_rl.core.advantages import ESTIMATORS
    from corpo_rl.core.flaw import exact_flaw, level_distribution
    from corpo_rl.errors import UsageError
    from corpo_rl.rollouts.read import read_rollouts

    if (log is None) == (rewards is None):
        raise UsageError("expected a log or --rewards, one of the two")
    if log is not None:
        levels, shares = level_distribution(read_rollouts([log]).rewards_N)
    else:
        levels, shares = _parsed(str(rewards))
    found: list[dict[str, Any]] = []
    for size in sizes or (8,):
        for name in ESTIMATORS:
            flaw = exact_flaw(levels, shares, group_size=size, min_correct=min_correct, estimator=name)
            row = {key: value for key, value in asdict(flaw).items() if not key.endswith("_K")}
            found.append(
                {
                    "group_size": size,
                    "estimator": name,
                    **{key: None if math.isnan(value) else value for key, value in row.items()},
                    "advantages": [None if math.isnan(value) else value for value in flaw.advantage_K.tolist()],
                    "gradient": [None if math.isnan(value) else value for value in flaw.gradient_K.tolist()],
                }
            )
    document = {"levels": levels.tolist(), "shares": shares.tolist(), "min_correct": min_correct, "predictions": found}
    click.echo(json.dumps(document, indent=2) if as_json else _text(document))


def _parsed(text: str) -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
    import numpy as np

    from corpo_rl.errors import UsageError

    try:
        pairs = [tuple(float(part) for part in word.split(":")) for word in text.split(",")]
        levels, shares = zip(*pairs, strict=True)
    except ValueError:
        raise UsageError(f"--rewards: expected LEVEL:SHARE,LEVEL:SHARE,... with numbers, found {text[:60]!r}") from None
    return np.array(levels), np.array(shares)


def _text(document: dict[str, Any]) -> str:
    failed = sum(
        share
        for level, share in zip(document["levels"], document["shares"], strict=True)
        if level < document["min_correct"]
    )
    lines = [
        f"{len(document['levels'])} reward levels; {100 * failed:.1f} % of rollouts fail (reward under "
        f"{document['min_correct']:g}).",
    ]
    size = None
    for row in document["predictions"]:
        if row["group_size"] != size:
            size = row["group_size"]
            lines += [
                "",
                f"Groups of {size}",
                f"{'estimator':<12}{'failures pushed up':>20}{'r_count':>10}{'floored groups':>16}{'nothing up':>12}",
            ]
        lines.append(
            f"{row['estimator']:<12}{_percent(row['reinforced_failure_share']):>20}{_number(row['r_count']):>10}"
            f"{_percent(row['floored_group_share']):>16}{_percent(row['negative_only_share']):>12}"
        )
    return "\n".join(lines)


def _percent(value: float | None) -> str:
    return "n/a" if value is None else f"{100 * value:.1f} %"


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.3f}"
