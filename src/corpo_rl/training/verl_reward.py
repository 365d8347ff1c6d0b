"""The verifier task's reward for verl: name this module as its custom reward function, the rest is settings.

    reward.custom_reward_function.path=pkg://corpo_rl.training.verl_reward

The data are those that `corpo-rl pairs to-verl` writes. Imports neither verl nor torch.
"""

from collections.abc import Mapping
from typing import Any

from corpo_rl.errors import DataError
from corpo_rl.records import VerifierItem
from corpo_rl.tasks.base import grade
from corpo_rl.tasks.pairs import PairsTask

MEASURES = ("brier", "score_accuracy", "hedge")


def compute_score(
    data_source: str, solution_str: str, ground_truth: Mapping[str, int], extra_info: Any = None, **_: Any
) -> dict[str, float | str | None]:
    r"""Reward of one completion, in verl's signature.

    Args:
        data_source: Not looked at; verl reports by it.
        solution_str: What the policy wrote, to end with the lines `A: <score>` and `B: <score>`.
        ground_truth: The labels, {"label_a": 1, "label_b": 0}.
        extra_info: Not looked at.

    Returns:
        score: The reward, from -1 to 1; see `corpo_rl.tasks.verifier.min_margin_reward`. -1 for what cannot be parsed.
        acc: 1 when both scores are on the right side of 5 (score >= 0.2), else 0.
        unparsable: 1 when the completion could not be parsed, else 0.
        failure: In what way, as `PairsTask.parse` names it; "none" when it could.
        brier, score_accuracy, hedge: See `corpo_rl.tasks.verifier.verifier_measures`. None for what cannot be parsed;
            verl leaves those out of its means.
        The same keys every time: verl takes them from a batch's first row.

    Raises:
        DataError: The ground truth is not two labels.

    Example:
        >>> row = compute_score("pairs/train", "Both look right.\nA: 9\nB: 7", {"label_a": 1, "label_b": 1})
        >>> row["score"], row["acc"], row["failure"]
        (0.4, 1.0, 'none')
        >>> row = compute_score("pairs/train", "A: 9", {"label_a": 1, "label_b": 1})
        >>> row["score"], row["failure"], row["brier"]
        (-1.0, 'missing_score', None)
    """
    item = _item(ground_truth)
    graded = grade(PairsTask([item]), item, solution_str)
    return {
        "score": graded.reward,
        "acc": float(graded.correct),
        "unparsable": float(graded.failure is not None),
        "failure": graded.failure or "none",
        **{name: graded.measures.get(name) for name in MEASURES},
    }


def _item(ground_truth: Mapping[str, int]) -> VerifierItem:
    """An item with these labels; the reward looks at nothing else of it."""
    labels = [ground_truth.get(name) if isinstance(ground_truth, Mapping) else None for name in ("label_a", "label_b")]
    if not all(label in (0, 1) for label in labels):
        raise DataError(
            f"reward_model.ground_truth: expected label_a and label_b, each 0 or 1, found {ground_truth!r}; write the "
            "data with: corpo-rl pairs to-verl"
        )
    label_a, label_b = (int(label) for label in labels if label is not None)
    return VerifierItem("", "", "", "", label_a, label_b, domain="", split="")
