"""Rotary position embedding: pairs of numbers turned by angles, in one launch."""

from __future__ import annotations

import cupy

from .launch import WIDE, Array, kernel

__all__ = ["rotary_embedding"]

_TURN = cupy.ElementwiseKernel(
    "T a, T b, T c, T s, float64 direction",
    "T y, T z",
    """
    W p = (W)a, q = (W)b, turn = (W)direction * (W)s;
    y = (T)(p * (W)c - q * turn);
    z = (T)(q * (W)c + p * turn);
    """,
    "stowgrad_rotary_embedding",
    preamble=WIDE,
)


@kernel
def rotary_embedding(
    x: Array, cos: Array, sin: Array, out: Array, *, interleaved: bool = False, inverse: bool = False
) -> None:
    """``out`` = the pairs ``(a, b)`` of ``x`` as ``(a * cos - b * sin, b * cos + a * sin)``.

    Args:
        x: (..., size), any strides.
        cos, sin: of shapes that broadcast to (..., pairs), where ``2 * pairs <= size``; what is beyond stays as it is.
        out: of the shape of ``x``, any strides.
        interleaved: whether pairs are neighbours; else the second half follows the first.
        inverse: whether to turn the other way.
    """
    pairs = cos.shape[-1]
    first, second, first_out, second_out = (half for a in (x, out) for half in _halves(a, pairs, interleaved))
    if first.size:
        cos, sin = (a.astype(x.dtype, copy=False) for a in (cos, sin))
        _TURN(first, second, cos, sin, -1.0 if inverse else 1.0, first_out, second_out)
    if 2 * pairs < x.shape[-1]:
        cupy.copyto(out[..., 2 * pairs :], x[..., 2 * pairs :])


def _halves(x: Array, pairs: int, interleaved: bool) -> tuple[Array, Array]:
    if interleaved:
        return x[..., 0 : 2 * pairs : 2], x[..., 1 : 2 * pairs : 2]
    return x[..., :pairs], x[..., pairs : 2 * pairs]
