"""Replaying the events of a step with a change: what the peaks of its phases would have been."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..memory import Device
from .block import Block
from .log import FREE, GRAPH, MODULE, NODE, PHASE, SAVE, StepLog

# What is put in before an event: bytes that appear (or go, if negative), or the name of a phase that begins.
Inserted = int | str


@dataclass
class Change:
    """A change of a step's events.

    Attributes:
        at_start: bytes that are there when the step begins and would not be (negative), or the other way round.
        removed: numbers of events that would not happen.
        inserted: what would happen before an event, by its number; the number of events for the end.
    """

    at_start: int = 0
    removed: set[int] = field(default_factory=set)
    inserted: dict[int, list[Inserted]] = field(default_factory=dict)

    def insert(self, before: int, *what: Inserted) -> None:
        """Let something happen before an event."""
        self.inserted.setdefault(before, []).extend(what)

    def __bool__(self) -> bool:
        return bool(self.at_start or self.removed or self.inserted)

    def clashes(self, other: Change) -> bool:
        """Whether both take away the same event, and so can't both be made."""
        return bool(self.removed & other.removed)

    def with_(self, other: Change) -> Change:
        """Both changes."""
        inserted = {key: list(what) for key, what in self.inserted.items()}
        for key, what in other.inserted.items():
            inserted.setdefault(key, []).extend(what)
        return Change(self.at_start + other.at_start, self.removed | other.removed, inserted)


def replay(log: StepLog, device: Device, change: Change | None = None) -> dict[str, int]:
    """The peak of each phase on a device."""
    change = change or Change()
    used = sum(block.nbytes for block, _ in log.live if block.device is device) + change.at_start
    phase = log.phase
    peaks = {phase: used}

    def apply(what: Inserted) -> None:
        nonlocal used, phase
        if isinstance(what, str):
            phase = what
        else:
            used += what
        if used > peaks.get(phase, -1):
            peaks[phase] = used

    for number, event in enumerate(log.events):
        for what in change.inserted.get(number, ()):
            apply(what)
        if number in change.removed:
            continue
        if type(event) is Block:
            if event.device is device:
                apply(event.nbytes)
        elif event[0] == FREE:
            if event[1].device is device:
                used -= event[1].nbytes
        elif event[0] == PHASE:
            apply(event[1])
    for what in change.inserted.get(len(log.events), ()):
        apply(what)
    return peaks


class Course:
    """What happened when in a step: an index of its events, by number.

    Attributes:
        born, freed: when each block was allocated and freed, by the id of its storage.
        last_release: when the last node that kept a block let go of it, likewise.
        saves: by node of the graph, what it saved: block (None if it is not live), policy, bytes kept.
        savers: by the id of a block's storage, the nodes that keep it as it is, in order.
        inputs: by node, the blocks that its op read, as far as ops made them.
        recorded: when each node was recorded.
        node_spans: when each node began and ended to run in backward.
        last_use: when the last op that used a block was recorded, by the id of its storage.
        modules: path, begin and end of each call of a module, in the order of their beginnings.
        backward: when backward began, or None.
    """

    def __init__(self, log: StepLog) -> None:
        self.born: dict[int, int] = {}
        self.freed: dict[int, int] = {}
        self.saves: dict[int, list[tuple[Block | None, str, int]]] = {}
        self.savers: dict[int, list[int]] = {}
        self.inputs: dict[int, list[Block]] = {}
        self.recorded: dict[int, int] = {}
        self.node_spans: dict[int, tuple[int, int]] = {}
        self.last_release: dict[int, int] = {}
        self.last_use: dict[int, int] = {}
        self.modules: list[tuple[str, int, int]] = []
        self.backward: int | None = None
        self._made_by: dict[int, Block] = {}  # the block that a node's op made or passed on, by the node's number
        self._read(log)

    def _read(self, log: StepLog) -> None:
        latest: Block | None = None
        pending: list[tuple[Block | None, str, int]] = []
        open_modules: list[int] = []
        for number, event in enumerate(log.events):
            if type(event) is Block:
                self.born[event.id] = number
                latest = event
                continue
            kind = event[0]
            if kind == FREE:
                self.freed[event[1].id] = number
            elif kind == PHASE:
                if event[1] == "backward" and self.backward is None:
                    self.backward = number
            elif kind == SAVE:
                pending.append(event[1:])
            elif kind == GRAPH:
                self._graph(number, event[1], event[2], pending, latest)
                pending, latest = [], None
            elif kind == NODE:
                self._node(number, event)
            elif kind == MODULE:
                self._module(number, event[1], event[2], open_modules)

    def _graph(
        self,
        number: int,
        node: int,
        inputs: tuple[int, ...],
        saved: list[tuple[Block | None, str, int]],
        made: Block | None,
    ) -> None:
        self.recorded[node] = number
        used = [self._made_by[before] for before in inputs if before in self._made_by]
        self.inputs[node] = used
        for block in used:
            self.last_use[block.id] = number
        if made is not None:
            self._made_by[node] = made
        elif used:
            self._made_by[node] = used[0]  # a view
        if saved:
            self.saves[node] = saved
        for kept, policy, _ in saved:
            if kept is not None and policy == "keep":
                self.savers.setdefault(kept.id, []).append(node)
                self.last_use[kept.id] = number

    def _node(self, number: int, event: Any) -> None:
        _, node, begins, released = event
        if begins:
            self.node_spans[node] = (number, number)
            return
        self.node_spans[node] = (self.node_spans.get(node, (number, number))[0], number)
        if released:
            for block, policy, _ in self.saves.get(node, ()):
                if block is not None and policy == "keep":
                    self.last_release[block.id] = number

    def _module(self, number: int, path: str, begins: bool, open_modules: list[int]) -> None:
        if begins:
            open_modules.append(len(self.modules))
            self.modules.append((path, number, number))
            return
        while open_modules:  # an exception leaves calls open
            index = open_modules.pop()
            known, began, _ = self.modules[index]
            self.modules[index] = (known, began, number)
            if known == path:
                return


def highest(peaks: Mapping[str, int]) -> tuple[int, str]:
    """The highest of the phases' peaks, and its phase."""
    phase = max(peaks, key=lambda name: peaks[name])
    return peaks[phase], phase
