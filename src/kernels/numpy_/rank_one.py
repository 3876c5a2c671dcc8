"""Outer products, and sums of weighted rows, as products of BLAS: each goes over the elements once."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import numpy as np

from ..executor import Array, blas_single_threaded, scratch

# A matrix times a column and a row takes NumPy about 25 ns a row and step more than its elements do. From so many rows
# on that is longer than the calls for an outer product take; rows of more elements gain nothing.
MANY_ROWS, SHORT_ROW = 400, 256
_ALONE = 1 << 17  # elements of a product of two terms that BLAS computes on the calling thread
_RUN, _LONG_RUN = 32, 64  # rows that BLAS adds one to the other: few enough to be exact, and of short rows to be alone
LONGEST_ALONE = 288  # elements of a row of which BLAS adds a run on one thread by itself: `executor.runs_alone`
_DIRECT = 256  # rows that are one run where BLAS adds them alone


def outer(column: Array, row: Array, out: Array) -> None:
    """``out[i, j] = column[i] * row[j]``, of floats of 32 or 64 bits.

    BLAS is fast at products of two terms, NumPy has none of one: the second term is zero times zero.
    """
    rows, columns = out.shape
    left, right = scratch((rows, 2), out.dtype), scratch((2, columns), out.dtype)
    left[:, 0], left[:, 1] = column, 0
    right[0], right[1] = row, 0
    step = max(1, _ALONE // max(columns, 1))
    with np.errstate(invalid="ignore"):  # BLAS computes more than it returns, infinity times zero for one
        for start in range(0, rows, step):
            where = slice(start, start + step)
            np.matmul(left[where], right, out[where])


def sum_of_weighted_rows(x: Array, weights: Array | None, out: Array) -> None:
    """``out[j] = sum(weights[i] * x[i, j])`` of a matrix in C order, of floats of 32 or 64 bits; by None: of ``x``.

    BLAS adds runs of rows, NumPy their sums. Outside of `one_thread_adds` BLAS may add in another order on several
    threads, if the rows are not `short`.
    """
    rows, columns = x.shape
    run = _RUN if short(columns) else _LONG_RUN
    if weights is None:
        ones = scratch((max(run, min(rows, _DIRECT)),), x.dtype)
        ones.fill(1)
    if rows <= run or not columns or (rows <= _DIRECT and rows * columns <= _RUN * LONGEST_ALONE):
        np.matmul(ones[:rows] if weights is None else weights, x, out)
        return
    even = rows - rows % run
    factors = ones[:run] if weights is None else weights[:even].reshape(-1, 1, run)
    sums = scratch((even // run, columns), out.dtype)
    np.matmul(factors, x[:even].reshape(-1, run, columns), sums if weights is None else sums[:, None])
    np.add.reduce(sums, axis=0, out=out)
    if even < rows:
        rest = ones[: rows - even] if weights is None else weights[even:]
        np.add(out, np.matmul(rest, x[even:], scratch(out.shape, out.dtype)), out)


def short(columns: int) -> bool:
    """Whether BLAS adds a run of rows of that length on one thread by itself."""
    return columns <= LONGEST_ALONE


def one_thread_adds(columns: int) -> AbstractContextManager[None]:
    """A block of code in which `sum_of_weighted_rows` runs on one thread, outside of a job that sees to it."""
    return nullcontext() if short(columns) else blas_single_threaded()
