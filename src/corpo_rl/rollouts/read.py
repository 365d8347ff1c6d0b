"""From the files of a run to its rollouts."""

import os
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from corpo_rl.errors import DataError, UsageError
from corpo_rl.records import RolloutLog, Texts
from corpo_rl.rollouts.columns import REASONS, factorize
from corpo_rl.rollouts.copies import copies
from corpo_rl.rollouts.detect import detect
from corpo_rl.rollouts.files import BROKEN, Findings, LogFile, find_files, line_blocks
from corpo_rl.rollouts.load import Table, first_rows, load, step_codes
from corpo_rl.rollouts.options import ReadOptions
from corpo_rl.rollouts.plan import MADE_HERE, Format, Plan, Sample
from corpo_rl.rollouts.sample import merged, sample_file
from corpo_rl.rollouts.sizes import size_warnings
from corpo_rl.rollouts.texts import read_texts

_LOOKED_AT = 100_000
"""Rewards of each column that are looked at for fractions which float32 does not hold."""


def read_rollouts(paths: Iterable[str | os.PathLike[str]], options: ReadOptions | None = None) -> RolloutLog:
    """The rollouts of a run, from files, folders or patterns.

    The format is detected. Rows that cannot be read are counted and left out; rollouts without a usable reward are
    counted and kept, with a reward of NaN.

    Args:
        paths: What the run wrote, in any order for formats with ids; a folder's files are taken in step order.
        options: What cannot be found in the log.

    Raises:
        UsageError: A path does not exist, or the log holds no row.
        DataError: A file cannot be read, or the log does not tell its rewards or groups; the message says what to pass.
    """
    return read_with_texts(paths, options)[0]


def read_with_texts(
    paths: Iterable[str | os.PathLike[str]], options: ReadOptions | None = None
) -> tuple[RolloutLog, Callable[[Sequence[int]], list[Texts]]]:
    """As `read_rollouts`, and a function that fetches prompt and completion of rows of the log from its files."""
    options = ReadOptions() if options is None else options
    if options.group_size is not None and options.group_size < 1:
        raise UsageError(f"--group-size: expected at least 1, got {options.group_size}")
    files, samples = _with_rows(find_files(paths))
    form, kept = detect(samples, options.format)
    left_out = [file.name for place, file in enumerate(files) if place not in set(kept)]
    files, samples = [files[place] for place in kept], [samples[place] for place in kept]
    sample = merged(samples)
    plan = form.plan(sample, options)
    _check_schemas(samples, plan)
    table = load(files, plan, options)
    if left_out:
        table.findings.note(f"{len(left_out):,} other tables in the folder were left out (the first: {left_out[0]})")
    _refuse_nothing(table)
    if plan.prepare is not None:
        plan = plan.prepare(table, plan, options)
    log = _log(table, plan, form, sample, options)
    return log, lambda rows: read_texts(log, files, plan, rows)


def _with_rows(files: Sequence[LogFile]) -> tuple[list[LogFile], list[Sample]]:
    sampled = [(file, sample) for file in files if (sample := sample_file(file)) is not None]
    if not sampled:
        findings = Findings()
        for _ in line_blocks(files[0], findings) if files[0].compression else ():
            pass
        if findings.problems:
            raise DataError(f"{findings.problems[0]}, before its first row; is it complete?")
        raise UsageError(f"{files[0].name}: the log holds no row; nothing to audit")
    if not any(sample.columns for _, sample in sampled):
        raise DataError(f"{sampled[0][0].name}: no line is a JSON object; expected one for each rollout")
    return [file for file, _ in sampled], [sample for _, sample in sampled]


def _check_schemas(samples: Sequence[Sample], plan: Plan) -> None:
    """Refuse a log some of whose files lack the rewards that others have."""
    if plan.explode is not None:
        return
    for name in plan.rewards:
        having = [sample for sample in samples if name in sample.columns]
        lacking = [sample for sample in samples if name not in sample.columns and sample.columns]
        if having and lacking:
            raise DataError(
                f"{lacking[0].name}: no column {name!r}, which {having[0].name} has (columns: "
                f"{', '.join(list(lacking[0].columns)[:12])}); name the files of one kind"
            )


def _refuse_nothing(table: Table) -> None:
    if not len(table):
        raise DataError(
            f"{table.files[0].name}: no rollout is left of {table.findings.n_rows:,} rows "
            f"({_counted(table.findings.dropped)})"
        )


def _log(table: Table, plan: Plan, form: Format, sample: Sample, options: ReadOptions) -> RolloutLog:
    _keep_split(table, plan, options)
    _drop_repeated(table, plan)
    if not {"duplicate", "repeated under a later step"} & table.findings.dropped.keys():
        table.findings.warnings += [
            f"{copy.name} is a copy of {first.name}, so its rollouts count twice; leave one out"
            for copy, first in copies(table.files)[:3]
        ]
    group_N, grouped_by = _groups(table, plan, options)
    _refuse_nothing(table)
    rewards_N, why_N = _rewards(table, plan)
    unscorable = {
        REASONS[code]: int(count)
        for code, count in enumerate(np.bincount(why_N[why_N > 0], minlength=len(REASONS)))
        if code and count
    }
    _tell_unscorable(table, plan, why_N, options)
    first_G = first_rows(group_N)
    step_G = _steps(table, plan, first_G)
    prompt_G = _prompts(table, plan, group_N, first_G)
    table.findings.warnings += size_warnings(np.bincount(group_N))
    advantages_N = _optional(table, plan.advantage)
    components = {name: table.numbers[name].values_N for name in plan.rewards} if len(plan.rewards) > 1 else {}
    for name, numbers in table.numbers.items():
        if numbers.bools:
            table.findings.note(f"true and false in {name!r} were read as 1 and 0")
    used = _used(plan)
    return RolloutLog(
        format=form.name,
        title=plan.title or form.title,
        sources=tuple(file.name for file in table.files),
        grouped_by=grouped_by,
        rewards_N=rewards_N,
        group_N=group_N.astype(np.intp, copy=False),
        file_N=table.file_N,
        row_N=table.row_N,
        part_N=table.part_N,
        step_G=step_G,
        prompt_G=prompt_G,
        advantages_N=advantages_N,
        lengths_N=_optional(table, plan.length),
        length_unit=plan.length_unit,
        labels_N=_labels(table, plan),
        label_column=plan.label or "",
        components=components,
        weights={name: float(plan.weights.get(name, 1.0)) for name in plan.rewards},
        float32=_through_float32([table.numbers[name].values_N for name in plan.rewards]),
        n_rows=table.findings.n_rows,
        dropped=dict(table.findings.dropped),
        unscorable=unscorable,
        problems=tuple(table.findings.problems),
        columns_used=used,
        columns_unused=tuple(
            name for name in sample.columns if name not in {*used.values(), *plan.fields, *plan.rewards}
        ),
        warnings=tuple(table.findings.warnings),
        notes=tuple(table.findings.notes),
    )


def _keep_split(table: Table, plan: Plan, options: ReadOptions) -> None:
    if plan.split is None:
        return
    keys = table.keys[plan.split]
    names = [str(name) for name in keys.names]
    wanted = names.index(options.split) if options.split in names else -2
    if wanted == -2 and len(table):
        raise DataError(
            f"{table.files[0].name}: no row of split {options.split!r} in column {plan.split!r} (it holds "
            f"{', '.join(map(repr, names[:8])) or 'nothing'}); pass --split"
        )
    other_N = keys.codes_N != wanted
    table.drop(other_N, f"row of another split than {options.split!r}")


def _drop_repeated(table: Table, plan: Plan) -> None:
    """Keep the first of the rows with one and the same key; rows without a key are kept."""
    if not plan.row_key or not len(table):
        return
    known_N = np.all([table.keys[name].codes_N >= 0 for name in plan.row_key], axis=0)
    row_N = table.numbered(*plan.row_key)
    table.drop(known_N & (first_rows(row_N)[row_N] != np.arange(len(table))), "duplicate")


def _groups(table: Table, plan: Plan, options: ReadOptions) -> tuple[NDArray[np.int64], str]:
    """Group of each row, 0 to G-1 in order of first appearance, and how it was told."""
    if not plan.group:
        size = options.group_size
        assert size is not None, "a plan names group columns unless the size is given"
        _check_consecutive(table, size)
        return np.arange(len(table)) // size, f"consecutive rows in pieces of {size} (as told)"
    columns = list(plan.group)
    missing_N = np.zeros(len(table), dtype=np.bool_)
    for name in columns:
        missing_N |= table.keys[name].codes_N < 0
    table.drop(missing_N, "no group id")
    keys = [table.keys[name].codes_N for name in columns]
    step_N = None
    if plan.step_in_group and plan.step is not None and plan.step not in columns:
        step_N = table.numbers[plan.step].values_N
        columns.insert(0, plan.step)
    return _numbered(step_N, keys), plan.grouped_by or " and ".join(columns)


def _check_consecutive(table: Table, size: int) -> None:
    """Refuse rows that pieces of one size would cut at the wrong places: no group may cross from file to file."""
    ends_F = np.cumsum(np.bincount(table.file_N, minlength=len(table.files)))
    for file, start, end in zip(table.files, [0, *ends_F[:-1].tolist()], ends_F.tolist(), strict=True):
        if (end - start) % size:
            raise DataError(
                f"{file.name}: {end - start:,} rows are no whole number of groups of {size}; check --group-size, or "
                "pass --group-columns"
            )
        if end > start and BROKEN in table.findings.dropped:
            gap_N = np.diff(table.row_N[start:end], prepend=1 if file.kind == "csv" else 0) != 1
            if gap_N.any():
                raise DataError(
                    f"{file.name}:{table.row_N[start + int(gap_N.argmax())] - 1}: a broken line among the rows, so "
                    "counting them tells no groups; take its group out of the file, or pass --group-columns"
                )


def _numbered(step_N: NDArray[np.float64] | None, keys: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """A number for each different row of keys, in order of first appearance. Shape [N].

    Rows of a group mostly stand together, so only the first of each run of equal ones is looked at.
    """
    new_N = np.zeros(len(keys[0]), dtype=np.bool_)
    new_N[:1] = True
    for values_N in keys if step_N is None else [step_N, *keys]:
        new_N[1:] |= values_N[1:] != values_N[:-1]
    start_R = np.flatnonzero(new_N)
    number_R = np.zeros(len(start_R), dtype=np.int64) if step_N is None else step_codes(step_N[start_R]) + 1
    for key_N in keys:
        key_R = key_N[start_R]
        number_R, _ = factorize(number_R * (int(key_R.max(initial=0)) + 1) + key_R)
    return np.repeat(number_R, np.diff(start_R, append=len(new_N)))


def _rewards(table: Table, plan: Plan) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
    """Weighted sum of the reward columns, NaN where it is unknown, and why it is."""
    if len(plan.rewards) == 1:
        numbers = table.numbers[plan.rewards[0]]
        weight = plan.weights.get(plan.rewards[0], 1.0)
        return (numbers.values_N if weight == 1.0 else weight * numbers.values_N), numbers.why_N
    total_N = np.zeros(len(table))
    why_N = np.zeros(len(table), dtype=np.uint8)
    all_missing_N = np.ones(len(table), dtype=np.bool_)
    for name in plan.rewards:
        numbers = table.numbers[name]
        missing_N = np.isnan(numbers.values_N)
        total_N += plan.weights.get(name, 1.0) * np.where(missing_N, 0.0, numbers.values_N)
        why_N = np.where((why_N == 0) & missing_N, numbers.why_N, why_N)
        all_missing_N &= missing_N
    unknown_N = all_missing_N if plan.none_adds_zero else why_N > 0
    partial = int(np.count_nonzero((why_N > 0) & ~all_missing_N))
    if partial and plan.none_adds_zero:
        table.findings.note(f"{partial:,} rollouts lack some of their rewards; a missing one adds 0, as in the trainer")
    return np.where(unknown_N, np.nan, total_N), np.where(unknown_N, why_N, 0).astype(np.uint8)


def _tell_unscorable(table: Table, plan: Plan, why_N: NDArray[np.uint8], options: ReadOptions) -> None:
    rows = np.flatnonzero(why_N)
    if not len(rows):
        return
    column = " + ".join(plan.rewards)
    if options.unscorable == "refuse":
        raise DataError(
            f"{table.where(int(rows[0]))}: reward {column!r} is {REASONS[why_N[rows[0]]]}, and so are "
            f"{len(rows) - 1:,} more; pass --unscorable exclude to leave such rollouts out"
        )
    if len(rows) == len(why_N):
        raise DataError(
            f"{table.where(0)}: no rollout has a reward: {column!r} is {REASONS[why_N[0]]} here and no number "
            "anywhere; name the reward with --reward-column"
        )
    for row in rows[: max(20 - len(table.findings.problems), 0)].tolist():
        table.findings.problem(f"{table.where(row)}: reward {column!r} is {REASONS[why_N[row]]}")


def _steps(table: Table, plan: Plan, first_G: NDArray[np.int64]) -> NDArray[np.int64] | None:
    if plan.step is None:
        return None
    values_G = table.numbers[plan.step].values_N[first_G]
    usable_G = np.isfinite(values_G) & (np.abs(np.nan_to_num(values_G)) < 2**53)
    if not usable_G.all():
        if usable_G.any():
            table.findings.warnings.append(
                f"{np.count_nonzero(~usable_G):,} groups have no step in column {plan.step!r}, so there are no curves; "
                "name another with --step-column"
            )
        return None
    return np.floor(values_G).astype(np.int64)


def _prompts(
    table: Table, plan: Plan, group_N: NDArray[np.int64], first_G: NDArray[np.int64]
) -> NDArray[np.intp] | None:
    if plan.prompt is None:
        return None
    code_N = table.keys[plan.prompt].codes_N
    code_G = code_N[first_G]
    if (code_G < 0).any():
        return None
    mixed_N = code_N != code_G[group_N] if plan.prompt not in plan.group else None
    if mixed_N is not None and mixed_N.any():
        n_mixed = len(np.unique(group_N[mixed_N]))
        table.findings.warnings.append(
            f"{n_mixed:,} of {len(first_G):,} groups hold rollouts of different prompts by column {plan.prompt!r}; "
            "check the grouping with --group-columns"
        )
    prompt_G, _ = factorize(code_G)
    return prompt_G.astype(np.intp, copy=False)


def _optional(table: Table, name: str | None) -> NDArray[np.float64] | None:
    if name is None:
        return None
    values_N = table.numbers[name].values_N
    return None if np.isnan(values_N).all() else values_N


def _labels(table: Table, plan: Plan) -> NDArray[np.float64] | None:
    if plan.label is None:
        return None
    values_N = table.numbers[plan.label].values_N
    known_N = ~np.isnan(values_N)
    other_N = known_N & (values_N != 0) & (values_N != 1)
    if other_N.any() or not known_N.any():
        row = int(np.argmax(other_N)) if other_N.any() else 0
        found = f"{values_N[row]:g}" if other_N.any() else REASONS[table.numbers[plan.label].why_N[row]]
        raise DataError(
            f"{table.where(row)}: column {plan.label!r} should say 0 or 1, true or false, found {found}; for a graded "
            "column pass --reward-column and --min-correct"
        )
    return values_N


def _through_float32(columns: Sequence[NDArray[np.float64]]) -> bool:
    """Whether the numbers have been float32: each is one exactly, and some are no short binary fraction."""
    fraction = False
    for values_N in columns:
        for first in range(0, len(values_N), _LOOKED_AT):  # in pieces: most logs tell in the first
            piece_N = values_N[first : first + _LOOKED_AT]
            known_N = piece_N[~np.isnan(piece_N)]
            with np.errstate(over="ignore"):
                if not (known_N == known_N.astype(np.float32)).all():
                    return False
            if first == 0:
                scaled_N = known_N * 2.0**12
                fraction |= bool((scaled_N != np.round(scaled_N)).any())
    return fraction


def _used(plan: Plan) -> dict[str, str]:
    roles = {
        "reward": " + ".join(plan.rewards),
        "group": ", ".join(name for name in plan.group if not name.startswith(MADE_HERE)),
        "step": plan.step,
        "advantage": plan.advantage,
        "length": plan.length if plan.length is None or not plan.length.startswith(MADE_HERE) else None,
        "label": plan.label,
        "prompt": plan.prompt,
        "split": plan.split,
        "shown prompt": plan.texts[0],
        "shown completion": plan.texts[1],
    }
    return {role: name for role, name in roles.items() if name}


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {reason}" for reason, count in counts.items()) or "none was readable"
