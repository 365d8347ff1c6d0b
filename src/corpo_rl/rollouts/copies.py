"""Files that are copies of others, whose rollouts would be counted twice."""

import hashlib
from collections import defaultdict
from collections.abc import Sequence

from corpo_rl.rollouts.files import LogFile, unreadable

HEAD = 1 << 16


def copies(files: Sequence[LogFile]) -> list[tuple[LogFile, LogFile]]:
    """Each file that equals an earlier one byte for byte, with that one.

    Only files of one size are compared, by their first 64 KB and, where these are equal, in whole.

    Raises:
        DataError: A file cannot be read.
    """
    by_size: dict[int, list[LogFile]] = defaultdict(list)
    for file in files:
        by_size[file.n_bytes].append(file)
    return [
        (copy, first)
        for alike in by_size.values()
        for candidates in _by_digest(alike, HEAD)
        for first, *others in _by_digest(candidates, None)
        for copy in others
    ]


def _by_digest(files: Sequence[LogFile], n_bytes: int | None) -> list[list[LogFile]]:
    """Files of one digest together; files that are alone are not digested."""
    if len(files) < 2:
        return [list(files)]
    found: dict[bytes, list[LogFile]] = defaultdict(list)
    for file in files:
        found[_digest(file, n_bytes)].append(file)
    return list(found.values())


def _digest(file: LogFile, n_bytes: int | None) -> bytes:
    try:
        with file.path.open("rb") as stream:
            if n_bytes is not None:
                return hashlib.blake2b(stream.read(n_bytes)).digest()
            return hashlib.file_digest(stream, "blake2b").digest()
    except OSError as error:
        raise unreadable(file.path, error) from error
