"""The order in which values come back: what to fetch early, and what was passed.

NOTE [ Order of reading ]
1. A backward pass visits nodes in the order opposite to that of saving, and each node reads its own values in the order
   of saving. So the values that were saved before the first of a node's are next, and those of the same node are no
   waste.
2. A value that a later op saves as well (the input of a skip connection) has a place for each of the two: it is needed
   at the later one first, then at the earlier one.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

# Values that a node saves, seldom more.
_OF_ONE_NODE = 5
# How far to either side of a value it is looked.
_LOOK_BACK = 256
# No value comes after it.
_NOWHERE = sys.maxsize


class Placed(Protocol):
    """A value that is read in order.

    Attributes:
        places: for each op that saved it, how many had been saved before; none at first.
    """

    places: tuple[int, ...]


Value = TypeVar("Value", bound=Placed)


class ReadingOrder(Generic[Value]):
    """Follows the values that are read (NOTE [ Order of reading ]); it holds them weakly, and has no lock.

    >>> class Number:
    ...     places = ()
    ...     def __init__(self, number):
    ...         self.number = number
    >>> order, numbers = ReadingOrder(), [Number(number) for number in range(11)]
    >>> for value in numbers:
    ...     order.add(value)
    >>> order.follow(numbers[3])
    >>> [value.number for value in order.coming()], [value.number for value in order.passed()]
    ([2, 1, 0], [8, 9, 10])
    >>> order.follow(numbers[4])  # of the same node as the third
    >>> [value.number for value in order.coming()]
    [2, 1, 0]
    """

    def __init__(self) -> None:
        self._values: weakref.WeakValueDictionary[int, Value] = weakref.WeakValueDictionary()
        self._saved = 0
        # Places: of the first and the last value that the present node has read, and of the first of the node before.
        self._first = self._last = self._behind = _NOWHERE

    def add(self, value: Value) -> None:
        """Give a value the next place."""
        value.places = (*value.places, self._saved)
        self._values[self._saved] = value
        self._saved += 1

    def add_again(self, value: Value) -> None:
        """Give a value, which has a place, another one; not if it is the last one anyway."""
        if value.places[-1:] != (self._saved - 1,):
            self.add(value)

    def alive(self) -> list[Value]:
        """All values; taken in one step, whatever other threads add."""
        found = (reference() for reference in self._values.valuerefs())
        return [value for value in found if value is not None]

    def follow(self, value: Value) -> None:
        """Note that a value is being read: for the last of its places that the pass hasn't left behind."""
        if not value.places:
            return
        ahead = [place for place in value.places if place < self._behind]
        place = ahead[-1] if ahead else value.places[-1]
        if not self._last <= place <= self._last + _OF_ONE_NODE:  # the first of another node
            self._behind = self._first if place < self._first else _NOWHERE
            self._first = place
        self._last = place

    def coming(self) -> Iterator[Value]:
        """The values that may be wanted next, the first one first."""
        last = min(self._first, self._saved) - 1
        return self._at(range(last, max(last - _LOOK_BACK, -1), -1))

    def passed(self) -> Iterator[Value]:
        """The values that the pass has left behind, and won't need once more."""
        begin = self._last + _OF_ONE_NODE
        behind = self._at(range(begin, min(self._last + _LOOK_BACK, self._saved)))
        return (value for value in behind if value.places[0] >= begin)

    def _at(self, places: range) -> Iterator[Value]:
        return (value for place in places if (value := self._values.get(place)) is not None)
