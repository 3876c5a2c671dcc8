"""Which parts of a file are free: first fit, with neighbours merged."""

from __future__ import annotations

from bisect import bisect_left


class FreeList:
    """Allocates ranges of a file that grows at its end.

    Attributes:
        end: where the last range ends.
        taken: bytes that are allocated.

    >>> parts = FreeList()
    >>> parts.take(10), parts.take(5)
    (0, 10)
    >>> parts.give(0, 10)
    >>> parts.take(4), parts.take(7)
    (0, 15)
    """

    def __init__(self) -> None:
        self.end = 0
        self.taken = 0
        self._starts: list[int] = []
        self._sizes: list[int] = []

    def take(self, size: int) -> int:
        """The start of ``size`` free bytes: the first hole that is large enough, else the end of the file."""
        self.taken += size
        for index, free in enumerate(self._sizes):
            if free >= size:
                start = self._starts[index]
                if free == size:
                    del self._starts[index], self._sizes[index]
                else:
                    self._starts[index] += size
                    self._sizes[index] -= size
                return start
        start = self.end
        self.end += size
        return start

    def give(self, start: int, size: int) -> None:
        """Free a range that `take` returned; a hole at the end of the file is cut off."""
        self.taken -= size
        index = bisect_left(self._starts, start)
        if index < len(self._starts) and start + size == self._starts[index]:
            size += self._sizes[index]
            del self._starts[index], self._sizes[index]
        if index and self._starts[index - 1] + self._sizes[index - 1] == start:
            index -= 1
            start = self._starts.pop(index)
            size += self._sizes.pop(index)
        if start + size == self.end:
            self.end = start
        else:
            self._starts.insert(index, start)
            self._sizes.insert(index, size)
