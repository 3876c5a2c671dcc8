"""Which elements a result of pooling or interpolation reads along one axis, and with which weights.

A rule is a few numbers, which a node may keep; its `Taps` are made when they are needed, and remembered for the rules
used last.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ...kernels.taps import Taps

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


class Windows(NamedTuple):
    """Means over windows at equal distances.

    Attributes:
        size, results: how many elements and results there are.
        kernel, stride, padding: of the windows.
        padding_counts: whether a mean is over the padding too.
        divisor: what the sum is divided by, 0 for the number of elements.
    """

    size: int
    results: int
    kernel: int
    stride: int
    padding: int
    padding_counts: bool
    divisor: float

    def taps(self) -> Taps:
        start = np.arange(self.results) * self.stride - self.padding
        end = np.minimum(start + self.kernel, self.size + self.padding)
        length = end - start
        first, last = np.maximum(start, 0), np.minimum(end, self.size)
        length = length if self.padding_counts else last - first
        divisor = np.full(self.results, self.divisor) if self.divisor else np.maximum(length, 1)
        # A place of the window is a step: with the distance of the windows between what its results read.
        index = start[:, None] + np.arange(self.kernel)
        inside = (index >= first[:, None]) & (index < last[:, None])
        return Taps(np.where(inside, index, 0), np.where(inside, 1.0 / divisor[:, None], 0.0), self.size)


class Adaptive(NamedTuple):
    """Means over as many windows of about equal length as there are results."""

    size: int
    results: int

    def taps(self) -> Taps:
        first, last = adaptive_windows(self.size, self.results)
        index = first[:, None] + np.arange(max(1, int((last - first).max(initial=0))))
        inside = index < last[:, None]
        return Taps(np.where(inside, index, 0), np.where(inside, 1.0 / (last - first)[:, None], 0.0), self.size)


def adaptive_windows(size: int, count: int) -> tuple[Array, Array]:
    """The first element of each window, and the one after its last."""
    number = np.arange(count)
    return number * size // count, -(-(number + 1) * size // count)


class Interpolated(NamedTuple):
    """Values between elements.

    Attributes:
        size, results: how many elements and results there are.
        mode: ``nearest``, ``nearest-exact``, ``linear`` or ``cubic``.
        align_corners: whether the outermost results are the outermost elements.
        antialias: whether kernels are widened where results are fewer than elements.
        factor: results to an element if the caller named it, else 0.
        wide: whether places are computed in double precision.
    """

    size: int
    results: int
    mode: str
    align_corners: bool
    antialias: bool
    factor: float
    wide: bool

    def taps(self) -> Taps:
        if self.mode.startswith("nearest"):
            return self._nearest()
        if self.antialias:
            return self._smoothed()
        result = np.arange(self.results)
        place = result * self._scale() if self.align_corners else (result + 0.5) * self._scale() - 0.5
        if self.mode == "linear":
            place = np.maximum(place, 0.0)
            first = np.minimum(np.floor(place).astype(np.int64), self.size - 1)
            share = np.clip(place - first, 0.0, 1.0)
            index = np.stack([first, np.minimum(first + 1, self.size - 1)], axis=1)
            return Taps(index, np.stack([1.0 - share, share], axis=1), self.size)
        first = np.floor(place).astype(np.int64)
        index = np.clip(first[:, None] + np.arange(-1, 3), 0, self.size - 1)
        return Taps(index, _cubic(np.abs((place - first)[:, None] - np.arange(-1, 3)), -0.75), self.size)

    def _scale(self) -> float:
        if self.align_corners:
            return (self.size - 1) / (self.results - 1) if self.results > 1 else 0.0
        return 1.0 / self.factor if self.factor > 0 else self.size / self.results

    def _nearest(self) -> Taps:
        number: Any = np.float64 if self.wide else np.float32
        scale = number(1.0 / self.factor) if self.factor > 0 else number(self.size) / number(self.results)
        place = np.arange(self.results).astype(number)
        if self.mode == "nearest-exact":
            half = number(0.5)
            place = np.maximum((place + half) * scale - half, number(0.0)) + half
        else:
            place = place * scale
        index = np.minimum(np.floor(place.astype(np.float32)).astype(np.int64), self.size - 1)
        return Taps(index[:, None], np.ones((self.results, 1)), self.size)

    def _smoothed(self) -> Taps:
        kernel: Callable[[Array], Array] = _triangle if self.mode == "linear" else _smooth_cubic
        scale, reach = self._scale(), 1.0 if self.mode == "linear" else 2.0
        support, narrow = (reach * scale, 1.0 / scale) if scale >= 1.0 else (reach, 1.0)
        centre = (np.arange(self.results) + 0.5) * scale
        first = np.maximum((centre - support + 0.5).astype(np.int64), 0)
        length = np.minimum((centre + support + 0.5).astype(np.int64), self.size) - first
        length = np.clip(length, 0, math.ceil(support) * 2 + 1)
        index = first[:, None] + np.arange(max(1, int(length.max(initial=0))))
        weight = np.where(index < (first + length)[:, None], kernel((index - centre[:, None] + 0.5) * narrow), 0.0)
        total = weight.sum(axis=1, keepdims=True)
        return Taps(np.minimum(index, self.size - 1), weight / np.where(total == 0, 1.0, total), self.size)


def _triangle(x: Array) -> Array:
    return np.maximum(1.0 - np.abs(x), 0.0)


def _smooth_cubic(x: Array) -> Array:
    return _cubic(np.abs(x), -0.5)


def _cubic(x: Array, a: float) -> Array:
    """The cubic convolution kernel at distances ``x``.

    Source: Keys, Cubic convolution interpolation for digital image processing, 1981.
    """
    near = ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    far = ((x - 5.0) * x + 8.0) * x * a - 4.0 * a
    return np.where(x <= 1.0, near, np.where(x < 2.0, far, 0.0))


Rule: TypeAlias = Windows | Adaptive | Interpolated


@functools.lru_cache(maxsize=64, typed=True)
def taps_of(rule: Rule, backwards: bool) -> Taps:
    """The map of a rule, or the reverse of it."""
    return rule.taps().reversed() if backwards else rule.taps()
