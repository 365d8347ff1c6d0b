"""Findings about the log itself: its advantages, labels, single rewards, lengths, rows, groups and steps."""

from collections.abc import Iterator, Mapping
from typing import Any

from corpo_rl.audit.finding import NOT_CHECKED, NOTE, OK, PAPER, WARN, Document, finding, percent
from corpo_rl.audit.logged import is_floored
from corpo_rl.core.advantages import FLOORED_ESTIMATORS
from corpo_rl.records import RolloutLog


def log_findings(document: Document, log: RolloutLog) -> Iterator[dict[str, Any]]:
    """Every finding of this kind, in report order."""
    yield from _logged(document)
    yield from _missing_advantages(document, log)
    yield from _ordering(document)
    yield from _components(document, log)
    yield from _lengths(document)
    yield from _reading(document)
    yield from _coverage(document)


def _logged(document: Document) -> Iterator[dict[str, Any]]:
    name, title = "logged_estimator", "The logged advantages are those of a known estimator"
    found = document["logged_estimator"]
    if found["status"] == "no advantages":
        yield finding(
            name,
            NOT_CHECKED,
            title,
            f"the log holds no advantages; they were recomputed with {document['estimator']}",
            needs="advantage",
        )
        return
    if found["status"] == "not reproduced":
        nearest = max(found["candidates"].items(), key=lambda item: item[1]["share_reproduced"], default=None)
        near = f"; {nearest[0]} comes nearest, for {percent(nearest[1]['share_reproduced'])} of them" if nearest else ""
        yield finding(
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
        f"{found['name']} reproduces {percent(found['share_reproduced'])} of {found['n_compared']:,} advantages, to "
        f"{found['precision']:.1g} at worst{alike}"
    )
    claimed, names = found["claimed"], (found["name"], *found["also"])
    kin = {"grpo"} if any(str(one).startswith("grpo") for one in names) else set()
    if claimed is not None and claimed not in {*names, *kin}:
        yield finding(
            name,
            WARN,
            f"The logged advantages are not those of {claimed}",
            evidence + f"; the run is said to have used {claimed}",
            action={"general": "either the log was written before the advantages were replaced, or they never were"},
            reference="https://github.com/huggingface/trl/pull/7298",
        )
    elif claimed in FLOORED_ESTIMATORS and not is_floored(found["name"]):
        yield finding(
            name,
            WARN,
            f"In this log {claimed} is the same as {found['name']}: its floor did nothing",
            evidence,
            action={"general": "see the finding on the floor, and the table of thresholds"},
            reference=PAPER,
        )
    else:
        yield finding(name, OK, title, evidence)
    floor = found["inferred_floor"]
    if floor is not None and document["min_correct"] is not None and abs(floor - document["min_correct"]) > 1e-4:
        yield finding(
            "trained_floor",
            WARN,
            "The run was trained with another floor than --min-correct",
            f"the logged advantages have a floor at {floor:g}; this audit was asked about {document['min_correct']:g}",
            action={"general": f"pass --min-correct {floor:g} to audit the run as it was trained"},
        )


def _missing_advantages(document: Document, log: RolloutLog) -> Iterator[dict[str, Any]]:
    if log.advantages_N is None or document["n_without_advantage"] == 0:
        return
    n = document["n_without_advantage"]
    yield finding(
        "missing_advantages",
        NOTE,
        "Some rollouts have a reward but no logged advantage",
        f"{n:,} of {document['n_rollouts']:,} rollouts; they are in no cell of the table",
    )


def _ordering(document: Document) -> Iterator[dict[str, Any]]:
    name, title = "reward_ordering", "No failed rollout outscores a correct one of its group"
    ordering = document["threshold"]["ordering"]
    if ordering is None:
        yield finding(
            name, NOT_CHECKED, title, "needs a label that does not come from the reward", needs="--correct-column"
        )
        return
    n, n_bad = ordering["n_groups_checked"], ordering["n_groups_inverted"]
    if not n:
        yield finding(
            name, NOT_CHECKED, title, "no group holds both a correct and a failed rollout", needs="a mixed group"
        )
    elif n_bad:
        yield finding(
            name,
            WARN,
            "Failed rollouts outscore correct ones of their group",
            f"in {n_bad:,} of {n:,} groups with both, {ordering['n_failed_above_correct']:,} failed rollouts have a "
            "higher reward than a correct one. No baseline can mend that: the reward itself is out of order",
            action={"general": "make the largest failing reward smaller than the smallest passing one"},
            reference="https://github.com/huggingface/open-r1/issues/360",
        )
    else:
        yield finding(name, OK, title, f"{n:,} groups with both correct and failed rollouts checked")
    under, over = ordering["n_label_correct_under_min_correct"], ordering["n_label_failed_over_min_correct"]
    if under is None:
        return
    name, title = "label_agreement", "min_correct and the label agree on what is correct"
    evidence = (
        f"of {ordering['n_compared']:,} rollouts, {under:,} that the label calls correct are under min_correct and "
        f"{over:,} that it calls failed are not"
    )
    action = {"general": "choose min_correct from the table of thresholds, or audit by the label alone"}
    if under + over:
        title = "min_correct and the label disagree on what is correct"
        yield finding(name, WARN, title, evidence, action=action)
    else:
        yield finding(name, OK, title, evidence)


def _components(document: Document, log: RolloutLog) -> Iterator[dict[str, Any]]:
    name, title = "components", "Which reward makes failures positive"
    rows = document["components"]
    if not rows:
        needs = "--min-correct" if len(log.components) > 1 else "several reward columns"
        yield finding(name, NOT_CHECKED, title, "needs the single rewards that add up to the total", needs=needs)
        return
    decisive = [row for row in rows if row["n_reinforced_by_it"]]
    if not decisive:
        yield finding(name, OK, title, f"no single one of {len(rows)} rewards lifts a failure over its group's mean")
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
    yield finding(
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
        yield finding(
            name, NOT_CHECKED, title, "needs the completions' lengths and what counts as correct", needs=needs
        )
        return
    up = {verdict: table[verdict]["token_mass"]["positive"] for verdict in ("failed", "correct")}
    total = up["failed"] + up["correct"]
    evidence = (
        f"{percent(up['failed'] / total)} of the upward |A| x {unit} is on failed rollouts"
        if total
        else "nothing is pushed up"
    )
    if document["n_without_length"]:
        evidence += f"; {document['n_without_length']:,} rollouts have no length and are left out"
    yield finding(name, NOTE if up["failed"] else OK, title, evidence)


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
        yield finding(
            "rows",
            status,
            "Rows that could not be read or scored",
            f"{told}; {n:,} rollouts are left, unscorable ones included",
            action=action,
        )
    else:
        yield finding(
            "rows", OK, title, f"{log['n_rows']:,} rows read{f'; {told}' if told else ''}, every reward a number"
        )
    title = "Groups are as they should be"
    if log["warnings"]:
        action = {"general": "pass --group-columns or --group-size if the groups are not those of the run"}
        yield finding(
            "grouping", WARN, "Groups may not be those of the run", " / ".join(log["warnings"]), action=action
        )
    else:
        yield finding("grouping", OK, title, f"grouped by {log['grouped_by']}, {_sizes(log['group_sizes'])}")


def _sizes(group_sizes: Mapping[str, int]) -> str:
    sizes = sorted(map(int, group_sizes))
    return f"all of {sizes[0]}" if len(sizes) == 1 else f"{len(sizes)} sizes from {sizes[0]} to {sizes[-1]}"


def _coverage(document: Document) -> Iterator[dict[str, Any]]:
    name, title = "coverage", "The log covers the run"
    steps = document["log"]["steps"]
    if steps is None:
        yield finding(name, NOT_CHECKED, title, "the log has no training steps", needs="--step-column")
        return
    span = steps["last"] - steps["first"] + 1
    evidence = f"{steps['n']:,} of the {span:,} steps from {steps['first']:,} to {steps['last']:,}"
    action = {
        "trl": "logging_steps=1 with log_completions=True: a rarer log keeps only the last batch before each entry",
    }
    yield finding(
        name, OK if steps["n"] == span else NOTE, title, evidence, action=action if steps["n"] < span else None
    )
