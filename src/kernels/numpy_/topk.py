"""The most extreme elements of lines; NaN is the largest number. What NumPy allocates is charged, tile by tile.

NOTE [ A few of many ]
Lines of floats that are long for what is asked of them are folded: element j, element j + width, and so on have one
extreme, and the elements that are looked for are all among those of as many such groups as there are of them, the ones
with the most extreme extremes. With groups of about half the root of (length / count) there are few groups to compare,
and few candidates in those that are left. Of elements that are equal any are given.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ... import memory
from ..executor import Array, parallel_slices
from .along import take_lines
from .lines import map_lines
from .sort import comparable, order_of_lines, taken_lines
from .tiling import TILE_BYTES, contiguous, in_rows, numpy_workspace

__all__ = [
    "topk",
]

_FEW = 4  # a fourth of a line or more is sorted rather than picked out
_LEAST_GROUP, _MOST_GROUP = 4, 64  # elements that have one extreme
_SORTED = 256  # elements of lines, or fewer, that NumPy sorts faster than it partitions them
_TILE_BYTES = 4 * TILE_BYTES  # of what a tile allocates: many calls follow each other, and threads meet at each of them


def topk(x: Array, values: Array, indices: Array, *, axis: int, largest: bool = True, ordered: bool = True) -> None:
    """The largest or smallest elements of each line, as many as ``values`` has, and where they stood.

    Args:
        x: of any strides.
        values, indices: outs.
        ordered: whether the first one is the most extreme.
    """
    count = values.shape[axis] if values.ndim else 1
    if not values.size:
        return

    def block(x: Array, values: Array, indices: Array) -> None:
        length = x.shape[1]
        if x.nbytes < memory.SMALL_BYTES or count * _FEW >= length:
            found = order_of_lines(x, largest)[:, :count]
        else:
            found = _most_extreme(x, count, largest) if x.ndim == 2 else _across(x, count, largest)
            if ordered:
                found = taken_lines(found, order_of_lines(taken_lines(x, found), largest))
        indices[...] = found
        take_lines(x, found, values)

    arrays = [contiguous(x), values, indices]
    if x.ndim and axis % x.ndim == x.ndim - 1 and count * _FEW < x.shape[-1] and _is_compared_fast(x.dtype):
        _map_rows(block, [array.reshape(-1, array.shape[-1]) for array in arrays])
    else:
        map_lines(block, arrays, axis, allocated=24 + 3 * x.itemsize)


def _map_rows(block: Callable[..., None], arrays: list[Array]) -> None:
    """Call a function for a few elements of floats with tiles of matrices, whose rows are lines."""
    rows, length = arrays[0].shape
    bytes_a_row = _allocated(length, arrays[1].shape[1], arrays[0].itemsize)
    tiles = -(-rows * bytes_a_row // _TILE_BYTES)
    step = -(-rows // (tiles + tiles % 2)) if tiles > 1 else rows
    with numpy_workspace(bytes_a_row, rows, step):
        parallel_slices(lambda where: block(*[array[where] for array in arrays]), rows, step)


def _allocated(length: int, count: int, itemsize: int) -> int:
    """Bytes that are allocated at once for a line of floats: copies in order, masks, and numbers of equal elements."""
    group = _group_of(length, count)
    compared = 2 * itemsize + 9
    if group == 1:
        return compared * length
    return max(itemsize * length // 2 + compared * (length // group), (compared + 8) * (count + 1) * group)


def _is_compared_fast(dtype: np.dtype[np.generic]) -> bool:
    """Whether NumPy sorts and partitions numbers several times as fast as their places."""
    return dtype.kind == "f" and dtype.itemsize > 2


def _group_of(length: int, count: int) -> int:
    """How many elements have one extreme: a power of two near half the root of length / count; 1 if that is no help."""
    root = math.isqrt(length // count)
    if length <= _SORTED or root < _LEAST_GROUP:
        return 1
    return min(max(1 << (root.bit_length() - 2), _LEAST_GROUP), _MOST_GROUP)


def _across(x: Array, count: int, largest: bool) -> Array:
    """`_most_extreme` of lines along the middle one of three axes."""
    outer, length, inner = x.shape
    found = _most_extreme(x.transpose(0, 2, 1).reshape(outer * inner, length), count, largest)
    return found.reshape(outer, inner, count).transpose(0, 2, 1)


def _most_extreme(x: Array, count: int, largest: bool) -> Array:
    """The numbers of the ``count`` most extreme elements of each line, as they stand."""
    x = comparable(x)
    if not _is_compared_fast(x.dtype):
        return _partitioned(x, count, largest)
    group = _group_of(x.shape[1], count)
    if group == 1:
        return _set_apart(x, count, largest)
    width = x.shape[1] // group
    numbers = _candidates(_set_apart(_extremes(x, group, largest), count, largest), x.shape[1], group, width)
    return taken_lines(numbers, _set_apart(taken_lines(x, numbers), count, largest))


def _extremes(x: Array, group: int, largest: bool) -> Array:
    """Those of elements that stand a width apart, ``group`` of them, which is a power of two: halves are compared."""
    fold = np.maximum if largest else np.fmin  # NaN is the largest
    half = x.shape[1] // group * (group // 2)
    found = np.empty((len(x), half), x.dtype)
    with in_rows(half, found.size):
        fold(x[:, :half], x[:, half : 2 * half], out=found)
        while group > 2:
            group, half = group // 2, half // 2
            fold(found[:, :half], found[:, half : 2 * half], out=found[:, :half])
    return found[:, :half]


def _candidates(groups: Array, length: int, group: int, width: int) -> Array:
    """The numbers of the elements of groups, which stand a width apart, and of what is left of the line, in order."""
    rows, count = groups.shape
    rest = length - group * width
    numbers = np.empty((rows, group * count + rest), np.intp)
    inside = numbers[:, : group * count].reshape(rows, group, count)
    np.add(groups[:, None], width * np.arange(group)[:, None], out=inside)
    numbers[:, group * count :] = np.arange(length - rest, length)
    return numbers


def _set_apart(x: Array, count: int, largest: bool) -> Array:
    """`_most_extreme` of floats by comparing with the last one of them, if no line has others as extreme."""
    rows, length = x.shape
    place = length - count if largest else count - 1
    values = np.sort(x, axis=1) if length <= _SORTED else np.partition(x, place, axis=1)
    last = values[:, place, None]
    if largest:
        outside = x < last  # NaN is not
        numbers = np.flatnonzero(np.logical_not(outside, outside))
    else:
        numbers = np.flatnonzero(x <= last)
    if numbers.size == rows * count:
        found = numbers.reshape(rows, count) - np.arange(0, rows * length, length)[:, None]
        if (found[:, 0] >= 0).all() and (found[:, -1] < length).all():  # as many in each line
            return found
    return _partitioned(x, count, largest)


def _partitioned(x: Array, count: int, largest: bool) -> Array:
    place = x.shape[1] - count if largest else count - 1
    found = np.argpartition(x, place, axis=1)
    return np.sort(found[:, place:] if largest else found[:, : place + 1], axis=1)
