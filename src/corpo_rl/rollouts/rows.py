"""Formats of one rollout a line that are more than a table: open-instruct, tinker-cookbook, verifiers, NeMo, AReaL."""

from typing import Any

import numpy as np

from corpo_rl.errors import DataError
from corpo_rl.rollouts.load import Table, first_rows
from corpo_rl.rollouts.options import ReadOptions
from corpo_rl.rollouts.plan import MADE_HERE, Columns, Format, Plan, Sample
from corpo_rl.rollouts.table import check_columns, reward_weights

LENGTH = f"{MADE_HERE}length"


def _has(*names: str) -> Any:
    return lambda sample: set(names) <= set(sample.columns)


def _open_instruct_plan(sample: Sample, options: ReadOptions) -> Plan:
    check_columns(sample, options)
    rewards = options.reward_columns or ("reward",)
    return Plan(
        rewards=rewards,
        weights=reward_weights(rewards, options),
        group=options.group_columns or ("prompt_idx",),
        step="step",
        step_in_group=not options.group_columns,
        advantage="advantage" if "advantage" in sample.columns else None,
        length=LENGTH if "response_tokens" in sample.columns else None,
        label=options.correct_column,
        row_key=("step", "sample_idx"),
        fields=_fields(sample, *rewards, "step", "sample_idx", "prompt_idx", "advantage", "response_tokens",
                       options.correct_column, *options.group_columns),
        transform=_count_response_tokens,
    )  # fmt: skip


def _count_response_tokens(columns: Columns) -> Columns:
    return columns | {
        LENGTH: [len(value) if isinstance(value, list) else None for value in columns.get("response_tokens", [])]
    }


OPEN_INSTRUCT = Format(
    name="open_instruct",
    title="open-instruct traces",
    matches=_has("prompt_idx", "sample_idx", "reward", "step"),
    plan=_open_instruct_plan,
)


def _tinker_plan(sample: Sample, options: ReadOptions) -> Plan:
    check_columns(sample, options)
    rewards = options.reward_columns or ("total_reward",)
    return Plan(
        rewards=rewards,
        weights=reward_weights(rewards, options),
        group=options.group_columns or ("group_idx",),
        step="iteration",
        step_in_group=not options.group_columns,
        length=LENGTH if "steps" in sample.columns else None,
        label=options.correct_column,
        split="split" if "split" in sample.columns else None,
        row_key=("iteration", "group_idx", "traj_idx"),
        fields=_fields(sample, *rewards, "iteration", "group_idx", "traj_idx", "split", "steps",
                       options.correct_column, *options.group_columns),
        transform=_count_action_tokens,
    )  # fmt: skip


def _count_action_tokens(columns: Columns) -> Columns:
    return columns | {LENGTH: [_action_tokens(steps) for steps in columns.get("steps", [])]}


def _action_tokens(steps: Any) -> int | None:
    try:
        return sum(int(turn["ac_len"]) for turn in steps)
    except (TypeError, KeyError, ValueError, OverflowError):
        return None


TINKER = Format(
    name="tinker",
    title="tinker-cookbook rollout summaries",
    matches=_has("group_idx", "traj_idx", "total_reward"),
    plan=_tinker_plan,
)


def _verifiers_plan(sample: Sample, options: ReadOptions) -> Plan:
    check_columns(sample, options)
    rewards = options.reward_columns or ("reward",)
    example = "example_id" if "example_id" in sample.columns else "id"
    return Plan(
        rewards=rewards,
        weights=reward_weights(rewards, options),
        group=options.group_columns or (example,),
        step=options.step_column,
        label=options.correct_column,
        length=options.length_column,
        prompt=example,
        texts=("prompt", "completion"),
        notes=("these are results of an evaluation: nothing was trained on them",),
    )


def _is_verifiers(sample: Sample) -> bool:
    names = set(sample.columns)
    return {"prompt", "completion", "reward"} <= names and (
        "example_id" in names or {"id", "task", "generation_ms"} <= names
    )


VERIFIERS = Format(name="verifiers", title="verifiers results", matches=_is_verifiers, plan=_verifiers_plan)


def _nemo_gym_plan(sample: Sample, options: ReadOptions) -> Plan:
    check_columns(sample, options)
    by_task = "_ng_task_index" in sample.columns
    if not by_task and not options.group_columns and options.group_size is None:
        raise DataError(
            f"{sample.name}: nothing tells which rollouts answer one task (no _ng_task_index); pass --group-columns, "
            "or --group-size where the rollouts of a task are consecutive rows"
        )
    group = options.group_columns or (() if options.group_size is not None else ("_ng_task_index",))
    rewards = options.reward_columns or ("reward",)
    return Plan(
        rewards=rewards,
        weights=reward_weights(rewards, options),
        group=group,
        step=options.step_column,
        label=options.correct_column,
        length="output_tokens",
        row_key=("_ng_task_index", "_ng_rollout_index") if by_task and "_ng_rollout_index" in sample.columns else (),
        prompt="_ng_task_index" if by_task else None,
        texts=("prompt", "completion"),
        explode=_explode_nemo_gym,
        notes=("collected rollouts of an environment: no training step is told",),
    )


def _explode_nemo_gym(record: dict[str, Any]) -> list[dict[str, Any]]:
    response = record.get("response")
    response = response if isinstance(response, dict) else {}
    usage, asked = response.get("usage"), record.get("responses_create_params")
    return [
        {
            **record,
            "output_tokens": usage.get("output_tokens") if isinstance(usage, dict) else None,
            "prompt": asked.get("input") if isinstance(asked, dict) else None,
            "completion": response.get("output"),
        }
    ]


NEMO_GYM = Format(
    name="nemo_gym",
    title="NeMo Gym rollouts",
    matches=_has("reward", "responses_create_params"),
    plan=_nemo_gym_plan,
)


def _areal_plan(sample: Sample, options: ReadOptions) -> Plan:
    check_columns(sample, options)
    rewards = options.reward_columns or ("reward",)
    prompt = ("prompt",) if "prompt" in sample.columns else ()
    return Plan(
        rewards=rewards,
        weights=reward_weights(rewards, options),
        group=options.group_columns or ("task_id",),
        step="tail_version",
        step_in_group=not options.group_columns,
        length=LENGTH,
        label=options.correct_column,
        prompt=prompt[0] if prompt else None,
        row_key=("task_id", "sample_idx", "tail_version", *prompt),
        texts=("prompt", "completion"),
        fields=_fields(sample, *rewards, "task_id", "sample_idx", "tail_version", "seqlen", "prompt_len", "prompt",
                       options.correct_column, *options.group_columns),
        transform=_subtract_prompt,
        prepare=_tasks_of_one_meaning,
    )  # fmt: skip


def _subtract_prompt(columns: Columns) -> Columns:
    if "seqlen" not in columns or "prompt_len" not in columns:
        return columns
    pairs = zip(columns["seqlen"], columns["prompt_len"], strict=True)
    return columns | {
        LENGTH: [
            whole - prompt if isinstance(whole, int | float) and isinstance(prompt, int | float) else None
            for whole, prompt in pairs
        ]
    }


def _tasks_of_one_meaning(table: Table, plan: Plan, options: ReadOptions) -> Plan:
    """Drop evaluations, which lie in a folder of another name; refuse tasks whose number does not tell their group."""
    evaluation = np.array(["eval-rollout" in file.path.parts for file in table.files])
    table.drop(evaluation[table.file_N], "evaluation row")
    if not options.group_columns and len(table):
        _check_counted_once(table, plan)
        _check_of_one_version(table)
    return plan


def _check_counted_once(table: Table, plan: Plan) -> None:
    """Every rollout process counts its tasks from 0, and all of them write into one folder."""
    if plan.prompt is None:
        return
    sample_N = table.numbered("task_id", "sample_idx", "tail_version")
    prompt_N = table.keys[plan.prompt].codes_N
    first_S = first_rows(sample_N)
    other_N = prompt_N != prompt_N[first_S[sample_N]]
    if other_N.any():
        row = int(other_N.argmax())
        raise DataError(
            f"{table.where(row)}: this sample of its task has another prompt than in "
            f"{table.where(int(first_S[sample_N[row]]))}, as where several processes count their tasks from 0; pass "
            "--group-columns task_id,prompt"
        )


def _check_of_one_version(table: Table) -> None:
    """Rollouts of a group may end under different weights, and then lie in the folders of different versions.

    Not so where the same samples come again: a run that was started again counts its tasks from 0 once more.
    """
    task_N = table.numbered("task_id")
    n_tasks = int(task_N.max()) + 1
    n_of = [
        np.bincount(task_N[first_rows(table.numbered("task_id", *names))], minlength=n_tasks)
        for names in (["tail_version"], ["sample_idx"], ["sample_idx", "tail_version"])
    ]
    split_T = (n_of[0] > 1) & (n_of[1] == n_of[2])
    if split_T.any():
        row = int(np.flatnonzero(split_T[task_N])[0])
        raise DataError(
            f"{table.where(row)}: samples of this task lie under several versions of the weights, as those of "
            f"{int(split_T.sum()):,} of {n_tasks:,} tasks, so the version does not tell groups; pass --group-columns "
            "task_id, or task_id,prompt"
        )


AREAL = Format(
    name="areal",
    title="AReaL trajectories",
    matches=_has("task_id", "sample_idx", "seqlen", "prompt_len", "reward", "tail_version"),
    plan=_areal_plan,
)


def _fields(sample: Sample, *names: str | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name is not None and name in sample.columns))
