"""Activation functions made of straight lines: backward needs one bit an element, which says on which line it lies.

``out`` and ``grad_x`` may be the input. Masks have `numpy.packbits`' layout.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..executor import Array, parallel_slices
from .bits import SIGNED, pack_tile, packed_size, select_tile
from .random import DRAW_TILE, bit_stream
from .tiling import BOOL, FLOAT32, DType, contiguous_in, numpy_workspace, tile_size

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

# Fills ``keep`` and ``out`` of ``x``; the others are scratch: booleans, numbers of x's dtype, a mask of bit patterns.
Tile = Callable[[Array, Array, Array, Array, Array, Array], None]


def hardtanh(x: Array, out: Array, mask_bits: Array, *, low: float, high: float) -> None:
    """``out = x`` held between ``low`` and ``high``; bits are set strictly between them, and for NaN."""

    def tile(x: Array, keep: Array, out: Array, other: Array, work: Array, mask: Array) -> None:
        np.less_equal(x, low, keep)
        np.greater_equal(x, high, other)
        np.logical_or(keep, other, keep)
        np.logical_not(keep, keep)
        np.clip(x, low, high, out=out)

    _with_bits(tile, x, out, mask_bits)


def threshold(x: Array, out: Array, mask_bits: Array, *, threshold: float, value: float) -> None:
    """``out = value`` where ``x <= threshold``, else ``x``, where the bits are set."""

    def tile(x: Array, keep: Array, out: Array, other: Array, work: Array, mask: Array) -> None:
        np.less_equal(x, threshold, keep)
        np.logical_not(keep, keep)
        work.fill(value)
        _blend(keep, x, work, out, mask)

    _with_bits(tile, x, out, mask_bits)


def hardshrink(x: Array, out: Array, mask_bits: Array, *, lambd: float) -> None:
    """``out = 0`` where ``-lambd <= x <= lambd``, else ``x``, where the bits are set."""

    def tile(x: Array, keep: Array, out: Array, other: Array, work: Array, mask: Array) -> None:
        _beyond(x, -lambd, lambd, keep, other)
        work.fill(0)
        _blend(keep, x, work, out, mask)

    _with_bits(tile, x, out, mask_bits)


def softshrink(x: Array, out: Array, mask_bits: Array, *, lambd: float) -> None:
    """``x`` drawn nearer to 0 by ``lambd``, and 0 where it is nearer than that; bits are set elsewhere."""

    def tile(x: Array, keep: Array, out: Array, other: Array, work: Array, mask: Array) -> None:
        _beyond(x, -lambd, lambd, keep, other)
        np.clip(x, -lambd, lambd, out=work)
        np.subtract(x, work, out)

    _with_bits(tile, x, out, mask_bits)


def leaky_relu(x: Array, out: Array, mask_bits: Array, *, slope: float) -> None:
    """``out = x`` where it is positive (bits are set), else ``slope * x``."""

    def tile(x: Array, keep: Array, out: Array, other: Array, work: Array, mask: Array) -> None:
        np.greater(x, 0, keep)
        np.multiply(x, slope, work)
        if 0 < slope <= 1:
            np.maximum(x, work, out=out)
        else:
            _blend(keep, x, work, out, mask)

    _with_bits(tile, x, out, mask_bits)


def hardsigmoid(x: Array, out: Array, mask_bits: Array) -> None:
    """``out = (x + 3) / 6`` held between 0 and 1; bits are set strictly between them."""

    def tile(x: Array, keep: Array, out: Array, other: Array, work: Array, mask: Array) -> None:
        np.greater(x, -3, keep)
        np.less(x, 3, other)
        np.logical_and(keep, other, keep)
        np.clip(x, -3, 3, out=out)
        np.add(out, 3, out)
        np.multiply(out, 1 / 6, out)

    _with_bits(tile, x, out, mask_bits)


def masked_slope(grad: Array, mask_bits: Array, grad_x: Array, *, inside: float, outside: float) -> None:
    """``grad_x = grad * inside`` where the bit is set, else ``grad * outside``: 0 for 0, whatever the gradient."""
    source, target = contiguous_in(grad, grad_x).reshape(-1), grad_x.reshape(-1)

    size, dtype = grad_x.size, grad_x.dtype
    one, other = (np.array(slope, dtype).view(SIGNED[dtype.itemsize]) for slope in (inside, outside))
    differing = one ^ other

    def tile(where: slice, mask: Array) -> None:
        part, mask = target[where], mask[: where.stop - where.start]
        if outside != 0:  # the slopes themselves, as bit patterns
            np.negative(_unpacked(mask_bits, where).view(np.int8), out=mask)
            np.bitwise_and(mask, differing, out=mask)
            np.bitwise_xor(mask, other, out=mask)
            np.multiply(source[where], mask.view(dtype), part)
        elif inside == 1:
            select_tile(source[where], mask_bits, where, part, mask)
        else:
            np.multiply(source[where], inside, part)
            select_tile(part, mask_bits, where, part, mask)

    step = tile_size(size, dtype)
    with numpy_workspace(1, size, step):
        parallel_slices(tile, size, step, [((step,), SIGNED[dtype.itemsize])])


def rrelu(x: Array, out: Array, mask_bits: Array, *, lower: float, upper: float, key: int, counter: int) -> None:
    """``out = x`` where it is positive (bits are set), else ``x`` times a slope drawn for it."""
    source, target = contiguous_in(x, out).reshape(-1), out.reshape(-1)

    def tile(where: slice, keep: Array, mask: Array, work: Array, drawn: Array) -> None:
        count = where.stop - where.start
        part, keep, work = source[where], keep[:count], work[:count]
        np.greater(part, 0, keep)
        pack_tile(keep, mask_bits, where)
        _draw_slopes(drawn[:count], where.start, lower, upper, key, counter)
        np.multiply(part, drawn[:count], work, casting="same_kind")
        _blend(keep, part, work, target[where], mask[:count])

    _drawing(tile, out, [BOOL])


def rrelu_backward(
    grad: Array, mask_bits: Array, grad_x: Array, *, lower: float, upper: float, key: int, counter: int
) -> None:
    """``grad_x = grad`` where the bit is set, else ``grad`` times the slope that `rrelu` has drawn there."""
    source, target = contiguous_in(grad, grad_x).reshape(-1), grad_x.reshape(-1)

    def tile(where: slice, mask: Array, work: Array, drawn: Array) -> None:
        count = where.stop - where.start
        _draw_slopes(drawn[:count], where.start, lower, upper, key, counter)
        np.multiply(source[where], drawn[:count], work[:count], casting="same_kind")
        _blend(_unpacked(mask_bits, where), source[where], work[:count], target[where], mask[:count])

    with numpy_workspace(1, grad_x.size, DRAW_TILE):
        _drawing(tile, grad_x, [])


def _with_bits(body: Tile, x: Array, out: Array, mask_bits: Array) -> None:
    source, target = contiguous_in(x, out).reshape(-1), out.reshape(-1)

    def tile(where: slice, keep: Array, *buffers: Array) -> None:
        count = where.stop - where.start
        body(source[where], keep[:count], target[where], *[buffer[:count] for buffer in buffers])
        pack_tile(keep[:count], mask_bits, where)

    step = tile_size(out.size, out.dtype)
    dtypes = (BOOL, BOOL, out.dtype, SIGNED[out.dtype.itemsize])
    parallel_slices(tile, out.size, step, [((step,), dtype) for dtype in dtypes])


def _beyond(x: Array, low: float, high: float, found: Array, other: Array) -> None:
    """Where ``x`` is not in ``[low, high]``."""
    np.greater_equal(x, low, found)
    np.less_equal(x, high, other)
    np.logical_and(found, other, found)
    np.logical_not(found, found)


def _blend(keep: Array, x: Array, other: Array, out: Array, mask: Array) -> None:
    """``out = x where keep else other``; ``out`` may be ``x``, ``mask`` is scratch. No branches: by bit patterns."""
    np.negative(keep.view(np.int8), out=mask)  # 1 -> all ones
    bits_x, bits_other, bits_out = x.view(mask.dtype), other.view(mask.dtype), out.view(mask.dtype)
    np.bitwise_xor(bits_x, bits_other, out=bits_out)
    np.bitwise_and(bits_out, mask, out=bits_out)
    np.bitwise_xor(bits_out, bits_other, out=bits_out)


def _unpacked(mask_bits: Array, where: slice) -> Array:
    return np.unpackbits(mask_bits[where.start >> 3 : packed_size(where.stop)], count=where.stop - where.start)


def _drawing(tile: Callable[..., None], out: Array, further: list[DType]) -> None:
    """Run a tile that draws slopes; scratch: ``further``, a mask, numbers of out's dtype, drawn numbers."""
    step = min(max(out.size, 1), DRAW_TILE)
    dtypes = (*further, SIGNED[out.dtype.itemsize], out.dtype, FLOAT32)
    parallel_slices(tile, out.size, DRAW_TILE, [((step,), dtype) for dtype in dtypes])


def _draw_slopes(out: Array, start: int, lower: float, upper: float, key: int, counter: int) -> None:
    np.random.Generator(bit_stream(key, counter, start)).random(out=out, dtype=np.float32)
    np.multiply(out, upper - lower, out)
    np.add(out, lower, out)
