"""`corpo-rl rank`: the best of several answers to a problem, by a verifier's scores two at a time."""

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import click

from corpo_rl.cli.ranking import CALLS_FILE, asking_options, open_verifier, sampling_of, task_of
from corpo_rl.errors import DataError, UsageError

RANKING_FILE = "ranking.json"
TEXT_FIELDS = ("text", "completion", "answer", "solution", "response", "output")
"""Where a line of JSON may have its answer; the first of these that it has."""
PROBLEM_FIELDS = ("problem_id", "task_id", "question")
"""Fields that tell the problems of a file apart."""


class NamedText(NamedTuple):
    """An answer, and what to call it."""

    name: str
    text: str


@click.command()
@click.argument("problem", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@click.argument("candidates", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--model", required=True, help="The verifier: smollm2, a folder, a hub id, an adapter, or http://HOST/v1#MODEL."
)
@click.option(
    "--task",
    type=click.Choice(["pairs", "mini"]),
    default="pairs",
    show_default=True,
    help="Form of question and scores: written answers, or the sums of the embedded policy.",
)
@click.option(
    "--method",
    type=click.Choice(["round-robin", "swiss", "knockout"]),
    default="round-robin",
    show_default=True,
    help="Every pair; log2(n) rounds among neighbours; or the loser of each pair is out.",
)
@click.option(
    "--by",
    "rank_by",
    type=click.Choice(["score", "wins"]),
    default="score",
    show_default=True,
    help="Mean score, or share of comparisons won.",
)
@click.option("--one-order", is_flag=True, help="Ask each pair in one order only: half the calls, no cure of bias.")
@click.option("--samples", type=click.IntRange(min=1), default=1, show_default=True, help="Completions per question.")
@click.option("--rounds", type=click.IntRange(min=1), help="Rounds of swiss.  [default: log2(n)]")
@click.option(
    "--max-calls", type=click.IntRange(min=1), default=10_000, show_default=True, help="Refuse to make more calls."
)
@click.option(
    "--temperature", type=click.FloatRange(min=0), help="Of the sampling.  [default: 0, and 1 with --samples]"
)
@click.option(
    "--max-new-tokens", type=click.IntRange(min=1), default=512, show_default=True, help="Completion length limit."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Decides lots and samples.")
@asking_options
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help=f"Folder for {RANKING_FILE} and, to go on after a kill, {CALLS_FILE}.",
)
@click.option("--force", is_flag=True, help="Start over: delete the ranking and the calls that lie in --out.")
@click.option("--print-best", is_flag=True, help="Print the text of the best answer and nothing else.")
@click.option("--json", "as_json", is_flag=True, help="Print the ranking as JSON instead of text.")
def rank(
    problem: Path,
    candidates: Path,
    model: str,
    task: str,
    method: str,
    rank_by: str,
    one_order: bool,
    samples: int,
    rounds: int | None,
    max_calls: int,
    temperature: float | None,
    max_new_tokens: int,
    seed: int,
    out: Path | None,
    force: bool,
    print_best: bool,
    as_json: bool,
    **asking: Any,
) -> None:
    """Rank the CANDIDATES, answers to PROBLEM, by the scores a verifier gives to two of them at a time.

    PROBLEM is a text file, or - for standard input. CANDIDATES is a folder of text files, a JSON Lines file (text, or
    objects with text, completion, answer, solution, response or output), or a text file with an answer a line.

    \b
    Examples:
      corpo-rl rank problem.txt answers/ --model ./judge --out ranked
      corpo-rl rank problem.txt many.jsonl --model ./judge --method knockout
      echo 37+46 | corpo-rl rank - answers.txt --model mini --task mini
    """
    from corpo_rl.ranking.rank import planned_calls
    from corpo_rl.ranking.rank import rank as ranked
    from corpo_rl.ranking.result import RankingSettings, ranking_document
    from corpo_rl.report.form import json_text
    from corpo_rl.report.ranking_text import rank_text

    if print_best and as_json:
        raise UsageError("--print-best and --json: expected one of the two")
    settings = RankingSettings(
        method=method,
        rank_by=rank_by,
        both_orders=not one_order,
        n_samples=samples,
        rounds=rounds,
        max_calls=max_calls,
        seed=seed,
    )
    sampling = sampling_of(samples=samples, temperature=temperature, max_new_tokens=max_new_tokens)
    question = _problem_text(problem)
    answers = read_answers(candidates)
    names, texts = [answer.name for answer in answers], [answer.text for answer in answers]
    n_different = len(set(texts))
    if n_different < 2:
        found = "one" if len(texts) == 1 else f"{len(texts)} that are all the same text"
        raise DataError(f"{candidates}: expected at least two different answers, found {found}")
    n_calls = planned_calls(n_different, settings)

    about = {"model": model, "task": task, "problem": question, "sampling": asdict(sampling)}
    made_of = _digest({**about, "settings": asdict(settings), "answers": answers})
    if out is not None:
        _prepare(out, made_of, force=force)
    with open_verifier(model, calls=None if out is None else out / CALLS_FILE, total=n_calls, **asking) as stream:
        ranking = ranked(question, texts, stream, sampling=sampling, settings=settings, task=task_of(task))
    document = {**about, "made_of": made_of, **ranking_document(ranking, names)}
    as_text = json_text(document, "ranking", nan_as_null=True)
    if out is not None:
        from corpo_rl.experiment.folder import write_text

        write_text(out / RANKING_FILE, as_text)
    if not print_best:
        click.echo(as_text if as_json else rank_text(document), nl=False)
    if not ranking.best:
        kinds = ", ".join(f"{kind} {count:,}" for kind, count in ranking.failures.items())
        raise DataError(
            f"{model}: expected completions with two scores, found none among {ranking.n_calls:,} ({kinds}); the "
            "verifier has to be taught the form first"
        )
    if print_best:
        click.echo(ranking.best[0].text)


def read_answers(path: Path) -> list[NamedText]:
    """Answers of a folder of text files, by name, of JSON Lines, a JSON array, or a text file with an answer a line.

    Raises:
        DataError: There is none, one is blank or no text, or the file holds answers to several problems.
    """
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
        answers = [NamedText(file.name, _text(file).strip("\r\n").rstrip()) for file in files]
    elif path.suffix in (".jsonl", ".ndjson", ".json"):
        answers = _answers_of_json(path)
    else:
        lines = enumerate(_text(path).splitlines(), start=1)
        answers = [NamedText(f"line {number}", line.strip()) for number, line in lines if line.strip()]
    if not answers:
        what = "a text file for each answer" if path.is_dir() else "an answer a line"
        raise DataError(f"{path}: expected {what}, found none")
    for answer in answers:
        if not answer.text.strip():
            raise DataError(f"{path}: {answer.name}: expected an answer, found an empty text; remove it")
    return answers


def _answers_of_json(path: Path) -> list[NamedText]:
    answers: list[NamedText] = []
    problems: list[str] = []
    for name, row in _json_rows(path):
        where = f"{path}: {name}"
        if isinstance(row, Mapping):
            field = next((field for field in TEXT_FIELDS if field in row), None)
            if field is None:
                raise DataError(
                    f"{where}: expected one of the fields {', '.join(TEXT_FIELDS)}, found {', '.join(row) or 'none'}"
                )
            problems += [f"{known} {row[known]!r}" for known in PROBLEM_FIELDS if known in row]
            row = row[field]
        if not isinstance(row, str):
            raise DataError(f"{where}: expected the answer as text, found {type(row).__name__}")
        answers.append(NamedText(name, row.strip("\r\n").rstrip()))
    different = list(dict.fromkeys(problems))
    if len({about.split()[0] for about in different}) < len(different):
        raise DataError(
            f"{path}: expected answers to one problem, found several ({', '.join(different[:2])}, ...); keep one "
            "problem's lines, or judge all with: corpo-rl evaluate --best-of-n"
        )
    return answers


def _json_rows(path: Path) -> Iterator[tuple[str, Any]]:
    """Names and values: the lines of JSON Lines, or the items of a single array."""
    text = _text(path)
    if path.suffix == ".json" and text.lstrip().startswith("["):
        yield from ((f"item {number}", row) for number, row in enumerate(_json(text, str(path)), start=1))
        return
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield f"line {number}", _json(line, f"{path}: line {number}")


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: expected a JSON object or text, found broken JSON ({error})") from None


def _problem_text(path: Path) -> str:
    text = (_decoded(sys.stdin.buffer.read(), "standard input") if str(path) == "-" else _text(path)).strip()
    if not text:
        raise DataError(f"{path}: expected the text of the problem, found nothing")
    return text


def _text(path: Path) -> str:
    try:
        return _decoded(path.read_bytes(), str(path))
    except OSError as error:
        raise DataError(f"{path}: could not be read ({error.strerror or error})") from error


def _decoded(raw: bytes, where: str) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{where}: expected UTF-8 text, found byte 0x{raw[error.start]:02x}; save it as UTF-8, or take it away"
        ) from None


def _digest(made_of: Mapping[str, Any]) -> str:
    """Stands for everything a ranking is made of."""
    return hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()


def _prepare(out: Path, made_of: str, *, force: bool) -> None:
    """Refuse a folder with another ranking, or clear it."""
    ranking = out / RANKING_FILE
    if force:
        for file in (ranking, out / CALLS_FILE):
            file.unlink(missing_ok=True)
    elif ranking.exists():
        from corpo_rl.experiment.folder import read_json

        if read_json(ranking).get("made_of") != made_of:
            raise UsageError(f"--out {out}: expected a new folder, found another ranking; choose another or --force")
