"""Blocks that wait for reuse, by size class."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

_SMALLEST = 512
_CLASSES_BITS = 3


def size_class(nbytes: int) -> int:
    """The block size for ``nbytes``: 8 classes to a doubling, so at most an eighth is slack.

    >>> size_class(1000), size_class(1025), size_class(1 << 20)
    (1024, 1536, 1048576)
    """
    if nbytes <= _SMALLEST:
        return _SMALLEST
    step = max(1 << (nbytes - 1).bit_length() - 1 - _CLASSES_BITS, _SMALLEST)
    return -(-nbytes // step) * step


class BlockCache:
    """Free blocks in size classes; the class used longest ago is dropped first.

    A block may come back in the middle of any of these methods (the cyclic collector runs when it likes): so the list
    of a class stays once it is made, and each change is one step of the interpreter.
    """

    def __init__(self) -> None:
        self.nbytes = 0
        self._classes: OrderedDict[int, list[Any]] = OrderedDict()

    def take(self, held: int) -> Any | None:
        """The block of that class that came back last, or None."""
        blocks = self._classes.get(held)
        if not blocks:
            return None
        block = blocks.pop()
        self.nbytes -= held
        self._classes.move_to_end(held)
        return block

    def put(self, held: int, block: Any) -> None:
        """Keep a block for reuse."""
        self._classes.setdefault(held, []).append(block)
        self._classes.move_to_end(held)
        self.nbytes += held

    def shrink_to(self, nbytes: int) -> None:
        """Drop blocks until at most ``nbytes`` are kept, those of a class that waited longest first."""
        if self.nbytes <= nbytes:
            return
        for held, blocks in list(self._classes.items()):
            while blocks and self.nbytes > nbytes:
                blocks.pop(0)
                self.nbytes -= held

    def clear(self) -> None:
        """Drop all blocks."""
        self.shrink_to(0)
