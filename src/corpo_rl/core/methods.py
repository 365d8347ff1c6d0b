"""Names of compositions: "qae=0.4+floor" is the quantile baseline at 0.4 that never falls under `min_correct`.

A method is a base, perhaps with a number, and then parts that change it:

    BASE[=NUMBER][+floor][+gate][+batch_std | +fixed=NUMBER | +phase]

    +floor      the baseline never falls under min_correct: a failed rollout scores below 0
    +gate       a failed rollout's advantage is capped at 0
    +batch_std  divided by the std of the batch's rewards; +fixed=C divided by C; +phase divided by the root mean square
                over the groups of the same phase
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corpo_rl.core import kin
from corpo_rl.core.advantages import ESTIMATORS, estimate_advantages, settled
from corpo_rl.core.composition import compose_advantages, scale_advantages
from corpo_rl.core.groups import Unscorable, finite_number, index_groups, reward_vector
from corpo_rl.errors import EstimatorError, UsageError

KIN: tuple[str, ...] = ("qae", "opo", "ema", "ngrpo", "odrpo", "max_gap", "w_reinforce", "nsr", "psr")
"""Bases beside `ESTIMATORS`."""

BASES: tuple[str, ...] = (*ESTIMATORS, *KIN)

NUMBERS: dict[str, tuple[str, float | None]] = {
    "qae": ("quantile", 0.5),
    "ema": ("decay", 0.9),
    "ngrpo": ("max_reward", None),
    "w_reinforce": ("correct_weight", 0.1),
}
"""What the number of a base is, and its value where it is left out. The median and the decay are ours; 0.1 is the
lambda of https://arxiv.org/abs/2506.01347; no value suits every reward's maximum."""

ALREADY_DIVIDED = ("grpo", "ngrpo", "odrpo")
"""Bases that divide by a group's std: no floor may come before that, and no further scale is offered."""

FLOOR_BASES = ("dr_grpo", "rloo", "qae", "opo", "ema")
"""Bases with a baseline that a floor can be put under. With it `dr_grpo` is `corpo`, and `rloo` is `loo_corpo`."""


@dataclass(frozen=True)
class Method:
    """One way to make advantages of rewards; `parse_method` makes and checks it."""

    name: str
    """As it was spelled."""
    base: str
    """One of `BASES`."""
    number: float | None
    """What `NUMBERS` says of the base; None where the base takes none."""
    floor: bool
    """Whether `+floor` was given."""
    gate: bool
    """Whether `+gate` was given."""
    scale: Literal["none", "batch_std", "fixed", "phase"]
    divisor: float | None
    """Of the fixed scale."""

    @property
    def floored(self) -> bool:
        """Whether the baseline never falls under `min_correct`."""
        return self.floor or self.base in ("corpo", "loo_corpo")

    @property
    def never_reinforces_failure(self) -> bool:
        """Whether no failed rollout can have an advantage above 0, by construction."""
        return self.floored or self.gate or self.base in ("static", "w_reinforce", "nsr", "psr")

    @property
    def needs_min_correct(self) -> bool:
        """Whether the advantages depend on `min_correct`."""
        return self.never_reinforces_failure or self.scale == "phase"

    @property
    def needs_lengths(self) -> bool:
        """Whether the advantages depend on the lengths of the completions."""
        return self.base == "opo"

    @property
    def needs_history(self) -> bool:
        """Whether the advantages depend on earlier rewards of the same prompt."""
        return self.base == "ema"


def parse_method(name: str) -> Method:
    """Read a method's name.

    Raises:
        UsageError: A part is unknown, given twice, or lacks its number.
        EstimatorError: The parts do not go together; the message says why.

    Example:
        >>> parse_method("qae=0.4+floor").number, parse_method("corpo").floored
        (0.4, True)
        >>> parse_method("rloo+gate").never_reinforces_failure, parse_method("rloo").never_reinforces_failure
        (True, False)
    """
    head, *parts = name.strip().split("+")
    base, number = _number(head, name)
    if base not in BASES:
        raise UsageError(f"estimator: expected one of {', '.join(BASES)}, got {base!r}{_within(base, name)}")
    if number is not None and base not in NUMBERS:
        raise UsageError(f"{name}: {base} takes no number; leave '={number:g}' out")
    if base in NUMBERS and number is None:
        meaning, number = NUMBERS[base]
        if number is None:
            raise UsageError(f"{name}: {base} needs its {meaning}, as in '{base}=1'")
    _check_number(name, base, number)

    floor = gate = False
    scale: Literal["none", "batch_std", "fixed", "phase"] = "none"
    divisor = None
    for part in parts:
        kind, value = _number(part, name)
        if kind == "floor" and value is None and not floor:
            floor = True
        elif kind == "gate" and value is None and not gate:
            gate = True
        elif kind in ("batch_std", "phase") and value is None and scale == "none":
            scale = "batch_std" if kind == "batch_std" else "phase"
        elif kind == "fixed" and value is not None and scale == "none":
            if value <= 0:
                raise UsageError(f"{name}: the fixed scale needs a number above 0, got {value:g}")
            scale, divisor = "fixed", value
        else:
            raise UsageError(
                f"{name}: expected +floor, +gate and one of +batch_std, +fixed=NUMBER, +phase, each at most once, "
                f"got '+{part}'"
            )
    _check_parts(name, base, floor=floor, scale=scale)
    return Method(name.strip(), base, number, floor, gate, scale, divisor)


def method_advantages(
    method: Method | str,
    rewards: ArrayLike,
    group_ids: ArrayLike,
    *,
    min_correct: float | None = None,
    lengths: ArrayLike | None = None,
    history: ArrayLike | None = None,
    unscorable: Unscorable = "refuse",
) -> NDArray[np.float64]:
    """Advantages under a method, given by name or parsed.

        A = base, then its floor, then divided by the scale, then capped by the gate

    Args:
        method: A name as `parse_method` reads it, or what it gave.
        rewards: Reward of each rollout, in task units. Shape [N], finite.
        group_ids: Prompt each rollout answers, integers or strings. Shape [N].
        min_correct: Least reward that counts as correct, in task units, for a method with `needs_min_correct`.
        lengths: Tokens of each completion, for a method with `needs_lengths`. Shape [N].
        history: Moving average of the rewards of each rollout's prompt so far, NaN for none, for a method with
            `needs_history`; left out, no prompt has one. Shape [N].
        unscorable: Whether a reward of NaN is refused or its rollout excluded.

    Returns:
        Advantages, row i for rollout i. Shape [N], float64.

    Raises:
        UsageError: The name cannot be read, or the method needs something that was not given.
        EstimatorError: The parts of the name do not go together.
        DataError: As the base itself.

    Source:
        Each base names its own; the rule of composition is ours.

    Example:
        >>> rewards, groups = [-1.0, -0.4, -0.6, 1.0], [1, 1, 1, 1]
        >>> method_advantages("max_gap+gate", rewards, groups, min_correct=0.2)
        array([0. , 0. , 0. , 1.4])
        >>> method_advantages("qae=1+floor", [-1.0, -0.4], [1, 1], min_correct=0.2).round(3)
        array([-1.2, -0.6])
    """
    method = parse_method(method) if isinstance(method, str) else method
    rewards_N = reward_vector(rewards, unscorable=unscorable)
    groups = index_groups(group_ids, n=len(rewards_N))
    if method.needs_min_correct and min_correct is None:
        raise UsageError(f"min_correct: {method.name} needs the least reward that counts as correct, got none")
    threshold = None if min_correct is None else finite_number("min_correct", min_correct)

    advantages_N = _base(method, rewards_N, groups.index_N, threshold, lengths, history)
    advantages_N = scale_advantages(
        advantages_N, rewards_N, groups, scale=method.scale, min_correct=threshold, divisor=method.divisor
    )
    if method.gate:
        assert threshold is not None, "a gate needs min_correct"
        advantages_N = kin.gated(advantages_N, rewards_N, min_correct=threshold)
    return settled(advantages_N, rewards_N)


def _base(
    method: Method,
    rewards_N: NDArray[np.float64],
    group_N: NDArray[np.intp],
    min_correct: float | None,
    lengths: ArrayLike | None,
    history: ArrayLike | None,
) -> NDArray[np.float64]:
    base, number = method.base, method.number
    floor = min_correct if method.floor else None
    if base in ESTIMATORS and not method.floor:
        return estimate_advantages(base, rewards_N, group_N, min_correct=min_correct, unscorable="exclude")
    if base in ("dr_grpo", "rloo"):
        base = "corpo" if base == "dr_grpo" else "loo_corpo"
        return estimate_advantages(base, rewards_N, group_N, min_correct=floor, unscorable="exclude")
    if base == "qae":
        return compose_advantages(
            rewards_N, group_N, baseline="quantile", quantile=number, min_correct=floor, unscorable="exclude"
        )
    if base == "opo":
        return compose_advantages(
            rewards_N, group_N, baseline="length_weighted", lengths=lengths, min_correct=floor, unscorable="exclude"
        )
    if base == "ema":
        previous = np.full(len(rewards_N), np.nan) if history is None else history
        given_N = kin.history_baseline(rewards_N, group_N, previous=previous, unscorable="exclude")
        return compose_advantages(
            rewards_N, group_N, baseline="given", given=given_N, min_correct=floor, unscorable="exclude"
        )
    if base == "ngrpo":
        assert number is not None, "parse_method refuses ngrpo without a number"
        return kin.ngrpo_advantages(rewards_N, group_N, max_reward=number, unscorable="exclude")
    if base == "odrpo":
        return kin.odrpo_advantages(rewards_N, group_N, unscorable="exclude")
    if base == "max_gap":
        return kin.max_gap_advantages(rewards_N, group_N, unscorable="exclude")
    assert min_correct is not None, "the re-weightings need min_correct"
    correct_weight, failed_weight = {"psr": (1.0, 0.0), "nsr": (0.0, 1.0)}.get(base, (number or 0.0, 1.0))
    return kin.reweighted_advantages(
        rewards_N,
        group_N,
        min_correct=min_correct,
        correct_weight=correct_weight,
        failed_weight=failed_weight,
        unscorable="exclude",
    )


def _number(part: str, name: str) -> tuple[str, float | None]:
    kind, equals, text = part.partition("=")
    if not equals:
        return kind, None
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UsageError(f"{name}: expected a finite number after '{kind}=', got {text!r}")
    return kind, number


def _within(part: str, name: str) -> str:
    return "" if part == name else f" in {name!r}"


def _check_number(name: str, base: str, number: float | None) -> None:
    if base in ("qae", "ema") and not 0 <= (number or 0.0) <= 1:
        raise UsageError(f"{name}: the {NUMBERS[base][0]} is a share from 0 to 1, got {number:g}")
    if base == "w_reinforce" and (number or 0.0) < 0:
        raise UsageError(f"{name}: the weight of correct rollouts is at least 0, got {number:g}")


def _check_parts(name: str, base: str, *, floor: bool, scale: str) -> None:
    if floor and base in ALREADY_DIVIDED:
        raise EstimatorError(
            f"{name}: a floor cannot come before the group std that {base} divides by: where all of a group fail alike "
            f"an advantage of -1 becomes -10,000; use '{base}+gate', or a base without it such as dr_grpo"
        )
    if floor and base not in FLOOR_BASES:
        has = "its floor already" if base in ("static", "corpo", "loo_corpo") else "no baseline to put a floor under"
        raise EstimatorError(f"{name}: {base} has {has}; leave '+floor' out")
    if scale != "none" and base in ALREADY_DIVIDED:
        raise EstimatorError(f"{name}: {base} divides by the group std already; leave '+{scale}' out")
