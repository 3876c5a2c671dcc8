"""Pooling by the largest element of windows at equal distances, and its gradients.

NOTE [ Places ]
What is kept of a window is the number of the place, in it, of its largest element: a byte mostly. Where several are
largest it is the first one, and the last one that is NaN, as in PyTorch.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..executor import Array, parallel_for, scratch
from ..windows import Block, Windows
from .tiling import BOOL, UNTILED, contiguous, tile_size

__all__ = [
    "max_pool",
    "max_pool_backward",
    "max_pool_gather",
    "max_pool_indices",
]

Numbers = tuple[int, ...]
_FEW = 4096  # elements that are not worth tiles
_INTEGERS = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


def max_pool(
    x: Array, out: Array, places: Array, *, kernel: Numbers, stride: Numbers, padding: Numbers, dilation: Numbers
) -> None:
    """The largest element of each window, and its place in it.

    Args:
        x: (*, *size), any strides.
        out: (*, *count).
        places: of the same shape; unsigned integers.
    """
    axes = len(kernel)
    windows = Windows(x.shape[x.ndim - axes :], out.shape[out.ndim - axes :], kernel, stride, padding, dilation)
    source, results, numbers = (_planes(array, axes) for array in (x, out, places))
    if 0 < source.size <= _FEW:
        cut = _side_by_side(windows)
        if cut is not None and _max_side_by_side(source, results, numbers, cut):
            return
    first = _first_places(windows, places.dtype) if any(padding) else None
    lowest, number_of = _lowest(out.dtype), places.dtype.type

    def run(where: slice, block: Block, mask: Array, work: Array) -> None:
        largest, number = results[(where, *block.where)], numbers[(where, *block.where)]
        seen, candidate = (buffer[: largest.size].reshape(largest.shape) for buffer in (mask, work))
        part, begun = source[where], False
        for count, (_, inside, seen_by, whole) in enumerate(windows.meetings(block)):
            if inside is None or seen_by is None:
                continue
            values = part[seen_by]
            if not begun:
                begun = True
                number[...] = 0 if first is None else first[block.where]
                if whole:
                    np.copyto(largest, values)
                    continue
                largest.fill(lowest)
            most, chosen, larger, place = largest, number, seen, candidate
            if not whole:
                most, chosen, larger, place = most[inside], chosen[inside], larger[inside], place[inside]
            np.greater(values, most, out=larger)
            # Numbers only grow: the largest of those that were ever larger is the last one.
            np.multiply(larger.view(np.uint8), number_of(count), out=place)
            np.maximum(chosen, place, out=chosen)
            np.maximum(most, values, out=most)
        if out.dtype.kind not in "iu" and np.isnan(largest, out=seen).any():
            _number_nans(part, number, windows, block, seen)

    _over_blocks(run, results, windows, [(out.dtype, BOOL), (out.dtype, places.dtype)])


class _Cut(NamedTuple):
    """How planes are cut into windows without gaps, overlaps or a rest.

    Attributes:
        shape: of a plane, with two axes for each: windows, and places in them.
        order: of the axes of planes, such that all windows come before all places.
        places: their numbers, in the shape of a window.
    """

    shape: Numbers
    order: Numbers
    places: Array

    def seen(self, x: Array) -> Array:
        """(planes, *size) as a view (planes, *count, *kernel)."""
        return x.reshape(len(x), *self.shape).transpose(self.order)


@functools.lru_cache(maxsize=128)
def _side_by_side(windows: Windows) -> _Cut | None:
    """How planes are cut; None if windows do not lie side by side."""
    if windows.kernel != windows.stride or any(windows.padding):
        return None
    cut = zip(windows.size, windows.counts, windows.kernel, windows.dilation, strict=True)
    if not all(size == count * kernel and step == 1 for size, count, kernel, step in cut):
        return None
    axes = len(windows.size)
    pairs = tuple(itertools.chain.from_iterable(zip(windows.counts, windows.kernel, strict=True)))
    order = 0, *range(1, 2 * axes, 2), *range(2, 2 * axes + 1, 2)
    return _Cut(pairs, order, np.arange(windows.places).reshape(windows.kernel))


def _max_side_by_side(x: Array, out: Array, places: Array, cut: _Cut) -> bool:
    """`max_pool` of windows side by side; False, and nothing done, if there is NaN."""
    seen = cut.seen(x).reshape(out.size, -1)
    largest = np.maximum.reduce(seen, axis=1)
    if np.isnan(largest).any():
        return False
    np.copyto(out, largest.reshape(out.shape))
    np.copyto(places, seen.argmax(axis=1).reshape(places.shape), casting="unsafe")
    return True


def _number_nans(x: Array, number: Array, windows: Windows, block: Block, seen: Array) -> None:
    for count, meeting in enumerate(windows.meetings(block)):
        if meeting.inside is not None and meeting.source is not None:
            np.isnan(x[meeting.source], out=seen[meeting.inside])
            np.copyto(number[meeting.inside], count, where=seen[meeting.inside], casting="unsafe")


def max_pool_backward(
    grad: Array, places: Array, out: Array, *, kernel: Numbers, stride: Numbers, padding: Numbers, dilation: Numbers
) -> None:
    """Zeros with each gradient added at the place that its window chose.

    Args:
        grad: (*, *count), any strides.
        places: as `max_pool` found them.
        out: (*, *size).
    """
    axes = len(kernel)
    windows = Windows(out.shape[out.ndim - axes :], grad.shape[grad.ndim - axes :], kernel, stride, padding, dilation)
    upstream, numbers, results = (_planes(array, axes) for array in (grad, places, out))
    if results.size == 0:
        return
    bits: Any = _INTEGERS[out.itemsize]  # a product with 0 that is 0 for NaN, too
    cut = _side_by_side(windows) if results.size <= _FEW else None
    if cut is not None:
        column = (*upstream.shape, *(1,) * axes)
        chosen = np.equal(numbers.reshape(column), cut.places)
        np.multiply(upstream.reshape(column).view(bits), chosen, out=cut.seen(results).view(bits))
        return
    blocks = windows.blocks(tile_size(1 << 30, out.dtype)) if windows.positions else []
    largest = max((block.length for block in blocks), default=1)
    together = _planes_together(len(results), largest, out.dtype)
    overlap = windows.overlap

    def run(index: int, mask: Array, work: Array) -> None:
        where = slice(index * together, (index + 1) * together)
        target = results[where]
        target.fill(0)
        for block in blocks:
            gradient, number = upstream[(where, *block.where)], numbers[(where, *block.where)]
            for count, (_, inside, seen_by, whole) in enumerate(windows.meetings(block)):
                if inside is None or seen_by is None:
                    continue
                given, place = (gradient, number) if whole else (gradient[inside], number[inside])
                chosen = mask[: given.size].reshape(given.shape)
                np.equal(place, count, out=chosen)
                into = target[seen_by]
                share = work[: into.size].reshape(into.shape) if overlap else into
                np.multiply(given.view(bits), chosen, out=share.view(bits))
                if overlap:
                    np.add(into, share, out=into)

    parallel_for(run, -(-len(results) // together), [((together * largest,), BOOL), ((together * largest,), out.dtype)])


def max_pool_gather(
    x: Array, places: Array, out: Array, *, kernel: Numbers, stride: Numbers, padding: Numbers, dilation: Numbers
) -> None:
    """What lies at the place that each window chose: the gradient of `max_pool_backward`.

    Args:
        x: (*, *size), any strides.
        places: as `max_pool` found them.
        out: (*, *count).
    """
    axes = len(kernel)
    windows = Windows(x.shape[x.ndim - axes :], out.shape[out.ndim - axes :], kernel, stride, padding, dilation)
    source, numbers, results = (_planes(array, axes) for array in (x, places, out))

    def run(where: slice, block: Block, mask: Array) -> None:
        target, number = results[(where, *block.where)], numbers[(where, *block.where)]
        target.fill(0)
        for count, meeting in enumerate(windows.meetings(block)):
            if meeting.inside is not None and meeting.source is not None:
                into = target[meeting.inside]
                chosen = mask[: into.size].reshape(into.shape)
                np.equal(number[meeting.inside], count, out=chosen)
                np.copyto(into, source[where][meeting.source], where=chosen)

    _over_blocks(run, results, windows, [(out.dtype, BOOL)])


def max_pool_indices(
    places: Array,
    out: Array,
    *,
    size: Numbers,
    kernel: Numbers,
    stride: Numbers,
    padding: Numbers,
    dilation: Numbers,
) -> None:
    """The numbers, among the elements of a plane of ``size``, of what `max_pool` found; ``out`` is int64."""
    axes = len(kernel)
    windows = Windows(size, out.shape[out.ndim - axes :], kernel, stride, padding, dilation)
    numbers, results = _planes(places, axes), _planes(out, axes)

    def run(where: slice, block: Block, work: Array) -> None:
        target, number = results[(where, *block.where)], numbers[(where, *block.where)]
        place = work[: target.size].reshape(target.shape)
        inner = windows.places
        target.fill(0)
        for axis in range(axes):
            inner //= kernel[axis]
            np.floor_divide(number, inner, out=place, casting="unsafe")
            np.remainder(place, kernel[axis], out=place)
            np.multiply(place, dilation[axis], out=place)
            start = np.arange(block.where[axis].start, block.where[axis].stop) * stride[axis] - padding[axis]
            np.add(place, start.reshape(-1, *(1,) * (axes - axis - 1)), out=place)
            np.multiply(target, size[axis], out=target)
            np.add(target, place, out=target)

    _over_blocks(run, results, windows, [(out.dtype, out.dtype)])


def _planes(x: Array, axes: int) -> Array:
    """(*, *sizes) with all the leading axes as one."""
    lead = x.ndim - axes
    shape = math.prod(x.shape[:lead]), *x.shape[lead:]
    if x.flags.c_contiguous:
        return x.reshape(shape)
    try:
        return x.reshape(shape, copy=False)
    except ValueError:
        return contiguous(x).reshape(shape)


def _lowest(dtype: Any) -> Any:
    return np.iinfo(dtype).min if dtype.kind in "iu" else dtype.type(-np.inf)


def _first_places(windows: Windows, dtype: Any) -> Array:
    """For each window the first place that lies in the array: what it finds where nothing is larger than -infinity."""
    found = scratch(windows.counts, dtype)
    found.fill(0)
    for axis, count in enumerate(windows.counts):
        before = np.maximum(windows.padding[axis] - np.arange(count) * windows.stride[axis], 0)
        place = -(-before // windows.dilation[axis]) * math.prod(windows.kernel[axis + 1 :])
        found += place.reshape(-1, *(1,) * (len(windows.counts) - axis - 1)).astype(dtype)
    return found


def _over_blocks(run: Callable[..., None], results: Array, windows: Windows, specs: list[tuple[Any, Any]]) -> None:
    """Call ``run(planes, block, scratch)`` for blocks of windows of some planes; scratch as large as the block."""
    if results.size == 0:
        return
    tile = tile_size(1 << 30, specs[0][0])
    blocks = windows.blocks(tile)
    largest = max(block.length for block in blocks)
    together = _planes_together(len(results), largest, specs[0][0])

    def task(index: int, *buffers: Array) -> None:
        group, number = divmod(index, len(blocks))
        run(slice(group * together, (group + 1) * together), blocks[number], *buffers)

    count = -(-len(results) // together) * len(blocks)
    parallel_for(task, count, [((together * largest,), dtype) for _, dtype in specs])


def _planes_together(planes: int, positions: int, dtype: Any) -> int:
    """How many planes make a tile: all if they are few elements, at most half of them otherwise."""
    if planes * positions <= UNTILED:
        return planes
    return max(1, min(tile_size(1 << 30, dtype) // positions, -(-planes // 2)))
