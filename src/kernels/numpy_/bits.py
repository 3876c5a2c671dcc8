"""Masks of one bit an element, in `numpy.packbits`' layout, and selection by a mask without branches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..executor import Array, parallel_slices
from .tiling import contiguous_in, numpy_workspace, tile_size

__all__ = [
    "packed_size",
    "unpack_mask",
]

_FEW = 4096  # elements: of up to so many, one call is cheaper than two
# The signed integers whose bit patterns stand for values of an item size.
SIGNED: dict[int, np.dtype[Any]] = {size: np.dtype(f"i{size}") for size in (1, 2, 4, 8)}


def packed_size(count: int) -> int:
    """Bytes that ``count`` bits take."""
    return -(-count // 8)


def pack_tile(keep: Array, mask_bits: Array, where: slice) -> None:
    """Write a tile of booleans into its place in ``mask_bits``; tiles begin at multiples of 8."""
    mask_bits[where.start >> 3 : packed_size(where.stop)] = np.packbits(keep)


def select_tile(x: Array, bits: Array, out: Array) -> None:
    """``out = x where the bit of a tile is set else 0``; exact for infinities and NaN, unlike a product."""
    keep_tile(x, np.unpackbits(bits, count=out.size).view(np.bool_), out)


def keep_tile(x: Array, keep: Array, out: Array) -> None:
    """``out = x where keep else 0``: the bit patterns as integers times booleans, 0.2 ns an element.

    A copy by a mask takes 5 ns where the mask follows no pattern. The booleans are cast in ``out``, if ``x`` does not
    lie there: through NumPy's buffer that takes half as long again.
    """
    integers = SIGNED[out.dtype.itemsize]
    bits_x, bits_out = x.view(integers), out.view(integers)
    if out.size <= _FEW or np.may_share_memory(x, out):
        np.multiply(bits_x, keep, out=bits_out)
    else:
        np.copyto(bits_out, keep)
        np.multiply(bits_x, bits_out, out=bits_out)


def map_bits(body: Callable[..., None], x: Array, out: Array, *, unpacked: int = 1, works: bool = False) -> None:
    """Call ``body(tile of x, tile of out, where its bits are)`` for all tiles.

    Args:
        x: any strides.
        out: in C order; may be ``x``.
        unpacked: how many masks of a byte an element the body lets NumPy make.
        works: whether the body takes one tile more to work in: that of ``out`` unless ``x`` lies there.
    """
    source, target = contiguous_in(x, out).reshape(-1), out.reshape(-1)
    apart = works and not np.may_share_memory(source, target)

    def tile(where: slice, *scratch: Array) -> None:
        part = target[where]
        work = (part,) if apart else [array[: part.size] for array in scratch]
        body(source[where], part, slice(where.start >> 3, packed_size(where.stop)), *work)

    step = tile_size(out.size, out.dtype)
    with numpy_workspace(unpacked, out.size, step):
        parallel_slices(tile, out.size, step, [((step,), out.dtype)] if works and not apart else ())


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
