"""Layer norm and RMS norm over the rows of a matrix, and biases: forward and backward.

Sums over rows (gradients of weights and biases) are taken tile by tile and combined in the tiles' order.
``out`` and ``grad_x`` may be one of the inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..executor import Array, parallel_slices, scratch
from .reduce import sum as sum_over
from .rows import SUMMED, combine, sum_of_columns, sum_of_products, sum_of_rows
from .tiling import TILE_BYTES, DType, elementwise, in_rows, rows_per_tile

__all__ = [
    "add_bias",
    "bias_grad",
    "layer_norm",
    "layer_norm_backward",
    "rms_norm",
    "rms_norm_backward",
]


def layer_norm(
    x: Array, weight: Array | None, bias: Array | None, out: Array, mean: Array, rstd: Array, *, eps: float
) -> None:
    """``out = (x - mean) * rstd * weight + bias`` for each row of ``x`` (rows, columns).

    ``mean`` and ``rstd`` (rows,) are outs too: all that backward needs beside ``x``.
    """

    def tile(where: slice, column: Array, *squares: Array) -> None:
        part, m, r = out[where], mean[where], rstd[where]
        _mean_of_rows(x[where], m)
        np.subtract(x[where], m[:, None], part)
        sum_of_products(part, part, r, *squares)
        np.multiply(r, 1 / x.shape[1], r)
        _reciprocal_root(r, eps)
        np.multiply(part, r[:, None], part)
        if weight is not None:
            np.multiply(part, weight, part)
        if bias is not None:
            np.add(part, bias, part)

    _over_rows(tile, x, 0 if x.dtype in SUMMED else 1)


def layer_norm_backward(
    grad: Array,
    x: Array,
    weight: Array | None,
    mean: Array,
    rstd: Array,
    grad_x: Array | None,
    grad_w: Array | None,
    grad_b: Array | None,
) -> None:
    """The gradients of `layer_norm` that are asked for: those that are not None."""
    sums = ColumnSums(x, [grad_w, grad_b])

    def tile(where: slice, column: Array, normal: Array, work: Array) -> None:
        g, r = grad[where], rstd[where][:, None]
        np.subtract(x[where], mean[where][:, None], normal)
        np.multiply(normal, r, normal)
        np.multiply(g, normal, work)
        sums.add(0, where, work)
        sums.add(1, where, g)
        if grad_x is None:
            return
        _average(work, weight, column, work)
        np.multiply(normal, column, normal)
        _average(g, weight, column, work)
        np.add(normal, column, normal)
        part = grad_x[where]
        np.subtract(g if weight is None else np.multiply(g, weight, part), normal, part)
        np.multiply(part, r, part)

    _over_rows(tile, x, 2)
    sums.finish()


def rms_norm(x: Array, weight: Array | None, out: Array, rstd: Array, *, eps: float) -> None:
    """``out = x * rstd * weight`` with ``rstd = 1 / sqrt(mean(x * x) + eps)`` (rows,) for each row of ``x``."""

    def tile(where: slice, column: Array, *squares: Array) -> None:
        part, r = out[where], rstd[where]
        sum_of_products(x[where], x[where], r, *squares)
        np.multiply(r, 1 / x.shape[1], r)
        _reciprocal_root(r, eps)
        np.multiply(x[where], r[:, None], part)
        if weight is not None:
            np.multiply(part, weight, part)

    _over_rows(tile, x, 0 if x.dtype in SUMMED else 1)


def rms_norm_backward(
    grad: Array, x: Array, weight: Array | None, rstd: Array, grad_x: Array | None, grad_w: Array | None
) -> None:
    """The gradients of `rms_norm` that are asked for: those that are not None."""
    sums = ColumnSums(x, [grad_w])

    def tile(where: slice, column: Array, normal: Array, work: Array) -> None:
        g, r = grad[where], rstd[where][:, None]
        np.multiply(x[where], r, normal)
        np.multiply(g, normal, work)
        sums.add(0, where, work)
        if grad_x is None:
            return
        _average(work, weight, column, work)
        np.multiply(normal, column, normal)
        part = grad_x[where]
        np.subtract(g if weight is None else np.multiply(g, weight, part), normal, part)
        np.multiply(part, r, part)

    _over_rows(tile, x, 2)
    sums.finish()


def add_bias(x: Array, bias: Array, out: Array) -> None:
    """``out = x + bias`` for each row of ``x`` (rows, columns); ``out`` may be ``x``."""

    def tile(where: slice) -> None:
        elementwise(np.add, x[where], bias, out[where])

    parallel_slices(tile, len(x), rows_per_tile(len(x), x.shape[1], x.dtype))


def bias_grad(grad: Array, out: Array) -> None:
    """``out = grad.sum(0)`` of a matrix."""
    sum_over(grad, out, axes=(0,))


class ColumnSums:
    """Sums over the rows of tiles of ``like``'s shape, for those of ``outs`` that are wanted (not None)."""

    def __init__(self, like: Array, outs: Sequence[Array | None]) -> None:
        rows, columns = like.shape
        self._step = rows_of_a_tile(rows, columns, like.dtype)
        tiles = -(-rows // self._step)
        self._outs = outs
        self._partials = [None if out is None else self._parts(out, (tiles, columns)) for out in outs]

    def _parts(self, out: Array, shape: tuple[int, int]) -> Array:
        return out[None] if shape[0] == 1 else scratch(shape, out.dtype)

    def add(self, which: int, where: slice, tile: Array) -> None:
        partials = self._partials[which]
        if partials is not None:
            sum_of_columns(tile, partials[where.start // self._step])

    def finish(self) -> None:
        for out, partials in zip(self._outs, self._partials, strict=True):
            if out is not None and partials is not None and len(partials) != 1:
                combine(partials, out)


def _over_rows(body: Callable[..., None], x: Array, blocks: int) -> None:
    """Call ``body(rows, scratch column, *scratch blocks)`` for each tile of rows of ``x``."""
    rows, columns = x.shape
    step = rows_of_a_tile(rows, columns, x.dtype)

    def tile(where: slice, *buffers: Array) -> None:
        with in_rows(columns, (where.stop - where.start) * columns):
            body(where, *[buffer[: where.stop - where.start] for buffer in buffers])

    parallel_slices(tile, rows if columns else 0, step, [((step, 1), x.dtype)] + [((step, columns), x.dtype)] * blocks)


def rows_of_a_tile(rows: int, columns: int, dtype: DType) -> int:
    """Rows of which a tile has up to twice the usual size, where the matrix is large enough for two of these.

    Ten short steps go over each: with more to do in one, two threads meet less often at the interpreter's lock.
    """
    half = rows * columns * dtype.itemsize // 2
    return rows_per_tile(rows, columns, dtype, min(max(half, TILE_BYTES), 2 * TILE_BYTES))


def _mean_of_rows(x: Array, out: Array) -> None:
    sum_of_rows(x, out)
    np.multiply(out, 1 / x.shape[1], out)


def _average(x: Array, weight: Array | None, column: Array, work: Array) -> None:
    """``column = mean of the rows of x * weight``; ``work`` may be ``x``."""
    if weight is None:
        sum_of_rows(x, column[:, 0])
    else:
        sum_of_products(x, weight, column[:, 0], work)
    np.multiply(column, 1 / x.shape[1], column)


def _reciprocal_root(variance: Array, eps: float) -> None:
    np.add(variance, eps, variance)
    np.sqrt(variance, variance)
    np.reciprocal(variance, variance)
