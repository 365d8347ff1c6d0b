"""Plain tables: CSV, JSON lines or parquet with a column for each thing, under a telling or a told name."""

from collections.abc import Mapping

from corpo_rl.errors import DataError
from corpo_rl.rollouts.columns import LARGEST
from corpo_rl.rollouts.options import ReadOptions
from corpo_rl.rollouts.plan import Format, Plan, Sample

REWARDS = ("reward", "rewards", "score", "total_reward", "reward_total")
PROMPT_IDS = ("prompt_id", "prompt_uid", "problem_id", "question_id", "task_id", "qid")
GROUPS = ("group_id", "group", "group_uid", "uid", *PROMPT_IDS)
STEPS = ("step", "global_step", "training_step", "iteration")
ADVANTAGES = ("advantage", "advantages")
LENGTHS = ("length", "completion_length", "n_tokens", "num_tokens", "response_length")
PROMPTS = ("prompt", "problem", "question", "input", "query")
COMPLETIONS = ("completion", "response", "output", "answer")


def _plan(sample: Sample, options: ReadOptions) -> Plan:
    columns = sample.columns
    check_columns(sample, options)
    rewards = named_rewards(sample, options) or _reward(sample)
    prompt = options.prompt_column or _first(PROMPTS, columns)
    step = options.step_column or _first(STEPS, columns)
    group = options.group_columns
    if not group and options.group_size is None:
        group = _group(sample, prompt)
    return Plan(
        rewards=rewards,
        weights=reward_weights(rewards, options),
        group=group,
        step=step,
        # an id that a name tells may come back at another step; columns the user names are taken at their word
        step_in_group=not options.group_columns and step is not None and step not in group,
        advantage=options.advantage_column or _first(ADVANTAGES, columns, within=sample.numeric),
        length=options.length_column or _first(LENGTHS, columns, within=sample.numeric),
        label=options.correct_column,
        prompt=options.prompt_column or next((name for name in PROMPT_IDS if name in columns), prompt),
        split=options.split_column,
        texts=(prompt, options.completion_column or _first(COMPLETIONS, columns)),
    )


def check_columns(sample: Sample, options: ReadOptions) -> None:
    """Raise DataError when an option names a column that no file has."""
    named = {
        "--step-column": (options.step_column,),
        "--correct-column": (options.correct_column,),
        "--advantage-column": (options.advantage_column,),
        "--length-column": (options.length_column,),
        "--prompt-column": (options.prompt_column,),
        "--completion-column": (options.completion_column,),
        "--split-column": (options.split_column,),
        "--reward-column": options.reward_columns,
        "--group-columns": options.group_columns,
    }
    for option, names in named.items():
        for name in names:
            if name is not None and name not in sample.columns:
                raise DataError(f"{sample.name}: no column {name!r} for {option} (columns: {_listed(sample)})")


def named_rewards(sample: Sample, options: ReadOptions) -> tuple[str, ...]:
    """Reward columns as told, by themselves or by the names of their weights; empty when not told.

    Raises:
        DataError: A weight is for a column that no file has.
    """
    if options.reward_columns or not isinstance(options.reward_weights, Mapping):
        return options.reward_columns
    for name in options.reward_weights:
        if name not in sample.columns:
            raise DataError(f"{sample.name}: no column {name!r} for --reward-weights (columns: {_listed(sample)})")
    return tuple(options.reward_weights)


def reward_weights(rewards: tuple[str, ...], options: ReadOptions) -> dict[str, float]:
    """Weight of each reward column, as told.

    Raises:
        DataError: Weights for other columns, not one for each, or no finite numbers.
    """
    told = options.reward_weights
    if told is None:
        return {}
    for weight in told if isinstance(told, tuple) else told.values():
        if not abs(weight) <= LARGEST:
            raise DataError(f"--reward-weights: expected finite numbers of at most {LARGEST:g} in size, got {weight}")
    if isinstance(told, tuple):
        if len(told) != len(rewards):
            raise DataError(
                f"--reward-weights: expected {len(rewards)} weights ({', '.join(rewards)}), got {len(told)}; name "
                f"them: {rewards[0]}=1,..."
            )
        return dict(zip(rewards, told, strict=True))
    unknown = [name for name in told if name not in rewards]
    if unknown:
        raise DataError(f"--reward-weights: no reward column {unknown[0]!r} (reward columns: {', '.join(rewards)})")
    return dict(told)


def _reward(sample: Sample) -> tuple[str, ...]:
    named = [name for name in REWARDS if name in sample.columns]
    if named:
        return (named[0],)
    alike = [name for name in sample.columns if name in sample.numeric and ("reward" in name or "score" in name)]
    hint = f"; {', '.join(alike)} may be" if alike else ""
    raise DataError(
        f"{sample.name}: no column 'reward' (columns: {_listed(sample)}){hint}; name yours with --reward-column"
    )


def _group(sample: Sample, prompt: str | None) -> tuple[str, ...]:
    named = _first(GROUPS, sample.columns)
    if named is not None:
        return (named,)
    if prompt is not None:
        return (prompt,)
    raise DataError(
        f"{sample.name}: nothing tells which rollouts belong together (columns: {_listed(sample)}); pass "
        "--group-columns, or --group-size where the rollouts of a group are consecutive rows"
    )


def _first(names: tuple[str, ...], columns: object, within: frozenset[str] | None = None) -> str | None:
    return next((name for name in names if name in columns and (within is None or name in within)), None)  # type: ignore[operator]


def _listed(sample: Sample) -> str:
    names = [name if len(name) <= 60 else f"{name[:60]}..." for name in sample.columns]
    return ", ".join(names[:12]) + (", ..." if len(names) > 12 else "") if names else "none"


TABLE = Format(name="table", title="plain table", matches=lambda sample: True, plan=_plan)
