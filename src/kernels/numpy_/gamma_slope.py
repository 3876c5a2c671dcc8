"""How gamma-distributed numbers move with the shape of their distribution.

NOTE [ The slope of a gamma number ]
1. A number z stays at its quantile while the shape a changes: ``dz/da = -(dP/da) / (dP/dz)`` for the distribution
   function P(a, z). Both derivatives have the factor ``exp(-z) z**a / Gamma(a)``, which cancels.
2. For ``z < a + 1`` P is a series of positive terms, for larger z 1 - P is a continued fraction; each is
   differentiated term by term.
3. For very large a, the Cornish-Fisher expansion does in place of thousands of terms; what it leaves out is of the
   order of ``a**-2``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..executor import Array
from .tiling import map_tiles

__all__ = ["standard_gamma_grad"]

_LARGE = 1e6
_LEAST = 1e-300


def standard_gamma_grad(concentration: Array, sample: Array, out: Array) -> None:
    """``out`` = the derivatives of samples by the shapes of their gamma distributions.

    Source: Figurnov, Mohamed and Mnih, Implicit Reparameterization Gradients, 2018.
    """

    def tile(a: Array, z: Array, result: Array) -> None:
        result[...] = _slope(np.atleast_1d(a).astype(np.float64), np.atleast_1d(z).astype(np.float64)).reshape(
            result.shape
        )

    with np.errstate(all="ignore"):
        map_tiles(tile, [concentration, sample, out])


def _slope(a: Any, z: Any) -> Any:
    shape, a, z = a.shape, a.reshape(-1), z.reshape(-1)
    out = np.full(a.shape, np.nan)
    sound = (a > 0) & (z > 0) & np.isfinite(a) & np.isfinite(z)
    large = sound & (a > _LARGE)
    low = sound & ~large & (z < a + 1)
    high = sound & ~large & ~low
    for where, rule in ((large, _expansion), (low, _series), (high, _fraction)):
        if where.any():
            out[where] = rule(a[where], z[where])
    return out.reshape(shape)


def digamma(x: Any) -> Any:
    """The derivative of the logarithm of the gamma function, for positive numbers."""
    x, total = x.copy(), np.zeros_like(x)
    for _ in range(10):
        small = x < 10
        total[small] -= 1 / x[small]
        x[small] += 1
    square = 1 / (x * x)
    terms = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
    tail = np.zeros_like(x)
    for term in reversed(terms):
        tail = (tail + term) * square
    return total + np.log(x) - 0.5 / x - tail


def _series(a: Any, z: Any) -> Any:
    term, total = np.ones_like(a), np.ones_like(a)
    harmonic, slope = np.zeros_like(a), np.zeros_like(a)
    for k in range(1, 100_000):
        term *= z / (a + k)
        harmonic += 1 / (a + k)
        total += term
        slope -= term * harmonic
        if (term * (1 + harmonic) <= 1e-17 * total).all():
            break
    return -(z / a) * (total * (np.log(z) - digamma(a + 1)) + slope)


def _fraction(a: Any, z: Any) -> Any:
    """The continued fraction by Lentz's rule; names with a ``d`` before them are derivatives by ``a``."""
    b = z + 1 - a
    c, dc = np.full_like(a, 1 / _LEAST), np.zeros_like(a)
    d = 1 / b
    dd = d * d
    h, dh = d.copy(), dd.copy()
    for i in range(1, 100_000):
        by, dby = -i * (i - a), float(i)
        b = b + 2
        below, dbelow = by * d + b, dby * d + by * dd - 1
        dc = dby / c - by * dc / c / c - 1
        c = b + by / c
        d = 1 / below
        dd = -dbelow * d * d
        step, dstep = c * d, dc * d + c * dd
        dh = dh * step + h * dstep
        h = h * step
        if ((np.abs(step - 1) < 1e-15) & (np.abs(h * dstep) <= 1e-15 * np.abs(dh))).all():
            break
    return z * (h * (np.log(z) - digamma(a)) + dh)


def _expansion(a: Any, z: Any) -> Any:
    """Source: Cornish and Fisher, Moments and Cumulants in the Specification of Distributions, 1938."""
    root = np.sqrt(a)
    y = (z - a) / root
    x = y - (y * y - 1) / (3 * root) + (7 * y**3 - y) / (36 * a)
    return 1 + x / (2 * root) - (x**3 - 7 * x) / (72 * a * root) + (3 * x**4 + 7 * x * x - 16) / (810 * a * a)
