"""`corpo-rl evaluate --best-of-n`: what picking the best of n labelled answers by a verifier is worth."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from corpo_rl.cli.ranking import CALLS_FILE, open_verifier, task_of
from corpo_rl.errors import DataError, UsageError

if TYPE_CHECKING:
    from corpo_rl.pairs.final_answers import FinalAnswerJudge
    from corpo_rl.ranking.best_of_n import AnswerGroup, Votes
    from corpo_rl.ranking.result import RankingSettings
    from corpo_rl.records import SamplingSettings

BEST_OF_N_FILE = "best-of-n.json"

_Command = TypeVar("_Command", bound=Callable[..., Any])

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)

_OPTIONS = (
    click.option(
        "--best-of-n",
        "sizes",
        type=click.IntRange(min=2),
        multiple=True,
        help="Instead of pairs: pick the best of so many labelled answers by ranking them; may be repeated.",
    ),
    click.option("--labels", type=_FILE, help="Of --best-of-n: the labelled answers, or GSM8K's published ones."),
    click.option("--problems", type=_FILE, help="Of --best-of-n: the problems of the labels file."),
    click.option(
        "--method",
        type=click.Choice(["round-robin", "swiss", "knockout"]),
        default="round-robin",
        show_default=True,
        help="Of --best-of-n: how answers are ranked, as in `corpo-rl rank`.",
    ),
)

_NUMBER = re.compile(r"\$?\s*([+-]?)\s*\$?(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?")


def best_of_n_options(command: _Command) -> _Command:
    """The options that only --best-of-n has: `sizes`, `labels`, `problems` and `method`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def run_best_of_n(
    model: str,
    *,
    sizes: Sequence[int],
    labels: Path | None,
    problems: Path | None,
    sampling: "SamplingSettings",
    settings: "RankingSettings",
    task: str = "pairs",
    out: Path | None = None,
    limit: int | None = None,
    level: float = 0.95,
    **asking: Any,
) -> list[dict[str, Any]]:
    """Rank labelled answers and look up the labels of the best, with a progress bar on stderr.

    Args:
        model: Spec of the verifier.
        sizes: Each n.
        labels: A labels file, or the labelled model answers published with GSM8K, which hold their questions. It may
            not be None, which a command has where the option is left out.
        problems: The problems of a labels file.
        sampling: How the verifier is sampled.
        settings: How answers are compared; its seed decides which are drawn too.
        task: "pairs", or "mini" for the sums of the embedded policy.
        out: Folder for the completions, which the same call goes on from.
        limit: Use the first so many problems that have n judged answers; all by default.
        level: Coverage of the intervals.
        asking: Options of `open_policy`.

    Returns:
        For each n what `best_of_n_document` gives, with the names of model and files.

    Raises:
        UsageError: There are no labels, a labels file comes without its problems, or too many calls would be needed.
        DataError: A file is broken, or no problem has n judged answers.
    """
    from corpo_rl.ranking.best_of_n import best_of_n, best_of_n_document, draw_answers, draw_calls

    if labels is None:
        raise UsageError("--labels: expected the file of the labelled answers to pick from, found none")
    groups, is_math = read_answer_groups(labels, problems)
    draws = [draw_answers(groups, n, seed=settings.seed) for n in sizes]
    if limit is not None:
        draws = [replace(draw, groups=draw.groups[:limit]) for draw in draws]
    total = sum(draw_calls(draw, settings) for draw in draws)
    about = {
        "model": model,
        "task": task,
        "labels": str(labels),
        "problems_file": None if problems is None else str(problems),
        "sampling": asdict(sampling),
    }
    documents = []
    with (
        _votes(is_math=is_math) as votes,
        open_verifier(model, calls=None if out is None else out / CALLS_FILE, total=total, **asking) as stream,
    ):
        for draw in draws:
            found = best_of_n(draw, stream, sampling=sampling, settings=settings, task=task_of(task), votes=votes)
            documents.append({**about, **best_of_n_document(found, level=level)})
    return documents


def show_best_of_n(documents: Sequence[dict[str, Any]], *, out: Path | None, as_json: bool) -> None:
    """Print the figures for each n, and write them to a folder.

    Args:
        documents: What `run_best_of_n` returns.
        out: Folder for `BEST_OF_N_FILE`, which is replaced.
        as_json: Whether to print what the file holds instead of text.
    """
    from corpo_rl.report.form import json_text
    from corpo_rl.report.ranking_text import best_of_n_text

    whole = json_text({"schema": "corpo-rl.best-of-n/1", "results": list(documents)}, "best of n", nan_as_null=True)
    if out is not None:
        from corpo_rl.experiment.folder import write_text

        write_text(out / BEST_OF_N_FILE, whole)
    click.echo(whole if as_json else "\n".join(best_of_n_text(document) for document in documents), nl=False)


def read_answer_groups(labels: Path, problems: Path | None) -> tuple[list["AnswerGroup"], bool]:
    """The labelled answers of a file by problem, and whether all are math problems with a final answer.

    Raises:
        UsageError: A labels file comes without its problems.
        DataError: A file is broken, or holds answers to problems that are not there.
    """
    from corpo_rl.pairs.files import read_json_lines

    _, first = next(read_json_lines(labels), (0, {}))
    if any(isinstance(value, dict) and "is_correct" in value for value in first.values()):
        return _gsm8k_groups(labels), True
    if problems is None:
        raise UsageError("--problems: expected the file of the problems that the labels are about, found none")
    return _labelled_groups(labels, problems)


def _labelled_groups(labels: Path, problems: Path) -> tuple[list["AnswerGroup"], bool]:
    from corpo_rl.pairs.labels_file import read_labels
    from corpo_rl.pairs.problems import read_problems
    from corpo_rl.ranking.best_of_n import AnswerGroup
    from corpo_rl.records import FinalAnswer

    answers = defaultdict(list)
    for answer in read_labels(labels):
        answers[answer.problem_id].append(answer)
    found = {problem.problem_id: problem for problem in read_problems(problems)}
    unknown = answers.keys() - found.keys()
    if unknown:
        raise DataError(
            f"{labels}: expected answers to the problems of {problems}, found {len(unknown)} others (the first is "
            f"{min(unknown)!r}); give the file that was labelled with"
        )
    groups = [AnswerGroup(name, found[name].text, tuple(rows)) for name, rows in answers.items()]
    return groups, all(isinstance(found[name].tests, FinalAnswer) for name in answers)


def _gsm8k_groups(path: Path) -> list["AnswerGroup"]:
    from corpo_rl.pairs.gsm8k import read_gsm8k_answers
    from corpo_rl.ranking.best_of_n import AnswerGroup
    from corpo_rl.records import OK, WRONG, LabelledCandidate

    return [
        AnswerGroup(
            rated.problem_id,
            rated.problem,
            tuple(
                LabelledCandidate(
                    rated.problem_id,
                    candidate_id="0",
                    source=answer.source,
                    text=answer.text,
                    correct=answer.correct,
                    passed=int(answer.correct),
                    total=1,
                    status=OK if answer.correct else WRONG,
                )
                for answer in rated.answers
            ),
        )
        for rated in read_gsm8k_answers(path).problems
    ]


@contextmanager
def _votes(*, is_math: bool) -> Iterator["Votes | None"]:
    """What answers vote for: math by the final answer, nothing else."""
    if not is_math:
        yield None
        return
    from corpo_rl.pairs.final_answers import FinalAnswerJudge

    with FinalAnswerJudge() as judge:
        yield lambda texts: final_answer_votes(texts, judge)


def final_answer_votes(texts: Sequence[str], judge: "FinalAnswerJudge") -> list[str | None]:
    """The final answers of solutions, equal ones ("1/2", "0.50") written the same; None where there is none.

    A solution's final answer is the one it marks as such (see `marked_answer`), or else its last number.

    Args:
        texts: Solutions of one problem.
        judge: Tells whether two answers that are not plain numbers are equal.
    """
    from corpo_rl.pairs.final_answers import marked_answer
    from corpo_rl.records import FinalAnswer

    leaders: list[str] = []
    votes: list[str | None] = []
    for text in texts:
        answer = marked_answer(text)
        if answer is None:
            numbers_in_text = [match[0].strip() for match in _NUMBER.finditer(text)]
            if not numbers_in_text:
                votes.append(None)
                continue
            answer = numbers_in_text[-1]
        for leader in leaders:
            numbers = _number(leader), _number(answer)
            if None not in numbers:
                same = numbers[0] == numbers[1]
            else:
                same = leader == answer or judge.judge(FinalAnswer(leader), f"\\boxed{{{answer}}}").correct is True
            if same:
                votes.append(leader)
                break
        else:
            leaders.append(answer)
            votes.append(answer)
    return votes


def _number(text: str) -> Fraction | None:
    """A plain number, such as "$1,200.50"; most answers are, and need no library to be compared."""
    match = _NUMBER.fullmatch(text.strip().rstrip("."))
    return None if match is None else Fraction(f"{match[1]}{match[2].replace(',', '')}{match[3] or ''}")
