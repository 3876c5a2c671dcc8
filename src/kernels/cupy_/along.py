"""Elements by their numbers along one axis: read, written, and added up."""

from __future__ import annotations

import math

import cupy
import numpy as np

from .embedding import embedding_backward
from .launch import Array, kernel

__all__ = [
    "add_along",
    "put_along",
    "take_along",
]

# The place of an element of `indices`, of `count` elements a line, in an array of `length` elements a line.
_PLACE = """
    long long column = (long long)i % inner, line = (long long)i / inner / count;
    long long place = (line * length + index) * inner + column;
"""
_TAKE = cupy.ElementwiseKernel(
    "raw T x, int64 index, int64 count, int64 length, int64 inner",
    "T y",
    _PLACE + "y = x[place];",
    "stowgrad_take_along",
)
_PUT = cupy.ElementwiseKernel(
    "T x, int64 index, int64 count, int64 length, int64 inner",
    "raw T y",
    _PLACE + "y[place] = x;",
    "stowgrad_put_along",
)
_PLACES = cupy.ElementwiseKernel(
    "int64 index, int64 count, int64 length, int64 inner", "int64 y", _PLACE + "y = place;", "stowgrad_places_along"
)


@kernel
def take_along(x: Array, indices: Array, out: Array, *, axis: int) -> None:
    """``out[i, j, k] = x[i, indices[i, j, k], k]`` for the middle axis; ``indices`` are in range."""
    if out.size:
        _TAKE(cupy.ascontiguousarray(x), _wide(indices), *_sizes(indices, x, axis), out)


@kernel
def put_along(values: Array, indices: Array, out: Array, *, axis: int) -> None:
    """Zeros, and ``out[i, indices[i, j, k], k] = values[i, j, k]``; no index comes twice in a line."""
    out.fill(0)
    if values.size:
        _PUT(cupy.ascontiguousarray(values), _wide(indices), *_sizes(indices, out, axis), out)


@kernel
def add_along(values: Array, indices: Array, out: Array, *, axis: int) -> None:
    """Zeros, with ``values[i, j, k]`` added to ``out[i, indices[i, j, k], k]``; indices never fall along a line."""
    if not values.size:
        out.fill(0)
        return
    places = cupy.empty(indices.shape, np.int64)
    _PLACES(_wide(indices), *_sizes(indices, out, axis), places)
    embedding_backward(cupy.ascontiguousarray(values).reshape(-1, 1), places.reshape(-1), out.reshape(-1, 1))


def _wide(indices: Array) -> Array:
    return cupy.ascontiguousarray(indices).astype(np.int64, copy=False)


def _sizes(indices: Array, x: Array, axis: int) -> tuple[int, int, int]:
    """Elements a line of ``indices`` and of ``x``, and how far apart neighbours of a line lie."""
    if not x.ndim:
        return 1, 1, 1
    axis %= x.ndim
    return indices.shape[axis], x.shape[axis], math.prod(x.shape[axis + 1 :])
