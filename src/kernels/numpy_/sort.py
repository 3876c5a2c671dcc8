"""Sorting and selecting along one axis; NaN is the largest number. What NumPy allocates is charged, tile by tile."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import memory
from ..executor import Array, parallel_for, parallel_slices, scratch
from .along import take_lines
from .lines import map_lines
from .tiling import contiguous, numpy_workspace, rows_per_tile, tile_size

__all__ = [
    "bincount",
    "mode",
    "searchsorted",
    "select",
    "sort",
    "topk",
]

_LONG = 64  # elements of a line
_GROUP = 16  # short lines that a long one is seen as; and groups for each extreme that is asked for
_FEW = 4  # a fourth of a line or more is sorted rather than picked out


def sort(x: Array, values: Array, indices: Array, *, axis: int, descending: bool = False) -> None:
    """The elements of each line in order, equal ones as they stood, and where they stood.

    Args:
        x: of any strides.
        values, indices: outs of its shape.
    """

    def block(x: Array, values: Array, indices: Array) -> None:
        _sort_block(x, values, indices, descending)

    map_lines(block, [contiguous(x), values, indices], axis, allocated=24 + 2 * x.itemsize)


def topk(x: Array, values: Array, indices: Array, *, axis: int, largest: bool = True, ordered: bool = True) -> None:
    """The largest or smallest elements of each line, as many as ``values`` has, and where they stood.

    Args:
        x: of any strides.
        values, indices: outs.
        ordered: whether the first one is the most extreme.
    """
    count = values.shape[axis] if values.ndim else 1

    def block(x: Array, values: Array, indices: Array) -> None:
        length = x.shape[1]
        if x.nbytes < memory.SMALL_BYTES:
            found = _order(x, largest)[:, :count]
        elif (few := _few_extremes(x, count, largest)) is not None:
            found = few
        elif count * _FEW < length and (apart := _set_apart(x, count, largest)) is not None:
            found = _taken(apart, _order(_taken(x, apart), largest)) if ordered else apart
        elif count * _FEW < length:
            place = length - count if largest else count - 1
            found = np.argpartition(x, place, axis=1)
            found = found[:, place:] if largest else found[:, : place + 1]
            if ordered:
                found = _taken(found, _order(_taken(x, found), largest))
        else:
            found = _order(x, largest)[:, :count]
        indices[...] = found
        take_lines(x, found, values)

    if count:
        map_lines(block, [contiguous(x), values, indices], axis, allocated=24 + 2 * x.itemsize)


def _few_extremes(x: Array, count: int, largest: bool) -> Array | None:
    """The numbers of the ``count`` most extreme elements of each of some long lines, in order; None if that is no help.

    A line is seen as short ones, side by side. As many elements as are asked for, the extremes of short lines, reach
    the worst of the best of these, so all that are looked for do; there are few others, and only these are sorted.
    """
    length = x.shape[1]
    groups = length // _GROUP
    if x.ndim > 2 or x.dtype.kind != "f" or x.itemsize < 4 or groups < _GROUP * count:
        return None
    fold = np.maximum if largest else np.minimum
    extremes = fold.reduce(x[:, : groups * _GROUP].reshape(len(x), _GROUP, groups), axis=1)
    place = groups - count if largest else count - 1
    least = np.partition(extremes, place, axis=1)[:, place, None]
    inside = x >= least if largest else x <= least
    numbers = np.flatnonzero(inside)
    counts = np.count_nonzero(inside, axis=1)
    widest = int(counts.max(initial=0))
    if widest > groups or counts.min(initial=count) < count:  # many are equal, or some are NaN
        return None
    before = np.repeat(np.arange(len(x)) * widest - np.cumsum(counts) + counts, counts)
    places = before + np.arange(numbers.size)
    values = np.full((len(x), widest), -np.inf if largest else np.inf, x.dtype)
    values.reshape(-1)[places] = x.reshape(-1)[numbers]
    candidates = np.zeros(values.shape, np.intp)
    candidates.reshape(-1)[places] = numbers % length
    return _taken(candidates, _order(values, largest)[:, :count])


def _set_apart(x: Array, count: int, largest: bool) -> Array | None:
    """The numbers of the ``count`` most extreme elements of each line, as they stand; None for lines that have others
    as extreme as these, or NaN. NumPy partitions floats at four times the speed of their numbers.
    """
    if x.ndim > 2 or x.dtype.kind != "f" or x.itemsize < 4:
        return None
    rows, length = x.shape
    place = length - count if largest else count - 1
    least = np.partition(x, place, axis=1)[:, place, None]
    numbers = np.flatnonzero(x >= least if largest else x <= least)
    if numbers.size != rows * count:
        return None
    lines, found = np.divmod(numbers.reshape(rows, count), length)
    return None if (lines != np.arange(rows)[:, None]).any() else found


def select(
    x: Array, values: Array, indices: Array | None, *, axis: int, place: int | None = None, ignore_nan: bool = False
) -> None:
    """The element of each line that stands at ``place`` when it is sorted, and its number; for None the median.

    The median is the lower one of two. With ``ignore_nan`` it is that of the other elements; otherwise the first NaN.
    The numbers are not given where ``indices`` is None.
    """
    if indices is None:
        indices = scratch(values.shape, np.dtype(np.intp))
    floating = x.dtype.kind not in "iub"

    def block(x: Array, values: Array, indices: Array) -> None:
        length = x.shape[1]
        if place is None and ignore_nan and floating:
            missing = np.isnan(x).sum(1, keepdims=True)
            chosen = np.maximum(length - missing - 1, 0) // 2
            found = np.take_along_axis(np.argsort(x, axis=1, kind="stable"), chosen, 1)
        else:
            at = (length - 1) // 2 if place is None else place
            found = np.argpartition(x, at, axis=1)[:, at : at + 1]
            if place is None and floating:
                missing = np.isnan(x)
                first = np.expand_dims(missing.argmax(1), 1)
                found = np.where(np.take_along_axis(missing, first, 1), first, found)
        indices[...] = found
        take_lines(x, found, values)

    map_lines(block, [contiguous(x), *_columns(x, axis, values, indices)], axis, allocated=24 + 2 * x.itemsize)


def mode(x: Array, values: Array, indices: Array, *, axis: int) -> None:
    """The element of each line that is there most often, the smallest of several, and the number of its last one."""

    def block(x: Array, values: Array, indices: Array) -> None:
        order = _order(x, False)
        ordered = _taken(x, order)
        counter = np.arange(x.shape[1]).reshape((1, -1, 1)[: x.ndim])
        starts = np.zeros(x.shape, np.intp)
        np.multiply(counter[:, 1:], ordered[:, 1:] != ordered[:, :-1], out=starts[:, 1:])
        np.maximum.accumulate(starts, axis=1, out=starts)
        last = np.expand_dims((counter - starts).argmax(1), 1)
        take_lines(order, last, indices)
        take_lines(ordered, last, values)

    map_lines(block, [contiguous(x), *_columns(x, axis, values, indices)], axis, allocated=40 + 2 * x.itemsize)


def searchsorted(sorted_: Array, values: Array, out: Array, *, right: bool = False) -> None:
    """Where ``values`` belong among sorted ones: in front of equal ones, or behind them if ``right``.

    Args:
        sorted_: one line for all, or one for each line of ``values`` (their last axes).
        values, out: of one shape.
    """
    side: Any = "right" if right else "left"
    if sorted_.ndim == 1:
        flat, target = contiguous(values).reshape(-1), out.reshape(-1)
        step = tile_size(flat.size, flat.dtype)

        def tile(index: int) -> None:
            where = slice(index * step, (index + 1) * step)
            target[where] = np.searchsorted(sorted_, flat[where], side)

        with numpy_workspace(8, flat.size, step):
            parallel_for(tile, -(-flat.size // step))
        return
    if not out.size:
        return
    lines = contiguous(sorted_).reshape(math.prod(sorted_.shape[:-1]), sorted_.shape[-1])
    rows = contiguous(values).reshape(len(lines), -1)
    found = out.reshape(len(lines), -1)
    step = rows_per_tile(len(rows), rows.shape[1], rows.dtype)

    def some(where: slice) -> None:
        for line, row, places in zip(lines[where], rows[where], found[where], strict=True):
            places[...] = np.searchsorted(line, row, side)

    with numpy_workspace(8, rows.size, rows.shape[1]):
        parallel_slices(some, len(rows), step)


def bincount(x: Array, weights: Array | None, out: Array) -> None:
    """How often each number below ``len(out)`` is in ``x``, or the sum of the weights where it is."""
    if not x.size:
        out.fill(0)
        return
    np.copyto(out, np.bincount(x, weights, len(out)), casting="unsafe")


def _columns(x: Array, axis: int, *arrays: Array) -> list[Array]:
    """Arrays without an axis of ``x``, or with it as 1, with it as 1."""
    shape = [1 if a == axis % x.ndim else length for a, length in enumerate(x.shape)] if x.ndim else []
    return [array.reshape(shape) for array in arrays]


def _taken(x: Array, numbers: Array) -> Array:
    found = np.empty(numbers.shape, x.dtype)
    take_lines(x, numbers, found)
    return found


def _order(x: Array, descending: bool) -> Array:
    """The numbers of the elements of each line in order, equal ones as they stand."""
    if not _sorts_faster(x):
        return _stable_order(x, descending)
    order = np.argsort(x, axis=1)
    ordered = _taken(x, order)
    # Only where equal ones, or several NaN, stand side by side is there something left to be put in order.
    unsettled = (ordered[:, 1:] == ordered[:, :-1]).any(1) | np.isnan(ordered[:, -2:]).any(1)
    if descending:
        order = order[:, ::-1]
    if unsettled.any():
        lines, places = np.moveaxis(x, 1, -1), np.moveaxis(order, 1, -1)
        places[unsettled] = _stable_order(lines[unsettled], descending)
    return order


def _sorts_faster(x: Array) -> bool:
    """Whether NumPy sorts faster without keeping equal elements as they stand: long lines of floats, with AVX-512."""
    return x.dtype.kind == "f" and x.itemsize > 2 and x.shape[1] >= _LONG


def _stable_order(x: Array, descending: bool) -> Array:
    if not descending:
        return np.argsort(x, axis=1, kind="stable")
    backwards: Array = np.argsort(x[:, ::-1], axis=1, kind="stable")[:, ::-1]
    np.subtract(x.shape[1] - 1, backwards, out=backwards)
    return backwards


def _sort_block(x: Array, values: Array, indices: Array, descending: bool) -> None:
    order = _order(x, descending)
    take_lines(x, order, values)
    indices[...] = order
