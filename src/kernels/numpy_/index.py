"""Elements by number and by mask."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

from ...memory import SMALL_BYTES
from ..executor import Array, parallel_slices
from .row_numbers import index_sums, take_rows
from .tiling import contiguous, numpy_workspace, rows_per_tile

__all__ = [
    "gather",
    "gather_backward",
    "masked_put",
    "nonzero",
]


def gather(x: Array, indices: Array, out: Array) -> None:
    """``out = x[indices]`` for an array of integers or bools along the first dimensions."""
    if indices.dtype == bool:
        rows = contiguous(x).reshape(indices.size, math.prod(x.shape[indices.ndim :]))
        chosen = out.reshape(len(out), rows.shape[1])

        def tile(where: slice, part: slice, mask: Array) -> None:
            np.compress(mask, rows[where], axis=0, out=chosen[part])

        _by_mask(tile, indices, rows)
    else:
        take_rows(x, indices.reshape(-1), out.reshape(indices.size, *x.shape[1:]), axis=0)


def gather_backward(grad: Array, indices: Array, out: Array) -> None:
    """Zeros with ``grad`` added where ``indices`` looked."""
    if indices.dtype == bool:
        rows = out.reshape(indices.size, math.prod(out.shape[indices.ndim :]))
        given = contiguous(grad).reshape(len(grad), rows.shape[1])

        def tile(where: slice, part: slice, mask: Array) -> None:
            some = rows[where]
            some.fill(0)
            some[np.flatnonzero(mask)] = given[part]  # a quarter of the time that the mask takes itself

        _by_mask(tile, indices, rows)
    else:
        columns = math.prod(out.shape[1:])
        given = contiguous(grad).reshape(indices.size, columns)
        index_sums(indices.reshape(-1), given, out.reshape(out.shape[0], columns), axis=0)


def _by_mask(body: Callable[[slice, slice, Array], None], mask: Array, rows: Array) -> None:
    """Call ``body`` with stretches of rows, of the chosen ones among all chosen ones, and of the mask."""
    flat = contiguous(mask).reshape(-1)
    if rows.nbytes < SMALL_BYTES:
        body(slice(None), slice(None), flat)
        return
    step = rows_per_tile(len(rows), rows.shape[1], rows.dtype)
    counts = [np.count_nonzero(flat[begin : begin + step]) for begin in range(0, len(rows), step)]
    ends = [0, *itertools.accumulate(counts)]

    def tile(where: slice) -> None:
        number = where.start // step
        body(where, slice(ends[number], ends[number + 1]), flat[where])

    with numpy_workspace(16, len(rows), step):
        parallel_slices(tile, len(rows), step)


def masked_put(out: Array, mask: Array, src: Array) -> None:
    """``out[mask] = `` the first elements of ``src``, in order.

    Raises:
        RuntimeError: if ``src`` has too few.
    """
    count = int(np.count_nonzero(mask))
    if src.size < count:
        raise RuntimeError(f"masked_scatter: expected a source with at least {count} elements, got {src.size}")
    out[mask] = src.reshape(-1)[:count]


def nonzero(x: Array, out: Array) -> None:
    """``out[n, :]``: where the n-th element of ``x`` that is not 0 lies."""
    for column, numbers in enumerate(np.nonzero(x) if x.ndim else ()):
        out[:, column] = numbers
