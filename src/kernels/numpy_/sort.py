"""Sorting and selecting along one axis; NaN is the largest number. What NumPy allocates is charged, tile by tile."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

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
]

_LONG = 64  # elements of a line


def sort(x: Array, values: Array, indices: Array, *, axis: int, descending: bool = False) -> None:
    """The elements of each line in order, equal ones as they stood, and where they stood.

    Args:
        x: of any strides.
        values, indices: outs of its shape.
    """

    def block(x: Array, values: Array, indices: Array) -> None:
        _sort_block(x, values, indices, descending)

    map_lines(block, [contiguous(x), values, indices], axis, allocated=24 + 2 * x.itemsize)


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
            found = np.take_along_axis(np.argsort(comparable(x), axis=1, kind="stable"), chosen, 1)
        else:
            at = (length - 1) // 2 if place is None else place
            found = np.argpartition(comparable(x), at, axis=1)[:, at : at + 1]
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
        order = order_of_lines(x, False)
        ordered = taken_lines(x, order)
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
    sorted_, values = comparable(sorted_), comparable(values)
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


def taken_lines(x: Array, numbers: Array) -> Array:
    """A new array of the elements of each line that have some numbers."""
    found = np.empty(numbers.shape, x.dtype)
    take_lines(x, numbers, found)
    return found


def order_of_lines(x: Array, descending: bool) -> Array:
    """The numbers of the elements of each line in order, equal ones as they stand."""
    x = comparable(x)
    if not _sorts_faster(x):
        return _stable_order(x, descending)
    order = np.argsort(x, axis=1)
    ordered = taken_lines(x, order)
    # Only where equal ones, or several NaN, stand side by side is there something left to be put in order.
    unsettled = (ordered[:, 1:] == ordered[:, :-1]).any(1) | np.isnan(ordered[:, -2:]).any(1)
    if descending:
        order = order[:, ::-1]
    if unsettled.any():
        lines, places = np.moveaxis(x, 1, -1), np.moveaxis(order, 1, -1)
        places[unsettled] = _stable_order(lines[unsettled], descending)
    return order


def comparable(x: Array) -> Array:
    """``x``, or a copy in float32 of numbers that NumPy does not order: comparisons of bfloat16 put NaN anywhere."""
    return x.astype(np.float32) if x.dtype.kind == "V" else x


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
    order = order_of_lines(x, descending)
    take_lines(x, order, values)
    indices[...] = order
