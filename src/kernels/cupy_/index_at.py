"""Elements at several indices, which broadcast to each other: read, replaced, added to.

An index may count along several dimensions as one (``covers``): what is true in a mask.
"""

from __future__ import annotations

import math
from typing import Any

import cupy
import numpy as np

from .launch import Array, kernel
from .scatter import index_add

__all__ = [
    "add_at",
    "put_at",
    "take_at",
]


@kernel
def take_at(x: Array, indices: list[Array], out: Array, *, covers: tuple[int, ...]) -> None:
    """``out = x[indices]``: along the first dimensions of ``x``, in range; negative ones count from the end."""
    if out.size:
        cupy.copyto(out, x[_key(indices, covers, x.shape)])


def _key(indices: list[Array], covers: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[Array, ...]:
    """An index for each dimension."""
    key: list[Array] = []
    for index, count in zip(indices, covers, strict=True):
        parts = []
        for size in reversed(sizes[len(key) : len(key) + count][1:]):
            parts.append(index % size)
            index = index // size
        key += [index, *reversed(parts)]
    return tuple(key)


@kernel
def put_at(out: Array, indices: list[Array], values: Any, *, covers: tuple[int, ...]) -> None:
    """``out[indices] = values``, which broadcast; where a place comes twice, one of its values is taken."""
    out[_key(indices, covers, out.shape)] = values


@kernel
def add_at(out: Array, indices: list[Array], values: Any, *, covers: tuple[int, ...]) -> None:
    """``out[indices] += values``, which broadcast; a place that comes twice gets both."""
    shape = np.broadcast_shapes(*[index.shape for index in indices])
    numbers = cupy.zeros(shape, np.int64)
    dims = 0
    for index, count in zip(indices, covers, strict=True):
        size = math.prod(out.shape[dims : dims + count])
        numbers = numbers * size + index % max(size, 1)
        dims += count
    rest = out.shape[dims:]
    whole = cupy.ascontiguousarray(out)
    rows = whole.reshape(math.prod(out.shape[:dims]), math.prod(rest))
    if not isinstance(values, cupy.ndarray):
        values = cupy.full((), values, out.dtype)
    given = cupy.broadcast_to(values, (*shape, *rest)).reshape(numbers.size, rows.shape[1])
    index_add(rows, numbers.reshape(-1), given.astype(out.dtype, copy=False), axis=0)
    if whole is not out:
        cupy.copyto(out, whole)
