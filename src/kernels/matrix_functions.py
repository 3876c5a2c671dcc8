"""Functions of matrices, written with what NumPy and CuPy have in common: ``lib`` is the module."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

Array: TypeAlias = Any

# Coefficients of the Pade approximant of degree 13, and the norm up to which it is exact to double precision.
_PADE = (
    64764752532480000.0,
    32382376266240000.0,
    7771770303897600.0,
    1187353796428800.0,
    129060195264000.0,
    10559470521600.0,
    670442572800.0,
    33522128640.0,
    1323241920.0,
    40840800.0,
    960960.0,
    16380.0,
    182.0,
    1.0,
)
_PADE_NORM = 5.371920351148152


def exponential(lib: Any, a: Array) -> Array:
    """The exponential of a square matrix, scaled by a power of 2; that of the scaled one is squared that many times.

    Source: Higham, The Scaling and Squaring Method for the Matrix Exponential Revisited, 2005.
    """
    size = a.shape[-1]
    if not size:
        return a
    norm = float(lib.amax(lib.sum(lib.absolute(a), axis=0)))
    if not math.isfinite(norm):
        return a * math.nan
    squarings = max(0, math.ceil(math.log2(norm / _PADE_NORM))) if norm > _PADE_NORM else 0
    power = _pade_13(lib, a * 0.5**squarings)
    for _ in range(squarings):
        power = lib.matmul(power, power)
    return power


def _pade_13(lib: Any, a: Array) -> Array:
    c, mm, one = _PADE, lib.matmul, lib.eye(a.shape[-1], dtype=a.dtype)
    a2 = mm(a, a)
    a4 = mm(a2, a2)
    a6 = mm(a4, a2)
    odd = mm(a6, a6 * c[13] + a4 * c[11] + a2 * c[9]) + a6 * c[7] + a4 * c[5] + a2 * c[3] + one * c[1]
    even = mm(a6, a6 * c[12] + a4 * c[10] + a2 * c[8]) + a6 * c[6] + a4 * c[4] + a2 * c[2] + one * c[0]
    odd = mm(a, odd)
    return lib.linalg.solve(even - odd, even + odd)


def multiply_householder(lib: Any, x: Array, tau: Array, out: Array) -> None:
    """The first columns of the product of ``I - tau * v @ v.H`` for the ``v`` below the diagonal of ``x``."""
    rows, columns = out.shape[-2:]
    out[...] = lib.eye(rows, columns, dtype=out.dtype)
    for number in range(tau.shape[-1] - 1, -1, -1):
        v = x[..., number:, number : number + 1].copy()
        v[..., 0, :] = 1
        part = out[..., number:, :]
        along = lib.matmul(lib.conjugate(v.swapaxes(-1, -2)), part) * tau[..., number, None, None]
        lib.subtract(part, lib.matmul(v, along), out=part)
