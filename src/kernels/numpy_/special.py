"""Special functions: SciPy's, over tiles."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from ..executor import Array
from .composed import map_operands
from .scipy_ import load
from .tiling import map_tiles

__all__ = [
    "bessel_j0",
    "bessel_j1",
    "bessel_y0",
    "bessel_y1",
    "digamma",
    "entr",
    "erfc",
    "erfcx",
    "erfinv",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "igamma",
    "igammac",
    "lgamma",
    "log_ndtr",
    "logit",
    "modified_bessel_k0",
    "modified_bessel_k1",
    "mvlgamma",
    "ndtr",
    "ndtri",
    "polygamma",
    "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1",
    "zeta",
]

Operand: TypeAlias = Any  # an array or a Python scalar


def _unary(name: str) -> Callable[[Array, Array], None]:
    def kernel(x: Array, out: Array) -> None:
        map_tiles(getattr(load("scipy.special"), name), [x, out])

    kernel.__doc__ = f"``out[...] = scipy.special.{name}(x)``."
    return kernel


def _binary(name: str) -> Callable[[Operand, Operand, Array], None]:
    def kernel(x: Operand, y: Operand, out: Array) -> None:
        function = getattr(load("scipy.special"), name)
        map_operands(lambda a, b, c: function(a, b, out=c), [x, y], out)

    kernel.__doc__ = f"``out[...] = scipy.special.{name}(x, y)``."
    return kernel


bessel_j0 = _unary("j0")
bessel_j1 = _unary("j1")
bessel_y0 = _unary("y0")
bessel_y1 = _unary("y1")
digamma = _unary("digamma")
entr = _unary("entr")
erfc = _unary("erfc")
erfcx = _unary("erfcx")
erfinv = _unary("erfinv")
i0 = _unary("i0")
i0e = _unary("i0e")
i1 = _unary("i1")
i1e = _unary("i1e")
lgamma = _unary("gammaln")
log_ndtr = _unary("log_ndtr")
modified_bessel_k0 = _unary("k0")
modified_bessel_k1 = _unary("k1")
scaled_modified_bessel_k0 = _unary("k0e")
scaled_modified_bessel_k1 = _unary("k1e")
ndtr = _unary("ndtr")
ndtri = _unary("ndtri")
igamma = _binary("gammainc")
igammac = _binary("gammaincc")
zeta = _binary("zeta")


def polygamma(x: Array, out: Array, *, n: int) -> None:
    """``out[...]`` = the derivative of order ``n`` of the digamma function."""
    special = load("scipy.special")
    factor = (1 if n % 2 else -1) * math.factorial(n)

    def tile(a: Array, b: Array) -> None:
        special.zeta(n + 1.0, a, out=b)
        np.multiply(b, factor, b)

    map_tiles(special.digamma if n == 0 else tile, [x, out])


def mvlgamma(x: Array, out: Array, *, p: int) -> None:
    """``out[...]`` = the logarithm of the gamma function of dimension ``p``."""
    special = load("scipy.special")

    def tile(a: Array, b: Array, shifted: Array, total: Array) -> None:
        total.fill(0.25 * p * (p - 1) * math.log(math.pi))
        for number in range(p):
            np.subtract(a, number / 2, shifted)
            special.gammaln(shifted, shifted)
            np.add(total, shifted, total)
        np.copyto(b, total)

    map_tiles(tile, [x, out], [out.dtype, out.dtype])


def logit(x: Array, out: Array, *, eps: float | None = None) -> None:
    """``out[...] = log(x / (1 - x))``, with ``x`` held between ``eps`` and ``1 - eps`` if that is given."""

    def tile(a: Array, b: Array, rest: Array) -> None:
        if eps is not None:
            np.clip(a, eps, 1 - eps, out=b)
            a = b
        np.subtract(1, a, rest)
        with np.errstate(divide="ignore", invalid="ignore"):
            np.divide(a, rest, out=rest)
            np.log(rest, b)

    map_tiles(tile, [x, out], [out.dtype])
