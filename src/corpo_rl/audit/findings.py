"""What the figures say, in findings: each with a status, its evidence in numbers, what to do, and where to read on.

OK says that something was checked and is fine; NOT CHECKED names what was missing. A positive advantage on a failure
can be intended shaping, so findings show, and leave the verdict to people.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from corpo_rl.audit.logged import is_floored
from corpo_rl.core.advantages import FLOORED_ESTIMATORS
from corpo_rl.records import RolloutLog

Document = Mapping[str, Any]

OK, NOTE, WARN, NOT_CHECKED = "OK", "NOTE", "WARN", "NOT CHECKED"

FEW = 0.05
"""Share of the failures up to which reinforced ones are a note, and over which they are a warning. Ours."""

PAPER = "Garg and Venkatesh, https://arxiv.org/abs/2511.04439"

SWITCH = {
    "trl": "CorpoConfig(advantage_estimator='corpo', min_correct=...) with CorpoTrainer in place of GRPOTrainer",
    "verl": "no built-in estimator has a floor: replace the advantages after algorithm.adv_estimator=grpo with "
    "algorithm.norm_adv_by_std_in_grpo=False (A_corpo = A - max(0, min_correct - group mean))",
    "general": "or gate shaping terms on correctness, return None for what cannot be scored, widen the gap between the "
    "best failing and the least passing reward",
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
        *_logged(document),
        *_size_of_logged(document, log),
        *_ordering(document),
        *_components(document, log),
        *_lengths(document),
        *_reading(document),
        *_coverage(document),
    ]


def _finding(
    name: str,
    status: str,
    title: str,
    evidence: str,
    *,
    needs: str | None = None,
    action: Mapping[str, str] | None = None,
    reference: str | None = None,
) -> dict[str, Any]:
    return {
        "id": name,
        "status": status,
        "title": title,
        "evidence": evidence,
        "needs": needs,
        "action": dict(action or {}),
        "reference": reference,
    }


def _threshold_given(document: Document) -> dict[str, Any]:
    title = "What counts as correct is stated"
    if document["correct_by"] is None:
        return _finding(
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
    return _finding("correctness", OK, title, evidence)


def _reinforced(document: Document) -> Iterator[dict[str, Any]]:
    name, title = "reinforced_failures", "Failed rollouts that were reinforced"
    if document["correct_by"] is None:
        yield _finding(name, NOT_CHECKED, title, "needs to know which rollouts failed", needs="--min-correct")
        return
    n_failed, n_reinforced = document["n_failed"], document["n_reinforced_failures"]
    share = document["reinforced_failure_share"]
    if not n_failed:
        yield _finding(
            name, NOT_CHECKED, title, "no rollout failed, so none could be reinforced", needs="a failed rollout"
        )
        return
    whose = _whose(document)
    if not n_reinforced:
        yield _finding(name, OK, title, f"none of {n_failed:,} failed rollouts had an advantage above 0 ({whose})")
        return
    alone = document["in_all_failed_groups_share"]
    evidence = (
        f"{n_reinforced:,} of {n_failed:,} failed rollouts ({_percent(share['value'])}{_bounds(share)}) had an "
        f"advantage above 0 ({whose}); {_percent(alone)} of them sit in groups without one correct rollout"
    )
    status = NOTE if share["value"] <= FEW else WARN
    yield _finding(
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
        yield _finding(name, NOT_CHECKED, title, "a floor is a reward level", needs="--min-correct")
        return
    phases = document["phases"]
    n_groups = phases["correctness_seeking"] + phases["preference_seeking"]
    share = _percent(phases["correctness_seeking"] / n_groups) if n_groups else "n/a"
    if state == "inert":
        yield _finding(
            name,
            WARN,
            "INERT THRESHOLD: CoRPO with this min_correct would be the plain group mean",
            f"min_correct {floor:g} is at or under every one of {n_groups:,} group means, so the floor never binds",
            action={
                "trl": "raise CorpoConfig(min_correct=...) above the best failing reward",
                "verl": "raise algorithm.corpo_r_min_correct above the best failing reward",
                "general": "never take a percentile of the rewards for a threshold: a point mass at 0 makes it 0",
            },
            reference=PAPER,
        )
    elif state == "saturated":
        yield _finding(
            name,
            WARN,
            "SATURATED THRESHOLD: nothing exceeds min_correct, so CoRPO could only punish",
            f"no reward exceeds min_correct {floor:g}; {share} of {n_groups:,} group means are under it",
            action={
                "general": "lower min_correct to the least reward that still means correct, or start from a better "
                "policy"
            },
            reference=PAPER,
        )
    elif state == "unknown":
        yield _finding(name, NOT_CHECKED, title, "no rollout has a reward", needs="a reward")
    else:
        evidence = f"{share} of {n_groups:,} group means are under min_correct {floor:g}, and some rewards exceed it"
        yield _finding(name, OK, title, evidence)


def _signal(document: Document) -> Iterator[dict[str, Any]]:
    name, title = "signal", "Groups have something to compare"
    n, n_equal = document["n_groups_comparable"], document["zero_variance_groups"]
    if not n:
        yield _finding(
            name,
            WARN,
            "NO GROUPS: no group has two rollouts with a reward, so nothing was compared with anything",
            f"{document['n_groups']:,} groups, grouped by {document['log']['grouped_by']}",
            action={"general": "check the grouping: pass --group-columns or --group-size"},
        )
    elif n_equal == n:
        yield _finding(
            name,
            WARN,
            "NO SIGNAL: every group has one and the same reward throughout",
            f"all {n:,} groups have zero variance: a group-mean baseline gives every rollout an advantage of 0",
            action={"general": "check the reward function, or use prompts that are sometimes solved"},
        )
    else:
        status = NOTE if n_equal > n / 2 else OK
        evidence = f"{n_equal:,} of {n:,} groups ({_percent(n_equal / n)}) have zero variance, up to rounding"
        yield _finding(name, status, title, evidence)
    classes = document["group_classes"]
    if classes is None or not n:
        return
    total, unsolved = document["n_groups"], classes["all_failed_graded"]
    none_correct = unsolved + classes["all_failed_equal"]
    name, title = "unsolved_groups", "Groups without one correct rollout that still look like learning"
    if unsolved:
        evidence = (
            f"{none_correct:,} of {total:,} groups ({_percent(none_correct / total)}) hold no correct rollout; "
            f"{unsolved:,} of these have variance, so metrics such as frac_reward_zero_std count them as fine, and "
            "every positive advantage a group mean gives in them is a failure's"
        )
        status = WARN if unsolved / total > FEW else NOTE
        yield _finding(name, status, title, evidence, action=SWITCH, reference=PAPER)
    else:
        evidence = (
            f"no group without a correct rollout has variance ({none_correct:,} of {total:,} hold no correct one)"
        )
        yield _finding(name, OK, title, evidence)


def _filters(document: Document) -> Iterator[dict[str, Any]]:
    classes, corpo = document["group_classes"], document["estimators"]["corpo"]
    if classes is None or corpo is None or not classes["all_failed_equal"]:
        return
    n, total = classes["all_failed_equal"], document["n_groups"]
    yield _finding(
        "zero_variance_filter",
        NOTE,
        "A zero-variance or dynamic-sampling filter would delete signal that a floor has",
        f"{n:,} of {total:,} groups ({_percent(n / total)}) failed with one and the same reward: advantage 0 under a "
        f"group mean, below 0 under CoRPO. Under CoRPO {corpo['negative_only_groups']:,} groups would only be pushed "
        "down",
        action=KEEP_GROUPS,
        reference="https://github.com/verl-project/verl/issues/4786",
    )


def _logged(document: Document) -> Iterator[dict[str, Any]]:
    name, title = "logged_estimator", "The logged advantages are those of a known estimator"
    found = document["logged_estimator"]
    if found["status"] == "no advantages":
        yield _finding(
            name,
            NOT_CHECKED,
            title,
            f"the log holds no advantages; they were recomputed with {document['estimator']}",
            needs="advantage",
        )
        return
    if found["status"] == "not reproduced":
        nearest = max(found["candidates"].items(), key=lambda item: item[1]["share_reproduced"], default=None)
        near = (
            f"; {nearest[0]} comes nearest, for {_percent(nearest[1]['share_reproduced'])} of them" if nearest else ""
        )
        yield _finding(
            name,
            WARN,
            "No estimator known here reproduces the logged advantages",
            f"{found['n_compared']:,} advantages compared{near}. Groups may be wrong, or rewards were changed (KL, "
            "length penalty, weights) before they became advantages",
            action={"general": "check --group-columns or --group-size, --reward-column and --reward-weights"},
            reference="https://github.com/PeterGriffinJin/Search-R1/issues/88",
        )
        return
    alike = f" ({', '.join(found['also'])} cannot be told from it in this log)" if found["also"] else ""
    evidence = (
        f"{found['name']} reproduces {_percent(found['share_reproduced'])} of {found['n_compared']:,} advantages, to "
        f"{found['precision']:.1g} at worst{alike}"
    )
    claimed, names = found["claimed"], (found["name"], *found["also"])
    kin = {"grpo"} if any(str(one).startswith("grpo") for one in names) else set()
    if claimed is not None and claimed not in {*names, *kin}:
        yield _finding(
            name,
            WARN,
            f"The logged advantages are not those of {claimed}",
            evidence + f"; the run is said to have used {claimed}",
            action={"general": "either the log was written before the advantages were replaced, or they never were"},
            reference="https://github.com/huggingface/trl/pull/7298",
        )
    elif claimed in FLOORED_ESTIMATORS and not is_floored(found["name"]):
        yield _finding(
            name,
            WARN,
            f"In this log {claimed} is the same as {found['name']}: its floor did nothing",
            evidence,
            action={"general": "see the finding on the floor, and the table of thresholds"},
            reference=PAPER,
        )
    else:
        yield _finding(name, OK, title, evidence)
    floor = found["inferred_floor"]
    if floor is not None and document["min_correct"] is not None and abs(floor - document["min_correct"]) > 1e-4:
        yield _finding(
            "trained_floor",
            WARN,
            "The run was trained with another floor than --min-correct",
            f"the logged advantages have a floor at {floor:g}; this audit was asked about {document['min_correct']:g}",
            action={"general": f"pass --min-correct {floor:g} to audit the run as it was trained"},
        )


def _size_of_logged(document: Document, log: RolloutLog) -> Iterator[dict[str, Any]]:
    if log.advantages_N is None or document["n_without_advantage"] == 0:
        return
    n = document["n_without_advantage"]
    yield _finding(
        "missing_advantages",
        NOTE,
        "Some rollouts have a reward but no logged advantage",
        f"{n:,} of {document['n_rollouts']:,} rollouts; they are in no cell of the table",
    )


def _ordering(document: Document) -> Iterator[dict[str, Any]]:
    name, title = "reward_ordering", "No failed rollout outscores a correct one of its group"
    ordering = document["threshold"]["ordering"]
    if ordering is None:
        yield _finding(
            name, NOT_CHECKED, title, "needs a label that does not come from the reward", needs="--correct-column"
        )
        return
    n, n_bad = ordering["n_groups_checked"], ordering["n_groups_inverted"]
    if not n:
        yield _finding(
            name, NOT_CHECKED, title, "no group holds both a correct and a failed rollout", needs="a mixed group"
        )
    elif n_bad:
        yield _finding(
            name,
            WARN,
            "Failed rollouts outscore correct ones of their group",
            f"in {n_bad:,} of {n:,} groups with both, {ordering['n_failed_above_correct']:,} failed rollouts have a "
            "higher reward than a correct one. No baseline can mend that: the reward itself is out of order",
            action={"general": "make the largest failing reward smaller than the smallest passing one"},
            reference="https://github.com/huggingface/open-r1/issues/360",
        )
    else:
        yield _finding(name, OK, title, f"{n:,} groups with both correct and failed rollouts checked")
    under, over = ordering["n_label_correct_under_min_correct"], ordering["n_label_failed_over_min_correct"]
    if under is None:
        return
    name, title = "label_agreement", "min_correct and the label agree on what is correct"
    evidence = (
        f"of {ordering['n_compared']:,} rollouts, {under:,} that the label calls correct are under min_correct and "
        f"{over:,} that it calls failed are not"
    )
    action = {"general": "choose min_correct from the table of thresholds, or audit by the label alone"}
    yield _finding(name, WARN if under + over else OK, title, evidence, action=action if under + over else None)


def _components(document: Document, log: RolloutLog) -> Iterator[dict[str, Any]]:
    name, title = "components", "Which reward makes failures positive"
    rows = document["components"]
    if not rows:
        needs = "--min-correct" if len(log.components) > 1 else "several reward columns"
        yield _finding(name, NOT_CHECKED, title, "needs the single rewards that add up to the total", needs=needs)
        return
    decisive = [row for row in rows if row["n_reinforced_by_it"]]
    if not decisive:
        yield _finding(name, OK, title, f"no single one of {len(rows)} rewards lifts a failure over its group's mean")
        return
    top = max(decisive, key=lambda row: row["n_reinforced_by_it"])
    evidence = (
        f"{top['n_reinforced_by_it']:,} of {document['n_reinforced_failures']:,} reinforced failures would not be "
        f"above their group's mean without '{top['name']}'"
    )
    if top["std_all_failed"] is not None:
        evidence += (
            f"; in groups without a correct rollout its standard deviation is {top['std_all_failed']:.3g} on average"
        )
    yield _finding(
        name,
        NOTE,
        title,
        evidence,
        action={
            "trl": f"lower the weight of '{top['name']}' in reward_weights, or let it count only for correct rollouts",
            "general": "a shaping term that only counts once a rollout is correct cannot reinforce a failure",
        },
        reference="https://github.com/allenai/open-instruct/pull/659",
    )


def _lengths(document: Document) -> Iterator[dict[str, Any]]:
    name, title = "token_mass", "How much of the token-weighted signal pushes failures up"
    unit, table = document["length_unit"], document["table"]
    if unit is None or table is None:
        needs = "--min-correct" if unit is not None else "--length-column"
        yield _finding(
            name, NOT_CHECKED, title, "needs the completions' lengths and what counts as correct", needs=needs
        )
        return
    up = {verdict: table[verdict]["token_mass"]["positive"] for verdict in ("failed", "correct")}
    total = up["failed"] + up["correct"]
    evidence = (
        f"{_percent(up['failed'] / total)} of the upward |A| x {unit} is on failed rollouts"
        if total
        else "nothing is pushed up"
    )
    if document["n_without_length"]:
        evidence += f"; {document['n_without_length']:,} rollouts have no length and are left out"
    yield _finding(name, NOTE if up["failed"] else OK, title, evidence)


def _reading(document: Document) -> Iterator[dict[str, Any]]:
    log, n = document["log"], document["n_rollouts"]
    lost = {**log["unscorable"], **{f"dropped: {reason}": count for reason, count in log["dropped"].items()}}
    told = ", ".join(f"{count:,} {reason}" for reason, count in lost.items() if count)
    n_bad = sum(log["unscorable"].values()) + sum(
        count for reason, count in log["dropped"].items() if reason.startswith("broken")
    )
    title = "Rows that could be read and scored"
    if n_bad:
        status = WARN if n_bad > n / 100 else NOTE
        action = {"general": "look at the places listed under what was read; a reward of None or NaN is no failure"}
        yield _finding(
            "rows", status, title, f"{told}; {n:,} rollouts are left, unscorable ones included", action=action
        )
    else:
        yield _finding(
            "rows", OK, title, f"{log['n_rows']:,} rows read{f'; {told}' if told else ''}, every reward a number"
        )
    title = "Groups are as they should be"
    if log["warnings"]:
        action = {"general": "pass --group-columns or --group-size if the groups are not those of the run"}
        yield _finding("grouping", WARN, title, " / ".join(log["warnings"]), action=action)
    else:
        yield _finding(
            "grouping", OK, title, f"grouped by {log['grouped_by']}, {len(log['group_sizes'])} group size(s)"
        )


def _coverage(document: Document) -> Iterator[dict[str, Any]]:
    name, title = "coverage", "The log covers the run"
    steps = document["log"]["steps"]
    if steps is None:
        yield _finding(name, NOT_CHECKED, title, "the log has no training steps", needs="--step-column")
        return
    span = steps["last"] - steps["first"] + 1
    evidence = f"{steps['n']:,} of the {span:,} steps from {steps['first']:,} to {steps['last']:,}"
    action = {
        "trl": "logging_steps=1 with log_completions=True: a rarer log keeps only the last batch before each entry",
    }
    yield _finding(
        name, OK if steps["n"] == span else NOTE, title, evidence, action=action if steps["n"] < span else None
    )


def _whose(document: Document) -> str:
    if document["advantages_from"] == "recomputed":
        return f"recomputed with {document['estimator']}"
    return f"as logged, {document['estimator']}" if document["estimator"] != "logged" else "as logged"


def _percent(value: float | None) -> str:
    return "n/a" if value is None else f"{100 * value:.1f} %"


def _bounds(interval: Mapping[str, float | None]) -> str:
    if interval["low"] is None or interval["high"] is None:
        return ""
    return f", 95 % interval {100 * interval['low']:.1f} to {100 * interval['high']:.1f}"
