"""Activation functions made of straight lines: backward needs one bit an element, which says on which line it lies.

``out`` and ``grad_x`` may be the input. Masks have `numpy.packbits`' layout.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..executor import Array, parallel_slices
from .bits import SIGNED, keep_tile, map_bits, pack_tile, packed_size, select_tile
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

# Fills ``keep`` of ``x``; another tile of booleans is scratch.
Test = Callable[[Array, Array, Array], None]
# Fills ``out`` of ``x`` and ``keep``, and works in the last one, which may be ``out``.
Fill = Callable[[Array, Array, Array, Array], None]


def hardtanh(x: Array, out: Array, mask_bits: Array, *, low: float, high: float) -> None:
    """``out = x`` held between ``low`` and ``high``; bits are set strictly between them, and for NaN."""

    def test(x: Array, keep: Array, other: Array) -> None:
        np.less_equal(x, low, keep)
        np.greater_equal(x, high, other)
        np.logical_or(keep, other, keep)
        np.logical_not(keep, keep)

    def fill(x: Array, keep: Array, out: Array, work: Array) -> None:
        np.clip(x, low, high, out=out)

    _with_bits(test, fill, x, out, mask_bits)


def threshold(x: Array, out: Array, mask_bits: Array, *, threshold: float, value: float) -> None:
    """``out = value`` where ``x <= threshold``, else ``x``, where the bits are set."""

    def test(x: Array, keep: Array, other: Array) -> None:
        np.less_equal(x, threshold, keep)
        np.logical_not(keep, keep)

    def fill(x: Array, keep: Array, out: Array, work: Array) -> None:
        _blend(keep, x, np.array(value, x.dtype), out)

    _with_bits(test, fill, x, out, mask_bits)


def hardshrink(x: Array, out: Array, mask_bits: Array, *, lambd: float) -> None:
    """``out = 0`` where ``-lambd <= x <= lambd``, else ``x``, where the bits are set."""

    def test(x: Array, keep: Array, other: Array) -> None:
        _beyond(x, -lambd, lambd, keep, other)

    def fill(x: Array, keep: Array, out: Array, work: Array) -> None:
        keep_tile(x, keep, out)

    _with_bits(test, fill, x, out, mask_bits)


def softshrink(x: Array, out: Array, mask_bits: Array, *, lambd: float) -> None:
    """``x`` drawn nearer to 0 by ``lambd``, and 0 where it is nearer than that; bits are set elsewhere."""

    def test(x: Array, keep: Array, other: Array) -> None:
        _beyond(x, -lambd, lambd, keep, other)

    def fill(x: Array, keep: Array, out: Array, work: Array) -> None:
        np.clip(x, -lambd, lambd, out=work)
        np.subtract(x, work, out)

    _with_bits(test, fill, x, out, mask_bits)


def leaky_relu(x: Array, out: Array, mask_bits: Array, *, slope: float) -> None:
    """``out = x`` where it is positive (bits are set), else ``slope * x``."""

    def test(x: Array, keep: Array, other: Array) -> None:
        np.greater(x, 0, keep)

    def fill(x: Array, keep: Array, out: Array, work: Array) -> None:
        if 0 < slope <= 1:
            np.multiply(x, slope, work)
            np.maximum(x, work, out=out)
        else:
            _choose_slopes(keep, 1, slope, work)
            np.multiply(x, work, out)

    _with_bits(test, fill, x, out, mask_bits)


def hardsigmoid(x: Array, out: Array, mask_bits: Array) -> None:
    """``out = (x + 3) / 6`` held between 0 and 1; bits are set strictly between them."""

    def test(x: Array, keep: Array, other: Array) -> None:
        np.greater(x, -3, keep)
        np.less(x, 3, other)
        np.logical_and(keep, other, keep)

    def fill(x: Array, keep: Array, out: Array, work: Array) -> None:
        np.clip(x, -3, 3, out=out)
        np.add(out, 3, out)
        np.multiply(out, 1 / 6, out)

    _with_bits(test, fill, x, out, mask_bits)


def masked_slope(grad: Array, mask_bits: Array, grad_x: Array, *, inside: float, outside: float) -> None:
    """``grad_x = grad * inside`` where the bit is set, else ``grad * outside``: 0 for 0, whatever the gradient."""

    def kept(grad: Array, grad_x: Array, where: slice) -> None:
        select_tile(grad, mask_bits[where], grad_x)
        if inside != 1:
            np.multiply(grad_x, inside, grad_x)

    def sloped(grad: Array, grad_x: Array, where: slice, slopes: Array) -> None:
        _choose_slopes(np.unpackbits(mask_bits[where], count=grad.size).view(BOOL), inside, outside, slopes)
        np.multiply(grad, slopes, grad_x)

    if outside == 0:
        map_bits(kept, grad, grad_x)
    else:
        map_bits(sloped, grad, grad_x, works=True)


def rrelu(x: Array, out: Array, mask_bits: Array, *, lower: float, upper: float, key: int, counter: int) -> None:
    """``out = x`` where it is positive (bits are set), else ``x`` times a slope drawn for it."""
    source, target = contiguous_in(x, out).reshape(-1), out.reshape(-1)

    def tile(where: slice, keep: Array, work: Array, drawn: Array) -> None:
        count = where.stop - where.start
        part, keep, work = source[where], keep[:count], work[:count]
        np.greater(part, 0, keep)
        pack_tile(keep, mask_bits, where)
        _draw_slopes(drawn[:count], where.start, lower, upper, key, counter)
        np.multiply(part, drawn[:count], work, casting="same_kind")
        _blend(keep, part, work, target[where])

    _drawing(tile, out, [BOOL])


def rrelu_backward(
    grad: Array, mask_bits: Array, grad_x: Array, *, lower: float, upper: float, key: int, counter: int
) -> None:
    """``grad_x = grad`` where the bit is set, else ``grad`` times the slope that `rrelu` has drawn there."""
    source, target = contiguous_in(grad, grad_x).reshape(-1), grad_x.reshape(-1)

    def tile(where: slice, work: Array, drawn: Array) -> None:
        count = where.stop - where.start
        _draw_slopes(drawn[:count], where.start, lower, upper, key, counter)
        np.multiply(source[where], drawn[:count], work[:count], casting="same_kind")
        keep = np.unpackbits(mask_bits[where.start >> 3 : packed_size(where.stop)], count=count).view(BOOL)
        _blend(keep, source[where], work[:count], target[where])

    with numpy_workspace(1, grad_x.size, DRAW_TILE):
        _drawing(tile, grad_x, [])


def _with_bits(test: Test, fill: Fill, x: Array, out: Array, mask_bits: Array) -> None:
    source, target = contiguous_in(x, out).reshape(-1), out.reshape(-1)
    apart = not np.may_share_memory(source, target)

    def tile(where: slice, keep: Array, other: Array, *scratch: Array) -> None:
        values, part = source[where], target[where]
        keep, other = keep[: part.size], other[: part.size]
        test(values, keep, other)
        pack_tile(keep, mask_bits, where)
        fill(values, keep, part, part if apart else scratch[0][: part.size])

    step = tile_size(out.size, out.dtype)
    dtypes = (BOOL, BOOL) if apart else (BOOL, BOOL, out.dtype)
    parallel_slices(tile, out.size, step, [((step,), dtype) for dtype in dtypes])


def _beyond(x: Array, low: float, high: float, found: Array, other: Array) -> None:
    """Where ``x`` is not in ``[low, high]``."""
    np.greater_equal(x, low, found)
    np.less_equal(x, high, other)
    np.logical_and(found, other, found)
    np.logical_not(found, found)


def _blend(keep: Array, x: Array, other: Array, out: Array) -> None:
    """``out = x where keep else other``; ``out`` may be ``x``. No branches: by bit patterns."""
    integers = SIGNED[out.dtype.itemsize]
    bits_x, bits_other, bits_out = x.view(integers), other.view(integers), out.view(integers)
    np.bitwise_xor(bits_x, bits_other, out=bits_out)
    np.multiply(bits_out, keep, out=bits_out)
    np.bitwise_xor(bits_out, bits_other, out=bits_out)


def _choose_slopes(keep: Array, inside: float, outside: float, slopes: Array) -> None:
    """``slopes = inside where keep else outside``."""
    integers = SIGNED[slopes.dtype.itemsize]
    bits_inside, bits_outside = (np.array(slope, slopes.dtype).view(integers) for slope in (inside, outside))
    patterns = slopes.view(integers)
    np.copyto(patterns, keep)
    np.multiply(patterns, bits_inside ^ bits_outside, out=patterns)
    np.bitwise_xor(patterns, bits_outside, out=patterns)


def _drawing(tile: Callable[..., None], out: Array, further: list[DType]) -> None:
    """Run a tile that draws slopes; scratch: ``further``, numbers of out's dtype, drawn numbers."""
    step = min(max(out.size, 1), DRAW_TILE)
    dtypes = (*further, out.dtype, FLOAT32)
    parallel_slices(tile, out.size, DRAW_TILE, [((step,), dtype) for dtype in dtypes])


def _draw_slopes(out: Array, start: int, lower: float, upper: float, key: int, counter: int) -> None:
    np.random.Generator(bit_stream(key, counter, start)).random(out=out, dtype=np.float32)
    np.multiply(out, upper - lower, out)
    np.add(out, lower, out)
