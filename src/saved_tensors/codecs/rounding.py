"""The lossy codecs' arithmetic where the values are: the same functions for CuPy and for NumPy, ``xp``.

They take and give flat arrays of a few million elements at most: their temporaries are as large.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..layout import Array

# Elements that are taken at a time on a device.
CHUNK = 1 << 22
_HIDDEN = 16
_HALF = 0x7FFF
_QUIET = 0x40
_INFINITE = 0x7F80
_UNSIGNED = 0x7FFF


def bfloat16_bits(xp: Any, numbers: Array) -> Array | None:
    """The nearest bfloat16 as its bits; None where a finite number is beyond float32.

    A finite number that would round to infinity becomes the largest bfloat16.
    """
    with np.errstate(over="ignore"):
        narrow = numbers.astype(np.float32)
    if numbers.dtype != np.float32 and bool((xp.isinf(narrow) & xp.isfinite(numbers)).any()):
        return None
    bits = narrow.view(np.uint32)
    odd = (bits >> np.uint32(_HIDDEN)) & np.uint32(1)
    rounded = (odd + np.uint32(_HALF) + bits) >> np.uint32(_HIDDEN)
    missing = xp.isnan(narrow)
    rounded = xp.where(missing, (bits >> np.uint32(_HIDDEN)) | np.uint32(_QUIET), rounded).astype(np.uint16)
    overflow = ((rounded & np.uint16(_UNSIGNED)) == np.uint16(_INFINITE)) & xp.isfinite(narrow)
    return rounded - overflow.astype(np.uint16)


def from_bfloat16_bits(bits: Array) -> Array:
    """The float32 numbers of bfloat16 bits."""
    return (bits.astype(np.uint32) << np.uint32(_HIDDEN)).view(np.float32)


def largest_finite(xp: Any, numbers: Array) -> float:
    """The largest absolute value among the finite numbers; 0 if there is none."""
    sizes = xp.absolute(numbers)
    return float(xp.where(xp.isfinite(sizes), sizes, sizes.dtype.type(0)).max())


def grid_of(xp: Any, rows: Array, steps: int) -> tuple[Array, Array] | None:
    """The smallest number and the step of each row; None if one is not finite, or too wide for its dtype."""
    low = rows.min(axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        width = rows.max(axis=1) - low
        if not bool(xp.isfinite(width).all()):
            return None
    return low, width / rows.dtype.type(steps)


def round_to_grid(
    xp: Any, rows: Array, grid: tuple[Array, Array], draws: Array, scratch: Array, steps: int, out: Array
) -> None:
    """The place of each element on its row's grid: down, or up with the probability that its rest says.

    Args:
        grid: of each row, as `grid_of` gives it.
        draws: random numbers from 0 to 1, like ``rows``; they are overwritten, and so is ``scratch``.
        steps: how many a grid has.
        out: bytes, like ``rows``.
    """
    low, step = grid
    tiny = np.finfo(rows.dtype).tiny
    inverse = xp.where(step > tiny, 1 / xp.where(step > tiny, step, rows.dtype.type(1)), rows.dtype.type(0))
    xp.subtract(rows, low[:, None], out=scratch)
    scratch *= inverse[:, None]
    draws += scratch
    xp.clip(draws, 0, steps, out=draws)
    out[...] = draws  # none is negative: cutting off the rest rounds down
