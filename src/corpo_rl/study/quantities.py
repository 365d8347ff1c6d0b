"""From the results of a study to the numbers that its claims and tables are about."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from corpo_rl.core.passk import pass_at_k
from corpo_rl.study.execution import DIGITS
from corpo_rl.study.plan import FREE

Window = Literal["early", "middle", "late", "all"]
"""The first `early` steps, the last `late` ones, as many before those, or every step."""

Runs = Mapping[int, Mapping[str, Any]]
"""Runs of one condition, by seed."""


@dataclass(frozen=True)
class Study:
    """Results of a study, with what is looked up in them."""

    results: Mapping[str, Any]

    def runs(
        self,
        reward: str,
        method: str,
        threshold: float | None,
        *,
        part: str = "main",
        base: str = "mini",
    ) -> dict[int, Mapping[str, Any]]:
        """Runs of a condition by seed. The threshold of a method that trains without one is not looked at."""
        trained_under = None if method in (*FREE, "none") else threshold
        return {
            run["seed"]: run
            for run in self.results["runs"]
            if (run["part"], run["base"], run["reward"], run["method"], run["threshold"])
            == (part, base, reward, method, trained_under)
        }

    def cells(self) -> list[tuple[str, float]]:
        """Every reward with each of its thresholds."""
        return [(reward, one) for reward, values in self.results["plan"]["thresholds"].items() for one in values]

    def window(self, which: Window) -> slice:
        """Bins of a window."""
        sizes = self.results["plan"]["sizes"]
        early, late, n_bins = (sizes[name] // sizes["bin"] for name in ("early", "late", "steps"))
        return {
            "early": slice(0, early),
            "middle": slice(n_bins - 2 * late, n_bins - late),
            "late": slice(n_bins - late, n_bins),
            "all": slice(0, n_bins),
        }[which]


def total(study: Study, run: Mapping[str, Any], name: str, window: Window, threshold: float | None = None) -> int:
    """A count added up over a window; `threshold` for the counts that are kept by threshold."""
    series = run["series"][name]
    values = series if threshold is None else series[f"{threshold:g}"]
    return int(sum(values[study.window(window)]))


def reinforced_share(study: Study, runs: Runs, threshold: float, window: Window) -> NDArray[np.float64]:
    """Share of a window's failed rollouts with an advantage above 0, of each seed; NaN when none failed. Shape [S]."""
    return _ratios(
        [
            (total(study, run, "failed_up", window, threshold), total(study, run, "failed", window, threshold))
            for run in runs.values()
        ]
    )


def floored_share(study: Study, runs: Runs, threshold: float, window: Window) -> NDArray[np.float64]:
    """Share of the groups of a window with a mean reward under the threshold, of each seed. Shape [S]."""
    prompts = study.results["plan"]["sizes"]["prompts"] * study.results["plan"]["sizes"]["bin"]
    bins = study.window(window)
    n_groups = prompts * (bins.stop - bins.start)
    return _ratios([(total(study, run, "floored", window, threshold), n_groups) for run in runs.values()])


def failed_share(study: Study, runs: Runs, threshold: float, window: Window) -> NDArray[np.float64]:
    """Share of the rollouts of a window that failed, of each seed. Shape [S]."""
    sizes = study.results["plan"]["sizes"]
    bins = study.window(window)
    n_rollouts = sizes["prompts"] * sizes["group_size"] * sizes["bin"] * (bins.stop - bins.start)
    return _ratios([(total(study, run, "failed", window, threshold), n_rollouts) for run in runs.values()])


def log_r_count(study: Study, runs: Runs, window: Window) -> NDArray[np.float64]:
    """Natural logarithm of r_count over a window, of each seed. Shape [S].

        log((n_up + 1/2) / (n_down + 1/2)),   n_up and n_down counted over all steps of the window

    The halves keep it finite where nothing was pushed one way; of a thousand rollouts they change the third digit at
    most (Haldane 1956, for log odds). NaN where nothing was pushed at all.
    """
    counts = [[total(study, run, name, window) for name in ("up", "down")] for run in runs.values()]
    up_S, down_S = np.array(counts, dtype=np.float64).reshape(-1, 2).T
    return np.where(up_S + down_S > 0, np.log((up_S + 0.5) / (down_S + 0.5)), np.nan)


def solved(runs: Runs, split: str, threshold: float, *, k: int) -> NDArray[np.float64]:
    """pass@k of each seed at each item, by a threshold. Shape [S, I]."""
    rows = []
    for run in runs.values():
        found = run["evaluation"][split]
        correct_I = np.array([DIGITS.index(digit) for digit in found["correct"][f"{threshold:g}"]])
        rows.append(pass_at_k(correct_I, np.full(len(correct_I), found["n_samples"]), k=k))
    return np.array(rows)


def updates(runs: Runs) -> NDArray[np.float64]:
    """Mean size of an update, of each seed. Shape [S]."""
    return np.array([np.mean(run["series"]["update"]) for run in runs.values()])


def paired(*conditions: Runs) -> list[dict[int, Mapping[str, Any]]]:
    """The runs of several conditions under the seeds that all of them have, in one order."""
    seeds = sorted(set.intersection(*(set(runs) for runs in conditions))) if conditions else []
    return [{seed: runs[seed] for seed in seeds} for runs in conditions]


def _ratios(counts: Sequence[tuple[int, int]]) -> NDArray[np.float64]:
    return np.array([part / whole if whole else np.nan for part, whole in counts])
