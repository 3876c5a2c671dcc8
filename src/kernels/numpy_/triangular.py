"""Triangular matrices: their parts, substitution, the LU factorisation; on batches at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..elimination import advance, factor, order_of_rows, substitute
from ..executor import Array, parallel_slices, scratch
from .tiling import BOOL, contiguous, copy_tiled, rows_per_tile

__all__ = [
    "lu_factor",
    "lu_permutation",
    "lu_solve",
    "permute_rows",
    "solve_triangular",
    "triangles",
]

_COLUMNS = 128  # of right-hand sides that are solved for together: few enough for BLAS to stay on one thread


def triangles(x: Array, out: Array, *, below: float, diagonal: float, above: float, fill: float | None) -> None:
    """The elements of matrices below, on and above the diagonal, each times its factor: for a factor of 0, exactly 0.

    ``fill`` replaces the diagonal, if it is given.
    """
    rows, columns = out.shape[-2:]
    if out.size == 0:
        return
    source = x if x.ndim == 2 else contiguous(x).reshape(-1, columns)
    target = out.reshape(-1, columns)
    across = np.arange(columns)
    value = 0.0 if fill is not None else diagonal

    def tile(where: slice, mask: Array) -> None:
        part, mask = target[where], mask[: where.stop - where.start]
        down = (np.arange(where.start, where.stop) % rows)[:, None]
        np.copyto(part, source[where])
        for compare, scale in ((np.greater, below), (np.equal, value), (np.less, above)):
            if scale != 1:
                compare(down, across, out=mask)
                if scale == 0:
                    np.copyto(part, 0, where=mask)
                else:
                    np.multiply(part, scale, out=part, where=mask)
        if fill is not None:
            np.equal(down, across, out=mask)
            np.copyto(part, fill, where=mask, casting="unsafe")

    step = rows_per_tile(len(target), columns, out.dtype)
    parallel_slices(tile, len(target), step, [((step, columns), BOOL)])


def solve_triangular(a: Array, b: Array, out: Array, *, upper: bool, left: bool, unit: bool) -> None:
    """Solve ``a @ out = b`` (or ``out @ a = b``) for triangular ``a``, of which only one half is read.

    Batches are broadcast. A zero on the diagonal gives infinities.
    """
    target = out
    if not left:
        a, b, upper, target = a.swapaxes(-1, -2), b.swapaxes(-1, -2), not upper, out.swapaxes(-1, -2)
    copy_tiled(np.broadcast_to(b, target.shape), target)
    _solve_in_place(a, target, upper=upper, unit=unit)


def _parts_of(buffer: Array) -> Callable[[tuple[int, ...], Any], Array]:
    """Scratch that is in use for one product at a time."""
    return lambda shape, dtype: buffer[: math.prod(shape)].reshape(shape)


def _solve_in_place(a: Array, x: Array, *, upper: bool, unit: bool) -> None:
    """Solve ``a @ x = x`` for triangular ``a``: some columns at a time, each on one thread."""
    columns = min(x.shape[-1], _COLUMNS)
    most = math.prod(x.shape[:-2]) * max(-(-a.shape[-1] // 2), 1) * columns

    def tile(where: slice, buffer: Array) -> None:
        with np.errstate(all="ignore"):
            substitute(np, _parts_of(buffer), a, x[..., where], upper=upper, unit=unit)

    parallel_slices(tile, x.shape[-1], _COLUMNS, [((most,), x.dtype)])


def lu_factor(x: Array, lu: Array, pivots: Array, info: Array) -> None:
    """``lu`` = L below the diagonal and U on and above it, such that ``x`` with its rows swapped is ``L @ U``.

    Step j swapped row j with row ``pivots[j] - 1``. ``info`` counts the first zero on the diagonal of U from 1; it is 0
    if there is none.
    """
    copy_tiled(x, lu)
    info[...] = 0
    if not lu.size:
        return
    rows, columns = lu.shape[-2:]
    with np.errstate(all="ignore"):
        factor(
            np,
            scratch,
            _advance,
            lu.reshape(-1, rows, columns),
            pivots.reshape(-1, min(rows, columns)),
            info.reshape(-1),
        )


def _advance(corner: Array, below: Array, right: Array, rest: Array) -> None:
    """`elimination.advance`: some columns at a time, each on one thread."""
    columns = min(right.shape[-1], _COLUMNS)
    most = len(right) * max(rest.shape[-2], right.shape[-2]) * columns

    def tile(where: slice, buffer: Array) -> None:
        with np.errstate(all="ignore"):
            advance(np, _parts_of(buffer), corner, below, right[..., where], rest[..., where])

    parallel_slices(tile, right.shape[-1], _COLUMNS, [((most,), right.dtype)])


def lu_permutation(pivots: Array, out: Array) -> None:
    """The matrix P of `lu_factor`: ``x = P @ L @ U``."""
    out[...] = 0
    if out.size:
        np.put_along_axis(out, order_of_rows(pivots, out.shape[-1])[..., None, :], 1, axis=-2)


def permute_rows(x: Array, pivots: Array, out: Array, *, inverse: bool) -> None:
    """``P.T @ x``, or ``P @ x`` for the inverse, with the P of `lu_factor`; batches are broadcast."""
    if not out.size:
        return
    order = order_of_rows(pivots, out.shape[-2])
    if inverse:
        order = np.argsort(order, axis=-1)
    source, order = np.broadcast_to(x, out.shape), np.broadcast_to(order, out.shape[:-1])
    for place in np.ndindex(out.shape[:-2]):
        np.take(source[place], order[place], axis=0, out=out[place], mode="clip")  # "raise" would buffer


def _adjoint(x: Array) -> Array:
    turned = x.swapaxes(-1, -2)
    return turned.conj() if x.dtype.kind == "c" else turned


def lu_solve(lu: Array, pivots: Array, b: Array, out: Array, *, left: bool, adjoint: bool) -> None:
    """Solve ``a @ out = b`` with the `lu_factor` of ``a``, or of its adjoint; ``out @ a = b`` if not ``left``."""
    if not left:  # a.H @ out.H = b.H
        turned = scratch((*out.shape[:-2], out.shape[-1], out.shape[-2]), out.dtype)
        lu_solve(lu, pivots, _adjoint(b), turned, left=True, adjoint=not adjoint)
        copy_tiled(_adjoint(turned), out)
        return
    if adjoint:
        turned = scratch(out.shape, out.dtype)
        copy_tiled(np.broadcast_to(b, out.shape), turned)
        factors = _adjoint(lu)
        _solve_in_place(factors, turned, upper=False, unit=False)
        _solve_in_place(factors, turned, upper=True, unit=True)
        permute_rows(turned, pivots, out, inverse=True)
    else:
        permute_rows(b, pivots, out, inverse=False)
        _solve_in_place(lu, out, upper=False, unit=True)
        _solve_in_place(lu, out, upper=True, unit=False)
