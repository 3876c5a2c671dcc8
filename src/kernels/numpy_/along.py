"""Elements by their numbers along one axis: read, written, and added up."""

from __future__ import annotations

import math

import numpy as np

from ..executor import Array
from .lines import map_lines
from .tiling import contiguous

__all__ = [
    "add_along",
    "put_along",
    "take_along",
]

_INTP = np.dtype(np.intp)


def take_along(x: Array, indices: Array, out: Array, *, axis: int) -> None:
    """``out[i, j, k] = x[i, indices[i, j, k], k]`` for the middle axis; ``indices`` are in range."""
    map_lines(take_lines, [contiguous(x), contiguous(indices), out], axis, allocated=out.itemsize + 8)


def put_along(values: Array, indices: Array, out: Array, *, axis: int) -> None:
    """Zeros, and ``out[i, indices[i, j, k], k] = values[i, j, k]``; no index comes twice in a line."""
    fills_all = values.shape == out.shape  # each element is written

    def block(out: Array, values: Array, indices: Array) -> None:
        if not fills_all:
            out.fill(0)
        if out.flags.c_contiguous:
            out.reshape(-1)[_numbers(indices, out.shape)] = values
        else:
            out[_key(indices)] = values

    allocated = -(-8 * values.size // out.size) if out.size else 0
    map_lines(block, [out, contiguous(values), contiguous(indices)], axis, allocated=allocated)


def take_lines(x: Array, indices: Array, out: Array) -> None:
    """`take_along` of a block (outer, length, inner) or (outer, length)."""
    if x.flags.c_contiguous:
        np.take(x.reshape(-1), _numbers(indices, x.shape), out=out, mode="clip")  # "raise" would copy twice
    else:
        np.copyto(out, x[_key(indices)])


def _numbers(indices: Array, shape: tuple[int, ...]) -> Array:
    """Numbers along the second axis of a block as numbers in the whole of it."""
    before = np.arange(shape[0]) * math.prod(shape[1:])
    if len(shape) == 2:
        return before[:, None] + indices
    return before[:, None, None] + np.multiply(indices, shape[2], dtype=_INTP) + np.arange(shape[2])


def _key(indices: Array) -> tuple[Array, ...]:
    """What selects from a block by numbers along its second axis."""
    first, *others = (np.arange(size) for size in (indices.shape[0], *indices.shape[2:]))
    return first.reshape(-1, *(1,) * (indices.ndim - 1)), indices, *others


def add_along(values: Array, indices: Array, out: Array, *, axis: int) -> None:
    """Zeros, with ``values[i, j, k]`` added to ``out[i, indices[i, j, k], k]``; indices never fall along a line."""

    def block(out: Array, values: Array, indices: Array) -> None:
        if out.ndim == 3:
            lines = np.zeros((out.shape[0], out.shape[2], out.shape[1]), out.dtype)
            _add_runs(lines.reshape(-1, out.shape[1]), values.transpose(0, 2, 1), indices.transpose(0, 2, 1))
            out[...] = lines.transpose(0, 2, 1)
        else:
            out.fill(0)
            _add_runs(out, values, indices)

    map_lines(block, [out, contiguous(values), contiguous(indices)], axis, allocated=4 * out.itemsize + 24)


def _add_runs(out: Array, values: Array, indices: Array) -> None:
    """Add up runs of equal indices in the lines of matrices."""
    count = values.shape[-1]
    if not values.size:
        return
    numbers = indices.reshape(-1, count).astype(_INTP)
    first = np.ones(numbers.shape, bool)
    np.not_equal(numbers[:, 1:], numbers[:, :-1], out=first[:, 1:])
    starts = np.flatnonzero(first)
    sums = np.add.reduceat(values.reshape(-1), starts)
    out[starts // count, numbers.reshape(-1)[starts]] = sums
