"""`corpo-rl selftest`: audit made-up runs whose faults are known, and check the verdicts."""

import tempfile
from pathlib import Path
from typing import Any

import click

from corpo_rl.errors import DataError

FORMATS = ("trl", "verl", "jsonl", "parquet")
"""Log formats each scenario is written in."""

EXPECTED: dict[str, dict[str, str]] = {
    "healthy-binary": {"reinforced_failures": "OK", "unsolved_groups": "OK", "rows": "OK"},
    "graded-fault": {"reinforced_failures": "WARN", "unsolved_groups": "WARN", "floor": "OK", "rows": "OK"},
    "inert-floor": {"floor": "WARN"},
    "dirty": {"reinforced_failures": "WARN", "rows": "WARN"},
}
"""Scenario -> finding -> the status it must get. In a healthy run no finding at all may be a warning."""

SILENT = ("healthy-binary",)


@click.command()
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the made-up runs.")
@click.option("--keep", type=click.Path(path_type=Path, file_okay=False), help="Keep the logs in this new folder.")
def selftest(seed: int, keep: Path | None) -> None:
    """Check on this machine that the audit says what it must of runs whose faults are known.

    Writes small runs in several log formats (a healthy binary run, a graded run that reinforces failures, a run whose
    floor is inert, a run with broken rows), audits each, and compares the findings. A healthy run must not get a
    single warning. Exit status 1 when a verdict is wrong.

    \b
    Examples:
      corpo-rl selftest
      corpo-rl selftest --seed 7 --keep logs
    """
    if keep is not None:
        if keep.exists() and any(keep.iterdir()):
            raise DataError(f"{keep}: expected a new or empty folder")
        keep.mkdir(parents=True, exist_ok=True)
        wrong = _check_all(keep, seed)
    else:
        with tempfile.TemporaryDirectory(prefix="corpo-rl-selftest-") as folder:
            wrong = _check_all(Path(folder), seed)
    if wrong:
        raise DataError(f"selftest: {len(wrong)} wrong: {'; '.join(wrong)}")


def _check_all(folder: Path, seed: int) -> list[str]:
    wrong = []
    for scenario in EXPECTED:
        for form in FORMATS:
            document = _audited(folder / f"{scenario}-{form}", scenario, form, seed)
            problems = list(_wrong(document, scenario))
            share = document["reinforced_failure_share"]["value"]
            told = "n/a" if share is None else f"{100 * share:.1f} %"
            warned = [one["id"] for one in document["findings"] if one["status"] == "WARN"]
            verdict = "wrong" if problems else "right"
            click.echo(
                f"{verdict}  {scenario:<15}{form:<9}{told:>7} of failures reinforced; warned of: "
                f"{', '.join(warned) or 'nothing'}"
            )
            wrong += [f"{scenario} in {form}: {problem}" for problem in problems]
    return wrong


def _audited(place: Path, scenario: str, form: str, seed: int) -> dict[str, Any]:
    from corpo_rl.audit.document import audit_rollouts
    from corpo_rl.demologs.simulate import SCENARIOS
    from corpo_rl.demologs.write import write_demo_log
    from corpo_rl.rollouts.read import read_with_texts

    paths = write_demo_log(place, scenario=scenario, format=form, seed=seed)
    log, read_texts = read_with_texts(paths)
    return audit_rollouts(log, min_correct=SCENARIOS[scenario].min_correct, read_texts=read_texts)


def _wrong(document: dict[str, Any], scenario: str) -> list[str]:
    found = {one["id"]: one["status"] for one in document["findings"]}
    problems = [
        f"{name} is {found.get(name, 'missing')}, expected {status}"
        for name, status in EXPECTED[scenario].items()
        if found.get(name) != status
    ]
    if scenario in SILENT:
        problems += [f"{name} warns of a healthy run" for name, status in found.items() if status == "WARN"]
    return problems
