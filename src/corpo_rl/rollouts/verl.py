"""verl's dumps: `{step}.jsonl` of trainer.rollout_data_dir and validation_data_dir, from both of its trainers."""

from pathlib import Path
from typing import Any

import numpy as np

from corpo_rl.errors import DataError
from corpo_rl.rollouts.columns import factorize
from corpo_rl.rollouts.load import Table, step_codes
from corpo_rl.rollouts.options import ReadOptions
from corpo_rl.rollouts.plan import MADE_HERE, Columns, Format, Plan, Sample
from corpo_rl.rollouts.table import check_columns, named_rewards, reward_weights

GROUP, SESSION, OUTPUT = f"{MADE_HERE}group", f"{MADE_HERE}session", f"{MADE_HERE}output"
"""Columns made of `uid`."""


def _matches(sample: Sample) -> bool:
    """Verl writes JSON lines; a table made of them in another form has the same columns, and the same trap in `uid`."""
    return {"input", "output", "score"} <= set(sample.columns)


def _plan(sample: Sample, options: ReadOptions) -> Plan:
    check_columns(sample, options)
    columns = set(sample.columns)
    rewards = named_rewards(sample, options) or ("score",)
    is_validation = "reward" in columns
    kind = "validation dumps" if is_validation else "V1 rollouts" if "uid" in columns else "legacy rollouts"
    warnings: tuple[str, ...] = ()
    notes = []
    if is_validation:
        warnings = (
            "these look like validation dumps (they have 'reward' beside 'score'): nothing was trained on them",
        )
    if "acc" in columns and options.correct_column is None:
        notes.append("the log has a column 'acc'; --correct-column acc takes it for what is correct")
    step = options.step_column or "step"
    shared: dict[str, Any] = {
        "rewards": rewards,
        "weights": reward_weights(rewards, options),
        "step": step,
        "step_of_path": None if step in columns else _step_of_path,
        "step_in_group": True,
        "advantage": options.advantage_column,
        "length": options.length_column,
        "label": options.correct_column,
        "prompt": options.prompt_column or "input",
        "split": options.split_column,
        "texts": (options.prompt_column or "input", options.completion_column or "output"),
        "title": f"verl {kind}",
        "prepare": _of_one_run,
        "warnings": warnings,
        "notes": tuple(notes),
    }
    if options.group_columns:
        return Plan(group=options.group_columns, **shared | {"step_in_group": False})
    if "uid" not in columns:
        return Plan(group=("input",), grouped_by="step and input (this dump has no uid)", **shared)
    wanted = [*rewards, step, options.advantage_column, options.length_column, options.correct_column, shared["prompt"],
              options.split_column, "uid"]  # fmt: skip
    return Plan(
        group=(GROUP,),
        grouped_by="uid without session and index, and step",
        keys=(SESSION,),
        numbers=(OUTPUT,),
        fields=tuple(dict.fromkeys(name for name in wanted if name is not None)),
        transform=_take_uids_apart,
        **shared | {"prepare": _last_outputs},
    )


def _step_of_path(path: Path) -> int | None:
    stem = path.name.split(".")[0]
    return int(stem) if stem.isdecimal() and len(stem) < 18 else None


def _take_uids_apart(columns: Columns) -> Columns:
    groups, sessions, outputs = [], [], []
    for uid in columns["uid"]:
        parts = uid.rsplit("_", 2) if isinstance(uid, str) else []
        whole = len(parts) == 3 and parts[1].isdecimal() and parts[2].isdecimal() and len(parts[2]) < 18
        groups.append(parts[0] if whole else None)
        sessions.append(parts[1] if whole else None)
        outputs.append(int(parts[2]) if whole else None)
    return columns | {GROUP: groups, SESSION: sessions, OUTPUT: outputs}


def _of_one_run(table: Table, plan: Plan, options: ReadOptions) -> Plan:
    table.check_one_run()
    return plan


def _last_outputs(table: Table, plan: Plan, options: ReadOptions) -> Plan:
    """One rollout for each session: its last output, as verl's own estimator takes it."""
    table.check_one_run()
    group_N = table.keys[GROUP].codes_N
    if (group_N < 0).all():
        raise DataError(
            f"{table.where(0)}: uid is not of the form <prompt>_<session>_<output>, so groups cannot be told; pass "
            "--group-columns"
        )
    session_N, output_N = table.keys[SESSION].codes_N, table.numbers[OUTPUT].values_N
    step_N = step_codes(table.numbers[plan.step or ""].values_N)
    n_sessions = int(session_N.max(initial=0)) + 2
    keys_N = (step_N + 1) * (int(group_N.max(initial=0)) + 2) + group_N + 1
    code_N, _ = factorize(keys_N * n_sessions + session_N + 1)
    last_C = np.full(int(code_N.max(initial=-1)) + 1, -np.inf)
    np.maximum.at(last_C, code_N, np.nan_to_num(output_N, nan=-1.0))
    earlier_N = (group_N >= 0) & (output_N < last_C[code_N])
    first_C = np.full(len(last_C), len(table), dtype=np.int64)
    np.minimum.at(first_C, code_N[~earlier_N], np.flatnonzero(~earlier_N))
    again_N = ~earlier_N & (group_N >= 0) & (first_C[code_N] != np.arange(len(table)))
    table.drop(again_N, "duplicate")
    table.drop(earlier_N[~again_N], "earlier output of a session")
    return plan


VERL = Format(name="verl", title="verl rollouts", matches=_matches, plan=_plan)
