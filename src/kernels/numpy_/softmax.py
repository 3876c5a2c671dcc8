"""Soft-max, its logarithm and log-sum-exp along one axis, forward and backward.

``out`` and ``grad_x`` may be one of the inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..executor import Array, parallel_for, scratch, scratch_set
from .rows import SUMMED, max_of_rows, sum_of_products, sum_of_rows
from .tiling import UNTILED, contiguous, contiguous_in, in_rows, map_tiles, tile_size

__all__ = [
    "log_softmax",
    "log_softmax_backward",
    "logsumexp",
    "logsumexp_backward",
    "softmax",
    "softmax_backward",
]


def softmax(x: Array, out: Array, *, axis: int = -1) -> None:
    """``out = exp(x) / sum(exp(x))`` along ``axis``."""
    _along(_softmax_block, [contiguous_in(x, out), out], axis)


def log_softmax(x: Array, out: Array, *, axis: int = -1) -> None:
    """``out = x - log(sum(exp(x)))`` along ``axis``."""
    _along(_log_softmax_block, [contiguous_in(x, out), out], axis, with_block=True)


def logsumexp(x: Array, out: Array, *, axis: int | tuple[int, ...] = -1) -> None:
    """``out = log(sum(exp(x)))`` along one axis or several; ``out`` has them as 1 or not at all."""
    x, axis = _one_axis(x, axis)
    x = contiguous(x)
    _along(_logsumexp_block, [x, _with_axis(out, x, axis)], axis, with_block=True)


def softmax_backward(grad: Array, y: Array, grad_x: Array, *, axis: int = -1) -> None:
    """``grad_x = y * (grad - sum(grad * y))`` with the forward's result ``y``."""
    _backward(_softmax_backward_block, grad, y, grad_x, axis)


def log_softmax_backward(grad: Array, y: Array, grad_x: Array, *, axis: int = -1) -> None:
    """``grad_x = grad - exp(y) * sum(grad)`` with the forward's result ``y``."""
    _backward(_log_softmax_backward_block, grad, y, grad_x, axis)


def logsumexp_backward(grad: Array, x: Array, lse: Array, grad_x: Array, *, axis: int | tuple[int, ...] = -1) -> None:
    """``grad_x = grad * exp(x - lse)`` with the forward's result ``lse``; ``grad`` has its shape."""
    axes = (axis,) if isinstance(axis, int) else axis
    if np.isneginf(lse).any():  # all were: inf - inf would be NaN
        finite = scratch(lse.shape, lse.dtype)
        np.copyto(finite, lse)
        np.copyto(finite, 0, where=np.isneginf(lse))
        lse = finite
    spread = [np.broadcast_to(_with_axis(contiguous(a), x, *axes), x.shape) for a in (grad, lse)]
    map_tiles(_logsumexp_backward_tile, [spread[0], x, spread[1], grad_x])


def _backward(body: Callable[..., None], grad: Array, y: Array, grad_x: Array, axis: int) -> None:
    """`_along` with a scratch block in place of ``grad_x`` if that is one of the inputs."""
    in_place = np.may_share_memory(grad, grad_x) or np.may_share_memory(y, grad_x)
    _along(body, [contiguous(grad), contiguous(y), grad_x], axis, with_block=in_place)


def _one_axis(x: Array, axis: int | tuple[int, ...]) -> tuple[Array, int]:
    """``x`` with several axes made one, the last, and which it is."""
    if isinstance(axis, int):
        return x, axis
    if len(axis) == 1:
        return x, axis[0]
    gone = [a % x.ndim for a in axis]
    kept = [a for a in range(x.ndim) if a not in gone]
    moved = contiguous(x.transpose(*kept, *gone))
    return moved.reshape(*moved.shape[: len(kept)], math.prod(moved.shape[len(kept) :])), -1


def _with_axis(reduced: Array, x: Array, *axes: int) -> Array:
    gone = {axis % x.ndim for axis in axes}
    return reduced.reshape([1 if axis in gone else length for axis, length in enumerate(x.shape)])


def _along(body: Callable[..., None], arrays: list[Array], axis: int, *, with_block: bool = False) -> None:
    """Call ``body`` on blocks (outer, length, inner) of C-contiguous arrays, each with the whole of ``axis``.

    The first two axes are all there is if ``axis`` is the last one. A scratch column (outer, 1, inner) follows, and a
    scratch block if ``with_block``.
    """
    shape, dtype = arrays[0].shape, arrays[0].dtype
    if arrays[0].size == 0:
        return
    if not shape:
        arrays, shape = [array.reshape(1) for array in arrays], (1,)
    axis %= len(shape)
    length, inner = shape[axis], math.prod(shape[axis + 1 :])
    if inner == 1 and arrays[0].size <= UNTILED:
        rows = arrays[0].size // length
        specs = [((rows, 1), dtype)] + [((rows, length), dtype)] * with_block
        with in_rows(length, arrays[0].size):
            body(*[a.reshape(rows, a.shape[axis]) for a in arrays], *scratch_set(specs))
        return
    cubes = [a.reshape(-1, a.shape[axis], inner) for a in arrays]
    outer = len(cubes[0])
    tile = max(tile_size(arrays[0].size, dtype), length)
    width = min(inner, tile // length)
    batch = max(1, tile // (length * width)) if width == inner else 1
    widths, batches = -(-inner // width), -(-outer // batch)

    def block(index: int, column: Array, *work: Array) -> None:
        first, across = divmod(index, widths)
        rows, columns = slice(first * batch, (first + 1) * batch), slice(across * width, (across + 1) * width)
        views = [cube[rows, :, columns] for cube in cubes]
        count, _, wide = views[0].shape
        shape = (count, length, wide)
        views += [column[: count * wide].reshape(count, 1, wide)]
        views += [buffer[: math.prod(shape)].reshape(shape) for buffer in work]
        with in_rows(length if inner == 1 else wide, views[0].size):
            body(*[view[:, :, 0] for view in views] if inner == 1 else views)

    specs = [((batch * width,), dtype)] + [((batch * width * length,), dtype)] * with_block
    parallel_for(block, batches * widths, specs)


def _max(x: Array, column: Array) -> None:
    if x.ndim == 2:
        max_of_rows(x, column[:, 0])
    else:
        np.maximum.reduce(x, axis=1, keepdims=True, out=column)


def _sum(x: Array, column: Array) -> None:
    if x.ndim == 2:
        sum_of_rows(x, column[:, 0])
    else:
        np.add.reduce(x, axis=1, keepdims=True, out=column)


def _softmax_block(x: Array, out: Array, column: Array) -> None:
    with np.errstate(invalid="ignore"):
        _max(x, column)
        np.subtract(x, column, out)
        np.exp(out, out)
        _sum(out, column)
        if out.dtype in SUMMED:  # a sum is at least 1, or NaN; a division takes twice as long as a product
            np.multiply(out, np.reciprocal(column, column), out)
        else:
            np.divide(out, column, out)


def _log_softmax_block(x: Array, out: Array, column: Array, work: Array) -> None:
    with np.errstate(invalid="ignore"):
        _max(x, column)
        np.subtract(x, column, out)
        np.exp(out, work)
        _sum(work, column)
        np.log(column, column)
        np.subtract(out, column, out)


def _logsumexp_block(x: Array, out: Array, column: Array, work: Array) -> None:
    with np.errstate(invalid="ignore", divide="ignore"):
        _max(x, column)
        # Infinite maxima are not subtracted: inf - inf is NaN, while exp and log of infinities are right.
        np.copyto(column, 0, where=np.isinf(column))
        np.subtract(x, column, work)
        np.exp(work, work)
        _sum(work, out)
        np.log(out, out)
        np.add(out, column, out)


def _softmax_backward_block(grad: Array, y: Array, grad_x: Array, column: Array, work: Array | None = None) -> None:
    work = grad_x if work is None else work
    if grad.ndim == 2:
        sum_of_products(grad, y, column[:, 0], work)
    else:
        np.multiply(grad, y, work)
        _sum(work, column)
    np.subtract(grad, column, work)
    np.multiply(work, y, grad_x)


def _log_softmax_backward_block(grad: Array, y: Array, grad_x: Array, column: Array, work: Array | None = None) -> None:
    work = grad_x if work is None else work
    _sum(grad, column)
    np.exp(y, work)
    np.multiply(work, column, work)
    np.subtract(grad, work, grad_x)


def _logsumexp_backward_tile(grad: Array, x: Array, lse: Array, grad_x: Array) -> None:
    with np.errstate(invalid="ignore"):
        np.subtract(x, lse, grad_x)
        np.exp(grad_x, grad_x)
        np.multiply(grad_x, grad, grad_x)
