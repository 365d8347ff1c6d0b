"""The audit of a log: every figure of the report in one JSON document, `docs/audit-schema.md`."""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from corpo_rl._version import __version__
from corpo_rl.audit.blocks import blocks, weighted_counts
from corpo_rl.audit.components import Components
from corpo_rl.audit.curves import curves
from corpo_rl.audit.examples import ReadTexts, Strongest
from corpo_rl.audit.findings import findings
from corpo_rl.audit.logged import Reproduced, reproduce
from corpo_rl.audit.tally import (
    CLASS_NAMES,
    Counterfactual,
    Judge,
    Tally,
    add_counterfactual,
    as_logged,
    estimators_known,
    joined,
    recomputed,
    tally_block,
)
from corpo_rl.audit.threshold import Levels, LevelTable, Ordering
from corpo_rl.core.advantages import ESTIMATORS
from corpo_rl.core.intervals import bootstrap_ratio_interval
from corpo_rl.core.rounding import as_decimals, under
from corpo_rl.errors import UsageError
from corpo_rl.records import RolloutLog

SCHEMA: Final = "corpo-rl.audit/1"
LEVEL: Final = 0.95
SEED: Final = 0
"""Of the bootstrap: the same log gives the same interval."""

COUNTERFACTUAL_NOTE: Final = "advantages only, not what training would have become"
R_LOSS_PROXY: Final = "sum of |A| over A > 0 / sum of |A| over A < 0; a proxy: a log holds no log-probabilities"


@dataclass(frozen=True)
class _Counted:
    tally: Tally
    counterfactuals: Mapping[str, Counterfactual]
    levels: LevelTable
    ordering: Ordering | None
    components: Components | None
    strongest: Strongest


def audit_rollouts(
    log: RolloutLog,
    *,
    min_correct: float | None = None,
    estimator: str = "grpo",
    claimed: str | None = None,
    command: str = "",
    created: str | None = None,
    read_texts: ReadTexts | None = None,
) -> dict[str, Any]:
    """What the advantages of a run did to its failed rollouts, and what other estimators would have done.

    A rollout is correct when its reward is at least `min_correct`; without one, when the log's label says so; without
    either, figures that need to know are None and only the table of thresholds says something. The advantages are those
    the run logged; where it logged none, they are recomputed with `estimator`.

    Args:
        log: Rollouts as read.
        min_correct: Least reward that counts as correct, in task units.
        estimator: Estimator to recompute with when the log has no advantages; one of `ESTIMATORS`.
        claimed: Estimator the run is said to have used, for the finding that compares it with the log.
        command: How the audit was called, for the record.
        created: Time stamp for the record; now when left out.
        read_texts: Fetches prompt and completion of rows of the log, for the examples; None shows none.

    Returns:
        The document described in `docs/audit-schema.md`: JSON types only, None where a figure is undefined.

    Raises:
        UsageError: An estimator is unknown, or needs a `min_correct` that is not given.
        DataError: The log holds no rollout.
    """
    _check(estimator, claimed, min_correct, has_advantages=log.advantages_N is not None)
    if min_correct is not None and log.float32:  # read like the rewards: one of exactly min_correct is correct, 5/6 too
        min_correct = float(as_decimals(np.float64(np.float32(min_correct))))
    judge = Judge(min_correct, by_label=log.labels_N is not None)

    levels, n_known_advantages = Levels(), 0
    for block in blocks(log):
        levels.see(block)
        if block.advantages_N is not None:
            n_known_advantages += int(np.count_nonzero(np.isfinite(block.advantages_N)))
    found = reproduce(lambda: blocks(log), log.step_G, min_correct) if n_known_advantages else None
    counted = _count(log, judge, estimator, found, levels)
    document = {
        "schema": SCHEMA,
        "corpo_rl_version": __version__,
        "created": created or datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": command,
        "log": _log(log, counted.tally),
        **_headline(log, counted, judge),
        "estimator": estimator if found is None else (found.name or "logged"),
        "advantages_from": "recomputed" if found is None else "logged",
        "n_without_advantage": counted.tally.n_without_advantage,
        "curves": curves(log.step_G, counted.tally, judge),
        "estimators": _estimators(counted.counterfactuals, judge),
        "counterfactual_note": COUNTERFACTUAL_NOTE,
        "logged_estimator": _logged(found, claimed),
        "threshold": _threshold(counted, judge, levels),
        "components": counted.components.rows() if counted.components is not None and judge.known else [],
        "examples": counted.strongest.rows(log, read_texts),
    }
    document["findings"] = findings(document, log)
    return document


def _check(estimator: str, claimed: str | None, min_correct: float | None, *, has_advantages: bool) -> None:
    for name, value in (("estimator", estimator), ("claimed", claimed)):
        if value is not None and value not in ESTIMATORS:
            raise UsageError(f"{name}: expected one of {', '.join(ESTIMATORS)}, got {value!r}")
    if min_correct is not None and not np.isfinite(min_correct):
        raise UsageError(f"min_correct: expected a finite number, got {min_correct}")
    if not has_advantages and estimator not in estimators_known(min_correct):
        raise UsageError(f"estimator: {estimator} needs the least reward that counts as correct; pass --min-correct")


def _count(log: RolloutLog, judge: Judge, estimator: str, found: Reproduced | None, levels: Levels) -> _Counted:
    names = estimators_known(judge.min_correct)
    counterfactuals = {name: Counterfactual() for name in names}
    table, strongest = LevelTable(levels.thresholds()), Strongest()
    ordering = Ordering() if log.labels_N is not None else None
    components = Components.of(log) if len(log.components) > 1 else None

    def tallies() -> Iterator[Tally]:
        for block in blocks(log):
            scored = {name: recomputed(block, name, judge.min_correct) for name in names}
            headline = scored[estimator] if found is None else as_logged(block, found.signs_of, found.floor)
            tally = tally_block(block, headline, judge)
            for name, counterfactual in counterfactuals.items():
                add_counterfactual(counterfactual, block, scored[name], headline, judge)
            table.add(block, headline, tally.mean_G)
            if ordering is not None:
                ordering.add(block, judge.min_correct)
            if judge.known:
                strongest.add(block, headline, judge)
                if components is not None:
                    components.add(log, block, headline, judge)
            yield tally

    return _Counted(joined(tallies()), counterfactuals, table, ordering, components, strongest)


def _log(log: RolloutLog, tally: Tally) -> dict[str, Any]:
    sizes, counts = np.unique(tally.size_G, return_counts=True)
    group_sizes = {str(size): int(count) for size, count in zip(sizes.tolist(), counts.tolist(), strict=True)}
    steps = None
    if log.step_G is not None:
        distinct = np.unique(log.step_G)
        steps = {"first": int(distinct[0]), "last": int(distinct[-1]), "n": len(distinct)}
    return {
        "format": log.format,
        "title": log.title,
        "said": said(log, group_sizes),
        "n_files": len(log.sources),
        "sources": list(log.sources[:20]),
        "grouped_by": log.grouped_by,
        "n_rows": log.n_rows,
        "dropped": dict(log.dropped),
        "unscorable": dict(log.unscorable),
        "problems": list(log.problems),
        "columns_used": dict(log.columns_used),
        "columns_unused": list(log.columns_unused),
        "group_sizes": group_sizes,
        "steps": steps,
        "warnings": list(log.warnings),
        "notes": list(log.notes),
        "float32": log.float32,
    }


def said(log: RolloutLog, group_sizes: Mapping[str, int]) -> str:
    """What was read, in a sentence: "verl V1 rollouts, 120 files, grouped by ..., 12,500 groups of 8"."""
    n_groups = sum(group_sizes.values())
    if len(group_sizes) == 1:
        size = next(iter(group_sizes))
        groups = f"{n_groups:,} group{'s' * (n_groups != 1)} of {size}"
    else:
        usual = sorted(group_sizes.items(), key=lambda item: (-item[1], int(item[0])))
        listed = ", ".join(f"{count:,} of {size}" for size, count in usual[:4])
        groups = f"{n_groups:,} groups ({listed}{', ...' if len(usual) > 4 else ''})"
    n_files = len(log.sources)
    return f"{log.title}, {n_files:,} file{'s' * (n_files != 1)}, grouped by {log.grouped_by}, {groups}"


def _headline(log: RolloutLog, counted: _Counted, judge: Judge) -> dict[str, Any]:
    tally = counted.tally
    cells_C = tally.cells_GC.sum(axis=0)
    n_scorable = int(tally.scorable_G.sum())
    class_counts = np.bincount(tally.class_G, minlength=len(CLASS_NAMES))
    floored_G = under(tally.mean_G, judge.min_correct) if judge.min_correct is not None else None
    known_means = int(np.count_nonzero(~np.isnan(tally.mean_G)))
    down, up = tally.signed_mass_G2.sum(axis=0).tolist()
    return {
        "n_rollouts": len(log.rewards_N),
        "n_groups": len(tally.size_G),
        "n_prompts": None if log.prompt_G is None else len(np.unique(log.prompt_G)),
        "n_unscorable": len(log.rewards_N) - n_scorable,
        "min_correct": judge.min_correct,
        "correct_by": _correct_by(log, judge),
        **_failures(log, tally, cells_C, judge),
        "table": _table(tally, cells_C) if judge.known else None,
        "length_unit": None if log.lengths_N is None else log.length_unit,
        "n_without_length": tally.n_without_length,
        "r_count": _ratio(int(tally.signs_G3[:, 2].sum()), int(tally.signs_G3[:, 0].sum())),
        "r_loss_proxy": _ratio(up, down),
        "r_loss_proxy_definition": R_LOSS_PROXY,
        "r_loss_proxy_tokens": None if tally.token_signs_2 is None else _ratio(*tally.token_signs_2[::-1].tolist()),
        "group_classes": dict(zip(CLASS_NAMES, class_counts.tolist(), strict=True)) if judge.known else None,
        "phases": None
        if floored_G is None
        else {
            "correctness_seeking": int(floored_G.sum()),
            "preference_seeking": known_means - int(floored_G.sum()),
        },
        "zero_variance_groups": int(tally.equal_G.sum()),
        "n_groups_comparable": int(np.count_nonzero(tally.scorable_G > 1)),
    }


def _correct_by(log: RolloutLog, judge: Judge) -> str | None:
    if judge.min_correct is not None:
        return f"reward >= {judge.min_correct:g}"
    return f"label {log.label_column}" if judge.by_label else None


def _failures(log: RolloutLog, tally: Tally, cells_C: NDArray[np.int64], judge: Judge) -> dict[str, Any]:
    by = "prompts" if log.prompt_G is not None else "groups"
    none = {"value": None, "low": None, "high": None}
    if not judge.known:
        return {
            "n_failed": None,
            "n_correct": None,
            "n_reinforced_failures": None,
            "reinforced_failure_share": none,
            "level": LEVEL,
            "resampled": by,
            "in_all_failed_groups_share": None,
        }
    failed_G, reinforced_G = tally.cells_GC[:, :3].sum(axis=1), tally.cells_GC[:, 2]
    numerator, denominator = reinforced_G.astype(np.float64), failed_G.astype(np.float64)
    if log.prompt_G is not None:
        n_prompts = int(log.prompt_G.max()) + 1
        numerator = weighted_counts(log.prompt_G, numerator, n_prompts)
        denominator = weighted_counts(log.prompt_G, denominator, n_prompts)
    interval = bootstrap_ratio_interval(numerator, denominator, rng=np.random.default_rng(SEED), level=LEVEL)
    no_success_G = tally.cells_GC[:, 3:6].sum(axis=1) == 0
    n_reinforced = int(reinforced_G.sum())
    return {
        "n_failed": int(cells_C[:3].sum()),
        "n_correct": int(cells_C[3:6].sum()),
        "n_reinforced_failures": n_reinforced,
        "reinforced_failure_share": {
            "value": _ratio(n_reinforced, int(cells_C[:3].sum())),
            "low": number(interval.low),
            "high": number(interval.high),
        },
        "level": LEVEL,
        "resampled": by,
        "in_all_failed_groups_share": _ratio(int(reinforced_G[no_success_G].sum()), n_reinforced),
    }


def _table(tally: Tally, cells_C: NDArray[np.int64]) -> dict[str, Any]:
    mass_C = tally.mass_GC.sum(axis=0)

    def row(values_C: Sequence[float] | NDArray[np.generic], start: int) -> dict[str, float]:
        negative, zero, positive = np.asarray(values_C)[start : start + 3].tolist()
        return {"positive": positive, "zero": zero, "negative": negative}

    return {
        verdict: {
            "rollouts": row(cells_C, start),
            "mass": row(mass_C, start),
            "token_mass": None if tally.token_mass_C is None else row(tally.token_mass_C, start),
        }
        for verdict, start in (("failed", 0), ("correct", 3))
    }


def _estimators(counterfactuals: Mapping[str, Counterfactual], judge: Judge) -> dict[str, Any]:
    return {
        name: None
        if name not in counterfactuals
        else {
            "n_reinforced_failures": total.n_reinforced_failures if judge.known else None,
            "reinforced_failure_share": _ratio(total.n_reinforced_failures, total.n_failed) if judge.known else None,
            "r_count": _ratio(total.positive, total.negative),
            "r_loss_proxy": _ratio(total.positive_mass, total.negative_mass),
            "zero_signal_groups": total.zero_signal_groups,
            "negative_only_groups": total.negative_only_groups,
            "sign_flips": total.sign_flips,
            "positive": total.positive,
            "zero": total.zero,
            "negative": total.negative,
        }
        for name in ESTIMATORS
        for total in [counterfactuals.get(name, Counterfactual())]
    }


def _logged(found: Reproduced | None, claimed: str | None) -> dict[str, Any]:
    if found is None:
        return {
            "status": "no advantages",
            "name": None,
            "also": [],
            "precision": None,
            "n_compared": 0,
            "share_reproduced": None,
            "inferred_floor": None,
            "claimed": claimed,
            "candidates": {},
        }
    match = found.candidates.get(found.name or "")
    return {
        "status": "not reproduced" if match is None else "reproduced",
        "name": found.name,
        "also": list(found.also),
        "precision": None if match is None else match.max_error,
        "n_compared": found.n_compared,
        "share_reproduced": None if match is None else match.share,
        "inferred_floor": found.inferred_floor,
        "claimed": claimed,
        "candidates": {
            name: {"max_error": number(candidate.max_error), "share_reproduced": candidate.share}
            for name, candidate in found.candidates.items()
        },
    }


def _threshold(counted: _Counted, judge: Judge, levels: Levels) -> dict[str, Any]:
    tally, ordering = counted.tally, counted.ordering
    state = None
    if judge.min_correct is not None:
        n_floored = int(np.count_nonzero(under(tally.mean_G, judge.min_correct)))
        state = counted.levels.state(judge.min_correct, n_floored)
    return {
        "floor_state": state,
        "levels": counted.levels.rows(),
        "grid": levels.too_many,
        "ordering": None
        if ordering is None
        else {
            "n_groups_checked": ordering.n_groups_checked,
            "n_groups_inverted": ordering.n_groups_inverted,
            "n_failed_above_correct": ordering.n_failed_above_correct,
            "n_compared": ordering.n_compared,
            "n_label_correct_under_min_correct": None if judge.min_correct is None else ordering.n_correct_under,
            "n_label_failed_over_min_correct": None if judge.min_correct is None else ordering.n_failed_over,
        },
    }


def _ratio(numerator: float, denominator: float) -> float | None:
    return numerator / denominator if denominator else None


def number(value: float) -> float | None:
    """The value, None where it is undefined."""
    return value if np.isfinite(value) else None
