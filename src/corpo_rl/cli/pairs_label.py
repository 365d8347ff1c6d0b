"""`corpo-rl pairs label`: candidates -> sandboxed tests -> labels."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from corpo_rl.pairs.labels import Engine
    from corpo_rl.records import Limits, Verdict

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(short_help="Judge answers by their problems' tests, in a sandbox.")
@click.argument("candidates", type=_FILE, nargs=-1, required=True)
@click.option("--problems", type=_FILE, required=True, help="The problems with their tests.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), required=True, help="Labels file to write.")
@click.option("--form", help="Form of the problems file.  [default: told by its fields]")
@click.option("--source", help="Who wrote answers that do not say.  [default: the file's name]")
@click.option("--allow-unknown", is_flag=True, help="Leave out answers to problems that are not in the file.")
@click.option("--allow-unusable", is_flag=True, help="Leave out problems that cannot be judged.")
@click.option("--workers", type=click.IntRange(min=1), help="Candidates at a time.  [default: the cores]")
@click.option(
    "--engine",
    type=click.Choice(["local", "ray"]),
    default="local",
    show_default=True,
    help="Threads here, or actors of a Ray cluster.",
)
@click.option("--ray-address", help="The Ray cluster, e.g. auto.  [default: a local one]")
@click.option("--stop", "stops", multiple=True, help=r"Cut completions here; may be repeated; \n is a new line.")
@click.option("--no-cut", is_flag=True, help="Do not cut completions at stop sequences.")
@click.option("--timeout", type=click.FloatRange(min=0.1), default=3.0, show_default=True, help="Seconds a candidate.")
@click.option("--memory", type=click.IntRange(min=64), default=1024, show_default=True, help="Megabytes a candidate.")
@click.option("--max-output", type=click.IntRange(min=1), default=1_000_000, show_default=True, help="Bytes a result.")
@click.option("--disk", type=click.IntRange(min=1), default=16, show_default=True, help="Megabytes of its /tmp.")
@click.option("--threads", type=click.IntRange(min=1), default=16, show_default=True, help="Threads a candidate.")
@click.option("--python", type=click.Path(path_type=Path), help="Interpreter of candidates.  [default: the system's]")
@click.option(
    "--check-references/--no-check-references",
    default=True,
    show_default=True,
    help="First judge the problems' own solutions.",
)
@click.option("--drop-failed-references", is_flag=True, help="No label for problems whose own solution is not right.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON instead of text.")
@click.option("--force", is_flag=True, help="Replace a file that exists, and begin anew.")
def label(
    candidates: tuple[Path, ...],
    problems: Path,
    out: Path,
    form: str | None,
    source: str | None,
    allow_unknown: bool,
    allow_unusable: bool,
    workers: int | None,
    engine: str,
    ray_address: str | None,
    stops: tuple[str, ...],
    no_cut: bool,
    timeout: float,
    memory: int,
    max_output: int,
    disk: int,
    threads: int,
    python: Path | None,
    check_references: bool,
    drop_failed_references: bool,
    as_json: bool,
    force: bool,
) -> None:
    """Judge CANDIDATES, answers to the problems, by the problems' own tests.

    CANDIDATES are JSON lines with problem_id (or task_id) and the answer: `text`
    where it stands alone, as `pairs sample` writes it, `completion` where it
    continues the problem's prompt, as HumanEval's samples do.

    Programs run under bubblewrap, without network, home or writable files; the
    verdict is made outside their process. A candidate that could not be judged
    (a module that is not there, a result that is no plain value) has no label.
    Interrupted, the same command goes on where it was.

    \b
    Examples:
      corpo-rl pairs label samples.jsonl --problems HumanEval.jsonl.gz \\
        --out labels.jsonl
      corpo-rl pairs label a.jsonl b.jsonl --problems apps.parquet \\
        --out labels.jsonl --engine ray --ray-address auto
    """
    from corpo_rl.errors import MissingExtraError, UsageError

    try:
        from tqdm import tqdm
    except ImportError as error:
        raise MissingExtraError("labelling", "ray" if engine == "ray" else "pairs") from error
    from corpo_rl._version import __version__
    from corpo_rl.pairs.candidates import read_candidates
    from corpo_rl.pairs.cut import STOPS
    from corpo_rl.pairs.files import file_sha256
    from corpo_rl.pairs.labels import label_candidates
    from corpo_rl.pairs.labels_summary import labels_summary, labels_text, reason, references_warning
    from corpo_rl.pairs.problems import UsableProblems, read_problems, read_usable_problems
    from corpo_rl.records import Limits
    from corpo_rl.sandbox.boxes import SYSTEM_PYTHON

    if no_cut and stops:
        raise UsageError("--stop and --no-cut contradict each other; give one of them")
    if ray_address and engine != "ray":
        raise UsageError("--ray-address is for --engine ray")
    if drop_failed_references and not check_references:
        raise UsageError("--drop-failed-references needs the references judged; leave --no-check-references out")
    limits = Limits(seconds=timeout, memory_mb=memory, output_bytes=max_output, disk_mb=disk, threads=threads)
    interpreter = python or SYSTEM_PYTHON
    if allow_unusable:
        usable = read_usable_problems(problems, form=form)
    else:
        usable = UsableProblems(tuple(read_problems(problems, form=form)), left_out=())
    found = read_candidates(candidates, problems=usable.problems, source=source, allow_unknown=allow_unknown)

    started = time.monotonic()
    # with a delay, so that a refused call is one line
    with tqdm(desc="judging", unit=" programs", smoothing=0.05, delay=1) as bar:

        def on_verdict(done: int, total: int) -> None:
            if bar.total is None:  # the first call tells what an earlier one had judged
                bar.total, bar.initial, bar.n = total, done, done
            bar.update(done - bar.n)

        def on_references(failed: "Mapping[str, Verdict]", n_references: int) -> None:
            if failed:
                why = {name: reason(verdict) for name, verdict in failed.items()}
                with bar.external_write_mode():
                    click.echo(references_warning(why, n_references), err=True)

        labelled = label_candidates(
            usable.problems,
            found.candidates,
            engine=_engine(engine, limits=limits, python=interpreter, workers=workers, ray_address=ray_address),
            out=out,
            stops=() if no_cut else tuple(_unescaped(stop) for stop in stops) or STOPS,
            settings={
                "version": __version__,
                "problems": file_sha256(problems),
                "candidates": [file_sha256(path) for path in candidates],
                "--form": form,
                "--timeout": timeout,
                "--memory": memory,
                "--max-output": max_output,
                "--disk": disk,
                "--threads": threads,
                "--python": str(interpreter),
            },
            check_references=check_references,
            distrust_failed_references=drop_failed_references,
            force=force,
            on_verdict=on_verdict,
            on_references=on_references,
        )
    summary = {
        **labels_summary(labelled, seconds=time.monotonic() - started),
        "n_empty": found.n_empty,
        "n_unknown": found.n_unknown,
        "problems_left_out": list(usable.left_out),
        "out": str(out),
    }
    if as_json:
        click.echo(json.dumps(summary, indent=2))
        return
    click.echo(labels_text(summary))
    if found.n_empty or found.n_unknown:
        click.echo(f"Left out: {found.n_empty:,} empty answers, {found.n_unknown:,} to problems that are not there.")
    bare = {problem.problem_id for problem in usable.problems if problem.prompt}
    n_whole = sum(one.problem_id in bare and not one.continues_prompt for one in found.candidates)
    if n_whole and summary["statuses"].get("load_error", 0) * 2 >= summary["n_judged"] > 0:
        click.echo(
            f"Half of them or more do not load, and {n_whole:,} were run alone though their problem has a prompt: an "
            'answer that continues the prompt belongs in the field "completion", not "text".'
        )
    if usable.left_out:
        click.echo(
            f"Left out: {len(usable.left_out):,} problems that cannot be judged, the first: {usable.left_out[0]}"
        )
    click.echo(str(out))


def _engine(name: str, *, limits: "Limits", python: Path, workers: int | None, ray_address: str | None) -> "Engine":
    from functools import partial

    from corpo_rl.pairs.engines import Judges, judge_locally, judge_on_ray
    from corpo_rl.sandbox.judge import available_cores

    new_judges = partial(Judges, limits, python=python)
    if name == "local":
        return partial(judge_locally, new_judges=new_judges, workers=workers or available_cores())
    if ray_address is None:
        workers = workers or available_cores()
    return partial(judge_on_ray, new_judges=new_judges, workers=workers, address=ray_address)


def _unescaped(stop: str) -> str:
    r"""A stop sequence as shells let one write it: "\n" for a new line, "\t" for a tab."""
    return stop.replace("\\n", "\n").replace("\\t", "\t")
