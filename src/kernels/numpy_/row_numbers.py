"""Rows by number along one axis: read, written, added.

NOTE [ Sums of rows ]
1. Long rows are added one after the other, in stripes of columns that threads share out, or place by place
   (row_sums.py). Short ones are added element by element: `np.add.at` takes about a nanosecond for each, if everything
   has one dtype and one axis; two neighbours as the parts of one complex number take no longer than one.
2. Where many rows fall into one place, and in half precision, rows are sorted by number, so that each sum is a wide or
   a pairwise one.
3. Whichever way is taken depends on shapes and dtypes only, and each sum is in the order of the rows.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...memory import SMALL_BYTES
from ..executor import Array, parallel_for, parallel_slices
from .row_sums import add_by_place, adds_by_place
from .tiling import UNTILED, DType, contiguous, copy_tiled, numpy_workspace, rows_per_tile, tile_size

__all__ = [
    "index_add",
    "index_added",
    "index_put_rows",
    "index_sums",
    "take_rows",
]

_WORKSPACE = 40  # bytes an element that NumPy needs to sort: numbers, their order, where stretches begin
_FEW_COLUMNS = 8
_SHORT = 16  # rows of a stretch that are added to those of other stretches
_LONG = 512  # elements of a row that is added by a call of its own
_CROWDED = 16  # rows that fall into one place on average
_STRIPE = 1 << 13  # elements of a row that a thread adds
_CHUNK = 1 << 15  # elements, or pairs of them, that are numbered at a time
_INT64 = np.dtype(np.int64)
_PAIRS: dict[DType, DType] = {
    np.dtype(np.float32): np.dtype(np.complex64),
    np.dtype(np.float64): np.dtype(np.complex128),
}


def take_rows(x: Array, index: Array, out: Array, *, axis: int) -> None:
    """``out[i, j, k] = x[i, index[j], k]``; numbers are in range, or count from the end."""
    if not out.size:
        return
    if out.size <= UNTILED and x.flags.c_contiguous:
        x.take(index, axis=axis, out=out, mode="wrap")  # "raise" would copy twice
        return
    outer, inner = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    source, target = contiguous(x).reshape(outer, x.shape[axis], inner), out.reshape(outer, len(index), inner)

    def block(where: slice) -> None:
        if outer == 1:
            np.take(source[0], index[where], axis=0, out=target[0, where], mode="wrap")
        else:
            np.take(source[where], index, axis=1, out=target[where], mode="wrap")

    rows, columns = (len(index), inner) if outer == 1 else (outer, len(index) * inner)
    parallel_slices(block, rows, rows_per_tile(rows, columns, out.dtype))


def index_put_rows(out: Array, index: Array, src: Any, *, axis: int) -> None:
    """``out[i, index[j], k] = src[i, j, k]``; ``src`` is an array that broadcasts, or a number."""
    where: tuple[Any, ...] = (*[slice(None)] * axis, index)
    out[where] = src


def adds_at_once(dtype: np.dtype[Any], count: int, places: int) -> bool:
    """Whether ``count`` numbers are added to ``places`` by `np.add.at` (or a row at a time): note, rule 2."""
    return dtype.kind in "fiuc" and (dtype.kind in "iu" or dtype.itemsize > 2) and count <= _CROWDED * places


def index_add(out: Array, index: Array, src: Array, *, axis: int, alpha: Any = 1) -> None:
    """``out[i, index[j], k] += alpha * src[i, j, k]``, in the order of ``j``; negative numbers count from the end."""
    if not src.size:
        return
    length = out.shape[axis]
    if axis == 0 and alpha == 1 and src.nbytes < SMALL_BYTES and _add_few(out, index, src):
        return
    if not out.flags.c_contiguous or out.dtype != src.dtype or not adds_at_once(out.dtype, len(index), length):
        _add_stretches(out, index, src, axis, alpha)
        return
    inner = math.prod(out.shape[axis + 1 :])
    target, given = out.reshape(-1, length, inner), contiguous(src).reshape(-1, len(index), inner)
    if alpha == 1 and len(target) == 1 and adds_by_place(len(index), inner, length):
        add_by_place(target[0], _from_0(index, length), given[0], target[0])
        return
    (_add_long if inner >= _LONG else _add_short)(target, index, given, alpha)


def index_added(x: Array, index: Array, src: Array, out: Array, *, axis: int, alpha: Any = 1) -> None:
    """`index_add` into a copy of ``x`` in ``out``."""
    if alpha != 1 or not x.flags.c_contiguous or not _all_by_place(out, index, src, axis, x):
        copy_tiled(x, out)
        index_add(out, index, src, axis=axis, alpha=alpha)


def index_sums(index: Array, src: Array, out: Array, *, axis: int) -> None:
    """Zeros with rows added: ``out[i, index[j], k] = `` the sum of these ``src[i, j, k]``, in the order of ``j``."""
    if not _all_by_place(out, index, src, axis, None):
        copy_tiled(0, out)
        index_add(out, index, src, axis=axis)


def _all_by_place(out: Array, index: Array, src: Array, axis: int, start: Array | None) -> bool:
    """`add_by_place` into a new array, if that is how it is done."""
    length, inner = out.shape[axis], math.prod(out.shape[axis + 1 :])
    if not adds_by_place(len(index), inner, length) or out.size != length * inner or not out.flags.c_contiguous:
        return False
    if out.dtype != src.dtype or not adds_at_once(out.dtype, len(index), length):
        return False
    given = contiguous(src).reshape(len(index), inner)
    before = None if start is None else start.reshape(length, inner)
    add_by_place(out.reshape(length, inner), _from_0(index, length), given, before)
    return True


def _from_0(index: Array, length: int) -> Array:
    """Numbers of which none counts from the end any more."""
    return np.remainder(index, length, dtype=_INT64)


def _add_few(out: Array, index: Array, src: Array) -> bool:
    """`index_add` of so little that what it is counted in would cost more; whether it could be done."""
    length, count = len(out), len(index)
    if not (out.flags.c_contiguous and src.flags.c_contiguous and out.dtype == src.dtype):
        return False
    if not adds_at_once(out.dtype, count, length):
        return False
    width = src.size // count
    numbers = np.remainder(index, length, dtype=_INT64)[:, None] * width + np.arange(width)
    np.add.at(out.reshape(-1), numbers.reshape(-1), src.reshape(-1))
    return True


def _add_long(out: Array, index: Array, src: Array, alpha: Any) -> None:
    """A row at a time. Arrays are (outer, rows, columns)."""
    outer, _, inner = src.shape
    numbers = index.tolist()
    step = inner if src.size <= _CHUNK else min(inner, _STRIPE)
    stripes = -(-inner // step)

    def stripe(number: int, work: Array) -> None:
        before, across = divmod(number, stripes)
        columns = slice(across * step, (across + 1) * step)
        target, given = out[before, :, columns], src[before, :, columns]
        for place, row in zip(numbers, given, strict=True):
            total = target[place]
            np.add(total, row if alpha == 1 else np.multiply(row, alpha, out=work[: len(row)]), out=total)

    parallel_for(stripe, outer * stripes, [((0 if alpha == 1 else step,), out.dtype)])


def _add_short(out: Array, index: Array, src: Array, alpha: Any) -> None:
    """An element or two at a time. Arrays are (outer, rows, columns)."""
    outer, count, inner = src.shape
    length = out.shape[1]
    dtype: DType = _PAIRS.get(out.dtype, out.dtype) if inner % 2 == 0 else out.dtype
    flat = out.reshape(-1).view(dtype)
    width = inner * out.itemsize // dtype.itemsize
    columns = np.arange(width)
    batch = max(1, _CHUNK // (count * width))
    chunk = count if batch > 1 else max(1, _CHUNK // width)

    def some(where: slice) -> None:
        for begin in range(0, count, chunk):
            rows = slice(begin, begin + chunk)
            numbers = np.remainder(index[rows], length, dtype=_INT64)[:, None] * width + columns
            if outer > 1:
                numbers = numbers + np.arange(where.start, where.stop)[:, None, None] * (length * width)
            given = src[where, rows] if alpha == 1 else src[where, rows] * alpha
            np.add.at(flat, numbers.reshape(-1), given.reshape(-1).view(dtype))

    itemsize = 16 * out.itemsize // dtype.itemsize + (0 if alpha == 1 else out.itemsize)
    size = min(src.size, batch * chunk * inner)
    with numpy_workspace(itemsize, src.size, size):
        parallel_slices(some, outer, batch)


def _add_stretches(out: Array, index: Array, src: Array, axis: int, alpha: Any) -> None:
    """A stretch of equal numbers at a time."""
    out, src = np.moveaxis(out, axis, 0), np.moveaxis(src, axis, 0)
    if out.ndim == 1:
        out, src = out[:, None], src[:, None]
    width, tile = math.prod(out.shape[2:]), tile_size(src.size, out.dtype)
    step = max(1, min(out.shape[1], tile // (_SHORT * width)))
    chunk = max(1, tile // (step * width))
    across = -(-out.shape[1] // step)
    wide = out.dtype if out.dtype.kind in "biuc" or out.dtype.itemsize > 2 else np.dtype(np.float32)
    with numpy_workspace(_WORKSPACE, len(index), len(index)):
        index = index % len(out)
        order, starts, _ = segments(index)

        def block(number: int) -> None:
            """The numbers whose first place is in one stretch of the order: nobody else writes there."""
            along, column = divmod(number, across)
            first, last = np.searchsorted(starts, [along * chunk, (along + 1) * chunk])
            if first == last:
                return
            where = slice(column * step, (column + 1) * step)
            end = starts[last] if last < len(starts) else len(order)
            for begin in range(starts[first], end, chunk):
                part = order[begin : min(begin + chunk, end)]
                numbers = index[part]
                cuts = np.flatnonzero(np.concatenate([[True], numbers[1:] != numbers[:-1]]))
                sums = _sums_of_stretches(src[part, where], cuts, wide)
                if alpha != 1:
                    sums *= alpha
                target, changed = out[:, where], numbers[cuts]
                target[changed] = (target[changed] + sums).astype(out.dtype, copy=False)

        with numpy_workspace(3 * wide.itemsize * width * step, len(order), chunk):
            parallel_for(block, -(-len(order) // chunk) * across)


def segments(numbers: Array) -> tuple[Array, Array, Array]:
    """The order that sorts numbers, where each stretch of equal ones begins in it, and the number of each stretch."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    starts = np.concatenate([[0], np.flatnonzero(ordered[1:] != ordered[:-1]) + 1])
    return order, starts, ordered[starts]


def _sums_of_stretches(rows: Array, cuts: Array, wide: Any) -> Array:
    """The sums of the stretches of rows that begin at ``cuts``.

    NumPy's reduceat takes each column of each stretch for itself; for short stretches of long rows it is faster to add
    all first rows, then all second ones, and so on.
    """
    counts = np.diff(cuts, append=len(rows))
    if rows.size // len(rows) < _FEW_COLUMNS:
        return np.add.reduceat(rows, cuts, axis=0, dtype=wide)
    sums = rows[cuts].astype(wide, copy=False)
    short = np.minimum(counts, _SHORT)
    for number in range(1, int(short.max())):
        more = np.flatnonzero(short > number)
        sums[more] += rows[cuts[more] + number]
    for stretch in np.flatnonzero(counts > _SHORT):
        begin, end = cuts[stretch] + _SHORT, cuts[stretch] + counts[stretch]
        sums[stretch] += np.add.reduce(rows[begin:end], axis=0, dtype=wide)
    return sums
