"""The claims that are checked, each with its quantity and its rule, and the verdicts on them.

What a claim says is in our words, after the abstract of version 3 of the paper (https://arxiv.org/abs/2511.04439) and
public summaries of version 1: its body was not available to us. The quantities, thresholds and margins are ours.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpo_rl.records import Interval
from corpo_rl.study.plan import INERT, REFERENCE, SATURATED
from corpo_rl.study.quantities import Study, log_r_count, paired, reinforced_share, solved, total
from corpo_rl.study.verdicts import Rule, overall, seed_interval

LEVEL = 0.95

SIZEABLE = 0.1
"""Share of failures from which we call it sizeable: one in ten."""
FACTOR = 1.25
"""A ratio has settled when it changes by less than this factor, either way."""
ALIKE = 1.05
"""Ratios within this factor of each other are alike."""
POINTS = 0.02
"""Differences of pass@k within two points are too small to matter."""
SKILL = 0.1
"""pass@1 up to which a policy has no skill to speak of."""

Values = Callable[[Study, str, float], NDArray[np.float64]]
"""The quantity of each seed in a cell, [S] or [S, I]: from a study, a reward and a threshold. Empty without runs."""


@dataclass(frozen=True)
class Claim:
    """A claim, as it was fixed before anything was run."""

    key: str
    """Its number, and a letter where there are several of one number."""
    text: str
    quantity: str
    """What is computed, in words."""
    rule: Rule
    values: Values
    scale: str = "points"
    """How the quantity is written: "points", "share", or "ratio" for the logarithm of one."""
    where: str = "main"
    """"main": every reward and threshold; "reward": every reward; "once"."""


def _pass_difference(split: str, one: str, other: str, *, at_most: bool = False) -> Values:
    """pass@1 of one method less that of the other, or pass@k of as many samples as there are."""

    def values(study: Study, reward: str, threshold: float) -> NDArray[np.float64]:
        k = study.results["plan"]["sizes"]["samples"] if at_most else 1
        ones, others = paired(study.runs(reward, one, threshold), study.runs(reward, other, threshold))
        if not ones:
            return np.empty(0)
        return solved(ones, split, threshold, k=k) - solved(others, split, threshold, k=k)

    return values


def _grpo_share(study: Study, reward: str, threshold: float) -> NDArray[np.float64]:
    return reinforced_share(study, study.runs(reward, REFERENCE, threshold), threshold, "early")


def _early(method: str) -> Values:
    return lambda study, reward, threshold: log_r_count(study, study.runs(reward, method, threshold), "early")


def _later(method: str, since: Any) -> Values:
    def values(study: Study, reward: str, threshold: float) -> NDArray[np.float64]:
        runs = study.runs(reward, method, threshold)
        return log_r_count(study, runs, "late") - log_r_count(study, runs, since)

    return values


def _static_over_corpo(study: Study, reward: str, threshold: float) -> NDArray[np.float64]:
    static, corpo = paired(study.runs(reward, "static", threshold), study.runs(reward, "corpo", threshold))
    return log_r_count(study, static, "late") - log_r_count(study, corpo, "late")


def _cost(study: Study, reward: str, threshold: float) -> NDArray[np.float64]:
    rounds = [row for run in study.results["runs"] for row in run.get("rounds", ())]
    return np.array([math.log(row["corpo"] / row[REFERENCE]) for row in rounds if "corpo" in row])


def _unskilled(method: str) -> Values:
    def values(study: Study, reward: str, threshold: float) -> NDArray[np.float64]:
        runs = study.runs(reward, method, threshold, part="failing", base="hedge")
        return solved(runs, "in_domain", threshold, k=1) if runs else np.empty(0)

    return values


def _inert(study: Study, reward: str, threshold: float) -> NDArray[np.float64]:
    """Steps' counts and rewards in which CoRPO over an inert floor is not dr_grpo, as the sum of all differences."""
    corpo, mean = paired(
        study.runs(reward, "corpo", INERT, part="failing"), study.runs(reward, "dr_grpo", None, part="pilot")
    )
    return np.array(
        [
            sum(
                abs(one - other)
                for name in ("up", "down", "reward")
                for one, other in zip(corpo[seed]["series"][name], mean[seed]["series"][name], strict=True)
            )
            for seed in corpo
        ],
        dtype=np.float64,
    )


def _pushed(method: str, way: str, trained_under: float) -> Values:
    """Rollouts pushed "up" or "down" in all steps under an inert or saturated threshold."""

    def values(study: Study, reward: str, threshold: float) -> NDArray[np.float64]:
        runs = study.runs(reward, method, trained_under, part="failing")
        return np.array([total(study, run, way, "all") for run in runs.values()], dtype=np.float64)

    return values


def _saturated_loss(study: Study, reward: str, threshold: float) -> NDArray[np.float64]:
    saturated, mean = paired(
        study.runs(reward, "corpo", SATURATED, part="failing"), study.runs(reward, "dr_grpo", threshold)
    )
    if not saturated:
        return np.empty(0)
    return solved(saturated, "in_domain", threshold, k=1) - solved(mean, "in_domain", threshold, k=1)


def _beating(number: str, one: str, other: str, text: str) -> Iterator[Claim]:
    """The claim that a method beats another out of domain: on each of both splits, by each of both measures."""
    letters = iter("abcdefgh"[0 if one == "static" else 4 :])
    for split, name in (("ood", "out of domain"), ("other_domain", "in the other domain")):
        for at_most, measure in ((False, "pass@1"), (True, "pass@k")):
            yield Claim(
                f"{number}{next(letters)}",
                f"{text.format(where=name)}, by {measure}",
                f"{measure} of {one} less {other}'s, {name}",
                Rule("above", 0.0, POINTS),
                _pass_difference(split, one, other, at_most=at_most),
            )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "1",
        "GRPO reinforces a sizeable share of its failures",
        f"share of the failed rollouts of the early steps with an advantage above 0, under grpo; over {SIZEABLE:g}",
        Rule("above", SIZEABLE),
        _grpo_share,
        scale="share",
    ),
    *(
        Claim(
            key,
            f"Early on {name} pushes fewer rollouts up than down",
            f"r_count of {method} over the early steps; under 1",
            Rule("below", 0.0, math.log(ALIKE)),
            _early(method),
            scale="ratio",
        )
        for key, method, name in (("2a", "static", "the static threshold"), ("2b", "corpo", "CoRPO"))
    ),
    Claim(
        "3a",
        "Later the static threshold's ratio climbs",
        "r_count of static over the late steps / over the early ones; over 1",
        Rule("above", 0.0, math.log(ALIKE)),
        _later("static", "early"),
        scale="ratio",
    ),
    Claim(
        "3b",
        "Later CoRPO's ratio settles",
        f"r_count of corpo over the late steps / over the middle ones; within a factor of {FACTOR:g}",
        Rule("within", 0.0, math.log(FACTOR)),
        _later("corpo", "middle"),
        scale="ratio",
    ),
    Claim(
        "3c",
        "Late, the static threshold's ratio is above CoRPO's",
        "r_count of static / of corpo, over the late steps; over 1",
        Rule("above", 0.0, math.log(ALIKE)),
        _static_over_corpo,
        scale="ratio",
    ),
    *_beating("4", "static", REFERENCE, "The static threshold beats GRPO {where}"),
    *_beating("4", "corpo", REFERENCE, "CoRPO beats GRPO {where}"),
    Claim(
        "5",
        "CoRPO is slightly below the static threshold in domain",
        "pass@1 of corpo less static's, in domain",
        Rule("below", 0.0, POINTS),
        _pass_difference("in_domain", "corpo", "static"),
    ),
    *_beating("6", "static", "dr_grpo", "The static threshold beats GRPO without its divisor {where}"),
    *_beating("6", "corpo", "dr_grpo", "CoRPO beats GRPO without its divisor {where}"),
    Claim(
        "7",
        "CoRPO costs no more than GRPO",
        f"seconds of a step of corpo / of grpo, timed in turn; under {ALIKE:g}",
        Rule("below", math.log(ALIKE)),
        _cost,
        scale="ratio",
        where="once",
    ),
)
"""Claims of the paper, and what we take each to mean."""

LIMITS: tuple[Claim, ...] = (
    *(
        Claim(
            key,
            f"From a base that hedges and knows nothing, {method} learns nothing",
            f"pass@1 of {method} in domain at the natural threshold; under {SKILL:g}",
            Rule("below", SKILL),
            _unskilled(method),
            scale="share",
            where="reward",
        )
        for key, method in (("F1a", "grpo"), ("F1b", "dr_grpo"), ("F1c", "static"), ("F1d", "corpo"))
    ),
    Claim(
        "F2a",
        "With an inert threshold CoRPO is the group mean without a divisor, to the last count",
        "differences of all counts and rewards of all steps, added up; 0",
        Rule("within", 0.0, 0.0),
        _inert,
        scale="count",
        where="reward",
    ),
    Claim(
        "F2b",
        "With an inert threshold the static one pushes nothing down",
        "rollouts that static pushed down; 0",
        Rule("within", 0.0, 0.0),
        _pushed("static", "down", INERT),
        scale="count",
        where="reward",
    ),
    *(
        Claim(
            key,
            f"With a saturated threshold {method} pushes nothing up",
            f"rollouts that {method} pushed up; 0",
            Rule("within", 0.0, 0.0),
            _pushed(method, "up", SATURATED),
            scale="count",
            where="reward",
        )
        for key, method in (("F3a", "static"), ("F3b", "corpo"))
    ),
    Claim(
        "F3c",
        "A saturated threshold costs skill in domain",
        "pass@1 of corpo under it less dr_grpo's, in domain at the natural threshold",
        Rule("below", 0.0, POINTS),
        _saturated_loss,
        where="reward",
    ),
)
"""What we expect where the method should fail."""


def verdicts(study: Study, claims: Sequence[Claim] = CLAIMS + LIMITS) -> list[dict[str, Any]]:
    """The verdict on every claim in every cell that has runs for it.

    Args:
        study: What was found.
        claims: Claims to judge.

    Returns:
        Of each claim and cell: key, reward and threshold (None for "once"), n_seeds, n_undefined (seeds of which
        nothing is known), `interval` at 95 % with its `verdict`, and `interval_of_all` with `verdict_of_all`, at a
        level that allows for all cells of that claim (Bonferroni).
    """
    found = []
    for claim in claims:
        cells = _cells(study, claim)
        values = {cell: claim.values(study, *cell) for cell in cells}
        known = {cell: one for cell, one in values.items() if len(one)}
        level_of_all = 1 - (1 - LEVEL) / max(len(known), 1)
        for (reward, threshold), one in known.items():
            undefined_S = ~np.isfinite(one.reshape(len(one), -1)).any(axis=1)
            intervals = [seed_interval(one, level=level) for level in (LEVEL, level_of_all)]
            found.append(
                {
                    "key": claim.key,
                    "reward": None if claim.where == "once" else reward,
                    "threshold": None if claim.where == "once" else threshold,
                    "n_seeds": int((~undefined_S).sum()),
                    "n_undefined": int(undefined_S.sum()),
                    "interval": _plain(intervals[0]),
                    "verdict": claim.rule.verdict(intervals[0]),
                    "interval_of_all": _plain(intervals[1]),
                    "verdict_of_all": claim.rule.verdict(intervals[1]),
                }
            )
    return found


def summary(found: Sequence[Mapping[str, Any]], claims: Sequence[Claim] = CLAIMS + LIMITS) -> list[dict[str, Any]]:
    """For each claim the number of cells of each verdict, with allowance for all of them, and one word."""
    rows = []
    for claim in claims:
        words = [row["verdict_of_all"] for row in found if row["key"] == claim.key]
        if words:
            counts = {word: words.count(word) for word in ("supported", "not supported", "undecided")}
            rows.append({"key": claim.key, "n_cells": len(words), **counts, "overall": overall(words)})
    return rows


def _cells(study: Study, claim: Claim) -> list[tuple[str, float]]:
    if claim.where == "main":
        return study.cells()
    natural = [(reward, values[0]) for reward, values in study.results["plan"]["thresholds"].items()]
    return natural if claim.where == "reward" else natural[:1]


def _plain(interval: Interval) -> dict[str, float | None]:
    """To six digits, NaN as None."""
    return {name: None if math.isnan(value) else float(f"{value:.6g}") for name, value in asdict(interval).items()}
