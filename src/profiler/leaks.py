"""Leaks between steps: blocks of several steps that are all still there when a later step ends."""

from __future__ import annotations

from collections.abc import Iterable

from .block import Block
from .holders import Names

# What stays from step to step because it must.
_STAYS = ("parameter", "buffer", "gradient", "optimizer_state")
_LEAST_STEPS = 2


class StepLeaks:
    """What outlives its step, looked at when a step ends.

    One block that outlives its step is no leak: a variable keeps it until the next step binds it anew. Blocks from one
    place of at least two earlier steps that are all there are one: there will be more of them with every step.
    """

    def __init__(self) -> None:
        self.names: Names = {}
        self._groups: dict[tuple[object, ...], list[Block]] = {}

    def look(self, live: Iterable[Block], step: int, names: Names) -> None:
        """A step ends."""
        groups: dict[tuple[object, ...], list[Block]] = {}
        for block in live:
            if block.step < step and block.category not in _STAYS:
                groups.setdefault((block.device, block.site, block.op, block.module), []).append(block)
        self._groups = {
            key: blocks for key, blocks in groups.items() if len({block.step for block in blocks}) >= _LEAST_STEPS
        }
        if self._groups:
            self.names = names

    def found(self) -> list[list[Block]]:
        """Groups of blocks that leak, the largest first."""
        return sorted(self._groups.values(), key=lambda blocks: -sum(block.nbytes for block in blocks))
