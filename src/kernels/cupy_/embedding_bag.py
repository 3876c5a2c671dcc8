"""Sums and maxima of rows of a table, bag by bag: the rows of all bags never exist at once.

A bag is a run of the indices: ``indices[starts[b] : starts[b + 1]]``.
"""

from __future__ import annotations

import cupy
import numpy as np

from .embedding import sum_segments
from .launch import WIDE, Array, kernel

__all__ = ["embedding_bag", "embedding_bag_factors_backward", "embedding_bag_max", "rows_of_bags"]

_ROWS = cupy.ElementwiseKernel(
    "raw int64 starts, int64 bags",
    "int64 row",
    """
    long long low = 0, high = bags;
    while (high - low > 1) {
      long long middle = (low + high) / 2;
      if (starts[middle] <= (long long)i) low = middle; else high = middle;
    }
    row = low;
    """,
    "stowgrad_rows_of_bags",
)
_FACTORS = cupy.ElementwiseKernel(
    "raw T grad, raw T weight, int64 index, int64 row, int64 columns",
    "T y",
    """
    W total = 0;
    for (long long column = 0; column < columns; ++column) {
      total += (W)grad[row * columns + column] * (W)weight[index * columns + column];
    }
    y = (T)total;
    """,
    "stowgrad_embedding_bag_factors_backward",
    preamble=WIDE,
)
_MAX = cupy.ElementwiseKernel(
    "raw T weight, raw int64 indices, raw int64 starts, int64 columns, int64 padding",
    "T y, int64 chosen",
    """
    long long column = (long long)i % columns, bag = (long long)i / columns, found = -1;
    T best = (T)0.0f;
    for (long long place = starts[bag]; place < starts[bag + 1]; ++place) {
      long long row = indices[place];
      if (row == padding) continue;
      T x = weight[row * columns + column];
      if (found < 0 || x > best || (x != x && best == best)) { best = x; found = row; }
    }
    y = best;
    chosen = found;
    """,
    "stowgrad_embedding_bag_max",
)


@kernel
def rows_of_bags(starts: Array, out: Array) -> None:
    """``out[i]`` = the bag of index i; ``starts`` has an element more than there are bags, the last is ``len(out)``."""
    if out.size:
        _ROWS(starts, len(starts) - 1, out)


@kernel
def embedding_bag(weight: Array, indices: Array, starts: Array, factors: Array | None, out: Array) -> None:
    """``out[b] = sum of factors[i] * weight[indices[i]]`` over the indices of bag b.

    Args:
        weight: (rows, columns).
        indices: (n,), in range.
        starts: (bags + 1,).
        factors: (n,), or None.
        out: (bags, columns).
    """
    out.fill(0)
    if out.size and indices.size:
        numbers = cupy.flatnonzero(cupy.full(len(out), 1, np.int64))
        sum_segments(weight, indices.astype(np.int64, copy=False), starts, numbers, out, factors)


@kernel
def embedding_bag_factors_backward(grad: Array, weight: Array, indices: Array, rows: Array, out: Array) -> None:
    """``out[i] = grad[rows[i]] . weight[indices[i]]``, the gradient of `embedding_bag`'s factors."""
    if out.size:
        _FACTORS(grad, weight, indices.astype(np.int64, copy=False), rows, weight.shape[1], out)


@kernel
def embedding_bag_max(
    weight: Array, indices: Array, starts: Array, out: Array, chosen: Array, *, padding_idx: int | None = None
) -> None:
    """``out[b] = max of weight[indices[i]]`` over the indices of bag b but ``padding_idx``; 0 where there are none.

    Args:
        weight: (rows, columns).
        indices: (n,), in range.
        starts: (bags + 1,).
        out: (bags, columns).
        chosen: an out, int64, of that shape: the row that each element comes from, the first of equal ones, or -1.
    """
    if out.size:
        padding = -1 if padding_idx is None else padding_idx
        _MAX(weight, indices.astype(np.int64, copy=False), starts, weight.shape[1], padding, out, chosen)
