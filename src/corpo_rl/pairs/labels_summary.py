"""What a labels file says in numbers, as JSON and as text."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from corpo_rl.pairs.labels import LabelledSet, LabelRow
from corpo_rl.records import MISSING_MODULE, STATUSES, Verdict

_PLACE = re.compile(r"^test \d+: (while loading: )?")
_MODULE = re.compile(r"No module named '([^']+)'")
_MOST_NAMED = 5


def labels_summary(labelled: LabelledSet, *, seconds: float) -> dict[str, Any]:
    """Counts and shares of a labelled set; a share of nothing is None.

    Args:
        labelled: The set.
        seconds: Wall time of the call that made it.
    """
    rows = labelled.rows
    statuses = Counter(row.status for row in rows)
    judged = [row for row in rows if row.correct is not None]
    unjudged = [row for row in rows if row.correct is None]
    shares = [row.passed / row.total for row in judged if row.total]
    right_of: defaultdict[str, list[bool]] = defaultdict(list)
    for row in judged:
        right_of[row.problem_id].append(bool(row.correct))
    n_problems = len({row.problem_id for row in rows})
    return {
        "n_candidates": len(rows),
        "n_problems": n_problems,
        "n_programs": labelled.n_programs,
        "statuses": {status: statuses[status] for status in STATUSES},
        "n_judged": len(judged),
        "n_correct": sum(bool(row.correct) for row in judged),
        "correct_share": sum(bool(row.correct) for row in judged) / len(judged) if judged else None,
        "mean_share_of_tests_passed": sum(shares) / len(shares) if shares else None,
        "n_problems_none_right": sum(not any(right) for right in right_of.values()),
        "n_problems_some_right": sum(any(right) and not all(right) for right in right_of.values()),
        "n_problems_all_right": sum(all(right) for right in right_of.values()),
        "n_problems_not_judged": n_problems - len(right_of),
        "missing_modules": _counts(_module(row) for row in unjudged if row.status == MISSING_MODULE),
        "not_judged_because": _counts(_PLACE.sub("", row.detail) for row in unjudged if row.status != MISSING_MODULE),
        "n_references": labelled.n_references,
        "failed_references": {name: reason(verdict) for name, verdict in labelled.failed_references.items()},
        "n_judged_before": labelled.n_resumed,
        "n_judged_now": labelled.n_judged,
        "seconds": round(seconds, 2),
        "programs_per_second": round(labelled.n_judged / seconds, 1) if seconds else None,
    }


def labels_text(summary: Mapping[str, Any]) -> str:
    """A summary in words."""
    seconds, rate = f"{summary['seconds']:,.1f}", summary["programs_per_second"]
    before = f" after the {summary['n_judged_before']:,} judged before" if summary["n_judged_before"] else ""
    n_candidates = summary["n_candidates"]
    lines = [
        f"Answers {n_candidates:,}, problems {summary['n_problems']:,}, different programs {summary['n_programs']:,}.",
        f"Judged {summary['n_judged_now']:,} programs in {seconds} s{before}: {_figure(rate)} a second.",
        "",
        f"{'status':<16}{'candidates':>10}{'share':>9}",
    ]
    for status, count in summary["statuses"].items():
        if count:
            lines.append(f"{status:<16}{count:>10,}{count / n_candidates:>9.1%}")
    lines += [
        "",
        f"Right: {_share(summary['correct_share'])} of the {summary['n_judged']:,} that could be judged, which pass "
        f"{_share(summary['mean_share_of_tests_passed'])} of their tests on average.",
        f"Problems with no right answer {summary['n_problems_none_right']:,}, with right and wrong ones "
        f"{summary['n_problems_some_right']:,}, with right ones only {summary['n_problems_all_right']:,}"
        + (f", with none judged {summary['n_problems_not_judged']:,}." if summary["n_problems_not_judged"] else "."),
    ]
    if summary["missing_modules"]:
        lines.append(f"Not judged for want of a module: {_named(summary['missing_modules'])}.")
    if summary["not_judged_because"]:
        lines.append(f"Not judged because: {_named(summary['not_judged_because'])}.")
    if summary["failed_references"]:
        lines.append(references_warning(summary["failed_references"], summary["n_references"]))
    elif summary["n_references"]:
        lines.append(f"References: all {summary['n_references']:,} solutions that ship with the problems are right.")
    return "\n".join(lines)


def references_warning(failed: Mapping[str, str], n_references: int) -> str:
    """The sentence about problems whose own solution fails.

    Args:
        failed: Problem -> reason.
        n_references: Problems with a solution of their own.
    """
    return (
        f"WARNING: {len(failed):,} of {n_references:,} solutions that ship with the problems are not judged right, so "
        "labels of these problems are not to be trusted: "
        + _listed([f"{name} ({why})" for name, why in failed.items()], separator="; ")
    )


def reason(verdict: Verdict) -> str:
    """A verdict in words.

    Example:
        >>> reason(Verdict("wrong", 1, 2, "test 2: AssertionError"))
        'wrong, test 2: AssertionError'
    """
    return f"{verdict.status}, {verdict.detail}" if verdict.detail else verdict.status


def _module(row: LabelRow) -> str:
    found = _MODULE.search(row.detail)
    return found.group(1) if found else _PLACE.sub("", row.detail)


def _counts(names: Any) -> dict[str, int]:
    """Most frequent first; in alphabetical order among equals."""
    return dict(sorted(Counter(names).items(), key=lambda item: (-item[1], item[0])))


def _named(counts: Mapping[str, int]) -> str:
    return _listed([f"{name} {count:,}" for name, count in counts.items()], separator="; ")


def _listed(names: Sequence[str], *, separator: str) -> str:
    more = f"{separator}and {len(names) - _MOST_NAMED:,} others" if len(names) > _MOST_NAMED else ""
    return separator.join(names[:_MOST_NAMED]) + more


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:,}"
