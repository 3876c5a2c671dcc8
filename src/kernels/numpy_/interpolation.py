"""Maps along the last axes, one after the other: interpolation, and pooling by means."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..executor import Array, parallel_for
from ..taps import Step, Taps, steps
from .tiling import contiguous, copy_tiled, tile_size

__all__ = [
    "resample",
]


def resample(x: Array, out: Array, *, taps: Sequence[Taps | None]) -> None:
    """Apply a map (`Taps`) to each of the last axes of ``x``; None leaves an axis as it is.

    Args:
        x: (*, *sizes), any strides.
        out: (*, *sizes of the results).
    """
    axes = len(taps)
    if out.size == 0:
        return
    if all(tap is None for tap in taps) or x.size == 0:
        copy_tiled(x if x.size else 0, out)
        return
    planes = math.prod(out.shape[: out.ndim - axes])
    source = contiguous(x).reshape(planes, *x.shape[x.ndim - axes :])
    target = out.reshape(planes, *out.shape[out.ndim - axes :])
    order = sorted(range(axes), key=lambda axis: target.shape[axis + 1] / source.shape[axis + 1])
    shapes = _shapes(source.shape[1:], target.shape[1:], order)
    largest = max(map(math.prod, shapes))
    tile = tile_size(1 << 30, out.dtype)
    pieces = min(target.shape[1], -(-largest // tile)) if taps[0] is not None else 1
    step = -(-target.shape[1] // pieces)
    together = max(1, tile // largest)
    pieces, groups = -(-target.shape[1] // step), -(-planes // together)
    fixed = [None if tap is None else steps(tap, out.dtype) for tap in taps]

    def run(number: int, first: Array, second: Array, work: Array) -> None:
        group, piece = divmod(number, pieces)
        where, rows = slice(group * together, (group + 1) * together), slice(piece * step, (piece + 1) * step)
        values, plans = source[where], list(fixed)
        if taps[0] is not None and pieces > 1:
            part, read = taps[0].rows(rows.start, rows.stop)
            values, plans[0] = values[:, read], steps(part, out.dtype)
        result = target[where, rows]
        todo = [axis for axis in order if plans[axis] is not None]
        for count, axis in enumerate(todo):
            shape = list(values.shape)
            shape[axis + 1] = result.shape[axis + 1]
            last = count == len(todo) - 1
            into = result if last else (first, second)[count % 2][: math.prod(shape)].reshape(shape)
            _along(values, into, axis + 1, plans[axis] or [], work)
            values = into

    most = together * (largest if pieces == 1 else -(-largest * step // target.shape[1]))
    if pieces > 1 and taps[0] is not None:  # a run of rows may read more than its share
        most = max(math.prod(shape[1:]) for shape in shapes) * _most_rows(taps[0], step)
    parallel_for(run, pieces * groups, [((most,), out.dtype)] * 3)


def _shapes(before: tuple[int, ...], after: tuple[int, ...], order: list[int]) -> list[tuple[int, ...]]:
    """The shapes on the way, the first one left out."""
    shape, found = list(before), []
    for axis in order:
        shape[axis] = after[axis]
        found.append(tuple(shape))
    return found


def _most_rows(taps: Taps, step: int) -> int:
    """The most rows that a run of results reads or writes."""
    most = step
    for start in range(0, len(taps.element), step):
        read = taps.rows(start, start + step)[1]
        most = max(most, read.stop - read.start)
    return most


def _along(x: Array, out: Array, axis: int, plan: list[Step], work: Array) -> None:
    """One map, along one axis."""
    before: tuple[slice, ...] = (slice(None),) * axis
    column = (-1, *(1,) * (out.ndim - axis - 1))
    written = False
    for step in plan:
        target = out[(*before, step.target)]
        if step.source is not None:
            values = x[(*before, step.source)]
        else:
            values = work[: target.size].reshape(target.shape)
            np.take(x, step.elements, axis=axis, out=values, mode="clip")  # "raise" would copy twice
        if not written:
            if step.target.stop - step.target.start < out.shape[axis]:
                out.fill(0)
            if step.weight is None:
                np.copyto(target, values)
            else:
                np.multiply(values, step.weight.reshape(column), out=target)
            written = True
        else:
            if step.weight is not None:
                values = np.multiply(values, step.weight.reshape(column), out=work[: target.size].reshape(target.shape))
            np.add(target, values, out=target)
    if not written:
        out.fill(0)
