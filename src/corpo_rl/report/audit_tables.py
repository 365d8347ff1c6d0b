"""The tables of an audit, as words: the same cells in the terminal, in Markdown and in HTML."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from corpo_rl.report.audit_schema import CLASSES, ESTIMATORS
from corpo_rl.report.audit_view import (
    LONGEST_SENTENCE,
    SIGNS,
    Document,
    count,
    figure,
    is_headline_estimator,
    level,
    picked,
    share,
    shown,
    threshold_text,
    whose,
)

ROWS_OF_CURVES: Final = 10


@dataclass(frozen=True)
class Table:
    """A table whose cells are written out."""

    title: str
    head: tuple[str, ...]
    """Heading of the row names, then of each column."""
    rows: tuple[tuple[str, ...], ...]
    """The row's name, then its cells."""
    caption: str = ""
    """What to know about it."""
    words: tuple[int, ...] = ()
    """Columns that hold words rather than figures."""

    def turned(self) -> "Table":
        """The same with rows for columns."""
        head, *rows = zip(self.head, *self.rows, strict=True)
        return Table(self.title, head, tuple(rows), self.caption)


def signs_table(audit: Document) -> Table | None:
    """{failed, correct} x {A > 0, A = 0, A < 0}, in rollouts and in mass; None when nothing says what is correct."""
    if audit["table"] is None:
        return None
    rows = []
    for kind, cells in audit["table"].items():
        for measure, label, write in (
            ("rollouts", "rollouts", count),
            ("mass", "|A|", figure),
            ("token_mass", f"|A| x {audit['length_unit']}", figure),
        ):
            if cells[measure] is not None:
                rows.append((f"{kind}, {label}", *(write(cells[measure][sign]) for sign in SIGNS)))
    rows.sort(key=lambda row: row[0].startswith("correct"))
    without = audit["n_without_length"]
    caption = "|A| is the size of the advantage, summed: how hard the update pushes."
    if without:
        caption += f" {count(without)} rollouts without a length are left out of |A| x {audit['length_unit']}."
    return Table("What was pushed up and down", ("", *SIGNS.values()), tuple(rows), caption)


def ratios(audit: Document) -> list[tuple[str, str, str]]:
    """r_count and the proxies of r_loss: name, value, meaning."""
    return [
        ("r_count", figure(audit["r_count"]), "rollouts with A > 0 for each with A < 0"),
        ("r_loss proxy", figure(audit["r_loss_proxy"]), shown(audit["r_loss_proxy_definition"], LONGEST_SENTENCE)),
        *(
            []
            if audit["length_unit"] is None
            else [
                (
                    f"r_loss proxy, by {audit['length_unit']}",
                    figure(audit["r_loss_proxy_tokens"]),
                    f"the same with |A| x {audit['length_unit']}",
                )
            ]
        ),
    ]


def classes_table(audit: Document) -> Table | None:
    """Groups of each kind; None when nothing says what is correct."""
    if audit["group_classes"] is None:
        return None
    rows = [
        (name.replace("_", " "), count(audit["group_classes"][name]), about)
        for name, about in CLASSES.items()
        if name != "unscorable" or audit["group_classes"][name]
    ]
    caption = f"{count(audit['n_groups'])} groups. {zero_variance(audit)}"
    return Table(
        "Kinds of groups", ("", "groups", "in it"), tuple(rows), f"{caption} {phases(audit)}".strip(), words=(2,)
    )


def zero_variance(audit: Document) -> str:
    """Groups with zero variance, in a sentence."""
    return (
        f"{count(audit['zero_variance_groups'])} of {count(audit['n_groups_comparable'])} groups with two rewards or "
        "more have zero variance, up to rounding."
    )


def phases(audit: Document) -> str:
    """Groups on each side of the floor, in a sentence; empty without min_correct."""
    if audit["phases"] is None:
        return ""
    return (
        f"The mean reward is under min_correct in {count(audit['phases']['correctness_seeking'])} groups "
        f"(correctness-seeking) and not in {count(audit['phases']['preference_seeking'])} (preference-seeking)."
    )


ESTIMATOR_COLUMNS: Final = {
    "reinforced_failure_share": ("reinforced", share),
    "n_reinforced_failures": ("failures", count),
    "r_count": ("r_count", figure),
    "r_loss_proxy": ("r_loss proxy", figure),
    "sign_flips": ("sign flips", count),
    "zero_signal_groups": ("all A = 0", count),
    "negative_only_groups": ("only A < 0", count),
    **{sign: (label, count) for sign, label in SIGNS.items()},
}
"""Columns of the counterfactual table: heading, and how its cells are written."""


def estimator_names(audit: Document) -> list[str]:
    """Estimators of the counterfactual table, in report order."""
    listed = [name for name in ESTIMATORS if name in audit["estimators"]]
    return listed + sorted(set(audit["estimators"]) - set(listed))


def estimators_table(audit: Document) -> Table:
    """What each estimator would have done with the same rewards."""
    rows = []
    for name in estimator_names(audit):
        found = audit["estimators"][name]
        mark = " *" if is_headline_estimator(audit, name) else ""
        cells = ("-" if found is None else write(found[key]) for key, (_, write) in ESTIMATOR_COLUMNS.items())
        rows.append((shown(name, 30) + mark, *cells))
    return Table(
        "Other estimators on the same rewards",
        ("", *(head for head, _ in ESTIMATOR_COLUMNS.values())),
        tuple(rows),
        estimators_caption(audit),
    )


def estimators_caption(audit: Document) -> str:
    """What to know about the counterfactual table."""
    missing = any(found is None for found in audit["estimators"].values())
    return (
        f"{capital(shown(audit['counterfactual_note'], LONGEST_SENTENCE))}. Reinforced: failed rollouts with A > 0, "
        "share and number. Sign flips: rollouts whose advantage has another sign than the headline's. All A = 0, only "
        "A < 0: groups."
        + (" *: the headline's estimator." if any(is_headline_estimator(audit, n) for n in audit["estimators"]) else "")
        + (" -: needs --min-correct." if missing else "")
    )


def logged_sentences(audit: Document) -> list[str]:
    """Which estimator reproduces the logged advantages, and to what precision."""
    found = audit["logged_estimator"]
    told = []
    if found["status"] == "no advantages":
        told.append(f"The log holds no advantages, so none could be checked. Advantages are {whose(audit)}.")
    elif found["status"] == "reproduced":
        told.append(
            f"{shown(found['name'])} reproduces {share(found['share_reproduced'])} of {count(found['n_compared'])} "
            f"logged advantages; the largest difference is {figure(found['precision'])}."
        )
    else:
        told.append(f"No estimator known here reproduces the {count(found['n_compared'])} logged advantages.")
    if found["also"]:
        told.append(f"In this log it cannot be told from {shown(', '.join(found['also']), LONGEST_SENTENCE)}.")
    if found["claimed"] is not None:
        told.append(f"The run is said to have used {shown(found['claimed'])}.")
    if found["inferred_floor"] is not None:
        told.append(f"The logged advantages show a floor at {level(found['inferred_floor'])}.")
    return told


def candidates_table(audit: Document) -> Table | None:
    """How near each estimator comes to the logged advantages, the nearest first; None without advantages."""
    found = audit["logged_estimator"]["candidates"]
    if not found:
        return None
    order = sorted(
        found, key=lambda name: (-(found[name]["share_reproduced"] or 0), found[name]["max_error"] or 0, name)
    )
    rows = tuple(
        (shown(name, 40), share(found[name]["share_reproduced"]), figure(found[name]["max_error"])) for name in order
    )
    return Table("Logged against recomputed advantages", ("", "reproduced", "largest difference"), rows)


def levels_table(audit: Document) -> Table | None:
    """What other thresholds would say of the same advantages; None without rewards."""
    found = audit["threshold"]["levels"]
    if not found:
        return None
    rows = tuple(
        (
            threshold_text(row["min_correct"], below) + (" *" if row["min_correct"] == audit["min_correct"] else ""),
            count(row["n_failed"]),
            count(row["n_correct"]),
            count(row["n_reinforced_failures"]),
            share(row["reinforced_failure_share"]),
            share(row["floored_group_share"]),
            shown(row["floor_state"], 20),
        )
        for below, row in with_next_below(found)
    )
    head = ("min_correct", "failed", "correct", "reinforced", "share", "groups under", "floor")
    return Table("Thresholds", head, rows, levels_caption(audit), words=(6,))


def with_next_below(levels: Sequence[Document]) -> list[tuple[float | None, Document]]:
    """Rows of the table of thresholds, each after the threshold of the row before; None before the first."""
    return list(zip([None, *(row["min_correct"] for row in levels)], levels, strict=False))


def levels_caption(audit: Document) -> str:
    """What to know about the table of thresholds."""
    kind = (
        "Evenly spaced levels: the log has too many distinct rewards for a row each."
        if audit["threshold"]["grid"]
        else ("Every distinct reward of the log.")
    )
    used = any(row["min_correct"] == audit["min_correct"] for row in audit["threshold"]["levels"])
    return (
        f"{kind} Groups under: share of groups whose mean reward is under the level, where a floor would bind. Floor: "
        "inert when it never binds, saturated when no reward exceeds it." + (" *: in use." if used else "")
    )


def threshold_sentences(audit: Document) -> list[str]:
    """State of the floor, and whether rewards order right and wrong."""
    told = []
    state, ordering = audit["threshold"]["floor_state"], audit["threshold"]["ordering"]
    if state is not None:
        told.append(f"A floor at min_correct {level(audit['min_correct'])} is {shown(state)} in this log.")
    if ordering is not None:
        told.append(
            f"By the log's label, a failed rollout outscores a correct one in {count(ordering['n_groups_inverted'])} "
            f"of {count(ordering['n_groups_checked'])} groups that hold both; "
            f"{count(ordering['n_failed_above_correct'])} failed rollouts do."
        )
        under, over = ordering["n_label_correct_under_min_correct"], ordering["n_label_failed_over_min_correct"]
        if under is not None and over is not None:
            told.append(
                f"Of {count(ordering['n_compared'])} rollouts with reward and label, {count(under)} labelled correct "
                f"are under min_correct and {count(over)} labelled failed are not."
            )
    return told


def components_table(audit: Document) -> Table | None:
    """Which single reward makes failures positive; None when there is one only."""
    if not audit["components"]:
        return None
    rows = tuple(
        (
            shown(row["name"], 40),
            figure(row["weight"]),
            count(row["n_reinforced_by_it"]),
            share(row["share_of_positive_mass"]),
            figure(row["std_all_failed"]),
            figure(row["std_other"]),
            count(row["n_all_failed_groups_varying"]),
        )
        for row in audit["components"]
    )
    head = ("", "weight", "decisive", "lift", "std, all failed", "std, other", "varying")
    caption = (
        "Decisive: reinforced failures that would not be over their group's mean without it. Lift: its part of "
        "what puts them there. Std: mean standard deviation within groups without one correct rollout, and within "
        "others. Varying: groups without one correct rollout in which it varies."
    )
    return Table("Single rewards", head, rows, caption)


CURVE_COLUMNS: Final = {
    "n_rollouts": ("rollouts", count),
    "reward": ("reward", figure),
    "correct_share": ("correct", share),
    "reinforced_failure_share": ("reinforced", share),
    "r_count": ("r_count", figure),
    "floored_group_share": ("floored", share),
    "zero_variance_share": ("zero var.", share),
}
"""Columns of the table by step: heading, and how its cells are written."""

CLASS_COLUMNS: Final = {
    f"class_{name}": (name.replace("_", " ").removeprefix("all "), share) for name in CLASSES if name != "unscorable"
}


def curves_tables(audit: Document) -> list[Table]:
    """At most ten steps, evenly spaced, with the first and the last: figures, then kinds of groups."""
    curves = audit["curves"]
    if curves is None or not curves["step"]:
        return []
    n = len(curves["step"])
    chosen = picked(n, ROWS_OF_CURVES)
    some = f" {len(chosen)} of {count(n)} steps, evenly spaced; all are in the JSON." if n > len(chosen) else ""
    tables = []
    for title, columns, caption in (
        ("Step by step", CURVE_COLUMNS, "Floored: share of groups whose mean reward is under min_correct."),
        (
            "Kinds of groups, step by step",
            CLASS_COLUMNS,
            "Shares of groups; equal and graded tell how all rewards are.",
        ),
    ):
        keys = [key for key in columns if any(value is not None for value in curves[key])]
        rows = tuple((str(curves["step"][row]), *(columns[key][1](curves[key][row]) for key in keys)) for row in chosen)
        if keys:
            tables.append(Table(title, ("step", *(columns[key][0] for key in keys)), rows, caption + some))
    return tables


def reading(audit: Document) -> Iterator[tuple[str, str]]:
    """What was read and what was not: a label and a line each."""
    log = audit["log"]
    prompts = "prompts not known" if audit["n_prompts"] is None else f"{count(audit['n_prompts'])} prompts"
    yield "rollouts", f"{count(audit['n_rollouts'])} in {count(audit['n_groups'])} groups, {prompts}"
    sizes = sorted(log["group_sizes"].items(), key=lambda item: (-item[1], item[0]))
    more = f", and {count(len(sizes) - 8)} other sizes" if len(sizes) > 8 else ""
    yield "group sizes", _listed({f"of {size}": n for size, n in sizes[:8]}) + more
    steps = log["steps"]
    yield (
        "steps",
        "none in the log" if steps is None else f"{steps['first']} to {steps['last']}, {count(steps['n'])} of them",
    )
    yield "rows read", f"{count(log['n_rows'])} in {count(log['n_files'])} file{'s' * (log['n_files'] != 1)}"
    yield "rows left out", _listed(log["dropped"]) or "none"
    n = audit["n_unscorable"]
    yield "without a reward", f"{count(n)} rollouts ({_listed(log['unscorable'])})" if n else "none"
    if audit["n_without_advantage"]:
        yield "without an advantage", f"{count(audit['n_without_advantage'])} rollouts, in no table"
    yield "grouped by", shown(log["grouped_by"], LONGEST_SENTENCE)
    used = ", ".join(f"{shown(role, 30)} = {shown(column)}" for role, column in sorted(log["columns_used"].items()))
    yield "columns used", used or "none"
    yield "columns not used", ", ".join(shown(name, 60) for name in log["columns_unused"]) or "none"
    if log["float32"]:
        yield "precision", "float32, so differences of that size count as rounding"


def remarks(audit: Document) -> Iterator[tuple[str, str]]:
    """Warnings, notes and places of trouble from the reading: a kind and a text each."""
    for kind in ("warnings", "notes", "problems"):
        for text in audit["log"][kind]:
            yield kind.removesuffix("s"), shown(text, LONGEST_SENTENCE)


def _listed(counts: Mapping[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count(n)} {shown(reason, 60)}" for reason, n in ordered if n)


def capital(text: str) -> str:
    """Text with its first letter as a sentence starts."""
    return text[:1].upper() + text[1:]
