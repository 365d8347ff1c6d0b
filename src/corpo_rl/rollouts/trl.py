"""TRL's completion logs: `completions/completions_{step:05d}.parquet`, one table for each logged step.

The tables hold no total reward and no group. Rows of a group stand together, so groups are the runs of one prompt, cut
into pieces of one size. A table may repeat the rows of the one before, and may hold evaluation rows.
"""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpo_rl.errors import DataError
from corpo_rl.rollouts.columns import as_list
from corpo_rl.rollouts.load import Keys, Table
from corpo_rl.rollouts.options import ReadOptions
from corpo_rl.rollouts.plan import MADE_HERE, Format, Plan, Sample
from corpo_rl.rollouts.scan import scan
from corpo_rl.rollouts.table import GROUPS, check_columns, reward_weights

GROUP = f"{MADE_HERE}group"

OURS = ("corpo_group", "corpo_reward", "corpo_split")
MOST_CANDIDATES = 6
PRECISION = 1e-3
ENOUGH = 3
"""Runs with advantages from which a size they all confirm is no chance: both halves of [1, 0, 1, 0] add up to 0."""

LARGEST = 1024
"""Largest group that is looked for."""

MOST_OTHERS = 0.2
"""Share of the rows that may be in groups of another size: more of them are not taken for evaluation rows."""


def _matches(sample: Sample) -> bool:
    """TRL writes these three first, the advantage somewhere after the rewards, and nothing that names a group."""
    names = list(sample.columns)
    in_order = names[:3] == ["step", "prompt", "completion"] and "advantage" in names
    return sample.kind == "parquet" and in_order and not set(GROUPS) & set(names)


def completions_plan(sample: Sample, options: ReadOptions, *, advantage: str = "advantage") -> Plan:
    """The plan of a table of completions.

    Args:
        sample: Its columns.
        options: As the user told.
        advantage: Name of its column of advantages.

    Raises:
        DataError: The table does not tell its rewards.
    """
    check_columns(sample, options)
    plan = Plan(
        rewards=(),
        none_adds_zero=True,
        step=options.step_column or "step",
        advantage=options.advantage_column or advantage,
        length=options.length_column,
        label=options.correct_column,
        prompt=options.prompt_column or "prompt",
        split=options.split_column,
        texts=(options.prompt_column or "prompt", options.completion_column or "completion"),
    )
    named = options.reward_columns or (
        tuple(options.reward_weights) if isinstance(options.reward_weights, dict) else ()
    )
    if set(OURS) <= set(sample.columns) and not named and not options.group_columns and options.group_size is None:
        return replace(
            plan,
            rewards=("corpo_reward",),
            group=("corpo_group",),
            split=options.split_column or "corpo_split",
            grouped_by="corpo_group",
            prepare=_once_each,
        )
    candidates = tuple(
        name for name in sample.columns if name in sample.numeric and name not in {plan.step, plan.advantage, *OURS}
    )
    rewards = named or candidates
    if not rewards:
        raise DataError(
            f"{sample.name}: no column of numbers beside step and advantage; name yours with --reward-column"
        )
    if not named and len(rewards) > MOST_CANDIDATES:
        raise _ask(sample.name, rewards)
    if named and options.reward_columns == () and any(name not in sample.columns for name in named):
        reward_weights(candidates, options)  # says which weight has no column
    plan = replace(plan, rewards=rewards, weights=reward_weights(rewards, options))
    if options.group_columns:
        plan = replace(plan, group=options.group_columns, prepare=_of_one_run)
    else:
        plan = replace(plan, prepare=_tell_groups)
    if not named and len(rewards) > 1 and options.reward_weights is None:
        return replace(plan, prepare=_tell_groups_and_rewards)
    return plan


def _ask(where: str, candidates: tuple[str, ...]) -> DataError:
    example = ",".join(f"{name}=1" for name in candidates[:3])
    return DataError(
        f"{where}: several columns may be rewards ({', '.join(candidates[:12])}); TRL does not log which are, nor "
        f"their weights; pass --reward-weights {example} or --reward-column"
    )


def _of_one_run(table: Table, plan: Plan, options: ReadOptions) -> Plan:
    table.check_one_run()
    return plan


def _once_each(table: Table, plan: Plan, options: ReadOptions) -> Plan:
    """Our own columns name the groups; a group that several tables hold is kept from the one that has most of it."""
    table.check_one_run()
    codes_N = table.keys["corpo_group"].codes_N
    size = int(codes_N.max(initial=-1)) + 1
    n_files = len(table.files)
    counts = np.bincount(codes_N * n_files + table.file_N, minlength=size * n_files)[: size * n_files]
    best_G = counts.reshape(size, n_files).argmax(axis=1) if size else np.zeros(0, dtype=np.intp)
    table.drop((codes_N >= 0) & (best_G[codes_N] != table.file_N), "repeated under a later step")
    return plan


def _tell_groups_and_rewards(table: Table, plan: Plan, options: ReadOptions) -> Plan:
    plan = _tell_groups(table, plan, options)
    group_N = table.keys[GROUP].codes_N
    advantage_N = table.numbers[plan.advantage or ""].values_N
    fitting = []
    for n in range(1, len(plan.rewards) + 1):
        for names in itertools.combinations(plan.rewards, n):
            rewards_N = np.sum([np.nan_to_num(table.numbers[name].values_N) for name in names], axis=0)
            if _explains(rewards_N, advantage_N, group_N):
                fitting.append(names)
    if len(fitting) != 1:
        raise _ask(table.files[0].name, plan.rewards)
    (names,) = fitting
    table.findings.note(
        f"the logged advantages are those of {' + '.join(names)} with weights of 1, and of no other columns"
    )
    return replace(plan, rewards=names)


def _explains(rewards_N: NDArray[np.float64], advantage_N: NDArray[np.float64], group_N: NDArray[np.int64]) -> bool:
    """Whether the advantages are the rewards' distances from the group's mean, over its std or over nothing."""
    known_N = np.isfinite(advantage_N)
    rewards_N, advantage_N, group_N = rewards_N[known_N], advantage_N[known_N], group_N[known_N]
    if not len(group_N) or not (np.abs(advantage_N) > PRECISION).any():
        return False
    n_G = np.maximum(np.bincount(group_N), 1)
    centred_N = rewards_N - (np.bincount(group_N, weights=rewards_N) / n_G)[group_N]
    std_G = np.sqrt(np.bincount(group_N, weights=centred_N**2) / np.maximum(n_G - 1, 1))
    for expected_N in (centred_N, centred_N / (std_G + 1e-4)[group_N]):
        if (np.abs(expected_N - advantage_N) <= PRECISION * np.maximum(1.0, np.abs(advantage_N))).mean() > 0.99:
            return True
    return False


def _tell_groups(table: Table, plan: Plan, options: ReadOptions) -> Plan:
    table.check_one_run()
    _drop_repeated(table, plan)
    prompt_N = table.keys[plan.prompt or ""].codes_N
    start_R, length_R = _runs(prompt_N, table.file_N)
    if options.group_size is not None:
        size, whole_R = options.group_size, length_R % options.group_size == 0
    else:
        size, whole_R = _size(table, plan, start_R, length_R)
    cut_N = np.repeat(~whole_R, length_R)
    if cut_N.any():
        files = sorted({table.files[number].name for number in table.file_N[cut_N].tolist()})
        table.findings.warnings.append(
            f"{int(cut_N.sum()):,} rows in {len(files)} file(s) (the first: {files[0]}) are not in groups of {size}: "
            "evaluation rows, or groups that the log cut; they are left out. If they are training rows, pass "
            "--group-size"
        )
        table.drop(cut_N, "evaluation row or part of a group")
        length_R = length_R[whole_R]
    if not len(table):
        raise DataError(
            f"{table.files[0].name}: no whole group of {size} rows; pass the run's num_generations as --group-size"
        )
    table.keys[GROUP] = Keys(np.arange(len(table)) // size, range(len(table) // size))
    told = " (as told)" if options.group_size else ""
    return replace(plan, group=(GROUP,), grouped_by=f"consecutive rows of one prompt, {size} each{told}")


def _runs(prompt_N: NDArray[np.int64], file_N: NDArray[np.int32]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """First row and length of each run of one prompt in one file."""
    new_N = np.concatenate([[True], (prompt_N[1:] != prompt_N[:-1]) | (file_N[1:] != file_N[:-1])])
    start_R = np.flatnonzero(new_N[: len(prompt_N)])
    return start_R, np.diff(np.append(start_R, len(prompt_N)))


def _size(
    table: Table, plan: Plan, start_R: NDArray[np.intp], length_R: NDArray[np.intp]
) -> tuple[int, NDArray[np.bool_]]:
    """Rollouts of a group, and which runs are made of such groups.

    A size is confirmed by a run when the advantages of every piece of that size add up to 0. The size that most rows
    confirm is the run's; runs that confirm only another are evaluation rows, whose groups may have a size of their own.
    Without advantages that confirm anything the commonest run is one group.
    """
    advantage_N = np.nan_to_num(table.numbers[plan.advantage or ""].values_N)
    distinct = np.unique(length_R).tolist()
    sizes = sorted({size for length in distinct for size in range(2, min(length, LARGEST) + 1) if length % size == 0})
    confirmed = {size: _confirmed(advantage_N, start_R, length_R, size) for size in sizes}
    n_rows, where = int(length_R.sum()), table.files[0].name
    rows_of = {size: int(length_R[confirmed_R].sum()) for size, confirmed_R in confirmed.items()}
    commonest = max(distinct, key=lambda length: (int(length_R[length_R == length].sum()), -length))
    varied_R = np.maximum.reduceat(np.abs(advantage_N), start_R) > PRECISION
    # Of sizes that as many rows confirm the smallest, unless so few runs have advantages that it may be chance.
    few = int(varied_R.sum()) < ENOUGH
    size = max(sizes, key=lambda one: (rows_of[one], few and one == commonest, -one), default=1)
    if size > 1 and varied_R.any() and rows_of[size] >= 0.5 * n_rows:
        other_R = ~confirmed[size] & np.logical_or.reduce([confirmed[one] for one in sizes])
        if length_R[other_R].sum() > MOST_OTHERS * n_rows:
            told = ", ".join(f"{length} ({int(length_R[length_R == length].sum()):,} rows)" for length in distinct[:4])
            raise DataError(
                f"{where}: groups cannot be told: runs of one prompt have lengths {told}, and by their advantages "
                "groups have different sizes, as where evaluation rows are logged beside training's; pass the run's "
                "num_generations as --group-size"
            )
        return size, (length_R % size == 0) & ~other_R

    rows_of_length = {length: int(length_R[length_R == length].sum()) for length in distinct}
    fitting = sum(rows for length, rows in rows_of_length.items() if length % commonest == 0)
    if commonest < 2 or fitting < 0.5 * n_rows:
        usual = sorted(rows_of_length.items(), key=lambda item: -item[1])[:4]
        told = ", ".join(f"{length} ({rows:,} rows)" for length, rows in usual)
        raise DataError(
            f"{where}: groups cannot be told: runs of one prompt have lengths {told}; pass the run's "
            "num_generations as --group-size"
        )
    table.findings.note(
        f"groups are taken to be the runs of one prompt, {commonest} rows; the logged advantages confirm no size, as "
        "they would by adding up to 0 in each group; --group-size says it for sure"
    )
    return commonest, length_R % commonest == 0


def _confirmed(
    advantage_N: NDArray[np.float64], start_R: NDArray[np.intp], length_R: NDArray[np.intp], size: int
) -> NDArray[np.bool_]:
    """Whether the advantages of every piece of that size add up to 0, for each run. Shape [R]."""
    confirmed_R = np.zeros(len(length_R), dtype=np.bool_)
    for length in np.unique(length_R).tolist():
        if length % size == 0:
            runs = np.flatnonzero(length_R == length)
            pieces = advantage_N[start_R[runs, None] + np.arange(length)].reshape(len(runs), -1, size)
            confirmed_R[runs] = (np.abs(pieces.sum(axis=2)) <= PRECISION * size).all(axis=1)
    return confirmed_R


def _drop_repeated(table: Table, plan: Plan) -> None:
    """Tables that hold the very rows of the one before: generations that were trained on in several steps."""
    n_files = len(table.files)
    bounds = np.searchsorted(table.file_N, np.arange(n_files + 1))
    columns: list[NDArray[Any]] = [table.keys[plan.prompt or ""].codes_N]
    columns += [numbers.values_N for name, numbers in table.numbers.items() if name != plan.step]
    repeated_N = np.zeros(len(table), dtype=np.bool_)
    kept = None
    for number in range(n_files):
        here = slice(int(bounds[number]), int(bounds[number + 1]))
        if here.start == here.stop:
            continue
        if kept is not None and _same_rows(columns, kept[1], here) and _same_texts(table, plan, kept[0], number):
            repeated_N[here] = True
        else:
            kept = (number, here)
    table.drop(repeated_N, "repeated under a later step")


def _same_rows(columns: Sequence[NDArray[Any]], a: slice, b: slice) -> bool:
    if a.stop - a.start != b.stop - b.start:
        return False
    return all(np.array_equal(column[a], column[b], equal_nan=column.dtype.kind == "f") for column in columns)


def _same_texts(table: Table, plan: Plan, a: int, b: int) -> bool:
    completion = plan.texts[1]
    if completion is None:
        return True
    texts = []
    for number in (a, b):
        blocks = scan(table.files[number], [completion], table.findings)
        texts.append([value for block in blocks for value in as_list(block.columns[completion])])
    return bool(texts[0] == texts[1])


TRL = Format(name="trl", title="TRL completions", matches=_matches, plan=completions_plan)
