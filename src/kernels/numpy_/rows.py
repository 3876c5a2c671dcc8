"""Reductions inside one tile, and the combination of what tiles gave."""

from __future__ import annotations

import numpy as np

from ..executor import Array, scratch

_FEW_COLUMNS = 16  # up to here a loop over columns beats NumPy's reduction, which costs about 20 ns a row
_WIDE = 1024
_RUN = 32


def max_of_rows(x: Array, out: Array) -> None:
    """``out[i] = max(x[i, :])`` of a matrix with at least one column."""
    reduce_rows(np.maximum, x, out)


def sum_of_rows(x: Array, out: Array) -> None:
    """``out[i] = sum(x[i, :])``, pairwise."""
    reduce_rows(np.add, x, out)


def reduce_rows(ufunc: np.ufunc, x: Array, out: Array) -> None:
    """``out[i] = ufunc.reduce(x[i, :])``, in ``out``'s dtype."""
    rows, columns = x.shape
    if 0 < columns <= _FEW_COLUMNS < rows and x.dtype == out.dtype:
        np.copyto(out, x[:, 0])
        for column in range(1, columns):
            ufunc(out, x[:, column], out=out)
    else:
        ufunc.reduce(x, axis=1, out=out, dtype=out.dtype)


def sum_of_columns(x: Array, out: Array) -> None:
    """``out[j] = sum(x[:, j])`` of a matrix; in ``out``'s dtype.

    NumPy adds row to row, slowly if they are short and inaccurately if they are many. So short rows that lie side by
    side in memory are added as wide ones, and runs of rows are added before their sums are.
    """
    rows, columns = x.shape
    if x.flags.c_contiguous and columns and rows > 2 * _RUN:
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
