"""`corpo-rl predict`: what each estimator will do to failures, from the rewards a policy gets."""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from corpo_rl.records import RolloutLog


@click.command()
@click.argument("log", type=click.Path(exists=True, path_type=Path), required=False)
@click.option("--rewards", help="Levels and how often each comes, as LEVEL:SHARE,LEVEL:SHARE,...")
@click.option("--min-correct", type=float, required=True, help="Least reward that counts as correct.")
@click.option("--group-size", "sizes", type=click.IntRange(min=2), multiple=True, help="May be repeated.  [default: 8]")
@click.option("--curve", is_flag=True, help="Also how it changes with the success rate, and where CoRPO hands over.")
@click.option(
    "--first-steps",
    type=click.IntRange(min=1),
    metavar="N",
    help="Forecast the later steps of LOG from its first N, beside what they showed.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def predict(
    log: Path | None,
    rewards: str | None,
    min_correct: float,
    sizes: tuple[int, ...],
    curve: bool,
    first_steps: int | None,
    as_json: bool,
) -> None:
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
      corpo-rl predict runs/mine/completions --min-correct 1 --curve
      corpo-rl predict runs/mine/completions --min-correct 1 --first-steps 5
    """
    from dataclasses import asdict

    from corpo_rl.core.advantages import ESTIMATORS
    from corpo_rl.core.flaw import exact_flaw, level_distribution
    from corpo_rl.errors import UsageError
    from corpo_rl.rollouts.read import read_rollouts

    if (log is None) == (rewards is None):
        raise UsageError("expected a log or --rewards, one of the two")
    if first_steps is not None:
        if log is None or curve or sizes:
            raise UsageError("--first-steps: expected a log, without --rewards, --curve and --group-size")
        _forecast(read_rollouts([log]), log, first_steps, min_correct, as_json=as_json)
        return
    if log is not None:
        found_log = read_rollouts([log])
        rewards_N, min_correct = _as_written(found_log, min_correct)
        levels, shares = level_distribution(rewards_N)
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
    if curve:
        document["curves"] = [_curve(levels, shares, size, min_correct) for size in sizes or (8,)]
    click.echo(json.dumps(document, indent=2) if as_json else _text(document))


def _curve(
    levels: "NDArray[np.float64]", shares: "NDArray[np.float64]", size: int, min_correct: float
) -> dict[str, Any]:
    from dataclasses import asdict

    import numpy as np

    from corpo_rl.core.handover import handover, success_curve

    rates = np.linspace(0.05, 0.95, 19).round(2)
    group, floored = (
        success_curve(levels, shares, group_size=size, min_correct=min_correct, estimator=name, success_rates=rates)
        for name in ("dr_grpo", "corpo")
    )
    rows = [
        {
            "success_rate": float(rate),
            "reinforced_failure_share": plain.reinforced_failure_share,
            "r_count": plain.r_count,
            "floored_group_share": cured.floored_group_share,
            "r_count_corpo": None if math.isnan(cured.r_count) else cured.r_count,
        }
        for rate, plain, cured in zip(rates, group, floored, strict=True)
    ]
    found = handover(levels, shares, group_size=size, min_correct=min_correct)
    return {"group_size": size, "rows": rows, "handover": asdict(found)}


def _forecast(log: "RolloutLog", path: Path, first_steps: int, min_correct: float, *, as_json: bool) -> None:
    import numpy as np

    from corpo_rl.core.forecast import forecast
    from corpo_rl.errors import DataError

    if log.step_G is None:
        raise DataError(f"{path}: expected a log with training steps, found none; --first-steps needs them")
    rewards_N, min_correct = _as_written(log, min_correct)
    found = forecast(rewards_N, log.group_N, log.step_G[log.group_N], first_steps=first_steps, min_correct=min_correct)
    rows = [{key: None if math.isnan(value) else value for key, value in one._asdict().items()} for one in found]
    errors = [one.reinforced_seen - one.reinforced_foretold for one in found]
    summary = {
        "n_steps": len(found),
        "reinforced_error_mean": float(np.nanmean(errors)) if found else None,
        "reinforced_error_abs_mean": float(np.nanmean(np.abs(errors))) if found else None,
        "floored_error_abs_mean": float(np.nanmean([abs(one.floored_seen - one.floored_foretold) for one in found]))
        if found
        else None,
    }
    if as_json:
        click.echo(
            json.dumps({"first_steps": first_steps, "min_correct": min_correct, **summary, "steps": rows}, indent=2)
        )
        return
    lines = [
        f"Forecast from the first {first_steps} steps: failures over their group's mean, and groups under the floor.",
        "",
        f"{'step':>6}{'success':>10}{'pushed up: foretold':>22}{'seen':>9}{'floored: foretold':>20}{'seen':>9}",
    ]
    shown = rows if len(rows) <= 20 else [rows[place * (len(rows) - 1) // 19] for place in range(20)]
    lines += [
        f"{row['step']:>6}{_percent(row['success_rate']):>10}{_percent(row['reinforced_foretold']):>22}"
        f"{_percent(row['reinforced_seen']):>9}{_percent(row['floored_foretold']):>20}{_percent(row['floored_seen']):>9}"
        for row in shown
    ]
    lines += [
        "",
        f"Over {len(rows)} steps seen minus foretold is {_points(summary['reinforced_error_mean'])} on average "
        f"(absolute {_points(summary['reinforced_error_abs_mean'])}); floored groups are off by "
        f"{_points(summary['floored_error_abs_mean'])}.",
        "The forecast takes all prompts to be equally hard; the more they differ, the further off it is.",
    ]
    click.echo("\n".join(lines))


def _as_written(log: "RolloutLog", min_correct: float) -> "tuple[NDArray[np.float64], float]":
    """Rewards and threshold as the audit reads them: what went through float32 is the short decimal it came from."""
    from corpo_rl.core.rounding import as_decimals, threshold_as_read

    if not log.float32:
        return log.rewards_N, min_correct
    return as_decimals(log.rewards_N), threshold_as_read(min_correct)


def _points(value: float | None) -> str:
    return "n/a" if value is None else f"{100 * value:.1f} points"


def _parsed(text: str) -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
    import numpy as np

    from corpo_rl.errors import UsageError

    try:
        pairs = [tuple(float(part) for part in word.split(":")) for word in text.split(",")]
        levels, shares = zip(*pairs, strict=True)
    except ValueError:
        raise UsageError(f"--rewards: expected LEVEL:SHARE,LEVEL:SHARE,... with numbers, found {text[:60]!r}") from None
    if min(shares) < 0 or abs(sum(shares) - 1) > 1e-6:
        raise UsageError(
            f"--rewards: expected shares of at least 0 that sum to 1, found {text[:60]!r}: {sum(shares):g}"
        )
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
    for part in document.get("curves", ()):
        by_mean, by_group = part["handover"]["by_mean"], part["handover"]["by_group"]
        lines += [
            "",
            f"Groups of {part['group_size']}, as the success rate goes up and failures keep their proportions",
            f"{'success':<12}{'failures over the mean':>24}{'r_count':>10}{'floored groups':>16}"
            f"{'r_count of corpo':>18}",
        ]
        lines += [
            f"{_percent(row['success_rate']):<12}{_percent(row['reinforced_failure_share']):>24}"
            f"{_number(row['r_count']):>10}{_percent(row['floored_group_share']):>16}{_number(row['r_count_corpo']):>18}"
            for row in part["rows"]
        ]
        lines.append(
            f"CoRPO hands over to preference at a success rate of {_percent(by_group)} (half of the groups), "
            f"{_percent(by_mean)} with very large groups."
        )
    return "\n".join(lines)


def _percent(value: float | None) -> str:
    return "n/a" if value is None else f"{100 * value:.1f} %"


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.3f}"
