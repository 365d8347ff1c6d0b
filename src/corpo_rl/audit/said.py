"""What an audit says of the log it was made from."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from corpo_rl.audit.curves import numbered_steps
from corpo_rl.audit.tally import Tally
from corpo_rl.records import RolloutLog


def told(log: RolloutLog, tally: Tally) -> dict[str, Any]:
    """What was read, from which files and columns, and what was left out: the document's part "log"."""
    group_sizes = {str(size): int(tally.total(tally.size_G == size)) for size in np.unique(tally.size_G).tolist()}
    steps = None
    if log.step_G is not None:
        distinct, _ = numbered_steps(log.step_G)
        steps = {"first": int(distinct[0]), "last": int(distinct[-1]), "n": len(distinct)}
    return {
        "format": log.format,
        "title": log.title,
        "said": said(log, group_sizes),
        "n_files": len(log.sources),
        "sources": list(log.sources[:20]),
        "grouped_by": log.grouped_by,
        "n_rows": log.n_rows,
        "dropped": dict(log.dropped),
        "unscorable": dict(log.unscorable),
        "problems": list(log.problems),
        "columns_used": dict(log.columns_used),
        "columns_unused": list(log.columns_unused),
        "group_sizes": group_sizes,
        "steps": steps,
        "warnings": list(log.warnings),
        "notes": list(log.notes),
        "float32": log.float32,
    }


def said(log: RolloutLog, group_sizes: Mapping[str, int]) -> str:
    """What was read, in a sentence: "verl V1 rollouts, 120 files, grouped by ..., 12,500 groups of 8"."""
    n_groups = sum(group_sizes.values())
    if len(group_sizes) == 1:
        size = next(iter(group_sizes))
        groups = f"{n_groups:,} group{'s' * (n_groups != 1)} of {size}"
    else:
        usual = sorted(group_sizes.items(), key=lambda item: (-item[1], int(item[0])))
        listed = ", ".join(f"{count:,} of {size}" for size, count in usual[:4])
        groups = f"{n_groups:,} groups ({listed}{', ...' if len(usual) > 4 else ''})"
    n_files = len(log.sources)
    return f"{log.title}, {n_files:,} file{'s' * (n_files != 1)}, grouped by {log.grouped_by}, {groups}"
