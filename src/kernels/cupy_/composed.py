"""Element by element, in several steps, each kernel in one launch. Shapes broadcast to ``out``'s."""

from __future__ import annotations

from typing import Any, TypeAlias

import cupy

from .launch import WIDE, Array, kernel

__all__ = [
    "addcdiv",
    "addcmul",
    "frac",
    "frexp",
    "heaviside",
    "integer_power",
    "lerp",
    "round",
    "sinc",
    "trunc_divide",
    "xlog1py",
    "xlogy",
]

Operand: TypeAlias = Any  # an array or a Python scalar


def _made(name: str, ins: str, code: str, preamble: str = WIDE) -> cupy.ElementwiseKernel:
    return cupy.ElementwiseKernel(ins, "T r", code, f"stowgrad_{name}", preamble=preamble)


_FRAC = _made("frac", "T x", "r = (T)((W)x - trunc((W)x))")
_ROUND = {
    True: _made("round_to_decimals", "T x, float64 power", "r = (T)(rint((W)x * (W)power) / (W)power)"),
    False: _made("round_to_powers", "T x, float64 power", "r = (T)(rint((W)x / (W)power) * (W)power)"),
}
_SINC = _made("sinc", "T x", "W a = (W)x * (W)3.14159265358979323846; r = (T)(a == (W)0 ? (W)1 : sin(a) / a)")
_HEAVISIDE = _made("heaviside", "T x, T values", "r = x == (T)0 ? values : (T)(x > (T)0)", "")
_POWER = _made(
    "integer_power",
    "T x, T y",
    """
    long long base = (long long)x, left = (long long)y;
    unsigned long long found = 1, factor = (unsigned long long)base;
    if (left < 0) {
      found = base == 1 ? 1 : base == -1 ? (left % 2 ? (unsigned long long)-1 : 1) : 0;
    } else {
      for (; left; left >>= 1) {
        if (left & 1) found *= factor;
        factor *= factor;
      }
    }
    r = (T)(long long)found
    """,
    "",
)
_TRUNC_DIVIDE = _made("trunc_divide", "T x, T y", "r = (T)trunc((W)x / (W)y)")
_WHOLE_DIVIDE = _made("whole_divide", "T x, T y", "r = y == (T)0 ? (T)0 : (T)(x / y)", "")
_TIMES_LOG = "W b = (W)y; r = (W)x == (W)0 && b == b ? (T)0.0f : (T)((W)x * {}(b))"
_XLOGY = _made("xlogy", "T x, T y", _TIMES_LOG.format("log"))
_XLOG1PY = _made("xlog1py", "T x, T y", _TIMES_LOG.format("log1p"))
_LERP = _made(
    "lerp",
    "T x, T end, T weight",
    """
    W a = (W)x, b = (W)end, w = (W)weight;
    r = (T)(w < (W)0.5 && w > (W)-0.5 ? a + w * (b - a) : b - (b - a) * ((W)1 - w))
    """,
)
_ADDCMUL = _made("addcmul", "T x, T y, T z, float64 value", "r = (T)((W)x + (W)value * (W)y * (W)z)")
_ADDCDIV = _made("addcdiv", "T x, T y, T z, float64 value", "r = (T)((W)x + (W)value * (W)y / (W)z)")
_WHOLE_ADDCMUL = _made("whole_addcmul", "T x, T y, T z, int64 value", "r = (T)(x + (T)value * y * z)", "")
_FREXP = cupy.ElementwiseKernel(
    "T x",
    "T mantissa, int32 exponent",
    "int e = 0; mantissa = (T)frexp((W)x, &e); exponent = e",
    "stowgrad_frexp",
    preamble=WIDE,
)


def _cast(value: Operand, out: Array) -> Operand:
    """An operand in the type of the result."""
    if not isinstance(value, cupy.ndarray) or value.dtype == out.dtype:
        return value
    cast = cupy.empty(value.shape, out.dtype)
    cupy.copyto(cast, value, casting="unsafe")
    return cast


@kernel
def frac(x: Array, out: Array) -> None:
    """``out[...] = x`` without its whole part."""
    _FRAC(x, out)


@kernel
def round(x: Array, out: Array, *, decimals: int) -> None:
    """``out[...] = x`` rounded to decimals, or to powers of ten if they are negative."""
    _ROUND[decimals > 0](x, 10.0 ** abs(decimals), out)


@kernel
def sinc(x: Array, out: Array) -> None:
    """``out[...] = sin(pi x) / (pi x)``, 1 at 0."""
    _SINC(x, out)


@kernel
def heaviside(x: Operand, values: Operand, out: Array) -> None:
    """``out[...] = 0`` left of 0, 1 right of it, ``values`` at 0; NaN gives 0."""
    _HEAVISIDE(_cast(x, out), _cast(values, out), out)


@kernel
def integer_power(x: Operand, y: Operand, out: Array) -> None:
    """``out[...] = x ** y`` of integers, where a negative power is rounded towards 0."""
    _POWER(_cast(x, out), _cast(y, out), out)


@kernel
def trunc_divide(x: Operand, y: Operand, out: Array) -> None:
    """``out[...] = x / y`` without the fraction."""
    divide = _WHOLE_DIVIDE if out.dtype.kind in "iu" else _TRUNC_DIVIDE
    divide(_cast(x, out), _cast(y, out), out)


@kernel
def xlogy(x: Operand, y: Operand, out: Array) -> None:
    """``out[...] = x * log(y)``, 0 where ``x`` is 0 and ``y`` is no NaN."""
    _XLOGY(_cast(x, out), _cast(y, out), out)


@kernel
def xlog1py(x: Operand, y: Operand, out: Array) -> None:
    """``out[...] = x * log(1 + y)``, 0 where ``x`` is 0 and ``y`` is no NaN."""
    _XLOG1PY(_cast(x, out), _cast(y, out), out)


@kernel
def lerp(x: Operand, end: Operand, weight: Operand, out: Array) -> None:
    """``out[...] = x + weight * (end - x)``, from the end that is nearer."""
    _LERP(_cast(x, out), _cast(end, out), _cast(weight, out), out)


@kernel
def addcmul(x: Operand, y: Operand, z: Operand, out: Array, *, value: float) -> None:
    """``out[...] = x + value * y * z``."""
    combine = _WHOLE_ADDCMUL if out.dtype.kind in "iu" else _ADDCMUL
    combine(_cast(x, out), _cast(y, out), _cast(z, out), value, out)


@kernel
def addcdiv(x: Operand, y: Operand, z: Operand, out: Array, *, value: float) -> None:
    """``out[...] = x + value * y / z``."""
    _ADDCDIV(_cast(x, out), _cast(y, out), _cast(z, out), value, out)


@kernel
def frexp(x: Array, mantissa: Array, exponent: Array) -> None:
    """``x = mantissa * 2 ** exponent``, with mantissas of sizes from 0.5 to 1."""
    _FREXP(x, mantissa, exponent)
