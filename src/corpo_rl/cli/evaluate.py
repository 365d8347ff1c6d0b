"""`corpo-rl evaluate`: what verifiers do on pairs."""

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from corpo_rl.cli.best_of_n import best_of_n_options
from corpo_rl.cli.extras import check_extras, needs_of_policies
from corpo_rl.cli.ranking import CALLS_FILE, asking_options
from corpo_rl.cli.task_options import PAIRS_FILE
from corpo_rl.errors import DataError, UsageError

if TYPE_CHECKING:
    from corpo_rl.assessment.answers import Answer, Stream
    from corpo_rl.records import Sample, SampleRequest, SamplingSettings, VerifierItem
    from corpo_rl.tasks.base import Task

RESULTS_FILE = "results.json"
REPORT_FILE = "report.html"

MINI = "mini"
"""In the place of a pairs file: the sums of the embedded policy."""


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="MODEL... PAIRS")
@click.option(
    "--split",
    "splits",
    multiple=True,
    type=click.Choice(["in_domain", "ood", "other_domain", "train"]),
    help="Pairs of this split; may be repeated.  [default: all but train]",
)
@click.option("--n", "n_samples", type=click.IntRange(min=1), default=1, show_default=True, help="Completions a pair.")
@click.option("--both-orders", is_flag=True, help="Ask each pair with its answers the other way round too.")
@click.option("--k", "ks", help="The k of each pass@k beside pass@1, with commas between them.  [default: --n]")
@click.option("--temperature", type=click.FloatRange(min=0), help="0 is greedy.  [default: 0, and 1 with --n above 1]")
@click.option(
    "--max-new-tokens", type=click.IntRange(min=1), default=512, show_default=True, help="Completion length limit."
)
@click.option("--limit", type=click.IntRange(min=1), help="Only the first so many pairs of each split, or problems.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Decides the draws.")
@click.option("--level", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.95, show_default=True,
              help="Coverage of the intervals.")  # fmt: skip
@asking_options
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs") / "evaluation",
    show_default=True,
    help="Folder of the results and of what they were made from.",
)
@click.option("--force", is_flag=True, help="Start anew, whatever --out holds of these models.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON instead of text.")
@best_of_n_options
def evaluate(
    names: tuple[str, ...],
    splits: tuple[str, ...],
    n_samples: int,
    both_orders: bool,
    ks: str | None,
    temperature: float | None,
    max_new_tokens: int,
    limit: int | None,
    seed: int,
    level: float,
    out: Path,
    force: bool,
    as_json: bool,
    sizes: tuple[int, ...],
    labels: Path | None,
    problems: Path | None,
    method: str,
    **asking: Any,
) -> None:
    """Evaluate verifiers on PAIRS: accuracy, calibration, order, parse failures.

    MODEL is a folder, a hub id, a PEFT adapter, "smollm2", "mini", or the URL
    of an OpenAI-compatible API, http://HOST/v1#MODEL; several are compared with
    the first, pair by pair. PAIRS is a pairs file, the folder that `pairs
    build` wrote, or "mini" for the sums of the embedded policy. Every
    completion is kept in --out: killed, the same command goes on.

    \b
    Examples:
      corpo-rl evaluate mini mini --both-orders
      corpo-rl evaluate ./before ./after pairs/ --out runs/before-after
      corpo-rl evaluate http://127.0.0.1:8000/v1 pairs/ --n 16 --k 1,4,16
      corpo-rl evaluate ./judge --best-of-n 4 --labels l.jsonl --problems p.jsonl
    """
    sampling = _sampling(n_samples, temperature=temperature, max_new_tokens=max_new_tokens)
    if sizes:
        _best_of_n(names, sampling, n_samples=n_samples, sizes=sizes, labels=labels, problems=problems, method=method,
                   limit=limit, seed=seed, level=level, out=out, force=force, as_json=as_json, **asking)  # fmt: skip
        return
    if labels or problems:
        raise UsageError("--labels and --problems: expected together with --best-of-n, found without it")
    *specs, pairs = names
    if not specs:
        raise UsageError(f"expected one model or more and then the pairs, found {pairs!r} alone")
    chosen_ks = _ks(ks, n_samples)
    task, items = _items(pairs, splits=splits, limit=limit)
    check_extras(f"corpo-rl evaluate with {', '.join(specs)}", needs_of_policies(specs))
    models = {_name_of(spec, asking): spec for spec in specs}
    if len(models) < len(specs):
        raise UsageError("expected each model once, found one twice; give the same model's variants other names")
    _check_out(out)
    answers = _ask_all(
        models, task, items, sampling, n_samples=n_samples, both_orders=both_orders, seed=seed, out=out, force=force,
        asking=asking,
    )  # fmt: skip

    from dataclasses import asdict

    from corpo_rl.assessment.document import assess

    settings = {
        "pairs": pairs,
        "task": task.name,
        "n_samples": n_samples,
        "both_orders": both_orders,
        "limit": limit,
        "seed": seed,
        **asdict(sampling),
    }
    document = assess(answers, ks=chosen_ks, seed=seed, level=level, settings=settings, command=_command_line())
    _write(document, out, as_json=as_json)


def _sampling(n_samples: int, *, temperature: float | None, max_new_tokens: int) -> "SamplingSettings":
    """Greedy for one completion, what a verifier in use does; at temperature 1 for several, the policy itself."""
    from corpo_rl.records import SamplingSettings

    if temperature is None:
        temperature = 0.0 if n_samples == 1 else 1.0
    if n_samples > 1 and temperature == 0:
        raise UsageError(f"--n {n_samples} at --temperature 0: all would be the same; take a temperature above 0")
    return SamplingSettings(max_new_tokens=max_new_tokens, temperature=temperature)


def _ks(text: str | None, n_samples: int) -> list[int]:
    if text is None:
        return [n_samples]
    try:
        ks = sorted({int(part) for part in text.split(",")})
    except ValueError:
        raise UsageError(f"--k: expected whole numbers with commas between them, got {text!r}") from None
    if ks[0] < 1:
        raise UsageError(f"--k: expected numbers of at least 1, got {text!r}")
    if ks[-1] > n_samples:
        raise UsageError(f"--k {ks[-1]}: needs as many completions of each pair, found --n {n_samples}")
    return ks


def _items(pairs: str, *, splits: Sequence[str], limit: int | None) -> "tuple[Task, list[VerifierItem]]":
    """The task of PAIRS and the pairs asked about, split by split."""
    from corpo_rl.records import EVALUATION_SPLITS, TRAIN
    from corpo_rl.tasks.mini import MiniTask
    from corpo_rl.tasks.pairs import PairsTask

    task: Task
    if pairs == MINI:
        task = MiniTask()
    else:
        from corpo_rl.pairs.files import read_pairs

        path = Path(pairs)
        if path.is_dir():
            path = path / PAIRS_FILE
        if not path.exists():
            raise UsageError(f"{path}: expected a pairs file, a folder of `pairs build` or {MINI!r}, found nothing")
        task = PairsTask(read_pairs(path))
    for split in splits:
        if not task.items(split):
            raise DataError(f"{pairs}: expected pairs of split {split!r}, found none")
    items = [item for split in (splits or EVALUATION_SPLITS) for item in task.items(split)[:limit]]
    if not items:
        raise DataError(f"{pairs}: expected pairs to evaluate on, found none but {TRAIN}; pass --split {TRAIN}")
    return task, items


def _name_of(spec: str, asking: dict[str, Any]) -> str:
    """What the results call a model: an endpoint's model without the address, which may change when a job goes on."""
    if not spec.startswith(("http://", "https://")):
        return spec
    from corpo_rl.policies.endpoint import only_model

    url, _, model = spec.partition("#")
    return model or only_model(url.rstrip("/"), timeout=asking["timeout"])


def _check_out(out: Path) -> None:
    """Refuse a folder with the results of another command."""
    path = out / RESULTS_FILE
    if path.exists():
        from corpo_rl.assessment.document import SCHEMA
        from corpo_rl.experiment.folder import read_json

        schema = read_json(path).get("schema")
        if schema != SCHEMA:
            raise UsageError(f"{path}: expected results of `evaluate`, found {schema!r}; choose another --out")


def _ask_all(
    models: dict[str, str],
    task: "Task",
    items: "Sequence[VerifierItem]",
    sampling: "SamplingSettings",
    *,
    n_samples: int,
    both_orders: bool,
    seed: int,
    out: Path,
    force: bool,
    asking: dict[str, Any],
) -> "dict[str, Sequence[Answer]]":
    from corpo_rl.assessment.answers import ask
    from corpo_rl.assessment.kept import kept_samples, model_folders

    folders = model_folders(out, list(models))
    answers: dict[str, Sequence[Answer]] = {}
    total = len(items) * n_samples * (1 + both_orders)
    for name, spec in models.items():
        about = {"model": name, "task": task.name, "seed": seed}
        stream = kept_samples(_opened_late(spec, asking), folders[name], about=about, force=force)
        with _bar(name, total) as on_answer:
            answers[name] = ask(
                items,
                stream,
                n_samples=n_samples,
                both_orders=both_orders,
                settings=sampling,
                seed=seed,
                task=task,
                on_answer=on_answer,
            )
    return answers


def _opened_late(spec: str, asking: dict[str, Any]) -> "Stream":
    """The stream of a policy that is opened when it is first asked, and not held after."""

    def stream(requests: "Sequence[SampleRequest]", sampling: "SamplingSettings") -> "Iterator[Sample]":
        from corpo_rl.policies.opening import open_policy

        yield from open_policy(spec, **asking).stream(requests, sampling)

    return stream


@contextmanager
def _bar(name: str, total: int) -> Iterator[Any]:
    from tqdm import tqdm

    with tqdm(total=total, desc=name[-30:], unit="completion") as bar:
        yield lambda done: bar.update(done - bar.n)


def _write(document: dict[str, Any], out: Path, *, as_json: bool) -> None:
    from corpo_rl.experiment.folder import write_text
    from corpo_rl.report.evaluation_html import evaluation_html
    from corpo_rl.report.evaluation_schema import check_evaluation, evaluation_json
    from corpo_rl.report.evaluation_text import evaluation_text

    check_evaluation(document)
    write_text(out / RESULTS_FILE, evaluation_json(document))
    write_text(out / REPORT_FILE, evaluation_html(document))
    click.echo(evaluation_json(document) if as_json else evaluation_text(document), nl=False)
    click.echo(f"results  {out / RESULTS_FILE}\nreport   {out / REPORT_FILE}", err=as_json)


def _best_of_n(
    names: tuple[str, ...],
    sampling: "SamplingSettings",
    *,
    n_samples: int,
    sizes: Sequence[int],
    labels: Path | None,
    problems: Path | None,
    method: str,
    limit: int | None,
    seed: int,
    level: float,
    out: Path,
    force: bool,
    as_json: bool,
    **asking: Any,
) -> None:
    from corpo_rl.cli.best_of_n import run_best_of_n, show_best_of_n
    from corpo_rl.ranking.result import RankingSettings

    if len(names) > 1:
        raise UsageError(f"--best-of-n: expected one model and no pairs, found {', '.join(map(repr, names))}")
    if force:
        (out / CALLS_FILE).unlink(missing_ok=True)
    documents = run_best_of_n(
        names[0],
        sizes=sizes,
        labels=labels,
        problems=problems,
        sampling=sampling,
        settings=RankingSettings(method=method, n_samples=n_samples, seed=seed),
        task=MINI if names[0] == MINI else "pairs",
        out=out,
        limit=limit,
        level=level,
        **asking,
    )
    show_best_of_n(documents, out=out, as_json=as_json)


def _command_line() -> str:
    return shlex.join(["corpo-rl", *sys.argv[1:]])
