"""Variance, its derivative, sums without NaN, and which elements equal what they were reduced to."""

from __future__ import annotations

import cupy

from .launch import WIDE, Array, kernel
from .reduce import mean as _mean
from .reduce import sum as _sum

__all__ = [
    "mark_equal",
    "nansum",
    "var_backward",
    "var_mean",
]

_SQUARE_DEVIATION = cupy.ElementwiseKernel(
    "T x, T mean", "T y", "W d = (W)x - (W)mean; y = (T)(d * d)", "stowgrad_square_deviation", preamble=WIDE
)
_VAR_BACKWARD = cupy.ElementwiseKernel(
    "T grad, T x, T mean, float64 scale",
    "T y",
    "y = (T)((W)scale * (W)grad * ((W)x - (W)mean))",
    "stowgrad_var_backward",
    preamble=WIDE,
)
_IS_EQUAL = cupy.ElementwiseKernel(
    "T x, T z", "T y", "y = (T)(x == z || (x != x && z != z) ? 1 : 0)", "stowgrad_is_equal"
)
_NUMBERS = cupy.ElementwiseKernel("T x", "T y", "y = x == x ? x : (T)0", "stowgrad_numbers")
_PACK = cupy.ElementwiseKernel(
    "raw T x, int64 count",
    "uint8 bits",
    """
    unsigned int byte = 0;
    for (int bit = 0; bit < 8; ++bit) {
      long long place = (long long)i * 8 + bit;
      if (place < count && x[place] != (T)0) byte |= 1u << (7 - bit);
    }
    bits = (unsigned char)byte;
    """,
    "stowgrad_pack_equal",
)


@kernel
def var_mean(x: Array, var: Array, mean: Array, *, axes: tuple[int, ...] | None = None, correction: float = 1) -> None:
    """``mean = x.mean(axes)``, ``var = sum((x - mean)**2) / (count - correction)``; in two passes."""
    _mean(x, mean, axes=axes)
    squares = cupy.empty(x.shape, x.dtype)
    _SQUARE_DEVIATION(x, mean.reshape(keepdims_shape(x, axes)), squares)
    _sum(squares, var, axes=axes)
    cupy.divide(var, float(max(0.0, x.size // max(var.size, 1) - correction)), out=var)


@kernel
def var_backward(
    grad: Array, x: Array, mean: Array, grad_x: Array, *, axes: tuple[int, ...] | None = None, scale: float = 1.0
) -> None:
    """``grad_x = scale * grad * (x - mean)``; ``grad`` and ``mean`` have the reduced axes as 1 or not at all."""
    shape = keepdims_shape(x, axes)
    _VAR_BACKWARD(grad.reshape(shape), x, mean.reshape(shape), scale, grad_x)


@kernel
def mark_equal(x: Array, result: Array, mask_bits: Array, count: Array, *, axes: tuple[int, ...] | None = None) -> None:
    """Set the bits of the elements that equal what their axes were reduced to, and count them; NaN equals NaN here.

    Args:
        x: of any strides.
        result, count: with the reduced axes as 1 or not at all; ``count`` is an out.
        mask_bits: an out, of uint8.
    """
    if x.size:
        equal = cupy.empty(x.shape, x.dtype)
        _IS_EQUAL(x, result.reshape(keepdims_shape(x, axes)), equal)
        _sum(equal, count, axes=axes)
        _PACK(equal, x.size, mask_bits)


@kernel
def nansum(x: Array, out: Array, *, axes: tuple[int, ...] | None = None) -> None:
    """``out = x.sum(axes)`` of what is not NaN."""
    numbers = cupy.empty(x.shape, x.dtype)
    _NUMBERS(x, numbers)
    _sum(numbers, out, axes=axes)


def keepdims_shape(x: Array, axes: tuple[int, ...] | None) -> tuple[int, ...]:
    """The shape of ``x`` with the reduced axes as 1."""
    gone = set(range(x.ndim)) if axes is None else {axis % x.ndim for axis in axes}
    return tuple(1 if axis in gone else length for axis, length in enumerate(x.shape))
