"""The order in which values come back: what to fetch early, and what was passed.

A backward pass visits nodes in the order opposite to that of saving, and each node reads its own values in the order of
saving. So the values that were saved before the first of a node's are next, and those of the same node are no waste.
"""

from __future__ import annotations

import sys

# Values that a node saves, seldom more.
_OF_ONE_NODE = 5
# How far to either side of a value it is looked.
_LOOK_BACK = 256


class ReadingOrder:
    """Follows the numbers of the values that are read; a number says how many were saved before.

    >>> order = ReadingOrder()
    >>> list(order.coming(3)), list(order.passed(3, 11))
    ([2, 1, 0], [8, 9, 10])
    >>> list(order.coming(4))  # of the same node as the third
    [2, 1, 0]
    """

    def __init__(self) -> None:
        self._first = self._last = sys.maxsize  # no value comes after it

    def coming(self, number: int) -> range:
        """The numbers that may be wanted after that one, which is being read: the next one first."""
        if not self._last < number <= self._last + _OF_ONE_NODE:
            self._first = number
        self._last = number
        return range(self._first - 1, max(self._first - 1 - _LOOK_BACK, -1), -1)

    def passed(self, number: int, saved: int) -> range:
        """The numbers, of ``saved`` in all, that the pass has left behind when it reads that one."""
        return range(number + _OF_ONE_NODE, min(number + _LOOK_BACK, saved))
