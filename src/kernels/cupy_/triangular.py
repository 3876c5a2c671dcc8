"""Triangular matrices: their parts, substitution, the LU factorisation; on batches at once."""

from __future__ import annotations

import functools
from typing import Any

import cupy
import numpy as np

from ..elimination import advance, factor, order_of_rows, substitute
from .launch import Array, kernel

__all__ = [
    "lu_factor",
    "lu_permutation",
    "lu_solve",
    "permute_rows",
    "solve_triangular",
    "triangles",
]


@kernel
def triangles(x: Array, out: Array, *, below: float, diagonal: float, above: float, fill: float | None) -> None:
    """Elements below, on and above the diagonal, each times its factor; ``fill`` replaces the diagonal."""
    rows, columns = out.shape[-2:]
    down, across = cupy.arange(rows)[:, None], cupy.arange(columns)
    cupy.copyto(out, x)
    middle = 0.0 if fill is not None else diagonal
    for mask, scale in ((down > across, below), (down == across, middle), (down < across, above)):
        if scale == 0:
            cupy.copyto(out, 0, where=mask)
        elif scale != 1:
            cupy.copyto(out, cupy.multiply(x, scale), casting="same_kind", where=mask)
    if fill is not None:
        cupy.copyto(out, fill, casting="unsafe", where=down == across)


@kernel
def solve_triangular(a: Array, b: Array, out: Array, *, upper: bool, left: bool, unit: bool) -> None:
    """Solve ``a @ out = b`` (or ``out @ a = b``) for triangular ``a``, of which only one half is read."""
    target = out
    if not left:
        a, b, upper, target = a.swapaxes(-1, -2), b.swapaxes(-1, -2), not upper, out.swapaxes(-1, -2)
    if b is not target:
        cupy.copyto(target, cupy.broadcast_to(b, target.shape))
    substitute(cupy, cupy.empty, a, target, upper=upper, unit=unit)


@kernel
def lu_factor(x: Array, lu: Array, pivots: Array, info: Array) -> None:
    """``lu`` = L below the diagonal and U on and above it, such that ``x`` with its rows swapped is ``L @ U``."""
    cupy.copyto(lu, x)
    info.fill(0)
    if lu.size:
        rows, columns = lu.shape[-2:]
        swaps = pivots.reshape(-1, min(rows, columns))

        step = functools.partial(advance, cupy, cupy.empty)
        factor(cupy, cupy.empty, step, lu.reshape(-1, rows, columns), swaps, info.reshape(-1))


@kernel
def lu_permutation(pivots: Array, out: Array) -> None:
    """The matrix P of `lu_factor`: ``x = P @ L @ U``."""
    made = np.zeros(out.shape, out.dtype)
    if out.size:
        np.put_along_axis(made, order_of_rows(pivots.get(), out.shape[-1])[..., None, :], 1, axis=-2)
    out.set(made)


@kernel
def permute_rows(x: Array, pivots: Array, out: Array, *, inverse: bool) -> None:
    """``P.T @ x``, or ``P @ x`` for the inverse, with the P of `lu_factor`; batches are broadcast."""
    if not out.size:
        return
    rows, columns = out.shape[-2:]
    order = order_of_rows(pivots.get(), rows)
    if inverse:
        order = np.argsort(order, axis=-1)
    spread = np.ascontiguousarray(np.broadcast_to(order, out.shape[:-1])).reshape(-1, rows)
    chosen = cupy.empty(spread.shape, spread.dtype)
    chosen.set(spread)
    source = cupy.ascontiguousarray(cupy.broadcast_to(x, out.shape)).reshape(-1, rows, columns)
    found: Any = source[cupy.arange(len(spread))[:, None], chosen]
    cupy.copyto(out, found.reshape(out.shape))


@kernel
def lu_solve(lu: Array, pivots: Array, b: Array, out: Array, *, left: bool, adjoint: bool) -> None:
    """Solve ``a @ out = b`` with the `lu_factor` of ``a``, or of its adjoint; ``out @ a = b`` if not ``left``."""
    if not left:  # a.H @ out.H = b.H
        turned = cupy.empty((*out.shape[:-2], out.shape[-1], out.shape[-2]), out.dtype)
        lu_solve(lu, pivots, cupy.conjugate(b.swapaxes(-1, -2)), turned, left=True, adjoint=not adjoint)
        cupy.copyto(out, cupy.conjugate(turned.swapaxes(-1, -2)))
        return
    if adjoint:
        turned = cupy.empty(out.shape, out.dtype)
        cupy.copyto(turned, cupy.broadcast_to(b, out.shape))
        factors = cupy.conjugate(lu.swapaxes(-1, -2))
        substitute(cupy, cupy.empty, factors, turned, upper=False, unit=False)
        substitute(cupy, cupy.empty, factors, turned, upper=True, unit=True)
        permute_rows(turned, pivots, out, inverse=True)
    else:
        permute_rows(b, pivots, out, inverse=False)
        substitute(cupy, cupy.empty, lu, out, upper=False, unit=True)
        substitute(cupy, cupy.empty, lu, out, upper=True, unit=False)
