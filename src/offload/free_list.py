"""Which parts of a file are free: first fit, with neighbours merged."""

from __future__ import annotations

from bisect import bisect_left


class FreeList:
    """Allocates ranges of a file that grows at its end.

    Attributes:
        end: where the last range ends.

    >>> parts = FreeList()
    >>> parts.take(10), parts.take(5)
    (0, 10)
    >>> parts.give(0, 10)
    >>> parts.take(4), parts.take(7)
    (0, 15)
    """

    def __init__(self) -> None:
        self.end = 0
        self._holes: list[tuple[int, int]] = []  # (start, size), in order

    @property
    def taken(self) -> int:
        """Bytes that are allocated."""
        return self.end - sum(size for _, size in self._holes)

    # Ctrl-C may come between two statements: each leaves ranges that don't overlap, though one may be lost.

    def take(self, size: int) -> int:
        """The start of ``size`` free bytes: the first hole that is large enough, else the end of the file."""
        for index, (start, free) in enumerate(self._holes):
            if free >= size:
                self._holes[index : index + 1] = [(start + size, free - size)] if free > size else []
                return start
        start = self.end
        self.end = start + size
        return start

    def give(self, start: int, size: int) -> None:
        """Free a range that `take` returned; a hole at the end of the file is cut off."""
        first = last = bisect_left(self._holes, (start, size))
        if last < len(self._holes) and start + size == self._holes[last][0]:
            size += self._holes[last][1]
            last += 1
        if first and sum(self._holes[first - 1]) == start:
            first -= 1
            size += start - self._holes[first][0]
            start = self._holes[first][0]
        at_the_end = start + size == self.end
        self._holes[first:last] = [] if at_the_end else [(start, size)]
        if at_the_end:
            self.end = start
