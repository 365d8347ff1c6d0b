"""The tables of this recipe's page: `python recipes/kin/figures.py runs/kin/results.json > recipes/kin/numbers.json`.

With --tables and numbers.json in the place of results.json it prints the tables themselves.
"""

import json
import sys
from pathlib import Path
from statistics import median

SPLITS = ("in_domain", "ood", "other_domain")
CURVES = ("grad_norm", "r_count", "reinforced_failure_share", "correct_share", "floored_group_share")
PARTS = {"first": slice(0, 20), "last": slice(80, 100)}
SCALED = ("corpo", "corpo+batch_std", "corpo+phase", "dr_grpo", "grpo")


def numbers(results):
    """Final pass@1 with its interval on each split, and medians of the training curves at both ends."""
    found = {"command": results["command"], "n_items": {}, "base": {}, "methods": {}}
    found["base"] = {split: results["base"]["evaluation"][split]["measures"]["pass@1"] for split in SPLITS}
    for run in results["runs"]:
        ends = {curve: {part: middle(run["curves"][curve][rows]) for part, rows in PARTS.items()} for curve in CURVES}
        found["methods"][run["method"]] = {
            "pass@1": {split: run["evaluation"][split]["measures"]["pass@1"] for split in SPLITS},
            "curves": ends,
            "train_seconds": run["train_seconds"],
        }
    return found


def middle(values):
    """Median of the steps in which the figure is defined; None where it never is."""
    known = [value for value in values if value is not None]
    return median(known) if known else None


def interval(measure):
    return f"{measure['value']:.2f} [{measure['low']:.2f}, {measure['high']:.2f}]"


def figure(value, places=2):
    return "n/a" if value is None else f"{value:.{places}f}"


def outcome_table(found):
    """pass@1 on each split, r_count at both ends, and failures reinforced at the beginning."""
    lines = [
        "| method | in domain | out of domain | other domain | r_count first, last | failures reinforced, first |",
        "|---|---|---|---|---|---|",
        "| base | " + " | ".join(interval(found["base"][split]) for split in SPLITS) + " | | |",
    ]
    for name, row in found["methods"].items():
        cells = [interval(row["pass@1"][split]) for split in SPLITS]
        count, flaw = row["curves"]["r_count"], row["curves"]["reinforced_failure_share"]
        cells += [f"{figure(count['first'])}, {figure(count['last'])}", f"{100 * flaw['first']:.0f} %"]
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def scale_table(found):
    """Gradient norm before clipping and share of correct rollouts, at both ends, under CoRPO's scales."""
    lines = [
        "| method | gradient norm, first 20 steps | last 20 | correct rollouts, first 20 | last 20 |",
        "|---|---|---|---|---|",
    ]
    for name in SCALED:
        curves = found["methods"][name]["curves"]
        cells = [figure(curves[curve][part]) for curve in ("grad_norm", "correct_share") for part in PARTS]
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    *flags, path = sys.argv[1:]
    data = json.loads(Path(path).read_text())
    if flags == ["--tables"]:
        print(outcome_table(data), scale_table(data), sep="\n\n")
    else:
        print(json.dumps(numbers(data), indent=1))
