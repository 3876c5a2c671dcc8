"""Reductions inside one tile, and the combination of what tiles gave."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..executor import Array, scratch
from .rank_one import short, sum_of_weighted_rows

_FEW_COLUMNS = 16  # up to here a loop over columns beats NumPy's reduction, which costs about 20 ns a row
_ROWS_A_COLUMN = 25  # if there are so many rows for each column: a column costs half a microsecond
_WIDE = 1024
_RUN = 32
SUMMED = (np.dtype(np.float32), np.dtype(np.float64))
_TOGETHER = 1024  # elements that are added in one go, on the lanes of the processor
_RUN_OF_ALL = 256
_PRODUCTS = 512  # that are added in one go: few enough to be exact, and to be many runs in a tile (see below)
_ALONE = 8192  # terms of a product of two lines that BLAS adds on the calling thread
# Products of so many lines or more are computed without the interpreter's lock; of fewer, NumPy thinks it not worth it,
# however long they are. In tiles of at least _SHARED elements, which threads share out, long lines are cut for that.
_UNLOCKED, _SHARED, _SHORTEST_RUN = 501, 1 << 17, 128
INTP = np.dtype(np.intp)
_ARG = {np.maximum: np.argmax, np.minimum: np.argmin}


def max_of_rows(x: Array, out: Array, places: Array | None = None) -> None:
    """``out[i] = max(x[i, :])`` of a matrix with at least one column; ``places`` is scratch of one integer a row."""
    reduce_rows(np.maximum, x, out, places)


def sum_of_rows(x: Array, out: Array) -> None:
    """``out[i] = sum(x[i, :])``, pairwise."""
    reduce_rows(np.add, x, out)


def reduce_rows(ufunc: np.ufunc, x: Array, out: Array, places: Array | None = None) -> None:
    """``out[i] = ufunc.reduce(x[i, :])``, in ``out``'s dtype."""
    rows, columns = x.shape
    if 0 < columns <= _FEW_COLUMNS and rows > _ROWS_A_COLUMN * columns and x.dtype == out.dtype:
        np.copyto(out, x[:, 0])
        for column in range(1, columns):
            ufunc(out, x[:, column], out=out)
    elif ufunc is np.add and columns and x.dtype == out.dtype and x.dtype in SUMMED and x.strides[1] == x.itemsize:
        _sum_long_rows(x, out)
    elif ufunc in _ARG and _FEW_COLUMNS < columns < _WIDE and x.flags.c_contiguous and x.dtype == out.dtype:
        if places is None:
            places = scratch((rows,), INTP)  # up to this width the search is four times as fast as the reduction
        _ARG[ufunc](x, axis=1, out=places)
        out[...] = x[np.arange(rows), places]  # the first NaN, if there is one
    else:
        ufunc.reduce(x, axis=1, out=out, dtype=out.dtype)


def _sum_long_rows(x: Array, out: Array) -> None:
    """``out[i] = sum(x[i, :])``: `numpy.einsum` adds on many lanes at once, and the sums of runs are added pairwise."""
    rows, columns = x.shape
    if columns <= 2 * _TOGETHER:
        np.einsum("ij->i", x, out=out)
        return
    even = columns - columns % _TOGETHER
    sums = scratch((rows, even // _TOGETHER), out.dtype)
    np.einsum("ijk->ij", x[:, :even].reshape(rows, even // _TOGETHER, _TOGETHER), out=sums)
    np.add.reduce(sums, axis=1, out=out)
    if even < columns:
        np.add(out, np.einsum("ij->i", x[:, even:]), out=out)


def sum_of_products(x: Array, y: Array, out: Array, work: Array | None = None) -> None:
    """``out[i] = sum(x[i, :] * y[i, :])``; of floats without the products, for which ``work`` is in half precision.

    ``y`` may be one row for all.
    """
    if not (x.dtype == y.dtype == out.dtype and x.dtype in SUMMED):
        sum_of_rows(np.multiply(x, y, work), out)
        return
    sum_of_line_products(x, y, out)


def sum_of_lines(x: Array, out: Array) -> None:
    """``out = x.sum(-1)`` of floats of 32 or 64 bits, on many lanes at once."""
    if x.shape[-1] <= _ALONE:
        np.einsum("...i->...", x, out=out)
    else:
        _by_runs(lambda runs: np.einsum("...i->...", runs), [x], out)


def sum_of_line_products(x: Array, y: Array, out: Array) -> None:
    """``out = (x * y).sum(-1)`` of floats of 32 or 64 bits, on many lanes at once; ``y`` may be one line for all."""
    length = x.shape[-1]
    run = min(length, _ALONE)
    if x.size >= _SHARED and x.size < _UNLOCKED * run:
        run = min(run, max(1 << ((x.size // _UNLOCKED).bit_length() - 1), _SHORTEST_RUN))
    if run == length:
        np.vecdot(x, y, out=out)
    else:
        _by_runs(np.vecdot, [x, y], out, run)


def _by_runs(function: Callable[..., Array], arrays: Sequence[Array], out: Array, run: int = _ALONE) -> None:
    """``out`` = what a function gives for the last axes of arrays, added up pairwise over runs of them."""
    length = arrays[0].shape[-1]
    even = length - length % run
    runs = [array[..., :even].reshape(*array.shape[:-1], even // run, run) for array in arrays]
    np.add.reduce(function(*runs), axis=-1, out=out)
    if even < length:
        np.add(out, function(*[array[..., even:] for array in arrays]), out=out)


def sum_of_all(x: Array) -> float:
    """The sum of a tile that lies in C order: runs in its dtype, their sums in float64."""
    flat = x.reshape(-1)
    if x.dtype not in SUMMED or flat.size < _TOGETHER:
        return float(np.add.reduce(flat, dtype=np.float64))
    even = flat.size - flat.size % _RUN_OF_ALL
    total = np.add.reduce(np.einsum("ij->i", flat[:even].reshape(-1, _RUN_OF_ALL)), dtype=np.float64)
    return float(total + np.add.reduce(flat[even:], dtype=np.float64))


def sum_of_all_products(x: Array, y: Array) -> float:
    """The sum of ``x * y`` of tiles of floats in C order: runs in their dtype, the sums of these in float64."""
    x, y = x.reshape(-1), y.reshape(-1)
    even = x.size - x.size % _PRODUCTS
    total = float(np.vecdot(x[even:], y[even:]))
    if even:
        sums = np.vecdot(x[:even].reshape(-1, _PRODUCTS), y[:even].reshape(-1, _PRODUCTS))
        total += float(np.add.reduce(sums, dtype=np.float64))
    return total


def sum_of_columns(x: Array, out: Array) -> None:
    """``out[j] = sum(x[:, j])`` of a matrix; in ``out``'s dtype.

    NumPy adds row to row, slowly if they are short and inaccurately if they are many. So short rows that lie side by
    side in memory are added as wide ones, and runs of rows are added before their sums are.
    """
    rows, columns = x.shape
    if x.flags.c_contiguous and columns and rows > 2 * _RUN:
        if x.size >= _SHARED and columns >= _RUN and x.dtype == out.dtype and x.dtype in SUMMED and short(columns):
            sum_of_weighted_rows(x, None, out)
            return
        side_by_side = max(1, min(_WIDE // columns, rows // (2 * _RUN)))
        length = _RUN * side_by_side
        even = rows - rows % length
        runs = x[:even].reshape(even // length, _RUN, side_by_side * columns)
        sums = np.add.reduce(runs, axis=1, dtype=out.dtype).reshape(-1, columns)
        sum_of_columns(sums, out)
        if even < rows:
            np.add(out, np.add.reduce(x[even:], axis=0, dtype=out.dtype), out)
    else:
        np.add.reduce(x, axis=0, out=out, dtype=out.dtype)


def combine(partials: Array, out: Array) -> None:
    """``out = partials.sum(axis=0)``: in the order of the tiles, in double precision."""
    if len(partials) == 1:
        np.copyto(out, partials[0], casting="same_kind")
        return
    total = scratch(partials.shape[1:], np.result_type(partials.dtype, np.float64))
    np.add.reduce(partials, axis=0, out=total, dtype=total.dtype)
    np.copyto(out, total, casting="same_kind")
