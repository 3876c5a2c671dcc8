"""Recording some steps of a program only."""

from __future__ import annotations

from collections.abc import Callable

from ..memory import events


class StepWindow(events.Observer):
    """Counts steps as a recording does, and calls back when a window of them begins and ends.

    Args:
        first, last: the first step of the window and the one after its last; None for no end.
        begin: called with the step's number when the window begins.
        end: called when it ends.
    """

    def __init__(self, first: int, last: int | None, begin: Callable[[int], None], end: Callable[[], None]) -> None:
        self._first, self._last = first, last
        self._begin, self._end = begin, end
        self._step = 0
        self._marked = 0  # open steps that the program marks itself
        self._is_open = False

    def start(self) -> None:
        """Count from now on."""
        events.add_observer(self)
        self._look()

    def stop(self) -> None:
        """Count no longer."""
        events.remove_observer(self)

    def begin(self, kind: str, name: str, subject: object = None) -> None:
        if kind == "step":
            self._marked += 1

    def end(self, kind: str, name: str) -> None:
        if kind == "step" and self._marked:
            self._marked -= 1
        elif kind != "phase" or name != "optimizer":
            return
        if not self._marked:
            self._step += 1
            self._look()

    def _look(self) -> None:
        if self._is_open:
            if self._last is not None and self._step >= self._last:
                self._is_open = False
                self._end()
                self.stop()
        elif self._step >= self._first:
            self._is_open = True
            self._begin(self._step)
