"""Substitution and the LU factorisation, written with what NumPy and CuPy have in common, for whole batches.

``lib`` is the module, ``scratch`` gives arrays for intermediate products, one at a time. Systems of more than `BLOCK`
rows are split, so that most of the work is in products.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = Any
Scratch: TypeAlias = Callable[[tuple[int, ...], Any], Array]

BLOCK = 32  # rows that are eliminated one by one


def substitute(lib: Any, scratch: Scratch, a: Array, x: Array, *, upper: bool, unit: bool) -> None:
    """Solve ``a @ x = x`` in place for triangular ``a``; a zero on the diagonal gives infinities."""
    size = a.shape[-1]
    if size > BLOCK:
        half = size // 2
        first, second = (slice(half, None), slice(None, half)) if upper else (slice(None, half), slice(half, None))
        substitute(lib, scratch, a[..., first, first], x[..., first, :], upper=upper, unit=unit)
        rest = x[..., second, :]
        _subtract_product(lib, scratch, a[..., second, first], x[..., first, :], rest)
        substitute(lib, scratch, a[..., second, second], rest, upper=upper, unit=unit)
        return
    for row in range(size - 1, -1, -1) if upper else range(size):
        known = slice(row + 1, size) if upper else slice(0, row)
        target = x[..., row : row + 1, :]
        if known.start < known.stop:
            _subtract_product(lib, scratch, a[..., row : row + 1, known], x[..., known, :], target)
        if not unit:
            lib.divide(target, a[..., row : row + 1, row : row + 1], out=target)


def _subtract_product(lib: Any, scratch: Scratch, a: Array, b: Array, target: Array) -> None:
    product = scratch(target.shape, target.dtype)
    lib.matmul(a, b, out=product)
    lib.subtract(target, product, out=target)


def advance(lib: Any, scratch: Scratch, corner: Array, below: Array, right: Array, rest: Array) -> None:
    """What the block of columns of a step of `factor` does to the columns on its right: each for itself."""
    substitute(lib, scratch, corner, right, upper=False, unit=True)
    if rest.size:
        _subtract_product(lib, scratch, below, right, rest)


def factor(lib: Any, scratch: Scratch, advance: Callable[..., None], a: Array, pivots: Array, info: Array) -> None:
    """Put L (without its ones) and U in the place of matrices: three axes, of ``pivots`` two, of ``info`` one.

    ``advance(corner, below, right, rest)`` runs the function of that name.
    Step j swapped row j with row ``pivots[:, j] - 1``. ``info`` counts the first zero on the diagonal of U from 1.

    Source: Golub and Van Loan, Matrix Computations, 4th edition, algorithm 3.4.1, by blocks of columns.
    """
    rows, columns = a.shape[-2:]
    info[...] = 0
    steps = min(rows, columns)
    for start in range(0, steps, BLOCK):
        stop = min(start + BLOCK, steps)
        for j in range(start, stop):
            _eliminate(lib, scratch, a, pivots, info, j, stop)
        if stop < columns:
            left, right = a[:, :, start:stop], a[:, :, stop:]
            advance(left[:, start:stop], left[:, stop:], right[:, start:stop], right[:, stop:])


def _eliminate(lib: Any, scratch: Scratch, a: Array, pivots: Array, info: Array, j: int, stop: int) -> None:
    """One step: bring the largest element of a column to the diagonal, and eliminate within the block of columns."""
    batch = lib.arange(a.shape[0])
    column = a[:, j:, j]
    complex_ = a.dtype.kind == "c"
    size = lib.absolute(column.real) + lib.absolute(column.imag) if complex_ else lib.absolute(column)
    chosen = lib.argmax(size, axis=1) + j
    pivots[:, j] = chosen + 1
    moved = a[batch, chosen]
    a[batch, chosen] = a[:, j]
    a[:, j] = moved
    pivot = a[:, j, j].copy()
    zero = pivot == 0
    lib.copyto(info, j + 1, where=zero & (info == 0))
    lib.copyto(pivot, 1, where=zero)
    below = a[:, j + 1 :, j : j + 1]
    lib.divide(below, pivot[:, None, None], out=below)
    if j + 1 < stop:
        rest = a[:, j + 1 :, j + 1 : stop]
        product = scratch(rest.shape, rest.dtype)
        lib.multiply(below, a[:, j : j + 1, j + 1 : stop], out=product)
        lib.subtract(rest, product, out=rest)


def order_of_rows(pivots: np.ndarray[Any, Any], rows: int) -> np.ndarray[Any, Any]:
    """The rows of a matrix in the order that the swaps lead to, for each of a batch."""
    count = pivots.shape[-1]
    swaps = pivots.reshape(-1, count) if pivots.size else pivots.reshape(0, count)
    order = np.tile(np.arange(rows), (len(swaps), 1))
    batch = np.arange(len(swaps))
    for j in range(count):
        other = swaps[:, j] - 1
        moved = order[batch, other]
        order[batch, other] = order[:, j]
        order[:, j] = moved
    return order.reshape(*pivots.shape[:-1], rows) if pivots.size else np.tile(np.arange(rows), (*pivots.shape[:-1], 1))
