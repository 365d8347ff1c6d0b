"""The curation of a log as one JSON document, `docs/curation.md`."""

import datetime
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from corpo_rl._version import __version__
from corpo_rl.curation.matching import Match
from corpo_rl.curation.prompts import PromptNames
from corpo_rl.curation.rates import BELOW, CLASSES, REASONS, PromptRates, Verdicts
from corpo_rl.records import RolloutLog

SCHEMA: Final = "corpo-rl.curation/1"

N_BINS: Final = 5
"""Of the table of rates, between exactly 0 and exactly 1."""

ALL_FAILED = ("all_failed_equal", "all_failed_graded")


def curation_document(
    log: RolloutLog,
    rates: PromptRates,
    verdicts: Verdicts,
    names: PromptNames,
    *,
    settings: Mapping[str, Any],
    chosen_G: NDArray[np.bool_],
    dataset: Mapping[str, Any] | None = None,
    command: str = "",
    created: str | None = None,
) -> dict[str, Any]:
    """All figures of a curation.

    Args:
        log: Rollouts as read.
        rates: Figures of each prompt.
        verdicts: What the band says of each.
        names: What they are called.
        settings: `band`, `min_rollouts`, `uncertain`, `min_correct`, `level`, as they were used.
        chosen_G: Groups looked at. Shape [G].
        dataset: What `dataset_figures` gives, when a data set was filtered.
        command: How the curation was called, for the record.
        created: Time stamp for the record; now when left out.

    Returns:
        JSON types only, None where a figure is undefined.
    """
    kept_P, below_P = verdicts.kept_P, verdicts.reason_P == REASONS.index(BELOW)
    never_P = (rates.scorable_P > 0) & (rates.correct_P == 0)
    failed_groups_P = rates.classes_PC[:, [CLASSES.index(name) for name in ALL_FAILED]]
    lost_P = ~kept_P & (failed_groups_P.sum(axis=1) > 0)
    by_label = settings["min_correct"] is None
    return {
        "schema": SCHEMA,
        "corpo_rl_version": __version__,
        "created": created or datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": command,
        "log": {
            "format": log.format,
            "title": log.title,
            "n_files": len(log.sources),
            "sources": list(log.sources[:20]),
            "grouped_by": log.grouped_by,
            "prompts_by": names.id_column or log.columns_used.get("prompt"),
            "n_rollouts": len(log.rewards_N),
            "n_groups": len(chosen_G),
            "n_groups_looked_at": int(chosen_G.sum()),
            "steps": _steps(log, chosen_G),
            "warnings": list(log.warnings),
            "notes": list(log.notes),
        },
        "correct_by": f"label {log.label_column}" if by_label else "reward >= min_correct",
        **{name: settings[name] for name in ("min_correct", "min_rollouts", "uncertain", "level")},
        "band": list(settings["band"]),
        "n_prompts": len(kept_P),
        "n_kept": int(kept_P.sum()),
        "reasons": {reason: int((verdicts.reason_P == number).sum()) for number, reason in enumerate(REASONS)},
        "n_settled": int(verdicts.settled_P.sum()),
        "dropped_all_failed": {
            "n_prompts_never_correct": int((~kept_P & never_P).sum()),
            "n_prompts_never_correct_graded": int((~kept_P & never_P & (failed_groups_P[:, 1] > 0)).sum()),
            "n_prompts_with_such_groups": int(lost_P.sum()),
            "n_groups_equal": int(failed_groups_P[lost_P, 0].sum()),
            "n_groups_graded": int(failed_groups_P[lost_P, 1].sum()),
            "n_prompts_below_band": int((lost_P & below_P).sum()),
        },
        "by_rate": _by_rate(rates, verdicts),
        "dataset": None if dataset is None else dict(dataset),
        "prompts": [_prompt(place, rates, verdicts, names) for place in range(len(kept_P))],
    }


def dataset_figures(match: Match, kept: Sequence[bool], *, path: str, out: str) -> dict[str, Any]:
    """What filtering a data set came to: the document's part "dataset"."""
    unmatched = [number is None for number in match.prompt_of_row]
    return {
        "path": path,
        "out": out,
        "matched_by": match.how,
        "n_rows": len(kept),
        "n_rows_kept": sum(kept),
        "n_rows_unmatched": sum(unmatched),
        "n_rows_unmatched_kept": sum(is_kept for is_kept, unknown in zip(kept, unmatched, strict=True) if unknown),
        "n_prompts_unmatched": match.n_prompts_unmatched,
    }


def kept_rows(match: Match, verdicts: Verdicts, *, keep_uncertain: bool) -> list[bool]:
    """Whether each row of a data set is kept; one that the log does not know is as uncertain as one with too few."""
    kept = verdicts.kept_P.tolist()
    return [keep_uncertain if number is None else kept[number] for number in match.prompt_of_row]


def _prompt(place: int, rates: PromptRates, verdicts: Verdicts, names: PromptNames) -> dict[str, Any]:
    key = names.ids[place]
    return {
        "prompt_id": _as_json(key),
        "prompt": _as_json(names.texts[place]) if key is None else None,
        "n_rollouts": int(rates.rollouts_P[place]),
        "n_scorable": int(rates.scorable_P[place]),
        "n_correct": int(rates.correct_P[place]),
        "success_rate": _known(rates.rate_P[place]),
        "low": _known(rates.low_P[place]),
        "high": _known(rates.high_P[place]),
        "mean_reward": _known(rates.reward_P[place]),
        "group_classes": dict(zip(CLASSES, rates.classes_PC[place].tolist(), strict=True)),
        "kept": bool(verdicts.kept_P[place]),
        "reason": REASONS[verdicts.reason_P[place]],
        "settled": bool(verdicts.settled_P[place]),
    }


def _by_rate(rates: PromptRates, verdicts: Verdicts) -> list[dict[str, Any]]:
    """Prompts by success rate: 0, open bins of one width, 1; those without a rate are in none."""
    edges = [number / N_BINS for number in range(N_BINS + 1)]
    rate_P = rates.rate_P
    bins = [(0.0, 0.0, rate_P == 0)]
    for low, high in itertools.pairwise(edges):
        within_P = (rate_P > low) & (rate_P <= high) if high < 1 else (rate_P > low) & (rate_P < 1)
        bins.append((low, high, within_P))
    bins.append((1.0, 1.0, rate_P == 1))
    return [
        {
            "low": low,
            "high": high,
            "n_prompts": int(within_P.sum()),
            "n_kept": int((within_P & verdicts.kept_P).sum()),
            "mean_reward": _known(rates.reward_P[within_P].mean() if within_P.any() else math.nan),
            "group_classes": dict(zip(CLASSES, rates.classes_PC[within_P].sum(axis=0).tolist(), strict=True)),
        }
        for low, high, within_P in bins
    ]


def _steps(log: RolloutLog, chosen_G: NDArray[np.bool_]) -> dict[str, int] | None:
    if log.step_G is None:
        return None
    distinct = np.unique(log.step_G[chosen_G])
    return {"first": int(distinct[0]), "last": int(distinct[-1]), "n": len(distinct)}


def _as_json(value: Any) -> Any:
    """A value of the log in JSON's types; dates and bytes as they are written."""
    return json.loads(json.dumps(value, default=str))


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
