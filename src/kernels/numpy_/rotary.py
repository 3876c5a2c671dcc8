"""Rotary position embedding: pairs of numbers turned by angles."""

from __future__ import annotations

import numpy as np

from ..executor import Array
from .tiling import FLOAT32, FLOAT64, copy_tiled, map_tiles

__all__ = ["rotary_embedding"]


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
    first, second, first_out, second_out = (half for a in (x, out) for half in halves(a, pairs, interleaved))
    cos, sin = (np.broadcast_to(a, first.shape) for a in (cos, sin))
    working = FLOAT64 if x.dtype == FLOAT64 else FLOAT32

    def tile(*arrays: Array) -> None:
        a, b, c, s, y, z, work, more, turned = arrays
        np.multiply(a, c, work, dtype=working, casting="unsafe")
        np.multiply(b, s, more, dtype=working, casting="unsafe")
        (np.add if inverse else np.subtract)(work, more, turned)
        np.multiply(b, c, work, dtype=working, casting="unsafe")
        np.multiply(a, s, more, dtype=working, casting="unsafe")
        (np.subtract if inverse else np.add)(work, more, work)
        np.copyto(y, turned, casting="unsafe")
        np.copyto(z, work, casting="unsafe")

    map_tiles(tile, [first, second, cos, sin, first_out, second_out], [working] * 3)
    if 2 * pairs < x.shape[-1]:
        copy_tiled(x[..., 2 * pairs :], out[..., 2 * pairs :])


def halves(x: Array, pairs: int, interleaved: bool) -> tuple[Array, Array]:
    """Views of the first and the second ones of the pairs."""
    if interleaved:
        return x[..., 0 : 2 * pairs : 2], x[..., 1 : 2 * pairs : 2]
    return x[..., :pairs], x[..., pairs : 2 * pairs]
