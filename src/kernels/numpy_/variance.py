"""Variance, its derivative, sums without NaN, and which elements equal what they were reduced to: in tiles."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..executor import Array, parallel_slices, scratch
from .bits import pack_tile
from .lines import sum_mapped, working
from .reduce import mean as _mean
from .tiling import BOOL, FLOAT64, UNTILED, elementwise, map_tiles, numpy_workspace, tile_size

__all__ = [
    "mark_equal",
    "nansum",
    "var_backward",
    "var_mean",
]


_LANES, _MOST_A_LANE = 8, 256  # bytes of a word, and what one of them can't hold


def var_mean(x: Array, var: Array, mean: Array, *, axes: tuple[int, ...] | None = None, correction: float = 1) -> None:
    """``mean = x.mean(axes)``, ``var = sum((x - mean)**2) / (count - correction)``; in two passes."""
    wide = working(x.dtype)
    shape = keepdims_shape(x, axes)
    exact = wide == x.dtype
    means, squares = (mean, var) if exact else (scratch(mean.shape, wide), scratch(var.shape, wide))
    _mean(x, means, axes=axes)
    sum_mapped(_square_deviation, x, [means.reshape(shape)], squares, axes=axes)
    count = x.size // max(var.size, 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        np.divide(squares, max(0.0, count - correction), var, casting="same_kind")
    if not exact:
        np.copyto(mean, means, casting="same_kind")


def var_backward(
    grad: Array, x: Array, mean: Array, grad_x: Array, *, axes: tuple[int, ...] | None = None, scale: float = 1.0
) -> None:
    """``grad_x = scale * grad * (x - mean)``; ``grad`` and ``mean`` have the reduced axes as 1 or not at all."""
    shape = keepdims_shape(x, axes)
    spread = [np.broadcast_to(array.reshape(shape), x.shape) for array in (grad, mean)]

    def tile(grad: Array, x: Array, mean: Array, grad_x: Array) -> None:
        with np.errstate(invalid="ignore"):
            np.subtract(x, mean, grad_x)
            np.multiply(grad_x, grad, grad_x)
            np.multiply(grad_x, scale, grad_x)

    map_tiles(tile, [spread[0], x, spread[1], grad_x])


def mark_equal(x: Array, result: Array, mask_bits: Array, count: Array, *, axes: tuple[int, ...] | None = None) -> None:
    """Set the bits of the elements that equal what their axes were reduced to, and count them; NaN equals NaN here.

    Args:
        x: of any strides.
        result, count: with the reduced axes as 1 or not at all; ``count`` is an out.
        mask_bits: an out, of uint8.
    """
    shape = keepdims_shape(x, axes)
    result = result.reshape(shape)
    equal = _is_equal_or_nan if np.isnan(result).any() else _is_equal
    gone = [axis for axis, length in enumerate(shape) if length != x.shape[axis]]
    if gone and x.flags.c_contiguous and x.size <= UNTILED and set(shape[gone[0] :]) == {1}:
        length = math.prod(x.shape[gone[0] :])
        if length % _LANES == 0 and 0 < length < _LANES * _MOST_A_LANE:
            _mark_lines(equal, x.reshape(-1, length), result.reshape(-1, 1), mask_bits, count.reshape(-1))
            return
    exact = scratch(count.shape, working(x.dtype))
    sum_mapped(equal, x, [result], exact, axes=axes)
    np.copyto(count, exact, casting="same_kind")
    first, last = (gone[0], gone[-1] + 1) if gone else (x.ndim, x.ndim)
    slab = math.prod(x.shape[first:])
    side_by_side = all(shape[axis] == 1 for axis in range(first, last))
    if x.flags.c_contiguous and side_by_side and 0 < slab <= UNTILED:
        cube = x.reshape(-1, math.prod(x.shape[first:last]), math.prod(x.shape[last:]))
        _mark_slabs(equal, cube, result.reshape(len(cube), 1, -1), mask_bits)
    else:
        _mark_flat(equal, x, np.broadcast_to(result, x.shape), mask_bits)


def _mark_lines(equal: Callable[..., None], x: Array, result: Array, mask_bits: Array, count: Array) -> None:
    """Lines of few bytes of bools, which are counted eight side by side."""
    keep = scratch(x.shape, BOOL)
    equal(x, result, keep)
    pack_tile(keep.reshape(-1), mask_bits, slice(0, x.size))
    lanes = np.add.reduce(keep.view(np.uint64), axis=1)
    np.add.reduce(lanes.view(np.uint8).reshape(-1, _LANES), axis=1, out=count, dtype=count.dtype)


def _mark_slabs(equal: Callable[..., None], x: Array, result: Array, mask_bits: Array) -> None:
    """Eight slabs at a time, or a multiple: they begin with a whole byte of the mask."""
    outer, slab = len(x), x.shape[1] * x.shape[2]
    step = -(-tile_size(x.size, FLOAT64) // (8 * slab)) * 8

    def tile(where: slice, keep: Array) -> None:
        part = x[where]
        made = keep[: part.size]
        equal(part, result[where], made.reshape(part.shape))
        pack_tile(made, mask_bits, slice(where.start * slab, where.start * slab + part.size))

    with numpy_workspace(1, x.size, step * slab):
        parallel_slices(tile, outer, step, [((min(step, outer) * slab,), BOOL)])


def _mark_flat(equal: Callable[..., None], x: Array, result: Array, mask_bits: Array) -> None:
    """Elements in C order, whatever their strides."""
    step = tile_size(x.size, FLOAT64)

    def tile(where: slice, keep: Array) -> None:
        made = keep[: where.stop - where.start]
        equal(x.flat[where], result.flat[where], made)
        pack_tile(made, mask_bits, where)

    with numpy_workspace(2 * x.itemsize + 1, x.size, step):
        parallel_slices(tile, x.size, step, [((step,), BOOL)])


def nansum(x: Array, out: Array, *, axes: tuple[int, ...] | None = None) -> None:
    """``out = x.sum(axes)`` of what is not NaN."""
    exact = out if working(x.dtype) == out.dtype else scratch(out.shape, working(x.dtype))
    sum_mapped(_numbers, x, [], exact, axes=axes)
    if exact is not out:
        np.copyto(out, exact, casting="same_kind")


def keepdims_shape(x: Array, axes: tuple[int, ...] | None) -> tuple[int, ...]:
    """The shape of ``x`` with the reduced axes as 1."""
    gone = set(range(x.ndim)) if axes is None else {axis % x.ndim for axis in axes}
    return tuple(1 if axis in gone else length for axis, length in enumerate(x.shape))


def _square_deviation(x: Array, mean: Array, work: Array) -> None:
    with np.errstate(invalid="ignore"):
        np.subtract(x, mean, work)
        np.multiply(work, work, work)


def _numbers(x: Array, work: Array) -> None:
    np.copyto(work, x)
    np.copyto(work, 0, where=np.isnan(work))


def _is_equal(x: Array, result: Array, work: Array) -> None:
    elementwise(np.equal, x, result, work)


def _is_equal_or_nan(x: Array, result: Array, work: Array) -> None:
    np.equal(x, result, out=work)
    np.copyto(work, True, where=np.isnan(x) & np.isnan(result))
