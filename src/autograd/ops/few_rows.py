"""Rows and elements by number, where they are so few that a few calls of NumPy are all that they take.

Each function gives None where there are too many after all. The bits are those of the kernels.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...kernels.numpy_.row_numbers import adds_at_once
from ...memory import SMALL_BYTES
from .along import numbers_along, taken


def or_none(result: Any) -> tuple[Any, ...] | None:
    """What a ``small_marked`` returns."""
    return None if result is None else (result,)


def rows_at(x: Any, index: Any, dim: int) -> Any:
    """`numpy.take` of rows; numbers are in range, or count from the end."""
    if x.nbytes // x.shape[dim] * index.size >= SMALL_BYTES or x.ndim + index.ndim == 1:  # that gives no array
        return None
    return x.take(index, axis=dim, mode="wrap")  # "raise" would look at them again


def sums_of_rows(values: Any, index: Any, shape: tuple[int, ...]) -> Any:
    """Zeros with rows added by number along the first dimension."""
    if math.prod(shape) * values.dtype.itemsize >= SMALL_BYTES:
        return None
    out = np.zeros(shape, values.dtype)
    return out if add_rows(out, index, values) else None


def add_rows(out: Any, index: Any, values: Any) -> bool:
    """``out[index] += values`` for an array in C order; whether that was done: of a crowd, sums are wide."""
    length, count = len(out), index.size
    if not adds_at_once(out.dtype, count, length):
        return False
    width = values.size // count
    numbers = np.remainder(index.reshape(-1, 1), length, dtype=np.int64) * width + np.arange(width)
    np.add.at(out.reshape(-1), numbers.reshape(-1), values.reshape(-1))
    return True


def elements_at(x: Any, index: Any, dim: int) -> Any:
    """The elements at an index that has the sizes of ``x``, but for one dimension."""
    return taken(x, index, dim) if _fits(x.shape, x.dtype, index, dim) else None


def sums_of_elements(values: Any, index: Any, shape: tuple[int, ...], dim: int) -> Any:
    """Zeros with elements added at an index of their shape, which has that of the result but for one dimension."""
    out = np.zeros(shape, values.dtype) if _fits(shape, values.dtype, index, dim) else None
    return out if out is not None and add_elements(out, index, values, dim) else None


def add_elements(out: Any, index: Any, values: Any, dim: int) -> bool:
    """``out[i, index[i, j]] += values[i, j]`` (for the last dimension) for an array in C order, if that is as it is."""
    if index.shape != values.shape or not _fits(out.shape, out.dtype, index, dim):
        return False
    if not adds_at_once(out.dtype, index.size, out.size):
        return False
    np.add.at(out.reshape(-1), numbers_along(index, out.shape, dim).reshape(-1), values.reshape(-1))
    return True


def _fits(shape: tuple[int, ...], dtype: Any, index: Any, dim: int) -> bool:
    """Whether an index has a shape but for one dimension, and that and the shape are small."""
    sizes = index.shape
    if sizes != shape and (sizes[:dim] != shape[:dim] or sizes[dim + 1 :] != shape[dim + 1 :]):
        return False
    return bool(max(index.size, math.prod(shape)) * dtype.itemsize < SMALL_BYTES)
