"""Convolutions of small images: a copy of what all windows see, and one product.

NOTE [ Small convolutions ]
1. Images are copied between zeros, so that what windows see is a view of the copy with more axes. That is copied once,
   as a matrix for each sample and group, whatever the number of places in a window.
2. A transposed convolution is the same: its images are spread, with the stride as the distance between elements, and
   the weights are turned round.
3. There is one tile. Larger images are better off with tiles of columns or with shared rows.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from ..executor import Array, blas_single_threaded, runs_alone, scratch, scratch_sets
from ..windows import LastAxes, Windows
from .tiling import contiguous

__all__: list[str] = []

Numbers = tuple[int, ...]
_MOST_BYTES = 1 << 20  # of all columns


class Geometry(NamedTuple):
    """Windows over spread images, one number for each axis.

    Attributes:
        size, counts, kernel, stride, padding, dilation: as in `Windows`, of the images as they are spread.
        spread: the distance of elements.
    """

    size: Numbers
    counts: Numbers
    kernel: Numbers
    stride: Numbers
    padding: Numbers
    dilation: Numbers
    spread: Numbers


class _Copy(NamedTuple):
    """How images are copied.

    Attributes:
        lengths: the sizes of the copy.
        target, source: which elements go where; none if ``target`` is None.
        zeros: whether there are zeros between them.
        unchanged: whether the copy is what is copied.
    """

    lengths: Numbers
    target: LastAxes | None
    source: LastAxes
    zeros: bool
    unchanged: bool


def pays(shape: Geometry, samples: int, channels: int, itemsize: int) -> bool:
    """Whether images are small."""
    return samples * channels * math.prod(shape.kernel) * math.prod(shape.counts) * itemsize <= _MOST_BYTES


def geometry(windows: Windows) -> Geometry:
    """That of a convolution."""
    return Geometry(*windows, (1,) * len(windows.size))


@functools.lru_cache(maxsize=128)
def reverse_geometry(windows: Windows) -> Geometry:
    """That of the transposed convolution."""
    reach = zip(windows.kernel, windows.dilation, windows.padding, strict=True)
    before = tuple([step * (places - 1) - pad for places, step, pad in reach])
    ones = (1,) * len(windows.size)
    return Geometry(windows.counts, windows.size, windows.kernel, ones, before, windows.dilation, windows.stride)


def convolve(x: Array, weight: Array, bias: Array | None, out: Array, shape: Geometry, groups: int) -> None:
    """``out`` (samples, features, *counts) ``= weight * x + bias``."""
    columns = _columns(x, shape, groups)
    matrices = contiguous(weight).reshape(groups, len(weight) // groups, -1)
    _product(matrices, columns, out.reshape(len(x), groups, matrices.shape[1], columns.shape[3]))
    if bias is not None:
        np.add(out, bias.reshape(-1, *(1,) * len(shape.size)), out=out)


def by_weights(x: Array, y: Array, out: Array, shape: Geometry, groups: int) -> None:
    """``out`` (features, channels of a group, *kernel): the sum over windows of what they see times their ``y``."""
    columns = _columns(x, shape, groups).swapaxes(2, 3)
    given = contiguous(y).reshape(len(x), groups, len(out) // groups, columns.shape[2])
    target = out.reshape(1, groups, given.shape[2], columns.shape[3])
    if len(x) == 1:
        _product(given, columns, target)
    else:
        products = scratch((len(x), *target.shape[1:]), out.dtype)
        _product(given, columns, products)
        np.add.reduce(products, axis=0, out=target[0])


def _product(left: Array, right: Array, out: Array) -> None:
    """A product of stacks of matrices, whose bits do not depend on the number of threads."""
    if runs_alone(*out.shape[-2:], left.shape[-1]):
        np.matmul(left, right, out=out)
    else:
        with blas_single_threaded():
            np.matmul(left, right, out=out)


def _columns(x: Array, shape: Geometry, groups: int) -> Array:
    """What windows see: (samples, groups, channels of a group * places, windows)."""
    samples, channels = x.shape[:2]
    copy = _copy(shape)
    matrix = samples, groups, channels // groups * math.prod(shape.kernel), math.prod(shape.counts)
    if copy.unchanged and matrix[3] == math.prod(shape.size):
        return contiguous(x).reshape(matrix)
    spread_shape = samples, channels, *copy.lengths
    columns_shape = samples, channels, *shape.kernel, *shape.counts
    columns, spread = scratch_sets(1, [(columns_shape, x.dtype), (() if copy.unchanged else spread_shape, x.dtype)])[0]
    if copy.unchanged:
        spread = contiguous(x)
    else:
        if copy.zeros:
            spread.fill(0)
        if copy.target is not None:
            spread[copy.target] = x[copy.source]
    steps = spread.strides[2:]
    by_place = [step * places for step, places in zip(steps, shape.dilation)]
    by_window = [step * places for step, places in zip(steps, shape.stride)]
    strides = (*spread.strides[:2], *by_place, *by_window)
    np.copyto(columns, np.ndarray(columns_shape, x.dtype, spread, 0, strides))
    return columns.reshape(matrix)


@functools.lru_cache(maxsize=128)
def _copy(shape: Geometry) -> _Copy:
    lengths, target, source = [], [], []
    empty, whole = False, True
    for size, count, kernel, stride, padding, dilation, spread in zip(*shape, strict=True):
        length = (count - 1) * stride + (kernel - 1) * dilation + 1
        first = max(0, -(padding // spread))
        stop = min(size, (length - 1 - padding) // spread + 1)
        lengths.append(length)
        target.append(slice(padding + first * spread, padding + (stop - 1) * spread + 1, spread))
        source.append(slice(first, stop))
        empty, whole = empty or stop <= first, whole and stop - first == length
    unchanged = whole and tuple(lengths) == shape.size
    return _Copy(tuple(lengths), None if empty else (..., *target), (..., *source), not whole, unchanged)
