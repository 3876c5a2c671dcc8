"""Reductions inside one tile, and the combination of what tiles gave."""

from __future__ import annotations

import numpy as np

from ..executor import Array, scratch

_FEW_COLUMNS = 16  # up to here a loop over columns beats NumPy's reduction, which costs about 20 ns a row
_WIDE = 1024


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
            ufunc(out, x[:, column], out)
    else:
        ufunc.reduce(x, axis=1, out=out, dtype=out.dtype)


def sum_of_columns(x: Array, out: Array) -> None:
    """``out[j] = sum(x[:, j])`` of a matrix; in ``out``'s dtype.

    NumPy adds row to row, slowly if they are short and inaccurately if they are many; so rows side by side in memory
    are first added as wide ones.
    """
    rows, columns = x.shape
    side_by_side = _WIDE // columns if columns else 0
    if side_by_side < 2 or rows < 2 * side_by_side or not x.flags.c_contiguous:
        np.add.reduce(x, axis=0, out=out, dtype=out.dtype)
        return
    even = rows - rows % side_by_side
    wide = x[:even].reshape(-1, side_by_side * columns)
    sums = np.add.reduce(wide, axis=0, dtype=out.dtype).reshape(side_by_side, columns)
    np.add.reduce(sums, axis=0, out=out)
    if even < rows:
        np.add(out, np.add.reduce(x[even:], axis=0, dtype=out.dtype), out)


def combine(partials: Array, out: Array) -> None:
    """``out = partials.sum(axis=0)``: in the order of the tiles, in double precision."""
    if len(partials) == 1:
        np.copyto(out, partials[0], casting="same_kind")
        return
    total = scratch(partials.shape[1:], np.result_type(partials.dtype, np.float64))
    np.add.reduce(partials, axis=0, out=total, dtype=total.dtype)
    np.copyto(out, total, casting="same_kind")
