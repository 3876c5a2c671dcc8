"""Elements by number along one axis: read, written, added, folded.

NOTE [ Sums by number ]
`np.add.at` takes about a nanosecond an element where both arrays and the numbers have one axis and one dtype that is no
half precision: then it adds, unless many numbers fall into one place. Other sums of floats are `np.bincount`'s, in
double precision; other folds sort the numbers and reduce each stretch of equal ones, as do sums into far more places
than there are numbers. A tile has whole rows along the axis, so that no two tiles write to one place, and everything is
added in the same order with any number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...memory import SMALL_BYTES
from ..executor import Array, parallel_for, parallel_slices, scratch
from .row_numbers import adds_at_once, segments
from .tiling import numpy_workspace, rows_per_tile, tile_size

__all__ = [
    "gather_along",
    "scatter_add_along",
    "scatter_along",
    "scatter_fold_along",
]

_WORKSPACE = 40  # bytes an element that NumPy needs in a tile: numbers, values, their order, sums
_INT64 = np.dtype(np.int64)
_CHUNK = 1 << 15  # elements that are numbered at a time
_SPARSE = 16  # with fewer sums than one in so many elements the numbers are sorted
_WIDE = {"f": np.dtype(np.float64), "c": np.dtype(np.complex128)}
_FOLDS = {"prod": np.multiply, "amin": np.minimum, "amax": np.maximum}


# -- an index for each element -----------------------------------------------------------------------------------------


def gather_along(x: Array, index: Array, out: Array, *, axis: int) -> None:
    """``out[i, j, k] = x[i, index[i, j, k], k]`` (with ``axis`` in the middle); ``index`` may be smaller than ``x``."""

    def rows(x: Array, index: Array, out: Array) -> None:
        np.copyto(out, x[_key(index, -1)])

    if not out.size:
        return
    fits = _fits(x, index, out, axis) and x.dtype == out.dtype
    if fits and out.nbytes < SMALL_BYTES:
        x.reshape(-1).take(_few_numbers(index, x.shape, axis), out=out, mode="clip")
    elif fits:
        _gather_flat(x, index, out, axis)
    else:
        _by_rows(rows, axis, index, x, out, whole=False)


def _fits(x: Array, index: Array, other: Array, axis: int) -> bool:
    """Whether all lie in C order and differ in their lengths along ``axis`` alone."""
    if axis < 0 or not (x.ndim and x.size and index.size):
        return False
    if not (x.flags.c_contiguous and index.flags.c_contiguous and other.flags.c_contiguous):
        return False
    return bool(x.shape[:axis] == index.shape[:axis] and x.shape[axis + 1 :] == index.shape[axis + 1 :])


def _gather_flat(x: Array, index: Array, out: Array, axis: int) -> None:
    """`gather_along` by numbers in the whole array."""
    width = _row_of(index, axis)
    numbered, target, source = index.reshape(-1, width), out.reshape(-1, width), x.reshape(-1)

    rows = len(numbered)
    chunk = min(rows, max(1, _CHUNK // width))

    def tile(where: slice, numbers: Array) -> None:
        for begin in range(where.start, where.stop, chunk):
            some = slice(begin, min(begin + chunk, where.stop))
            part = numbers[: some.stop - begin]
            _flat_numbers(numbered[some], some, x.shape, index.shape[axis], axis, part)
            np.take(source, part, out=target[some], mode="clip")

    parallel_slices(tile, rows, rows_per_tile(rows, width, _INT64), [((chunk, width), _INT64)])


def _row_of(index: Array, axis: int) -> int:
    """The length of rows of an index in C order: of what follows the axis, or of lines along it if that is 1."""
    inner, lines = math.prod(index.shape[axis + 1 :]), int(index.shape[axis])
    return inner if inner > 1 else lines


def _flat_numbers(index: Array, where: slice, shape: tuple[int, ...], lines: int, axis: int, out: Array) -> None:
    """Numbers along ``axis`` of an array in C order as numbers in the whole of it, for some rows (`_row_of`)."""
    length, inner = shape[axis], math.prod(shape[axis + 1 :])
    rows = np.arange(where.start, where.stop)[:, None]
    if inner == 1:
        np.add(index, rows * length, out=out)
        return
    np.multiply(index, inner, out=out)
    np.add(out, np.arange(inner), out=out)
    if math.prod(shape[:axis]) > 1:
        np.add(out, rows // lines * (length * inner), out=out)


def _few_numbers(index: Array, shape: tuple[int, ...], axis: int) -> Array:
    """`_flat_numbers` for all rows, in an array that is too small to be counted."""
    inner, outer = math.prod(shape[axis + 1 :]), math.prod(shape[:axis])
    numbers = index * inner if inner > 1 else index
    if inner > 1:
        numbers = numbers + np.arange(inner).reshape(shape[axis + 1 :])
    if outer > 1:
        before = np.arange(0, outer * shape[axis] * inner, shape[axis] * inner)
        numbers = numbers + before.reshape(*shape[:axis], *(1,) * (len(shape) - axis))
    return numbers


def scatter_along(out: Array, index: Array, src: Any, *, axis: int) -> None:
    """``out[i, index[i, j, k], k] = src[i, j, k]``; ``src`` is an array of ``index``'s shape or a number."""

    def rows(out: Array, index: Array, src: Array) -> None:
        out[_key(index, -1)] = src

    _by_rows(rows, axis, index, out, np.broadcast_to(src, index.shape), whole=False)


def scatter_add_along(out: Array, index: Array, src: Array, *, axis: int) -> None:
    """``out[i, index[i, j, k], k] += src[i, j, k]``, for each place in the order of ``j``."""
    single = index.ndim > 0 and index.shape[axis] == 1  # then no place comes twice
    if not single and out.dtype == src.dtype and adds_at_once(out.dtype, index.size, out.size):
        if _fits(out, index, src, axis) and index.shape == src.shape:
            _add_flat(out, index, src, axis)
            return

    def rows(out: Array, index: Array, src: Array) -> None:
        if single:
            where = _key(index, -1)
            out[where] = out[where] + src
            return
        numbers = _numbers(index, out.shape[-1])
        if out.flags.c_contiguous and out.size > _SPARSE * index.size:
            order, starts, targets = segments(numbers)
            wide = _WIDE.get(src.dtype.kind, src.dtype)
            flat = out.reshape(-1)
            flat[targets] = flat[targets] + np.add.reduceat(src.reshape(-1)[order], starts, dtype=wide)
            return
        sums = _sums(numbers, src.reshape(-1), out.size)
        np.add(out, sums.reshape(out.shape), out=out, casting="unsafe")

    _by_rows(rows, axis, index, out, src, whole=not single)


def _add_flat(out: Array, index: Array, src: Array, axis: int) -> None:
    """`scatter_add_along` by numbers in the whole array, one tile after the other: two may write to one place."""
    if src.nbytes < SMALL_BYTES:
        np.add.at(out.reshape(-1), _few_numbers(index, out.shape, axis).reshape(-1), src.reshape(-1))
        return
    width = _row_of(index, axis)
    numbered, given, flat = index.reshape(-1, width), src.reshape(-1, width), out.reshape(-1)
    step = min(len(numbered), max(1, _CHUNK // width))
    numbers = scratch((step, width), _INT64)
    for begin in range(0, len(numbered), step):
        where = slice(begin, min(begin + step, len(numbered)))
        part = numbers[: where.stop - begin]
        _flat_numbers(numbered[where], where, out.shape, index.shape[axis], axis, part)
        np.add.at(flat, part.reshape(-1), given[where].reshape(-1))


def scatter_fold_along(out: Array, index: Array, src: Array, *, axis: int, fold: str) -> None:
    """``out[i, index[i, j, k], k]`` takes ``src[i, j, k]`` in: as a factor, or if it is a new extreme.

    Args:
        fold: ``"prod"``, ``"amin"`` or ``"amax"``.
    """
    ufunc = _FOLDS[fold]

    def rows(out: Array, index: Array, src: Array) -> None:
        flat = np.ascontiguousarray(out).reshape(-1)
        order, starts, targets = segments(_numbers(index, out.shape[-1]))
        flat[targets] = ufunc(flat[targets], ufunc.reduceat(src.reshape(-1)[order], starts))
        np.copyto(out, flat.reshape(out.shape))

    _by_rows(rows, axis, index, out, src)


def _by_rows(
    body: Callable[[Array, Array, Array], None], axis: int, index: Array, x: Array, other: Array, whole: bool = True
) -> None:
    """Call ``body(x, index, other)`` with runs of rows along ``axis``, which comes last then.

    Args:
        x: what numbers count in, at least as large as ``index`` along the other axes.
        other: of ``index``'s shape.
        whole: whether each call costs as much as the rows of ``x`` are long.
    """
    if not index.size or not x.size:
        return
    x = x[tuple([slice(None) if dim == axis else slice(size) for dim, size in enumerate(index.shape)])]
    x, index, other = (np.moveaxis(array, axis, -1) for array in (x, index, other))
    if index.ndim == 1:
        x, index, other = x[None], index[None], other[None]
    lead, length = index.shape[:-1], max(index.shape[-1], x.shape[-1] if whole else 1)
    tile = tile_size(math.prod(lead) * length, _INT64)
    split, inner = len(lead) - 1, length
    while split > 0 and inner * lead[split] <= tile:
        inner *= lead[split]
        split -= 1
    step, chunk = max(1, tile // inner), max(tile, x.shape[-1]) if whole else tile
    runs = -(-lead[split] // step)

    def block(number: int) -> None:
        before, run = divmod(number, runs)
        where = (*np.unravel_index(before, lead[:split]), slice(run * step, (run + 1) * step))
        for begin in range(0, index.shape[-1], chunk):
            along = slice(begin, begin + chunk)
            body(x[where], index[where][..., along], other[where][..., along])

    with numpy_workspace(_WORKSPACE, math.prod(lead) * length, max(tile, length) if whole else tile):
        parallel_for(block, math.prod(lead[:split]) * runs)


def _key(index: Array, axis: int) -> tuple[Array, ...]:
    """What selects ``x[i, index[i, j, k], k]`` (with ``axis`` in the middle)."""
    dims = index.ndim
    key = [np.arange(size).reshape(-1, *(1,) * (dims - dim - 1)) for dim, size in enumerate(index.shape)]
    key[axis] = index
    return tuple(key)


def _numbers(index: Array, length: int) -> Array:
    """Numbers along rows of a length as numbers in the whole, flat."""
    rows = index.reshape(-1, index.shape[-1])
    return (rows + length * np.arange(len(rows))[:, None]).reshape(-1)


def _sums(numbers: Array, values: Array, size: int) -> Array:
    """The sum of the values of each number below ``size``."""
    if values.dtype.kind in "biu":
        order, starts, targets = segments(numbers)
        sums = np.zeros(size, values.dtype)
        sums[targets] = np.add.reduceat(values[order], starts, dtype=values.dtype)
        return sums
    if values.dtype.kind == "c":
        return _sums(numbers, values.real, size) + 1j * _sums(numbers, values.imag, size)
    return np.bincount(numbers, values.astype(np.float64, copy=False), size)
