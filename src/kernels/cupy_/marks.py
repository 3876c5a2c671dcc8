"""Marks of one bit an element that backward needs in place of operands, in `numpy.packbits`' layout."""

from __future__ import annotations

import math
from typing import Any

import cupy

from .bits import BIT
from .launch import WIDE, Array, kernel

__all__ = [
    "keep_marked",
    "mark",
    "mark_between",
    "mark_finite",
    "mark_inside",
    "share_marked",
    "turn_marked",
]


def _marking(name: str, ins: str, test: str) -> cupy.ElementwiseKernel:
    """A kernel with a thread for every eight elements; ``test`` asks of the element at ``place``."""
    code = f"""
    unsigned int byte = 0;
    for (int bit = 0; bit < 8; ++bit) {{
      long long place = (long long)i * 8 + bit;
      if (place < count && ({test})) byte |= 1u << (7 - bit);
    }}
    bits = (unsigned char)byte;
    """
    return cupy.ElementwiseKernel(f"{ins}, int64 count", "uint8 bits", code, f"stowgrad_{name}", preamble=WIDE)


_TESTS = {
    "less": "(W)x[place] < (W)y[place]",
    "less_equal": "(W)x[place] <= (W)y[place]",
    "greater": "(W)x[place] > (W)y[place]",
    "greater_equal": "(W)x[place] >= (W)y[place]",
    "not_equal": "(W)x[place] != (W)y[place]",
    "not_less": "!((W)x[place] < (W)y[place])",
    "not_greater": "!((W)x[place] > (W)y[place])",
}
_IS_NAN = "(W)y[place] != (W)y[place]"
_MARK = {
    name: _marking(f"mark_{name}", "raw T x, raw T y, int64 or_nan", f"{test} || (or_nan && {_IS_NAN})")
    for name, test in _TESTS.items()
}
_INSIDE = _marking(
    "mark_inside", "raw T x, float64 low, float64 high", "(W)x[place] >= (W)low && (W)x[place] <= (W)high"
)
_FINITE = _marking("mark_finite", "raw T x", "(W)x[place] - (W)x[place] == (W)0")
_BETWEEN = cupy.ElementwiseKernel(
    "raw T x, raw T low, raw T high, int64 count",
    "uint8 kept, uint8 by_low",
    """
    unsigned int first = 0, second = 0;
    for (int bit = 0; bit < 8; ++bit) {
      long long place = (long long)i * 8 + bit;
      if (place < count) {
        W v = (W)x[place], a = (W)low[place], b = (W)high[place];
        bool inside = v >= a && v <= b, under = v < a && a < b, over = v > b || b < a;
        bool none = !(inside || under || over);
        first |= (unsigned int)(inside || none) << (7 - bit);
        second |= (unsigned int)(under || none) << (7 - bit);
      }
    }
    kept = (unsigned char)first;
    by_low = (unsigned char)second;
    """,
    "stowgrad_mark_between",
    preamble=WIDE,
)
_KEEP = cupy.ElementwiseKernel(
    "T x, raw uint8 bits, int64 wanted", "T y", f"y = {BIT} == wanted ? x : (T)0.0f", "stowgrad_keep_marked"
)
_SHARE = cupy.ElementwiseKernel(
    "T x, raw uint8 bits, raw uint8 others",
    "T y",
    f"y = {BIT} ? (T)((W)x * ({BIT.replace('bits', 'others')} ? (W)0.5 : (W)1)) : (T)0.0f",
    "stowgrad_share_marked",
    preamble=WIDE,
)

_TURN = cupy.ElementwiseKernel(
    "T x, raw uint8 bits, raw uint8 others",
    "T y",
    f"y = {BIT} ? x : {BIT.replace('bits', 'others')} ? (T)(-x) : (T)0.0f",
    "stowgrad_turn_marked",
)


@kernel
def mark(x: Any, y: Any, mask_bits: Array, *, shape: tuple[int, ...], relation: str, or_nan: bool = False) -> None:
    """Set the bits where a relation holds between operands that broadcast to a shape.

    Args:
        x: an array or a number.
        y: an array or a number.
        mask_bits: of uint8.
        shape: what they broadcast to.
        relation: one of ``_TESTS``.
        or_nan: whether the bit is set where ``y`` is NaN, too.
    """
    dtype = next(value.dtype for value in (x, y) if isinstance(value, cupy.ndarray))
    operands = [_spread(value, dtype, shape) for value in (x, y)]
    _MARK[relation](*operands, int(or_nan), math.prod(shape), mask_bits)


def _spread(value: Any, dtype: Any, shape: tuple[int, ...]) -> Array:
    if not isinstance(value, cupy.ndarray):
        value = cupy.full((), value, dtype)
    elif value.dtype != dtype:
        cast = cupy.empty(value.shape, dtype)
        cupy.copyto(cast, value, casting="unsafe")
        value = cast
    return cupy.broadcast_to(value, shape)


@kernel
def mark_inside(x: Array, mask_bits: Array, *, low: float | None = None, high: float | None = None) -> None:
    """Set the bits where ``low <= x <= high``; a bound of None doesn't count."""
    _INSIDE(x, -math.inf if low is None else low, math.inf if high is None else high, x.size, mask_bits)


@kernel
def mark_finite(x: Array, mask_bits: Array) -> None:
    """Set the bits where ``x`` is neither NaN nor infinite."""
    _FINITE(x, x.size, mask_bits)


@kernel
def mark_between(x: Array, low: Any, high: Any, kept_bits: Array, low_bits: Array, *, shape: tuple[int, ...]) -> None:
    """Say with two bits what of ``x`` held between ``low`` and ``high`` (None doesn't count) gets the gradient.

    The first alone: ``x`` does; the second alone: ``low``; neither: ``high``; both: nothing, as with NaN.
    """
    bounds = (-math.inf if low is None else low, math.inf if high is None else high)
    operands = [_spread(value, x.dtype, shape) for value in (x, *bounds)]
    _BETWEEN(*operands, math.prod(shape), kept_bits, low_bits)


@kernel
def keep_marked(x: Array, mask_bits: Array, out: Array, *, contrary: bool = False) -> None:
    """``out = x`` where the bit is set (where it isn't, if ``contrary``), else 0."""
    _KEEP(x, mask_bits, int(not contrary), out)


@kernel
def share_marked(x: Array, own_bits: Array, other_bits: Array, out: Array) -> None:
    """``out = x`` where only one's own bit is set, half of it where both are, else 0."""
    _SHARE(x, own_bits, other_bits, out)


@kernel
def turn_marked(x: Array, plus_bits: Array, minus_bits: Array, out: Array) -> None:
    """``out = x`` where the first mask has a bit, ``-x`` where the second has one, else 0."""
    _TURN(x, plus_bits, minus_bits, out)
