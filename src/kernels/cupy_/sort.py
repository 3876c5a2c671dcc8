"""Sorting and selecting along one axis; NaN is the largest number."""

from __future__ import annotations

import math

import cupy
import numpy as np

from .along import take_along
from .launch import Array, kernel

__all__ = [
    "bincount",
    "mode",
    "searchsorted",
    "select",
    "sort",
    "topk",
]

_SEARCH = cupy.ElementwiseKernel(
    "raw T lines, T x, int64 count, int64 length, int64 right",
    "int64 y",
    """
    long long start = (long long)i / count * length, low = 0, high = length;
    while (low < high) {
      long long middle = (low + high) / 2;
      T found = lines[start + middle];
      bool before = right ? !(x < found) && !(found != found && x == x) : found < x || (x != x && found == found);
      if (before) { low = middle + 1; } else { high = middle; }
    }
    y = low;
    """,
    "stowgrad_searchsorted",
)
# The place of the last one of the longest run of equal elements of a sorted line.
_MODE = cupy.ElementwiseKernel(
    "raw T x, int64 length, int64 inner",
    "raw int64 y",
    """
    long long start = (long long)i / inner * length * inner + (long long)i % inner;
    long long run = 0, longest = 0, place = 0;
    for (long long j = 0; j < length; ++j) {
      run = j > 0 && x[start + j * inner] == x[start + (j - 1) * inner] ? run + 1 : 1;
      if (run > longest) { longest = run; place = j; }
    }
    y[i] = place;
    """,
    "stowgrad_mode",
)
# The first NaN of a line, or -1, and the number of NaNs.
_NANS = cupy.ElementwiseKernel(
    "raw T x, int64 length, int64 inner",
    "raw int64 first, raw int64 count",
    """
    long long start = (long long)i / inner * length * inner + (long long)i % inner, found = -1, number = 0;
    for (long long j = length - 1; j >= 0; --j) {
      T now = x[start + j * inner];
      if (now != now) { found = j; ++number; }
    }
    first[i] = found;
    count[i] = number;
    """,
    "stowgrad_nans",
)
_CHOOSE = cupy.ElementwiseKernel(
    "int64 found, int64 first", "int64 y", "y = first >= 0 ? first : found", "stowgrad_choose"
)
_MIDDLE = cupy.ElementwiseKernel(
    "int64 missing, int64 length",
    "int64 y",
    "y = length - missing > 0 ? (length - missing - 1) / 2 : 0",
    "stowgrad_middle",
)


@kernel
def sort(x: Array, values: Array, indices: Array, *, axis: int, descending: bool = False) -> None:
    """The elements of each line in order, equal ones as they stood, and where they stood.

    Args:
        x: of any strides.
        values, indices: outs of its shape.
    """
    cupy.copyto(indices, _order(x, axis, descending).reshape(x.shape))
    take_along(x, indices, values, axis=axis)


@kernel
def topk(x: Array, values: Array, indices: Array, *, axis: int, largest: bool = True, ordered: bool = True) -> None:
    """The largest or smallest elements of each line, as many as ``values`` has, and where they stood.

    Args:
        x: of any strides.
        values, indices: outs.
        ordered: whether the first one is the most extreme; they always are in order here.
    """
    if not values.size:
        return
    shape = x.shape or (1,)
    axis %= len(shape)
    first = (slice(None),) * axis + (slice(0, (values.shape or (1,))[axis]),)
    cupy.copyto(indices, _order(x, axis, largest)[first].reshape(indices.shape))
    take_along(x, indices, values, axis=axis)


@kernel
def select(
    x: Array, values: Array, indices: Array | None, *, axis: int, place: int | None = None, ignore_nan: bool = False
) -> None:
    """The element of each line that stands at ``place`` when it is sorted, and its number; for None the median.

    The median is the lower one of two. With ``ignore_nan`` it is that of the other elements; otherwise the first NaN.
    The numbers are not given where ``indices`` is None.
    """
    if indices is None:
        indices = cupy.empty(values.shape, np.int64)
    if not x.size:
        return
    order = _order(x, axis, False)
    shape, axis, length, inner = _lines(order, axis)
    places = cupy.empty(shape, np.int64)
    found = indices.reshape(shape)
    if place is not None:
        places.fill(place)
        take_along(order, places, found, axis=axis)
    else:
        first, missing = cupy.empty(shape, np.int64), cupy.zeros(shape, np.int64)
        _NANS(cupy.ascontiguousarray(x), length, inner, first, missing, size=math.prod(shape))
        if ignore_nan:
            _MIDDLE(missing, length, places)
            take_along(order, places, found, axis=axis)
        else:
            places.fill((length - 1) // 2)
            take_along(order, places, found, axis=axis)
            _CHOOSE(found, first, found)
    take_along(x.reshape(order.shape), found, values.reshape(shape), axis=axis)


@kernel
def mode(x: Array, values: Array, indices: Array, *, axis: int) -> None:
    """The element of each line that is there most often, the smallest of several, and the number of its last one."""
    if not x.size:
        return
    order = _order(x, axis, False)
    shape, axis, length, inner = _lines(order, axis)
    ordered = cupy.empty(order.shape, x.dtype)
    take_along(x.reshape(order.shape), order, ordered, axis=axis)
    places = cupy.empty(shape, np.int64)
    _MODE(ordered, length, inner, places, size=math.prod(shape))
    take_along(order, places, indices.reshape(shape), axis=axis)
    take_along(ordered, places, values.reshape(shape), axis=axis)


@kernel
def searchsorted(sorted_: Array, values: Array, out: Array, *, right: bool = False) -> None:
    """Where ``values`` belong among sorted ones: in front of equal ones, or behind them if ``right``.

    Args:
        sorted_: one line for all, or one for each line of ``values`` (their last axes).
        values, out: of one shape.
    """
    if not out.size:
        return
    found = out if out.dtype == np.int64 else cupy.empty(out.shape, np.int64)
    count = out.size if sorted_.ndim == 1 else values.shape[-1]
    lines = cupy.ascontiguousarray(sorted_)
    _SEARCH(lines, cupy.ascontiguousarray(values), count, sorted_.shape[-1], int(right), found)
    if found is not out:
        cupy.copyto(out, found, casting="unsafe")


@kernel
def bincount(x: Array, weights: Array | None, out: Array) -> None:
    """How often each number below ``len(out)`` is in ``x``, or the sum of the weights where it is."""
    if not x.size:
        out.fill(0)
        return
    cupy.copyto(out, cupy.bincount(x, weights, len(out)), casting="unsafe")


def _order(x: Array, axis: int, descending: bool) -> Array:
    """The numbers of the elements of each line in order, equal ones as they stand; at least one axis."""
    x = x if x.ndim else x.reshape(1)
    axis %= x.ndim
    if not descending:
        return cupy.argsort(x, axis=axis, kind="stable")
    backwards = (slice(None),) * axis + (slice(None, None, -1),)
    order = cupy.argsort(x[backwards], axis=axis, kind="stable")[backwards]
    return cupy.subtract(x.shape[axis] - 1, order)


def _lines(x: Array, axis: int) -> tuple[tuple[int, ...], int, int, int]:
    """The shape with the axis as 1, the axis, the length of its lines, and how far apart their elements lie."""
    axis %= x.ndim
    shape = tuple(1 if number == axis else length for number, length in enumerate(x.shape))
    return shape, axis, x.shape[axis], math.prod(x.shape[axis + 1 :])
