"""Masks of one bit an element, in `numpy.packbits`' layout."""

from __future__ import annotations

import cupy

from ..numpy_.bits import packed_size
from .launch import Array, kernel

__all__ = ["packed_size", "unpack_mask"]

# Whether the bit of element i is set.
BIT = "((bits[i >> 3] >> (7 - (i & 7))) & 1)"

_UNPACK = cupy.ElementwiseKernel("raw uint8 bits", "T y", f"y = (T)(int){BIT}", "stowgrad_unpack_mask")


@kernel
def unpack_mask(mask_bits: Array, out: Array) -> None:
    """Ones and zeros of a packed mask, in the shape and dtype of ``out``."""
    _UNPACK(mask_bits, out)
