"""Schedules of `min_correct`: which reward counts as correct at which step of a run, and why.

A floor that no rollout reaches only punishes. A run may therefore begin with a lenient one and end with the one that is
meant: every schedule here only rises, and never past its last value. None of them looks at how the rewards are
distributed to choose a value: all values are given by the user.

    schedule = parse_schedule("target:0.3:-0.6,-0.2,0.2")
    state = ScheduleState()                                          # or ScheduleState.restored(...) after a resume
    for each generated batch:
        floor = schedule.at(state, step=step)                        # floor.min_correct, and floor.why for the log
        ...                                                          # advantages and figures under floor.min_correct
        state = schedule.after(state, correct_share=correct_share)   # share of correct under that very threshold
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from corpo_rl.errors import DataError, UsageError

FORMS = 'a number, "ramp:FROM:TO:STEPS" or "target:SHARE:LEVEL,LEVEL,...[:BATCHES]"'
"""What `parse_schedule` reads."""

WINDOW = 10
"""Batches a level is kept at least before a target moves it, where none are named. Ours: enough that no single lucky
batch moves anything."""


class Floor(NamedTuple):
    """The threshold of a step."""

    min_correct: float
    """Least reward that counts as correct, in task units."""
    why: str
    """Where the value comes from, in words for a log."""


class ScheduleState(NamedTuple):
    """What a schedule has to remember from batch to batch. `json.dumps(state._asdict())` keeps it."""

    level: int = 0
    """Place in the list of levels, from 0."""
    n_batches: int = 0
    """Batches seen at this level."""
    share: float | None = None
    """Smoothed share of correct rollouts at this level; None before its first batch."""

    @classmethod
    def restored(cls, kept: Mapping[str, Any]) -> "ScheduleState":
        """The state that `_asdict` gave, back from JSON.

        Raises:
            DataError: It is no such state.

        Example:
            >>> ScheduleState.restored({"level": 1, "n_batches": 3, "share": 0.25})
            ScheduleState(level=1, n_batches=3, share=0.25)
        """
        level, n_batches, share = (kept.get(name) for name in cls._fields)
        whole = all(type(count) is int and count >= 0 for count in (level, n_batches))
        known = share is None or (isinstance(share, int | float) and 0 <= share <= 1)
        if set(kept) != set(cls._fields) or not whole or not known:
            raise DataError(
                f"schedule state: expected level and n_batches as counts, share from 0 to 1 or null, got {dict(kept)}"
            )
        return cls(int(level or 0), int(n_batches or 0), None if share is None else float(share))


class Schedule(Protocol):
    """What every schedule can do."""

    @property
    def last(self) -> float:
        """The largest value it ever gives, in task units: what is meant in the end."""

    def at(self, state: ScheduleState, *, step: int) -> Floor:
        """The threshold of a step, 0 being the first.

        Raises:
            DataError: The step is negative, or the state is that of a schedule with more levels.
        """

    def after(self, state: ScheduleState, *, correct_share: float) -> ScheduleState:
        """The state once a batch has been seen.

        Args:
            state: That under which the batch was judged.
            correct_share: Share of its scorable rollouts with reward >= min_correct, 0 to 1; NaN, which changes
                nothing, where none was scorable.

        Raises:
            DataError: The share is neither.
        """


@dataclass(frozen=True)
class Fixed:
    """One value from beginning to end.

    Raises:
        UsageError: It is not finite.

    Example:
        >>> Fixed(0.2).at(ScheduleState(), step=7)
        Floor(min_correct=0.2, why='fixed')
    """

    value: float

    def __post_init__(self) -> None:
        _finite("the value", self.value)

    @property
    def last(self) -> float:
        """As in `Schedule`."""
        return self.value

    def at(self, state: ScheduleState, *, step: int) -> Floor:
        """As in `Schedule`."""
        _check_step(step)
        return Floor(self.value, "fixed")

    def after(self, state: ScheduleState, *, correct_share: float) -> ScheduleState:
        """As in `Schedule`; there is nothing to remember."""
        _check_share(correct_share)
        return state


@dataclass(frozen=True)
class Ramp:
    """From one value to a higher one in a straight line.

        min_correct(t) = start + (end - start) * min(t / steps, 1)

    Where rewards have few levels the line works as a staircase: the threshold between two levels is that of the upper.

    Raises:
        UsageError: A value is not finite, `end` is not over `start`, or there is no step between them.

    Example:
        >>> Ramp(-0.2, 0.2, steps=50).at(ScheduleState(), step=25)
        Floor(min_correct=0.0, why='step 25 of 50 from -0.2 to 0.2')
    """

    start: float
    """Threshold of step 0."""
    end: float
    """Threshold from step `steps` on."""
    steps: int

    def __post_init__(self) -> None:
        _finite("FROM of the ramp", self.start)
        _finite("TO of the ramp", self.end)
        if self.end <= self.start:
            raise UsageError(
                f"min_correct: expected a ramp that rises, got {self.start:g} to {self.end:g}; a schedule makes "
                "correctness stricter, never laxer"
            )
        if self.steps < 1:
            raise UsageError(f"min_correct: expected at least 1 step for the ramp, got {self.steps}")

    @property
    def last(self) -> float:
        """As in `Schedule`."""
        return self.end

    def at(self, state: ScheduleState, *, step: int) -> Floor:
        """As in `Schedule`; the state says nothing."""
        _check_step(step)
        if step >= self.steps:
            return Floor(self.end, f"end of the ramp, reached at step {self.steps}")
        done = step / self.steps
        # a weighted mean, which rounding never takes past its ends
        value = min(self.end, max(self.start, (1 - done) * self.start + done * self.end))
        return Floor(value, f"step {step} of {self.steps} from {self.start:g} to {self.end:g}")

    def after(self, state: ScheduleState, *, correct_share: float) -> ScheduleState:
        """As in `Schedule`; there is nothing to remember."""
        _check_share(correct_share)
        return state


@dataclass(frozen=True)
class Target:
    """From level to level of a given list, each time enough rollouts are correct at the one before.

    A level is kept for `window` batches at least, and until the smoothed share of correct rollouts reaches `share`. The
    smoothed share is the mean over the batches seen at this level, of which each after the first `window` weighs 1 /
    window. It begins anew with each level, so that one good stretch never carries over two. The last level stays.

    Raises:
        UsageError: The share is not between 0 and 1, the levels are fewer than two or do not rise, or there is no batch
            in the window.

    Example:
        >>> schedule = Target(0.3, (-0.6, -0.2, 0.2), window=2)
        >>> state = schedule.after(ScheduleState(), correct_share=0.2)
        >>> schedule.at(state, step=1)
        Floor(min_correct=-0.6, why='level 1 of 3: share of correct 0.200 over 1 batch, next at 0.3 over 2 or more')
        >>> schedule.at(schedule.after(state, correct_share=0.5), step=2).min_correct
        -0.2
    """

    share: float
    """Smoothed share of correct rollouts at which the threshold moves on; that very share moves it. In (0, 1]."""
    levels: tuple[float, ...]
    """Thresholds in rising order, in task units."""
    window: int = WINDOW
    """Batches."""

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise UsageError(f"min_correct: expected a target share over 0 and up to 1, got {self.share:g}")
        for level in self.levels:
            _finite("a level of the target", level)
        if len(self.levels) < 2 or any(b <= a for a, b in zip(self.levels, self.levels[1:], strict=False)):
            raise UsageError(
                f"min_correct: expected two levels or more for the target, each over the one before, got "
                f"{_list(self.levels)}"
            )
        if self.window < 1:
            raise UsageError(f"min_correct: expected at least 1 batch for the target, got {self.window}")

    @property
    def last(self) -> float:
        """As in `Schedule`."""
        return self.levels[-1]

    def at(self, state: ScheduleState, *, step: int) -> Floor:
        """As in `Schedule`; the step says nothing."""
        _check_step(step)
        self._check(state)
        place = f"level {state.level + 1} of {len(self.levels)}"
        if state.level == len(self.levels) - 1:
            return Floor(self.last, f"{place}, the last")
        batches = f"{state.n_batches} batch{'' if state.n_batches == 1 else 'es'}"
        seen = "no batch seen" if state.share is None else f"share of correct {state.share:.3f} over {batches}"
        return Floor(self.levels[state.level], f"{place}: {seen}, next at {self.share:g} over {self.window} or more")

    def after(self, state: ScheduleState, *, correct_share: float) -> ScheduleState:
        """As in `Schedule`."""
        _check_share(correct_share)
        self._check(state)
        if math.isnan(correct_share) or state.level == len(self.levels) - 1:
            return state
        n_batches = state.n_batches + 1
        before = 0.0 if state.share is None else state.share
        share = before + (correct_share - before) / min(n_batches, self.window)
        # 9 shares of 0.3 have a mean of 0.29999999999999993
        if n_batches >= self.window and share >= self.share - 1e-9:
            return ScheduleState(level=state.level + 1)
        return ScheduleState(state.level, n_batches, float(min(share, 1.0)))

    def _check(self, state: ScheduleState) -> None:
        if not 0 <= state.level < len(self.levels):
            raise DataError(
                f"schedule state: expected one of {len(self.levels)} levels, got level {state.level + 1}; the run was "
                "begun with another min_correct"
            )


def parse_schedule(text: str | float) -> Fixed | Ramp | Target:
    """Read a schedule as it stands in a config.

        0.2                        one value
        ramp:-0.2:0.2:50           from -0.2 at step 0 to 0.2 at step 50 and after
        target:0.3:-0.6,-0.2,0.2   up a level when 0.3 of the rollouts are correct, over 10 batches or more
        target:0.3:-0.6,0.2:25     the same over 25 batches or more

    Raises:
        UsageError: It is none of these, or its values are refused by the schedule.

    Example:
        >>> parse_schedule("ramp:-0.2:0.2:50")
        Ramp(start=-0.2, end=0.2, steps=50)
        >>> parse_schedule("target:0.3:-0.6,-0.2,0.2")
        Target(share=0.3, levels=(-0.6, -0.2, 0.2), window=10)
        >>> parse_schedule(0.2)
        Fixed(value=0.2)
    """
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise _unreadable(text)
    if not isinstance(text, str):
        return Fixed(float(text))
    name, *parts = (part.strip() for part in text.split(":"))
    try:
        if name == "ramp":
            start, end, steps = parts
            return Ramp(_number(start), _number(end), int(steps))
        if name == "target":
            share, levels, *window = parts
            (batches,) = window or [str(WINDOW)]
            return Target(_number(share), tuple(_number(level) for level in levels.split(",")), int(batches))
        if parts:
            raise _unreadable(text)
        return Fixed(_number(name))
    except UsageError:
        raise
    except ValueError:  # too few or too many parts, or one that is no number
        raise _unreadable(text) from None


def _unreadable(text: object) -> UsageError:
    return UsageError(f"min_correct: expected {FORMS}, got {text!r}")


def _number(text: str) -> float:
    """As float, without "1_000" and the like; "nan" and "inf" are numbers that the schedules refuse."""
    if "_" in text:
        raise ValueError(text)
    return float(text)


def _finite(what: str, value: float) -> None:
    if not math.isfinite(value):
        raise UsageError(f"min_correct: expected a finite number for {what}, got {value}")


def _check_step(step: int) -> None:
    if step < 0:
        raise DataError(f"step: expected 0 or more, got {step}")


def _check_share(share: float) -> None:
    if not (math.isnan(share) or 0 <= share <= 1):
        raise DataError(f"correct_share: expected a share from 0 to 1, or NaN where nothing was scorable, got {share}")


def _list(levels: Sequence[float]) -> str:
    return ", ".join(f"{level:g}" for level in levels) or "none"
