"""Element by element: CuPy's ufuncs. Shapes broadcast to ``out``'s."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import cupy
import numpy as np

from ..executor import scratch
from .launch import WIDE, Array, kernel

__all__ = [
    "abs",
    "accumulate_",
    "add",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "axpy_",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "cbrt",
    "ceil",
    "clamp",
    "conjugate",
    "copy",
    "copysign",
    "cos",
    "cosh",
    "deg2rad",
    "divide",
    "equal",
    "exp",
    "exp2",
    "expm1",
    "fill",
    "floor",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "gcd",
    "greater",
    "greater_equal",
    "hypot",
    "isfinite",
    "isinf",
    "isnan",
    "lcm",
    "left_shift",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logaddexp2",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "nan_to_num",
    "negative",
    "nextafter",
    "not_equal",
    "power",
    "rad2deg",
    "reciprocal",
    "remainder",
    "right_shift",
    "rint",
    "rsqrt",
    "scale_",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
    "where",
]

Operand: TypeAlias = Any  # an array or a Python scalar
Unary: TypeAlias = Callable[[Operand, Array], None]
Binary: TypeAlias = Callable[[Operand, Operand, Array], None]

_RSQRT = cupy.ElementwiseKernel("T x", "T y", "y = (T)(1 / sqrt((W)x))", "stowgrad_rsqrt", preamble=WIDE)
_AXPY = cupy.ElementwiseKernel(
    "T x, float64 alpha", "T y", "y = (T)((W)y + (W)alpha * (W)x)", "stowgrad_axpy", preamble=WIDE
)

_SIGN = cupy.ElementwiseKernel(
    "T x", "T y", "y = (T)(float)(((W)x > (W)0) - ((W)x < (W)0))", "stowgrad_sign", preamble=WIDE
)
_NAN_TO_NUM = cupy.ElementwiseKernel(
    "T x, float64 nan, float64 posinf, float64 neginf",
    "T y",
    "W v = (W)x; y = v != v ? (T)(W)nan : v - v == (W)0 ? x : v > (W)0 ? (T)(W)posinf : (T)(W)neginf",
    "stowgrad_nan_to_num",
    preamble=WIDE,
)


def _unary(ufunc: Any) -> Unary:
    @kernel
    def run(x: Operand, out: Array) -> None:
        ufunc(x, out=out)

    return run


def _binary(ufunc: Any) -> Binary:
    @kernel
    def run(x: Operand, y: Operand, out: Array) -> None:
        ufunc(x, y, out=out)

    return run


add = _binary(cupy.add)
subtract = _binary(cupy.subtract)
multiply = _binary(cupy.multiply)
divide = _binary(cupy.divide)
floor_divide = _binary(cupy.floor_divide)
remainder = _binary(cupy.remainder)
fmod = _binary(cupy.fmod)
power = _binary(cupy.power)
maximum = _binary(cupy.maximum)
minimum = _binary(cupy.minimum)
fmax = _binary(cupy.fmax)
fmin = _binary(cupy.fmin)
arctan2 = _binary(cupy.arctan2)
hypot = _binary(cupy.hypot)
copysign = _binary(cupy.copysign)
logaddexp = _binary(cupy.logaddexp)
logaddexp2 = _binary(cupy.logaddexp2)
equal = _binary(cupy.equal)
not_equal = _binary(cupy.not_equal)
less = _binary(cupy.less)
less_equal = _binary(cupy.less_equal)
greater = _binary(cupy.greater)
greater_equal = _binary(cupy.greater_equal)
logical_and = _binary(cupy.logical_and)
logical_or = _binary(cupy.logical_or)
logical_xor = _binary(cupy.logical_xor)
bitwise_and = _binary(cupy.bitwise_and)
bitwise_or = _binary(cupy.bitwise_or)
bitwise_xor = _binary(cupy.bitwise_xor)
left_shift = _binary(cupy.left_shift)
right_shift = _binary(cupy.right_shift)
gcd = _binary(cupy.gcd)
lcm = _binary(cupy.lcm)
nextafter = _binary(cupy.nextafter)

negative = _unary(cupy.negative)
abs = _unary(cupy.absolute)
square = _unary(cupy.square)
reciprocal = _unary(cupy.reciprocal)
sqrt = _unary(cupy.sqrt)
cbrt = _unary(cupy.cbrt)
exp = _unary(cupy.exp)
exp2 = _unary(cupy.exp2)
expm1 = _unary(cupy.expm1)
log = _unary(cupy.log)
log2 = _unary(cupy.log2)
log10 = _unary(cupy.log10)
log1p = _unary(cupy.log1p)
sin = _unary(cupy.sin)
cos = _unary(cupy.cos)
tan = _unary(cupy.tan)
arcsin = _unary(cupy.arcsin)
arccos = _unary(cupy.arccos)
arctan = _unary(cupy.arctan)
sinh = _unary(cupy.sinh)
cosh = _unary(cupy.cosh)
tanh = _unary(cupy.tanh)
arcsinh = _unary(cupy.arcsinh)
arccosh = _unary(cupy.arccosh)
arctanh = _unary(cupy.arctanh)
floor = _unary(cupy.floor)
ceil = _unary(cupy.ceil)
trunc = _unary(cupy.trunc)
rint = _unary(cupy.rint)
conjugate = _unary(cupy.conjugate)
logical_not = _unary(cupy.logical_not)
bitwise_not = _unary(cupy.invert)
isnan = _unary(cupy.isnan)
isinf = _unary(cupy.isinf)
isfinite = _unary(cupy.isfinite)
signbit = _unary(cupy.signbit)
deg2rad = _unary(cupy.deg2rad)
rad2deg = _unary(cupy.rad2deg)


@kernel
def rsqrt(x: Operand, out: Array) -> None:
    """``out[...] = 1 / sqrt(x)``."""
    _RSQRT(x, out)


@kernel
def sign(x: Operand, out: Array) -> None:
    """``out[...]`` = -1, 0 or 1, 0 for NaN; ``x / abs(x)`` of complex numbers."""
    if out.dtype.kind in "iuc":
        cupy.sign(x, out=out)
    else:
        _SIGN(x, out)


@kernel
def clamp(x: Array, out: Array, *, low: float | None = None, high: float | None = None) -> None:
    """``out[...] = x`` held between ``low`` and ``high``; NaN stays."""
    if low is not None:
        cupy.maximum(x, low, out=out)
        x = out
    if high is not None:
        cupy.minimum(x, high, out=out)
    if low is None and high is None:
        cupy.copyto(out, x)


@kernel
def nan_to_num(x: Array, out: Array, *, nan: float, posinf: float, neginf: float) -> None:
    """``out[...] = x`` with NaN and infinities replaced."""
    _NAN_TO_NUM(x, nan, posinf, neginf, out)


@kernel
def copy(x: Operand, out: Array) -> None:
    """``out[...] = x``: any strides, broadcasting, a cast where dtypes differ; one of them may be in host memory."""
    if not isinstance(out, cupy.ndarray):
        _to_host(x, out)
    elif isinstance(x, np.ndarray) and not isinstance(x, cupy.ndarray):
        _from_host(x, out)
    else:
        cupy.copyto(out, x, casting="unsafe")


def _to_host(x: Array, out: np.ndarray[Any, Any]) -> None:
    if x.dtype == out.dtype and x.shape == out.shape and out.flags.c_contiguous:
        x.get(out=out)
    else:
        staged = scratch(x.shape, x.dtype)
        x.get(out=staged)
        np.copyto(out, staged, casting="unsafe")


def _from_host(x: np.ndarray[Any, Any], out: Array) -> None:
    if x.dtype == out.dtype and x.shape == out.shape and out.flags.c_contiguous:
        out.set(x)
    else:
        staged = cupy.empty(x.shape, x.dtype)
        staged.set(x)
        cupy.copyto(out, staged, casting="unsafe")


@kernel
def fill(out: Array, value: Any) -> None:
    """``out[...] = value``."""
    cupy.copyto(out, value.item() if isinstance(value, np.generic) else value, casting="unsafe")


@kernel
def accumulate_(x: Operand, out: Array) -> None:
    """``out += x``."""
    cupy.add(out, x, out=out)


@kernel
def scale_(x: Array, factor: float) -> None:
    """``x *= factor``."""
    cupy.multiply(x, factor, out=x)


@kernel
def axpy_(alpha: float, x: Array, out: Array) -> None:
    """``out += alpha * x``; shapes are equal."""
    _AXPY(x, alpha, out)


@kernel
def where(condition: Array, x: Operand, y: Operand, out: Array) -> None:
    """``out[...] = x where condition (bool) else y``."""
    cupy.copyto(out, y, casting="unsafe")
    cupy.copyto(out, x, casting="unsafe", where=condition)
