"""Work along one axis, in tiles of whole lines, and sums of what a function makes of each element."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from ... import memory
from ..executor import Array, parallel_for, scratch, scratch_set
from .rows import combine, reduce_rows
from .tiling import FLOAT32, DType, contiguous, numpy_workspace, tile_size

_LEAST_CHUNK = 64
_NOTHING = nullcontext()


def working(dtype: DType) -> DType:
    """What sums over that dtype are added up in: float32 for half precision, the dtype itself otherwise."""
    return FLOAT32 if dtype.itemsize == 2 and dtype.kind not in "iu" else dtype


def map_lines(
    body: Callable[..., Any],
    arrays: Sequence[Array],
    axis: int,
    scratch_dtypes: Sequence[DType] = (),
    *,
    most: int | None = None,
    allocated: int = 0,
) -> None:
    """Call ``body(*blocks, *scratch)`` on blocks (outer, length, inner) of C-contiguous arrays, with whole lines.

    The blocks have only two axes, (outer, length), if ``axis`` is the last one.

    Args:
        body: works line by line, so that blocks are independent.
        arrays: of one shape but for their lengths along ``axis``; the first one has the longest lines.
        scratch_dtypes: a scratch array of each of these is handed on, of the first block's shape.
        most: scratch arrays have at most so many elements, and are flat.
        allocated: bytes that NumPy itself allocates while ``body`` runs, for each element of the first block.
    """
    shape, dtype = arrays[0].shape, arrays[0].dtype
    if not shape:
        arrays, shape = [array.reshape(1) for array in arrays], (1,)
    axis %= len(shape)
    outer, length, inner = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
    if outer * inner == 0:
        return
    tile = tile_size(arrays[0].size, dtype, allocated)
    if arrays[0].size <= tile:
        blocks = [array.reshape((outer, array.shape[axis], inner)[: 2 + (inner > 1)]) for array in arrays]
        counted = allocated * arrays[0].size >= memory.SMALL_BYTES
        sizes = blocks[0].shape if most is None else (min(arrays[0].size, most),)
        with numpy_workspace(allocated, arrays[0].size, tile) if counted else _NOTHING:
            body(*blocks, *scratch_set([(sizes, wanted) for wanted in scratch_dtypes]))
        return
    cubes = [array.reshape(outer, array.shape[axis], inner) for array in arrays]
    width = min(inner, max(1, tile // max(length, 1)))
    batch = min(outer, max(1, tile // max(length * inner, 1))) if width == inner else 1
    widths, batches = -(-inner // width), -(-outer // batch)
    room = batch * width * length if most is None else min(batch * width * length, most)

    def block(index: int, *work: Array) -> None:
        first, across = divmod(index, widths)
        rows, columns = slice(first * batch, (first + 1) * batch), slice(across * width, (across + 1) * width)
        views = [cube[rows, :, columns] for cube in cubes]
        if most is None:
            views += [buffer[: views[0].size].reshape(views[0].shape) for buffer in work]
            body(*[view[:, :, 0] for view in views] if inner == 1 else views)
        else:
            body(*[view[:, :, 0] for view in views] if inner == 1 else views, *work)

    specs = [((room,), dtype) for dtype in scratch_dtypes]
    if allocated:
        with numpy_workspace(allocated, arrays[0].size, batch * width * max(length, 1)):
            parallel_for(block, batches * widths, specs)
    else:
        parallel_for(block, batches * widths, specs)


def sum_mapped(
    body: Callable[..., Any], x: Array, others: Sequence[Array], out: Array, *, axes: tuple[int, ...] | None
) -> None:
    """``out = the sum over axes of body(x, *others)``, without an array of the size of ``x``.

    Args:
        body: ``body(x, *others, work)`` fills ``work`` element by element, from blocks of three axes that broadcast.
        others: of as many axes as ``x``, the summed ones as 1.
        out: has the summed axes as 1 or not at all; its dtype is what is added up.
    """
    gone = set(range(x.ndim)) if axes is None else {axis % x.ndim for axis in axes}
    order = sorted(range(x.ndim), key=lambda axis: -abs(x.strides[axis])) if not x.flags.c_contiguous else None
    order = list(range(x.ndim)) if order is None else order
    places = [place for place, axis in enumerate(order) if axis in gone]
    if places and places[-1] - places[0] + 1 != len(places):  # not side by side
        order = [axis for axis in order if axis not in gone] + [axis for axis in order if axis in gone]
        places = list(range(x.ndim - len(gone), x.ndim))
    first, last = (places[0], places[-1] + 1) if places else (x.ndim, x.ndim)
    moved = contiguous(x.transpose(order))
    sizes = moved.shape
    outer, length, inner = math.prod(sizes[:first]), math.prod(sizes[first:last]), math.prod(sizes[last:])
    kept = [axis for axis in order if axis not in gone]
    direct = kept == sorted(kept) and out.flags.c_contiguous
    target = out if direct else scratch((out.size,), out.dtype)
    shape = (outer, 1, inner)
    spread = [contiguous(other.transpose(order)).reshape(shape) for other in others]
    _sum_middle(body, moved.reshape(outer, length, inner), spread, target.reshape(outer, inner))
    if not direct:
        result = target.reshape([x.shape[axis] for axis in kept]).transpose(np.argsort(kept) if kept else ())
        np.copyto(out.reshape(result.shape), result)


def _sum_middle(body: Callable[..., Any], x: Array, others: Sequence[Array], out: Array) -> None:
    """`sum_mapped` over the middle one of three axes; long ones are cut into chunks, whose sums are added in order."""
    outer, length, inner = x.shape
    if out.size == 0:
        return
    if length == 0:
        out.fill(0)
        return
    tile = tile_size(x.size, x.dtype)
    chunk = min(length, max(_LEAST_CHUNK, tile // inner))
    width = min(inner, max(1, tile // chunk))
    batch = max(1, tile // (length * inner)) if chunk == length and width == inner else 1
    chunks, widths, batches = -(-length // chunk), -(-inner // width), -(-outer // batch)
    partials = out[None] if chunks == 1 else scratch((chunks, outer, inner), out.dtype)

    def block(index: int, work: Array) -> None:
        index, across = divmod(index, widths)
        batch_number, along = divmod(index, chunks)
        rows = slice(batch_number * batch, (batch_number + 1) * batch)
        columns = slice(across * width, (across + 1) * width)
        part = x[rows, along * chunk : (along + 1) * chunk, columns]
        made = work[: part.size].reshape(part.shape)
        body(part, *[other[rows, :, columns] for other in others], made)
        if inner == 1:
            reduce_rows(np.add, made[:, :, 0], partials[along, rows, 0])
        else:
            np.add.reduce(made, axis=1, out=partials[along, rows, columns])

    parallel_for(block, batches * chunks * widths, [((batch * chunk * width,), out.dtype)])
    if chunks > 1:
        combine(partials, out)
