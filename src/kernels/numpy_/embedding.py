"""Rows of a table by index, and the sum of gradients by row."""

from __future__ import annotations

import math

import numpy as np

from ... import memory
from ..executor import Array, parallel_for, parallel_slices
from .row_numbers import index_sums
from .rows import sum_of_columns
from .tiling import UNTILED, contiguous, copy_tiled, rows_per_tile

__all__ = [
    "embedding",
    "embedding_backward",
    "renorm_rows",
]


def embedding(weight: Array, indices: Array, out: Array) -> None:
    """``out[i..., :] = weight[indices[i...], :]``; indices are in range."""
    if out.size <= UNTILED and weight.flags.c_contiguous:
        weight.take(indices, axis=0, out=out, mode="clip")  # "raise" would copy twice
        return
    flat, rows = indices.reshape(-1), out.reshape(indices.size, math.prod(weight.shape[1:]))
    if flat.size == 0:
        return
    table = contiguous(weight).reshape(len(weight), rows.shape[1])

    def tile(where: slice) -> None:
        np.take(table, flat[where], axis=0, out=rows[where], mode="clip")

    parallel_slices(tile, len(rows), rows_per_tile(len(rows), rows.shape[1], rows.dtype))


def embedding_backward(
    grad: Array,
    indices: Array,
    grad_w: Array,
    *,
    padding_idx: int | None = None,
    by_frequency: bool = False,
    rows: Array | None = None,
    factors: Array | None = None,
) -> None:
    """``grad_w[r] = sum of grad[i] with indices[i] == r``; the row ``padding_idx`` stays 0.

    Args:
        grad: (n, columns).
        indices: (n,), in range.
        grad_w: an out, (rows, columns).
        by_frequency: whether each sum is divided by how many gradients it has.
        rows: (n,), the rows of ``grad`` that indices read instead of their own.
        factors: (n,), of what they read.
    """
    if rows is None and not by_frequency:
        index_sums(indices, grad, grad_w, axis=0)
    else:
        copy_tiled(0, grad_w)
        if grad.size == 0 or indices.size == 0:
            return
        _add_read(grad, indices, grad_w, by_frequency, rows, factors)
    if padding_idx is not None:
        grad_w[padding_idx] = 0


def _add_read(
    grad: Array, indices: Array, grad_w: Array, by_frequency: bool, rows: Array | None, factors: Array | None
) -> None:
    """Add the rows of ``grad`` that indices read, times their factors, to zeros."""
    with memory.pool(memory.CPU).charge(5 * 8 * indices.size):  # order, ordered, starts and NumPy's work on them
        order = np.argsort(indices, kind="stable")
        ordered = indices[order]
        starts = np.concatenate([[0], np.flatnonzero(ordered[1:] != ordered[:-1]) + 1, [len(order)]])
        read = order if rows is None else rows[order]
        weights = None if factors is None else factors[order]
        sum_segments(contiguous(grad), read, starts, ordered[starts[:-1]], grad_w, weights)
        if by_frequency:
            _divide_rows(grad_w, ordered[starts[:-1]], np.diff(starts))


def _divide_rows(table: Array, rows: Array, counts: Array) -> None:
    """``table[rows] /= counts``, some rows at a time."""
    step = rows_per_tile(len(rows), table.shape[1], table.dtype)
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        table[part] = table[part] / counts[start : start + step, None]


def renorm_rows(weight: Array, indices: Array, *, max_norm: float, norm_type: float) -> None:
    """Scale the rows of ``weight`` (rows, columns) that ``indices`` name down to ``max_norm``, in place."""
    rows = np.unique(indices)
    step = rows_per_tile(len(rows), weight.shape[1], weight.dtype)
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        values = weight[part]
        norms = np.linalg.vector_norm(values.astype(np.float64), ord=norm_type, axis=1)
        long = norms > max_norm
        scales = max_norm / (norms[long, None] + 1e-7)
        weight[part[long]] = (values[long] * scales).astype(weight.dtype)


def sum_segments(
    grad: Array, order: Array, starts: Array, targets: Array, grad_w: Array, factors: Array | None = None
) -> None:
    """``grad_w[targets[s]] = sum of grad[order[starts[s] : starts[s + 1]]]``, times their factors; none is empty.

    A tile has the segments that start in its stretch of ``order``; the last of them may be long.
    """
    columns = grad.shape[1]
    step = rows_per_tile(len(order), columns, grad.dtype)

    def tile(index: int, gathered: Array) -> None:
        first, last = np.searchsorted(starts[:-1], [index * step, (index + 1) * step])
        while first < last:
            begin = starts[first]
            # As many segments as fit, or one that does not.
            stop = max(first + 1, min(last, np.searchsorted(starts, begin + len(gathered), side="right") - 1))
            if starts[stop] - begin > len(gathered):
                place = slice(begin, starts[stop])
                weights = None if factors is None else factors[place]
                _sum_long(grad, order[place], weights, gathered, grad_w[targets[first]])
            else:
                rows = gathered[: starts[stop] - begin]
                np.take(grad, order[begin : starts[stop]], axis=0, out=rows, mode="clip")
                if factors is not None:
                    np.multiply(rows, factors[begin : starts[stop], None], rows)
                _sum_short(rows, starts[first : stop + 1] - begin, targets[first:stop], grad_w)
            first = stop

    parallel_for(tile, -(-len(order) // step), [((step, columns), grad.dtype)])


def _sum_short(rows: Array, starts: Array, targets: Array, grad_w: Array) -> None:
    single = np.diff(starts) == 1
    grad_w[targets[single]] = rows[starts[:-1][single]]
    for segment in np.flatnonzero(~single):
        sum_of_columns(rows[starts[segment] : starts[segment + 1]], grad_w[targets[segment]])


def _sum_long(grad: Array, order: Array, factors: Array | None, gathered: Array, out: Array) -> None:
    """The sum of more rows than fit into scratch, a scratch-full at a time, in an ``out`` of zeros."""
    for begin in range(0, len(order), len(gathered)):
        part = order[begin : begin + len(gathered)]
        rows = gathered[: len(part)]
        np.take(grad, part, axis=0, out=rows, mode="clip")
        if factors is not None:
            np.multiply(rows, factors[begin : begin + len(part), None], rows)
        np.add(out, np.add.reduce(rows, axis=0), out)
