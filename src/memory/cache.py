"""Blocks that wait for reuse, by size class.

NOTE [ Blocks come and go anywhere ]
The pool takes blocks and gives them back without a lock: on any thread, and in the middle of any of these methods (the
cyclic collector runs when it likes). So the list of a class stays once it is made, and each change of it is one call
of a method of `list`, with no other call and no jump back between the look at the list and that call.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

_SMALLEST = 512
_CLASSES_BITS = 3
_MOST_REMEMBERED = 4096


def size_class(nbytes: int) -> int:
    """The block size for ``nbytes``: 8 classes to a doubling, so at most an eighth is slack.

    >>> size_class(1000), size_class(1025), size_class(1 << 20)
    (1024, 1536, 1048576)
    """
    if nbytes <= _SMALLEST:
        return _SMALLEST
    step = max(1 << (nbytes - 1).bit_length() - 1 - _CLASSES_BITS, _SMALLEST)
    return -(-nbytes // step) * step


class SizeClass:
    """The free blocks of one size.

    Attributes:
        held: that size.
        blocks: the one that came back last at the end.
        last_use: the cache's count of uses when one was taken or came back last.
    """

    __slots__ = ("blocks", "held", "last_use")

    def __init__(self, held: int) -> None:
        self.held = held
        self.blocks: list[Any] = []
        self.last_use = 0


class SizeClasses(dict[int, SizeClass]):
    """The size class for a number of bytes, remembered for those asked for last.

    Attributes:
        by_size: all classes there are.
    """

    def __init__(self) -> None:
        super().__init__()
        self.by_size: dict[int, SizeClass] = {}

    def __missing__(self, nbytes: int) -> SizeClass:
        held = size_class(nbytes)
        found = self.by_size.setdefault(held, SizeClass(held))
        if len(self) >= _MOST_REMEMBERED:
            self.clear()
        self[nbytes] = found
        return found


class BlockCache:
    """Free blocks in size classes; those of the class used longest ago are dropped first.

    Attributes:
        nbytes: of all free blocks, and of those that were taken but are not counted as held yet.
        uses: how often blocks were taken and came back.
        classes: where they are.
    """

    __slots__ = ("classes", "nbytes", "uses")

    def __init__(self) -> None:
        self.nbytes = 0
        self.uses = 0
        self.classes = SizeClasses()

    def drop(self, nbytes: int) -> None:
        """Drop blocks of at least ``nbytes`` together, or all; of a class, those that waited longest first."""
        if nbytes <= 0:
            return
        for found in sorted(self.classes.by_size.values(), key=attrgetter("last_use")):
            while True:
                # Not in the `while`: after its test comes a jump back, where another thread may take the last one.
                if not found.blocks:
                    break
                self.nbytes -= found.held
                found.blocks.pop(0)
                nbytes -= found.held
                if nbytes <= 0:
                    return

    def clear(self) -> None:
        """Drop all blocks."""
        self.drop(self.nbytes)
