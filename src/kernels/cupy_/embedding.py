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
    "renorm_rows",
]

_MOST_LANES = 32
_SUM_LANES = cupy.ElementwiseKernel(
    "raw T grad, raw int64 order, raw int64 starts, raw T factors, bool scaled, int64 lanes, int64 columns",
    "T y",
    """
    long long column = (long long)i % columns, rest = (long long)i / columns;
    long long lane = rest % lanes, segment = rest / lanes, end = starts[segment + 1];
    W total = 0;
    for (long long place = starts[segment] + lane; place < end; place += lanes) {
      total += (W)grad[order[place] * columns + column] * (scaled ? (W)factors[place] : (W)1);
    }
    y = (T)total;
    """,
    "stowgrad_sum_lanes",
    preamble=WIDE,
)
_WRITE_SEGMENTS = cupy.ElementwiseKernel(
    "raw T sums, raw int64 targets, raw int64 starts, bool divided, int64 lanes, int64 columns",
    "raw T y",
    """
    long long column = (long long)i % columns, segment = (long long)i / columns;
    W total = 0;
    for (long long lane = 0; lane < lanes; ++lane) {
      total += (W)sums[(segment * lanes + lane) * columns + column];
    }
    if (divided) total /= (W)(starts[segment + 1] - starts[segment]);
    y[targets[segment] * columns + column] = (T)total;
    """,
    "stowgrad_write_segments",
    preamble=WIDE,
)


@kernel
def embedding(weight: Array, indices: Array, out: Array) -> None:
    """``out[i..., :] = weight[indices[i...], :]``; indices are in range."""
    if indices.size == 0:
        return
    shape = (*indices.shape, math.prod(weight.shape[1:]))
    cupy.take(weight.reshape(len(weight), shape[-1]), indices, axis=0, out=out.reshape(shape))


@kernel
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
    grad_w.fill(0)
    count, _columns = len(indices), grad.shape[1]
    if grad.size == 0 or count == 0:
        return
    order = cupy.argsort(indices, kind="stable")
    ordered = indices[order].astype(np.int64, copy=False)
    inner = cupy.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    segments = len(inner) + 1
    starts = cupy.empty((segments + 1,), np.int64)
    starts[0], starts[1:-1], starts[-1] = 0, inner, count
    read = order if rows is None else rows[order].astype(np.int64, copy=False)
    weights = None if factors is None else factors[order]
    sum_segments(grad, read, starts, ordered[starts[:-1]], grad_w, weights, by_frequency)
    if padding_idx is not None:
        grad_w[padding_idx] = 0


def sum_segments(
    grad: Array,
    order: Array,
    starts: Array,
    targets: Array,
    grad_w: Array,
    factors: Array | None = None,
    divided: bool = False,
) -> None:
    """``grad_w[targets[s]] = sum of grad[order[starts[s] : starts[s + 1]]]``, times their factors, or their mean."""
    segments, columns = len(targets), grad.shape[1]
    lanes = max(1, min(_MOST_LANES, -(-len(order) // segments)))
    sums = cupy.empty((segments, lanes, columns), grad.dtype)
    weights = grad if factors is None else factors
    _SUM_LANES(grad, order, starts, weights, factors is not None, lanes, columns, sums)
    _WRITE_SEGMENTS(sums, targets, starts, divided, lanes, columns, grad_w, size=segments * columns)


_NORMS = cupy.ElementwiseKernel(
    "raw T weight, raw int64 indices, int64 columns, float64 most, float64 p, bool infinite",
    "T scale",
    """
    W total = 0;
    for (long long column = 0; column < columns; ++column) {
      W x = (W)weight[indices[i] * columns + column];
      x = x < (W)0 ? -x : x;
      total = infinite ? (x > total ? x : total) : total + pow(x, (W)p);
    }
    W norm = infinite ? total : pow(total, (W)(1 / p));
    scale = norm > (W)most ? (T)((W)most / (norm + (W)1e-7)) : (T)1.0f;
    """,
    "stowgrad_row_scales",
    preamble=WIDE,
)


@kernel
def renorm_rows(weight: Array, indices: Array, *, max_norm: float, norm_type: float) -> None:
    """Scale the rows of ``weight`` (rows, columns) that ``indices`` name down to ``max_norm``, in place."""
    if indices.size == 0:
        return
    flat = indices.reshape(-1).astype(np.int64, copy=False)
    scales = cupy.empty((flat.size,), weight.dtype)
    infinite = norm_type == math.inf
    _NORMS(weight, flat, weight.shape[1], max_norm, 1.0 if infinite else norm_type, infinite, scales)
    weight[flat] = weight[flat] * scales[:, None]
