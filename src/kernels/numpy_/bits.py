"""Masks of one bit an element, in `numpy.packbits`' layout, and selection by a mask without branches."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..executor import Array

__all__ = [
    "packed_size",
    "unpack_mask",
]

# The signed integers whose bit patterns stand for values of an item size.
SIGNED: dict[int, np.dtype[Any]] = {size: np.dtype(f"i{size}") for size in (1, 2, 4, 8)}


def packed_size(count: int) -> int:
    """Bytes that ``count`` bits take."""
    return -(-count // 8)


def pack_tile(keep: Array, mask_bits: Array, where: slice) -> None:
    """Write a tile of booleans into its place in ``mask_bits``; tiles begin at multiples of 8."""
    mask_bits[where.start >> 3 : packed_size(where.stop)] = np.packbits(keep)


def select_tile(x: Array, mask_bits: Array, where: slice, out: Array, mask: Array) -> None:
    """``out = x where the bit is set else 0``; exact for infinities and NaN, unlike a product.

    ``mask`` is scratch of the signed integer type of ``x``'s item size.
    """
    select_bits(x, mask_bits[where.start >> 3 : packed_size(where.stop)], out, mask)


def select_bits(x: Array, bits: Array, out: Array, mask: Array) -> None:
    """`select_tile` with the tile's own bits."""
    np.negative(np.unpackbits(bits, count=mask.size).view(np.int8), out=mask)  # 1 -> all ones
    np.bitwise_and(x.view(mask.dtype), mask, out=out.view(mask.dtype))


def unpack_mask(mask_bits: Array, out: Array) -> None:
    """Ones and zeros of a packed mask, in the shape and dtype of ``out``."""
    out.reshape(-1)[...] = np.unpackbits(mask_bits, count=out.size)


def replace_tile(x: Array, where: Array, value: float, mask: Array, bits: Array) -> None:
    """``x[where] = value`` without branches, which cost more than all of this where ``where`` follows no pattern.

    ``mask`` and ``bits`` are scratch of the signed integer type of ``x``'s item size.
    """
    np.negative(where.view(np.int8), out=mask)  # True -> all ones
    number = np.array(value, x.dtype).view(mask.dtype)
    values = x.view(mask.dtype)
    np.bitwise_and(mask, number, out=bits)
    np.bitwise_not(mask, out=mask)
    np.bitwise_and(values, mask, out=values)
    np.bitwise_or(values, bits, out=values)
