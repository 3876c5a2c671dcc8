"""Special functions that only `stowgrad.special` offers."""

from __future__ import annotations

import math
from typing import Any

from ..ops import bessel, exponential, gamma
from ..ops import special as ops
from ..ops.elementwise import add, mul, sub
from ..ops.trigonometric import sinc
from ..out import into

__all__ = [
    "bessel_j0",
    "bessel_j1",
    "bessel_y0",
    "bessel_y1",
    "betaln",
    "cbrt",
    "entr",
    "erfcx",
    "i0e",
    "i1",
    "i1e",
    "log_ndtr",
    "modified_bessel_i0",
    "modified_bessel_i1",
    "modified_bessel_k0",
    "modified_bessel_k1",
    "ndtr",
    "ndtri",
    "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1",
    "spherical_bessel_j0",
    "xlog1py",
    "zeta",
]


def bessel_j0(input: Any, *, out: Any = None) -> Any:
    """The Bessel function of the first kind and order 0."""
    return bessel.bessel_j0(input) if out is None else into(out, bessel.bessel_j0, input)


def bessel_j1(input: Any, *, out: Any = None) -> Any:
    """The Bessel function of the first kind and order 1."""
    return bessel.bessel_j1(input) if out is None else into(out, bessel.bessel_j1, input)


def bessel_y0(input: Any, *, out: Any = None) -> Any:
    """The Bessel function of the second kind and order 0."""
    return bessel.bessel_y0(input) if out is None else into(out, bessel.bessel_y0, input)


def bessel_y1(input: Any, *, out: Any = None) -> Any:
    """The Bessel function of the second kind and order 1."""
    return bessel.bessel_y1(input) if out is None else into(out, bessel.bessel_y1, input)


def betaln(input: Any, other: Any, *, out: Any = None) -> Any:
    """The logarithm of the beta function's absolute value."""
    return log_of_beta(input, other) if out is None else into(out, log_of_beta, input, other)


def log_of_beta(input: Any, other: Any) -> Any:
    """`betaln`, as a new tensor."""
    parts = [gamma.lgamma(value) for value in (input, other, add(input, other))]
    return sub(add(parts[0], parts[1]), parts[2])


def cbrt(input: Any, *, out: Any = None) -> Any:
    """The cube root, of negative numbers too."""
    return exponential.cbrt(input) if out is None else into(out, exponential.cbrt, input)


def entr(input: Any, *, out: Any = None) -> Any:
    """``-input * log(input)``: 0 at 0, minus infinity left of it."""
    return ops.entr(input) if out is None else into(out, ops.entr, input)


def erfcx(input: Any, *, out: Any = None) -> Any:
    """``exp(input ** 2) * erfc(input)``."""
    return ops.erfcx(input) if out is None else into(out, ops.erfcx, input)


def i0e(input: Any, *, out: Any = None) -> Any:
    """``exp(-abs(input)) * i0(input)``."""
    return bessel.i0e(input) if out is None else into(out, bessel.i0e, input)


def i1(input: Any, *, out: Any = None) -> Any:
    """The modified Bessel function of the first kind and order 1."""
    return bessel.i1(input) if out is None else into(out, bessel.i1, input)


def i1e(input: Any, *, out: Any = None) -> Any:
    """``exp(-abs(input)) * i1(input)``."""
    return bessel.i1e(input) if out is None else into(out, bessel.i1e, input)


def log_ndtr(input: Any, *, out: Any = None) -> Any:
    """The logarithm of `ndtr`, exact far left."""
    return ops.log_ndtr(input) if out is None else into(out, ops.log_ndtr, input)


def modified_bessel_i0(input: Any, *, out: Any = None) -> Any:
    """`i0`."""
    return bessel.i0(input) if out is None else into(out, bessel.i0, input)


def modified_bessel_i1(input: Any, *, out: Any = None) -> Any:
    """`i1`."""
    return bessel.i1(input) if out is None else into(out, bessel.i1, input)


def modified_bessel_k0(input: Any, *, out: Any = None) -> Any:
    """The modified Bessel function of the second kind and order 0."""
    return bessel.modified_bessel_k0(input) if out is None else into(out, bessel.modified_bessel_k0, input)


def modified_bessel_k1(input: Any, *, out: Any = None) -> Any:
    """The modified Bessel function of the second kind and order 1."""
    return bessel.modified_bessel_k1(input) if out is None else into(out, bessel.modified_bessel_k1, input)


def ndtr(input: Any, *, out: Any = None) -> Any:
    """The distribution function of the normal distribution."""
    return ops.ndtr(input) if out is None else into(out, ops.ndtr, input)


def ndtri(input: Any, *, out: Any = None) -> Any:
    """The inverse of `ndtr`."""
    return ops.ndtri(input) if out is None else into(out, ops.ndtri, input)


def scaled_modified_bessel_k0(x: Any, *, out: Any = None) -> Any:
    """``exp(x) * modified_bessel_k0(x)``."""
    op = bessel.scaled_modified_bessel_k0
    return op(x) if out is None else into(out, op, x)


def scaled_modified_bessel_k1(x: Any, *, out: Any = None) -> Any:
    """``exp(x) * modified_bessel_k1(x)``."""
    op = bessel.scaled_modified_bessel_k1
    return op(x) if out is None else into(out, op, x)


def spherical_bessel_j0(x: Any, *, out: Any = None) -> Any:
    """The spherical Bessel function of the first kind and order 0: ``sin(x) / x``, 1 at 0."""
    return sine_over(x) if out is None else into(out, sine_over, x)


def sine_over(x: Any) -> Any:
    """`spherical_bessel_j0`, as a new tensor."""
    return sinc(mul(x, 1 / math.pi))


def xlog1py(input: Any, other: Any, *, out: Any = None) -> Any:
    """``input * log(1 + other)``, which is 0 where ``input`` is; either may be a number."""
    return exponential.xlog1py(input, other) if out is None else into(out, exponential.xlog1py, input, other)


def zeta(input: Any, other: Any, *, out: Any = None) -> Any:
    """The Hurwitz zeta function; of its first argument no gradient is known."""
    return gamma.zeta(input, other) if out is None else into(out, gamma.zeta, input, other)
