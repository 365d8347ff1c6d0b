"""The columns a plan names, read from all files of a log into one table."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpo_rl.errors import DataError, UsageError
from corpo_rl.rollouts.columns import NO_FIELD, KeyColumn, NumberColumn, Values, as_list, factorize
from corpo_rl.rollouts.files import Findings, LogFile
from corpo_rl.rollouts.options import ReadOptions
from corpo_rl.rollouts.plan import Plan
from corpo_rl.rollouts.scan import ColumnBlock, scan, scan_exploded


@dataclass
class Numbers:
    """A column of numbers."""

    values_N: NDArray[np.float64]  # noqa: N815
    """NaN where there is none. Shape [N]."""
    why_N: NDArray[np.uint8]  # noqa: N815
    """Index into `columns.REASONS`: why there is none. Shape [N]."""
    bools: bool = False
    """Whether some were true or false."""


@dataclass
class Keys:
    """A column of keys."""

    codes_N: NDArray[np.int64]  # noqa: N815
    """Equal for equal keys, from 0; -1 where there is no key. Shape [N]."""
    names: Sequence[Any] | NDArray[Any]
    """Key of each code."""


@dataclass
class Table:
    """Columns of all files, row by row in the order of the files."""

    numbers: dict[str, Numbers]
    keys: dict[str, Keys]
    file_N: NDArray[np.int32]  # noqa: N815
    row_N: NDArray[np.int64]  # noqa: N815
    part_N: NDArray[np.int32] | None  # noqa: N815
    files: Sequence[LogFile]
    findings: Findings

    def __len__(self) -> int:
        """N."""
        return len(self.file_N)

    def drop(self, dropped_N: NDArray[np.bool_], reason: str) -> None:
        """Take rows out, and count them under the reason."""
        n = int(np.count_nonzero(dropped_N))
        if not n:
            return
        self.findings.drop(reason, n)
        kept = ~dropped_N
        for numbers in self.numbers.values():
            numbers.values_N, numbers.why_N = numbers.values_N[kept], numbers.why_N[kept]
        for keys in self.keys.values():
            keys.codes_N = keys.codes_N[kept]
        self.file_N, self.row_N = self.file_N[kept], self.row_N[kept]
        self.part_N = None if self.part_N is None else self.part_N[kept]

    def where(self, row: int) -> str:
        """Path and line of a row, with a colon between them."""
        return f"{self.files[self.file_N[row]].name}:{self.row_N[row]}"

    def numbered(self, *names: str) -> NDArray[np.int64]:
        """A number for each different row of these keys, from 0, in order of first appearance. Shape [N]."""
        number_N = np.zeros(len(self), dtype=np.int64)
        for name in names:
            codes_N = self.keys[name].codes_N
            number_N, _ = factorize(number_N * (int(codes_N.max(initial=0)) + 2) + codes_N + 1)
        return number_N

    def check_one_run(self) -> None:
        """Refuse files of one name in several folders, where a run writes a file for each step: those are several runs.

        Raises:
            DataError: There are such files.
        """
        seen: dict[str, LogFile] = {}
        for file in self.files:
            other = seen.setdefault(file.path.name, file)
            if other is not file:
                raise DataError(
                    f"{file.name}: {other.name} is the same step, so these are two runs; name the folder of one, or "
                    "compare them with: corpo-rl audit diff"
                )


def first_rows(group_N: NDArray[np.int64]) -> NDArray[np.int64]:
    """First row of each group, given the group of each row, 0 to G-1. Shape [G]."""
    start_R = np.flatnonzero(np.concatenate([[True], group_N[1:] != group_N[:-1]]))
    group_R = group_N[start_R]
    first_G = np.empty(int(group_R.max()) + 1, dtype=np.int64)
    first_G[group_R[::-1]] = start_R[::-1]  # of several writes to a place the last one stays
    return first_G


def step_codes(values_N: NDArray[np.float64]) -> NDArray[np.int64]:
    """Codes of numbers taken as keys; -1 where there is no number. Shape [N]."""
    known_N = ~np.isnan(values_N)
    whole_N = np.where(known_N, values_N, 0.0)
    if (np.abs(whole_N) < 2**53).all() and (whole_N == np.floor(whole_N)).all():
        codes_N, _ = factorize(whole_N.astype(np.int64))
    else:
        codes_N = np.unique(whole_N, return_inverse=True)[1].astype(np.int64)
    return np.where(known_N, codes_N, -1)


def load(files: Sequence[LogFile], plan: Plan, options: ReadOptions) -> Table:
    """Read every column the plan names.

    Raises:
        DataError: A file cannot be read.
        UsageError: The log holds no row.
    """
    number_names = _distinct([*plan.rewards, plan.step, plan.advantage, plan.length, plan.label, *plan.numbers])
    key_names = _distinct([*plan.group, plan.prompt, plan.split, *plan.row_key, *plan.keys])
    number_columns = {name: NumberColumn() for name in number_names}
    key_columns = {name: KeyColumn() for name in key_names}
    findings = Findings(warnings=list(plan.warnings), notes=list(plan.notes))
    wanted = list(dict.fromkeys([*number_names, *key_names]))

    file_blocks, row_blocks, part_blocks = [], [], []
    total, before = sum(file.n_bytes for file in files), 0
    for number, file in enumerate(files):
        for block in _blocks(file, plan, wanted, findings):
            for name, column in number_columns.items():
                column.extend(_values(block, name))
            for name, key_column in key_columns.items():
                key_column.extend(_values(block, name))
            n = len(block.row_B)
            findings.n_rows += n
            file_blocks.append(np.full(n, number, dtype=np.int32))
            row_blocks.append(block.row_B)
            if block.part_B is not None:
                part_blocks.append(block.part_B)
            if options.progress is not None:
                options.progress(before + min(block.n_bytes, file.n_bytes), total)
        before += file.n_bytes
        if options.progress is not None:
            options.progress(before, total)
    if not findings.n_rows or not row_blocks:
        raise UsageError(f"{files[0].name}: the log holds no row; nothing to audit")
    numbers = {}
    for name, column in number_columns.items():
        values_N, why_N = column.finish()
        numbers[name] = Numbers(values_N, why_N, column.saw_bools)
    return Table(
        numbers=numbers,
        keys={name: Keys(*column.finish()) for name, column in key_columns.items()},
        file_N=np.concatenate(file_blocks),
        row_N=np.concatenate(row_blocks).astype(np.int64, copy=False),
        part_N=np.concatenate(part_blocks) if part_blocks else None,
        files=files,
        findings=findings,
    )


def _blocks(file: LogFile, plan: Plan, wanted: Sequence[str], findings: Findings) -> Iterable[ColumnBlock]:
    if plan.explode is not None:
        yield from _with_path_step(scan_exploded(file, wanted, plan.fields, plan.explode, findings), file, plan)
        return
    if plan.transform is None:
        yield from _with_path_step(scan(file, wanted, findings), file, plan)
        return
    for block in _with_path_step(scan(file, list(plan.fields), findings), file, plan):
        columns = {name: as_list(values) for name, values in block.columns.items()}
        yield ColumnBlock(dict(plan.transform(columns)), block.row_B, block.n_bytes)


def _with_path_step(blocks: Iterable[ColumnBlock], file: LogFile, plan: Plan) -> Iterable[ColumnBlock]:
    step = plan.step_of_path(file.path) if plan.step_of_path is not None and plan.step is not None else None
    for block in blocks:
        if plan.step_of_path is not None and plan.step is not None:
            yield replace(block, columns={**block.columns, plan.step: [step] * len(block.row_B)})
        else:
            yield block


def _values(block: ColumnBlock, name: str) -> Values:
    found = block.columns.get(name)
    return [NO_FIELD] * len(block.row_B) if found is None else found


def _distinct(names: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys(name for name in names if name is not None))
