"""What the figures say, in findings: each with a status, its evidence in numbers, what to do, and where to read on.

OK says that something was checked and is fine; NOT CHECKED names what was missing. A positive advantage on a failure
can be intended shaping, so findings show, and leave the verdict to people.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from corpo_rl.audit.finding import FEW, NOT_CHECKED, NOTE, OK, PAPER, WARN, Document, finding, percent
from corpo_rl.audit.findings_log import log_findings
from corpo_rl.audit.logged import is_floored
from corpo_rl.records import RolloutLog

SWITCH = {
    "trl": "CorpoConfig(advantage_estimator='corpo', min_correct=...) with CorpoTrainer in place of GRPOTrainer",
    "verl": "algorithm.adv_estimator=corpo +algorithm.corpo_min_correct=..., with corpo-rl in verl's environment",
    "general": "or let shaping count only once a rollout is correct, return None for what cannot be scored, and widen "
    "the gap between the best failing and the least passing reward",
}

WATCH = {
    "trl": "corpo_rl.training.audit_callback.watch(trainer, min_correct=...) logs the classes of groups beside "
    "frac_reward_zero_std",
    "general": "watch groups by class, not by variance alone; easier or partly solved prompts have more to compare",
}

KEEP_GROUPS = {
    "trl": "TRL's GRPOTrainer keeps such groups; do not filter them in a custom sampler",
    "verl": "algorithm.filter_groups.enable=False",
    "general": "open-instruct: filter_zero_std_samples false; tinker-cookbook: remove_constant_reward_groups false; "
    "slime: no check_reward_nonzero_std",
}


def findings(document: Document, log: RolloutLog) -> list[dict[str, Any]]:
    """Every finding, checked or not, in report order."""
    return [
        _threshold_given(document),
        *_reinforced(document),
        *_floor(document),
        *_signal(document),
        *_filters(document),
        *log_findings(document, log),
    ]


def _threshold_given(document: Document) -> dict[str, Any]:
    title = "What counts as correct is stated"
    if document["correct_by"] is None:
        return finding(
            "correctness",
            NOT_CHECKED,
            title,
            "nothing says from which reward on a rollout is correct, and no value suits every reward",
            needs="--min-correct, or --correct-column",
            action={"general": "choose a level from the table of thresholds and pass it with --min-correct"},
        )
    evidence = (
        f"correct means {document['correct_by']}: {document['n_correct']:,} correct, {document['n_failed']:,} failed"
    )
    return finding("correctness", OK, title, evidence)


def _reinforced(document: Document) -> Iterator[dict[str, Any]]:
    name, title = "reinforced_failures", "Failed rollouts that were reinforced"
    if document["correct_by"] is None:
        yield finding(name, NOT_CHECKED, title, "needs to know which rollouts failed", needs="--min-correct")
        return
    n_failed, n_reinforced = document["n_failed"], document["n_reinforced_failures"]
    share = document["reinforced_failure_share"]
    if not n_failed:
        yield finding(
            name, NOT_CHECKED, title, "no rollout failed, so none could be reinforced", needs="a failed rollout"
        )
        return
    whose = _whose(document)
    if not n_reinforced:
        yield finding(name, OK, title, f"none of {n_failed:,} failed rollouts had an advantage above 0 ({whose})")
        return
    alone = document["in_all_failed_groups_share"]
    evidence = (
        f"{n_reinforced:,} of {n_failed:,} failed rollouts ({percent(share['value'])}{_bounds(share)}) had an "
        f"advantage above 0 ({whose}); {percent(alone)} of them sit in groups without one correct rollout"
    )
    status = NOTE if share["value"] <= FEW else WARN
    yield finding(
        name,
        status,
        title,
        evidence + ". It can be intended shaping: partial credit is why failures differ. If it is not, the policy is "
        "being taught to fail better",
        action=SWITCH,
        reference=PAPER,
    )


def _floor(document: Document) -> Iterator[dict[str, Any]]:
    name, title = "floor", "A floor at min_correct separates something"
    state, floor = document["threshold"]["floor_state"], document["min_correct"]
    if state is None:
        yield finding(name, NOT_CHECKED, title, "a floor is a reward level", needs="--min-correct")
        return
    phases = document["phases"]
    n_groups = phases["correctness_seeking"] + phases["preference_seeking"]
    share = percent(phases["correctness_seeking"] / n_groups) if n_groups else "n/a"
    if state == "inert":
        yield finding(
            name,
            WARN,
            "INERT THRESHOLD: CoRPO with this min_correct would be the plain group mean",
            f"min_correct {floor:g} is at or under every one of {n_groups:,} group means, so the floor never binds",
            action={
                "trl": "raise CorpoConfig(min_correct=...) above the best failing reward",
                "verl": "raise +algorithm.corpo_min_correct above the best failing reward",
                "general": "never take a percentile of the rewards for a threshold: a point mass at 0 makes it 0",
            },
            reference=PAPER,
        )
    elif state == "saturated":
        yield _saturated(document, f"{share} of {n_groups:,} group means are under it")
    elif state == "unknown":
        yield finding(name, NOT_CHECKED, title, "no rollout has a reward", needs="a reward")
    else:
        evidence = f"{share} of {n_groups:,} group means are under min_correct {floor:g}, and some rewards exceed it"
        yield finding(name, OK, title, evidence)


def _saturated(document: Document, share: str) -> dict[str, Any]:
    """A warning, but for a run without a floor on rewards of 0 and 1, where any threshold says the same of failures."""
    floor, levels = document["min_correct"], document["threshold"]["levels"]
    names = (document["logged_estimator"]["name"], document["logged_estimator"]["claimed"])
    binary = len(levels) == 2 and not document["threshold"]["grid"] and not any(map(is_floored, names))
    advice = "lower min_correct to the least reward that still means correct, or start from a better policy"
    if binary:
        low, high = (level["min_correct"] for level in levels)
        advice = (
            f"with rewards of {low:g} and {high:g} a min_correct between them fails the same rollouts and leaves praise"
        )
    return finding(
        "floor",
        NOTE if binary else WARN,
        "SATURATED THRESHOLD: nothing exceeds min_correct, so CoRPO could only punish",
        f"no reward exceeds min_correct {floor:g}; {share}",
        action={"general": advice},
        reference=PAPER,
    )


def _signal(document: Document) -> Iterator[dict[str, Any]]:
    name, title = "signal", "Groups have something to compare"
    n, n_equal = document["n_groups_comparable"], document["zero_variance_groups"]
    if not n:
        yield finding(
            name,
            WARN,
            "NO GROUPS: no group has two rollouts with a reward, so nothing was compared with anything",
            f"{document['n_groups']:,} groups, grouped by {document['log']['grouped_by']}",
            action={"general": "check the grouping: pass --group-columns or --group-size"},
        )
    elif n_equal == n:
        yield finding(
            name,
            WARN,
            "NO SIGNAL: every group has one and the same reward throughout",
            f"all {n:,} groups have zero variance: a group-mean baseline gives every rollout an advantage of 0",
            action={"general": "check the reward function, or use prompts that are sometimes solved"},
        )
    else:
        status = NOTE if n_equal > n / 2 else OK
        evidence = f"{n_equal:,} of {n:,} groups ({percent(n_equal / n)}) have zero variance, up to rounding"
        yield finding(name, status, title, evidence)
    classes = document["group_classes"]
    if classes is None or not n:
        return
    total, unsolved = document["n_groups"], classes["all_failed_graded"]
    none_correct = unsolved + classes["all_failed_equal"]
    name, title = "unsolved_groups", "Groups without one correct rollout that still look like learning"
    if unsolved:
        evidence = (
            f"{none_correct:,} of {total:,} groups ({percent(none_correct / total)}) hold no correct rollout; "
            f"{unsolved:,} of these have variance, so metrics such as frac_reward_zero_std count them as fine, and "
            "every positive advantage a group mean gives in them is a failure's"
        )
        status = WARN if unsolved / total > FEW else NOTE
        yield finding(name, status, title, evidence, action=WATCH, reference=PAPER)
    else:
        evidence = (
            f"no group without a correct rollout has variance ({none_correct:,} of {total:,} hold no correct one)"
        )
        yield finding(name, OK, title, evidence)


def _filters(document: Document) -> Iterator[dict[str, Any]]:
    classes, corpo = document["group_classes"], document["estimators"]["corpo"]
    if classes is None or corpo is None or not classes["all_failed_equal"]:
        return
    n, total = classes["all_failed_equal"], document["n_groups"]
    yield finding(
        "zero_variance_filter",
        NOTE,
        "A zero-variance or dynamic-sampling filter would delete signal that a floor has",
        f"{n:,} of {total:,} groups ({percent(n / total)}) failed with one and the same reward: advantage 0 under a "
        f"group mean, below 0 under CoRPO. Under CoRPO {corpo['negative_only_groups']:,} groups would only be pushed "
        "down",
        action=KEEP_GROUPS,
        reference="https://github.com/verl-project/verl/issues/4786",
    )


def _whose(document: Document) -> str:
    if document["advantages_from"] == "recomputed":
        return f"recomputed with {document['estimator']}"
    return f"as logged, {document['estimator']}" if document["estimator"] != "logged" else "as logged"


def _bounds(interval: Mapping[str, float | None]) -> str:
    if interval["low"] is None or interval["high"] is None:
        return ""
    return f", 95 % interval {100 * interval['low']:.1f} to {100 * interval['high']:.1f}"
