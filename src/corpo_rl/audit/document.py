"""The audit of a log: every figure of the report in one JSON document, `docs/audit-schema.md`."""

import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from corpo_rl._version import __version__
from corpo_rl.audit.blocks import Block, Layout, blocks, weighted_counts
from corpo_rl.audit.components import Components
from corpo_rl.audit.curves import curves
from corpo_rl.audit.examples import N_EXAMPLES, ReadTexts, Strongest, examples
from corpo_rl.audit.findings import findings
from corpo_rl.audit.logged import Reproduced, reproduce
from corpo_rl.audit.patterns import Patterns, find_patterns, strongest_groups
from corpo_rl.audit.said import told
from corpo_rl.audit.tally import (
    CLASS_NAMES,
    Counterfactual,
    Judge,
    Scored,
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
from corpo_rl.core.rounding import threshold_as_read, under
from corpo_rl.errors import UsageError
from corpo_rl.records import RolloutLog

SCHEMA: Final = "corpo-rl.audit/1"
LEVEL: Final = 0.95
LARGEST: Final = 1e100
"""Of thresholds, as of the rewards that readers accept."""
N_RESAMPLES: Final = 1000
SEED: Final = 0
"""Of the bootstrap: the same log gives the same interval."""

COUNTERFACTUAL_NOTE: Final = "advantages only, not what training would have become"
R_LOSS_PROXY: Final = "sum of |A| over A > 0 / sum of |A| over A < 0; a proxy: a log holds no log-probabilities"


@dataclass(frozen=True)
class _Counted:
    tally: Tally
    counterfactuals: Mapping[str, Counterfactual]
    levels: LevelTable
    is_grid: bool
    ordering: Ordering | None
    components: Components | None
    strongest: Sequence[tuple[float, int]]
    """Largest advantages of failures, and the groups they are in."""


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
        min_correct = threshold_as_read(min_correct)
    judge = Judge(min_correct, by_label=log.labels_N is not None)

    layout = Layout.of(log)
    has_advantages = log.advantages_N is not None and bool(np.isfinite(log.advantages_N).any())
    found = reproduce(lambda: blocks(log, layout), log.step_G, min_correct) if has_advantages else None

    def headline(block: Block) -> Scored:
        if found is None:
            return recomputed(block, estimator, min_correct)
        return as_logged(block, found.signs_of, found.floor)

    patterns = find_patterns(log, layout)
    counted = _count(log, layout, judge, headline) if patterns is None else _count_patterns(patterns, judge, headline)
    document = {
        "schema": SCHEMA,
        "corpo_rl_version": __version__,
        "created": created or datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": command,
        "log": told(log, counted.tally),
        **_headline(log, counted, judge),
        "estimator": estimator if found is None else (found.name or "logged"),
        "advantages_from": "recomputed" if found is None else "logged",
        "n_without_advantage": counted.tally.n_without_advantage,
        "curves": curves(log.step_G, counted.tally, judge),
        "estimators": _estimators(counted.counterfactuals, judge),
        "counterfactual_note": COUNTERFACTUAL_NOTE,
        "logged_estimator": _logged(found, claimed),
        "threshold": _threshold(counted, judge),
        "components": [] if counted.components is None else counted.components.rows(),
        "examples": examples(
            log,
            layout,
            [group for _, group in counted.strongest],
            headline=headline,
            judge=judge,
            read_texts=read_texts,
        ),
    }
    document["findings"] = findings(document, log)
    return document


def _check(estimator: str, claimed: str | None, min_correct: float | None, *, has_advantages: bool) -> None:
    for name, value in (("estimator", estimator), ("claimed", claimed)):
        if value is not None and value not in ESTIMATORS:
            raise UsageError(f"{name}: expected one of {', '.join(ESTIMATORS)}, got {value!r}")
    if min_correct is not None and not abs(min_correct) <= LARGEST:
        raise UsageError(f"min_correct: expected a finite number of at most {LARGEST:g} in size, got {min_correct}")
    if not has_advantages and estimator not in estimators_known(min_correct):
        raise UsageError(f"estimator: {estimator} needs the least reward that counts as correct; pass --min-correct")


def _count(
    log: RolloutLog,
    layout: Layout,
    judge: Judge,
    headline: Callable[[Block], Scored],
    weight_G: NDArray[np.int64] | None = None,
) -> _Counted:
    levels = Levels()
    for block in blocks(log, layout):
        levels.see(block)
    counterfactuals = {name: Counterfactual() for name in estimators_known(judge.min_correct)}
    table, strongest = LevelTable(levels.thresholds()), Strongest()
    ordering = Ordering() if log.labels_N is not None else None
    components = Components.of(log) if len(log.components) > 1 and judge.known else None

    def tallies() -> Iterator[Tally]:
        for block in blocks(log, layout, weight_G=weight_G):
            scored, verdict_N = headline(block), judge.verdicts(block)
            tally = tally_block(block, scored, verdict_N)
            for name, counterfactual in counterfactuals.items():
                other = recomputed(block, name, judge.min_correct)
                add_counterfactual(counterfactual, block, other, scored, verdict_N)
            table.add(block, scored, tally.mean_G)
            if ordering is not None:
                ordering.add(block, judge.min_correct)
            if components is not None:
                components.add(log, block, scored, verdict_N)
            if judge.known:
                strongest.add(block, scored, verdict_N)
            yield tally

    tally = joined(tallies())
    return _Counted(tally, counterfactuals, table, levels.too_many, ordering, components, strongest.found)


def _count_patterns(patterns: Patterns, judge: Judge, headline: Callable[[Block], Scored]) -> _Counted:
    """Count each distinct group once, as often as it occurs."""
    layout = Layout.of(patterns.log)
    counted = _count(patterns.log, layout, judge, headline, patterns.weight_P)
    return replace(
        counted,
        tally=replace(counted.tally, weight_G=patterns.weight_P, pattern_G=patterns.pattern_G),
        strongest=strongest_groups(counted.strongest, patterns.pattern_G, N_EXAMPLES),
    )


def _headline(log: RolloutLog, counted: _Counted, judge: Judge) -> dict[str, Any]:
    tally = counted.tally
    cells_C = tally.total(tally.cells_GC)
    n_scorable = int(tally.total(tally.scorable_G))
    n_floored = None if judge.min_correct is None else int(tally.total(under(tally.mean_G, judge.min_correct)))
    n_pushed_down, _, n_pushed_up = tally.total(tally.signs_G3).tolist()
    down, up = tally.total(tally.signed_mass_G2).tolist()
    return {
        "n_rollouts": len(log.rewards_N),
        "n_groups": tally.n_groups,
        "n_prompts": None if log.prompt_G is None else int(log.prompt_G.max()) + 1,
        "n_unscorable": len(log.rewards_N) - n_scorable,
        "min_correct": judge.min_correct,
        "correct_by": _correct_by(log, judge),
        **_failures(log, tally, cells_C, judge),
        "table": _table(tally, cells_C) if judge.known else None,
        "length_unit": None if log.lengths_N is None else log.length_unit,
        "n_without_length": tally.n_without_length,
        "r_count": _ratio(n_pushed_up, n_pushed_down),
        "r_loss_proxy": _ratio(up, down),
        "r_loss_proxy_definition": R_LOSS_PROXY,
        "r_loss_proxy_tokens": None if tally.token_signs_2 is None else _ratio(*tally.token_signs_2[::-1].tolist()),
        "group_classes": {name: int(tally.total(tally.class_G == code)) for code, name in enumerate(CLASS_NAMES)}
        if judge.known
        else None,
        "phases": None
        if n_floored is None
        else {
            "correctness_seeking": n_floored,
            "preference_seeking": int(tally.total(~np.isnan(tally.mean_G))) - n_floored,
        },
        "zero_variance_groups": int(tally.total(tally.equal_G)),
        "n_groups_comparable": int(tally.total(tally.scorable_G > 1)),
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
    numerator, denominator = tally.spread(reinforced_G), tally.spread(failed_G)
    if log.prompt_G is not None:
        n_prompts = int(log.prompt_G.max()) + 1
        numerator = weighted_counts(log.prompt_G, numerator, n_prompts)
        denominator = weighted_counts(log.prompt_G, denominator, n_prompts)
    rng = np.random.default_rng(SEED)
    interval = bootstrap_ratio_interval(numerator, denominator, rng=rng, level=LEVEL, n_resamples=N_RESAMPLES)
    no_success_G = tally.cells_GC[:, 3:6].sum(axis=1) == 0
    n_reinforced = int(tally.total(reinforced_G))
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
        "in_all_failed_groups_share": _ratio(int(tally.total(reinforced_G * no_success_G)), n_reinforced),
    }


def _table(tally: Tally, cells_C: NDArray[np.int64]) -> dict[str, Any]:
    mass_C = tally.total(tally.mass_GC)

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


def _threshold(counted: _Counted, judge: Judge) -> dict[str, Any]:
    tally, ordering = counted.tally, counted.ordering
    state = None
    if judge.min_correct is not None:
        n_floored = int(tally.total(under(tally.mean_G, judge.min_correct)))
        state = counted.levels.state(judge.min_correct, n_floored)
    return {
        "floor_state": state,
        "levels": counted.levels.rows(),
        "grid": counted.is_grid,
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
