"""The events of one step in order, so that hints can replay them with a change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from .block import Block

# Kinds of events other than an allocation, which is the block itself.
FREE, RELABEL, PHASE, MODULE, NODE, SAVE, GRAPH = range(7)
# (FREE, block)  (RELABEL, block, old category, new one)  (PHASE, name, time)  (MODULE, path, whether it begins)
# (NODE, number, whether it begins, whether it let go of what it saved)  (SAVE, block or None, policy, bytes)
# (GRAPH, number, numbers of the nodes that its inputs come from)
Event: TypeAlias = Any

DEFAULT_MOST = 200_000  # some 60 MB
_BYTES = 300  # of an event, roughly: a tuple, and its share of a block


class StepLog:
    """The events of one step.

    Attributes:
        step: its number.
        live: what was live when it began, with the category then.
        events: what happened since, in order.
        phase: the phase that it began in.
        is_whole: whether nothing is missing.
    """

    def __init__(self, step: int, live: Iterable[Block], phase: str, t_ns: int, most: int) -> None:
        self.step = step
        self.live = [(block, block.category) for block in live]
        self.events: list[Event] = []
        self.phase = phase
        self.t_ns = t_ns
        self.most = most
        self.dropped = 0

    @property
    def is_whole(self) -> bool:
        return not self.dropped

    def add(self, event: Event) -> None:
        """Append an event; a log that gets too long is given up."""
        if self.dropped:
            self.dropped += 1
            return
        self.events.append(event)
        if len(self.events) > self.most:
            self.dropped = len(self.events)
            self.events = []
            self.live = []

    def nbytes(self) -> int:
        """A rough size of the log itself."""
        return _BYTES * len(self.events) + 64 * len(self.live)


class Logs:
    """The logs that a recording keeps: of the current step and of the one with the peak, or of as many as fit.

    Args:
        keeps_all: whether all steps are kept, the oldest given up first.
        most: how many events are kept.
    """

    def __init__(self, keeps_all: bool, most: int) -> None:
        self.current: StepLog | None = None
        self.done: list[StepLog] = []
        self.dropped = 0
        self._keeps_all = keeps_all
        self._most = most

    def begin(self, step: int, live: Iterable[Block], phase: str, t_ns: int) -> None:
        """A step begins."""
        self.current = StepLog(step, live, phase, t_ns, self._most)

    def end(self, peak_steps: set[int]) -> None:
        """The step is over; ``peak_steps`` are those with the peak of some device."""
        if self.current is None:
            return
        self.dropped += self.current.dropped
        self.done.append(self.current)
        if not self._keeps_all:
            self.done = [log for log in self.done if log.step in peak_steps]
        while len(self.done) > 1 and sum(len(log.events) for log in self.done) > self._most:
            oldest = next((log for log in self.done if log.step not in peak_steps), self.done[0])
            self.dropped += len(oldest.events)
            self.done.remove(oldest)

    def of(self, step: int) -> StepLog | None:
        """The whole log of a step, if there is one."""
        logs = [*self.done, *([self.current] if self.current is not None else [])]
        return next((log for log in logs if log.step == step and log.is_whole), None)

    def all(self) -> list[StepLog]:
        """All that are there, in order."""
        return [log for log in (*self.done, self.current) if log is not None and log.is_whole]

    def total_dropped(self) -> int:
        """How many events were not kept."""
        return self.dropped + (0 if self.current is None else self.current.dropped)

    def nbytes(self) -> int:
        """A rough size of the logs themselves."""
        return sum(log.nbytes() for log in (*self.done, self.current) if log is not None)
