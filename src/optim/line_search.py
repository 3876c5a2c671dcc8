"""A step along a direction that meets the strong Wolfe conditions: bracketed, then closed in on by cubics.

Source: Nocedal and Wright, "Numerical Optimization" (2006), algorithms 3.5 and 3.6, with the safeguards of minFunc,
which PyTorch has too: a trial point keeps away from the ends of its bracket.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ..autograd.tensor import Tensor

_DECREASE, _CURVATURE = 1e-4, 0.9
_NEAR, _FAR = 0.01, 10  # how far beyond the last point the next one is looked for, relative to the step


@dataclass(frozen=True)
class Point:
    """A place on the line: how far along it, the value, the gradient and the slope along the line there."""

    t: float
    value: float
    gradient: Tensor
    slope: float


def strong_wolfe(
    evaluate: Callable[[float], Point], t: float, start: Point, length: float, tolerance: float, most: int
) -> tuple[Point, int]:
    """The best point that was found, and the number of evaluations.

    Args:
        evaluate: the point at a distance.
        t: the first distance to try.
        start: the point at 0.
        length: the largest element of the direction.
        tolerance: brackets smaller than this are not divided.
        most: how often a point is chosen after the first.
    """
    search = _Search(evaluate, start, most)
    bracket, done = search.bracketed(t)
    if not done and len(bracket) == 2:
        return search.closed_in(bracket, length, tolerance), search.evaluations
    return bracket[-1], search.evaluations


class _Search:
    def __init__(self, evaluate: Callable[[float], Point], start: Point, most: int) -> None:
        self._evaluate = evaluate
        self._start = start
        self._most = most
        self._chosen = 0
        self.evaluations = 0

    def _at(self, t: float) -> Point:
        self.evaluations += 1
        return self._evaluate(t)

    def _too_high(self, point: Point) -> bool:
        return point.value > self._start.value + _DECREASE * point.t * self._start.slope

    def _flat_enough(self, point: Point) -> bool:
        return abs(point.slope) <= -_CURVATURE * self._start.slope

    def bracketed(self, t: float) -> tuple[list[Point], bool]:
        """Two points with a good one between them; or a good one alone, and True."""
        before, now = self._start, self._at(t)
        while self._chosen < self._most:
            if self._too_high(now) or (self._chosen > 1 and now.value >= before.value):
                return [before, now], False
            if self._flat_enough(now):
                return [now], True
            if now.slope >= 0:
                return [before, now], False
            bounds = (now.t + _NEAR * (now.t - before.t), now.t * _FAR)
            before, now = now, self._at(_lowest_of_cubic(before, now, bounds))
            self._chosen += 1
        return [self._start, now], False

    def closed_in(self, bracket: list[Point], length: float, tolerance: float) -> Point:
        """The low end of the bracket, when it is good or the bracket is small."""
        low, high = sorted(bracket, key=lambda point: point.value)
        stuck = False
        while self._chosen < self._most and abs(high.t - low.t) * length >= tolerance:
            left, right = sorted((low.t, high.t))
            t = _lowest_of_cubic(bracket[0], bracket[1], (left, right))
            margin = 0.1 * (right - left)
            if min(right - t, t - left) >= margin:
                stuck = False
            elif stuck or t >= right or t <= left:
                t = right - margin if abs(t - right) < abs(t - left) else left + margin
                stuck = False
            else:
                stuck = True
            now = self._at(t)
            self._chosen += 1
            if self._too_high(now) or now.value >= low.value:
                bracket[bracket.index(high)] = now
                low, high = sorted(bracket, key=lambda point: point.value)
                continue
            at_low, at_high = bracket.index(low), bracket.index(high)
            good = self._flat_enough(now)
            if not good and now.slope * (high.t - low.t) >= 0:
                bracket[at_high] = high = low
            bracket[at_low] = low = now
            if good:
                break
        return low


def _lowest_of_cubic(a: Point, b: Point, bounds: tuple[float, float]) -> float:
    """Where the cubic with the values and slopes of two points is lowest, within bounds; their middle if nowhere."""
    least, largest = bounds
    if a.t > b.t:
        a, b = b, a
    try:
        d1 = a.slope + b.slope - 3 * (a.value - b.value) / (a.t - b.t)
        d2 = math.sqrt(d1 * d1 - a.slope * b.slope)
        lowest = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2))
    except (ZeroDivisionError, ValueError, OverflowError):  # one point, or no lowest place
        return (least + largest) / 2.0
    return min(max(lowest, least), largest)
