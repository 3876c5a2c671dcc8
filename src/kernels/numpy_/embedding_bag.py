"""Sums and maxima of rows of a table, bag by bag: the rows of all bags never exist at once.

A bag is a run of the indices: ``indices[starts[b] : starts[b + 1]]``.
"""

from __future__ import annotations

import numpy as np

from ..executor import Array, parallel_slices
from .embedding import sum_segments
from .tiling import contiguous, copy_tiled, rows_per_tile

__all__ = ["embedding_bag", "embedding_bag_factors_backward", "embedding_bag_max", "rows_of_bags"]


def rows_of_bags(starts: Array, out: Array) -> None:
    """``out[i]`` = the bag of index i; ``starts`` has an element more than there are bags, the last is ``len(out)``."""
    np.copyto(out, np.repeat(np.arange(len(starts) - 1), np.diff(starts)), casting="unsafe")


def embedding_bag(weight: Array, indices: Array, starts: Array, factors: Array | None, out: Array) -> None:
    """``out[b] = sum of factors[i] * weight[indices[i]]`` over the indices of bag b.

    Args:
        weight: (rows, columns).
        indices: (n,), in range.
        starts: (bags + 1,).
        factors: (n,), or None.
        out: (bags, columns).
    """
    copy_tiled(0, out)
    filled = np.flatnonzero(np.diff(starts) > 0)
    if filled.size and out.size:
        begins = np.append(starts[filled], starts[-1])
        sum_segments(contiguous(weight), indices, begins, filled, out, factors)


def embedding_bag_factors_backward(grad: Array, weight: Array, indices: Array, rows: Array, out: Array) -> None:
    """``out[i] = grad[rows[i]] . weight[indices[i]]``, the gradient of `embedding_bag`'s factors."""
    columns = weight.shape[1]
    step = rows_per_tile(len(indices), columns, weight.dtype)
    table, upstream = contiguous(weight), contiguous(grad)

    def tile(where: slice, first: Array, second: Array) -> None:
        count = where.stop - where.start
        np.take(table, indices[where], axis=0, out=first[:count], mode="clip")
        np.take(upstream, rows[where], axis=0, out=second[:count], mode="clip")
        np.vecdot(first[:count], second[:count], out=out[where])

    parallel_slices(tile, len(indices), step, [((step, columns), weight.dtype)] * 2)


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

    def tile(where: slice) -> None:
        for bag in range(where.start, where.stop):
            members = indices[starts[bag] : starts[bag + 1]]
            if padding_idx is not None:
                members = members[members != padding_idx]
            if members.size == 0:
                out[bag], chosen[bag] = 0, -1
                continue
            values = weight[members]
            best = values.argmax(axis=0)
            np.copyto(chosen[bag], members[best], casting="unsafe")
            np.copyto(out[bag], np.take_along_axis(values, best[None], 0)[0])

    bags = len(out)
    mean = max(1, len(indices) // max(bags, 1))
    parallel_slices(tile, bags, max(1, rows_per_tile(bags * mean, weight.shape[1], weight.dtype) // mean))
