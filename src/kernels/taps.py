"""Linear maps along one axis, in which each result reads a few elements: pooling by means, interpolation.

NOTE [ Taps ]
1. ``element`` and ``weight`` are matrices (results, taps): ``y[o] = sum of weight[o, j] * x[element[o, j]]``. A weight
   of 0 stands for no tap. The reverse of such a map is one, too.
2. One tap of all results is a step: elements at regular distances are taken by a slice, others by their numbers.
3. Maps of several axes are one map of planes, with the products of their taps. That takes few calls, but more reading:
   it is for small arrays.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


class Taps:
    """See the note above; ``size`` is that of the axis that is read. It does not change once it is made."""

    def __init__(self, element: Array, weight: Array, size: int) -> None:
        self.element = element
        self.weight = weight
        self.size = size
        self._plans: dict[Any, Plan] = {}

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

    def plan(self, dtype: Any) -> Plan:
        """The steps of the map, with weights in a dtype; worked out once."""
        found = self._plans.get(dtype)
        if found is None:
            found = self._plans[dtype] = _plan(self, dtype)
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
        weight: their weights; None if there are none.
    """

    target: slice
    source: slice | None
    elements: Array
    weight: Array | None


class Plan(NamedTuple):
    """All of them.

    Attributes:
        steps: in the order in which they are added.
        factor: what the sums are multiplied by in the end, in place of equal weights; None if they aren't.
        paired: whether the first two steps read slices, without weights, for all results.
    """

    steps: list[Step]
    factor: Array | None
    paired: bool


class Gather(NamedTuple):
    """Maps of all axes of a plane, whose elements are numbered through.

    Attributes:
        elements: (taps, results); the number after the last one stands for no tap.
        weights: of the same shape; None if all are 1.
        complete: whether no result lacks a tap.
    """

    elements: Array
    weights: Array | None
    complete: bool


def width(taps: Sequence[Taps | None]) -> int:
    """How many taps the maps have together."""
    return math.prod([1 if tap is None else tap.element.shape[1] for tap in taps])


@functools.lru_cache(maxsize=32)
def gather_of(taps: tuple[Taps | None, ...], size: tuple[int, ...], dtype: Any) -> Gather:
    """The maps of all axes of planes of a size as one."""
    elements, weights = np.zeros((1, 1), np.int64), np.ones((1, 1))
    for tap, length in zip(taps, size, strict=True):
        element = np.arange(length)[:, None] if tap is None else tap.element
        weight = np.ones((length, 1)) if tap is None else tap.weight
        shape = elements.shape[0] * element.shape[1], elements.shape[1] * element.shape[0]
        elements = (elements[:, None, :, None] * length + element.T[None, :, None]).reshape(shape)
        weights = (weights[:, None, :, None] * weight.T[None, :, None]).reshape(shape)
    lacking = weights == 0
    elements[lacking] = math.prod(size)
    one = bool((weights == 1).all())
    return Gather(elements, None if one else weights.astype(dtype), not lacking.any())


def _plan(taps: Taps, dtype: Any) -> Plan:
    steps = _steps(taps)
    weights = np.concatenate([weight for _, weight in steps]) if steps else np.ones(1)
    alike = bool((weights == weights[0]).all())
    # Numbers of 16 bits are multiplied before they are added up, lest sums overflow.
    alike = alike and bool(dtype.itemsize > 2 or len(steps) == 1 or weights[0] == 1)
    found = [step if alike else step._replace(weight=weight.astype(dtype)) for step, weight in steps]
    factor = np.asarray(weights[0], dtype) if alike and weights[0] != 1 else None
    pair, whole = found[:2], slice(0, len(taps.element))
    paired = len(pair) == 2 and all(s.source and s.weight is None and s.target == whole for s in pair)
    return Plan(found, factor, paired)


def _steps(taps: Taps) -> list[tuple[Step, Array]]:
    """The steps, still without weights, and these."""
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
        found.append((Step(target, source, index, None), weight))
    return found
