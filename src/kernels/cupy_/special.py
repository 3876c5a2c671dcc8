"""Special functions: CuPy's counterparts of SciPy's."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import cupy

from .launch import WIDE, Array, kernel

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

_LOGIT = cupy.ElementwiseKernel(
    "T x, float64 eps",
    "T y",
    """
    W v = (W)x;
    if (eps >= 0) v = v < (W)eps ? (W)eps : v > (W)1 - (W)eps ? (W)1 - (W)eps : v;
    y = (T)log(v / ((W)1 - v))
    """,
    "stowgrad_logit",
    preamble=WIDE,
)


def _special() -> Any:
    return importlib.import_module("cupyx.scipy.special")


def _unary(name: str) -> Callable[[Array, Array], None]:
    @kernel
    def run(x: Array, out: Array) -> None:
        getattr(_special(), name)(x, out=out)

    return run


def _binary(name: str) -> Callable[[Operand, Operand, Array], None]:
    @kernel
    def run(x: Operand, y: Operand, out: Array) -> None:
        getattr(_special(), name)(x, y, out=out)

    return run


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


@kernel
def polygamma(x: Array, out: Array, *, n: int) -> None:
    """``out[...]`` = the derivative of order ``n`` of the digamma function."""
    if n == 0:
        _special().digamma(x, out=out)
        return
    _special().zeta(n + 1.0, x, out=out)
    cupy.multiply(out, (1 if n % 2 else -1) * math.factorial(n), out=out)


@kernel
def mvlgamma(x: Array, out: Array, *, p: int) -> None:
    """``out[...]`` = the logarithm of the gamma function of dimension ``p``."""
    shifted, terms = cupy.empty(x.shape, x.dtype), cupy.empty(x.shape, x.dtype)
    cupy.copyto(shifted, x)
    cupy.copyto(out, 0.25 * p * (p - 1) * math.log(math.pi))
    for _ in range(p):
        _special().gammaln(shifted, out=terms)
        cupy.add(out, terms, out=out)
        cupy.subtract(shifted, 0.5, out=shifted)


@kernel
def logit(x: Array, out: Array, *, eps: float | None = None) -> None:
    """``out[...] = log(x / (1 - x))``, with ``x`` held between ``eps`` and ``1 - eps`` if that is given."""
    _LOGIT(x, -1.0 if eps is None else eps, out)
