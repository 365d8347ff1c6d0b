"""The form of the audit's JSON document: its schema, a check that names what is wrong, and how it is written."""

from collections.abc import Mapping
from typing import Any, Final

from corpo_rl.errors import DataError
from corpo_rl.report.form import (
    ITEM,
    Schema,
    check_form,
    count_field,
    field,
    json_text,
    list_field,
    map_field,
    number_field,
    object_field,
    share_field,
    text_field,
    uneven,
)

AUDIT_VERSION: Final = "corpo-rl.audit/1"
"""Value of the field `schema` of an audit; a change that breaks a reader raises the number."""

STATUSES: Final = ("OK", "NOTE", "WARN", "NOT CHECKED")

ESTIMATORS: Final = ("grpo", "dr_grpo", "rloo", "static", "corpo", "loo_corpo")
"""Estimators of the counterfactual table, in report order."""

CLASSES: Final = {
    "all_failed_equal": "all failed, with one and the same reward",
    "all_failed_graded": "all failed, with differing rewards",
    "mixed": "correct and failed rollouts",
    "all_correct_graded": "all correct, with differing rewards",
    "all_correct_equal": "all correct, with one and the same reward",
    "unscorable": "no rollout with a reward and a verdict",
}
"""Kinds of groups, and what is in one."""

_SIGNS = {
    "positive": number_field("those with A > 0"),
    "zero": number_field("those with A = 0, up to rounding"),
    "negative": number_field("those with A < 0"),
}

_CELLS = {
    "rollouts": object_field("number of rollouts", _SIGNS),
    "mass": object_field("sum of |A|", _SIGNS),
    "token_mass": object_field("sum of |A| x length; null without lengths", _SIGNS, null=True),
}

_LOG = {
    "format": text_field("name of the log format, as `--format-in` takes it"),
    "title": text_field("the format in words"),
    "said": text_field("what was read, in one sentence"),
    "n_files": count_field("files read"),
    "sources": list_field("the first 20 of them", ITEM),
    "grouped_by": text_field("how groups were told"),
    "n_rows": count_field("rows seen, whatever became of them"),
    "dropped": map_field("reason -> rows that are no rollouts of this audit", count_field("rows")),
    "unscorable": map_field("reason -> rollouts without a reward", count_field("rollouts")),
    "problems": list_field("the first of both, with their places", ITEM),
    "columns_used": map_field("role -> column", text_field("column")),
    "columns_unused": list_field("columns that nothing looked at", ITEM),
    "group_sizes": map_field("size, as text -> groups of that size", count_field("groups")),
    "steps": object_field(
        "training steps in the log; null without any",
        {
            "first": field("integer", "first step"),
            "last": field("integer", "last step"),
            "n": count_field("different steps"),
        },
        null=True,
    ),
    "warnings": list_field("what may be wrong with the log or its grouping", ITEM),
    "notes": list_field("what was done while reading", ITEM),
    "float32": field("boolean", "whether the numbers went through float32, so that more counts as rounding"),
}

_CURVES = {
    "step": list_field("training step", {"type": "integer"}),
    "n_rollouts": list_field("rollouts of the step", count_field("rollouts")),
    "reward": list_field("mean reward, in task units", number_field("reward")),
    "correct_share": list_field("share of rollouts that are correct", share_field("share")),
    "reinforced_failure_share": list_field("share of failed rollouts with A > 0", share_field("share")),
    "r_count": list_field("number of A > 0 / number of A < 0", number_field("ratio")),
    "r_loss_proxy": list_field("the proxy of r_loss", number_field("ratio")),
    "floored_group_share": list_field("share of groups with a mean reward under min_correct", share_field("share")),
    "zero_variance_share": list_field("share of comparable groups with zero variance", share_field("share")),
    **{
        f"class_{name}": list_field(f"share of groups: {about}", share_field("share"))
        for name, about in CLASSES.items()
        if name != "unscorable"
    },
    "unscorable": list_field("rollouts without a reward", count_field("rollouts")),
}

_ESTIMATOR = {
    "n_reinforced_failures": count_field("failed rollouts with A > 0", null=True),
    "reinforced_failure_share": share_field("their share of the failed rollouts"),
    "r_count": number_field("number of A > 0 / number of A < 0"),
    "r_loss_proxy": number_field("the proxy of r_loss"),
    "zero_signal_groups": count_field("groups in which every A is 0"),
    "negative_only_groups": count_field("groups with an A < 0 and none > 0"),
    "sign_flips": count_field("rollouts whose A has another sign than the headline's"),
    "positive": count_field("rollouts with A > 0"),
    "zero": count_field("rollouts with A = 0"),
    "negative": count_field("rollouts with A < 0"),
}

_FLOOR = (
    "`inert`: it never binds, so CoRPO would be the plain group mean. `saturated`: nothing exceeds it. "
    "`active`: neither. `unknown`: no rewards"
)

_THRESHOLD = {
    "floor_state": text_field(f"of a floor at min_correct; null without one. {_FLOOR}", null=True),
    "levels": list_field(
        "what other thresholds would say of the same advantages",
        object_field(
            "a threshold",
            {
                "min_correct": field("number", "the threshold, in task units"),
                "n_failed": count_field("rollouts under it"),
                "n_correct": count_field("rollouts at or over it"),
                "n_reinforced_failures": count_field("rollouts under it with A > 0"),
                "reinforced_failure_share": share_field("their share of those under it"),
                "floored_group_share": share_field("share of groups with a mean reward under it"),
                "floor_state": text_field("state of a floor there"),
            },
        ),
    ),
    "grid": field(
        "boolean", "whether the levels are a grid, because there are too many distinct rewards for a row each"
    ),
    "ordering": object_field(
        "whether rewards order right and wrong, by the log's label; null without labels",
        {
            "n_groups_checked": count_field("groups with both correct and failed rollouts"),
            "n_groups_inverted": count_field("those in which a failed rollout outscores a correct one"),
            "n_failed_above_correct": count_field("failed rollouts that do"),
            "n_compared": count_field("rollouts with a reward and a label"),
            "n_label_correct_under_min_correct": count_field(
                "those labelled correct, but under min_correct", null=True
            ),
            "n_label_failed_over_min_correct": count_field(
                "those labelled failed, but not under min_correct", null=True
            ),
        },
        null=True,
    ),
}

_ROLLOUT = {
    "reward": number_field("reward, in task units"),
    "advantage": number_field("advantage"),
    "correct": field("boolean", "whether it is correct; null when not known", null=True),
    "completion": text_field("what the policy wrote; null without texts", null=True),
}

_EXAMPLE = {
    "step": field("integer", "training step; null when not known", null=True),
    "group": field("integer", "number of the group in the log"),
    "where": text_field("file and row"),
    "reward": number_field("reward, in task units"),
    "advantage": number_field("advantage"),
    "prompt": text_field("prompt; null without texts", null=True),
    "completion": text_field("what the policy wrote; null without texts", null=True),
    "siblings": list_field("other rollouts of the group", object_field("a rollout", _ROLLOUT)),
    "n_siblings_left_out": count_field("further rollouts of the group that are not listed"),
}

AUDIT_SCHEMA: Final[Schema] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Audit of a run's rollouts by corpo-rl",
    **object_field(
        "Further fields are allowed everywhere.",
        {
            "schema": {"const": AUDIT_VERSION, "description": f"`{AUDIT_VERSION}`"},
            "corpo_rl_version": text_field("version of the package that wrote the document"),
            "created": text_field("when, ISO 8601 with a time zone"),
            "command": text_field("command line that made it; empty when called from Python"),
            "log": object_field("what was read", _LOG),
            "n_rollouts": count_field("rollouts, those without a reward included"),
            "n_groups": count_field("groups"),
            "n_prompts": count_field("distinct prompts; null when the log does not tell", null=True),
            "n_unscorable": count_field("rollouts without a reward; they are in no baseline"),
            "n_without_advantage": count_field("rollouts with a reward but without an advantage; they are in no table"),
            "n_without_length": count_field("rollouts left out of token masses because their length is missing"),
            "min_correct": number_field("least reward that counts as correct, in task units; null when not given"),
            "correct_by": text_field("what makes a rollout correct; null when nothing says so", null=True),
            "estimator": text_field(
                "estimator the headline is about; `logged` when none reproduces the log's advantages"
            ),
            "advantages_from": field("string", "whose advantages the headline is about", enum=["logged", "recomputed"]),
            "n_failed": count_field("failed rollouts that have an advantage", null=True),
            "n_correct": count_field("correct rollouts that have an advantage", null=True),
            "n_reinforced_failures": count_field("failed rollouts with A > 0", null=True),
            "reinforced_failure_share": object_field(
                "their share of the failed rollouts",
                {
                    "value": share_field("the share"),
                    "low": share_field("lower end of its interval"),
                    "high": share_field("upper end of its interval"),
                },
            ),
            "level": share_field("confidence level of the intervals"),
            "resampled": field("string", "what the bootstrap drew again", enum=["prompts", "groups"]),
            "in_all_failed_groups_share": share_field(
                "share of the reinforced failures in groups without one correct rollout"
            ),
            "table": object_field(
                "what was pushed up and down; null when nothing says what is correct",
                {
                    "failed": object_field("failed rollouts", _CELLS),
                    "correct": object_field("correct rollouts", _CELLS),
                },
                null=True,
            ),
            "length_unit": field(
                "string", "what lengths count; null without lengths", null=True, enum=["tokens", "characters", None]
            ),
            "r_count": number_field("number of A > 0 / number of A < 0"),
            "r_loss_proxy": number_field("see `r_loss_proxy_definition`"),
            "r_loss_proxy_definition": text_field("how the proxy of r_loss is made"),
            "r_loss_proxy_tokens": number_field("the same with |A| x length for |A|"),
            "group_classes": object_field(
                "groups of each kind; null when nothing says what is correct",
                {name: count_field(about) for name, about in CLASSES.items()},
                null=True,
            ),
            "phases": object_field(
                "groups on each side of the floor; null without min_correct",
                {
                    "correctness_seeking": count_field("groups with a mean reward under min_correct"),
                    "preference_seeking": count_field("groups with a mean reward of min_correct or more"),
                },
                null=True,
            ),
            "zero_variance_groups": count_field("comparable groups with one and the same reward, up to rounding"),
            "n_groups_comparable": count_field("groups with two rewards or more"),
            "curves": {
                **object_field(
                    "the figures step by step, null where undefined; null without steps", _CURVES, null=True
                ),
            },
            "estimators": map_field(
                "estimator -> what it would have done with the same rewards; null when it needs a min_correct that is "
                "not given",
                object_field("an estimator", _ESTIMATOR, null=True),
            ),
            "counterfactual_note": text_field("how far that can be trusted"),
            "logged_estimator": object_field(
                "which estimator reproduces the logged advantages",
                {
                    "status": field("string", "the verdict", enum=["reproduced", "not reproduced", "no advantages"]),
                    "name": text_field("the estimator that reproduces them", null=True),
                    "also": list_field("estimators that cannot be told from it in this log", ITEM),
                    "precision": number_field("largest |logged - recomputed|"),
                    "n_compared": count_field("advantages compared"),
                    "share_reproduced": share_field("share of them reproduced"),
                    "inferred_floor": number_field("floor that the logged advantages show"),
                    "claimed": text_field("estimator the run is said to have used", null=True),
                    "candidates": map_field(
                        "estimator -> how near it comes",
                        object_field(
                            "a candidate",
                            {
                                "max_error": number_field("largest |logged - recomputed|"),
                                "share_reproduced": share_field("share of the advantages reproduced"),
                            },
                        ),
                    ),
                },
            ),
            "threshold": object_field("what hangs on the choice of min_correct", _THRESHOLD),
            "components": list_field(
                "the single rewards that add up to the total; empty when there is one only",
                object_field(
                    "a reward",
                    {
                        "name": text_field("column"),
                        "weight": number_field("weight in the total"),
                        "n_reinforced_by_it": count_field(
                            "reinforced failures that would not be over their group's mean without it"
                        ),
                        "share_of_positive_mass": share_field(
                            "its part of what lifts reinforced failures over their group's mean"
                        ),
                        "std_all_failed": number_field(
                            "mean standard deviation within groups without a correct rollout"
                        ),
                        "std_other": number_field("mean standard deviation within other groups"),
                        "n_all_failed_groups_varying": count_field(
                            "groups without a correct rollout in which it varies"
                        ),
                    },
                ),
            ),
            "examples": list_field("the most strongly reinforced failures", object_field("a failed rollout", _EXAMPLE)),
            "findings": list_field(
                "what the figures say",
                object_field(
                    "a finding",
                    {
                        "id": text_field("name that stays the same"),
                        "status": field("string", "the verdict", enum=list(STATUSES)),
                        "title": text_field("what was looked at, or found"),
                        "evidence": text_field("the numbers"),
                        "needs": text_field("what was missing, when not checked", null=True),
                        "action": map_field("framework (`trl`, `verl`, `general`) -> what to do", ITEM),
                        "reference": text_field("where to read on", null=True),
                    },
                ),
            ),
        },
    ),
}
"""JSON Schema (draft 2020-12) of an audit."""


def check_audit(document: object, *, name: str = "audit") -> None:
    """Check that a document has the form of an audit. Beyond the schema: a curve is as long as its steps.

    Args:
        document: As loaded from JSON.
        name: What to call it in an error.

    Raises:
        DataError: Something is missing or of the wrong kind; the message names the first such place.

    Example:
        >>> check_audit({"schema": "corpo-rl.audit/0"})  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        corpo_rl.errors.DataError: audit.schema: ...got 'corpo-rl.audit/0': written by another version
    """
    check_form(document, AUDIT_SCHEMA, name, described_in="docs/audit-schema.md")
    if isinstance(document, Mapping) and document["curves"] is not None:
        for message in uneven(f"{name}.curves", document["curves"], document["curves"]["step"]):
            raise DataError(f"{message}; the form is described in docs/audit-schema.md")


def audit_json(document: Mapping[str, Any]) -> str:
    """An audit, or a comparison of two, as JSON text: sorted keys, a newline at the end, the same bytes every time.

    Raises:
        DataError: A number is NaN or infinite, where an undefined one has to be null, or a value is of a kind that JSON
            does not have; the message names its place.

    Example:
        >>> audit_json({"r_count": float("nan")})
        Traceback (most recent call last):
        corpo_rl.errors.DataError: audit.r_count: expected a finite number, or null where undefined, got nan
    """
    return json_text(document, "audit", nan_as_null=False)
