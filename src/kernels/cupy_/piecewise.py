"""Activation functions made of straight lines: backward needs one bit an element, which says on which line it lies.

``out`` and ``grad_x`` may be the input. Masks have `numpy.packbits`' layout.
"""

from __future__ import annotations

import cupy

from .bits import BIT
from .launch import WIDE, Array, kernel
from .philox import PARAMETERS, PHILOX, arguments

__all__ = [
    "hardshrink",
    "hardsigmoid",
    "hardtanh",
    "leaky_relu",
    "masked_slope",
    "rrelu",
    "rrelu_backward",
    "softshrink",
    "threshold",
]


def _with_bits(name: str, parameters: str, keep: str, value: str, preamble: str = "") -> cupy.ElementwiseKernel:
    """A kernel that computes ``value`` of ``v`` and the bit ``keep``: one thread for the eight bits of a byte."""
    code = f"""
    unsigned int byte = 0;
    for (int bit = 0; bit < 8; ++bit) {{
      long long place = (long long)i * 8 + bit;
      if (place < count) {{
        W v = (W)x[place];
        bool keep = {keep};
        byte |= (unsigned int)keep << (7 - bit);
        y[place] = {value};
      }}
    }}
    bits = (unsigned char)byte;
    """
    return cupy.ElementwiseKernel(
        f"raw T x, int64 count{parameters}", "raw T y, uint8 bits", code, f"stowgrad_{name}", preamble=WIDE + preamble
    )


# The slope of element `place`, drawn from the counter at its index.
_SLOPE = """
__device__ inline W drawn_slope(
    unsigned long long key, unsigned long long low, unsigned long long high, long long place, double least, double width
) {
  unsigned int words[4];
  random_words(key, low, high, (unsigned long long)place, words);
  return (W)(least + width * ((double)words[0] * 2.3283064365386963e-10));
}
"""
_HARDTANH = _with_bits(
    "hardtanh",
    ", float64 least, float64 most",
    "!(v <= (W)least || v >= (W)most)",
    "v < (W)least ? (T)(W)least : v > (W)most ? (T)(W)most : x[place]",
)
_THRESHOLD = _with_bits(
    "threshold", ", float64 limit, float64 value", "!(v <= (W)limit)", "keep ? x[place] : (T)(W)value"
)
_HARDSHRINK = _with_bits(
    "hardshrink", ", float64 lambd", "!(v >= -(W)lambd && v <= (W)lambd)", "keep ? x[place] : (T)0.0f"
)
_SOFTSHRINK = _with_bits(
    "softshrink",
    ", float64 lambd",
    "!(v >= -(W)lambd && v <= (W)lambd)",
    "keep ? (T)(v > (W)0 ? v - (W)lambd : v + (W)lambd) : (T)0.0f",
)
_LEAKY_RELU = _with_bits("leaky_relu", ", float64 slope", "v > (W)0", "keep ? x[place] : (T)(v * (W)slope)")
_HARDSIGMOID = _with_bits(
    "hardsigmoid",
    "",
    "v > (W)-3 && v < (W)3",
    "(T)(v <= (W)-3 ? (W)0 : v >= (W)3 ? (W)1 : (v + (W)3) / (W)6)",
)
_RRELU = _with_bits(
    "rrelu",
    f", float64 least, float64 width, {PARAMETERS}",
    "v > (W)0",
    "keep ? x[place] : (T)(v * drawn_slope(key, low, high, place, least, width))",
    PHILOX + _SLOPE,
)
_RRELU_BACKWARD = cupy.ElementwiseKernel(
    f"T grad, raw uint8 bits, float64 least, float64 width, {PARAMETERS}",
    "T y",
    f"y = {BIT} ? grad : (T)((W)grad * drawn_slope(key, low, high, i, least, width))",
    "stowgrad_rrelu_backward",
    preamble=WIDE + PHILOX + _SLOPE,
)
_MASKED_SLOPE = cupy.ElementwiseKernel(
    "T grad, raw uint8 bits, float64 inside, float64 outside",
    "T y",
    f"y = {BIT} ? (T)((W)grad * (W)inside) : (W)outside == (W)0 ? (T)0.0f : (T)((W)grad * (W)outside)",
    "stowgrad_masked_slope",
    preamble=WIDE,
)


@kernel
def hardtanh(x: Array, out: Array, mask_bits: Array, *, low: float, high: float) -> None:
    """``out = x`` held between ``low`` and ``high``; bits are set strictly between them, and for NaN."""
    _HARDTANH(x, x.size, low, high, out, mask_bits)


@kernel
def threshold(x: Array, out: Array, mask_bits: Array, *, threshold: float, value: float) -> None:
    """``out = value`` where ``x <= threshold``, else ``x``, where the bits are set."""
    _THRESHOLD(x, x.size, threshold, value, out, mask_bits)


@kernel
def hardshrink(x: Array, out: Array, mask_bits: Array, *, lambd: float) -> None:
    """``out = 0`` where ``-lambd <= x <= lambd``, else ``x``, where the bits are set."""
    _HARDSHRINK(x, x.size, lambd, out, mask_bits)


@kernel
def softshrink(x: Array, out: Array, mask_bits: Array, *, lambd: float) -> None:
    """``x`` drawn nearer to 0 by ``lambd``, and 0 where it is nearer than that; bits are set elsewhere."""
    _SOFTSHRINK(x, x.size, lambd, out, mask_bits)


@kernel
def leaky_relu(x: Array, out: Array, mask_bits: Array, *, slope: float) -> None:
    """``out = x`` where it is positive (bits are set), else ``slope * x``."""
    _LEAKY_RELU(x, x.size, slope, out, mask_bits)


@kernel
def hardsigmoid(x: Array, out: Array, mask_bits: Array) -> None:
    """``out = (x + 3) / 6`` held between 0 and 1; bits are set strictly between them."""
    _HARDSIGMOID(x, x.size, out, mask_bits)


@kernel
def masked_slope(grad: Array, mask_bits: Array, grad_x: Array, *, inside: float, outside: float) -> None:
    """``grad_x = grad * inside`` where the bit is set, else ``grad * outside``: 0 for 0, whatever the gradient."""
    _MASKED_SLOPE(grad, mask_bits, inside, outside, grad_x)


@kernel
def rrelu(x: Array, out: Array, mask_bits: Array, *, lower: float, upper: float, key: int, counter: int) -> None:
    """``out = x`` where it is positive (bits are set), else ``x`` times a slope drawn for it."""
    _RRELU(x, x.size, lower, upper - lower, *arguments(key, counter), out, mask_bits)


@kernel
def rrelu_backward(
    grad: Array, mask_bits: Array, grad_x: Array, *, lower: float, upper: float, key: int, counter: int
) -> None:
    """``grad_x = grad`` where the bit is set, else ``grad`` times the slope that `rrelu` has drawn there."""
    _RRELU_BACKWARD(grad, mask_bits, lower, upper - lower, *arguments(key, counter), grad_x)
