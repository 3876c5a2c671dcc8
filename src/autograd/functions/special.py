"""Special functions that are functions of the top level, too; the others are in `stowgrad.special`."""

from __future__ import annotations

from typing import Any

from ..ops import bessel, gamma
from ..ops import special as ops
from ..out import into

__all__ = [
    "digamma",
    "erfc",
    "erfinv",
    "i0",
    "igamma",
    "igammac",
    "lgamma",
    "logit",
    "mvlgamma",
    "polygamma",
]


def erfc(input: Any, *, out: Any = None) -> Any:
    """``1 - erf(input)``, exact where that is small."""
    return ops.erfc(input) if out is None else into(out, ops.erfc, input)


def erfinv(input: Any, *, out: Any = None) -> Any:
    """The inverse of the error function."""
    return ops.erfinv(input) if out is None else into(out, ops.erfinv, input)


def lgamma(input: Any, *, out: Any = None) -> Any:
    """The logarithm of the gamma function's absolute value."""
    return gamma.lgamma(input) if out is None else into(out, gamma.lgamma, input)


def digamma(input: Any, *, out: Any = None) -> Any:
    """The derivative of `lgamma`."""
    return gamma.digamma(input) if out is None else into(out, gamma.digamma, input)


def i0(input: Any, *, out: Any = None) -> Any:
    """The modified Bessel function of the first kind and order 0."""
    return bessel.i0(input) if out is None else into(out, bessel.i0, input)


def igamma(input: Any, other: Any, *, out: Any = None) -> Any:
    """The regularized lower incomplete gamma function; of its first argument no gradient is known."""
    return gamma.igamma(input, other) if out is None else into(out, gamma.igamma, input, other)


def igammac(input: Any, other: Any, *, out: Any = None) -> Any:
    """The regularized upper incomplete gamma function; of its first argument no gradient is known."""
    return gamma.igammac(input, other) if out is None else into(out, gamma.igammac, input, other)


def polygamma(n: int, input: Any, *, out: Any = None) -> Any:
    """The derivative of order ``n`` of `digamma`."""
    return gamma.polygamma(input, n) if out is None else into(out, gamma.polygamma, input, n)


def mvlgamma(input: Any, p: int, *, out: Any = None) -> Any:
    """The logarithm of the gamma function of dimension ``p``."""
    return gamma.mvlgamma(input, p) if out is None else into(out, gamma.mvlgamma, input, p)


def logit(input: Any, eps: float | None = None, *, out: Any = None) -> Any:
    """``log(input / (1 - input))``, with ``input`` held between ``eps`` and ``1 - eps`` if that is given."""
    return ops.logit(input, eps) if out is None else into(out, ops.logit, input, eps)
