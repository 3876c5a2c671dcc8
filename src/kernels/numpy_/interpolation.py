"""Maps along the last axes, one after the other: interpolation, and pooling by means."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..executor import Array, parallel_for, scratch_sets
from ..taps import Step, Taps
from .tiling import UNTILED, contiguous, copy_tiled, tile_size

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
    lead = out.ndim - axes
    planes = math.prod(out.shape[:lead])
    source = contiguous(x).reshape(planes, *x.shape[lead:])
    target = out.reshape(planes, *out.shape[lead:])
    order = [axis for axis in range(axes) if taps[axis] is not None]
    order.sort(key=lambda axis: target.shape[axis + 1] / source.shape[axis + 1])
    fixed = [None if tap is None else tap.steps(out.dtype) for tap in taps]
    shapes = _shapes(source.shape[1:], target.shape[1:], order)
    largest = max(map(math.prod, shapes))
    if planes * largest <= UNTILED:
        between = [planes * largest if len(order) > count else 0 for count in (1, 2, 0)]
        _through(source, target, order, fixed, scratch_sets(1, [((size,), out.dtype) for size in between])[0])
    else:
        _tiled(source, target, taps, order, fixed, largest, shapes)


def _tiled(
    source: Array,
    target: Array,
    taps: Sequence[Taps | None],
    order: list[int],
    fixed: list[list[Step] | None],
    largest: int,
    shapes: list[tuple[int, ...]],
) -> None:
    """The maps in the order of the axes, for some planes (or some rows of one) at a time."""
    tile, first_taps = tile_size(1 << 30, target.dtype), taps[0]
    pieces = min(target.shape[1], -(-largest // tile)) if first_taps is not None else 1
    step = -(-target.shape[1] // pieces)
    together = max(1, tile // largest)
    pieces, groups = -(-target.shape[1] // step), -(-len(target) // together)

    def run(number: int, *buffers: Array) -> None:
        group, piece = divmod(number, pieces)
        where, rows = slice(group * together, (group + 1) * together), slice(piece * step, (piece + 1) * step)
        values, plans = source[where], fixed
        if first_taps is not None and pieces > 1:
            part, read = first_taps.rows(rows.start, rows.stop)
            values, plans = values[:, read], [part.steps(target.dtype), *fixed[1:]]
        _through(values, target[where, rows], order, plans, buffers)

    most = together * (largest if pieces == 1 else -(-largest * step // target.shape[1]))
    if pieces > 1 and first_taps is not None:  # a run of rows may read more than its share
        most = max(math.prod(shape[1:]) for shape in shapes) * _most_rows(first_taps, step)
    parallel_for(run, pieces * groups, [((most,), target.dtype)] * 3)


def _through(
    values: Array, result: Array, order: list[int], plans: Sequence[list[Step] | None], buffers: Sequence[Array]
) -> None:
    """The maps of some axes (of whole planes, (planes, *sizes)) one after the other."""
    first, second, work = buffers
    for count, axis in enumerate(order, 1):
        into = result
        if count < len(order):
            shape = list(values.shape)
            shape[axis + 1] = result.shape[axis + 1]
            into = (second, first)[count % 2][: math.prod(shape)].reshape(shape)
        _along(values, into, axis + 1, plans[axis] or [], work)
        values = into


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
            x.take(step.elements, axis, values, "clip")  # "raise" would copy twice
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
