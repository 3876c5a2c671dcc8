"""Rows of a table by index, and the sum of gradients by row.

NOTE [ Sums by row ]
Atomic additions would give other roundings in every run. So the indices are sorted, and each row's gradients, now in
one stretch (a segment), are added up in their order: by a few lanes, each of which takes every so-manieth gradient, and
whose sums are then added in order too. There are as many lanes as segments have gradients on average, at most 32.
"""

from __future__ import annotations

import math

import cupy
import numpy as np

from .launch import WIDE, Array, kernel

__all__ = [
    "embedding",
    "embedding_backward",
]

_MOST_LANES = 32
_SUM_LANES = cupy.ElementwiseKernel(
    "raw T grad, raw int64 order, raw int64 starts, int64 lanes, int64 columns",
    "T y",
    """
    long long column = (long long)i % columns, rest = (long long)i / columns;
    long long lane = rest % lanes, segment = rest / lanes, end = starts[segment + 1];
    W total = 0;
    for (long long place = starts[segment] + lane; place < end; place += lanes) {
      total += (W)grad[order[place] * columns + column];
    }
    y = (T)total;
    """,
    "stowgrad_sum_lanes",
    preamble=WIDE,
)
_WRITE_SEGMENTS = cupy.ElementwiseKernel(
    "raw T sums, raw int64 targets, int64 lanes, int64 columns",
    "raw T y",
    """
    long long column = (long long)i % columns, segment = (long long)i / columns;
    W total = 0;
    for (long long lane = 0; lane < lanes; ++lane) {
      total += (W)sums[(segment * lanes + lane) * columns + column];
    }
    y[targets[segment] * columns + column] = (T)total;
    """,
    "stowgrad_write_segments",
    preamble=WIDE,
)


@kernel
def embedding(weight: Array, indices: Array, out: Array) -> None:
    """``out[i..., :] = weight[indices[i...], :]``.

    Raises:
        IndexError: if an index is negative or not below the number of rows.
    """
    if indices.size == 0:
        return
    wrong = (indices < 0) | (indices >= len(weight))
    if bool(wrong.any()):
        first = int(indices[wrong][0])
        raise IndexError(f"embedding: index {first} is out of range for a table with {len(weight)} rows")
    shape = (*indices.shape, math.prod(weight.shape[1:]))
    cupy.take(weight.reshape(len(weight), shape[-1]), indices, axis=0, out=out.reshape(shape))


@kernel
def embedding_backward(grad: Array, indices: Array, grad_w: Array, *, padding_idx: int | None = None) -> None:
    """``grad_w[r] = sum of grad[i] with indices[i] == r``; the row ``padding_idx`` stays 0.

    Args:
        grad: (n, columns).
        indices: (n,), in range.
        grad_w: an out, (rows, columns).
    """
    grad_w.fill(0)
    if grad.size == 0:
        return
    count, columns = grad.shape
    order = cupy.argsort(indices, kind="stable")
    ordered = indices[order].astype(np.int64, copy=False)
    inner = cupy.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    segments = len(inner) + 1
    starts = cupy.empty((segments + 1,), np.int64)
    starts[0], starts[1:-1], starts[-1] = 0, inner, count
    lanes = min(_MOST_LANES, -(-count // segments))
    sums = cupy.empty((segments, lanes, columns), grad.dtype)
    _SUM_LANES(grad, order, starts, lanes, columns, sums)
    _WRITE_SEGMENTS(sums, ordered[starts[:-1]], lanes, columns, grad_w, size=segments * columns)
    if padding_idx is not None:
        grad_w[padding_idx] = 0
