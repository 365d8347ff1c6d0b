"""A run's log: whether CoRPO was on, by the advantages that it logged."""

from pathlib import Path
from typing import Any

from corpo_rl.audit.document import audit_rollouts
from corpo_rl.doctor.finding import ERROR, NOTE, WARNING, Finding
from corpo_rl.rollouts.read import read_rollouts


def check_log(path: Path, *, min_correct: float) -> list[Finding]:
    """What the logged advantages say of the estimator, and the rewards of the threshold.

    Args:
        path: A log, or a folder of logs, as `corpo-rl audit` reads it.
        min_correct: Least reward that counts as correct.

    Raises:
        DataError, UsageError: As `read_rollouts` and `audit_rollouts`.
    """
    return judge_log(audit_rollouts(read_rollouts([path]), min_correct=min_correct), where=str(path))


def judge_log(audit: dict[str, Any], *, where: str) -> list[Finding]:
    """The same from an audit."""
    found = []
    if audit["advantages_from"] == "recomputed":
        found.append(Finding(NOTE, where, "the log holds no advantages, so it cannot show which estimator was on"))
    else:
        name, reinforced = audit["estimator"], audit["n_reinforced_failures"]
        if reinforced:
            found.append(
                Finding(
                    ERROR,
                    where,
                    f"{reinforced:,} failed rollouts have an advantage above 0 (the advantages are those of {name}): "
                    "CoRPO was not on, or its threshold is not this one",
                    "CorpoTrainer with min_correct=..., or algorithm.adv_estimator=corpo",
                )
            )
        elif name not in ("corpo", "loo_corpo", "static"):
            found.append(
                Finding(
                    WARNING, where, f"no failure was reinforced, but the advantages are those of {name}, not of CoRPO"
                )
            )
    for finding in audit["findings"]:
        if finding["id"] == "floor" and finding["status"] == "WARN":
            change = next(iter(finding["action"].values()), "")
            found.append(Finding(ERROR, where, f"{finding['title']}: {finding['evidence']}", change))
    return found
