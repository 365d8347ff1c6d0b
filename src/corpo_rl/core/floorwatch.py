"""Whether a threshold separates anything, over a sliding window of batches."""

from collections import deque


class FloorWatch:
    """Tells when `min_correct` has been without effect, or without mercy, for a whole window of batches.

        inert: Every group's mean was at or over the floor, and no group of the run was ever under it, so that the
            estimator has been the plain group mean all along.
        past: The same, but the floor did bind earlier in the run.
        saturated: No reward exceeded the floor, so that nothing had an advantage above 0.

    Args:
        min_correct: The floor, for the wording; `floor` may be set when a schedule moves it.
        window: Batches in a row after which a state is told, once, until it changes.

    Example:
        >>> watch = FloorWatch(0.5, window=2)
        >>> watch.see(floored=False, exceeded=True), watch.see(floored=False, exceeded=True)[:14]
        ('', 'floor is inert')
    """

    def __init__(self, min_correct: float, *, window: int) -> None:
        self.floor = min_correct
        self._window = window
        self._floored: deque[bool] = deque(maxlen=window)
        self._exceeded: deque[bool] = deque(maxlen=window)
        self._ever_floored = False
        self._told = ""

    def see(self, *, floored: bool, exceeded: bool) -> str:
        """Note one batch; the warning that is due now, or "".

        Args:
            floored: Whether any group's mean was under the floor.
            exceeded: Whether any reward was over the floor.
        """
        self._floored.append(floored)
        self._exceeded.append(exceeded)
        self._ever_floored |= floored
        state = self._state()
        is_news = state not in ("", self._told)
        self._told = state
        return self._message(state) if is_news else ""

    def _state(self) -> str:
        if len(self._floored) < self._window:
            return ""
        if not any(self._floored):
            return "past" if self._ever_floored else "inert"
        return "" if any(self._exceeded) else "saturated"

    def _message(self, state: str) -> str:
        span = f"in the last {self._window} batches"
        return {
            "inert": f"floor is inert: min_correct {self.floor:g} was at or under every group's mean {span} and has "
            "not bound once, so this is the plain group-mean baseline; raise min_correct above the best failing reward",
            "past": f"floor no longer binds: every group's mean was at or over min_correct {self.floor:g} {span}; "
            "from here on this is the group-mean baseline, as intended once a task is mostly solved",
            "saturated": f"floor is saturated: no reward exceeded min_correct {self.floor:g} {span}, so rollouts "
            "are only punished; lower min_correct to the least reward that still means correct, or start from a better "
            "policy",
        }[state]
