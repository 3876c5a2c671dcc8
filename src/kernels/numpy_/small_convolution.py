"""Convolutions of small images: a copy of what all windows see, and one product.

NOTE [ Small convolutions ]
1. Images are copied between zeros, so that what windows see is a view of the copy with more axes. That is copied once,
   as a matrix for each sample and group, whatever the number of places in a window.
2. A transposed convolution is the same: its images are spread, with the stride as the distance between elements, and
   the weights are turned round.
3. Where there is enough to copy, places along the first axis share a copy (as in NOTE [ Shared rows ]): what one of
   them sees lies some windows further on than with the place before. There is a product for each of them.
4. There is one tile. Larger images are better off with tiles of columns or with shared rows.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..executor import Array, blas_single_threaded, runs_alone, scratch
from ..windows import LastAxes, Windows
from .tiling import contiguous

__all__: list[str] = []

Numbers = tuple[int, ...]
MOST_BYTES = 1 << 20  # of all columns
_SHARED_BYTES = 1 << 18  # the same: with fewer, copying more takes less time than calling more
_DEEP = 20  # terms of a product: with fewer, adding up the products takes longer than they do


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


class Copies(NamedTuple):
    """How images are copied, between zeros and then as columns.

    Attributes:
        spread_shape: that of the first copy.
        target, source: which elements go where in it; none if ``target`` is None.
        zeros: whether there are zeros between them.
        unchanged: whether the first copy is what is copied, so that it isn't made.
        columns_shape: (samples, channels, *kernel, *counts).
        strides: what windows see in the first copy, in bytes.
        matrix: the columns as (samples, groups, channels of a group * places, windows).
        same: whether the columns are the images.
        first: places along the first axis, if these share the columns; otherwise 1.
        further: how many windows further on each of them begins.
        windows: how many of the columns one of them sees.
    """

    spread_shape: Numbers
    target: LastAxes | None
    source: LastAxes
    zeros: bool
    unchanged: bool
    columns_shape: Numbers
    strides: Numbers
    matrix: Numbers
    same: bool
    first: int
    further: int
    windows: int


def columns_bytes(shape: Geometry, samples: int, channels: int, itemsize: int) -> int:
    """What columns of all places take. Images are small up to `MOST_BYTES`."""
    return samples * channels * math.prod(shape.kernel) * math.prod(shape.counts) * itemsize


def geometry(windows: Windows) -> Geometry:
    """That of a convolution."""
    return Geometry(*windows, (1,) * len(windows.size))


def reverse_geometry(windows: Windows) -> Geometry:
    """That of the transposed convolution."""
    reach = zip(windows.kernel, windows.dilation, windows.padding, strict=True)
    before = tuple([step * (places - 1) - pad for places, step, pad in reach])
    ones = (1,) * len(windows.size)
    return Geometry(windows.counts, windows.size, windows.kernel, ones, before, windows.dilation, windows.stride)


def convolve(x: Array, weight: Array, bias: Array | None, out: Array, copy: Copies) -> None:
    """``out`` (samples, features, *counts) ``= weight * x + bias``."""
    columns = _columns(x, copy)
    samples, groups, depth, _ = columns.shape
    target = out.reshape(samples, groups, -1, copy.windows)
    if copy.first == 1:
        _product(contiguous(weight).reshape(groups, -1, depth), columns, target)
    else:
        matrices = _by_first_place(weight, groups, copy.first)
        more = scratch(target.shape, out.dtype)
        for place in range(copy.first):
            _product(matrices[place], _seen(columns, place, copy), more if place else target)
            if place:
                np.add(target, more, out=target)
    if bias is not None:
        np.add(out, bias.reshape(-1, *(1,) * (out.ndim - 2)), out=out)


def _by_first_place(weight: Array, groups: int, first: int) -> Array:
    """Weights as matrices for each place along the first axis: (places, groups, features, channels * other places)."""
    inputs = weight.shape[1]
    split = weight.reshape(groups, len(weight) // groups, inputs, first, -1).transpose(3, 0, 1, 2, 4)
    matrices = scratch(split.shape, weight.dtype)
    np.copyto(matrices, split)
    return matrices.reshape(*split.shape[:3], -1)


def _seen(columns: Array, place: int, copy: Copies) -> Array:
    """What one place along the first axis sees."""
    return columns[..., place * copy.further : place * copy.further + copy.windows]


def by_weights(x: Array, y: Array, out: Array, copy: Copies) -> None:
    """``out`` (features, channels of a group, *kernel): the sum over windows of what they see times their ``y``."""
    columns = _columns(x, copy)
    samples, groups, depth, _ = columns.shape
    given = contiguous(y).reshape(samples, groups, -1, copy.windows)
    features = given.shape[2]
    # What has more rows comes first in a product: BLAS takes 78 us in place of 127.
    columns_first = depth > features and not runs_alone(features, depth * copy.first, copy.windows)
    if copy.first > 1:
        _by_weights_of_places(columns, given, out, copy, columns_first)
        return
    target = out.reshape(groups, features, depth)
    if columns_first:
        products = scratch((samples, groups, depth, features), out.dtype)
        _product(columns, given.swapaxes(2, 3), products)
        np.add.reduce(products, axis=0, out=target.swapaxes(1, 2))
    elif samples == 1:
        _product(given[0], columns[0].swapaxes(1, 2), target)
    else:
        products = scratch((samples, groups, features, depth), out.dtype)
        _product(given, columns.swapaxes(2, 3), products)
        np.add.reduce(products, axis=0, out=target)


def _by_weights_of_places(columns: Array, y: Array, out: Array, copy: Copies, columns_first: bool) -> None:
    """`by_weights` for columns that the places along the first axis share."""
    samples, groups, depth, _ = columns.shape
    features = y.shape[2]
    shape = (depth, features) if columns_first else (features, depth)
    products = scratch((copy.first, samples, groups, *shape), out.dtype)
    for place in range(copy.first):
        seen = _seen(columns, place, copy)
        if columns_first:
            _product(seen, y.swapaxes(2, 3), products[place])
        else:
            _product(y, seen.swapaxes(2, 3), products[place])
    # (places, samples, groups, features, channels, other places) beside (groups, features, channels, places, others)
    found = products.swapaxes(3, 4) if columns_first else products
    found = found.reshape(copy.first, samples, groups, features, out.shape[1], -1)
    target = out.reshape(groups, features, out.shape[1], copy.first, -1).transpose(3, 0, 1, 2, 4)
    np.add.reduce(found, axis=1, out=target)


def _product(left: Array, right: Array, out: Array) -> None:
    """A product of stacks of matrices, whose bits do not depend on the number of threads."""
    if runs_alone(*out.shape[-2:], left.shape[-1], dtype=out.dtype):
        np.matmul(left, right, out=out)
    else:
        with blas_single_threaded():
            np.matmul(left, right, out=out)


def _columns(x: Array, copy: Copies) -> Array:
    """What windows see: (samples, groups, channels of a group * places, windows)."""
    dtype = x.dtype
    if copy.same:
        return contiguous(x).reshape(copy.matrix)
    size = math.prod(copy.matrix)
    if copy.unchanged:
        columns = scratch((size,), dtype)
        seen = np.ndarray(copy.columns_shape, dtype, contiguous(x), 0, copy.strides)
    else:
        columns = scratch((size + math.prod(copy.spread_shape),), dtype)
        spread = columns[size:].reshape(copy.spread_shape)
        if copy.zeros:
            spread.fill(0)
        if copy.target is not None:
            spread[copy.target] = x[copy.source]
        seen = np.ndarray(copy.columns_shape, dtype, spread, 0, copy.strides)
    np.copyto(np.ndarray(copy.columns_shape, dtype, columns), seen)
    return np.ndarray(copy.matrix, dtype, columns)


def copies(shape: Geometry, samples: int, channels: int, features: int, groups: int, itemsize: int) -> Copies:
    """How images (samples, channels, *size) are copied for results of so many features."""
    seen, along, further = math.prod(shape.counts), 1, 0
    if _shares_rows(shape, samples, channels, features, groups, itemsize):
        along, further = shape.kernel[0], shape.dilation[0] * math.prod(shape.counts[1:])
        rows = shape.counts[0] + (along - 1) * shape.dilation[0]
        shape = shape._replace(counts=(rows, *shape.counts[1:]), kernel=(1, *shape.kernel[1:]))
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
    spread_shape = samples, channels, *lengths
    steps = [math.prod(spread_shape[axis + 1 :]) * itemsize for axis in range(len(spread_shape))]
    by_place = [step * places for step, places in zip(steps[2:], shape.dilation)]
    by_window = [step * places for step, places in zip(steps[2:], shape.stride)]
    places, windows = math.prod(shape.kernel), math.prod(shape.counts)
    return Copies(
        spread_shape,
        None if empty else (..., *target),
        (..., *source),
        not whole,
        unchanged,
        (samples, channels, *shape.kernel, *shape.counts),
        (*steps[:2], *by_place, *by_window),
        (samples, groups, channels // groups * places, windows),
        unchanged and windows == math.prod(shape.size),
        along,
        further,
        seen,
    )


def _shares_rows(shape: Geometry, samples: int, channels: int, features: int, groups: int, itemsize: int) -> bool:
    """Whether places along the first axis share columns: products over features are added up, for fewer copies."""
    if len(shape.kernel) == 1 or shape.kernel[0] == 1 or shape.stride[0] != 1:
        return False
    if channels // groups * math.prod(shape.kernel[1:]) < max(_DEEP, features // groups):
        return False
    return columns_bytes(shape, samples, channels, itemsize) >= _SHARED_BYTES
