"""Marks of one bit an element that backward needs in place of operands, in `numpy.packbits`' layout."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

from ..executor import Array, parallel_slices
from .bits import map_bits, pack_tile, select_tile
from .tiling import BOOL, FLOAT64, is_contiguous, numpy_workspace, tile_size

__all__ = [
    "keep_marked",
    "mark",
    "mark_between",
    "mark_finite",
    "mark_inside",
    "share_marked",
    "turn_marked",
]

# What `mark` can ask of two elements: NumPy's function, and whether its contrary is meant (true with NaN).
_RELATIONS: dict[str, tuple[np.ufunc, bool]] = {
    "less": (np.less, False),
    "less_equal": (np.less_equal, False),
    "greater": (np.greater, False),
    "greater_equal": (np.greater_equal, False),
    "not_equal": (np.not_equal, False),
    "not_less": (np.less, True),
    "not_greater": (np.greater, True),
}


# Up to so many elements NumPy makes what is needed in between: tiles would take longer than the work.
_SMALL = 2048
_ALL_BITS = 0xFF


def mark(x: Any, y: Any, mask_bits: Array, *, shape: tuple[int, ...], relation: str, or_nan: bool = False) -> None:
    """Set the bits where a relation holds between operands that broadcast to a shape.

    Args:
        x: an array or a number.
        y: an array or a number.
        mask_bits: of uint8.
        shape: what they broadcast to.
        relation: one of ``_RELATIONS``.
        or_nan: whether the bit is set where ``y`` is NaN, too.
    """
    ufunc, contrary = _RELATIONS[relation]

    def test(a: Any, b: Any, keep: Array) -> None:
        ufunc(a, b, keep)
        if contrary:
            np.logical_not(keep, keep)
        if or_nan:
            np.logical_or(keep, np.isnan(b), keep)

    _mark([x, y], mask_bits, shape, test, int(or_nan))


def mark_inside(x: Array, mask_bits: Array, *, low: float | None = None, high: float | None = None) -> None:
    """Set the bits where ``low <= x <= high``; a bound of None doesn't count."""

    def test(a: Any, keep: Array) -> None:
        if low is None:
            np.less_equal(a, math.inf if high is None else high, keep)
        else:
            np.greater_equal(a, low, keep)
            if high is not None:
                np.logical_and(keep, np.less_equal(a, high), keep)

    _mark([x], mask_bits, x.shape, test, int(low is not None and high is not None))


def mark_finite(x: Array, mask_bits: Array) -> None:
    """Set the bits where ``x`` is neither NaN nor infinite."""
    _mark([x], mask_bits, x.shape, np.isfinite)


def _mark(
    operands: list[Any], mask_bits: Array, shape: tuple[int, ...], test: Callable[..., Any], made: int = 0
) -> None:
    """Fill a mask from ``test(*tiles of the operands, tile of bool)``, which makes so many bools an element itself."""
    size = math.prod(shape)
    if size <= _SMALL:
        keep = np.empty(shape, BOOL)
        test(*operands, keep)
        mask_bits[...] = np.packbits(keep)
        return
    given = [_spread(value, shape) for value in operands]
    step = tile_size(size, FLOAT64)

    def tile(where: slice, keep: Array) -> None:
        keep = keep[: where.stop - where.start]
        test(*[_part(value, where) for value in given], keep)
        pack_tile(keep, mask_bits, where)

    allocated = made + sum([value.itemsize for value in given if np.ndim(value) > 1])
    with numpy_workspace(allocated, size, step) if allocated else nullcontext():
        parallel_slices(tile, size, step, [((step,), BOOL)])


def _spread(value: Any, shape: tuple[int, ...]) -> Any:
    """A number, a line of the elements in C order, or what is no line without a copy."""
    if np.ndim(value) == 0:
        return value[()] if isinstance(value, np.ndarray) else value
    if value.shape == shape and is_contiguous(value):
        return value.reshape(-1)
    return np.broadcast_to(value, shape)


def _part(value: Any, where: slice) -> Any:
    if np.ndim(value) == 0:
        return value
    return value[where] if value.ndim == 1 else value.flat[where]  # an iterator of its own for each thread


def mark_between(x: Array, low: Any, high: Any, kept_bits: Array, low_bits: Array, *, shape: tuple[int, ...]) -> None:
    """Say with two bits what of ``x`` held between ``low`` and ``high`` (None doesn't count) gets the gradient.

    The first alone: ``x`` does; the second alone: ``low``; neither: ``high``; both: nothing, as with NaN.
    """
    bounds = [-math.inf if low is None else low, math.inf if high is None else high]

    def kept(x: Any, low: Any, high: Any, keep: Array) -> None:
        np.logical_and(x >= low, x <= high, keep)
        np.logical_or(keep, _taken_by_none(x, low, high), keep)

    def by_low(x: Any, low: Any, high: Any, keep: Array) -> None:
        np.logical_and(x < low, low < high, keep)
        np.logical_or(keep, _taken_by_none(x, low, high), keep)

    _mark([x, *bounds], kept_bits, shape, kept, 5)
    _mark([x, *bounds], low_bits, shape, by_low, 5)


def _taken_by_none(x: Any, low: Any, high: Any) -> Any:
    """Where nothing gets the gradient: neither ``x`` inside nor ``low`` above it nor ``high`` below it or ``low``."""
    taken = (x >= low) & (x <= high)
    taken |= (x < low) & (low < high)
    taken |= (x > high) | (high < low)
    return ~taken


def _unpacked(mask_bits: Array, like: Array) -> Array:
    """A mask as bools, for small arrays."""
    return np.unpackbits(mask_bits, count=like.size).view(BOOL).reshape(like.shape)


def keep_marked(x: Array, mask_bits: Array, out: Array, *, contrary: bool = False) -> None:
    """``out = x`` where the bit is set (where it isn't, if ``contrary``), else 0."""
    if out.size <= _SMALL:
        kept = x.copy()
        kept[_unpacked(mask_bits, x) == contrary] = 0
        np.copyto(out, kept)
        return

    def tile(x: Array, out: Array, where: slice) -> None:
        bits = mask_bits[where]
        select_tile(x, np.bitwise_not(bits) if contrary else bits, out)

    map_bits(tile, x, out)


def share_marked(x: Array, own_bits: Array, other_bits: Array, out: Array) -> None:
    """``out = x`` where only one's own bit is set, half of it where both are, else 0."""
    if out.size <= _SMALL:
        shared = np.where(_unpacked(other_bits, x), x * x.dtype.type(0.5), x)
        shared[~_unpacked(own_bits, x)] = 0
        np.copyto(out, shared)
        return

    def tile(x: Array, out: Array, where: slice) -> None:
        select_tile(x, own_bits[where], out)
        both = np.bitwise_and(own_bits[where], other_bits[where])
        if both.any():
            sharing = np.unpackbits(both, count=out.size).view(np.int8)
            np.add(sharing, 1, sharing)
            np.divide(out, sharing, out)

    map_bits(tile, x, out)


def turn_marked(x: Array, plus_bits: Array, minus_bits: Array, out: Array) -> None:
    """``out = x`` where the first mask has a bit, ``-x`` where the second has one, else 0."""
    if out.size <= _SMALL:
        turned = np.where(_unpacked(minus_bits, x), -x, x)
        turned[~(_unpacked(plus_bits, x) | _unpacked(minus_bits, x))] = 0
        np.copyto(out, turned)
        return

    def tile(x: Array, out: Array, where: slice) -> None:
        kept = np.bitwise_or(plus_bits[where], minus_bits[where])
        if out.size % 8 or not (kept == _ALL_BITS).all():
            select_tile(x, kept, out)
            x = out
        sign = np.unpackbits(minus_bits[where], count=out.size).view(np.int8)
        np.multiply(sign, -2, sign)
        np.add(sign, 1, sign)
        if np.may_share_memory(x, out):
            np.multiply(x, sign, out)
        else:  # cast there first: NumPy's buffer would take half as long again
            np.copyto(out, sign)
            np.multiply(x, out, out)

    map_bits(tile, x, out, unpacked=2)
