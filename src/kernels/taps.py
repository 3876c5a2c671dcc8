"""Linear maps along one axis, in which each result reads a few elements: pooling by means, interpolation.

NOTE [ Taps ]
1. ``element`` and ``weight`` are matrices (results, taps): ``y[o] = sum of weight[o, j] * x[element[o, j]]``. A weight
   of 0 stands for no tap. The reverse of such a map is one, too.
2. One tap of all results is a step: elements at regular distances are taken by a slice, others by their numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


class Taps:
    """See the note above; ``size`` is that of the axis that is read. It does not change once it is made."""

    def __init__(self, element: Array, weight: Array, size: int) -> None:
        self.element = element
        self.weight = weight
        self.size = size
        self._steps: dict[Any, list[Step]] = {}

    def reversed(self) -> Taps:
        """The transposed map: from results to elements."""
        count, taps = self.element.shape
        used = self.weight.reshape(-1) != 0
        element = self.element.reshape(-1)[used]
        order = np.argsort(element, kind="stable")
        element = element[order]
        result = np.repeat(np.arange(count), taps)[used][order]
        counts = np.bincount(element, minlength=self.size)
        place = np.arange(len(element)) - np.repeat(np.cumsum(counts) - counts, counts)
        shape = (self.size, max(1, int(counts.max(initial=0))))
        index, weight = np.zeros(shape, np.int64), np.zeros(shape)
        index[element, place] = result
        weight[element, place] = self.weight.reshape(-1)[used][order]
        return Taps(index, weight, count)

    def steps(self, dtype: Any) -> list[Step]:
        """The steps of the map, with weights in a dtype; worked out once."""
        found = self._steps.get(dtype)
        if found is None:
            found = self._steps[dtype] = _steps(self, dtype)
        return found

    def rows(self, start: int, stop: int) -> tuple[Taps, slice]:
        """The map of some results, and the run of elements that it reads."""
        index, weight = self.element[start:stop], self.weight[start:stop]
        read = index[weight != 0]
        first, last = (int(read.min()), int(read.max()) + 1) if read.size else (0, 1)
        return Taps(np.clip(index - first, 0, last - first - 1), weight, last - first), slice(first, last)


class Step(NamedTuple):
    """One tap.

    Attributes:
        target: the results that have it.
        source: what they read: a slice, or None where ``elements`` has the numbers.
        elements: the numbers.
        weight: their weights; None if all are 1.
    """

    target: slice
    source: slice | None
    elements: Array
    weight: Array | None


def _steps(taps: Taps, dtype: Any) -> list[Step]:
    found = []
    for index, weight in zip(taps.element.T, taps.weight.T, strict=True):
        used = np.flatnonzero(weight)
        if not used.size:
            continue
        target = slice(int(used[0]), int(used[-1]) + 1)
        index, weight = index[target], weight[target]
        distances = np.diff(index)
        source = None
        if not distances.size:
            source = slice(int(index[0]), int(index[0]) + 1)
        elif distances[0] > 0 and (distances == distances[0]).all():
            source = slice(int(index[0]), int(index[-1]) + 1, int(distances[0]))
        one = bool((weight == 1).all())
        found.append(Step(target, source, index, None if one else weight.astype(dtype)))
    return found
