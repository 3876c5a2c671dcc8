"""Layer norm and RMS norm over the rows of a matrix, and biases: forward and backward.

Sums over rows (gradients of weights and biases) are taken tile by tile and combined in the tiles' order.
``out`` and ``grad_x`` may be one of the inputs.
"""

from __future__ import annotations

import numpy as np

from ..executor import Array, parallel_slices
from .rank_one import MANY_ROWS, SHORT_ROW, outer
from .reduce import sum as sum_over
from .row_tiles import ColumnSums, over_rows
from .rows import SUMMED, sum_of_products, sum_of_rows
from .tiling import elementwise, rows_per_tile

__all__ = [
    "add_bias",
    "bias_grad",
    "layer_norm",
    "layer_norm_backward",
    "rms_norm",
    "rms_norm_backward",
]

_LEAST_FACTOR, _MOST_WEIGHT = 2.0**-20, 2.0**100  # see `_are_moderate`


def layer_norm(
    x: Array, weight: Array | None, bias: Array | None, out: Array, mean: Array, rstd: Array, *, eps: float
) -> None:
    """``out = (x - mean) * rstd * weight + bias`` for each row of ``x`` (rows, columns).

    ``mean`` and ``rstd`` (rows,) are outs too: all that backward needs beside ``x``.
    """
    by_outer = _by_outer(x, weight)

    def tile(where: slice, *work: Array) -> None:
        part, m, r = out[where], mean[where], rstd[where]
        _mean_of_rows(x[where], m)
        np.subtract(x[where], m[:, None], part)
        _rstd_of_rows(part, r, eps, *work)
        _scale(part, r, weight, part, work[0] if by_outer else None)
        if bias is not None:
            np.add(part, bias, part)

    over_rows(tile, x, 1 if by_outer or x.dtype not in SUMMED else 0)


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
    if x.dtype not in SUMMED:
        _half_backward(grad, x, weight, mean, rstd, grad_x, grad_w, grad_b)
        return
    sums = ColumnSums(x, [grad_w, grad_b])
    target, by_outer, share = _apart(grad_x, grad, x), _by_outer(x, weight), -1 / max(x.shape[1], 1)

    def tile(where: slice, numbers: Array, work: Array, *block: Array) -> None:
        g, r, centred = grad[where], rstd[where], block[0] if target is None else target[where]
        np.subtract(x[where], mean[where][:, None], centred)
        np.multiply(g, centred, work)
        sums.add(0, where, work, r)
        sums.add(1, where, g)
        if grad_x is None:
            return
        # With n = centred * rstd and h = grad * weight: grad_x = rstd * (h - mean(h) - n * mean(h * n)).
        slope, shift = numbers
        _sum_by_weight(work, weight, slope)
        _sum_by_weight(g, weight, shift)
        np.multiply(slope, r, slope)
        np.multiply(slope, r, slope)
        np.multiply(numbers, share, numbers)
        np.multiply(numbers, r, numbers)
        np.multiply(centred, slope[:, None], centred)
        np.add(centred, shift[:, None], centred)
        _scale(g, r, weight, work, work if by_outer else None)
        np.add(work, centred, grad_x[where])

    over_rows(tile, x, 2 if target is None else 1, 2)
    sums.finish()


def rms_norm(x: Array, weight: Array | None, out: Array, rstd: Array, *, eps: float) -> None:
    """``out = x * rstd * weight`` with ``rstd = 1 / sqrt(mean(x * x) + eps)`` (rows,) for each row of ``x``."""
    by_outer = _by_outer(x, weight)

    def tile(where: slice, *work: Array) -> None:
        _rstd_of_rows(x[where], rstd[where], eps, *work)
        _scale(x[where], rstd[where], weight, out[where], work[0] if by_outer else None)

    over_rows(tile, x, 1 if by_outer or x.dtype not in SUMMED else 0)


def rms_norm_backward(
    grad: Array, x: Array, weight: Array | None, rstd: Array, grad_x: Array | None, grad_w: Array | None
) -> None:
    """The gradients of `rms_norm` that are asked for: those that are not None."""
    if x.dtype not in SUMMED:
        _half_backward(grad, x, weight, None, rstd, grad_x, grad_w, None)
        return
    sums = ColumnSums(x, [grad_w])
    target, by_outer, share = _apart(grad_x, grad, x), _by_outer(x, weight), -1 / max(x.shape[1], 1)

    def tile(where: slice, numbers: Array, work: Array, *block: Array) -> None:
        g, r, slope = grad[where], rstd[where], numbers[0]
        np.multiply(g, x[where], work)
        sums.add(0, where, work, r)
        if grad_x is None:
            return
        scaled = block[0] if target is None else target[where]
        _sum_by_weight(work, weight, slope)
        np.multiply(slope, r, slope)
        np.multiply(slope, r, slope)
        np.multiply(slope, share, slope)
        np.multiply(slope, r, slope)
        np.multiply(x[where], slope[:, None], scaled)
        _scale(g, r, weight, work, work if by_outer else None)
        np.add(work, scaled, grad_x[where])

    over_rows(tile, x, 2 if target is None else 1, 1)
    sums.finish()


def _half_backward(
    grad: Array,
    x: Array,
    weight: Array | None,
    mean: Array | None,
    rstd: Array,
    grad_x: Array | None,
    grad_w: Array | None,
    grad_b: Array | None,
) -> None:
    """The gradients of `layer_norm`, without a mean of `rms_norm`: only normalised numbers are sure to fit here."""
    sums = ColumnSums(x, [grad_w, grad_b])

    def tile(where: slice, numbers: Array, normal: Array, work: Array) -> None:
        g, r = grad[where], rstd[where][:, None]
        centred = x[where] if mean is None else np.subtract(x[where], mean[where][:, None], normal)
        np.multiply(centred, r, normal)
        np.multiply(g, normal, work)
        sums.add(0, where, work)
        sums.add(1, where, g)
        if grad_x is None:
            return
        column = numbers[0][:, None]
        _average(work, weight, column, work)
        np.multiply(normal, column, normal)
        if mean is not None:
            _average(g, weight, column, work)
            np.add(normal, column, normal)
        part = grad_x[where]
        np.subtract(g if weight is None else np.multiply(g, weight, part), normal, part)
        np.multiply(part, r, part)

    over_rows(tile, x, 2, 1)
    sums.finish()


def add_bias(x: Array, bias: Array, out: Array) -> None:
    """``out = x + bias`` for each row of ``x`` (rows, columns); ``out`` may be ``x``."""

    def tile(where: slice) -> None:
        elementwise(np.add, x[where], bias, out[where])

    parallel_slices(tile, len(x), rows_per_tile(len(x), x.shape[1], x.dtype))


def bias_grad(grad: Array, out: Array) -> None:
    """``out = grad.sum(0)`` of a matrix."""
    sum_over(grad, out, axes=(0,))


def _mean_of_rows(x: Array, out: Array) -> None:
    sum_of_rows(x, out)
    np.multiply(out, 1 / x.shape[1], out)


def _rstd_of_rows(x: Array, out: Array, eps: float, *work: Array) -> None:
    """``out = 1 / sqrt(mean(x * x) + eps)`` of each row; ``work`` is used in half precision."""
    sum_of_products(x, x, out, *work)
    np.multiply(out, 1 / x.shape[1], out)
    np.add(out, eps, out)
    np.sqrt(out, out)
    np.reciprocal(out, out)


def _by_outer(x: Array, weight: Array | None) -> bool:
    """Whether rows are multiplied by an outer product, in place of a row and a column: if they are short and many."""
    return weight is not None and x.dtype in SUMMED and x.shape[1] <= SHORT_ROW and len(x) >= MANY_ROWS


def _scale(x: Array, by_row: Array, weight: Array | None, out: Array, work: Array | None) -> None:
    """``out = x * by_row[:, None] * weight``.

    With ``work``, which is overwritten, by an outer product; it may be ``out`` where this is not ``x``.
    """
    if work is not None and weight is not None and _are_moderate(by_row, weight):
        outer(by_row, weight, work)
        np.multiply(x, work, out)
        return
    np.multiply(x, by_row[:, None], out)
    if weight is not None:
        np.multiply(out, weight, out)


def _are_moderate(by_row: Array, weight: Array) -> bool:
    """Whether products of factors of rows and weights stay in the range of float32; not if one of them is NaN."""
    small = np.minimum.reduce(by_row) >= _LEAST_FACTOR and np.maximum.reduce(by_row) <= 1 / _LEAST_FACTOR
    return bool(small and np.minimum.reduce(weight) >= -_MOST_WEIGHT and np.maximum.reduce(weight) <= _MOST_WEIGHT)


def _apart(out: Array | None, *inputs: Array) -> Array | None:
    """``out`` if there is one and none of the inputs lies there, so that it may hold what is on the way."""
    for x in inputs:
        if out is not None and np.may_share_memory(out, x):
            return None
    return out


def _sum_by_weight(x: Array, weight: Array | None, out: Array) -> None:
    """``out[i] = sum(x[i] * weight)`` of floats of 32 or 64 bits."""
    if weight is None:
        sum_of_rows(x, out)
    else:
        sum_of_products(x, weight, out)


def _average(x: Array, weight: Array | None, column: Array, work: Array) -> None:
    """``column = mean of the rows of x * weight``; ``work`` may be ``x``."""
    if weight is None:
        sum_of_rows(x, column[:, 0])
    else:
        sum_of_products(x, weight, column[:, 0], work)
    np.multiply(column, 1 / x.shape[1], column)
