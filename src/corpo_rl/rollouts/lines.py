"""Formats whose lines hold lists: atropos, ms-swift, prime-rl, NeMo RL, and lists of rewards as such."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from corpo_rl.errors import DataError
from corpo_rl.rollouts.columns import factorize
from corpo_rl.rollouts.load import Keys, Table
from corpo_rl.rollouts.options import ReadOptions
from corpo_rl.rollouts.plan import MADE_HERE, Format, Plan, Sample
from corpo_rl.rollouts.table import check_columns
from corpo_rl.rollouts.trl import completions_plan

LINE = f"{MADE_HERE}line"

UNMASKED = -100
"""Mask of a token that is not trained on, in atropos groups."""


def _by_line(table: Table, plan: Plan, options: ReadOptions) -> Plan:
    """Every line is a group."""
    span = int(table.row_N.max(initial=0)) + 1
    codes_N, lines = factorize(table.file_N.astype("int64") * span + table.row_N)
    table.keys[LINE] = Keys(codes_N, lines)
    return replace(plan, group=(LINE,), grouped_by="line")


def _at(values: Any, place: int) -> Any:
    return values[place] if isinstance(values, list) and place < len(values) else None


def _explode_atropos(record: dict[str, Any]) -> list[dict[str, Any]]:
    masks, advantages = record.get("masks"), record.get("advantages")
    return [
        {
            "score": score,
            "advantage": _of_tokens(_at(advantages, place)),
            "length": _n_trained(_at(masks, place)),
            "prompt": _messages(_at(record.get("messages"), place), before_answer=True),
            "completion": _messages(_at(record.get("messages"), place), before_answer=False),
        }
        for place, score in enumerate(_list(record["scores"]))
    ]


def _n_trained(mask: Any) -> int | None:
    return sum(token != UNMASKED for token in mask) if isinstance(mask, list) else None


def _of_tokens(advantage: Any) -> Any:
    """One advantage of a rollout, given for every token or once: tokens that are not trained on have 0."""
    if not isinstance(advantage, list):
        return advantage
    return max((value for value in advantage if isinstance(value, int | float)), key=abs, default=None)


def _messages(messages: Any, *, before_answer: bool) -> Any:
    """The conversation up to the last message, or that message."""
    if not isinstance(messages, list) or not messages:
        return messages if before_answer else None
    return messages[:-1] if before_answer else messages[-1:]


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"expected a list, found {type(value).__name__}")
    return value


def _atropos_plan(sample: Sample, options: ReadOptions) -> Plan:
    with_advantages = sample.columns.get("advantages") is not None
    return Plan(
        rewards=("score",),
        advantage="advantage" if with_advantages else None,
        length="length",
        texts=("prompt", "completion"),
        explode=_explode_atropos,
        fields=("scores", "advantages", "masks"),
        prepare=_by_line,
    )


ATROPOS = Format(
    name="atropos",
    title="atropos groups",
    matches=lambda sample: {"scores", "masks", "tokens"} <= set(sample.columns),
    plan=_atropos_plan,
)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _explode_rewards(record: dict[str, Any]) -> list[dict[str, Any]]:
    others = {name: value for name, value in record.items() if name not in ("rewards", "advantages", "lengths")}
    return [
        {
            **others,
            "reward": reward,
            "advantage": _at(record.get("advantages"), place),
            "length": _at(record.get("lengths"), place),
        }
        for place, reward in enumerate(_list(record["rewards"]))
    ]


def _rewards_plan(sample: Sample, options: ReadOptions) -> Plan:
    check_columns(sample, options)
    columns = sample.columns
    return Plan(
        rewards=("reward",),
        step=options.step_column or ("step" if "step" in columns else None),
        advantage="advantage" if _is_list(columns.get("advantages")) else None,
        length="length" if _is_list(columns.get("lengths")) else None,
        prompt=options.prompt_column or next((name for name in ("prompt_id", "prompt") if name in columns), None),
        explode=_explode_rewards,
        prepare=_by_line,
    )


GROUP_LISTS = Format(
    name="group_lists",
    title="groups with a list of rewards each",
    matches=lambda sample: sample.kind == "json" and _is_list(sample.columns.get("rewards")),
    plan=_rewards_plan,
)


def _explode_columns(record: dict[str, Any]) -> list[dict[str, Any]]:
    lists = {name: values for name, values in record.items() if isinstance(values, list)}
    n = len(_list(record["completion"]))
    rows = [{name: values[place] for name, values in lists.items() if len(values) == n} for place in range(n)]
    for row in rows:
        step = row.get("step", record.get("step"))
        row["step"] = int(step) if isinstance(step, str) and step.isdecimal() and len(step) < 18 else step
    return rows


def _ms_swift_plan(sample: Sample, options: ReadOptions) -> Plan:
    first = {name: _at(value, 0) if isinstance(value, list) else value for name, value in sample.columns.items()}
    numeric = frozenset(
        name
        for name, value in sample.columns.items()
        if isinstance(value, list) and any(isinstance(one, int | float) for one in value)
    )
    rows = Sample(kind=sample.kind, name=sample.name, columns=first, numeric=numeric)
    return replace(completions_plan(rows, options, advantage="advantages"), explode=_explode_columns)


def _is_ms_swift(sample: Sample) -> bool:
    columns = sample.columns
    return sample.kind == "json" and all(_is_list(columns.get(name)) for name in ("prompt", "completion", "advantages"))


MS_SWIFT = Format(name="ms_swift", title="ms-swift completions", matches=_is_ms_swift, plan=_ms_swift_plan)


def _explode_episode(record: dict[str, Any]) -> list[dict[str, Any]]:
    work = record["run"]["work"]
    rows = []
    for trace in _list(record["traces"]):
        agent = trace.get("agent")
        if isinstance(agent, Mapping) and agent.get("trainable") is False:
            continue
        sampled = [node for node in _list(trace["nodes"]) if node.get("sampled")]
        advantages = [value for node in sampled for value in node.get("advantages") or ()]
        messages = [node.get("message") for node in trace["nodes"] if not node.get("sampled")]
        task = trace.get("task") or record.get("task") or {}
        rows.append({
            "trace": trace.get("id"),
            "group": record["group"]["id"],
            "step": work.get("step"),
            "split": work.get("type"),
            "reward": _weighted(trace.get("rewards")),
            "advantage": _of_tokens(advantages),
            "length": sum(len(node.get("token_ids") or ()) for node in sampled),
            "task": task.get("key"),
            "prompt": messages,
            "completion": [node.get("message") for node in sampled],
        })  # fmt: skip
    return rows


def _weighted(rewards: Any) -> float | None:
    """Weighted sum of a trace's rewards; None when one could not be given, or there is none."""
    if not isinstance(rewards, Mapping) or not rewards or any(one is None for one in rewards.values()):
        return None
    scores = (one["score"] * one.get("weight", 1.0) if isinstance(one, Mapping) else one for one in rewards.values())
    return float(sum(scores))


def _prime_rl_plan(sample: Sample, options: ReadOptions) -> Plan:
    return Plan(
        rewards=("reward",),
        group=("group",),
        grouped_by="group id of the episode",
        step="step",
        advantage="advantage",
        length="length",
        prompt="task",
        split="split",
        row_key=("trace",),
        texts=("prompt", "completion"),
        explode=_explode_episode,
        prepare=_told_when_only_effective,
    )


def _told_when_only_effective(table: Table, plan: Plan, options: ReadOptions) -> Plan:
    names = [file.path.parts for file in table.files]
    if all("effective" in parts for parts in names):
        table.findings.warnings.append(
            "only the 'effective' subset is here: groups without a signal were filtered out; name the 'all' folders too"
        )
    return plan


PRIME_RL = Format(
    name="prime_rl",
    title="prime-rl episodes",
    matches=lambda sample: sample.kind == "json" and {"traces", "group", "run"} <= set(sample.columns),
    plan=_prime_rl_plan,
)


def _nemo_rl_plan(sample: Sample, options: ReadOptions) -> Plan:
    if options.group_size is None:
        raise DataError(
            f"{sample.name}: NeMo RL logs one rollout a line and not which rollouts answer one prompt; pass "
            "--group-size with its num_generations_per_prompt where the rollouts of a prompt are consecutive rows"
        )
    return Plan(
        rewards=("reward",),
        step="step",
        step_of_path=_step_of_train_data,
        advantage="advantage" if "advantages" in sample.columns else None,
        length="length" if "token_loss_mask" in sample.columns else None,
        texts=(None, "completion"),
        explode=_explode_nemo_rl,
        fields=("rewards", "advantages", "token_loss_mask", "content"),
    )


def _explode_nemo_rl(record: dict[str, Any]) -> list[dict[str, Any]]:
    """A line is a batch of one: every field is a list of one value."""
    (reward,) = _list(record["rewards"])
    mask = _at(record.get("token_loss_mask"), 0)
    return [
        {
            "reward": reward,
            "advantage": _of_tokens(_at(record.get("advantages"), 0)),
            "length": sum(token == 1 for token in mask) if isinstance(mask, list) else None,
            "completion": _at(record.get("content"), 0),
        }
    ]


def _step_of_train_data(path: Path) -> int | None:
    told = re.match(r"train_data_step(\d{1,17})\.", path.name)
    return int(told.group(1)) if told else None


NEMO_RL = Format(
    name="nemo_rl",
    title="NeMo RL training data",
    matches=lambda sample: (
        {"rewards", "input_lengths", "idx"} <= set(sample.columns)
        and _is_list(sample.columns["rewards"])
        and len(sample.columns["rewards"]) == 1
    ),
    plan=_nemo_rl_plan,
)


def refuse_slime(sample: Sample, options: ReadOptions) -> Plan:
    """Slime's dumps are pickles."""
    raise DataError(f"{sample.name}: slime saves its rollouts as pickles, which are not read; save them as JSON lines")


SLIME = Format(name="slime", title="slime dumps", matches=lambda sample: False, plan=refuse_slime)
