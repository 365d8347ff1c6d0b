"""`corpo-rl pairs label`: candidates -> sandboxed tests -> labels."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from corpo_rl.pairs.candidates import Candidates
    from corpo_rl.pairs.labels import Engine, LabelledSet

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument("candidates", type=_FILE, nargs=-1, required=True)
@click.option("--problems", type=_FILE, required=True, help="The problems with their tests.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), required=True, help="Labels file to write.")
@click.option("--form", help="Form of the problems file.  [default: told by its fields]")
@click.option("--source", help="Who wrote answers that do not say.  [default: the file's name]")
@click.option("--allow-unknown", is_flag=True, help="Leave out answers to problems that are not in the file.")
@click.option("--workers", type=click.IntRange(min=1), help="Candidates at a time.  [default: the cores]")
@click.option(
    "--engine",
    type=click.Choice(["local", "ray"]),
    default="local",
    show_default=True,
    help="Threads here, or actors of a Ray cluster.",
)
@click.option("--ray-address", help="The Ray cluster.  [default: a local one]")
@click.option("--stop", "stops", multiple=True, help="Cut completions here; may be repeated.  [default: see docs]")
@click.option("--no-cut", is_flag=True, help="Do not cut completions at stop sequences.")
@click.option("--timeout", type=click.FloatRange(min=0.1), default=3.0, show_default=True, help="Seconds a candidate.")
@click.option("--memory", type=click.IntRange(min=64), default=1024, show_default=True, help="Megabytes a candidate.")
@click.option("--python", type=click.Path(path_type=Path), help="Interpreter of candidates.  [default: the system's]")
@click.option("--no-references", is_flag=True, help="Do not judge the problems' own solutions.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@click.option("--force", is_flag=True, help="Replace a file that exists, and begin anew.")
def label(
    candidates: tuple[Path, ...],
    problems: Path,
    out: Path,
    form: str | None,
    source: str | None,
    allow_unknown: bool,
    workers: int | None,
    engine: str,
    ray_address: str | None,
    stops: tuple[str, ...],
    no_cut: bool,
    timeout: float,
    memory: int,
    python: Path | None,
    no_references: bool,
    as_json: bool,
    force: bool,
) -> None:
    """Judge CANDIDATES, answers to the problems, by the problems' own tests.

    Programs run under bubblewrap, without network, home or writable files; the
    verdict is made outside their process. A candidate that could not be judged
    (a module that is not there, a result that is no plain value) has no label.
    Interrupted, the same command goes on where it was.

    \b
    Examples:
      corpo-rl pairs label samples.jsonl --problems HumanEval.jsonl.gz \\
        --out labels.jsonl
      corpo-rl pairs label a.jsonl b.jsonl --problems apps.parquet \\
        --out labels.jsonl --engine ray --workers 64 --ray-address auto
    """
    from functools import partial

    from tqdm import tqdm

    from corpo_rl.errors import UsageError
    from corpo_rl.pairs.candidates import read_candidates
    from corpo_rl.pairs.cut import STOPS
    from corpo_rl.pairs.engines import judge_locally, judge_on_ray
    from corpo_rl.pairs.files import file_sha256
    from corpo_rl.pairs.labels import label_candidates
    from corpo_rl.pairs.problems import read_usable_problems
    from corpo_rl.records import Limits
    from corpo_rl.sandbox.boxes import SYSTEM_PYTHON
    from corpo_rl.sandbox.judge import available_cores

    if no_cut and stops:
        raise UsageError("--stop and --no-cut contradict each other; give one of them")
    if ray_address and engine != "ray":
        raise UsageError("--ray-address is for --engine ray")
    limits = Limits(seconds=timeout, memory_mb=memory)
    interpreter = python or SYSTEM_PYTHON
    usable = read_usable_problems(problems, form=form)
    found = read_candidates(candidates, problems=usable.problems, source=source, allow_unknown=allow_unknown)
    n_workers = workers or available_cores()
    chosen: Engine = partial(judge_locally, limits=limits, workers=n_workers, python=interpreter)
    if engine == "ray":
        chosen = partial(judge_on_ray, limits=limits, workers=n_workers, address=ray_address, python=interpreter)
    started = time.monotonic()
    with tqdm(desc="judging", unit=" programs", smoothing=0.05) as bar:

        def show(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        labelled = label_candidates(
            usable.problems,
            found.candidates,
            engine=chosen,
            out=out,
            stops=() if no_cut else stops or STOPS,
            settings={
                "problems": file_sha256(problems),
                "candidates": [file_sha256(path) for path in candidates],
                "source": source,
                "timeout": timeout,
                "memory": memory,
                "python": str(interpreter),
            },
            check_references=not no_references,
            force=force,
            on_verdict=show,
        )
    summary = _summary(labelled, found, left_out=usable.left_out, seconds=time.monotonic() - started)
    click.echo(json.dumps(summary, indent=2) if as_json else _text(summary, out))


def _summary(
    labelled: "LabelledSet", found: "Candidates", *, left_out: Sequence[str], seconds: float
) -> dict[str, Any]:
    from collections import Counter, defaultdict

    from corpo_rl.records import STATUSES

    rows = labelled.rows
    statuses = Counter(row.status for row in rows)
    judged = [row for row in rows if row.correct is not None]
    right_of: defaultdict[str, list[bool]] = defaultdict(list)
    for row in judged:
        right_of[row.problem_id].append(bool(row.correct))
    reasons = Counter(row.detail.partition(": ")[2] or row.detail for row in rows if row.correct is None)
    return {
        "n_candidates": len(rows),
        "n_programs": labelled.n_judged,
        "n_resumed": labelled.n_resumed,
        "statuses": {status: statuses[status] for status in STATUSES if statuses[status]},
        "n_judged": len(judged),
        "correct_share": sum(bool(row.correct) for row in judged) / len(judged) if judged else None,
        "mean_tests_passed_share": sum(row.passed / row.total for row in judged) / len(judged) if judged else None,
        "n_problems": len(right_of),
        "n_problems_none_right": sum(not any(right) for right in right_of.values()),
        "n_problems_some_right": sum(any(right) and not all(right) for right in right_of.values()),
        "n_problems_all_right": sum(all(right) for right in right_of.values()),
        "not_judged_because": dict(reasons.most_common(8)),
        "n_references": labelled.n_references,
        "failed_references": {
            problem_id: f"{verdict.status}: {verdict.detail}"
            for problem_id, verdict in sorted(labelled.failed_references.items())
        },
        "n_empty": found.n_empty,
        "n_unknown": found.n_unknown,
        "problems_left_out": list(left_out),
        "seconds": round(seconds, 2),
        "programs_per_second": round((labelled.n_judged - labelled.n_resumed) / seconds, 1) if seconds else None,
    }


def _text(summary: dict[str, Any], out: Path) -> str:
    def share(value: float | None) -> str:
        return "-" if value is None else f"{value:.1%}"

    lines = [
        f"{summary['n_candidates']:,} candidates, {summary['n_programs']:,} different programs"
        + (f", {summary['n_resumed']:,} of them judged before" if summary["n_resumed"] else "")
        + f", {summary['seconds']:.0f} s ({summary['programs_per_second']:,} programs a second).",
        "  ".join(f"{status} {count:,}" for status, count in summary["statuses"].items()),
        f"Right: {share(summary['correct_share'])} of {summary['n_judged']:,} judged; tests passed on average: "
        f"{share(summary['mean_tests_passed_share'])}.",
        f"Problems: {summary['n_problems_none_right']:,} with no right answer, {summary['n_problems_some_right']:,} with "
        f"right and wrong ones, {summary['n_problems_all_right']:,} with right ones only.",
    ]
    if summary["not_judged_because"]:
        reasons = "; ".join(f"{reason} ({count:,})" for reason, count in summary["not_judged_because"].items())
        lines.append(f"Could not be judged, and have no label: {reasons}")
    if summary["n_empty"] or summary["n_unknown"]:
        lines.append(f"Left out: {summary['n_empty']:,} empty answers, {summary['n_unknown']:,} to unknown problems.")
    if summary["problems_left_out"]:
        lines.append(
            f"{len(summary['problems_left_out']):,} problems cannot be judged: {summary['problems_left_out'][0]}"
        )
    failed = summary["failed_references"]
    if failed:
        names = "; ".join(f"{name} ({why})" for name, why in list(failed.items())[:5])
        lines.append(
            f"WARNING: of {summary['n_references']:,} problems' own solutions {len(failed):,} are not judged right, so that "
            f"labels of these problems are not to be trusted: {names}"
        )
    elif summary["n_references"]:
        lines.append(f"All {summary['n_references']:,} solutions that ship with the problems are judged right.")
    return "\n".join([*lines, str(out)])
