"""Dropout with a mask of one bit an element, drawn from a counter: the mask can be kept or drawn again.

Eight random bits decide an element's fate, unless they are equal to the threshold's first eight; then 32 more do. So
the probability is right to 40 bits at the price of little more than 8.
"""

from __future__ import annotations

import numpy as np

from ..executor import Array, parallel_slices
from .bits import keep_tile, map_bits, pack_tile, packed_size, select_tile
from .random import DRAW_TILE, counter_steps, raw_words
from .tiling import BOOL, contiguous_in, numpy_workspace

__all__ = ["alpha_dropout", "counter_steps", "dropout", "dropout_backward", "dropout_mask"]

_FEW = 512  # elements: what is needed for so many in between is less than what comes from NumPy uncounted
_SECOND_STREAM = 1 << 19  # steps into the tile's own stretch of the counter: beyond what the first draw takes


def dropout(x: Array, out: Array, mask_bits: Array, *, p: float, key: int, counter: int) -> None:
    """``out = x / (1 - p)`` where an element is kept, else 0, also for infinities and NaN.

    Args:
        x: any strides.
        out: may be ``x``.
        mask_bits: an out, uint8 (ceil(size / 8),): the kept elements in `numpy.packbits`' layout.
        p: the probability of 0.
        key, counter: where the draw begins; it moves the counter by `counter_steps(size)`.
    """
    source, target = contiguous_in(x, out).reshape(-1), out.reshape(-1)
    scale = _scale(p)

    def tile(where: slice, keep: Array, tied: Array) -> None:
        count = where.stop - where.start
        keep, part = keep[:count], target[where]
        _draw_tile(keep, tied[:count], where.start, p, key, counter)
        pack_tile(keep, mask_bits, where)
        keep_tile(source[where], keep, part)
        np.multiply(part, scale, part)

    step = min(max(out.size, 1), DRAW_TILE)
    with numpy_workspace(1, out.size, DRAW_TILE):
        parallel_slices(tile, out.size, DRAW_TILE, [((step,), BOOL), ((step,), BOOL)])


def alpha_dropout(
    x: Array,
    out: Array,
    mask_bits: Array,
    *,
    p: float,
    key: int,
    counter: int,
    scale: float,
    shift: float,
    dropped: float,
) -> None:
    """``out = x * scale + shift`` where an element is kept, else ``dropped``; what is kept is drawn as in `dropout`."""
    source, target = contiguous_in(x, out).reshape(-1), out.reshape(-1)

    def tile(where: slice, keep: Array, tied: Array) -> None:
        count = where.stop - where.start
        keep, part = keep[:count], target[where]
        _draw_tile(keep, tied[:count], where.start, p, key, counter)
        pack_tile(keep, mask_bits, where)
        np.multiply(source[where], scale, part)
        np.add(part, shift, part)
        np.copyto(part, dropped, where=np.logical_not(keep, keep))

    step = min(max(out.size, 1), DRAW_TILE)
    with numpy_workspace(1, out.size, DRAW_TILE):
        parallel_slices(tile, out.size, DRAW_TILE, [((step,), BOOL), ((step,), BOOL)])


def dropout_mask(mask_bits: Array, *, size: int, p: float, key: int, counter: int) -> None:
    """Fill ``mask_bits`` as `dropout` of ``size`` elements does."""
    if size <= _FEW:
        keep, tied = np.empty((2, size), BOOL)
        _draw_tile(keep, tied, 0, p, key, counter)
        mask_bits[...] = np.packbits(keep)
        return

    def tile(where: slice, keep: Array, tied: Array) -> None:
        count = where.stop - where.start
        _draw_tile(keep[:count], tied[:count], where.start, p, key, counter)
        pack_tile(keep[:count], mask_bits, where)

    step = min(max(size, 1), DRAW_TILE)
    with numpy_workspace(1, size, DRAW_TILE):
        parallel_slices(tile, size, DRAW_TILE, [((step,), BOOL), ((step,), BOOL)])


def dropout_backward(grad: Array, mask_bits: Array, grad_x: Array, *, p: float) -> None:
    """``grad_x = grad / (1 - p)`` where the bit is set, else 0. ``grad_x`` may be ``grad``."""
    scale = _scale(p)

    def tile(grad: Array, grad_x: Array, where: slice) -> None:
        select_tile(grad, mask_bits[where], grad_x)
        np.multiply(grad_x, scale, grad_x)

    map_bits(tile, grad, grad_x)


def _scale(p: float) -> float:
    return 1 / (1 - p) if p < 1 else 1.0  # no bit is set then


def _draw_tile(keep: Array, tied: Array, start: int, p: float, key: int, counter: int) -> None:
    """Draw which elements of a tile are kept; ``tied`` is scratch."""
    if p <= 0 or p >= 1:
        keep.fill(p <= 0)
        return
    threshold = int(p * 256)
    rest = p * 256 - threshold
    drawn = raw_words(key, counter, start, packed_size(keep.size)).view(np.uint8)[: keep.size]
    np.greater_equal(drawn, threshold, keep)
    if rest > 0:
        np.equal(drawn, threshold, tied)
        places = np.flatnonzero(tied)
        again = raw_words(key, counter + _SECOND_STREAM, start, -(-places.size // 2)).view(np.uint32)
        keep[places] = again[: places.size] >= rest * 2**32
