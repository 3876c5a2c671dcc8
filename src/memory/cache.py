"""Blocks that wait for reuse, by size class."""

from __future__ import annotations

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
    """Free blocks in size classes; the class used longest ago is dropped first."""

    def __init__(self) -> None:
        self.nbytes = 0
        self._classes: dict[int, list[Any]] = {}

    def take(self, held: int) -> Any | None:
        """The block of that class that came back last, or None."""
        blocks = self._classes.pop(held, None)
        if blocks is None:
            return None
        block = blocks.pop()
        if blocks:
            self._classes[held] = blocks
        self.nbytes -= held
        return block

    def put(self, held: int, block: Any) -> None:
        """Keep a block for reuse."""
        blocks = self._classes.pop(held, [])
        blocks.append(block)
        self._classes[held] = blocks
        self.nbytes += held

    def shrink_to(self, nbytes: int) -> None:
        """Drop blocks until at most ``nbytes`` are kept."""
        while self.nbytes > nbytes:
            oldest = next(iter(self._classes))
            blocks = self._classes[oldest]
            blocks.pop(0)
            if not blocks:
                del self._classes[oldest]
            self.nbytes -= oldest

    def clear(self) -> None:
        """Drop all blocks."""
        self.shrink_to(0)
