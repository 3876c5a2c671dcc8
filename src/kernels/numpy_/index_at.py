"""Elements at several indices, which broadcast to each other: read, replaced, added to.

An index may count along several dimensions as one (``covers``): what is true in a mask.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..executor import Array, parallel_for, scratch
from .row_numbers import index_add
from .tiling import contiguous, copy_tiled, numpy_workspace, tile_size

__all__ = [
    "add_at",
    "put_at",
    "take_at",
]

_INT64 = np.dtype(np.int64)


def take_at(x: Array, indices: list[Array], out: Array, *, covers: tuple[int, ...]) -> None:
    """``out = x[indices]``: along the first dimensions of ``x``, in range; negative ones count from the end."""
    if not out.size:
        return
    shape = np.broadcast_shapes(*[index.shape for index in indices])
    spread = [np.broadcast_to(index, shape) for index in indices]
    inner = math.prod(out.shape[len(shape) :])
    tile = tile_size(out.size, out.dtype)

    def block(where: tuple[Any, ...]) -> None:
        out[where] = x[_key([index[where] for index in spread], covers, x.shape)]

    with numpy_workspace(out.dtype.itemsize + 16 * sum(covers), out.size, max(tile, inner)):
        _by_blocks(block, shape, inner, tile)


def _by_blocks(body: Callable[[tuple[Any, ...]], None], shape: tuple[int, ...], inner: int, tile: int) -> None:
    """Call ``body`` with parts of a shape, each element of which stands for ``inner`` of an array."""
    if not shape:
        body((...,))
        return
    axis = len(shape) - 1
    while axis > 0 and inner * shape[axis] <= tile:
        inner *= shape[axis]
        axis -= 1
    step = max(1, tile // inner)
    runs = -(-shape[axis] // step)

    def block(number: int) -> None:
        before, run = divmod(number, runs)
        body((*np.unravel_index(before, shape[:axis]), slice(run * step, (run + 1) * step)))

    parallel_for(block, math.prod(shape[:axis]) * runs)


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


def put_at(out: Array, indices: list[Array], values: Any, *, covers: tuple[int, ...]) -> None:
    """``out[indices] = values``, which broadcast; where a place comes twice, one of its values is taken."""
    with numpy_workspace(16 * sum(count for count in covers if count > 1), indices[0].size, max(indices[0].size, 1)):
        out[_key(indices, covers, out.shape)] = values


def add_at(out: Array, indices: list[Array], values: Any, *, covers: tuple[int, ...]) -> None:
    """``out[indices] += values``, which broadcast; a place that comes twice gets both."""
    shape = np.broadcast_shapes(*[index.shape for index in indices])
    dims, numbers = 0, scratch(shape, _INT64)
    numbers[...] = 0
    with numpy_workspace(8, numbers.size, max(numbers.size, 1)):
        for index, count in zip(indices, covers, strict=True):
            size = math.prod(out.shape[dims : dims + count])
            np.multiply(numbers, size, out=numbers)
            np.add(numbers, index % max(size, 1), out=numbers)
            dims += count
    rest = out.shape[dims:]
    whole = contiguous(out)
    rows = whole.reshape(math.prod(out.shape[:dims]), math.prod(rest))
    given = contiguous(np.broadcast_to(np.asarray(values, out.dtype), (*shape, *rest)))
    index_add(rows, numbers.reshape(-1), given.reshape(numbers.size, rows.shape[1]), axis=0)
    if whole is not out:
        copy_tiled(whole, out)
