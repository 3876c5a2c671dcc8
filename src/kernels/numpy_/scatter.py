"""Elements by number along one axis: read, written, added, folded.

NOTE [ Sums by number ]
`np.add.at` is slow and its like for other ufuncs slower. Sums of floats are `np.bincount`'s, in double precision; other
folds sort the numbers and reduce each stretch of equal ones, as do sums into far more places than there are numbers.
A tile has whole rows along the axis, so that no two tiles write to one place, and everything is added in the same order
with any number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..executor import Array, parallel_for, parallel_slices, scratch
from .tiling import UNTILED, contiguous, numpy_workspace, rows_per_tile, tile_size

__all__ = [
    "gather_along",
    "index_add",
    "index_put_rows",
    "scatter_add_along",
    "scatter_along",
    "scatter_fold_along",
    "take_rows",
]

_WORKSPACE = 40  # bytes an element that NumPy needs in a tile: numbers, values, their order, sums
_INT64 = np.dtype(np.int64)
_FEW_COLUMNS = 8
_SHORT = 16  # rows of a stretch that are added to those of other stretches
_SPARSE = 16  # with fewer sums than one in so many elements the numbers are sorted
_WIDE = {"f": np.dtype(np.float64), "c": np.dtype(np.complex128)}
_FOLDS = {"prod": np.multiply, "amin": np.minimum, "amax": np.maximum}


# -- an index for each element -----------------------------------------------------------------------------------------


def gather_along(x: Array, index: Array, out: Array, *, axis: int) -> None:
    """``out[i, j, k] = x[i, index[i, j, k], k]`` (with ``axis`` in the middle); ``index`` may be smaller than ``x``."""

    def rows(x: Array, index: Array, out: Array) -> None:
        np.copyto(out, x[_grid(index)])

    if _fits(x, index, out, axis) and x.dtype == out.dtype:
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

    def tile(where: slice, numbers: Array) -> None:
        numbers = numbers[: where.stop - where.start]
        _flat_numbers(numbered[where], where, x.shape, index.shape[axis], axis, numbers)
        np.take(source, numbers, out=target[where], mode="clip")

    rows = len(numbered)
    step = rows_per_tile(rows, width, _INT64)
    parallel_slices(tile, rows, step, [((step, width), _INT64)])


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


def scatter_along(out: Array, index: Array, src: Any, *, axis: int) -> None:
    """``out[i, index[i, j, k], k] = src[i, j, k]``; ``src`` is an array of ``index``'s shape or a number."""

    def rows(out: Array, index: Array, src: Array) -> None:
        out[_grid(index)] = src

    _by_rows(rows, axis, index, out, np.broadcast_to(src, index.shape), whole=False)


def scatter_add_along(out: Array, index: Array, src: Array, *, axis: int) -> None:
    """``out[i, index[i, j, k], k] += src[i, j, k]``, for each place in the order of ``j``."""
    single = index.ndim > 0 and index.shape[axis] == 1  # then no place comes twice
    if 1 < index.size <= UNTILED and not single and out.size <= _SPARSE * index.size and _fits(out, index, src, axis):
        numbers = scratch(index.shape, _INT64).reshape(-1, _row_of(index, axis))
        with numpy_workspace(_WORKSPACE, index.size, index.size):
            whole = slice(0, len(numbers))
            _flat_numbers(index.reshape(numbers.shape), whole, out.shape, index.shape[axis], axis, numbers)
            sums = _sums(numbers.reshape(-1), src.reshape(-1), out.size)
            np.add(out, sums.reshape(out.shape), out=out, casting="unsafe")
        return

    def rows(out: Array, index: Array, src: Array) -> None:
        if single:
            where = _grid(index)
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


def _grid(index: Array) -> tuple[Array, ...]:
    """What selects ``x[i, j, index[i, j, k]]``."""
    lead, dims = index.shape[:-1], index.ndim
    return (*[np.arange(size).reshape([-1] + [1] * (dims - dim - 1)) for dim, size in enumerate(lead)], index)


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


def segments(numbers: Array) -> tuple[Array, Array, Array]:
    """The order that sorts numbers, where each stretch of equal ones begins in it, and the number of each stretch."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    starts = np.concatenate([[0], np.flatnonzero(ordered[1:] != ordered[:-1]) + 1])
    return order, starts, ordered[starts]


# -- one index for whole rows ------------------------------------------------------------------------------------------


def take_rows(x: Array, index: Array, out: Array, *, axis: int) -> None:
    """``out[i, j, k] = x[i, index[j], k]``; numbers are in range, or count from the end."""
    if not out.size:
        return
    outer, inner = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    source, target = contiguous(x).reshape(outer, x.shape[axis], inner), out.reshape(outer, len(index), inner)

    def block(where: slice) -> None:
        if outer == 1:
            np.take(source[0], index[where], axis=0, out=target[0, where], mode="wrap")  # "raise" would copy twice
        else:
            np.take(source[where], index, axis=1, out=target[where], mode="wrap")

    rows, columns = (len(index), inner) if outer == 1 else (outer, len(index) * inner)
    parallel_slices(block, rows, rows_per_tile(rows, columns, out.dtype))


def index_put_rows(out: Array, index: Array, src: Any, *, axis: int) -> None:
    """``out[i, index[j], k] = src[i, j, k]``; ``src`` is an array that broadcasts, or a number."""
    where: tuple[Any, ...] = (*[slice(None)] * axis, index)
    out[where] = src


def index_add(out: Array, index: Array, src: Array, *, axis: int, alpha: Any = 1) -> None:
    """``out[i, index[j], k] += alpha * src[i, j, k]``, in the order of ``j``; negative numbers count from the end."""
    if not src.size:
        return
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
